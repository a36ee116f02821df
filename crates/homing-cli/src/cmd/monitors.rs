//! `homing monitors`: what sources of profiles there are.

use crate::exit::{self, Code, Result};
use comfy_table::{presets, Table};
use homing_core::monitor::table::{Choice, MonitorEntry, MONITORS};

/// Arguments of `homing monitors`.
#[derive(clap::Args)]
pub struct Args {
    /// Show one monitor with its parameters
    #[arg(value_parser = crate::names::MONITOR, hide_possible_values = true)]
    name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists the monitors.
pub fn run(args: Args) -> Result {
    let entries: Vec<&MonitorEntry> = match &args.name {
        Some(name) => vec![name.parse::<Choice>().map_err(|e| exit::error(Code::USAGE, e))?.entry],
        None => MONITORS.iter().collect(),
    };
    if args.json {
        let json: Vec<_> = entries.iter().map(|entry| as_json(entry)).collect();
        crate::stdout::json(serde_json::json!({ "monitors": json }))?;
    } else if args.name.is_some() {
        entries.iter().try_for_each(|entry| show(entry))?;
    } else {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["monitor", "what it sees", "stands for"]);
        entries.iter().for_each(|entry| {
            table.add_row([entry.name, entry.summary, entry.stands_for]);
        });
        outln!("{table}");
        outln!("\n`homing simulate TRACE --monitor NAME[:PARAMETER=VALUE,...]` runs a policy on one.");
    }
    Ok(Code::OK)
}

fn as_json(entry: &MonitorEntry) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name,
        "summary": entry.summary,
        "stands_for": entry.stands_for,
        "needs_tlb": entry.needs_tlb,
        "parameters": entry.params,
    })
}

fn show(entry: &MonitorEntry) -> anyhow::Result<()> {
    outln!("{}: {}", entry.name, entry.summary);
    outln!("  stands for  {}", entry.stands_for);
    outln!("  needs       {}", if entry.needs_tlb { "TLBs in the machine's hierarchy" } else { "caches" });
    for param in entry.params {
        let (least, most) = param.range;
        outln!("  {}={} {}", param.name, param.default, param.unit);
        outln!("      {} (from {least} to {most})", param.doc);
    }
    Ok(())
}
