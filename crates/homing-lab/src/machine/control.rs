//! The control port: lines from the guest's first process, with the contents of files between them (lab/guest/init.c).

use crate::LabError;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// What the guest says.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// It is up and waits for what to run.
    Ready,
    /// Something that the user should know.
    Note(String),
    /// A file that the command made or changed.
    File {
        /// Its name.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Its content.
        bytes: Vec<u8>,
    },
    /// Of a command whose memory was to begin on some nodes: it has just been given all others, or never was.
    Held {
        /// It never was.
        to_the_end: bool,
        /// Bytes that had been allocated on these nodes.
        bytes: u64,
    },
    /// So often something happened in the kernel while the command ran (`/proc/vmstat`).
    Count(String, u64),
    /// The command has ended.
    Exit {
        /// With this status.
        status: u8,
        /// Bytes that this and earlier jobs wrote to stdout and stderr. The machine waits for what to do next until the
        /// host has read them.
        sent: [u64; 2],
    },
}

/// The host's end of the control port.
#[derive(Debug)]
pub struct Control {
    stream: UnixStream,
    /// Read, but not yet understood.
    pending: Vec<u8>,
}

impl Control {
    pub(super) fn new(stream: UnixStream) -> Control {
        Control { stream, pending: Vec::new() }
    }

    /// The next message; `Ok(None)` if none came in time or a signal came.
    ///
    /// # Errors
    /// If the machine is gone, or says what is not understood.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Message>, LabError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            if !self.wait(patience)? {
                return Ok(None);
            }
            let mut buffer = [0; 1 << 16];
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(length) => self.pending.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
                Err(error) => return Err(gone(error)),
            }
        }
    }

    /// Passes a signal on to the command.
    pub fn signal(&mut self, number: i32) -> Result<(), LabError> {
        self.stream.write_all(format!("signal {number}\n").as_bytes()).map_err(gone)
    }

    /// Starts a job, counted from 0. Nothing of the one before is on its way any more.
    pub fn run(&mut self, job: usize) -> Result<(), LabError> {
        self.stream.write_all(format!("run {job}\n").as_bytes()).map_err(gone)
    }

    /// Ends all processes of the job that runs.
    pub fn kill(&mut self) -> Result<(), LabError> {
        self.stream.write_all(b"kill\n").map_err(gone)
    }

    /// Tells the guest that all it sent has come: it switches off.
    pub fn end(&mut self) -> Result<(), LabError> {
        self.stream.write_all(b"end\n").map_err(gone)
    }

    fn wait(&self, patience: Duration) -> Result<bool, LabError> {
        let mut waiting =
            [rustix::event::PollFd::from_borrowed_fd(self.stream.as_fd(), rustix::event::PollFlags::IN)];
        match rustix::event::poll(&mut waiting, patience.as_millis().try_into().unwrap_or(i32::MAX)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(gone(error.into())),
        }
    }

    /// A whole message from what is pending.
    fn take(&mut self) -> Result<Option<Message>, LabError> {
        let Some(length) = self.pending.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(&self.pending[..length]).into_owned();
        let mut used = length + 1;
        let message = match line.split_once(' ').unwrap_or((&line, "")) {
            ("ready", _) => Message::Ready,
            ("note", text) => Message::Note(text.to_owned()),
            ("count", rest) => {
                let (name, number) = rest.split_once(' ').ok_or_else(|| not_understood(&line))?;
                Message::Count(name.to_owned(), number.parse().map_err(|_| not_understood(&line))?)
            }
            ("held", rest) => held_line(rest).ok_or_else(|| not_understood(&line))?,
            ("exit", rest) => exit_line(rest).ok_or_else(|| not_understood(&line))?,
            ("file", rest) => {
                let (mode, size, path) = file_line(rest).ok_or_else(|| not_understood(&line))?;
                let Some(bytes) = self.pending.get(used..used + size) else { return Ok(None) };
                used += size;
                Message::File { path, mode, bytes: bytes.to_vec() }
            }
            _ => return Err(not_understood(&line)),
        };
        self.pending.drain(..used);
        Ok(Some(message))
    }
}

/// "until now BYTES" or "to the end BYTES".
fn held_line(rest: &str) -> Option<Message> {
    let (when, bytes) = rest.rsplit_once(' ')?;
    let to_the_end = ["until now", "to the end"].iter().position(|&known| known == when)? == 1;
    Some(Message::Held { to_the_end, bytes: bytes.parse().ok()? })
}

/// "STATUS OUT ERR".
fn exit_line(rest: &str) -> Option<Message> {
    let mut words = rest.split(' ');
    let status = words.next()?.parse().ok()?;
    Some(Message::Exit { status, sent: [words.next()?.parse().ok()?, words.next()?.parse().ok()?] })
}

/// "MODE SIZE PATH".
fn file_line(rest: &str) -> Option<(u32, usize, PathBuf)> {
    let mut words = rest.splitn(3, ' ');
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    Some((mode, words.next()?.parse().ok()?, PathBuf::from(words.next()?)))
}

fn gone(why: io::Error) -> LabError {
    LabError::Io { doing: "talking to the guest".into(), why }
}

fn not_understood(line: &str) -> LabError {
    gone(io::Error::other(format!("it said `{line}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_in_pieces() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        let mut control = Control::new(host);
        let short = Duration::from_millis(1);
        guest.write_all(b"ready\nfile 755 5 /a b\n12").unwrap();
        assert_eq!(control.next(short).unwrap(), Some(Message::Ready));
        assert_eq!(control.next(short).unwrap(), None);
        guest.write_all(b"345count a 7\nexit 3 10 20\nwhat\n").unwrap();
        let file = Message::File { path: "/a b".into(), mode: 0o755, bytes: b"12345".to_vec() };
        assert_eq!(control.next(short).unwrap(), Some(file));
        assert_eq!(control.next(short).unwrap(), Some(Message::Count("a".into(), 7)));
        assert_eq!(control.next(short).unwrap(), Some(Message::Exit { status: 3, sent: [10, 20] }));
        assert!(control.next(short).unwrap_err().to_string().contains("what"));
    }

    #[test]
    fn the_guest_is_told_in_lines() {
        let (mut guest, host) = UnixStream::pair().unwrap();
        let mut control = Control::new(host);
        control.run(7).and_then(|()| control.signal(15)).and_then(|()| control.kill()).unwrap();
        control.end().unwrap();
        drop(control);
        let mut lines = String::new();
        guest.read_to_string(&mut lines).unwrap();
        assert_eq!(lines, "run 7\nsignal 15\nkill\nend\n");
    }

    #[test]
    fn the_end_of_the_machine_is_an_error() {
        let (guest, host) = UnixStream::pair().unwrap();
        drop(guest);
        assert!(Control::new(host).next(Duration::from_millis(1)).is_err());
    }
}
