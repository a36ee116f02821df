//! One process: its pages by node, its regions, its threads.

use super::app::App;
use super::cells;
use homing_linux::visible;
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

/// The details as lines that can be shown, for the page and for the table of `--once`.
pub fn lines(snapshot: &Snapshot, row: &ProcessRow) -> Vec<String> {
    raw_lines(snapshot, row).iter().map(|line| visible::name(line).into_owned()).collect()
}

/// The lines, with names as they are where no column follows them.
fn raw_lines(snapshot: &Snapshot, row: &ProcessRow) -> Vec<String> {
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
    symbols(snapshot, pages, &mut lines);
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
    lines.push(header(snapshot, "largest regions", "holds") + "  policy");
    for region in &pages.regions {
        let line = placed(snapshot, &region.name, region.class, region.resident(), &region.bytes);
        lines.push(format!("{line}  {}", region.policy));
    }
    if pages.regions_left_out > 0 {
        lines.push(format!("... and {} smaller ones", pages.regions_left_out));
    }
}

fn symbols(snapshot: &Snapshot, pages: &Pages, lines: &mut Vec<String>) {
    if pages.symbols.is_empty() {
        return;
    }
    lines.push(String::new());
    lines.push(header(snapshot, "largest static data", "of"));
    for symbol in &pages.symbols {
        let line = placed(snapshot, &symbol.name, &symbol.file, symbol.resident(), &symbol.bytes);
        lines.push(line + if symbol.sampled { "  by some of its pages" } else { "" });
    }
    if pages.symbols_left_out > 0 {
        lines.push(format!("... and {} smaller ones", pages.symbols_left_out));
    }
}

/// The header of a table of `placed` lines.
fn header(snapshot: &Snapshot, what: &str, of: &str) -> String {
    let nodes = snapshot.nodes.iter().map(|node| format!(" {:>4}", format!("N{}", node.node)));
    format!("{what:<28} {of:<14} {:>6}", "size") + &nodes.collect::<String>()
}

/// Something by name, its resident bytes and on which nodes they are.
fn placed(snapshot: &Snapshot, name: &str, of: &str, resident: u64, bytes: &[OnNode]) -> String {
    let (name, of) = (cells::shortened(name, 28), cells::shortened(of, 14));
    let nodes = snapshot.nodes.iter().map(|node| format!(" {:>4}", cells::share(bytes, node.node)));
    format!("{name:<28} {of:<14} {:>6}", cells::size(resident)) + &nodes.collect::<String>()
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
            task.tid,
            visible::name(&task.name),
            task.state,
            task.cpu
        ));
    }
}
