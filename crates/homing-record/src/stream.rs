//! What one process sends, on its way from the channel into a trace.

use super::{frames, symbols};
use crate::error::{RecordError, While};
use crate::windows::{Progress, Schedule, Windows};
use homing_linux::causes::with_causes;
use homing_linux::channel::{self, Channel, ChannelError, Filled, Flavour, OpenSegment, Received};
use homing_linux::interrupts::overdue;
use homing_trace::wire::{self, Cut};
use homing_trace::{Ending, Header, Ingest, IngestOptions, Place, Summary, TraceWriter};
use std::fs::File;
use std::io::{BufWriter, Seek};
use std::time::{Duration, Instant};

const BUFFER: usize = 1 << 20;
/// A process that executes another program attaches again soon.
pub const REATTACH: Duration = Duration::from_millis(2);
/// After a signal that asks to end, what a recorder has sent is still encoded for this long.
const AFTER_SIGNAL: Duration = Duration::from_secs(1);

/// What to record and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The trace's header.
    pub header: Header,
    /// Which references are kept.
    pub options: IngestOptions,
    /// When they are recorded; `None`: always.
    pub windows: Option<Windows>,
}

/// One trace in the making.
pub struct Stream {
    channel: Channel,
    schedule: Option<Schedule>,
    settings: Settings,
    process: u32,
    file: File,
    /// From the first segment on.
    ingest: Option<Ingest<BufWriter<File>>>,
    /// The programs that the process ran before this one.
    replaced: Vec<Replaced>,
    /// The segment that said so of the last of them.
    executed_in: Option<u32>,
    /// The trace is what it was when its region of interest had ended: the process runs another program now.
    closed: bool,
    failed: Option<RecordError>,
    /// The message about that, which is printed once.
    message: Option<String>,
    /// How the program ended, if that is known.
    pub ending: Option<Ending>,
}

/// A program that its process has replaced by executing another one. The trace is of the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// References that are left out with it.
    pub references: u64,
}

/// What a process left.
#[derive(Debug)]
pub struct Left {
    /// The counts of the trace; `None` if no recorder attached or the file could not be written.
    pub summary: Option<Summary>,
    /// Child processes that it made.
    pub children: u32,
    /// The program that it ran at last, with arguments.
    pub command: Vec<String>,
    /// Those that it ran before.
    pub replaced: Vec<Replaced>,
    /// Whether it came to its region of interest, and to the end of it.
    pub place: Place,
    /// Why the file could not be written; the program went on without being recorded.
    pub failed: Option<RecordError>,
}

impl Stream {
    /// What `process` sends through `channel` goes to `file`.
    pub fn new(channel: Channel, file: File, mut settings: Settings, process: u32) -> Stream {
        settings.header.set_process(process);
        let (replaced, executed_in) = (Vec::new(), None);
        let schedule = settings.windows.clone().map(Schedule::new);
        Stream {
            channel,
            schedule,
            settings,
            process,
            file,
            ingest: None,
            replaced,
            executed_in,
            closed: false,
            failed: None,
            message: None,
            ending: None,
        }
    }

    /// The channel.
    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    /// Waits up to `longest` for a segment, and says when the next windows open and close.
    pub fn receive(&mut self, longest: Duration) -> Result<Received, ChannelError> {
        let mut wait = longest;
        if let Some(schedule) = &mut self.schedule {
            let (window, words) = self.channel.progress();
            let (references, window_words) =
                self.ingest.as_ref().map_or((0, 0), |ingest| (ingest.references(), ingest.window_words()));
            let progress = Progress { window, words, references, window_words };
            for (number, place) in schedule.look(Instant::now(), progress).into_iter().flatten() {
                self.channel.set_window_at(number, place);
            }
            wait = wait.min(schedule.holds());
        }
        match self.channel.receive(wait) {
            Err(error @ ChannelError::Contract(_)) => {
                self.fail(error.into());
                Ok(Received::Idle)
            }
            received => received,
        }
    }

    /// The program goes on without being recorded.
    fn fail(&mut self, error: RecordError) {
        self.channel.stop();
        if self.failed.is_none() {
            let causes = with_causes(&error);
            self.message = Some(format!("homing: {causes}; the program goes on without being recorded"));
            self.failed = Some(error);
        }
    }

    /// What the user is to be told since the last time: why the program is recorded no longer.
    pub fn message(&mut self) -> Option<String> {
        self.message.take()
    }

    /// The encoder, once something has arrived.
    pub fn ingest(&mut self) -> Option<&mut Ingest<BufWriter<File>>> {
        self.ingest.as_mut()
    }

    /// Encodes a segment and gives it back.
    pub fn take(&mut self, filled: Filled) -> Result<(), RecordError> {
        if self.failed.is_some() || self.closed {
            // A program that was executed since then does not know that it is not recorded.
            self.channel.stop();
        } else if let Err(error) = self.take_words(&filled) {
            self.fail(error);
        }
        self.channel.release(filled)?;
        Ok(())
    }

    fn take_words(&mut self, filled: &Filled) -> Result<(), RecordError> {
        if let Some(command) = wire::executed(self.channel.words(filled)) {
            self.begin_again(command)?;
            self.executed_in = Some(filled.segment);
        }
        self.begin()?;
        let Some(ingest) = self.ingest.as_mut().filter(|_| !self.closed) else { return Ok(()) };
        let others = |cut: Cut, from| self.channel.words_so_far(cut.segment, from, cut.words);
        ingest
            .segment_among(filled.stream, filled.index, self.channel.words(filled), &others)
            .doing(writing)?;
        if ingest.is_complete() {
            self.channel.stop();
        }
        Ok(())
    }

    /// The process runs another program: the trace is of that one, and what was written is left out. One whose region
    /// of interest has ended stays.
    fn begin_again(&mut self, command: Vec<String>) -> Result<(), RecordError> {
        if self.place() == Place::After {
            self.closed = true;
            self.channel.stop();
            return Ok(());
        }
        let before = std::mem::replace(&mut self.settings.header.command, command);
        if let Some(ingest) = self.ingest.take() {
            self.replaced.push(Replaced { command: before, references: ingest.references() });
        }
        self.file.set_len(0).and_then(|()| self.file.rewind()).doing(writing)?;
        let replaced = self.replaced.iter().map(
            |replaced| serde_json::json!({ "command": replaced.command, "references": replaced.references }),
        );
        self.settings.header.more.insert("replaced".into(), replaced.collect());
        Ok(())
    }

    fn place(&self) -> Place {
        self.ingest.as_ref().map_or(self.settings.options.place, Ingest::place)
    }

    /// Begins the trace, now that a recorder has attached.
    fn begin(&mut self) -> Result<(), RecordError> {
        if self.ingest.is_some() {
            return Ok(());
        }
        let version = self.channel.version();
        if version != channel::VERSION {
            return Err(RecordError::Version(version));
        }
        let flavour = match self.channel.flavour() {
            Some(Flavour::Parallel) => wire::Flavour::Parallel,
            _ => wire::Flavour::Serial,
        };
        let file = self.file.try_clone().doing(writing)?;
        let out = BufWriter::with_capacity(BUFFER, file);
        let writer = TraceWriter::new(out, &self.settings.header).doing(writing)?;
        let ingest = self.ingest.insert(Ingest::new(writer, flavour, self.settings.options));
        ingest.reword(frames::reword(self.process));
        ingest.give_up(Box::new(|| overdue(AFTER_SIGNAL)));
        Ok(())
    }

    /// Completes the trace with what the recorder had not posted when it ended, or now, if the process `runs` on.
    pub fn finish(mut self, runs: bool) -> Result<Left, RecordError> {
        // A process that still records (a descendant of the program) runs on; without this word it would take us for
        // killed.
        self.channel.stop();
        // First what is open, then what is posted: a segment that a running process posts in between is seen twice, and
        // taken once.
        let open = self.channel.open_segments(runs);
        self.take_posted()?;
        let written = if self.failed.is_none() { self.write_rest(open) } else { Ok(None) };
        let place = self.settings.options.place;
        let ((summary, place), failed) = match written {
            Ok(written) => {
                (written.map_or((None, place), |(summary, place)| (Some(summary), place)), self.failed)
            }
            Err(error) => ((None, place), Some(error)),
        };
        if runs {
            self.channel.discard();
        }
        let (children, command) = (self.channel.children(), self.settings.header.command);
        Ok(Left { summary, children, command, replaced: self.replaced, place, failed })
    }

    /// Takes what the recorder has posted.
    pub fn take_posted(&mut self) -> Result<(), RecordError> {
        while let Received::Segment(filled) = self.receive(Duration::ZERO)? {
            self.take(filled)?;
        }
        Ok(())
    }

    /// Writes what the recorder had in progress, and what a trace ends with.
    fn write_rest(&mut self, open: Vec<OpenSegment>) -> Result<Option<(Summary, Place)>, RecordError> {
        for open in open {
            // The first of its program may have been posted, too, as its only one, and so be taken.
            let only = self.ingest.as_ref().is_some_and(|ingest| ingest.expects(open.thread, 1));
            let taken = only && self.executed_in == Some(open.segment);
            if let Some(command) = wire::executed(self.channel.open_words(&open)).filter(|_| !taken) {
                self.begin_again(command)?;
            }
            if self.closed {
                break;
            }
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
        ingest.take_rest().doing(writing)?;
        ingest.ended(self.ending);
        symbols::add(&mut ingest);
        let place = ingest.place();
        let (out, counts) = ingest.finish().doing(writing)?;
        out.into_inner().map_err(std::io::IntoInnerError::into_error).doing(writing)?;
        Ok(Some((counts, place)))
    }
}

/// What went wrong where the file cannot be written.
fn writing() -> String {
    "cannot write the trace".to_owned()
}
