//! Child processes: those that must not outlive this one, and the end of those that this one also traces.

use crate::proc::Pid;
use crate::wait;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// The end of a child that a thread of this process may trace. `waitpid(2)` would report the child's stops to any
/// thread of this process, take them from the tracer, and look like the end; a descriptor of the process does not.
#[derive(Debug)]
pub struct End {
    child: Child,
    ended: OwnedFd,
}

impl End {
    /// Of a child that nobody has waited for.
    ///
    /// # Errors
    /// EMFILE; the child comes back with it.
    pub fn of(child: Child) -> Result<End, (Child, io::Error)> {
        match wait::end_of(Pid(child.id() as i32)) {
            Ok(ended) => Ok(End { child, ended }),
            Err(error) => Err((child, error)),
        }
    }

    /// The child.
    pub fn child(&self) -> &Child {
        &self.child
    }

    /// What can be read once it has ended.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Its status, if it has ended.
    ///
    /// # Errors
    /// What `poll(2)` gives.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.within(Duration::ZERO)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// What `poll(2)` gives.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        loop {
            // A signal cuts a wait short.
            if let Some(status) = self.within(Duration::from_secs(60))? {
                return Ok(status);
            }
        }
    }

    /// Waits for its end at most that long; a signal that this process catches cuts it short.
    ///
    /// # Errors
    /// What `poll(2)` gives.
    pub fn within(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let ended = !wait::readable(&[self.ended.as_fd()], limit)?.is_empty();
        ended.then(|| self.child.wait()).transpose()
    }
}

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

/// Lets the child of `command` write to a file that it is there ("0"), before it executes its program: a cgroup's
/// `cgroup.procs` takes it in so.
///
/// # Errors
/// If the path has a byte 0.
pub fn enters(command: &mut Command, file: &Path) -> io::Result<()> {
    let file = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the closure runs between fork and exec and calls only open, write and close, which are async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            let descriptor = libc::open(file.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            let written = libc::write(descriptor, c"0".as_ptr().cast(), 1);
            let error = io::Error::last_os_error();
            libc::close(descriptor);
            if written == 1 {
                Ok(())
            } else {
                Err(error)
            }
        });
    }
    Ok(())
}

/// CPU time of all children of this process that have ended and were waited for, and of theirs.
pub fn cpu_of_ended() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills the structure, which is valid with zeroes, too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{Proc, Tid};
    use std::io::Read;
    use std::process::Stdio;
    use std::sync::mpsc::channel;
    use std::time::Instant;

    #[test]
    fn a_stop_of_a_traced_child_is_not_its_end_and_stays_its_tracers() {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let mut end = End::of(child).unwrap();
        let ((stop, stopped), (go_on, may_go_on)) = (channel(), channel::<()>());
        let tracer = std::thread::spawn(move || {
            let none = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: requests without pointers, to a child of this process.
            let ask = |request| unsafe { libc::ptrace(request, pid, none, none) };
            assert_eq!((ask(libc::PTRACE_SEIZE), ask(libc::PTRACE_INTERRUPT)), (0, 0));
            let begin = Instant::now();
            while Proc::default().stat(Pid(pid), Tid(pid)).unwrap().state != 't' {
                assert!(begin.elapsed() < Duration::from_secs(20));
                std::thread::yield_now();
            }
            stop.send(()).unwrap();
            may_go_on.recv().unwrap();
            let mut status = 0;
            // SAFETY: the kernel writes the status.
            let seen = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL | libc::WNOHANG) };
            assert!(seen == pid && libc::WIFSTOPPED(status), "the tracer gets the stop");
            assert_eq!(ask(libc::PTRACE_DETACH), 0);
        });
        stopped.recv().unwrap();
        assert_eq!(end.status().unwrap(), None);
        go_on.send(()).unwrap();
        tracer.join().unwrap();
        drop(end.child.stdin.take());
        assert!(end.wait().unwrap().success());
        assert!(end.status().unwrap().unwrap().success(), "it stays so");
    }

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
