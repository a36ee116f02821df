//! `homing sched managers`: what CPU managers there are.

use crate::exit::{Code, Result};
use homing_sched::manager::table::MANAGERS;

/// Arguments of `homing sched managers`.
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists the managers.
pub fn run(args: Args) -> Result {
    if args.json {
        let managers: Vec<_> = MANAGERS
            .iter()
            .map(|m| serde_json::json!({ "name": m.name, "summary": m.summary, "source": m.source }))
            .collect();
        crate::stdout::json(serde_json::json!({ "managers": managers }))?;
    } else {
        let mut table = crate::tables::table(&["manager", "what it does", "source"]);
        MANAGERS.iter().for_each(|manager| {
            table.add_row([manager.name, manager.summary, manager.source]);
        });
        outln!("{table}");
    }
    Ok(Code::OK)
}
