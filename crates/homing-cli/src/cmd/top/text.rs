//! The table of `--once`.

use super::app::App;
use super::{cells, details};
use crate::tables;
use comfy_table::{CellAlignment, Table};
use homing_linux::visible;

/// The page as text.
pub fn page(app: &App, limit: usize) -> String {
    let snapshot = &app.snapshot;
    let mut out = cells::summary(snapshot) + "\n";
    if snapshot.nodes.len() == 1 {
        out += &cells::one_node();
        out.push('\n');
    }
    out += &format!("\n{}\n", nodes(app));
    match app.rows().as_slice() {
        [row] if app.only.len() == 1 => {
            out += "\n";
            for line in details::lines(snapshot, row) {
                out += line.trim_end();
                out.push('\n');
            }
        }
        rows => {
            out += &format!("\n{}\n", processes(app, limit));
            if rows.len() > limit {
                out += &format!("... and {} more (--limit)\n", rows.len() - limit);
            }
        }
    }
    out += "\nRESID%: share of resident pages on nodes where the process's threads run. Not who uses them: homing \
    attach --dry-run tells\n";
    out
}

fn nodes(app: &App) -> Table {
    let mut table = tables::table(&["node", "CPUs", "memory", "free", "threads", "pages", cells::RESIDENCY]);
    for node in &app.snapshot.nodes {
        table.add_row([
            node.node.to_string(),
            node.cpus.to_string(),
            node.memory_bytes.map_or("-".into(), cells::size),
            node.free_bytes.map_or("-".into(), cells::size),
            node.threads.to_string(),
            cells::size(node.resident_bytes),
            cells::percent(node.residency_percent),
        ]);
    }
    table
}

fn processes(app: &App, limit: usize) -> Table {
    let mut header: Vec<String> =
        ["pid", "CPU%", "memory", cells::RESIDENCY, "threads"].map(String::from).to_vec();
    header.extend(app.snapshot.nodes.iter().map(|node| format!("N{}%", node.node)));
    header.push("command".into());
    let mut table = tables::plain(&header);
    if let Some(column) = table.column_mut(header.len() - 1) {
        column.set_cell_alignment(CellAlignment::Left);
    }
    for row in app.rows().into_iter().take(limit) {
        let mut cells = vec![
            row.pid.map_or("-".into(), |pid| pid.to_string()),
            row.cpu_percent.map_or("-".into(), |cpu| format!("{cpu:.1}")),
            cells::size(row.resident_bytes),
            if row.denied { "denied".into() } else { cells::percent(cells::residency(row)) },
            row.threads.to_string(),
        ];
        let pages = row.pages.as_ref();
        cells.extend(
            app.snapshot
                .nodes
                .iter()
                .map(|node| pages.map_or("-".into(), |pages| cells::share(&pages.bytes, node.node))),
        );
        cells.push(visible::name(&row.command).chars().take(60).collect());
        table.add_row(cells);
    }
    table
}
