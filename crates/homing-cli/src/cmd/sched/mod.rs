//! `homing sched`: several parallel jobs on one machine, processors and pages decided together (docs/scheduling.md).

mod guard;
pub mod managers;
mod model;
mod partitions;
mod picture;
mod run;
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
    /// Make an application for `simulate` from traces of a program
    Model(model::Args) => model::run;
    /// Run real jobs under a CPU manager, whose processors and pages are decided together
    Run(run::Args) => run::run;
    /// Let jobs go on when their scheduler is killed; `homing sched run` starts it
    Guard(guard::Args) => guard::run;
    /// List the CPU managers, with one line each
    Managers(managers::Args) => managers::run;
}

/// Does what the subcommand says.
pub fn run(args: Args) -> Result {
    args.command.run()
}
