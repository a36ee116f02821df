//! `homing policies`: what policies there are.

use crate::exit::{Code, Result};
use comfy_table::{presets, Table};
use homing_core::policy::table::{Begin, Entry, POLICIES};
use homing_pipeline::policies::policy;

/// Arguments of `homing policies`.
#[derive(clap::Args)]
pub struct Args {
    /// Show one policy with its parameters
    #[arg(value_parser = crate::names::POLICY, hide_possible_values = true)]
    name: Option<String>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists the policies.
pub fn run(args: Args) -> Result {
    let entries: Vec<&Entry> = match &args.name {
        Some(name) => vec![policy(name)?],
        None => POLICIES.iter().collect(),
    };
    if args.json {
        let json: Vec<_> = entries.iter().map(|entry| as_json(entry)).collect();
        crate::stdout::json(serde_json::json!({ "policies": json }))?;
    } else if args.name.is_some() {
        entries.iter().try_for_each(|entry| show(entry))?;
    } else {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["policy", "what it does"]);
        entries.iter().for_each(|entry| {
            table.add_row([entry.name, entry.summary]);
        });
        outln!("{table}");
        outln!("\n`homing policies NAME` shows a policy's source and parameters; `--set NAME.PARAMETER=VALUE` sets \
        one.");
    }
    Ok(Code::OK)
}

fn begins(entry: &Entry) -> &'static str {
    match entry.begin {
        Begin::Given => "--placement, or first touch",
        Begin::Global => "--placement, or global memory if the machine has it, or first touch",
        Begin::Own(_) => "as the policy says",
        Begin::File => "--placement file:FILE",
    }
}

fn as_json(entry: &Entry) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name,
        "summary": entry.summary,
        "source": entry.source,
        "offline": entry.offline,
        "replicates": entry.replicates,
        "begins": begins(entry),
        "parameters": entry.params,
    })
}

fn show(entry: &Entry) -> anyhow::Result<()> {
    outln!("{}: {}", entry.name, entry.summary);
    outln!("  source      {}", entry.source);
    outln!(
        "  knowledge   {}",
        if entry.offline { "of the whole trace (off-line)" } else { "of the past only" }
    );
    outln!("  replicates  {}", if entry.replicates { "yes, unless --no-replication" } else { "no" });
    outln!("  pages begin {}", begins(entry));
    for param in entry.params {
        let (least, most) = param.range;
        outln!("  --set {}.{}={} {}", entry.name, param.name, param.default, param.unit);
        outln!("      {} (from {least} to {most})", param.doc);
    }
    Ok(())
}
