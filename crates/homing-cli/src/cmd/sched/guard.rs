//! `homing sched guard`: waits until nothing can be read from standard input any more, which `homing sched run` holds
//! open as long as it lives, and then lets its jobs go on.

use crate::exit::{Code, Result};
use homing_live::jobs::journal;
use std::io::Read;

/// Arguments of `homing sched guard`.
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// The journal of the scheduler
    #[arg(value_name = "NAME")]
    journal: String,
}

/// Waits, and puts back what a killed scheduler left.
pub fn run(args: Args) -> Result {
    let mut nothing = [0; 16];
    while matches!(std::io::stdin().read(&mut nothing), Ok(1..)) {}
    if journal::restore_of(&args.journal)? {
        errln!("homing: the scheduler of jobs was killed: they go on, on all CPUs");
    }
    Ok(Code::OK)
}
