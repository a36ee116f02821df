//! `homing run`: starts a program and brings its pages home while it runs.

use super::{drive, interrupts, place, report, runtime, Plan, Settings};
use crate::exit::{Code, Result};
use anyhow::Context;
use clap::ValueHint;
use homing_linux::child::End;
use homing_linux::hint_faults::preload;
use homing_linux::interrupts::{signal_child, Interrupts};
use homing_linux::proc::Pid;
use homing_linux::{libraries, program};
use homing_live::config::Bind;
use homing_live::source::{Entry, Places, SOURCES};
use homing_live::targets::Choice;
use homing_session::plan::Plan as Moves;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// How late a signal may be passed on that comes just before a wait; all others cut the wait short.
const POLL: Duration = Duration::from_millis(200);

/// Arguments of `homing run`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The program's exit status is passed through (128 + N for signal N). Signals sent to homing \
are passed on to it. docs/live.md has sources, rights and what is safe."
)]
pub struct Args {
    #[command(flatten)]
    settings: Settings,
    /// Run the engine inside of the program, which needs no change: its OpenMP runtime says where its iterations end
    #[arg(long)]
    runtime: bool,
    /// Place these data only, by the names that `homing why` prints, and run no engine: NAME=interleave,
    /// NAME=interleave:0-1, NAME=node:0, NAME=weighted:0=3,1=1 or NAME=blocks; or a file of `homing why --plan`
    #[arg(long, value_name = "NAME=PLACEMENT", conflicts_with = "runtime")]
    place: Vec<String>,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, required = true,
          value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs.
pub fn run(args: Args) -> Result {
    if !args.place.is_empty() {
        return place::run(&args.settings, &args.place, &args.command);
    }
    // That source works inside of a program only.
    let protects = args.settings.config()?.source == "protect";
    if args.runtime || protects {
        return runtime::run(&args.settings, &args.command, protects);
    }
    let plan = Plan::new(&args.settings)?;
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    plan.tell_where_nothing_moves(&args.settings, &format!("homing run {}", words.join(" ")));
    launch(plan, &args.settings, &args.command, Moves::default()).map(|(code, _)| code)
}

/// Runs a command under a session, which also makes the moves of `moves`. Returns its status and how many were left.
pub fn launch(
    mut plan: Plan,
    settings: &Settings,
    words: &[OsString],
    moves: Moves,
) -> anyhow::Result<(Code, usize)> {
    let interval = plan.config.interval;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&words[0], &path)?;
    let caught = interrupts()?;
    let text: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut command = Command::new(program);
    command.args(&words[1..]);
    // The source is opened before the program starts: what cannot work is said before anything runs.
    let choice = Choice::Processes { pids: Vec::new(), children: true };
    let binds = matches!(plan.config.bind, Some(Bind::Fill | Bind::RoundRobin));
    let (auto, nodes) = (plan.config.source == "auto" && !binds, plan.host.nodes());
    let mut session = plan.begin(choice, settings, text.join(" "), moves)?;
    if auto && !session.source().sees() {
        if nodes > 1 {
            errln!(
                "homing: the engine does not run, and nothing moves: {}; `homing run --source protect` needs no right",
                no_source()
            );
        }
        let left = session.planned();
        let summary = session.finish().map_err(super::coded);
        let status = wait_for(start(&mut command, &text[0])?, &caught)?;
        // The line above is the whole summary for a reader.
        let mut quiet = settings.clone();
        quiet.quiet = true;
        return Ok((end_with(status, summary.and_then(|summary| report(&summary, &quiet))), left));
    }
    give_helper(&mut command, session.source().name);
    let mut end = match start(&mut command, &text[0]) {
        Ok(end) => end,
        Err(error) => {
            session.finish().map_err(super::coded)?;
            return Err(error);
        }
    };
    session.add(Pid(end.child().id() as i32));
    let mut status = None;
    let driven = drive(&mut session, interval, |_| {
        if let Some(signal) = caught.to_forward() {
            pass_on(end.child(), signal);
        }
        status = status.or(end.status().ok().flatten());
        status.is_some()
    });
    let left = session.planned();
    let summary = session.finish().map_err(super::coded);
    // Whatever happened to the engine, the program runs to its end, and its status is what counts.
    let status = match status {
        Some(status) => status,
        None => wait_for(end, &caught)?,
    };
    let told = driven.and(summary).and_then(|summary| report(&summary, settings));
    Ok((end_with(status, told), left))
}

/// Starts the program.
pub fn start(command: &mut Command, name: &str) -> anyhow::Result<End> {
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    match End::of(child) {
        Ok(end) => Ok(end),
        // The program runs to its end all the same.
        Err((mut child, error)) => {
            child.wait()?;
            Err(anyhow::Error::from(error).context(format!("cannot follow {name}")))
        }
    }
}

/// Passes signals on until the program ends.
pub fn wait_for(mut end: End, caught: &Interrupts) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(signal) = caught.to_forward() {
            pass_on(end.child(), signal);
        }
        if let Some(status) = end.within(POLL)? {
            return Ok(status);
        }
    }
}

/// The program's status, whatever happened to the engine, which is said.
pub fn end_with(status: ExitStatus, told: anyhow::Result<()>) -> Code {
    if let Err(error) = told {
        errln!("homing: {error:#}");
    }
    code(status)
}

/// Why no source can bring pages home here.
pub fn no_source() -> String {
    let missing = |entry: &Entry| Some(format!("{}: {}", entry.name, (entry.missing)(&Places::default())?));
    let missing: Vec<String> = SOURCES.iter().filter(|entry| entry.brings_home).filter_map(missing).collect();
    let missing = if missing.is_empty() { String::new() } else { format!(" ({})", missing.join("; ")) };
    format!("no source that works here can bring pages home{missing}")
}

/// With hint faults the program starts the scanning helper itself, if the library for that is there; else it is
/// injected.
fn give_helper(command: &mut Command, source: &str) {
    let library = libraries::find(preload::LIBRARY).ok().filter(|_| source == "hint-faults");
    let inherited = |name: &str| std::env::var_os(name);
    command.envs(library.and_then(|library| preload::environment(&library, inherited)).into_iter().flatten());
}

pub fn pass_on(child: &Child, signal: i32) {
    if let Err(error) = signal_child(child, signal) {
        errln!("homing: signal {signal} could not be passed on: {error}");
    }
}

/// The program's exit status as our own.
pub fn code(status: ExitStatus) -> Code {
    match (status.code(), status.signal()) {
        (Some(code), _) => Code(code as u8),
        (None, signal) => Code(128u8.wrapping_add(signal.unwrap_or(0) as u8)),
    }
}
