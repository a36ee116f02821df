//! Descriptors that a child process inherits though they are close-on-exec here.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives the child of `command` the writing end of a new pipe; returns the reading end and the number that the child
/// knows the other one by. The command holds the writing end: drop it after spawning, or the pipe never ends.
pub fn pipe_from_child(command: &mut Command) -> io::Result<(File, i32)> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((File::from(reader), pass(command, writer)))
}

/// Gives the child of `command` a descriptor; returns the number that it knows it by. The command holds it until
/// dropped.
pub fn pass(command: &mut Command, descriptor: OwnedFd) -> i32 {
    let number = descriptor.as_raw_fd();
    // SAFETY: the closure runs between fork and exec and calls only fcntl, which is async-signal-safe; it owns the
    // descriptor, which is therefore open.
    unsafe {
        command.pre_exec(move || {
            let fd = BorrowedFd::borrow_raw(descriptor.as_raw_fd());
            rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
            Ok(())
        });
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_child_writes_and_then_nobody_holds_it() {
        let mut command = Command::new("sh");
        let (mut reader, number) = pipe_from_child(&mut command).unwrap();
        command.args(["-c", &format!("echo hello >/dev/fd/{number}")]);
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello\n");
        assert!(child.wait().unwrap().success());
    }
}
