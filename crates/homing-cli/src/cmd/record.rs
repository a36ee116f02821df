//! `homing record`: runs a program and records every data reference of all its threads.

use crate::exit::{self, Code, Result};
use crate::files::{Over, Part};
use crate::recording::family::{to_recover, Child, Family, Plan, MOST_AT_ONCE};
use crate::recording::{order, program, valgrind, Ended, Session, Settings};
use crate::tables::things;
use anyhow::Context;
use homing_core::trace::{merge, Header, IngestOptions, Summary};
use homing_linux::channel::{Capacity, Channel};
use homing_linux::follow::Door;
use homing_linux::interrupts::Interrupts;
use homing_linux::visible;
use indicatif::HumanBytes;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `homing record`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The program's exit status is passed through (128 + N for signal N). Ctrl-C ends the \
program and completes the trace; a second Ctrl-C ends at once and leaves FILE.part for `homing trace recover`, as does \
a kill of homing, with which the recorded processes end. No later run writes over it: that one's is FILE.part2."
)]
pub struct Args {
    /// The trace to write; an existing trace is replaced when the new one is complete
    #[arg(short, long, value_name = "FILE", default_value = "homing.trace")]
    output: PathBuf,
    /// How to record: any program under Valgrind, or one compiled with `homing cflags` and `homing ldflags`
    #[arg(long, value_enum, default_value = "valgrind")]
    recorder: Recorder,
    /// `line` drops references that hit in a per-thread filter of 512 lines of 64 bytes: smaller, and still enough for
    /// page placement behind caches
    #[arg(long, value_enum, default_value = "none")]
    filter: Filter,
    /// Record child processes, too, each into a trace of its own, called after its process id: app.trace,
    /// app.1234.trace
    #[arg(long)]
    follow: bool,
    /// Leave out the first N references
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u64,
    /// Record at most N references, of those that a filter leaves; the program runs on
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Seed of the order in which the threads' references are merged
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Instructions that a thread runs in the merged order before another gets its turn, on average
    #[arg(long, value_name = "N", default_value_t = merge::Options::default().quantum)]
    quantum: u32,
    /// Blocks of code that a thread runs under Valgrind before another gets its turn
    #[arg(long, value_name = "N", default_value_t = valgrind::DEFAULT_SLICE,
          value_parser = clap::value_parser!(u32).range(10..=100_000))]
    slice: u32,
    /// Say nothing on stderr when all is well
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Recorder {
    Valgrind,
    Tsan,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    None,
    Line,
}

/// The command to start and, for Valgrind, its messages.
struct Prepared {
    command: Command,
    messages: Option<valgrind::Messages>,
    channel: Channel,
    door: Option<Door>,
}

/// Records.
pub fn run(args: Args) -> Result {
    let prepared = prepare(&args)?;
    let (output, file) = create(&args.output)?;
    let interrupts = Interrupts::catch()?;
    let options =
        IngestOptions { line_filter: args.filter == Filter::Line, skip: args.skip, limit: args.limit };
    let settings = Settings { header: header(&args), options };
    let plan = Plan { output: args.output.clone(), settings: settings.clone(), merge: merge_options(&args) };
    let mut session = Session::start(prepared.command, prepared.channel, file, settings)?;
    let family = prepared.door.map(|door| session.follow(door, plan));
    let ended = session.run(&interrupts)?;
    if let Some(verdict) = prepared.messages.as_ref().and_then(valgrind::Messages::verdict) {
        errln!("homing: {verdict}");
    }
    conclude(&args, output, ended, family.as_ref())
}

/// Begins the trace; says where earlier runs that were killed left theirs.
fn create(wanted: &Path) -> anyhow::Result<(Part, File)> {
    if wanted.metadata().is_ok_and(|facts| !facts.is_file()) {
        let message =
            format!("{} exists and is not a regular file: choose another name with -o", wanted.display());
        return Err(exit::error(Code::USAGE, message));
    }
    Part::tell_left_behind(wanted);
    Part::create(wanted, Over::Traces)
}

fn merge_options(args: &Args) -> merge::Options {
    merge::Options { quantum: args.quantum, seed: args.seed }
}

fn prepare(args: &Args) -> anyhow::Result<Prepared> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&args.command[0], &path)?;
    let door = args.follow.then(Door::open).transpose().context("cannot listen for child processes")?;
    let (mut command, messages, channel) = match args.recorder {
        Recorder::Valgrind if program::carries_runtime(&program) => {
            let message = format!(
                "{}: linked with the homing runtime, whose calls would be recorded as the program's: record it with \
                 --recorder tsan, or build it without `homing cflags` and `homing ldflags`",
                program.display()
            );
            return Err(exit::error(Code::UNSUPPORTED, message));
        }
        Recorder::Valgrind => {
            let tool = valgrind::find_tool()?;
            let channel = Channel::new(Capacity { segments: 64, segment_words: 1 << 14 })?;
            let wire = door.as_ref().map_or_else(|| channel.address(), Door::address);
            let (command, messages) =
                valgrind::command(&tool, &wire, args.slice, &program, &args.command[1..])?;
            (command, Some(messages), channel)
        }
        Recorder::Tsan if args.follow => {
            let message =
                "--follow: only the Valgrind recorder follows child processes; leave out --recorder tsan";
            return Err(exit::error(Code::USAGE, message));
        }
        Recorder::Tsan => {
            let mut command = Command::new(&program);
            command.args(&args.command[1..]);
            (command, None, Channel::new(Capacity { segments: 256, segment_words: 1 << 15 })?)
        }
    };
    if std::env::var_os("OMP_WAIT_POLICY").is_none() {
        // Threads that spin at barriers would fill the trace with references that mean nothing.
        command.env("OMP_WAIT_POLICY", "passive");
    }
    Ok(Prepared { command, messages, channel, door })
}

fn header(args: &Args) -> Header {
    let name = if args.recorder == Recorder::Tsan { "tsan" } else { "valgrind" };
    let mut header = Header::new(name, env!("CARGO_PKG_VERSION"));
    header.command = args.command.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    header.filter = if args.filter == Filter::Line { "line" } else { "none" }.to_owned();
    let text = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpu = text("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or_default();
    header.host.insert("kernel".into(), text("/proc/sys/kernel/osrelease").trim().into());
    header.host.insert("cpu".into(), model.trim_start_matches([' ', '\t', ':']).into());
    for (key, value) in [
        ("skip", serde_json::json!(args.skip)),
        ("limit", serde_json::json!(args.limit)),
        ("seed", serde_json::json!(args.seed)),
        ("quantum", serde_json::json!(args.quantum)),
        ("slice", serde_json::json!(args.slice)),
    ] {
        header.more.insert(key.into(), value);
    }
    header
}

/// Orders the trace, gives it its name, tells what was recorded.
fn conclude(args: &Args, output: Part, ended: Ended, family: Option<&Family>) -> Result {
    let left = || to_recover(&output, &args.output.display().to_string());
    let Some(recorded) = ended.left else {
        errln!("homing: ended at once{}", left());
        return Ok(ended.code);
    };
    let children = family.map(Family::take_ended).unwrap_or_default();
    if let Some(error) = recorded.failed {
        anyhow::bail!("{error:#}{}", left());
    }
    let Some(summary) = recorded.summary else {
        output.discard();
        return nothing_recorded(args, ended.code);
    };
    let ordered = order::append(output.path(), merge_options(args))
        .map_err(|error| anyhow::anyhow!("{error:#}{}", left()))?;
    let name = output.complete()?;
    if !args.quiet {
        report(&name, &ordered);
    }
    list(&children, args.quiet);
    let unrecorded = family.map_or(recorded.children, |family| family.unrecorded(recorded.children));
    if !args.quiet && unrecorded > 0 {
        not_recorded(unrecorded, family, args.recorder);
    }
    warn(&summary, &ordered.report);
    let failed = children.iter().any(|child| child.recorded.is_err());
    Ok(if failed { Code::FAILURE } else { ended.code })
}

fn nothing_recorded(args: &Args, code: Code) -> Result {
    let why = match args.recorder {
        Recorder::Valgrind => "Valgrind did not get as far as running the program (its message is above)",
        Recorder::Tsan => {
            "the program holds no recording runtime: compile it with `homing cflags` and link it with `homing ldflags`"
        }
    };
    let message = format!("nothing was recorded: {why}; the command ended with status {}", code.0);
    Err(exit::error(Code::FAILURE, message))
}

fn report(name: &Path, ordered: &order::Ordered) {
    let summary = &ordered.summary;
    let each = match summary.references {
        0 => String::new(),
        references => format!(", {:.3} bytes a reference", ordered.bytes as f64 / references as f64),
    };
    errln!(
        "homing: {}: {} ({}, {}), {}, {}, {}{each}",
        name.display(),
        things(summary.references, "reference"),
        things(summary.reads, "read"),
        things(summary.writes, "write"),
        things(summary.threads.into(), "thread"),
        things(summary.frames.into(), "page"),
        HumanBytes(ordered.bytes),
    );
}

/// The traces of the children; when quiet, only those that failed.
fn list(children: &[Child], quiet: bool) {
    if !children.is_empty() && !quiet {
        errln!("homing: {} child processes:", children.len());
    }
    for child in children {
        let command = child.command.join(" ");
        let command = visible::name(&command);
        match &child.recorded {
            Ok(_) if quiet => {}
            Ok((name, references)) => {
                errln!("  {:>8} {references:>14} references  {}  {command}", child.pid, name.display());
            }
            Err(error) => errln!("  {:>8} not recorded: {command}: {error:#}", child.pid),
        }
    }
}

fn not_recorded(processes: u32, family: Option<&Family>, recorder: Recorder) {
    let were = if processes == 1 { "process was" } else { "processes were" };
    let why = match family {
        None if recorder == Recorder::Tsan => " (only the Valgrind recorder can, with --follow)".to_owned(),
        None => " (--follow records them, too, and all that they start)".to_owned(),
        Some(family) if family.turned_away() > 0 => {
            format!(" ({} while {MOST_AT_ONCE} others were)", family.turned_away())
        }
        Some(_) => String::new(),
    };
    errln!("homing: {processes} child {were} not recorded{why}");
}

/// What is missing is said even when quiet.
fn warn(summary: &Summary, report: &merge::Report) {
    for (count, what) in [
        (summary.lost, "references were lost by the recorder"),
        (summary.lost_segments, "segments of the recorder never arrived"),
        (summary.malformed, "words of the recorder made no sense"),
        (report.broken_acquires, "synchronisations were ordered against their releases"),
    ] {
        if count > 0 {
            errln!("homing: warning: {count} {what}");
        }
    }
}
