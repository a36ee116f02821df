//! Child processes that are recorded, too: each asks, over an abstract Unix socket, for a wire of its own.
//!
//! `recorders/valgrind/follow.c` is the other end. A question is "fork" or "exec" and a command line, each ended by a
//! zero byte, then the end of the stream; the answer is the address of a wire ([`crate::channel::Channel::address`])
//! or nothing. The kernel vouches for the process id of who asks.

use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{pidfd_open, pidfd_send_signal, Pid, PidfdFlags, Signal};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

const LONGEST_QUESTION: u64 = 1 << 16;
const PATIENCE: Duration = Duration::from_secs(10);

/// Where processes ask.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    name: String,
}

/// What has happened to the process that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// It was forked.
    Fork,
    /// It executed a program.
    Exec,
}

/// A process that waits for an answer.
#[derive(Debug)]
pub struct Visitor {
    stream: UnixStream,
    /// Its process id.
    pub pid: u32,
    /// Why it asks.
    pub since: Since,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Door {
    /// Opens a door whose name no other process has.
    pub fn open() -> io::Result<Door> {
        for attempt in 0..1000 {
            let name = format!("homing-{}-{attempt}", std::process::id());
            match UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?) {
                Ok(listener) => return Ok(Door { listener, name }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AddrInUse.into())
    }

    /// The socket's abstract name, with an `@` before it as recorders want it.
    pub fn address(&self) -> String {
        format!("@{}", self.name)
    }

    /// Waits for the next process of this user; `None`: someone else, or one that did not ask as agreed.
    pub fn next(&self) -> io::Result<Option<Visitor>> {
        let (stream, _) = self.listener.accept()?;
        let who = rustix::net::sockopt::get_socket_peercred(&stream)?;
        if who.uid != rustix::process::geteuid() {
            return Ok(None);
        }
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut question = Vec::new();
        if (&stream).take(LONGEST_QUESTION).read_to_end(&mut question).is_err() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&question);
        let mut parts = text.strip_suffix('\0').unwrap_or(&text).split('\0').map(str::to_owned);
        let since = match parts.next().as_deref() {
            Some("fork") => Since::Fork,
            Some("exec") => Since::Exec,
            _ => return Ok(None),
        };
        let pid = who.pid.as_raw_nonzero().get().unsigned_abs();
        Ok(Some(Visitor { stream, pid, since, command: parts.collect() }))
    }
}

impl Visitor {
    /// A handle to the process, which is there as long as it waits for its answer.
    pub fn process(&self) -> io::Result<Process> {
        let pid = Pid::from_raw(self.pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Process { pidfd: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Tells it the address of its wire. `None`: it is not to be recorded.
    pub fn answer(mut self, address: Option<&str>) -> io::Result<()> {
        self.stream.write_all(address.unwrap_or_default().as_bytes())
    }
}

/// A process that is no child of ours.
#[derive(Debug)]
pub struct Process {
    pidfd: OwnedFd,
}

impl Process {
    /// That of a pidfd.
    pub(crate) fn of(pidfd: OwnedFd) -> Process {
        Process { pidfd }
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> io::Result<bool> {
        match poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], 0) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sends it a signal; one that has ended gets none.
    pub fn signal(&self, signal: i32) -> io::Result<()> {
        let signal = Signal::from_raw(signal).ok_or(io::ErrorKind::InvalidInput)?;
        match pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Shutdown;

    fn ask(door: &Door, question: &[u8]) -> UnixStream {
        let address = SocketAddr::from_abstract_name(&door.name).unwrap();
        let mut stream = UnixStream::connect_addr(&address).unwrap();
        stream.write_all(question).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream
    }

    #[test]
    fn a_process_asks_and_is_answered() {
        let door = Door::open().unwrap();
        assert_ne!(Door::open().unwrap().address(), door.address());
        let mut stream = ask(&door, b"exec\0/bin/sort\0-k 1\0");
        let visitor = door.next().unwrap().unwrap();
        assert_eq!((visitor.pid, visitor.since), (std::process::id(), Since::Exec));
        assert_eq!(visitor.command, ["/bin/sort", "-k 1"]);
        assert!(!visitor.process().unwrap().has_ended().unwrap());
        visitor.answer(Some("1,2,3,4")).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "1,2,3,4");
    }

    #[test]
    fn nonsense_is_turned_away() {
        let door = Door::open().unwrap();
        for question in [&b""[..], b"fork?", b"\xff\0\0\0"] {
            let _stream = ask(&door, question);
            assert!(door.next().unwrap().is_none());
        }
    }

    #[test]
    fn the_end_of_a_process_shows() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let process = Process { pidfd: pidfd_open(pid, PidfdFlags::empty()).unwrap() };
        assert!(!process.has_ended().unwrap());
        process.signal(libc::SIGKILL).unwrap();
        child.wait().unwrap();
        assert!(process.has_ended().unwrap());
        process.signal(libc::SIGTERM).unwrap();
    }
}
