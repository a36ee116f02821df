//! One recording from start to end.

use super::program::code_of;
use crate::exit::Code;
use anyhow::Context;
use homing_core::trace::{self, Header, Ingest, IngestOptions, Summary, TraceWriter};
use homing_linux::channel::{Channel, Filled, Received};
use homing_linux::interrupts::{signal_child, Interrupts};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);
const REATTACH: Duration = Duration::from_millis(2);
const BUFFER: usize = 1 << 20;

/// What to record and how.
#[derive(Debug)]
pub struct Settings {
    /// The trace's header.
    pub header: Header,
    /// Which references are kept.
    pub options: IngestOptions,
}

/// How a recording ended.
#[derive(Debug)]
pub struct Ended {
    /// The program's exit code.
    pub code: Code,
    /// The counts of the trace; `None` if no recorder attached.
    pub summary: Option<Summary>,
    /// Child processes that were not recorded.
    pub children: u32,
    /// The file could not be written; the program went on without being recorded.
    pub failed: Option<anyhow::Error>,
    /// The user asked twice to end: the file is as it was then.
    pub abandoned: bool,
}

/// A recording in progress.
pub struct Session {
    channel: Channel,
    child: Child,
    settings: Settings,
    /// Before the first segment: the file.
    file: Option<File>,
    ingest: Option<Ingest<BufWriter<File>>>,
    /// The index of each stream's next segment.
    next: HashMap<u32, u32>,
    failed: Option<anyhow::Error>,
    progress: Progress,
}

impl Session {
    /// Starts the command, whose references go to `file`.
    pub fn start(
        mut command: Command,
        mut channel: Channel,
        file: File,
        settings: Settings,
    ) -> anyhow::Result<Session> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = channel.spawn(&mut command).with_context(|| format!("cannot start {name}"))?;
        Ok(Session {
            channel,
            child,
            settings,
            file: Some(file),
            ingest: None,
            next: HashMap::new(),
            failed: None,
            progress: Progress::new(),
        })
    }

    /// Records until the program has ended.
    pub fn run(mut self, interrupts: &Interrupts) -> anyhow::Result<Ended> {
        let mut status = None;
        loop {
            match self.channel.receive(POLL)? {
                Received::Segment(filled) => self.take(filled)?,
                // Children of the program may hold the channel open after its end.
                Received::Idle if status.is_some() => break,
                Received::Idle => status = self.child.try_wait()?,
                // The recorder has ended, or the program is executing another one, in which it will attach again.
                Received::Closed => {
                    status = self.child.try_wait()?;
                    if status.is_some() {
                        break;
                    }
                    std::thread::sleep(REATTACH);
                }
            }
            if let Some(signal) = interrupts.to_forward() {
                // If the child has just ended there is nobody to tell.
                let _ = signal_child(&self.child, signal);
            }
            if interrupts.count() >= 2 {
                return self.abandon();
            }
            self.progress.show(self.ingest.as_mut());
        }
        let status = status.context("the program ended without a status")?;
        self.finish(status)
    }

    fn take(&mut self, filled: Filled) -> anyhow::Result<()> {
        if self.failed.is_none() {
            let result = self.begin().and_then(|()| self.encode(&filled));
            if let Err(error) = result {
                self.channel.stop();
                self.progress.bar.suspend(|| {
                    eprintln!("homing: {error:#}; the program goes on without being recorded");
                });
                self.failed = Some(error);
            }
        }
        self.channel.release(filled)?;
        Ok(())
    }

    /// Begins the trace, now that a recorder has attached.
    fn begin(&mut self) -> anyhow::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let flavour = match self.channel.flavour() {
            Some(homing_linux::channel::Flavour::Parallel) => trace::wire::Flavour::Parallel,
            _ => trace::wire::Flavour::Serial,
        };
        let out = BufWriter::with_capacity(BUFFER, file);
        let writer = TraceWriter::new(out, &self.settings.header).context("cannot write the trace")?;
        self.ingest = Some(Ingest::new(writer, flavour, self.settings.options));
        Ok(())
    }

    fn encode(&mut self, filled: &Filled) -> anyhow::Result<()> {
        let Some(ingest) = &mut self.ingest else { return Ok(()) };
        let words = self.channel.words(filled);
        ingest.segment(filled.stream, filled.index, words).context("cannot write the trace")?;
        self.next.insert(filled.stream, filled.index.saturating_add(1));
        if ingest.reached_limit() {
            self.channel.stop();
        }
        Ok(())
    }

    /// Completes the trace with what the recorder had not posted when it ended.
    fn finish(mut self, status: ExitStatus) -> anyhow::Result<Ended> {
        while let Received::Segment(filled) = self.channel.receive(Duration::ZERO)? {
            self.take(filled)?;
        }
        for open in self.channel.open_segments() {
            if self.failed.is_none() {
                self.begin()?;
                if let Some(ingest) = &mut self.ingest {
                    let index = self.next.get(&open.thread).copied().unwrap_or(0);
                    ingest.segment(open.thread, index, self.channel.open_words(&open))?;
                }
            }
        }
        self.progress.bar.finish_and_clear();
        let mut summary = None;
        if let (Some(ingest), None) = (self.ingest, &self.failed) {
            let (out, counts) = ingest.finish().context("cannot write the trace")?;
            out.into_inner().map_err(|e| e.into_error()).context("cannot write the trace")?;
            summary = Some(counts);
        }
        let (children, failed) = (self.channel.children(), self.failed);
        Ok(Ended { code: code_of(status), summary, children, failed, abandoned: false })
    }

    /// Ends at once, leaving what was written so far.
    fn abandon(mut self) -> anyhow::Result<Ended> {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait()?;
        self.progress.bar.finish_and_clear();
        let code = Code(128 + 2);
        Ok(Ended { code, summary: None, children: self.channel.children(), failed: None, abandoned: true })
    }
}

/// One line on stderr, once a second, if that is a terminal.
struct Progress {
    bar: ProgressBar,
    shown: Instant,
    references: u64,
}

impl Progress {
    fn new() -> Progress {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("recording: {msg}").unwrap_or(ProgressStyle::default_spinner()),
        );
        Progress { bar, shown: Instant::now(), references: 0 }
    }

    fn show<W: Write>(&mut self, ingest: Option<&mut Ingest<W>>) {
        let elapsed = self.shown.elapsed();
        let Some(ingest) = ingest.filter(|_| elapsed >= Duration::from_secs(1)) else { return };
        let references = ingest.references();
        let rate = (references - self.references) as f64 / elapsed.as_secs_f64();
        self.bar.set_message(format!(
            "{:.1} M references, {:.1} M/s, {}",
            references as f64 / 1e6,
            rate / 1e6,
            HumanBytes(ingest.writer().bytes())
        ));
        self.bar.tick();
        (self.shown, self.references) = (Instant::now(), references);
    }
}
