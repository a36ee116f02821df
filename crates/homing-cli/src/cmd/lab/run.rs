//! `homing lab run`: runs a program of this machine in a virtual NUMA machine.

use super::flags::{KernelArgs, MachineArgs};
use super::observe::ObserveArgs;
use super::session::{check_files, working_directory, Lab};
use crate::exit::Result;
use homing_lab::job::{environment, Job};
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
    /// Let the command's memory begin on these nodes, and come from all once it has computed for 250 ms a CPU without
    /// growing
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
    /// Say on stderr how long the parts took and what was brought back
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs.
pub fn run(args: Args) -> Result {
    check_files(&args.file)?;
    args.observe.check()?;
    let topology = args.machine.topology()?;
    let mut environment = environment();
    for setting in &args.env {
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        environment.retain(|(known, _)| known != name);
        environment.push((name.into(), value.into()));
    }
    let job = Job {
        command: args.command.clone(),
        environment,
        directory: working_directory()?,
        files: args.file.clone(),
        results: args.result.clone(),
        start: args.start_on.clone(),
        beside: args.beside.clone(),
        ..Job::default()
    };
    let lab = Lab {
        machine: &args.machine,
        kernel: &args.kernel,
        job,
        timeout: args.timeout,
        observe: args.observe.options(),
        trace: args.observe.trace(),
        quiet: false,
    };
    let ended = lab.run(&topology)?;
    if let Some(observed) = &ended.observed {
        args.observe.show(observed, &topology, &ended.kernel)?;
    }
    if args.verbose {
        let (boot, ran) = (ended.boot.as_secs_f64(), ended.ran.as_secs_f64());
        errln!("homing: lab {}: up after {boot:.1} s, the command ran {ran:.1} s", topology.name);
        if let Some(references) = ended.references {
            errln!("homing: the trace has {references} references");
        }
        ended.files.iter().for_each(|file| errln!("homing: brought back {}", file.display()));
    }
    Ok(ended.code)
}

/// A duration such as `500ms`, `90s` or `5m`.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    let expected = || format!("`{text}`: expected a duration such as 500ms, 90s or 5m");
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = digits.parse().map_err(|_| expected())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(60 * number)),
        _ => Err(expected()),
    }
}
