//! The table and the JSON of `homing lab baseline`.

use super::Args;
use crate::tables;
use homing_lab::baseline::Summary;
use homing_lab::topology::Topology;
use serde_json::json;

/// Version of the JSON.
const SCHEMA: u32 = 1;

pub fn print(args: &Args, topology: &Topology, rows: &[Summary]) -> anyhow::Result<()> {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    if args.json {
        let value = json!({
            "schema": SCHEMA,
            "command": command,
            "topology": topology.name,
            "cache": args.cache,
            "delay": args.delay.delay().map(|delay| delay.scale),
            "busy_ns": args.delay.delay().and_then(|delay| delay.busy_ns),
            "marked": args.marked,
            "start_on": args.start_on,
            "rows": rows,
        });
        outln!("{}", serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let start = args.start_on.as_ref().map_or(String::new(), |nodes| format!(", memory begins on {nodes}"));
    outln!("{}: {}, cache {} KiB{start}", command.join(" "), topology.name, args.cache >> 10);
    outln!("{}", table(rows, args.delay.delay().is_some()));
    outln!("\nnon-local % of misses over time, in tenths of the run");
    for row in rows {
        let points: Vec<_> = row.median.course_percent.iter().map(|point| format!("{point:5.1}")).collect();
        outln!("{:<12} thp {:<8} {}", row.contender, row.thp, points.join(" "));
    }
    Ok(())
}

fn table(rows: &[Summary], delayed: bool) -> comfy_table::Table {
    let mut header = vec![
        "contender",
        "THP",
        "non-local %",
        "tail %",
        "bound 4K",
        "bound 2M",
        "settled s",
        "moved",
        "failed",
        "hint faults",
        "modelled",
    ];
    if delayed {
        header.extend(["seconds", "wait ns"]);
    }
    let mut table = tables::table(&header);
    let first = rows.first().map_or(0.0, |row| row.median.modelled_ms);
    for Summary { contender, thp, median, .. } in rows {
        let mut cells = vec![
            contender.clone(),
            (*thp).to_owned(),
            format!("{:.2}", median.nonlocal_percent),
            format!("{:.2}", median.tail_percent),
            format!("{:.2}", median.bound_4k_percent),
            format!("{:.2}", median.bound_2m_percent),
            format!("{:.1}", median.settled_seconds),
            tables::count(median.moved_pages as u64),
            tables::count(median.failed_pages as u64),
            tables::count(median.hint_faults as u64),
            format!("{:.3}", median.modelled_ms / first.max(f64::MIN_POSITIVE)),
        ];
        if delayed {
            cells.extend([format!("{:.1}", median.counted_seconds), format!("{:.1}", median.wait_ns)]);
        }
        table.add_row(cells);
    }
    table
}
