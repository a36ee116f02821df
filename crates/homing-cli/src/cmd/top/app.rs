//! What the page shows and what keys do: no terminal, no clock.

use super::cells::residency;
use homing_linux::proc::Pid;
use homing_live::observe::snapshot::{ProcessRow, Snapshot};
use homing_live::observe::Wanted;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Ordering;

/// What rows are sorted by.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// CPU time, most first
    Cpu,
    /// Resident memory, most first
    Memory,
    /// Residency, least first
    Residency,
    /// Threads, most first
    Threads,
    /// Process number
    Pid,
    /// Name
    Name,
}

impl Sort {
    /// All with their keys, in the order of the help.
    pub const ALL: [(char, Sort, &'static str); 6] = [
        ('c', Sort::Cpu, "CPU time"),
        ('m', Sort::Memory, "resident memory"),
        ('l', Sort::Residency, "residency, least first"),
        ('t', Sort::Threads, "threads"),
        ('p', Sort::Pid, "process number"),
        ('n', Sort::Name, "name"),
    ];
}

/// What the page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Nodes and processes.
    List,
    /// One process.
    Details,
    /// The keys.
    Help,
}

/// The page's state.
pub struct App {
    /// The last look.
    pub snapshot: Snapshot,
    /// Only these processes; empty: all.
    pub only: Vec<Pid>,
    /// What is shown.
    pub view: View,
    /// What rows are sorted by.
    pub sort: Sort,
    /// Reverses the order.
    pub reverse: bool,
    /// Shown are processes that contain it.
    pub filter: String,
    /// The filter is being typed.
    pub typing: bool,
    /// Looks are not taken over.
    pub paused: bool,
    /// The selected process.
    pub selected: Option<Pid>,
    /// Rows that fit, as drawn last.
    pub height: usize,
    /// The first row that is shown.
    pub offset: usize,
    /// The first line of the details that is shown.
    pub scroll: usize,
}

impl App {
    /// Nothing looked at yet.
    pub fn new(only: Vec<Pid>, sort: Sort, filter: String) -> App {
        App {
            snapshot: Snapshot::default(),
            view: if only.len() == 1 { View::Details } else { View::List },
            selected: only.first().copied(),
            only,
            sort,
            reverse: false,
            filter,
            typing: false,
            paused: false,
            height: 0,
            offset: 0,
            scroll: 0,
        }
    }

    /// Takes over a look.
    pub fn set(&mut self, snapshot: Snapshot) {
        if !self.paused {
            self.snapshot = snapshot;
        }
    }

    /// The rows that pass the filter, in order.
    pub fn rows(&self) -> Vec<&ProcessRow> {
        let filter = self.filter.to_lowercase();
        let passes = |row: &&ProcessRow| {
            filter.is_empty()
                || row.command.to_lowercase().contains(&filter)
                || row.name.to_lowercase().contains(&filter)
                || row.pid.is_some_and(|pid| pid.to_string().contains(&filter))
        };
        let mut rows: Vec<&ProcessRow> = self.snapshot.processes.iter().filter(passes).collect();
        rows.sort_by(|a, b| {
            let order = self.order(a, b).then(a.pid.cmp(&b.pid));
            if self.reverse {
                order.reverse()
            } else {
                order
            }
        });
        rows
    }

    fn order(&self, a: &ProcessRow, b: &ProcessRow) -> Ordering {
        let cpu = |row: &ProcessRow| row.cpu_percent.unwrap_or(0.0);
        let by_cpu = || cpu(b).total_cmp(&cpu(a)).then(b.resident_bytes.cmp(&a.resident_bytes));
        match self.sort {
            Sort::Cpu => by_cpu(),
            Sort::Memory => b.resident_bytes.cmp(&a.resident_bytes),
            Sort::Residency => {
                // What is not known comes last.
                let known = |row: &ProcessRow| residency(row).unwrap_or(f64::INFINITY);
                known(a).total_cmp(&known(b)).then_with(by_cpu)
            }
            Sort::Threads => b.threads.cmp(&a.threads).then_with(by_cpu),
            Sort::Pid => Ordering::Equal,
            Sort::Name => a.name.cmp(&b.name),
        }
    }

    /// The selected process's row.
    pub fn selected_row(&self) -> Option<&ProcessRow> {
        self.snapshot.processes.iter().find(|row| row.pid == self.selected && row.pid.is_some())
    }

    /// Whose pages to look at next.
    pub fn wanted(&self) -> Wanted {
        let rows = self.rows();
        let visible = rows.iter().skip(self.offset).take(self.height.max(1)).filter_map(|row| row.pid);
        let details = self.view == View::Details;
        Wanted {
            selected: self.selected.filter(|_| details),
            visible: if details { Vec::new() } else { visible.collect() },
            others: !details,
        }
    }

    /// A key. False: the user wants to leave.
    pub fn key(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c' | 'd')) {
            return false;
        }
        if self.typing {
            self.type_key(key.code);
            return true;
        }
        match (self.view, key.code) {
            (_, KeyCode::Char('q')) => return false,
            (_, KeyCode::Char(' ')) => self.paused = !self.paused,
            (View::Help, _) => self.view = View::List,
            (_, KeyCode::Char('h' | '?') | KeyCode::F(1)) => self.view = View::Help,
            (View::Details, code) => self.details_key(code),
            (View::List, code) => self.list_key(code),
        }
        true
    }

    fn type_key(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.offset = 0;
    }

    fn details_key(&mut self, code: KeyCode) {
        let page = self.height.max(1);
        match code {
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Enter => self.view = View::List,
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += page,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(page),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
    }

    fn list_key(&mut self, code: KeyCode) {
        let page = self.height.max(1) as isize;
        match code {
            KeyCode::Char('/' | 'f') => self.typing = true,
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(page),
            KeyCode::PageUp => self.step(-page),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right if self.selected_row().is_some() => {
                (self.view, self.scroll) = (View::Details, 0);
            }
            KeyCode::Char(letter) => {
                if let Some((_, sort, _)) = Sort::ALL.iter().find(|(key, ..)| *key == letter) {
                    (self.sort, self.offset) = (*sort, 0);
                }
            }
            _ => {}
        }
    }

    /// Selects another row.
    fn step(&mut self, by: isize) {
        let (row, count) = {
            let rows = self.rows();
            let at = rows.iter().position(|row| row.pid == self.selected);
            let last = rows.len().saturating_sub(1);
            let next = at.map_or(0, |at| at.saturating_add_signed(by).min(last));
            (next, rows.get(next).and_then(|row| row.pid))
        };
        self.selected = count;
        self.show(row);
    }

    /// Scrolls so that a row is shown.
    fn show(&mut self, row: usize) {
        let height = self.height.max(1);
        self.offset = self.offset.min(row).max((row + 1).saturating_sub(height));
    }
}
