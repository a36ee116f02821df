//! What one process sends, on its way from the channel into a trace.

use super::{frames, symbols};
use crate::error::{with_causes, RecordError, While};
use homing_linux::channel::{self, Channel, Filled, Flavour, Received};
use homing_trace::wire::{self, Cut};
use homing_trace::{Header, Ingest, IngestOptions, Summary, TraceWriter};
use std::fs::File;
use std::io::BufWriter;
use std::time::Duration;

const BUFFER: usize = 1 << 20;
/// A process that executes another program attaches again soon.
pub const REATTACH: Duration = Duration::from_millis(2);

/// What to record and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The trace's header.
    pub header: Header,
    /// Which references are kept.
    pub options: IngestOptions,
}

/// One trace in the making.
pub struct Stream {
    channel: Channel,
    settings: Settings,
    process: u32,
    /// Before the first segment: the file.
    file: Option<File>,
    ingest: Option<Ingest<BufWriter<File>>>,
    /// Segments that wait for the program's name: stream, index, words.
    held: Vec<(u32, u32, Vec<u64>)>,
    failed: Option<RecordError>,
}

/// Where the words of a segment are.
enum Words<'a> {
    Held(&'a [u64]),
    Posted(&'a Filled),
}

/// What a process left.
#[derive(Debug)]
pub struct Left {
    /// The counts of the trace; `None` if no recorder attached or the file could not be written.
    pub summary: Option<Summary>,
    /// Child processes that it made.
    pub children: u32,
    /// Why the file could not be written; the program went on without being recorded.
    pub failed: Option<RecordError>,
}

impl Stream {
    /// What `process` sends through `channel` goes to `file`.
    pub fn new(channel: Channel, file: File, settings: Settings, process: u32) -> Stream {
        Stream { channel, settings, process, file: Some(file), ingest: None, held: Vec::new(), failed: None }
    }

    /// The channel.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// The encoder, once something has arrived.
    pub fn ingest(&mut self) -> Option<&mut Ingest<BufWriter<File>>> {
        self.ingest.as_mut()
    }

    /// Names the program, until [`Stream::take`] begins the trace.
    pub fn set_command(&mut self, command: Vec<String>) {
        self.settings.header.command = command;
    }

    /// Keeps a copy of a segment for when the trace begins, and gives it back.
    pub fn hold(&mut self, filled: Filled) -> Result<(), RecordError> {
        self.held.push((filled.stream, filled.index, self.channel.words(&filled).to_vec()));
        Ok(self.channel.release(filled)?)
    }

    /// How many segments are held.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Encodes a segment and gives it back. Returns the message for the user if the file can be written no longer.
    pub fn take(&mut self, filled: Filled) -> Result<Option<String>, RecordError> {
        let mut message = None;
        if self.failed.is_none() {
            if let Err(error) = self.take_words(&filled) {
                self.channel.stop();
                message = Some(format!(
                    "homing: {}; the program goes on without being recorded",
                    with_causes(&error)
                ));
                self.failed = Some(error);
            }
        }
        self.channel.release(filled)?;
        Ok(message)
    }

    fn take_words(&mut self, filled: &Filled) -> Result<(), RecordError> {
        self.begin()?;
        self.encode(filled.stream, filled.index, Words::Posted(filled))
    }

    /// Begins the trace, now that a recorder has attached.
    fn begin(&mut self) -> Result<(), RecordError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let version = self.channel.version();
        if version != channel::VERSION {
            return Err(RecordError::Version(version));
        }
        let flavour = match self.channel.flavour() {
            Some(Flavour::Parallel) => wire::Flavour::Parallel,
            _ => wire::Flavour::Serial,
        };
        let out = BufWriter::with_capacity(BUFFER, file);
        let writer = TraceWriter::new(out, &self.settings.header).doing(writing)?;
        let ingest = self.ingest.insert(Ingest::new(writer, flavour, self.settings.options));
        ingest.reword(frames::reword(self.process));
        for (stream, index, words) in std::mem::take(&mut self.held) {
            self.encode(stream, index, Words::Held(&words))?;
        }
        Ok(())
    }

    fn encode(&mut self, stream: u32, index: u32, words: Words<'_>) -> Result<(), RecordError> {
        let Some(ingest) = &mut self.ingest else { return Ok(()) };
        let words = match words {
            Words::Held(words) => words,
            Words::Posted(filled) => self.channel.words(filled),
        };
        let others = |cut: Cut, from| self.channel.words_so_far(cut.segment, from, cut.words);
        ingest.segment_among(stream, index, words, &others).doing(writing)?;
        if ingest.reached_limit() {
            self.channel.stop();
        }
        Ok(())
    }

    /// Completes the trace with what the recorder had not posted when it ended.
    pub fn finish(mut self) -> Result<Left, RecordError> {
        // A process that still records (a descendant of the program) runs on; without this word it would take us for
        // killed.
        self.channel.stop();
        while let Received::Segment(filled) = self.channel.receive(Duration::ZERO)? {
            self.take(filled)?;
        }
        if !self.held.is_empty() {
            self.begin()?;
        }
        let written = if self.failed.is_none() { self.write_rest() } else { Ok(None) };
        let (summary, failed) = match written {
            Ok(summary) => (summary, self.failed),
            Err(error) => (None, Some(error)),
        };
        Ok(Left { summary, children: self.channel.children(), failed })
    }

    /// Writes what the recorder had in progress, and what a trace ends with.
    fn write_rest(&mut self) -> Result<Option<Summary>, RecordError> {
        for open in self.channel.open_segments() {
            self.begin()?;
            if let Some(ingest) =
                self.ingest.as_mut().filter(|ingest| ingest.expects(open.thread, open.index))
            {
                let others = |cut: Cut, from| self.channel.words_so_far(cut.segment, from, cut.words);
                ingest
                    .segment_among(open.thread, open.index, self.channel.open_words(&open), &others)
                    .doing(writing)?;
            }
        }
        let Some(mut ingest) = self.ingest.take() else { return Ok(None) };
        symbols::add(&mut ingest);
        let (out, counts) = ingest.finish().doing(writing)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error).doing(writing)?;
        Ok(Some(counts))
    }
}

/// What went wrong where the file cannot be written.
fn writing() -> String {
    "cannot write the trace".to_owned()
}
