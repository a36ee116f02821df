//! What `homing why` is about: a trace, a file of perf, a command that is recorded, or a process that is sampled.

use super::command::{Budget, Command};
use super::process::Watched;
use crate::exit::{self, Code};
use crate::region::RegionArgs;
use clap::ValueHint;
use homing_pipeline::perf_data::is_perf_data;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a trace begins with.
const TRACE: &[u8; 8] = b"HOMINGTR";

/// What is asked about.
#[derive(clap::Args)]
pub struct Subject {
    /// A trace, made by `homing record`; a file of `perf mem record` or `perf c2c record`; or a program with its
    /// arguments, which is recorded first
    #[arg(value_name = "TRACE|PROGRAM", conflicts_with_all = ["pid", "cgroup"],
          value_hint = ValueHint::AnyPath)]
    words: Vec<OsString>,
    /// A command to record and judge; arguments that begin with a dash come after --
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "cgroup"],
          value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// Record a command for at most this long (60s), at most this many references (100M), or both (60s,100M) [default:
    /// 60s,1G]
    ///
    /// Then the program is ended.
    #[arg(long, value_name = "BUDGET", conflicts_with_all = ["pid", "cgroup"])]
    budget: Option<Budget>,
    #[command(flatten)]
    region: RegionArgs,
    /// Keep the trace of a command
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "cgroup"])]
    keep: Option<PathBuf>,
    /// A process that runs; may be given several times
    #[arg(long, value_name = "N")]
    pid: Vec<i32>,
    /// Also what these processes start
    #[arg(long, requires = "pid")]
    children: bool,
    /// All processes of a cgroup and of those below it (a directory in /sys/fs/cgroup)
    #[arg(long, value_name = "PATH", conflicts_with = "pid", value_hint = ValueHint::DirPath)]
    cgroup: Option<PathBuf>,
    /// How long processes are sampled [default: 30]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Source of samples of processes (see `homing doctor`) [default: auto, the first that works]
    #[arg(long, value_name = "SOURCE", value_parser = super::process::sources())]
    source: Option<String>,
}

/// What it is.
pub enum Input {
    /// A trace.
    Trace(PathBuf),
    /// A file of perf.
    PerfData(PathBuf),
    /// A command.
    Command(Command),
    /// Processes.
    Process(Watched),
}

impl Subject {
    /// What it is; refuses what does not go together.
    pub fn input(&self) -> anyhow::Result<Input> {
        if !self.pid.is_empty() || self.cgroup.is_some() {
            self.without_region()?;
            return Ok(Input::Process(Watched {
                pids: self.pid.clone(),
                children: self.children,
                cgroup: self.cgroup.clone(),
                time: Duration::from_secs(self.seconds.unwrap_or(30)),
                source: self.source.clone().unwrap_or_else(|| "auto".into()),
            }));
        }
        if self.children || self.seconds.is_some() || self.source.is_some() {
            return Err(usage(
                "--children, --seconds and --source are for processes: expected --pid or --cgroup",
            ));
        }
        let command = match self.program() {
            Some(program) => std::iter::once(program).chain(self.words[1..].iter().cloned()).collect(),
            None => self.words.clone(),
        };
        let is_command = self.words.is_empty() || self.program().is_some();
        let command: Vec<OsString> = command.into_iter().chain(self.command.iter().cloned()).collect();
        match (command.first(), is_command) {
            (None, _) => Err(usage(
                "nothing to judge: expected a trace, a command (`homing why -- ./app`), --pid or --cgroup",
            )),
            (Some(_), true) => Ok(Input::Command(Command {
                words: command,
                budget: self.budget.unwrap_or_default(),
                region: self.region.region(),
                keep: self.keep.clone(),
            })),
            (Some(trace), false) => self.trace(Path::new(trace), command.len()),
        }
    }

    fn trace(&self, trace: &Path, words: usize) -> anyhow::Result<Input> {
        if words > 1 {
            let message = format!(
                "{} is no program, and one trace is judged at a time: expected `homing why TRACE` or `homing why -- \
                 COMMAND`",
                trace.display()
            );
            return Err(usage(message));
        }
        if self.budget.is_some() || self.keep.is_some() {
            return Err(usage("--budget and --keep are for a command: expected `homing why -- COMMAND`"));
        }
        self.without_region()?;
        if is_perf_data(&trace.join("data")) {
            let message = format!(
                "{} is a directory of `perf record --threads`: expected a file, as perf writes it without --threads",
                trace.display()
            );
            return Err(exit::error(Code::FAILURE, message));
        }
        Ok(match is_perf_data(trace) {
            true => Input::PerfData(trace.to_owned()),
            false => Input::Trace(trace.to_owned()),
        })
    }

    fn without_region(&self) -> anyhow::Result<()> {
        match self.region.region().is_everything() {
            true => Ok(()),
            false => Err(usage(
                "--from, --to and --exclude-startup are for a command: expected `homing why -- COMMAND`; a trace has \
                 the region that it was recorded with, and --phase takes a part of it",
            )),
        }
    }

    /// The first word, if it is a program and no trace: as a path, which no directory of $PATH is searched for.
    fn program(&self) -> Option<OsString> {
        let path = Path::new(self.words.first()?);
        let facts = path.metadata().ok().filter(|facts| facts.is_file())?;
        let runs = facts.permissions().mode() & 0o111 != 0;
        let bare = path.components().count() == 1 && !path.is_absolute();
        let path = if bare { Path::new(".").join(path) } else { path.to_owned() };
        (runs && !is_trace(&path) && !is_perf_data(&path)).then(|| path.into())
    }
}

fn is_trace(path: &Path) -> bool {
    let mut magic = [0; TRACE.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *TRACE
}

fn usage(message: impl Into<String>) -> anyhow::Error {
    exit::error(Code::USAGE, message)
}
