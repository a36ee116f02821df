//! `homing replay`: makes the decisions of a live run again in simulation.

use crate::exit::{Code, Result};
use anyhow::Context;
use homing_live::journal::{check, Journal};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

/// Arguments of `homing replay`.
#[derive(clap::Args)]
pub struct Args {
    /// A log that `homing run --tee` or `homing attach --tee` wrote
    journal: PathBuf,
    /// Tell a fresh policy what the log says and compare what it asks for; ends with 1 at a difference
    #[arg(long, required = true)]
    check: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays.
pub fn run(args: Args) -> Result {
    let name = args.journal.display();
    let file = File::open(&args.journal).with_context(|| format!("cannot read {name}"))?;
    let journal = Journal::read(BufReader::new(file)).with_context(|| name.to_string())?;
    let checked = check(&journal).with_context(|| name.to_string())?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&checked)?);
    } else {
        println!(
            "{} observations, {} actions, {} the same",
            checked.observations, checked.actions, checked.same
        );
        checked.first_difference.iter().for_each(|difference| println!("first difference: {difference}"));
    }
    if journal.cut {
        eprintln!("homing: {name}: the last line is cut; it was left out");
    }
    Ok(match (checked.first_difference, journal.cut) {
        (Some(_), _) => Code::FAILURE,
        (None, true) => Code::PARTIAL,
        (None, false) => Code::OK,
    })
}
