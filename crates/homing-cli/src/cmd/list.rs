//! `homing list`: the tables whose names options take, each as its own command prints it.

use super::lab::topologies;
use super::sched::managers;
use super::{machines, monitors, policies};
use crate::exit::Result;

/// Arguments of `homing list`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: Command,
}

commands! {
    /// The machine models; also `homing machines`
    Machines(machines::Args) => machines::run;
    /// The placement policies; also `homing policies`
    Policies(policies::Args) => policies::run;
    /// The monitors that policies can take profiles from; also `homing monitors`
    Monitors(monitors::Args) => monitors::run;
    /// The topologies of the lab; also `homing lab topologies`
    Topologies(topologies::Args) => topologies::run;
    /// The CPU managers; also `homing sched managers`
    Managers(managers::Args) => managers::run;
}

/// Prints one of them.
pub fn run(args: Args) -> Result {
    args.what.run()
}
