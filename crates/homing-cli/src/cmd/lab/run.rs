//! `homing lab run`: runs a program of this machine in a virtual NUMA machine.

use super::flags::{duration, KernelArgs, MachineArgs};
use super::observe::ObserveArgs;
use super::trace_file::TraceFile;
use super::{own_streams, Stderr};
use crate::exit::{Code, Result};
use clap::ValueHint;
use homing_lab::job::{check_files, environment_with, working_directory, Job};
use homing_lab::session::{Lab, Task};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `homing lab run`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "The command runs as root. Its program, the files that its words name (also inside a line for \
    `sh -c`), \
their libraries and interpreters are taken into the guest under the same names; what it makes or changes below the \
working \
directory, or at places that its words name, is brought back. Its exit status is passed through; 124 for a time-out."
)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    #[command(flatten)]
    observe: ObserveArgs,
    /// Take a further file or directory into the guest, with the libraries of programs in it
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Bring back a further file or directory, if the command changes it
    #[arg(long, value_name = "PATH")]
    result: Vec<PathBuf>,
    /// Let the command's memory begin on these nodes, and come from all once several of its threads have computed for
    /// 250 ms a CPU without growing (one thread alone: for 2.5 s)
    #[arg(long, value_name = "NODES")]
    start_on: Option<String>,
    /// Run a line for a shell beside the command, not observed, such as a daemon
    #[arg(long, value_name = "LINE")]
    beside: Vec<String>,
    /// Set an environment variable of the command
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// End the command after this time, such as 90s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, required = true,
          value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs.
pub fn run(args: Args) -> Result {
    check_files(&args.file)?;
    args.observe.check()?;
    let topology = args.machine.topology()?;
    let kernel = args.kernel.kernel();
    let set = args.env.iter().map(|setting| setting.split_once('=').unwrap_or((setting, "")));
    let job = Job {
        command: args.command.clone(),
        environment: environment_with(set),
        directory: working_directory()?,
        files: args.file.clone(),
        results: args.result.clone(),
        start: args.start_on.clone(),
        beside: args.beside.clone(),
        observe: args.observe.options().is_some(),
        ..Job::default()
    };
    let mut trace = args.observe.trace();
    let task = Task { job, timeout: args.timeout, ends: own_streams(), drops_files: false };
    let lab = Lab {
        topology: &topology,
        cpu_model: args.machine.cpu_model(),
        kernel: &kernel,
        tasks: vec![task],
        observe: args.observe.options(),
        trace: trace.as_mut().map(|trace| trace as _),
    };
    let ended = lab.run_one(&Stderr)?;
    trace.map(TraceFile::finish).transpose()?;
    if let Some(observed) = &ended.observed {
        args.observe.show(observed, &topology, &ended)?;
    }
    Ok(Code(ended.status))
}
