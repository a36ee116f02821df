//! Waiting until something happens instead of looking now and then: for the end of processes, for rings that fill up.

use crate::proc::Pid;
use rustix::event::{poll, EventfdFlags, PollFd, PollFlags};
use rustix::process::{pidfd_open, PidfdFlags};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// A descriptor that becomes readable when the process ends.
///
/// # Errors
/// ESRCH if it has ended and was waited for, EMFILE.
pub fn end_of(pid: Pid) -> io::Result<OwnedFd> {
    let none = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = rustix::process::Pid::from_raw(pid.0).ok_or_else(none)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until one of these can be read, a signal comes, or `limit` is over. Returns the places of those that can be
/// read.
///
/// # Errors
/// What `poll(2)` gives.
pub fn readable(descriptors: &[BorrowedFd<'_>], limit: Duration) -> io::Result<Vec<usize>> {
    let wanted = descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    happened(wanted, limit, PollFlags::IN)
}

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Something to read.
    Reading,
    /// Room to write.
    Writing,
}

/// As [`readable`], for sockets that are read or written; one whose other end is gone is ready, too.
///
/// # Errors
/// What `poll(2)` gives.
pub fn ready(sockets: &[(BorrowedFd<'_>, For)], limit: Duration) -> io::Result<Vec<usize>> {
    let flags = |what| if what == For::Reading { PollFlags::IN } else { PollFlags::OUT };
    let wanted = sockets.iter().map(|(fd, what)| PollFd::from_borrowed_fd(*fd, flags(*what))).collect();
    happened(wanted, limit, PollFlags::all())
}

/// The places of those to which one of `what` happens.
fn happened(mut polled: Vec<PollFd<'_>>, limit: Duration, what: PollFlags) -> io::Result<Vec<usize>> {
    // Rounded up: a wait that is too short by part of a millisecond would be made again and again.
    let limit = i32::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    match poll(&mut polled, limit) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let ready = |(place, fd): (usize, &PollFd<'_>)| fd.revents().intersects(what).then_some(place);
    Ok(polled.iter().enumerate().filter_map(ready).collect())
}

/// Wakes a thread that waits for it.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A new one.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// What can be read once it was called, until that was noticed.
    ///
    /// # Errors
    /// EMFILE.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Wakes whoever waits, or who waits next.
    pub fn wake(&self) {
        // It fails where it was called 2^64 times already: then somebody will wake.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }

    /// Whether it was called since the last time.
    pub fn was_called(&self) -> bool {
        rustix::io::read(&*self.0, &mut [0; 8]).is_ok()
    }
}

/// Bytes that were written to a pipe and not read yet.
///
/// # Errors
/// What `ioctl(2)` gives.
pub fn unread(pipe: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(pipe)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};

    #[test]
    fn a_waker_is_noticed_once_however_often_it_was_called() {
        let waker = Waker::new().unwrap();
        let waits = waker.descriptor().unwrap();
        let ready = || readable(&[waits.as_fd()], Duration::from_millis(1)).unwrap().len();
        assert_eq!((ready(), waker.was_called()), (0, false));
        (0..3).for_each(|_| waker.wake());
        assert_eq!((ready(), waker.was_called(), ready(), waker.was_called()), (1, true, 0, false));
    }

    #[test]
    fn the_end_of_a_process_wakes() {
        let mut children = [(); 2].map(|()| Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        let ends: Vec<OwnedFd> =
            children.iter().map(|child| end_of(Pid(child.id() as i32)).unwrap()).collect();
        let ends: Vec<BorrowedFd<'_>> = ends.iter().map(|end| end.as_fd()).collect();
        assert!(readable(&ends, Duration::from_millis(1)).unwrap().is_empty());
        drop(children[1].stdin.take());
        assert_eq!(readable(&ends, Duration::from_secs(60)).unwrap(), [1]);
        drop(children[0].stdin.take());
        children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
        let (mut reader, mut writer) = io::pipe().unwrap();
        io::Write::write_all(&mut writer, b"four").unwrap();
        assert_eq!((unread(writer.as_fd()).unwrap(), unread(reader.as_fd()).unwrap()), (4, 4));
        io::Read::read_exact(&mut reader, &mut [0; 4]).unwrap();
        assert_eq!(unread(writer.as_fd()).unwrap(), 0);
        assert_eq!(end_of(Pid(i32::MAX)).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
