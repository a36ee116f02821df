//! Partitions of the machine: the file that says them, and what came of them.

use crate::exit::{self, Code};
use comfy_table::Table;
use homing_linux::visible;
use homing_sched::partition::file::{self, Partition};
use homing_sched::partition::{Division, OfPartition};
use std::path::Path;

/// Reads a file of partitions.
pub fn read(path: &Path) -> anyhow::Result<Vec<Partition>> {
    let text = crate::files::read_text(path, "partitions")?;
    file::read(&text).map_err(|message| exit::error(Code::USAGE, format!("{}: {message}", path.display())))
}

/// An empty table of partitions; `lead` are the columns that say which run it was.
pub fn table(lead: &[&str]) -> Table {
    let own = [
        "partition",
        "nodes",
        "in the end",
        "asked for CPUs",
        "in use %",
        "jobs",
        "turnaround s",
        "nodes moved",
    ];
    crate::tables::table(&[lead, &own].concat())
}

/// Adds a row for each partition: means of runs that differ in their seeds.
pub fn rows(table: &mut Table, lead: &[String], runs: &[&Division]) {
    let Some(first) = runs.first() else { return };
    for (index, partition) in first.partitions.iter().enumerate() {
        let mean = |of: &dyn Fn(&OfPartition) -> f64| {
            runs.iter().map(|run| of(&run.partitions[index])).sum::<f64>() / runs.len() as f64
        };
        let of_moved = |run: &&Division| {
            let (name, mut came, mut went) = (&partition.partition, 0, 0);
            for transfer in &run.transfers {
                came += u64::from(transfer.to == *name);
                went += u64::from(transfer.from.as_ref() == Some(name));
            }
            (came, went)
        };
        let (came, went) = runs.iter().map(of_moved).fold((0, 0), |sum, run| (sum.0 + run.0, sum.1 + run.1));
        let each = |count: u64| short(count as f64 / runs.len() as f64);
        let own = [
            visible::name(&partition.partition).to_string(),
            format!("{:.1}", mean(&|partition| partition.mean_nodes)),
            short(mean(&|partition| partition.nodes.len() as f64)),
            format!("{:.1}", mean(&|partition| partition.mean_demand)),
            format!("{:.1}", mean(&|partition| partition.utilisation_percent)),
            format!("{:.0}", mean(&|partition| partition.jobs as f64)),
            format!("{:.1}", mean(&|partition| partition.turnaround_s)),
            format!("{} came, {} went", each(came), each(went)),
        ];
        table.add_row(lead.iter().cloned().chain(own));
    }
}

/// A mean of whole numbers: whole if it is one.
fn short(mean: f64) -> String {
    if mean.fract() == 0.0 {
        format!("{mean:.0}")
    } else {
        format!("{mean:.1}")
    }
}

/// The nodes that moved, one a row; or that none did.
pub fn transfers(division: &Division) -> String {
    if division.transfers.is_empty() {
        return "No node moved.".into();
    }
    let mut table = crate::tables::table(&[
        "at s",
        "node",
        "from",
        "to",
        "took s",
        "pages moved",
        "pages left",
        "idle CPU s",
    ]);
    for transfer in &division.transfers {
        table.add_row([
            format!("{:.1}", transfer.at_s),
            transfer.node.to_string(),
            transfer.from.as_deref().map_or("-".into(), |name| visible::name(name).to_string()),
            visible::name(&transfer.to).to_string(),
            format!("{:.3}", transfer.seconds),
            transfer.pages_moved.to_string(),
            transfer.pages_left.to_string(),
            format!("{:.2}", transfer.idle_cpu_s),
        ]);
    }
    table.to_string()
}
