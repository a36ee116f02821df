//! `homing record`: runs a program and records every data reference of all its threads.

use crate::cmd::live::duration;
use crate::exit::{self, Code, Result};
use crate::files;
use crate::options::ORDER_MEMORY;
use crate::progress::{self, Recording};
use crate::region::{self, RegionArgs};
use crate::tables::things;
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::ValueHint;
use homing_linux::causes::with_causes;
use homing_linux::files::FileError;
use homing_linux::visible;
use homing_pipeline::model::bytes;
use homing_pipeline::TraceFile;
use homing_record::{
    Allowed, Child, Finished, Names, NoTrace, RecordError, Recorder, Replaced, Request, Watch, Windows,
    MOST_AT_ONCE, RECORDERS,
};
use homing_trace::{merge, Grain, IngestOptions, Summary};
use indicatif::HumanBytes;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Arguments of `homing record`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The program's exit status is passed through (128 + N for signal N). Ctrl-C ends the \
program and completes the trace; a second Ctrl-C ends at once and leaves FILE.part for `homing trace recover`, as does \
a kill of homing, with which the recorded processes end. No later run writes over it: that one's is FILE.part2."
)]
pub struct Args {
    /// The trace to write; an existing trace is replaced when the new one is complete. `%p` stands for the process id
    /// (of --pid, else of homing), `%r` for the rank in a job of mpirun or srun, `%q{VAR}` for an environment
    /// variable, `%%` for %. A name without any gets the rank of all but the first process of a job [default:
    /// homing.trace; in a job homing.RANK.trace]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How to record [default: what the program is built for, else valgrind]
    #[arg(long,
          value_parser = PossibleValuesParser::new(
              RECORDERS.iter().map(|recorder| PossibleValue::new(recorder.name).help(recorder.summary))))]
    recorder: Option<String>,
    /// `line` drops references that hit in a per-thread filter of 512 lines of 64 bytes: smaller, and still enough for
    /// page placement behind caches
    #[arg(long, value_enum, default_value = "none")]
    filter: Filter,
    /// How fine addresses are: `page` keeps only the page (4096 bytes) of each reference. Cheaper and smaller, with the
    /// same bounds and policies, but without cache lines and caches
    #[arg(long, value_enum, default_value = "byte")]
    grain: Fineness,
    /// Leave out references of system libraries: of code in other files than the program's own and those of libraries
    /// in its directory and below
    #[arg(long)]
    only_program: bool,
    /// Record child processes, too, each into a trace of its own, called after its process id: app.trace,
    /// app.1234.trace
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    region: RegionArgs,
    /// Leave out the first N references
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = count)]
    skip: u64,
    /// Record at most N references, of those that a filter leaves; the program runs on
    #[arg(long, value_name = "N", value_parser = count)]
    limit: Option<u64>,
    /// Seed of the order in which the threads' references are merged
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Instructions that a thread runs in the merged order before another gets its turn, on average
    #[arg(long, value_name = "N", default_value_t = merge::Options::default().quantum)]
    quantum: u32,
    /// Put the references in one order at once. Else the first command that needs the order makes it, and keeps it in
    /// the trace
    #[arg(long)]
    merge: bool,
    /// Memory for synchronisation operations while the order is made (8 bytes each); what is beyond goes to a temporary
    /// file beside the trace
    #[arg(long, value_name = "SIZE", default_value = ORDER_MEMORY, value_parser = bytes)]
    memory: u64,
    /// Blocks of code that a thread runs under Valgrind before another gets its turn
    #[arg(long, value_name = "N", default_value_t = homing_record::DEFAULT_SLICE,
          value_parser = clap::value_parser!(u32).range(10..=100_000))]
    slice: u32,
    /// Record a process that runs already, from now on; it runs on afterwards. Its program must record itself (`homing
    /// cc`, `homing cflags`)
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..=4_194_304),
          conflicts_with_all = ["command", "recorder", "follow", "from", "to", "exclude_startup"])]
    pid: Option<u32>,
    /// With --pid: end after this time
    #[arg(long = "for", value_name = "DURATION", requires = "pid", value_parser = duration)]
    time: Option<Duration>,
    /// Record in windows: `50ms/1s` is what the program does in 50 ms of each second, at a place in it that --seed
    /// gives; `1M/50M` counts references; `mark:NAME/50` goes from a mark of that name to the next, once in 50. Between
    /// windows the program runs nearly as fast as without. `homing optimal` then estimates. For programs that record
    /// themselves
    #[arg(long, value_name = "LENGTH/PERIOD", value_parser = windows,
          conflicts_with_all = ["from", "to", "exclude_startup", "skip", "follow"])]
    windows: Option<Lengths>,
    /// Say nothing on stderr when all is well
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments,
          required_unless_present = "pid", value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    None,
    Line,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Fineness {
    Byte,
    Page,
}

/// Records.
pub fn run(args: Args) -> Result {
    let (quiet, merge, windows) = (args.quiet, args.merge, args.windows.clone());
    let (pid, time) = (args.pid, args.time);
    let variable = |name: &str| std::env::var_os(name);
    let names = Names { process: pid.unwrap_or_else(std::process::id), variable: &variable };
    let (rank, output) = (names.rank(), names.trace(args.output.as_deref()).map_err(RecordError::from)?);
    let request = request(args, output.clone())?;
    let (recorder, follow, command) = (request.recorder, request.follow, request.command.clone());
    let watch: Arc<dyn Watch> = Arc::new(Recording::new());
    let recorded = if let Some(pid) = pid {
        files::tell_left_behind(&output);
        request.attach(pid, Allowed { time, references: true }, &watch)?
    } else {
        let claimed = request.prepare(watch).and_then(|prepared| {
            files::tell_left_behind(&output);
            prepared.claim()
        });
        match claimed {
            Ok(claimed) => claimed.record()?,
            Err(error) if runs_all_the_same(&error, rank) => return run_unrecorded(&command, &error),
            Err(error) => return Err(error.into()),
        }
    };
    let status = Code(recorded.status);
    let mut finished = match recorded.trace {
        Ok(finished) => finished,
        Err(failure) => return without_trace(failure, status, rank),
    };
    if merge {
        put_in_order(&mut finished)?;
    }
    if !quiet {
        report(&finished);
    }
    list(&finished.path, &finished.children, quiet);
    if !quiet && finished.unrecorded > 0 {
        not_recorded(&finished, follow, recorder);
    }
    if !quiet {
        finished.replaced.iter().for_each(left_out);
    }
    if let Some(never_ran) = &finished.never_ran {
        errln!("homing: warning: {}", region::never_ran(never_ran, &finished.summary));
    }
    if let Some(lengths) = windows.filter(|_| finished.summary.windows == 0) {
        errln!("homing: warning: no window opened before the program ended: {}", lengths.why_none());
    }
    warn(&finished.summary);
    Ok(if finished.children.iter().any(is_lost) { Code::FAILURE } else { status })
}

/// Whether a program that cannot be recorded is to run without: where another run writes its trace, and where it is one
/// of a job's, which would wait for it for ever.
fn runs_all_the_same(error: &RecordError, rank: Option<u32>) -> bool {
    match error {
        RecordError::Program(_) => false,
        RecordError::File(FileError::InUse { .. }) => true,
        _ => rank.is_some(),
    }
}

/// What a program leaves of which there is no trace: its status, where it is one of a job's or the user ended it.
fn without_trace(failure: NoTrace, status: Code, rank: Option<u32>) -> Result {
    match failure {
        NoTrace::EndedAtOnce(left) => errln!("homing: ended at once{left}"),
        NoTrace::Failed(error) if rank.is_some() => errln!("homing: {}", with_causes(&error)),
        NoTrace::Failed(error) => return Err(error.into()),
    }
    Ok(status)
}

/// Runs a program in place of this process, which passes its status on.
fn run_unrecorded(command: &[OsString], why: &RecordError) -> Result {
    let program = command.first().map_or("".as_ref(), OsString::as_os_str);
    errln!("homing: {}: the program runs without being recorded", with_causes(why));
    let error = std::process::Command::new(program).args(&command[1..]).exec();
    Err(error).with_context(|| format!("cannot start {}", program.to_string_lossy()))
}

fn request(args: Args, output: PathBuf) -> anyhow::Result<Request> {
    let recorder = match &args.recorder {
        Some(name) => homing_record::named(name)
            .ok_or_else(|| exit::error(Code::USAGE, format!("--recorder {name}: no such recorder")))?,
        None => homing_record::suited(&args.command),
    };
    Ok(Request {
        recorder,
        command: args.command,
        output,
        options: IngestOptions {
            line_filter: args.filter == Filter::Line,
            skip: args.skip,
            limit: args.limit,
            ..IngestOptions::default()
        },
        grain: match args.grain {
            Fineness::Byte => Grain::Byte,
            Fineness::Page => Grain::Page,
        },
        only_program: args.only_program,
        merge: merge::Options { quantum: args.quantum, seed: args.seed, memory: args.memory },
        slice: args.slice,
        follow: args.follow,
        region: args.region.region(),
        windows: args.windows.as_ref().and_then(|lengths| lengths.windows(args.seed)),
    })
}

/// The length of windows and of the period that has one.
#[derive(Clone, Debug)]
enum Lengths {
    Time(Duration, Duration),
    References(u64, u64),
    /// The name of marks, and one of how many begins a window.
    Marks(String, u64),
}

impl Lengths {
    fn windows(&self, seed: u64) -> Option<Windows> {
        match *self {
            Lengths::Time(length, period) => Windows::of_time(length, period, seed),
            Lengths::References(length, period) => Windows::of_references(length, period, seed),
            Lengths::Marks(ref name, each) => Windows::of_marks(name, each, seed),
        }
    }

    /// What to do where none opened.
    fn why_none(&self) -> String {
        match self {
            Lengths::Marks(name, each) => format!(
                "it made fewer than {each} marks `{name}`, or none; check the name (`homing trace info` counts marks), \
                 take a smaller number, or record all of it"
            ),
            Lengths::Time(..) | Lengths::References(..) => {
                "take shorter periods (--windows), or record all of it".to_owned()
            }
        }
    }
}

fn windows(text: &str) -> std::result::Result<Lengths, String> {
    if let Some(marks) = text.strip_prefix("mark:") {
        let parts = marks.rsplit_once('/').filter(|(name, _)| !name.is_empty());
        let each = parts.and_then(|(name, each)| Some((name, references(each).filter(|&each| each > 1)?)));
        return match each {
            Some((name, each)) => Ok(Lengths::Marks(name.to_owned(), each)),
            None => Err(format!(
                "`{text}`: expected mark:NAME/N with N above 1: one of N stretches between marks"
            )),
        };
    }
    let (length, period) = text.split_once('/').ok_or_else(|| {
        format!("`{text}`: expected LENGTH/PERIOD, such as 50ms/1s, 1M/50M (references) or mark:NAME/50")
    })?;
    let lengths = match (references(length), references(period)) {
        (Some(length), Some(period)) => Lengths::References(length, period),
        (None, None) => Lengths::Time(duration(length)?, duration(period)?),
        _ => return Err(format!("`{text}`: expected two times or two numbers of references")),
    };
    match lengths.windows(0) {
        Some(_) => Ok(lengths),
        None => Err(format!("`{text}`: expected a window that is longer than 0 and shorter than its period")),
    }
}

/// As [`references`], or what was expected.
fn count(text: &str) -> std::result::Result<u64, String> {
    references(text).ok_or_else(|| "expected a number of references, such as 5000000 or 5M".to_owned())
}

/// A number of references: `5000000`, `5000K`, `5M`, `5G`; `None` if the text is none.
pub fn references(text: &str) -> Option<u64> {
    let (digits, each) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1_000),
        b'M' => (&text[..text.len() - 1], 1_000_000),
        b'G' => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(each)
}

fn report(finished: &Finished) {
    let Finished { path, summary, bytes, .. } = finished;
    let each = match summary.references {
        0 => String::new(),
        references => format!(", {:.3} bytes a reference", *bytes as f64 / references as f64),
    };
    errln!(
        "homing: {}: {} ({}, {}), {}, {}, {}{each}",
        path.display(),
        things(summary.references, "reference"),
        things(summary.reads, "read"),
        things(summary.writes, "write"),
        things(summary.threads.into(), "thread"),
        things(summary.frames.into(), "page"),
        HumanBytes(*bytes),
    );
    errln!("homing: next: homing why {}", path.display());
    if let Some(share) = finished.summary.share_in_windows() {
        errln!(
            "homing: {} hold {:.2} % of what the program did up to the last: `homing optimal {}` estimates the whole",
            things(finished.summary.windows.into(), "window"),
            100.0 * share,
            path.display()
        );
    }
}

/// Does what else the first reader of the traces does.
fn put_in_order(finished: &mut Finished) -> anyhow::Result<()> {
    let children = finished.children.iter().filter_map(|child| child.recorded.as_ref().ok());
    for path in children.map(|(path, _)| path).chain([&finished.path]) {
        finished.bytes = TraceFile::ordered(path, &progress::of_pipeline())?.bytes().len() as u64;
    }
    Ok(())
}

/// Whether something of a child should be in a trace and is not. One that ended at once, as the children do by which
/// strace tries what it can, made nothing that could be.
fn is_lost(child: &Child) -> bool {
    child.recorded.as_ref().is_err_and(|error| !matches!(error, RecordError::TooShort))
}

/// The traces of the children; when quiet, only those that failed.
fn list(of: &Path, children: &[Child], quiet: bool) {
    if !children.is_empty() && !quiet {
        errln!("homing: {} child processes:", children.len());
    }
    for child in children {
        let command = child.command.join(" ");
        let command = visible::name(&command);
        match &child.recorded {
            _ if quiet && !is_lost(child) => {}
            Ok((name, summary)) => {
                let references = summary.references;
                errln!("  {:>8} {references:>14} references  {}  {command}", child.pid, name.display());
            }
            Err(error) => errln!("  {:>8} not recorded: {command}: {}", child.pid, with_causes(error)),
        }
    }
    if !quiet && children.iter().any(|child| child.recorded.is_ok()) {
        let name = |middle: &str| {
            let stem = of.file_stem().unwrap_or_default().to_string_lossy();
            let ending =
                of.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
            of.with_file_name(format!("{stem}{middle}{ending}")).display().to_string()
        };
        let (first, children, all) = (name(""), name(".*"), name("-all"));
        errln!("homing: if they share memory, next: homing trace join {first} {children} -o {all}");
    }
}

fn not_recorded(finished: &Finished, followed: bool, recorder: &Recorder) {
    let Finished { unrecorded, turned_away, .. } = finished;
    let were = if *unrecorded == 1 { "process was" } else { "processes were" };
    let why = match followed {
        false if !recorder.follows => " (only the Valgrind recorder can, with --follow)".to_owned(),
        false => " (--follow records them, too, and all that they start)".to_owned(),
        true if *turned_away > 0 => format!(" ({turned_away} while {MOST_AT_ONCE} others were)"),
        true => String::new(),
    };
    errln!("homing: {unrecorded} child {were} not recorded{why}");
}

/// A program that made way for the recorded one.
fn left_out(Replaced { command, references }: &Replaced) {
    let command = command.join(" ");
    errln!(
        "homing: left out: {} of `{}`, which then executed another program",
        things(*references, "reference"),
        visible::name(&command)
    );
}

/// What is missing is said even when quiet.
fn warn(summary: &Summary) {
    for (count, what) in [
        (summary.lost, "references were lost by the recorder"),
        (summary.lost_segments, "segments of the recorder never arrived"),
        (summary.malformed, "words of the recorder made no sense"),
    ] {
        if count > 0 {
            errln!("homing: warning: {count} {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_ended_at_once_is_no_failure() {
        let child = |error| Child { pid: 7, command: vec!["true".into()], recorded: Err(error) };
        assert!(!is_lost(&child(RecordError::TooShort)));
        assert!(is_lost(&child(RecordError::Unsupported("x".into()))));
    }
}
