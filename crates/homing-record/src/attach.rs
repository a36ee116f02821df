//! Recording a process that runs already, from now on: its program holds the runtime of the recorders tsan and clang.

use crate::error::{RecordError, While};
use crate::recorders::{named, Request};
use crate::recording::{conclude, Recorded};
use crate::session::{Allowed, Ended, Spent};
use crate::stream::{Settings, Stream};
use crate::watch::Watch;
use crate::windows::Windows;
use homing_linux::attach::{Asking, Door, ALL, ONLY_PROGRAM, SOCKET};
use homing_linux::channel::{Channel, Received};
use homing_linux::files::{Over, Part};
use homing_linux::interrupts::Interrupts;
use homing_linux::proc::{Pid, Proc};
use homing_trace::{Ending, IngestOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(100);
/// A process that has not come by then is said to be waited for.
const SOON: Duration = Duration::from_secs(3);

impl Request {
    /// Records process `pid` from now on, until it ends, the user interrupts, or what is allowed is spent. It runs on
    /// then. The recorder and the command are the process's.
    ///
    /// # Errors
    /// If the process cannot be recorded, or has not come by when it was interrupted.
    pub fn attach(
        mut self,
        pid: u32,
        allowed: Allowed,
        watch: &Arc<dyn Watch>,
    ) -> Result<Recorded, RecordError> {
        if self.output.metadata().is_ok_and(|facts| !facts.is_file()) {
            return Err(RecordError::NoRegularFile(self.output));
        }
        if self.windows.as_ref().is_some_and(|windows| windows.mark().is_some()) {
            return Err(RecordError::NoMarksOfProcess);
        }
        let door = Door::open(pid)?;
        if !holds_runtime(pid) {
            return Err(RecordError::NoRuntime(pid));
        }
        let (output, file) = Part::create(&self.output, Over::Traces)?;
        let interrupts = Interrupts::catch().doing(|| "cannot catch signals".to_owned())?;
        let asking = match wait(&door, pid, &interrupts, &**watch) {
            Ok(asking) => asking,
            Err(error) => {
                output.discard();
                return Err(error);
            }
        };
        self.recorder = named(&asking.recorder).unwrap_or(self.recorder);
        self.command = asking.command.iter().map(Into::into).collect();
        let mut channel = Channel::new(crate::tsan::CAPACITY)?;
        self.windows.iter().for_each(|_| Windows::close(&channel));
        let what = if self.only_program { ONLY_PROGRAM } else { ALL };
        channel.hand_over(&asking.stream, what).doing(|| format!("cannot answer process {pid}"))?;
        drop(asking);
        let options = IngestOptions { place: self.region.start(), ..self.options };
        let mut header = self.header();
        header.more.insert("attached".into(), serde_json::json!(true));
        let mut stream =
            Stream::new(channel, file, Settings { header, options, windows: self.windows.clone() }, pid);
        let ended = record(&mut stream, &door, &interrupts, allowed, &**watch)?;
        watch.ended();
        let Stop { spent, runs } = ended;
        // Its status is not known to who is not its parent.
        stream.ending = runs.then_some(Ending { status: 0, asked: true });
        let left = stream.finish(runs)?;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_else(|_| PathBuf::from("?"));
        conclude(&self, output, Ended { status: 0, spent, left: Some(left) }, None, program)
    }
}

/// Waits until the process asks for its wire.
fn wait(door: &Door, pid: u32, interrupts: &Interrupts, watch: &dyn Watch) -> Result<Asking, RecordError> {
    let begin = Instant::now();
    let mut said = false;
    loop {
        if let Some(asking) = door.wait(POLL).doing(|| format!("cannot wait for process {pid}"))? {
            return Ok(asking);
        }
        if has_ended(door)? {
            return Err(RecordError::NeverCame(pid, "ended"));
        }
        if interrupts.count() > 0 {
            return Err(RecordError::NeverCame(pid, "was waited for, and the user interrupted,"));
        }
        if !said && begin.elapsed() > SOON {
            watch.say(&format!(
                "homing: waiting for process {pid} to execute code that records itself, or for another recording of it \
                 to end (Ctrl-C ends)"
            ));
            said = true;
        }
    }
}

/// How a recording came to its end.
struct Stop {
    spent: Option<Spent>,
    /// The process runs on.
    runs: bool,
}

fn record(
    stream: &mut Stream,
    door: &Door,
    interrupts: &Interrupts,
    allowed: Allowed,
    watch: &dyn Watch,
) -> Result<Stop, RecordError> {
    let begin = Instant::now();
    loop {
        let runs = match stream.receive(POLL)? {
            Received::Segment(filled) => {
                stream.take(filled)?;
                true
            }
            Received::Idle => !has_ended(door)?,
            // It has ended, has executed another program, or has closed our descriptors.
            Received::Closed => return Ok(Stop { spent: None, runs: !has_ended(door)? }),
        };
        if let Some(message) = stream.message() {
            watch.say(&message);
        }
        let complete = stream.ingest().is_some_and(|ingest| ingest.is_complete());
        let over = allowed.time.is_some_and(|time| begin.elapsed() >= time);
        let spent = match () {
            () if over => Some(Spent::Time),
            () if complete => Some(Spent::References),
            () => None,
        };
        if !runs || spent.is_some() || interrupts.count() > 0 {
            return Ok(Stop { spent, runs });
        }
        if let Some(ingest) = stream.ingest() {
            watch.progress(ingest.references(), ingest.writer().bytes());
        }
    }
}

fn has_ended(door: &Door) -> Result<bool, RecordError> {
    door.process().has_ended().doing(|| "cannot watch the process".to_owned())
}

/// Whether a file that the process executes holds a runtime that looks for us.
fn holds_runtime(pid: u32) -> bool {
    let Ok(maps) = Proc::default().maps(Pid(pid.cast_signed())) else { return true };
    let mut files: Vec<&str> = maps.iter().filter(|map| map.execute).map(|map| map.name.as_str()).collect();
    files.dedup();
    let holds = |file: &Path| {
        let bytes = std::fs::read(file).unwrap_or_default();
        memchr::memmem::find(&bytes, SOCKET.as_bytes()).is_some()
    };
    // By its own path: the process may see other files than we do.
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    files.iter().filter_map(|file| file.strip_prefix('/')).any(|file| holds(&root.join(file)))
}
