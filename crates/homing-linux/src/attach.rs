//! A running process that records itself asks for a wire: `homing record --pid`.
//!
//! `recorders/tsan/attach.c` is the other end. It looks for an abstract Unix socket that is called after its process.
//! Its question is "attach", the recorder's name and a command line, each ended by a zero byte, then the end of the
//! stream; the answer is one byte ([`ALL`]) with the wire's descriptors ([`crate::channel::Channel::hand_over`]). The
//! kernel vouches for the process id of who asks.

use crate::follow::Process;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{pidfd_open, Pid, PidfdFlags};
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// What the socket is called, before the process id (`HOMING_ATTACH_SOCKET`).
pub const SOCKET: &str = "homing-attach-";

/// The byte that comes with the descriptors.
pub const ALL: u8 = b'a';
/// The same where what the C library does for the program is left out (`HOMING_ATTACH_ONLY_PROGRAM`).
pub const ONLY_PROGRAM: u8 = b'p';

const LONGEST_QUESTION: u64 = 1 << 16;
const PATIENCE: Duration = Duration::from_secs(2);

/// Why nobody can wait for a process.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It is not there.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// Its sockets are others than ours.
    #[error(
        "process {0} is in another network namespace (a container), where this homing cannot be found: run homing \
         inside the container, or with `nsenter --net --target {0}`"
    )]
    OtherNetwork(u32),
    /// It is told nothing of what other users want.
    #[error("process {0} belongs to another user: record it as that user or as root")]
    OtherUser(u32),
    /// Somebody waits already.
    #[error("process {0} is being attached to by another homing")]
    Busy(u32),
    /// A system call failed.
    #[error("cannot wait for process {pid}: {source}")]
    System {
        /// The process.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Where one process asks.
#[derive(Debug)]
pub struct Door {
    listener: UnixListener,
    pid: u32,
    process: Process,
}

/// A process that waits for its wire.
#[derive(Debug)]
pub struct Asking {
    /// Where the answer goes.
    pub stream: UnixStream,
    /// What records in it: `tsan` or `clang`.
    pub recorder: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

impl Door {
    /// Opens the door of a process.
    ///
    /// # Errors
    /// If there is no such process, it cannot find this one, or somebody else waits for it.
    pub fn open(pid: u32) -> Result<Door, AttachError> {
        let system = |source: io::Error| AttachError::System { pid, source };
        let number = Pid::from_raw(pid.cast_signed()).ok_or(AttachError::NoProcess(pid))?;
        let process = match pidfd_open(number, PidfdFlags::empty()) {
            Ok(pidfd) => Process::of(pidfd),
            Err(Errno::SRCH) => return Err(AttachError::NoProcess(pid)),
            Err(errno) => return Err(system(errno.into())),
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let (user, ours) = (effective_user(&status), rustix::process::geteuid());
        if !ours.is_root() && user.is_some_and(|user| user != ours.as_raw()) {
            return Err(AttachError::OtherUser(pid));
        }
        let network = |of: &str| std::fs::read_link(Path::new("/proc").join(of).join("ns/net"));
        if let (Ok(its), Ok(ours)) = (network(&pid.to_string()), network("self")) {
            if its != ours {
                return Err(AttachError::OtherNetwork(pid));
            }
        }
        let name = format!("{SOCKET}{}", own_number(&status).unwrap_or(pid));
        let address = SocketAddr::from_abstract_name(name).map_err(system)?;
        let listener = match UnixListener::bind_addr(&address) {
            Ok(listener) => listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(AttachError::Busy(pid)),
            Err(error) => return Err(system(error)),
        };
        Ok(Door { listener, pid, process })
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Waits up to `timeout` for the process to ask; `None`: it has not, or someone else has.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<Asking>> {
        let millis = timeout.as_millis().min(i32::MAX as u128) as i32;
        match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], millis) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(errno.into()),
        }
        let (stream, _) = self.listener.accept()?;
        let who = rustix::net::sockopt::get_socket_peercred(&stream)?;
        if who.pid.as_raw_nonzero().get().unsigned_abs() != self.pid {
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
        match (parts.next().as_deref(), parts.next()) {
            (Some("attach"), Some(recorder)) => {
                Ok(Some(Asking { stream, recorder, command: parts.collect() }))
            }
            _ => Ok(None),
        }
    }
}

/// What a process calls itself, from its `status`: in its own namespace it has another number.
fn own_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// The user whose rights it has, from its `status`.
fn effective_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Capacity, Channel, Received};
    use std::io::Write;
    use std::net::Shutdown;

    #[test]
    fn a_process_asks_and_gets_a_wire() {
        let pid = std::process::id();
        let door = Door::open(pid).unwrap();
        assert!(matches!(Door::open(pid), Err(AttachError::Busy(_))));
        assert!(door.wait(Duration::ZERO).unwrap().is_none());
        let ask = |question: &[u8]| {
            let address = SocketAddr::from_abstract_name(format!("{SOCKET}{pid}")).unwrap();
            let mut stream = UnixStream::connect_addr(&address).unwrap();
            stream.write_all(question).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        };
        for nonsense in [&b""[..], b"fork\0x\0", b"attach", b"\xff\0\0"] {
            let _stream = ask(nonsense);
            assert!(door.wait(PATIENCE).unwrap().is_none(), "{nonsense:?}");
        }
        let stream = ask(b"attach\0clang\0./server\0-p 1\0");
        let asking = door.wait(PATIENCE).unwrap().unwrap();
        assert_eq!((asking.recorder.as_str(), asking.command.len()), ("clang", 2));
        let mut channel = Channel::new(Capacity { segments: 2, segment_words: 4096 }).unwrap();
        channel.hand_over(&asking.stream, ALL).unwrap();
        assert!(channel.hand_over(&asking.stream, ALL).is_err(), "there is one recorder");
        let files = received(&stream);
        assert_eq!(files.len(), 3);
        assert!(matches!(channel.receive(Duration::ZERO).unwrap(), Received::Idle));
        drop(files);
        // A process that another test begins just now has the files, too, until it executes its program.
        assert!(matches!(channel.receive(PATIENCE).unwrap(), Received::Closed));
    }

    fn received(stream: &UnixStream) -> Vec<std::os::fd::OwnedFd> {
        use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
        let (mut room, mut byte) = (vec![0; rustix::cmsg_space!(ScmRights(3))], [0]);
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let mut data = [io::IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(stream, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(files) => Some(files.collect::<Vec<_>>()),
            _ => None,
        });
        rights.flatten().collect()
    }

    #[test]
    fn one_that_is_not_there_is_told() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(matches!(Door::open(child.id()), Err(AttachError::NoProcess(_))));
        assert!(matches!(Door::open(0), Err(AttachError::NoProcess(0))));
        let status = "Name:\tx\nUid:\t1000\t33\t1000\t1000\nNSpid:\t4021\t7\n";
        assert_eq!((own_number(status), effective_user(status)), (Some(7), Some(33)));
        assert_eq!((own_number(""), effective_user("Uid:")), (None, None));
    }
}
