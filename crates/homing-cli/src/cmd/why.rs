//! `homing why`: which data is in the wrong place, what to change, and how much that brings.

mod command;
mod input;
mod judged;
mod perf_data;
mod plan;
mod process;
mod shares;
mod text;

use crate::exit::{self, Code, Result};
use crate::files::{self, Over};
use crate::options::ModelArgs;
use crate::progress;
use crate::tables;
use homing_core::history::ThreadsOn;
use homing_core::ids::PageSize;
use homing_core::report::why::WhyReport;
use homing_core::time::Mover;
use homing_core::why::verdict::Cause;
use homing_pipeline::chosen::{Choice, ThreadList};
use homing_pipeline::honest::Asked;
use homing_pipeline::model::{bytes, MEMORY};
use homing_pipeline::{why, Experiment, TraceFile};
use input::{Input, Subject};
use perf_data::PerfArgs;
use shares::By;
use std::path::{Path, PathBuf};

/// The machine that traces are judged on unless the user names another.
const MACHINE: &str = "two-socket";

/// Arguments of `homing why`.
#[derive(clap::Args)]
#[command(after_long_help = "Examples:\n  \
homing why app.homing                       a trace, made by `homing record`\n  \
homing why -- ./app -n 5                    a command: recorded for at most a minute, then judged\n  \
homing why --budget 100M --keep app.homing -- ./app\n  \
homing why --pid 1234 --seconds 30          a process that runs: sampled, nothing moves\n  \
perf mem record ./app; homing why perf.data what perf sampled, here or on another machine\n  \
homing why --cgroup /sys/fs/cgroup/system.slice/app.service\n\n\
A process is sampled on this machine, as `homing attach --dry-run` does, and needs the same rights. Ctrl-C ends \
recording or sampling early; what was seen is judged.")]
pub struct Args {
    #[command(flatten)]
    subject: Subject,
    #[command(flatten)]
    perf: PerfArgs,
    /// Machine model: a name from `homing machines`, a TOML file, or `host` [default: two-socket; host for a process;
    /// that of a file of perf as the file has it]
    #[arg(long, short, value_name = "MACHINE", value_parser = crate::names::MACHINE, hide_possible_values = true)]
    machine: Option<String>,
    /// Override a field of the machine, such as remote=15
    #[arg(long, value_name = "FIELD=VALUE", conflicts_with_all = ["pid", "cgroup"])]
    set: Vec<String>,
    /// CPUs that threads run on: busy (those that work at the same time on the nodes in turn), round-robin (by their
    /// numbers), fill, one-per-node, or a list such as 0-3,5 [default: busy]
    #[arg(long, value_name = "HOW", conflicts_with_all = ["pid", "cgroup"])]
    threads_on: Option<ThreadsOn>,
    /// Page size, a power of two from 512 to 1G [default: the machine's]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["pid", "cgroup"])]
    page_size: Option<PageSize>,
    /// Memory for page histories; what is beyond goes to a temporary file
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = bytes)]
    memory: u64,
    /// Look only at the references of this phase, as the program marks it (include/homing.h)
    ///
    /// Pages begin where they are first touched in the whole trace.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "cgroup"])]
    phase: Option<String>,
    /// Look only at the references of these threads, such as 1-4,7
    #[arg(long, value_name = "LIST", conflicts_with_all = ["pid", "cgroup"])]
    threads: Option<ThreadList>,
    /// Also show who has most to avoid: each phase, each thread, or both, separated by a comma
    #[arg(long, conflicts_with_all = ["pid", "cgroup"], value_name = "WHAT", value_enum, value_delimiter = ',')]
    by: Vec<By>,
    /// Areas that are shown
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    areas: u64,
    /// Also show the notes on how it was modelled
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,
    /// End with exit code 1 if the changes save more than this, for tests of a program
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write the same as Markdown to a file; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    markdown: Option<PathBuf>,
    /// Also write those changes that `homing run --place` can make without the source, as a file for it
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Also write the diagnosis as one self-contained page, with the page map and four policies
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "cgroup"])]
    html: Option<PathBuf>,
}

/// Diagnoses and prints.
pub fn run(args: Args) -> Result {
    let input = args.subject.input()?;
    args.fit(&input)?;
    match input {
        Input::PerfData(path) => {
            judged(&args, Report::of_samples(args.perf.diagnose(&path, args.machine.as_deref())?))
        }
        Input::Trace(path) => judged(&args, trace(&args, &path, Vec::new())?),
        Input::Command(command) => {
            // Whoever reads the verdict by program must not find the program's own words in it.
            let apart = args.json || args.markdown.as_ref().is_some_and(|path| path.as_os_str() == "-");
            let recorded = match command.record(apart)? {
                Ok(recorded) => recorded,
                Err(interrupted) => return Ok(interrupted),
            };
            judged(&args, trace(&args, &recorded.path, recorded.notes)?)
        }
        Input::Process(watched) => {
            judged(&args, Report::of_samples(watched.diagnose(args.machine.as_deref().unwrap_or("host"))?))
        }
    }
}

impl Args {
    /// Refuses options that the input has no use for.
    fn fit(&self, input: &Input) -> anyhow::Result<()> {
        if !matches!(input, Input::PerfData(_)) {
            return match self.perf.is_given() {
                true => {
                    let message =
                        "--process and --symfs are for files of perf: expected `homing why perf.data`";
                    Err(exit::error(Code::USAGE, message))
                }
                false => Ok(()),
            };
        }
        let of_traces = [
            ("--set", !self.set.is_empty()),
            ("--threads-on", self.threads_on.is_some()),
            ("--page-size", self.page_size.is_some()),
            ("--phase", self.phase.is_some()),
            ("--threads", self.threads.is_some()),
            ("--by", !self.by.is_empty()),
            ("--html", self.html.is_some()),
        ];
        match of_traces.iter().find(|(_, given)| *given) {
            Some((option, _)) => {
                let message =
                    format!("{option} is for traces: a file of perf has samples, on its own machine");
                Err(exit::error(Code::USAGE, message))
            }
            None => Ok(()),
        }
    }
}

/// A diagnosis.
struct Report {
    report: WhyReport,
    /// The exit code, unless it saves more than the user allows.
    code: Code,
    /// How many notes, the first ones, are on the recording or the samples. The others say how it was modelled.
    of_recording: usize,
}

impl Report {
    /// That of samples: all of its notes say what was sampled.
    fn of_samples((report, code): (WhyReport, Code)) -> Report {
        Report { report, code, of_recording: usize::MAX }
    }
}

/// The diagnosis of a trace.
fn trace(args: &Args, path: &Path, notes: Vec<String>) -> anyhow::Result<Report> {
    let model = ModelArgs {
        machine: args.machine.clone().unwrap_or_else(|| MACHINE.into()),
        set: args.set.clone(),
        page_size: args.page_size.into_iter().collect(),
        threads_on: None,
        memory: args.memory,
        misses: false,
        mover: Mover::default(),
    };
    let file = TraceFile::ordered(path, &progress::of_pipeline())?;
    let pages_alone = !file.grain()?.is_exact();
    let asked = Asked { threads_on: args.threads_on.clone(), pages_alone, ..Asked::default() };
    let experiment = Experiment {
        choice: Choice { phase: args.phase.clone(), threads: args.threads.clone(), since: None },
        usage: !args.by.is_empty(),
        ..model.experiment()
    };
    let ready = asked.today(experiment)?.ready(|_| Ok(Vec::new()))?;
    why::judge_trace(&ready, &file, |case, mut report| {
        let of_recording = notes.len() + file.notes.len() + case.layout.notes_on_trace();
        report.notes.splice(0..0, notes.into_iter().chain(file.notes.clone()));
        if let Some(page) = &args.html {
            files::write(page, Over::Pages, crate::page::page(&why::page(case, &report)?)?)?;
        }
        let whole = !case.layout.partial && report.verdict != Cause::NotKnown;
        Ok(Report { report, code: if whole { Code::OK } else { Code::PARTIAL }, of_recording })
    })?
}

/// Shows a report. Returns the exit code.
fn judged(args: &Args, Report { report, code, of_recording }: Report) -> Result {
    show(args, &report, if args.verbose { usize::MAX } else { of_recording })?;
    if let Some(path) = &args.plan {
        let (text, count) = plan::text(&report);
        files::write(path, Over::Texts, text)?;
        if count == 0 {
            errln!("homing: {}: nothing that this shows can be done by a placement by name", path.display());
        }
    }
    let saves = 100.0 * report.gain.high;
    match args.fail_above.filter(|most| code == Code::OK && saves > *most) {
        Some(most) => {
            let message =
                format!("the changes save up to {saves:.1} %, which is more than --fail-above {most} %");
            Err(exit::error(Code::FAILURE, message))
        }
        None => Ok(code),
    }
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let digits = text.strip_suffix('%').unwrap_or(text).trim();
    let value = digits.parse().ok().filter(|value| (0.0..=100.0).contains(value));
    value.ok_or_else(|| format!("`{text}`: expected percent from 0 to 100, such as 5 or 5%"))
}

/// `notes`: how many of the notes a terminal shows.
fn show(args: &Args, report: &WhyReport, notes: usize) -> anyhow::Result<()> {
    let text = text::Page::new(report, args.areas as usize, &args.by, notes);
    if args.json {
        outln!("{}", serde_json::to_string_pretty(report)?);
    } else if let Some(path) = &args.markdown {
        match path.as_os_str() == "-" {
            true => outln!("{}", text.markdown().trim_end()),
            false => files::write(path, Over::Texts, text.markdown())?,
        }
    } else {
        outln!("{}", text.plain(tables::columns()).trim_end());
    }
    Ok(())
}
