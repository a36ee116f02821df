//! `homing lab shell`: a prompt in a virtual NUMA machine.

use super::flags::{KernelArgs, MachineArgs};
use super::{own_streams, Stderr};
use crate::exit::{self, Code, Result};
use homing_lab::job::{check_files, environment, working_directory, Job};
use homing_lab::session::{Lab, Task};
use homing_linux::terminal::Saved;
use std::path::PathBuf;

/// Arguments of `homing lab shell`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Ends with the shell (`exit` or Ctrl-D). What the session makes or changes below the working \
directory is brought back."
)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    kernel: KernelArgs,
    /// Take a file or directory into the guest, with the libraries of programs in it
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
}

/// Runs a shell.
pub fn run(args: Args) -> Result {
    check_files(&args.file)?;
    let Some(_terminal) = Saved::of_stdin() else {
        return Err(exit::error(
            Code::USAGE,
            "stdin is no terminal: use `homing lab run -- sh` with a script",
        ));
    };
    let topology = args.machine.topology()?;
    errln!("homing: starting {}: {}", topology.name, topology.summary);
    let job = Job {
        command: vec!["busybox".into(), "sh".into(), "-l".into()],
        environment: environment(),
        directory: working_directory()?,
        files: args.file.clone(),
        shell: true,
        ..Job::default()
    };
    let kernel = args.kernel.kernel();
    let task = Task { job, timeout: None, ends: own_streams(), drops_files: false };
    let lab = Lab {
        topology: &topology,
        cpu_model: args.machine.cpu_model(),
        kernel: &kernel,
        tasks: vec![task],
        observe: None,
        trace: None,
    };
    Ok(Code(lab.run_one(&Stderr)?.status))
}
