//! One process: its pages by node, its regions, its threads.

use super::app::App;
use super::cells;
use homing_live::observe::snapshot::{OnNode, Pages, ProcessRow, Snapshot};
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::Frame;

/// Draws the selected process.
pub fn draw(frame: &mut Frame, area: Rect, app: &mut App) {
    let lines = match app.selected_row() {
        None => vec!["the process has ended".to_owned()],
        Some(row) => lines(&app.snapshot, row),
    };
    app.height = usize::from(area.height);
    app.scroll = app.scroll.min(lines.len().saturating_sub(app.height));
    let shown: Vec<Line> = lines.into_iter().skip(app.scroll).map(Line::from).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

/// The details as lines, for the page and for the table of `--once`.
pub fn lines(snapshot: &Snapshot, row: &ProcessRow) -> Vec<String> {
    let pid = row.pid.map_or("-".into(), |pid| pid.to_string());
    let mut lines = vec![
        format!("process {pid}: {}", row.command),
        format!(
            "{} resident, {} threads, {} % of a CPU",
            cells::size(row.resident_bytes),
            row.threads,
            row.cpu_percent.map_or("-".into(), |cpu| format!("{cpu:.1}"))
        ),
    ];
    let Some(pages) = &row.pages else {
        lines.push(match row.denied {
            true => {
                "this user may not see its pages: shown to its owner, to root, or with CAP_SYS_PTRACE".into()
            }
            false => "its pages have not been looked at yet".into(),
        });
        return lines;
    };
    lines.push(format!(
        "pages on nodes {}; threads on nodes {}; residency {} % (age {}, a look takes {:.1} ms)",
        on_nodes(&pages.bytes, cells::size),
        on_nodes(&pages.threads, |count| count.to_string()),
        cells::percent(pages.residency_percent),
        cells::age(pages.age_seconds),
        pages.cost_ms
    ));
    lines.push(String::new());
    regions(snapshot, pages, &mut lines);
    threads(pages, &mut lines);
    lines
}

/// `0: 12M, 1: 3.0M`.
fn on_nodes(on: &[OnNode], text: impl Fn(u64) -> String) -> String {
    let parts: Vec<String> =
        on.iter().filter(|on| on.count > 0).map(|on| format!("{}: {}", on.node, text(on.count))).collect();
    if parts.is_empty() {
        "-".into()
    } else {
        parts.join(", ")
    }
}

fn regions(snapshot: &Snapshot, pages: &Pages, lines: &mut Vec<String>) {
    let mut header = format!("{:<28} {:<14} {:>6}", "largest regions", "holds", "size");
    for node in &snapshot.nodes {
        header += &format!(" {:>4}", format!("N{}", node.node));
    }
    lines.push(header + "  policy");
    for region in &pages.regions {
        let name = cells::shortened(&region.name, 28);
        let mut line = format!("{name:<28} {:<14} {:>6}", region.class, cells::size(region.resident()));
        for node in &snapshot.nodes {
            line += &format!(" {:>4}", cells::share(&region.bytes, node.node));
        }
        lines.push(format!("{line}  {}", region.policy));
    }
    if pages.regions_left_out > 0 {
        lines.push(format!("... and {} smaller ones", pages.regions_left_out));
    }
}

fn threads(pages: &Pages, lines: &mut Vec<String>) {
    if pages.tasks.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(format!("{:<8} {:<16} {:>5} {:>5} {:>4}  ran", "thread", "name", "state", "CPU", "node"));
    for task in &pages.tasks {
        let node = task.node.map_or("-".into(), |node| node.to_string());
        let ran = if task.ran { "yes" } else { "" };
        lines.push(format!(
            "{:<8} {:<16} {:>5} {:>5} {node:>4}  {ran}",
            task.tid, task.name, task.state, task.cpu
        ));
    }
}
