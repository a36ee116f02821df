//! `homing lab batch`: runs the jobs of a file in turn in one virtual NUMA machine.

use super::flags::{KernelArgs, MachineArgs};
use super::observe::{self, CountArgs};
use super::Stderr;
use crate::exit::{Code, Result};
use crate::files::{self, Output, Over};
use crate::tables;
use anyhow::Context;
use clap::ValueHint;
use homing_lab::batch::{self, Entry};
use homing_lab::job::{environment_with, working_directory, Job};
use homing_lab::session::{Ends, Lab, Outcome, Outcomes, Task};
use homing_lab::topology::Topology;
use serde_json::{json, Value};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `homing lab batch`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "FILE is TOML with a table [[job]] for each job:\n\n  \
    [[job]]\n  \
    name = \"eight\"                      # a name of its own\n  \
    command = [\"./cg\", \"-t\", \"8\"]       # as for `lab run`: a program and its arguments\n  \
    timeout = \"90s\"                     # the job is ended then, with status 124; the others go on\n  \
    directory = \"eight\"                 # its working directory; relative names of the job begin there\n  \
    files = [\"input.dat\"]               # further files and directories that it needs\n  \
    results = [\"/tmp/out\"]              # further files and directories that are brought back\n  \
    env = { OMP_NUM_THREADS = \"8\" }     # variables of its environment\n  \
    start-on = \"0\"                      # nodes on which its memory begins\n  \
    beside = [\"numad -i 1:5\"]           # lines for a shell beside it\n  \
    observe = \"eight.json\"              # the observer's counts of this job\n  \
    output = \"eight.out\"                # its stdout and stderr; else they go to ours\n  \
    errors = \"eight.err\"\n\n\
    Only name and command are needed. Options hold for the machine, and so for all jobs. After each job its processes \
    are ended, and settings, mounts, control groups and temporary files are put back. Ends with 0 if all jobs did, \
    otherwise with 1.")]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    counts: CountArgs,
    /// Write what became of the jobs as JSON: status and seconds of each
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    summary: Option<PathBuf>,
    /// The jobs
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// Where the output of a job goes.
struct Files {
    output: Option<Output>,
    errors: Option<Output>,
}

/// Runs them.
pub fn run(args: Args) -> Result {
    let entries = batch::read(&args.file, &working_directory()?)?;
    for path in entries.iter().filter_map(|entry| entry.observe.as_deref()) {
        make_parent(path)?;
        observe::check(path)?;
    }
    if let Some(path) = &args.summary {
        Output::create(path, Over::Json)?;
    }
    let topology = args.machine.topology()?;
    let kernel = args.kernel.kernel();
    let options = args.counts.options(entries.iter().any(|entry| entry.observe.is_some()));
    let (mut tasks, mut written) = (Vec::new(), Vec::new());
    for entry in &entries {
        let (ends, files) = ends(entry)?;
        let observe = entry.observe.is_some() || args.counts.slows();
        tasks.push(Task { job: job(entry, observe), timeout: entry.timeout, ends, drops_files: false });
        written.push(files);
    }
    let lab = Lab {
        topology: &topology,
        cpu_model: args.machine.cpu_model(),
        kernel: &kernel,
        tasks,
        observe: options,
        trace: None,
    };
    let outcomes = lab.run(&Stderr)?;
    for files in written {
        [files.output, files.errors].into_iter().flatten().try_for_each(Output::commit)?;
    }
    show(&entries, &outcomes, &topology, args.summary.as_deref())?;
    let well = |outcome: &Outcome| matches!(outcome, Outcome::Ended(ended) if ended.status == 0);
    let code = if outcomes.jobs.iter().all(well) { Code::OK } else { Code::FAILURE };
    match outcomes.failure {
        Some(failure) => Err(failure.into()),
        None => Ok(code),
    }
}

fn job(entry: &Entry, observe: bool) -> Job {
    let set = entry.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    Job {
        name: entry.name.clone(),
        command: entry.command.iter().map(Into::into).collect(),
        environment: environment_with(set),
        directory: entry.directory.clone(),
        files: entry.files.clone(),
        results: entry.results.clone(),
        start: entry.start_on.clone(),
        beside: entry.beside.clone(),
        observe,
        ..Job::default()
    }
}

/// The streams of a job: files, or ours. It reads nothing.
fn ends(entry: &Entry) -> anyhow::Result<(Ends, Files)> {
    let create = |path: &Option<PathBuf>| -> anyhow::Result<Option<Output>> {
        let Some(path) = path else { return Ok(None) };
        make_parent(path)?;
        Ok(Some(Output::create(path, Over::Anything)?))
    };
    let files = Files { output: create(&entry.output)?, errors: create(&entry.errors)? };
    let end = |file: &Option<Output>, ours: Box<dyn Write + Send>| match file {
        Some(file) => file.share().map(|file| Box::new(file) as Box<dyn Write + Send>),
        None => Ok(ours),
    };
    let doing = || format!("cannot write the output of job `{}`", entry.name);
    let output = end(&files.output, Box::new(std::io::stdout())).with_context(doing)?;
    let errors = end(&files.errors, Box::new(std::io::stderr())).with_context(doing)?;
    Ok((Ends { input: None, output, errors }, files))
}

fn make_parent(path: &Path) -> anyhow::Result<()> {
    Ok(path.parent().map_or(Ok(()), homing_linux::files::make_directory)?)
}

/// Writes the counts of each job, and what became of all of them: on stderr, since stdout is the jobs'.
fn show(
    entries: &[Entry],
    outcomes: &Outcomes,
    topology: &Topology,
    summary: Option<&Path>,
) -> anyhow::Result<()> {
    let mut table = tables::table(&["job", "status", "seconds"]);
    let mut rows = Vec::new();
    for (entry, outcome) in entries.iter().zip(&outcomes.jobs) {
        if let (Some(path), Outcome::Ended(ended)) = (&entry.observe, outcome) {
            if let Some(observed) = &ended.observed {
                observe::write(path, observed, topology, ended)?;
            }
        }
        let (state, status, seconds) = match outcome {
            Outcome::Ended(ended) => ("ended", Some(ended.status), Some(ended.ran.as_secs_f64())),
            Outcome::Lost => ("lost: the machine ended", None, None),
            Outcome::NotRun => ("not run", None, None),
        };
        let shown = status.map_or(state.to_owned(), |status| status.to_string());
        table.add_row([entry.name.clone(), shown, seconds.map_or_else(String::new, |s| format!("{s:.1}"))]);
        rows.push(json!({"name": entry.name, "state": state, "status": status, "seconds": seconds}));
    }
    errln!("{table}");
    let Some(path) = summary else { return Ok(()) };
    let value: Value = json!({
        "schema": 1,
        "topology": topology.name,
        "boot_seconds": outcomes.boot.as_secs_f64(),
        "failure": outcomes.failure.as_ref().map(ToString::to_string),
        "jobs": rows,
    });
    Ok(files::write(path, Over::Json, serde_json::to_string_pretty(&value)? + "\n")?)
}
