//! One recording, from the request to the complete trace.

use crate::error::{RecordError, While};
use crate::family::{to_recover, unfinished, Child, Family, Plan};
use crate::recorders::{Recorder, Request, Started, RECORDERS};
use crate::region::NeverRan;
use crate::session::{Allowed, Ended, Session, Spent};
use crate::stream::{Left, Replaced, Settings};
use crate::watch::Watch;
use homing_linux::files::{Over, Part};
use homing_linux::follow::Door;
use homing_linux::interrupts::Interrupts;
use homing_linux::program;
use homing_trace::{Header, IngestOptions, Summary};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

/// A recording that can begin: nothing is missing.
pub struct Prepared {
    request: Request,
    program: PathBuf,
    started: Started,
    door: Option<Door>,
    watch: Arc<dyn Watch>,
    allowed: Allowed,
}

/// A recording that can begin, and whose trace no other run writes.
pub struct Claimed {
    prepared: Prepared,
    output: Part,
    file: File,
}

/// A recording that has ended.
#[derive(Debug)]
pub struct Recorded {
    /// The program's exit status, 128 + N for signal N.
    pub status: u8,
    /// The trace.
    pub trace: Result<Finished, NoTrace>,
}

/// Why a program that has ended left no trace.
#[derive(Debug)]
pub enum NoTrace {
    /// The user asked twice to end: what to do with what was written.
    EndedAtOnce(String),
    /// Nothing was recorded, or not all of it could be written.
    Failed(RecordError),
}

/// What a recording gave.
#[derive(Debug)]
pub struct Finished {
    /// The trace.
    pub path: PathBuf,
    /// What the recorder counted.
    pub summary: Summary,
    /// Size of the file.
    pub bytes: u64,
    /// The child processes whose recording has ended.
    pub children: Vec<Child>,
    /// The program was ended because it had used this ([`Prepared::within`]).
    pub spent: Option<Spent>,
    /// Child processes that were not recorded.
    pub unrecorded: u32,
    /// Those of them that came when too many were being recorded.
    pub turned_away: u32,
    /// The programs that the process ran before the recorded one.
    pub replaced: Vec<Replaced>,
    /// The function that was to begin or end the region of interest, if it never ran.
    pub never_ran: Option<NeverRan>,
}

impl Request {
    /// Finds the program and what the recorder needs.
    ///
    /// # Errors
    /// What is missing, before anything was started or written.
    pub fn prepare(self, watch: Arc<dyn Watch>) -> Result<Prepared, RecordError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = program::find(self.command.first().map_or("".as_ref(), |name| name), &path)?;
        let recorder = self.recorder;
        let able = |able: fn(&Recorder) -> bool| {
            let names = RECORDERS.iter().filter(|recorder| able(recorder)).map(|recorder| recorder.name);
            names.collect::<Vec<_>>().join(" or ")
        };
        if self.follow && !recorder.follows {
            return Err(RecordError::CannotFollow { name: recorder.name, able: able(|r| r.follows) });
        }
        if self.windows.is_some() && !recorder.has_windows {
            return Err(RecordError::NoWindows { name: recorder.name, able: able(|r| r.has_windows) });
        }
        (recorder.lacks)(&program)?;
        let door = self.follow.then(Door::open).transpose();
        let door = door.doing(|| "cannot listen for child processes".to_owned())?;
        let mut started = (recorder.start)(&self, &program, door.as_ref(), &watch)?;
        if std::env::var_os("OMP_WAIT_POLICY").is_none() {
            // Threads that spin at barriers would fill the trace with references that mean nothing.
            started.command.env("OMP_WAIT_POLICY", "passive");
        }
        Ok(Prepared { request: self, program, started, door, watch, allowed: Allowed::default() })
    }

    /// The header of the trace.
    pub(crate) fn header(&self) -> Header {
        let mut header = Header::new(self.recorder.name, env!("CARGO_PKG_VERSION"));
        header.command = self.command.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        header.grain = self.grain;
        header.filter = if self.options.line_filter { "line" } else { "none" }.to_owned();
        let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let cpu = text("/proc/cpuinfo");
        let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
        header.host.insert("kernel".into(), text("/proc/sys/kernel/osrelease").trim().into());
        header.host.insert("cpu".into(), model.trim_start_matches([' ', '\t', ':']).into());
        for (key, value) in [
            ("skip", serde_json::json!(self.options.skip)),
            ("limit", serde_json::json!(self.options.limit)),
            ("seed", serde_json::json!(self.merge.seed)),
            ("quantum", serde_json::json!(self.merge.quantum)),
            ("order_memory", serde_json::json!(self.merge.memory)),
            ("slice", serde_json::json!(self.slice)),
            ("from", serde_json::json!(self.region.from)),
            ("to", serde_json::json!(self.region.to)),
        ] {
            header.more.insert(key.into(), value);
        }
        if self.only_program {
            header.more.insert("only_program".into(), true.into());
        }
        if let Some(windows) = &self.windows {
            header.more.insert("windows".into(), windows.to_string().into());
        }
        header
    }
}

impl Prepared {
    /// Ends the program when it has used this; the trace is completed.
    #[must_use]
    pub fn within(mut self, allowed: Allowed) -> Prepared {
        self.allowed = allowed;
        self
    }

    /// Takes the trace's name, before anything is started: no other run writes it from now on.
    ///
    /// # Errors
    /// If another run does, or the name cannot be written.
    pub fn claim(self) -> Result<Claimed, RecordError> {
        let output = &self.request.output;
        if output.metadata().is_ok_and(|facts| !facts.is_file()) {
            return Err(RecordError::NoRegularFile(output.clone()));
        }
        let (output, file) = Part::create(output, Over::Traces)?;
        Ok(Claimed { prepared: self, output, file })
    }

    /// Sends what the program prints to this process' stderr.
    ///
    /// # Errors
    /// If stderr cannot be shared.
    pub fn print_to_stderr(mut self) -> Result<Prepared, RecordError> {
        let sharing = || "cannot share stderr with the program".to_owned();
        let stderr = std::io::stderr().as_fd().try_clone_to_owned().doing(sharing)?;
        self.started.command.stdout(stderr);
        Ok(self)
    }
}

impl Claimed {
    /// Records until the program has ended, and completes the trace. Whatever ended the program, what arrived is in it.
    pub fn record(self) -> Result<Recorded, RecordError> {
        let Claimed { prepared, output, file } = self;
        let Prepared { request, program, started, door, watch, allowed } = prepared;
        let interrupts = Interrupts::catch().doing(|| "cannot catch signals".to_owned())?;
        let options = IngestOptions { place: request.region.start(), ..request.options };
        let settings = Settings { header: request.header(), options, windows: request.windows.clone() };
        let plan = Plan { output: request.output.clone(), settings: settings.clone() };
        let mut session =
            Session::start(started.command, started.channel, file, settings, Arc::clone(&watch))?;
        let family = door.map(|door| session.follow(door, plan));
        let ended = session.run(&interrupts, allowed)?;
        for words in started.messages.iter().flat_map(|messages| messages.words(ended.status)) {
            watch.say(&format!("homing: {words}"));
        }
        conclude(&request, output, ended, family.as_ref(), program)
    }
}

/// Gives the trace its name.
pub(crate) fn conclude(
    request: &Request,
    output: Part,
    ended: Ended,
    family: Option<&Family>,
    program: PathBuf,
) -> Result<Recorded, RecordError> {
    let Ended { status, spent, left } = ended;
    let Some(Left { summary, children: forks, command, replaced, place, failed }) = left else {
        let left = to_recover(&output, &request.output);
        return Ok(Recorded { status, trace: Err(NoTrace::EndedAtOnce(left)) });
    };
    let children = family.map(Family::take_ended).unwrap_or_default();
    if let Some(error) = failed {
        let error = unfinished(error, &output, &request.output);
        return Ok(Recorded { status, trace: Err(NoTrace::Failed(error)) });
    }
    let Some(summary) = summary else {
        output.discard();
        let nothing = RecordError::Nothing { why: request.recorder.nothing, status };
        return Ok(Recorded { status, trace: Err(NoTrace::Failed(nothing)) });
    };
    let path = output.complete()?;
    let bytes = path.metadata().map_or(0, |facts| facts.len());
    let unrecorded = family.map_or(forks, |family| family.unrecorded(forks));
    let turned_away = family.map_or(0, Family::turned_away);
    let program = command.first().filter(|_| !replaced.is_empty()).map_or(program, PathBuf::from);
    let never_ran = request.region.never_ran(place, &program, &summary, request.options.limit);
    let trace =
        Finished { path, summary, bytes, children, spent, unrecorded, turned_away, replaced, never_ran };
    Ok(Recorded { status, trace: Ok(trace) })
}
