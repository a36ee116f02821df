//! Child processes that must not outlive this one.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Puts the child of `command` into a process group of its own, so that the terminal's signals do not reach it (and it
/// may not use the terminal), and lets it die with us.
pub fn own_group_dying_with_us(command: &mut Command) {
    command.process_group(0);
    dying_with_us(command);
}

/// Lets the kernel kill the child of `command` when the thread that spawns it ends, however that happens: spawn it from
/// one that lives long enough.
pub fn dying_with_us(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and calls only prctl and getppid, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the prctl: then nobody would ever kill this process.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::other("the starting process has ended"));
            }
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    #[test]
    fn the_child_dies_with_the_thread_that_spawned_it() {
        let mut child = std::thread::spawn(|| {
            let mut command = Command::new("cat");
            own_group_dying_with_us(&mut command);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
        })
        .join()
        .unwrap();
        let mut text = String::new();
        // cat would wait for its input for ever.
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
