//! The wire channel: shared memory and two pipes between a recorder inside the recorded program and `homing record`.
//!
//! `recorders/include/homing_wire.h` is the contract. This end creates everything, hands the recorder's ends to a child
//! as inherited descriptors, receives filled segments in order and gives each back once it is consumed: credits are
//! the back-pressure, so memory stays bounded however fast the program is.

mod mapping;

use homing_wire::{at, flavour, MAGIC};
use mapping::Mapping;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{sendmsg, SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The version of the wire that this end knows.
pub use homing_wire::VERSION;

/// The environment variable that names the wire to the recorder.
pub const WIRE_ENV: &str = "HOMING_WIRE";

const PAGE: usize = 4096;

/// The most segments a channel can have: all of them fit into either pipe, so no write to a pipe ever blocks.
pub const MAX_SEGMENTS: u32 = 4096;

/// How much a channel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of segments, 2 to [`MAX_SEGMENTS`]. A parallel recorder holds one for each running thread.
    pub segments: u32,
    /// 64-bit words in each segment, at least 4096 and a multiple of 512.
    pub segment_words: u32,
}

/// Why a channel failed.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The capacity is out of bounds.
    #[error(
        "recording channel of {} segments of {} words: expected 2 to {MAX_SEGMENTS} segments of at least 4096 words, \
         a multiple of 512", .0.segments, .0.segment_words
    )]
    Capacity(Capacity),
    /// A system call failed.
    #[error("recording channel: {call}: {source}")]
    System {
        /// Which call.
        call: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// The recorder sent what the contract forbids.
    #[error("recording channel: the recorder broke the wire contract: {0}")]
    Contract(String),
}

fn system(call: &'static str) -> impl Fn(Errno) -> ChannelError {
    move |errno| ChannelError::System { call, source: errno.into() }
}

/// Whether the recorder runs threads one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// One stream in execution order.
    Serial,
    /// One stream for each thread.
    Parallel,
}

/// A filled segment: ours until [`Channel::release`].
#[derive(Debug, PartialEq, Eq)]
pub struct Filled {
    /// Number of the segment.
    pub segment: u32,
    /// Words written into it.
    pub words: u32,
    /// Which stream: 0, or the thread of a parallel recorder.
    pub stream: u32,
    /// Index of the segment in its stream, from 0.
    pub index: u32,
}

/// What [`Channel::receive`] gives.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A filled segment.
    Segment(Filled),
    /// Nothing within the time.
    Idle,
    /// The recorder closed the channel, or died: nothing will come any more.
    Closed,
}

/// A segment that a recorder had begun and not posted when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenSegment {
    /// Number of the segment.
    pub segment: u32,
    /// The thread it belongs to (parallel flavour; 0 in the serial one).
    pub thread: u32,
    /// Index of the segment in its stream. One that was posted, too, is in both places when the recorder was killed in
    /// between.
    pub index: u32,
    /// Words written into it.
    pub words: u32,
}

/// The ends that the recorder holds.
struct RecorderEnds {
    credit: OwnedFd,
    full: OwnedFd,
}

/// Homing's end of the wire.
pub struct Channel {
    capacity: Capacity,
    memory: Mapping,
    memfd: OwnedFd,
    credit: OwnedFd,
    full: OwnedFd,
    recorder: Option<RecorderEnds>,
    /// Keeps the credits that are given while a process executes another program and has closed its end.
    credits: OwnedFd,
    /// Segments that are free and not in the pipe, the one to give next last.
    spare: Vec<u32>,
    /// Segments that were consumed and are given back together: each wakes a thread that waits for one.
    consumed: Vec<u32>,
}

/// Free segments in the pipe with which nobody waits long. No more are given without need: a program that is ahead of
/// its encoder then uses the same few again, which stay in the processor's caches.
const ENOUGH: usize = 16;
/// Consumed segments that are given back together, where there are several times as many.
const TOGETHER: usize = 8;
/// How long to wait at a time while segments are spare, in case that many threads begin at once.
const GLANCE: Duration = Duration::from_millis(10);

impl Channel {
    /// Creates the shared memory and the pipes, with every segment free.
    pub fn new(capacity: Capacity) -> Result<Channel, ChannelError> {
        let Capacity { segments, segment_words } = capacity;
        if !(2..=MAX_SEGMENTS).contains(&segments) || segment_words < 4096 || segment_words % 512 != 0 {
            return Err(ChannelError::Capacity(capacity));
        }
        let bytes = header_bytes() + segments as usize * segment_words as usize * 8;
        let memfd = rustix::fs::memfd_create("homing-wire", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(system("memfd_create"))?;
        rustix::fs::ftruncate(&memfd, bytes as u64).map_err(system("ftruncate"))?;
        // The recorded program shares the file: it must not be able to cut it under our mapping.
        rustix::fs::fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)
            .map_err(system("fcntl(F_ADD_SEALS)"))?;
        let memory = Mapping::new(memfd.as_fd(), bytes)?;
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(system("pipe2"));
        let ((credit_read, credit), (full, full_write)) = (pipe()?, pipe()?);
        let credits =
            rustix::io::fcntl_dupfd_cloexec(&credit_read, 0).map_err(system("fcntl(F_DUPFD_CLOEXEC)"))?;
        let recorder = Some(RecorderEnds { credit: credit_read, full: full_write });
        let spare = (0..segments).rev().collect();
        let consumed = Vec::with_capacity(TOGETHER);
        let mut channel =
            Channel { capacity, memory, memfd, credit, full, recorder, credits, spare, consumed };
        channel.write_header();
        channel.give_enough()?;
        Ok(channel)
    }

    /// A channel for a process that is no child of ours and attaches by [`Channel::address`]. Until it has, the channel
    /// is [`Received::Closed`].
    pub fn for_visitor(capacity: Capacity) -> Result<Channel, ChannelError> {
        let mut channel = Channel::new(capacity)?;
        channel.recorder = None;
        Ok(channel)
    }

    fn write_header(&self) {
        let Capacity { segments, segment_words } = self.capacity;
        self.memory.u32_at(at::SEGMENTS).store(segments, Ordering::Relaxed);
        self.memory.u32_at(at::SEGMENT_WORDS).store(segment_words, Ordering::Relaxed);
        self.memory.u64_at(at::HEADER_BYTES).store(header_bytes() as u64, Ordering::Relaxed);
        self.memory.u64_at(at::MAGIC).store(MAGIC, Ordering::Release);
    }

    /// Starts `command` with the wire: [`WIRE_ENV`] set and the recorder's descriptors inherited. Afterwards only the
    /// child holds them, so that its end closes the channel.
    ///
    /// # Errors
    /// What [`Command::spawn`] gives; a second call on the same channel is [`io::ErrorKind::InvalidInput`].
    pub fn spawn(&mut self, command: &mut Command) -> io::Result<Child> {
        let ends = self.recorder.take().ok_or_else(has_its_recorder)?;
        let fds = [self.memfd.as_raw_fd(), ends.credit.as_raw_fd(), ends.full.as_raw_fd()];
        command.env(WIRE_ENV, format!("{},{},{}", fds[0], fds[1], fds[2]));
        // SAFETY: the closure runs between fork and exec and calls only fcntl, which is async-signal-safe.
        unsafe {
            command.pre_exec(move || {
                for fd in fds {
                    let fd = BorrowedFd::borrow_raw(fd);
                    rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?;
                }
                Ok(())
            });
        }
        command.spawn()
    }

    /// Gives the wire's descriptors (memory, free segments, filled ones) to a running process, with a byte that says
    /// more. Afterwards only that holds them.
    ///
    /// # Errors
    /// If it cannot be sent; a second call on the same channel is [`io::ErrorKind::InvalidInput`].
    pub fn hand_over(&mut self, stream: &UnixStream, byte: u8) -> io::Result<()> {
        let ends = self.recorder.take().ok_or_else(has_its_recorder)?;
        let files = [self.memfd.as_fd(), ends.credit.as_fd(), ends.full.as_fd()];
        let mut room = vec![0; rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(stream, &[io::IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits up to `timeout` for the next filled segment. A signal that interrupts the wait counts as
    /// [`Received::Idle`].
    pub fn receive(&mut self, timeout: Duration) -> Result<Received, ChannelError> {
        if !self.is_there_one(timeout)? {
            return Ok(Received::Idle);
        }
        let mut message = [0u8; at::FULL_BYTES];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.full, &mut message))
            .map_err(system("read from the full pipe"))?;
        match read {
            0 => Ok(Received::Closed),
            at::FULL_BYTES => self.check(&message).map(Received::Segment),
            n => Err(ChannelError::Contract(format!("a message of {n} bytes, expected {}", at::FULL_BYTES))),
        }
    }

    /// Waits for a filled segment, or the end of the recorder.
    fn is_there_one(&mut self, timeout: Duration) -> Result<bool, ChannelError> {
        let mut left = timeout;
        let mut wait = Duration::ZERO;
        loop {
            let mut fds = [PollFd::new(&self.full, PollFlags::IN)];
            match poll(&mut fds, wait.as_millis().min(i32::MAX as u128) as i32) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) => {}
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => return Ok(false),
                Err(errno) => return Err(system("poll")(errno)),
            }
            // Nobody shall wait for a segment while we wait for one.
            self.give_enough()?;
            wait = if self.spare.is_empty() { left } else { left.min(GLANCE) };
            left -= wait;
        }
    }

    fn check(&self, message: &[u8; at::FULL_BYTES]) -> Result<Filled, ChannelError> {
        let field = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|i| message[at + i]));
        let filled = Filled {
            segment: field(at::FULL_SEGMENT),
            words: field(at::FULL_WORDS),
            stream: field(at::FULL_STREAM),
            index: field(at::FULL_INDEX),
        };
        if filled.segment >= self.capacity.segments || filled.words > self.capacity.segment_words {
            return Err(ChannelError::Contract(format!(
                "{} words in segment {}, expected at most {} words and {} segments",
                filled.words, filled.segment, self.capacity.segment_words, self.capacity.segments
            )));
        }
        Ok(filled)
    }

    /// The words of a filled segment.
    pub fn words(&self, filled: &Filled) -> &[u64] {
        self.segment_words(filled.segment, filled.words)
    }

    /// The words of a segment that was left open. Call only after [`Received::Closed`] or the recorder's death.
    pub fn open_words(&self, open: &OpenSegment) -> &[u64] {
        self.segment_words(open.segment, open.words)
    }

    /// The words from number `from` up to `to` of a segment that a thread of a parallel recorder is writing; those that
    /// it has not written are 0. None at all if there is no such segment.
    pub fn words_so_far(&self, segment: u32, from: u32, to: u32) -> Vec<u64> {
        if segment >= self.capacity.segments || to > self.capacity.segment_words {
            return Vec::new();
        }
        let at = self.segment_at(segment);
        let word = |number| self.memory.u64_at(at + 8 * number as usize).load(Ordering::Acquire);
        (from..to).map(word).collect()
    }

    fn segment_words(&self, segment: u32, words: u32) -> &[u64] {
        assert!(segment < self.capacity.segments && words <= self.capacity.segment_words);
        self.memory.words(self.segment_at(segment), words as usize)
    }

    fn segment_at(&self, segment: u32) -> usize {
        header_bytes() + segment as usize * self.capacity.segment_words as usize * 8
    }

    /// Gives a consumed segment back to the recorder, cleared for one that writes in parallel.
    pub fn release(&mut self, filled: Filled) -> Result<(), ChannelError> {
        if self.flavour() == Some(Flavour::Parallel) {
            self.memory.clear(self.segment_at(filled.segment), filled.words as usize);
        }
        self.consumed.push(filled.segment);
        if self.consumed.len() < TOGETHER.min(self.capacity.segments as usize / 4) {
            return Ok(());
        }
        if self.free()? < ENOUGH {
            self.give(&self.consumed)?;
            self.consumed.clear();
        } else {
            self.spare.append(&mut self.consumed);
        }
        Ok(())
    }

    /// Gives back what was consumed, and more until there are enough.
    fn give_enough(&mut self) -> Result<(), ChannelError> {
        self.spare.append(&mut self.consumed);
        let lacks = ENOUGH.saturating_sub(self.free()?).min(self.spare.len());
        if lacks > 0 {
            let given: Vec<u32> = self.spare.drain(self.spare.len() - lacks..).rev().collect();
            self.give(&given)?;
        }
        Ok(())
    }

    /// Free segments in the pipe.
    fn free(&self) -> Result<usize, ChannelError> {
        let bytes = rustix::io::ioctl_fionread(&self.credits).map_err(system("ioctl(FIONREAD)"))?;
        Ok(bytes as usize / size_of::<u32>())
    }

    fn give(&self, segments: &[u32]) -> Result<(), ChannelError> {
        let bytes: Vec<u8> = segments.iter().flat_map(|segment| segment.to_ne_bytes()).collect();
        // All of them fit into the pipe.
        match rustix::io::retry_on_intr(|| rustix::io::write(&self.credit, &bytes)) {
            // A dead recorder needs no credit; what it left is still to be read.
            Ok(_) | Err(Errno::PIPE) => Ok(()),
            Err(errno) => Err(system("write to the credit pipe")(errno)),
        }
    }

    /// Asks the recorder to record no more; the program runs on.
    pub fn stop(&self) {
        self.memory.u32_at(at::STOP).store(1, Ordering::Release);
    }

    /// Says which window is open (`homing_wire_header.window`). 0, as at the start: all is recorded.
    pub fn set_window(&self, number: u32) {
        self.memory.u32_at(at::WINDOW).store(number, Ordering::Release);
    }

    /// Which window is open, and the words of references that threads have counted (`homing_wire_header.progress`).
    pub fn progress(&self) -> (u32, u64) {
        let words = self.memory.u64_at(at::PROGRESS).load(Ordering::Acquire);
        (self.memory.u32_at(at::WINDOW).load(Ordering::Acquire), words)
    }

    /// From about which word on the window is to have this number. The place of the number before the last is
    /// forgotten.
    pub fn set_window_at(&self, number: u32, words: u64) {
        let place = words & !0xff | u64::from(number) & 0xff;
        self.memory.u64_at(at::WINDOW_AT + 8 * (number as usize % 2)).store(place, Ordering::Release);
    }

    /// What kind of recorder attached, `None` before one has.
    pub fn flavour(&self) -> Option<Flavour> {
        match self.memory.u32_at(at::FLAVOUR).load(Ordering::Acquire) {
            flavour::SERIAL => Some(Flavour::Serial),
            flavour::PARALLEL => Some(Flavour::Parallel),
            _ => None,
        }
    }

    /// The version of the wire that the recorder knows; 0 before one has attached, and from recorders older than
    /// versions.
    pub fn version(&self) -> u32 {
        self.memory.u32_at(at::VERSION).load(Ordering::Relaxed)
    }

    /// Child processes that the recorder saw and did not record.
    pub fn children(&self) -> u32 {
        self.memory.u32_at(at::CHILDREN).load(Ordering::Relaxed)
    }

    /// The segments that the recorder has begun and not posted, in the order of the header's slots. `runs`: it may go
    /// on writing, so that only what is whole counts.
    pub fn open_segments(&self, runs: bool) -> Vec<OpenSegment> {
        let end = self.memory.u32_at(at::OPEN_END).load(Ordering::Acquire) as usize;
        (0..end.min(at::MAX_OPEN))
            .filter_map(|slot| {
                let entry = at::OPEN + slot * at::OPEN_BYTES;
                let segment =
                    self.memory.u32_at(entry + at::OPEN_SEGMENT).load(Ordering::Acquire).checked_sub(1)?;
                let thread = self.memory.u32_at(entry + at::OPEN_THREAD).load(Ordering::Relaxed);
                let index = self.memory.u32_at(entry + at::OPEN_INDEX).load(Ordering::Relaxed);
                let words = self.memory.u64_at(entry + at::OPEN_WORDS).load(Ordering::Acquire);
                if segment >= self.capacity.segments {
                    return None;
                }
                let words = self.words_of_cursor(segment, words);
                let words = match runs {
                    true => self.without_unwritten(segment, words),
                    false => self.with_unfinished(segment, words),
                };
                Some(OpenSegment { segment, thread, index, words })
            })
            .collect()
    }

    /// The same with what a thread of a parallel recorder had written of a record that is not whole: segments were
    /// cleared for it. Call only after the recorder's death.
    fn with_unfinished(&self, segment: u32, words: u32) -> u32 {
        if self.flavour() != Some(Flavour::Parallel) {
            return words;
        }
        let all = self.segment_words(segment, self.capacity.segment_words);
        let behind = all[words as usize..].iter().rposition(|&word| word != 0);
        behind.map_or(words, |last| words + last as u32 + 1)
    }

    /// The same without what a thread that runs on has made room for and not written yet.
    fn without_unwritten(&self, segment: u32, words: u32) -> u32 {
        let at = self.segment_at(segment);
        let written = |&word: &u32| self.memory.u64_at(at + 8 * word as usize).load(Ordering::Acquire) != 0;
        (0..words).rev().find(written).map_or(0, |last| last + 1)
    }

    /// Gives the memory of all segments back to the system, though a program that runs on keeps it mapped: what it
    /// still writes there nobody reads.
    pub fn discard(&self) {
        let (from, to) = (header_bytes() as u64, self.memory.len() as u64);
        // Where that is not possible it goes with the program.
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = rustix::fs::fallocate(&self.memfd, how, from, to - from);
    }

    /// Words in an open segment, from its count or from the recorder's own write address.
    fn words_of_cursor(&self, segment: u32, cursor: u64) -> u32 {
        let words = match self.memory.u64_at(at::CURSOR_BASE).load(Ordering::Relaxed) {
            0 => cursor,
            base => {
                let segment_bytes = u64::from(self.capacity.segment_words) * 8;
                let begin = base.saturating_add(u64::from(segment) * segment_bytes);
                cursor.saturating_sub(begin) / 8
            }
        };
        words.min(u64::from(self.capacity.segment_words)) as u32
    }

    /// Where a recorder whose process has executed another program finds the wire again, without inherited descriptors:
    /// "PID,MEMFD,CREDIT_FD,FULL_FD", to be opened below /proc/PID/fd.
    pub fn address(&self) -> String {
        let fds = [&self.memfd, &self.credit, &self.full].map(AsRawFd::as_raw_fd);
        format!("{},{},{},{}", std::process::id(), fds[0], fds[1], fds[2])
    }

    /// The capacity that the channel was created with.
    pub fn capacity(&self) -> Capacity {
        self.capacity
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

fn has_its_recorder() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this recording channel already has its recorder")
}

/// Bytes before segment 0: the wire header in whole pages.
fn header_bytes() -> usize {
    (at::OPEN + at::MAX_OPEN * at::OPEN_BYTES).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests;
