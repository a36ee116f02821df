//! The page, drawn into whatever size there is.

use super::app::{App, Sort, View};
use super::{cells, details};
use homing_linux::visible;
use homing_live::observe::snapshot::{NodeRow, ProcessRow, Snapshot};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use ratatui::Frame;

/// What does not fit in less is not drawn at all.
const SMALLEST: (u16, u16) = (24, 6);

/// Draws.
pub fn draw(frame: &mut Frame, app: &mut App) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("homing top needs {}x{}; q leaves", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let [head, body, foot] = Layout::vertical([
        Constraint::Length(head_height(area, app)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_head(frame, head, app);
    match app.view {
        View::List => draw_list(frame, body, app),
        View::Details => details::draw(frame, body, app),
        View::Help => draw_help(frame, body),
    }
    draw_foot(frame, foot, app);
}

/// Lines that a text takes.
fn lines_of(text: &str, width: u16) -> u16 {
    text.chars().count().div_ceil(usize::from(width.max(1))).max(1) as u16
}

/// The summary, and what there is to say of the nodes, where there is room for it.
fn draw_head(frame: &mut Frame, area: Rect, app: &App) {
    let [summary, nodes] =
        Layout::vertical([Constraint::Length(summary_height(area, app)), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(summary_text(app)).bold().wrap(Wrap { trim: true }), summary);
    match app.snapshot.nodes.len() {
        _ if nodes.height == 0 => {}
        1 => {
            let note = Paragraph::new(cells::one_node()).fg(Color::Yellow).wrap(Wrap { trim: true });
            frame.render_widget(note, nodes);
        }
        _ => frame.render_widget(node_table(&app.snapshot, nodes.width), nodes),
    }
}

fn summary_text(app: &App) -> String {
    let paused = if app.paused { "paused; " } else { "" };
    format!("{paused}{}", cells::summary(&app.snapshot))
}

/// Lines of the summary. Wrapping at words may take one more than the letters do.
fn summary_height(area: Rect, app: &App) -> u16 {
    let text = summary_text(app);
    let more = u16::from(text.chars().count() > usize::from(area.width));
    (lines_of(&text, area.width) + more).min(area.height / 4).max(1)
}

fn head_height(area: Rect, app: &App) -> u16 {
    let summary = summary_height(area, app);
    let nodes = match app.snapshot.nodes.len() as u16 {
        1 => lines_of(&cells::one_node(), area.width),
        nodes => nodes + 1,
    };
    if app.view != View::Help && area.height >= summary + nodes + 8 {
        summary + nodes
    } else {
        summary
    }
}

fn node_table(snapshot: &Snapshot, width: u16) -> Table<'static> {
    let bar = (width.saturating_sub(50) as usize).min(40);
    let row = |node: &NodeRow| {
        let memory = node.memory_bytes.map_or("-".into(), cells::size);
        let free = node.free_bytes.map_or("-".into(), cells::size);
        let resident = node.residency_percent;
        let filled = resident.map_or(0, |percent| (bar as f64 * percent / 100.0).round() as usize).min(bar);
        Row::new([
            Cell::from(format!("node {}", node.node)),
            right(node.cpus.to_string(), 5),
            right(memory, 6),
            right(free, 6),
            right(node.threads.to_string(), 8),
            right(cells::size(node.resident_bytes), 6),
            right(cells::percent(resident), 7),
            Cell::from(format!("{}{}", "#".repeat(filled), ".".repeat(bar - filled))).style(shade(resident)),
        ])
    };
    let heading = [" CPUS", "   MEM", "  FREE", " THREADS", " PAGES"].map(Cell::from);
    let residency = right(cells::RESIDENCY.to_owned(), 7);
    let header =
        Row::new([Cell::from("")].into_iter().chain(heading).chain([residency, Cell::from("")])).dim();
    let widths = [8, 5, 6, 6, 8, 6, 7, bar as u16].map(Constraint::Length);
    Table::new(snapshot.nodes.iter().map(row), widths).header(header).column_spacing(1)
}

fn right(text: String, width: usize) -> Cell<'static> {
    Cell::from(format!("{text:>width$}"))
}

/// Green for near, red for far.
fn shade(residency: Option<f64>) -> Style {
    match residency {
        None => Style::new(),
        Some(percent) if percent >= 80.0 => Style::new().fg(Color::Green),
        Some(percent) if percent >= 50.0 => Style::new().fg(Color::Yellow),
        Some(_) => Style::new().fg(Color::Red),
    }
}

fn draw_list(frame: &mut Frame, area: Rect, app: &mut App) {
    app.height = usize::from(area.height.saturating_sub(1));
    let rows = app.rows();
    let offset = app.offset.min(rows.len().saturating_sub(1));
    let columns = columns(&app.snapshot, area.width);
    let shown = rows.iter().skip(offset).take(app.height);
    let body = shown.map(|row| {
        let selected = row.pid == app.selected;
        let style = if selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        Row::new(columns.iter().map(|column| column.cell(row))).style(style)
    });
    let header = Row::new(columns.iter().map(|column| column.heading(app)));
    let header = header.style(Style::new().add_modifier(Modifier::UNDERLINED));
    let table = Table::new(body, columns.iter().map(Column::constraint)).header(header);
    frame.render_widget(table.column_spacing(1), area);
    app.offset = offset;
}

/// A column of the process table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    Pid,
    Name,
    Cpu,
    Memory,
    Residency,
    Threads,
    /// Share of the pages on a node of this number.
    Node(u32),
    Age,
    Command,
}

/// The columns that fit, in their order from the left. What matters most is taken first.
fn columns(snapshot: &Snapshot, width: u16) -> Vec<Column> {
    use Column::*;
    let first = [Pid, Name, Residency, Memory, Cpu, Age, Threads];
    let nodes = snapshot.nodes.iter().map(|node| Node(node.node));
    let mut left = width + 1;
    let fits = |column: &Column| {
        let fits = left > column.width();
        left = left.saturating_sub(if fits { column.width() + 1 } else { left });
        fits
    };
    let mut columns: Vec<Column> = first.into_iter().chain(nodes).chain([Command]).filter(fits).collect();
    columns.sort_unstable();
    columns
}

impl Column {
    /// Characters; the command takes what is left, and needs these.
    fn width(&self) -> u16 {
        match self {
            Column::Name => 12,
            Column::Pid | Column::Residency => 7,
            Column::Cpu | Column::Age => 6,
            Column::Memory | Column::Threads | Column::Node(_) => 5,
            Column::Command => 10,
        }
    }

    fn constraint(&self) -> Constraint {
        match self {
            Column::Command => Constraint::Fill(1),
            column => Constraint::Length(column.width()),
        }
    }

    fn heading(&self, app: &App) -> Cell<'static> {
        let mark = |sort: Sort, name: &str| {
            self.aligned(if app.sort == sort { format!("{name}*") } else { name.to_owned() })
        };
        match self {
            Column::Pid => mark(Sort::Pid, "PID"),
            Column::Name => mark(Sort::Name, "NAME"),
            Column::Cpu => mark(Sort::Cpu, "CPU%"),
            Column::Memory => mark(Sort::Memory, "MEM"),
            Column::Residency => mark(Sort::Residency, cells::RESIDENCY),
            Column::Threads => mark(Sort::Threads, "THR"),
            Column::Node(node) => self.aligned(format!("N{node}")),
            Column::Age => self.aligned("AGE".into()),
            Column::Command => self.aligned("COMMAND".into()),
        }
    }

    fn cell(&self, row: &ProcessRow) -> Cell<'static> {
        let residency = cells::residency(row);
        let text = match self {
            Column::Pid => row.pid.map_or("-".into(), |pid| pid.to_string()),
            Column::Name => row.name.clone(),
            Column::Cpu => row.cpu_percent.map_or("-".into(), |cpu| format!("{cpu:.1}")),
            Column::Memory => cells::size(row.resident_bytes),
            Column::Residency => cells::percent(residency),
            Column::Threads => row.threads.to_string(),
            Column::Node(node) => {
                row.pages.as_ref().map_or(String::new(), |pages| cells::share(&pages.bytes, *node))
            }
            Column::Age => cells::freshness(row),
            Column::Command => row.command.clone(),
        };
        let style = if *self == Column::Residency { shade(residency) } else { Style::new() };
        self.aligned(text).style(style)
    }

    /// Names to the left, numbers to the right.
    fn aligned(&self, text: String) -> Cell<'static> {
        match self {
            Column::Name | Column::Command => Cell::from(visible::name(&text).into_owned()),
            column => right(text, usize::from(column.width())),
        }
    }
}

fn draw_foot(frame: &mut Frame, area: Rect, app: &App) {
    let text = match app.view {
        _ if app.typing => format!("filter: {}_  (Enter keeps it, Esc drops it)", app.filter),
        View::List if !app.filter.is_empty() => {
            format!("filter: {}  (/ changes it, Esc drops it)", app.filter)
        }
        View::List => "q quit  h help  arrows+Enter details  / filter  r reverse  sort: c m l t p n".into(),
        View::Details => "Esc back  arrows scroll  space pause  q quit".into(),
        View::Help => "any key: back".into(),
    };
    frame.render_widget(Paragraph::new(visible::name(&text)).dim(), area);
}

fn draw_help(frame: &mut Frame, area: Rect) {
    let mut lines: Vec<Line> = [
        "q, Ctrl-C   leave",
        "arrows j k  select a process; PageUp, PageDown, Home, End",
        "Enter       details of the selected process: regions, threads",
        "/ f         filter by name, command or number",
        "space       pause",
        "r           reverse the order",
    ]
    .map(Line::from)
    .to_vec();
    lines
        .extend(Sort::ALL.iter().map(|(key, _, what)| Line::from(format!("{key}           sort by {what}"))));
    lines.extend(
        [
            "",
            "N0 N1 ...   share of the process's resident pages on each node, in percent",
            "RESID%      residency: share of its resident pages on the nodes where its threads run.",
            "            It says where pages are, not who uses them: homing attach --dry-run tells",
            "AGE         age of what is known of its pages; `waits`: not looked at yet; `denied`: another",
            "            user's. Reading large processes is expensive, so it has a budget (--budget)",
        ]
        .map(Line::from),
    );
    frame.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests;
