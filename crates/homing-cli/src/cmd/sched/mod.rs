//! `homing sched`: several parallel jobs on one machine, processors and pages decided together (docs/scheduling.md).

mod managers;
mod picture;
mod simulate;

use crate::exit::Result;

/// Arguments of `homing sched`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    /// Play a workload of parallel jobs on a machine model, under CPU managers and page policies
    Simulate(simulate::Args) => simulate::run;
    /// List the CPU managers, with one line each
    Managers(managers::Args) => managers::run;
}

/// Does what the subcommand says.
pub fn run(args: Args) -> Result {
    args.command.run()
}
