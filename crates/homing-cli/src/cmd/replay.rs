//! `homing replay`: makes the moves of an earlier run again in another run of the program, or, from a teed log, its
//! decisions again without one.

use super::live::launch::launch;
use super::live::{Plan, Settings};
use super::simulate::ACTIONS_HEADER;
use crate::exit::{self, Code, Result};
use anyhow::Context;
use clap::ValueHint;
use homing_live::journal::{check, Journal};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

/// Why the actions of a simulation are no log of a live run.
const OF_A_SIMULATION: &str = "holds the actions of a simulation: their times count references, and their addresses \
are the recorded \
     run's, so a live run has no page and no moment for them; expected a log of `homing run --journal`. Another trace \
     of the \
     program can begin where this simulation ended: `homing simulate --placement-out FILE`, then `--placement \
     areas:FILE`";

/// Arguments of `homing replay`.
#[derive(clap::Args)]
#[command(
    after_long_help = "Pages are found by region and offset, so address-space randomisation does not matter. With a \
command, nothing is sampled and no policy decides, unless --source and --policy say so."
)]
pub struct Args {
    /// A log that `homing run` or `homing attach` wrote with --journal or --tee
    log: PathBuf,
    /// Tell a fresh session what a teed log says and compare all that it asks for; ends with 1 at a difference
    #[arg(long, conflicts_with_all = ["command", "journal", "tee", "summary"])]
    check: bool,
    #[command(flatten)]
    settings: Settings,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments,
          required_unless_present = "check", value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replays.
pub fn run(args: Args) -> Result {
    let name = args.log.display();
    let file = File::open(&args.log).with_context(|| format!("cannot read {name}"))?;
    let mut log = BufReader::new(file);
    let begin = log.fill_buf().with_context(|| format!("cannot read {name}"))?;
    if begin.starts_with(ACTIONS_HEADER.join(",").as_bytes()) {
        return Err(exit::error(Code::USAGE, format!("{name} {OF_A_SIMULATION}")));
    }
    let journal = Journal::read(log).with_context(|| name.to_string())?;
    if journal.cut {
        errln!("homing: {name}: the last line is cut; it was left out");
    }
    if args.check {
        return compare(&args, &journal);
    }
    let moves = journal.moves();
    let planned = moves.len();
    let plan = Plan::new(&args.settings.or("first-touch", "none"))?;
    let (code, left) = launch(plan, &args.settings, &args.command, moves)?;
    errln!("homing: {} of {planned} moves of {name} were made again", planned - left);
    Ok(if code == Code::OK && left > 0 { Code::PARTIAL } else { code })
}

fn compare(args: &Args, journal: &Journal) -> Result {
    let checked = check(journal).with_context(|| args.log.display().to_string())?;
    if args.settings.json {
        outln!("{}", serde_json::to_string_pretty(&checked)?);
    } else {
        outln!("{} inputs, {} outputs, {} the same", checked.observations, checked.actions, checked.same);
        outln!(
            "of these {} moves that landed, {} sent after their threads",
            checked.moves,
            checked.forwarded
        );
        if let Some(difference) = &checked.first_difference {
            outln!("first difference: {difference}");
        }
    }
    Ok(match (checked.first_difference, journal.cut) {
        (Some(_), _) => Code::FAILURE,
        (None, true) => Code::PARTIAL,
        (None, false) => Code::OK,
    })
}
