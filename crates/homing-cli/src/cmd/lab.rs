//! `homing lab`: a virtual ccNUMA machine with a real kernel, on any machine (`docs/lab.md`).

mod baseline;
mod batch;
mod flags;
mod observe;
mod run;
mod setup;
mod shell;
pub mod topologies;
mod trace_file;

use crate::exit::Result;
use homing_lab::session::Ends;
use homing_lab::watch::Watch;

/// Arguments of `homing lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    /// Run a program of this machine in a virtual NUMA machine
    Run(run::Args) => run::run;
    /// Run the jobs of a file in turn in one virtual NUMA machine
    Batch(batch::Args) => batch::run;
    /// Compare how first touch, interleaving, the kernel, numad and others place a program's memory
    Baseline(baseline::Args) => baseline::run;
    /// Give a prompt in a virtual NUMA machine
    Shell(shell::Args) => shell::run;
    /// Install what the lab needs (QEMU, busybox, a kernel), or check whether it is there
    Setup(setup::Args) => setup::run;
    /// List the built-in topologies, with one line each
    Topologies(topologies::Args) => topologies::run;
}

/// Does what the subcommand says.
pub fn run(args: Args) -> Result {
    args.command.run()
}

/// Tells the user on stderr.
struct Stderr;

impl Watch for Stderr {
    fn say(&self, line: &str) {
        errln!("homing: {line}");
    }
}

/// The streams of this program for those of the command.
fn own_streams() -> Ends {
    let (output, errors) = (Box::new(std::io::stdout()), Box::new(std::io::stderr()));
    Ends { input: Some(Box::new(std::io::stdin())), output, errors }
}
