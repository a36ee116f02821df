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
use std::time::{Duration, Instant};

const LONGEST_QUESTION: usize = 1 << 16;
/// How long a process may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Processes that have come and not asked yet; of more, the first is turned away.
const MOST_SILENT: usize = 256;

/// Where processes ask.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    name: String,
    /// In the order in which they came.
    silent: Vec<Asking>,
    /// How long a process may take to ask.
    patience: Duration,
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
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(Door { listener, name, silent: Vec::new(), patience: PATIENCE });
                }
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

    /// Waits for the next process of this user that has asked; `None`: someone else, or one that did not ask as agreed.
    /// One that says nothing keeps nobody waiting.
    pub fn next_visitor(&mut self) -> io::Result<Option<Visitor>> {
        loop {
            let now = Instant::now();
            self.silent.retain(|asking| asking.until > now);
            let longest = self.silent.iter().map(|asking| asking.until - now).min();
            // Rounded up: none is looked at again before its time is over.
            let millis = longest.map_or(-1, |wait| wait.as_millis().min(i32::MAX as u128 - 1) as i32 + 1);
            let streams = self.silent.iter().map(|asking| PollFd::new(&asking.stream, PollFlags::IN));
            let mut files: Vec<_> =
                [PollFd::new(&self.listener, PollFlags::IN)].into_iter().chain(streams).collect();
            match poll(&mut files, millis) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let ready: Vec<bool> = files.iter().map(|file| !file.revents().is_empty()).collect();
            if let Some(at) = ready[1..].iter().position(|&ready| ready) {
                match self.silent[at].listen() {
                    Heard::Part => {}
                    Heard::All => return self.silent.remove(at).visitor(),
                    Heard::Nonsense => {
                        self.silent.remove(at);
                        return Ok(None);
                    }
                }
            } else if ready[0] && !self.accept()? {
                return Ok(None);
            }
        }
    }

    /// Lets the next process in; false if it is not this user's.
    fn accept(&mut self) -> io::Result<bool> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        };
        let who = rustix::net::sockopt::get_socket_peercred(&stream)?;
        if who.uid != rustix::process::geteuid() {
            return Ok(false);
        }
        stream.set_nonblocking(true)?;
        if self.silent.len() == MOST_SILENT {
            self.silent.remove(0);
        }
        let pid = who.pid.as_raw_nonzero().get().unsigned_abs();
        self.silent.push(Asking { stream, pid, question: Vec::new(), until: Instant::now() + self.patience });
        Ok(true)
    }
}

/// How much of a question has come.
enum Heard {
    Part,
    All,
    Nonsense,
}

/// A process that has not asked yet, at least not all of its question.
#[derive(Debug)]
struct Asking {
    stream: UnixStream,
    pid: u32,
    question: Vec<u8>,
    until: Instant,
}

impl Asking {
    /// Takes what has come.
    fn listen(&mut self) -> Heard {
        let mut some = [0; 4096];
        loop {
            match self.stream.read(&mut some) {
                Ok(0) => return Heard::All,
                Ok(read) => self.question.extend_from_slice(&some[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Part,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Heard::Nonsense,
            }
            if self.question.len() > LONGEST_QUESTION {
                return Heard::Nonsense;
            }
        }
    }

    /// Who has asked; `None`: not as agreed.
    fn visitor(self) -> io::Result<Option<Visitor>> {
        let Asking { stream, pid, question, .. } = self;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let text = String::from_utf8_lossy(&question);
        let mut parts = text.strip_suffix('\0').unwrap_or(&text).split('\0').map(str::to_owned);
        let since = match parts.next().as_deref() {
            Some("fork") => Since::Fork,
            Some("exec") => Since::Exec,
            _ => return Ok(None),
        };
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
    fn who_says_nothing_keeps_nobody_waiting() {
        let mut door = Door::open().unwrap();
        let address = SocketAddr::from_abstract_name(&door.name).unwrap();
        door.patience = Duration::from_secs(3600);
        let silent: Vec<_> = (0..100).map(|_| UnixStream::connect_addr(&address).unwrap()).collect();
        let mut half = UnixStream::connect_addr(&address).unwrap();
        half.write_all(b"fork\0half").unwrap();
        let _whole = ask(&door, b"fork\0whole\0");
        assert_eq!(door.next_visitor().unwrap().unwrap().command, ["whole"]);
        half.shutdown(Shutdown::Write).unwrap();
        assert_eq!(door.next_visitor().unwrap().unwrap().command, ["half"]);
        assert_eq!(silent.len(), door.silent.len());
    }

    #[test]
    fn a_process_asks_and_is_answered() {
        let mut door = Door::open().unwrap();
        assert_ne!(Door::open().unwrap().address(), door.address());
        let mut stream = ask(&door, b"exec\0/bin/sort\0-k 1\0");
        let visitor = door.next_visitor().unwrap().unwrap();
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
        let mut door = Door::open().unwrap();
        for question in [&b""[..], b"fork?", b"\xff\0\0\0"] {
            let _stream = ask(&door, question);
            assert!(door.next_visitor().unwrap().is_none());
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
