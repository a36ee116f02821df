//! `homing trace`: looks into traces and makes new ones of them.

mod export;
mod import;
mod info;
mod join;
mod merge;
mod parquet;
mod perturb;
mod recover;
pub mod refine;

pub use join::join;
pub use merge::merge_file;

use crate::exit::Result;
use homing_core::trace::Trace;
use std::path::Path;

/// Arguments of `homing trace`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    /// Show what a trace holds and whether it is whole
    Info(info::Args) => info::run;
    /// Write the references as CSV or Parquet
    Export(export::Args) => export::run;
    /// Make a trace of what another tool recorded
    Import(import::Args) => import::run;
    /// Make one trace of processes that share memory: a server and its workers, ranks on one machine
    Join(join::Args) => join::run;
    /// Make another interleaving of the same execution, by virtual time and synchronisation
    Merge(merge::Args) => merge::run;
    /// Shake the interleaving as Bolosky & Scott do, to see how much it matters
    Perturb(perturb::Args) => perturb::run;
    /// Make a whole trace of what is readable in a damaged or unfinished one
    Recover(recover::Args) => recover::run;
    /// Find the hottest lines with few counters, as a monitor card would: first regions, then lines
    Refine(refine::Args) => refine::run;
}

/// Runs a subcommand of `homing trace`.
pub fn run(args: Args) -> Result {
    args.command.run()
}

/// Whether a trace whose blocks were copied is damaged; says so.
fn copied_damage(path: &Path, trace: &Trace<'_>) -> bool {
    let damaged = !trace.damage().is_empty() || trace.damaged_blocks() > 0;
    if damaged {
        errln!("homing: {}: damaged, see `homing trace info`; the damage was copied", path.display());
    }
    damaged
}

/// Shows the first few of a list of problems on standard error.
fn show_some(what: &str, total: u64, examples: impl IntoIterator<Item = String>) {
    const SHOWN: usize = 10;
    let mut shown = 0;
    for example in examples.into_iter().take(SHOWN) {
        errln!("homing: {what}: {example}");
        shown += 1;
    }
    if total > shown {
        errln!("homing: {what}: and {} more", total - shown);
    }
}
