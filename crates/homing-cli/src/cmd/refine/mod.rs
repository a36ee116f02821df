//! `homing refine`: the hottest lines of a program that runs, with the monitor card of the lab.

pub mod found;

use super::live::launch::{code, pass_on};
use super::live::{duration, interrupts};
use crate::exit::{self, Code, Result};
use crate::tables::things;
use anyhow::Context;
use clap::ValueHint;
use found::{Found, Hot, Steps};
use homing_core::refine::Line;
use homing_linux::child::End;
use homing_linux::interrupts::Interrupts;
use homing_linux::monitor_card::MonitorCard;
use homing_linux::physical;
use homing_linux::proc::{Pid, Proc};
use homing_linux::program;
use homing_linux::wait::{end_of, readable};
use homing_live::refine::{owners, Owner, Search};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Arguments of `homing refine`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Needs the monitor card: `homing lab run --card --cache 128K -- homing refine -- ./app`. \
Of a recording: `homing trace refine`. docs/monitors.md says how the search goes. The program's exit status is passed \
through."
)]
pub struct Args {
    /// How many of the hottest lines to find
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// How long each step of the search counts
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    step: Duration,
    /// Wait so long before the first step: programs initialise what they use later
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    after: Duration,
    /// Bytes of a line: a power of two from 32 to 4096
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = super::trace::refine::line)]
    line: u64,
    /// Look at a process that runs, and its children
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(conflicts_with = "command", required_unless_present = "command")]
    pid: Option<i32>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Searches while the program runs, and prints.
pub fn run(args: Args) -> Result {
    let card = MonitorCard::find(Path::new("/sys")).context("the monitor card of this machine")?;
    let Some(card) = card else {
        let message =
            "this machine has no monitor card: `homing lab run --card --cache 128K -- homing refine \
                       ...` has one; of a recording, `homing trace refine`";
        return Err(exit::error(Code::UNSUPPORTED, message.to_owned()));
    };
    let memory = physical::memory(Path::new("/proc")).context("where the machine's memory is")?;
    let caught = interrupts()?;
    let mut search = Search::new(&card, &memory, args.line, args.top as usize);
    if let Some(pid) = args.pid {
        let end = end_of(Pid(pid)).with_context(|| format!("process {pid}"))?;
        let looks = Looks { args: &args, pid: Pid(pid), end: end.as_fd(), caught: &caught };
        looks.search(&mut search)?;
        return Ok(Code::OK);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&args.command[0], &path)?;
    let text = args.command[0].to_string_lossy();
    let child = Command::new(program).args(&args.command[1..]).spawn();
    let child = child.with_context(|| format!("cannot start {text}"))?;
    let mut end = End::of(child).map_err(|(mut child, error)| {
        // Nobody else would wait for it.
        let _ = child.wait();
        anyhow::Error::from(error).context(format!("cannot follow {text}"))
    })?;
    let ended: OwnedFd = end.ended().try_clone_to_owned()?;
    let looks = Looks { args: &args, pid: Pid(end.child().id() as i32), end: ended.as_fd(), caught: &caught };
    let searched = looks.search(&mut search);
    // Whatever became of the search, the program runs to its end, or ends by the signal that ended the search.
    let status = loop {
        if let Some(signal) = caught.to_forward() {
            pass_on(end.child(), signal);
        }
        if let Some(status) = end.within(LOOK)? {
            break status;
        }
    };
    searched?;
    Ok(code(status))
}

/// Looks at one process and its children.
struct Looks<'a> {
    args: &'a Args,
    pid: Pid,
    /// Can be read once the process has ended.
    end: BorrowedFd<'a>,
    caught: &'a Interrupts,
}

impl Looks<'_> {
    /// Searches until the lines are known or the process ends, and prints.
    fn search(&self, search: &mut Search<'_>) -> anyhow::Result<()> {
        self.wait(self.args.after)?;
        let mut known = BTreeMap::new();
        while !self.over()? {
            if !search.step(&mut || self.wait(self.args.step))? {
                break;
            }
            // While it is there: the process may end in the next step, and its pages go with it.
            known.extend(self.owners(&search.found().hottest()));
        }
        let found = self.found(search, &known);
        match self.args.json {
            true => crate::stdout::json(found.json())?,
            false => outln!("{}{}", self.early(search), found.text()),
        }
        Ok(())
    }

    /// Says first if the search ended before the hottest lines were known.
    fn early(&self, search: &Search<'_>) -> String {
        if search.found().is_done() {
            return String::new();
        }
        let why = match self.caught.count() > 0 {
            true => "it was interrupted",
            false => "the program ended; --step makes them shorter",
        };
        format!(
            "The hottest lines are not known after {} of {:?}: {why}.\n",
            things(search.steps.len() as u64, "step"),
            self.args.step
        )
    }

    fn over(&self) -> std::io::Result<bool> {
        Ok(self.caught.count() > 0 || !readable(&[self.end], Duration::ZERO)?.is_empty())
    }

    /// Waits so long, or until the process ends or somebody wants an end.
    fn wait(&self, time: Duration) -> std::io::Result<()> {
        let until = Instant::now() + time;
        while !self.over()? {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            readable(&[self.end], left.min(LOOK))?;
        }
        Ok(())
    }

    fn owners(&self, lines: &[Line]) -> BTreeMap<u64, Owner> {
        let proc = Proc::default();
        let pids: Vec<Pid> = proc.with_descendants(BTreeSet::from([self.pid])).into_iter().collect();
        owners(&proc, &pids, lines)
    }

    fn found(&self, search: &Search<'_>, known: &BTreeMap<u64, Owner>) -> Found {
        let refinement = search.found();
        let hot = |line: Line| {
            let owner = known.get(&line.address);
            let data =
                owner.map_or_else(|| "(freed, or of another process)".to_owned(), |owner| owner.data.clone());
            let address = owner.map_or(line.address, |owner| owner.address);
            Hot { address, count: line.count, data, physical: Some(line.address) }
        };
        Found {
            of: Steps::Intervals,
            line: self.args.line,
            steps: search.steps.clone(),
            lines: refinement.hottest().into_iter().map(hot).collect(),
            open: refinement.open(),
            lost: 0,
        }
    }
}
