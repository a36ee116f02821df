//! The page drawn into a buffer, after keys.

use super::*;
use crate::cmd::top::app::App;
use crate::cmd::top::text;
use homing_linux::proc::{Pid, Tid};
use homing_live::observe::snapshot::{Moves, OnNode, Pages, RegionRow, SymbolRow, TaskRow};
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;

fn on(counts: [u64; 4]) -> Vec<OnNode> {
    (0..4).map(|node| OnNode { node, count: counts[node as usize] << 20 }).collect()
}

/// Forty processes; the one numbered N has N percent of a CPU.
fn snapshot(nodes: u32) -> Snapshot {
    let process = |number: i32| ProcessRow {
        pid: Some(Pid(number)),
        name: format!("prog{number}"),
        command: format!("/usr/bin/prog{number} --fast"),
        threads: 100 - number as u32,
        cpu_percent: Some(f64::from(number)),
        resident_bytes: 100 << 20,
        denied: number == 2,
        pages: (number > 3).then(|| Pages {
            age_seconds: 7.0,
            cost_ms: 1.5,
            bytes: on([40, 60, 0, 0]),
            residency_percent: Some(40.0 + f64::from(number)),
            threads: vec![OnNode { node: 0, count: 2 }],
            regions: vec![RegionRow {
                name: "heap#0".into(),
                class: "heap",
                bytes: on([1, 3, 0, 0]),
                ..RegionRow::default()
            }],
            regions_left_out: 12,
            symbols: vec![SymbolRow {
                name: "colidx".into(),
                file: "cg.B".into(),
                sampled: true,
                bytes: on([2, 6, 0, 0]),
                ..SymbolRow::default()
            }],
            symbols_left_out: 3,
            tasks: vec![TaskRow {
                tid: Tid(number),
                name: "worker".into(),
                state: 'R',
                cpu: 5,
                node: Some(2),
                ran: true,
            }],
        }),
    };
    let node = |node: u32| NodeRow {
        node,
        cpus: 2,
        memory_bytes: Some(1 << 30),
        residency_percent: Some(25.0),
        ..NodeRow::default()
    };
    Snapshot {
        schema: 1,
        seconds: 2.0,
        nodes: (0..nodes).map(node).collect(),
        moves: Moves { moved_per_second: Some(123.0), ..Moves::default() },
        processes: (1..=40).map(process).collect(),
        waiting: 2,
        ..Snapshot::default()
    }
}

fn app(nodes: u32) -> App {
    let mut app = App::new(Vec::new(), Sort::Cpu, String::new());
    app.set(snapshot(nodes));
    app
}

fn press(app: &mut App, keys: &[KeyCode]) {
    keys.iter().for_each(|&code| assert!(app.key(KeyEvent::new(code, KeyModifiers::NONE))));
}

/// The page's lines.
fn drawn(app: &mut App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| line.trim_matches('"').trim_end().to_owned()).collect()
}

fn line<'a>(page: &'a [String], text: &str) -> &'a str {
    page.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("no `{text}` in {page:#?}"))
}

#[test]
fn the_list_shows_nodes_and_processes() {
    let mut app = app(4);
    let page = drawn(&mut app, 120, 30);
    assert!(page[0].contains("4 nodes, 40 processes; pages moved 123/s"), "{}", page[0]);
    assert!(line(&page, "node 3").contains("25 ##"), "{page:#?}");
    let header = line(&page, "COMMAND");
    assert!(header.contains("CPU%*") && header.contains("RESID%") && header.contains("N3"), "{header}");
    let first = page.iter().position(|line| line.contains("prog40")).unwrap();
    assert_eq!(page.iter().position(|line| line.contains("prog39")), Some(first + 1), "sorted by CPU");
    let row: Vec<&str> = page[first].split_whitespace().collect();
    assert_eq!(
        row,
        ["40", "prog40", "40.0", "100M", "80", "60", "40", "60", ".", ".", "7s", "/usr/bin/prog40", "--fast"]
    );
}

#[test]
fn keys_sort_filter_and_select() {
    let mut app = app(4);
    drawn(&mut app, 120, 30);
    press(&mut app, &[KeyCode::Char('l')]);
    assert!(line(&drawn(&mut app, 120, 30), "COMMAND").contains("RESID%*"));
    assert_eq!(app.rows()[0].pid, Some(Pid(4)), "worst first, what is not known last");
    press(&mut app, &[KeyCode::Char('p'), KeyCode::Char('r')]);
    assert_eq!(app.rows()[0].pid, Some(Pid(40)));
    press(&mut app, &[KeyCode::Char('r'), KeyCode::Char('/'), KeyCode::Char('g'), KeyCode::Char('2')]);
    assert!(line(&drawn(&mut app, 120, 30), "filter: g2_").contains("Enter"));
    press(&mut app, &[KeyCode::Enter, KeyCode::Down, KeyCode::Down]);
    assert_eq!((app.rows().len(), app.selected), (11, Some(Pid(20))));
    let page = drawn(&mut app, 120, 30);
    assert!(line(&page, "prog2 ").contains("denied"));
    press(&mut app, &[KeyCode::Esc, KeyCode::End]);
    let page = drawn(&mut app, 120, 30);
    assert!(page.iter().any(|line| line.contains("prog40")), "scrolled to the selected row");
    assert!(app.wanted().visible.contains(&Pid(40)) && app.wanted().others);
    let leave = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert!(!app.key(leave) && !app.key(KeyEvent::from(KeyCode::Char('q'))));
}

#[test]
fn details_have_regions_and_threads() {
    let mut app = app(4);
    drawn(&mut app, 120, 30);
    press(&mut app, &[KeyCode::Down, KeyCode::Enter]);
    let page = drawn(&mut app, 120, 30);
    assert!(page.iter().any(|line| line.contains("process 40: /usr/bin/prog40 --fast")), "{page:#?}");
    assert!(line(&page, "residency").contains("0: 40M, 1: 60M"));
    assert!(line(&page, "heap#0").contains("4.0M   25   75    .    ."), "{page:#?}");
    let symbol = line(&page, "colidx");
    assert!(symbol.contains("cg.B") && symbol.contains("8.0M   25   75    .    .  by some"), "{page:#?}");
    assert!(line(&page, "and 3 smaller ones").starts_with("..."), "{page:#?}");
    assert!(line(&page, "worker").contains('5') && line(&page, "12 smaller").starts_with("..."));
    assert_eq!((app.wanted().selected, app.wanted().others), (Some(Pid(40)), false));
    app.snapshot.processes.clear();
    assert!(drawn(&mut app, 80, 24).iter().any(|line| line.contains("has ended")));
    press(&mut app, &[KeyCode::Esc, KeyCode::Char('h')]);
    assert!(drawn(&mut app, 80, 30).iter().any(|line| line.contains("sort by CPU time")));
    press(&mut app, &[KeyCode::Char('x'), KeyCode::Char(' ')]);
    assert!(drawn(&mut app, 80, 30)[0].starts_with("paused"));
    app.set(snapshot(4));
    assert!(app.snapshot.processes.is_empty(), "nothing is taken over while paused");
}

#[test]
fn names_of_others_cannot_command_the_terminal() {
    let mut app = app(4);
    let hostile = "a\x1b]0;x\x07b\u{9b}2J\u{202e}c\nd";
    let shown = "a\\u001b]0;x\\u0007b\\u009b2J\\u202ec\\u000ad";
    for row in &mut app.snapshot.processes {
        row.command = hostile.into();
        row.name = "p\x1b[2J".into();
        if let Some(pages) = &mut row.pages {
            pages.regions[0].name = "r\x1b[2J".into();
            pages.symbols[0].file = "f\x1b[2J".into();
            pages.tasks[0].name = "t\x1b[2J".into();
        }
    }
    app.filter = "\x1b".into();
    let page = drawn(&mut app, 160, 30);
    assert!(line(&page, "p\\u001b[2J").contains(shown), "{page:#?}");
    assert!(line(&page, "filter:").contains("filter: \\u001b "), "{page:#?}");
    assert!(text::page(&app, 5).contains(shown), "{}", text::page(&app, 5));
    press(&mut app, &[KeyCode::Down, KeyCode::Enter]);
    let details = drawn(&mut app, 160, 30);
    assert!(line(&details, "process 40").ends_with(&format!(": {shown}")), "{details:#?}");
    for name in ["r\\u001b[2J", "f\\u001b[2J", "t\\u001b[2J"] {
        line(&details, name);
    }
    let all = [page.concat(), details.concat(), text::page(&app, 5).replace('\n', "")].concat();
    assert!(!all.contains(|letter: char| letter.is_control() || letter == '\u{202e}'));
    assert_eq!(app.snapshot.processes[0].command, hostile, "data stays exact");
}

#[test]
fn every_size_can_be_drawn() {
    for nodes in [0, 1, 4] {
        let mut app = app(nodes);
        for view in [View::List, View::Details, View::Help] {
            (app.view, app.selected) = (view, Some(Pid(9)));
            for width in [1, 10, 24, 40, 80, 300] {
                for height in [1, 5, 6, 12, 24, 100] {
                    drawn(&mut app, width, height);
                }
            }
        }
    }
    assert!(drawn(&mut app(4), 20, 5)[0].contains("needs"));
    assert!(drawn(&mut app(1), 120, 30).iter().any(|line| line.contains("homing lab run")));
    let narrow = drawn(&mut app(4), 40, 24);
    assert!(narrow.iter().any(|line| line.contains("prog40")), "{narrow:#?}");
}
