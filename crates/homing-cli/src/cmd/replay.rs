//! `homing replay`: makes the moves of an earlier run again in another run of the program, or, from a teed log, its
//! decisions again without one.

use super::live::launch::launch;
use super::live::{Plan, Settings};
use crate::exit::{self, Code, Result};
use crate::files::same_file;
use anyhow::Context;
use homing_live::journal::{check, Journal};
use std::ffi::OsString;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

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
    /// The program and its arguments
    #[arg(last = true, required_unless_present = "check", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// Fails if something is to be written over the log, under whatever name: before the log is read, nothing is touched.
    fn refuse_to_replace_the_log(&self) -> anyhow::Result<()> {
        let Settings { journal, tee, summary, .. } = &self.settings;
        for (option, written) in [("--journal", journal), ("--tee", tee), ("--summary", summary)] {
            if let Some(path) = written.as_ref().filter(|path| same_file(path, &self.log)) {
                let (path, log) = (path.display(), self.log.display());
                let message = format!(
                    "{option} {path} is the log {log} itself, which is to be replayed: choose another name for what is to be written"
                );
                return Err(exit::error(Code::USAGE, message));
            }
        }
        Ok(())
    }
}

/// Replays.
pub fn run(args: Args) -> Result {
    args.refuse_to_replace_the_log()?;
    let name = args.log.display();
    let file = File::open(&args.log).with_context(|| format!("cannot read {name}"))?;
    let journal = Journal::read(BufReader::new(file)).with_context(|| name.to_string())?;
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
