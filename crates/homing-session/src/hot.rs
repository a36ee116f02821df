//! Hot areas, and what is counted for each: the numbers of Nikolopoulos 2000, Table 1 (pages that were eligible,
//! migrated, frozen; the share that was migrated in the first two iterations) and Figure 3 (remote accesses of an array
//! by range of iterations).

use super::input::{Areas, HotArea, Own};
use super::pages::Entry;
use super::Session;
use ahash::AHashMap;
use homing_core::action::{Kind, Outcome};
use homing_core::ids::Page;
use homing_core::process::ProcessId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Areas that are told apart at most; further ones are counted together.
pub const TOLD_APART: usize = 256;
/// Iterations whose counts are kept at most: beyond, every second one is dropped.
pub const KEPT: usize = 512;

/// What was counted of one area, or of all memory outside of areas where a process has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AreaCounts {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its first address; 0 for memory without an area.
    pub start: u64,
    /// Its length; 0 for memory without an area.
    pub bytes: u64,
    /// Its pages are never moved.
    pub stays: bool,
    /// Accesses by CPUs of the node that holds the page.
    pub local: u64,
    /// ... and by others.
    pub remote: u64,
    /// Pages that were seen.
    pub pages: u64,
    /// Pages that the policy wanted elsewhere.
    pub eligible: u64,
    /// Pages that moved.
    pub migrated: u64,
    /// Pages that the policy froze.
    pub frozen: u64,
    /// Moves.
    pub moves: u64,
}

/// What had been counted when an iteration ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IterationCounts {
    /// Its number, from 1.
    pub iteration: u64,
    /// Accesses by CPUs of the node that holds the page.
    pub local: u64,
    /// ... and by others.
    pub remote: u64,
    /// Moves.
    pub moves: u64,
    /// Remote accesses of each area, in the order of the areas.
    pub remote_by_area: Vec<u64>,
}

/// The areas of all processes.
#[derive(Debug, Default)]
pub struct HotAreas {
    of: BTreeMap<ProcessId, Areas>,
    rows: Vec<AreaCounts>,
    /// The row of each area, by its process and first address.
    numbers: AHashMap<(ProcessId, u64), usize>,
    /// The one that was asked for last.
    recent: Option<((ProcessId, u64), usize)>,
    iterations: u64,
    kept: Vec<IterationCounts>,
    /// Each iteration whose number is a multiple of this is kept, and the first two.
    every: u64,
}

impl HotAreas {
    /// The area of a page; `None` if its process has no areas, or the page is in none of them.
    fn of(&self, process: ProcessId, address: u64) -> Option<&HotArea> {
        let areas = self.of.get(&process)?;
        Some(&areas.areas[areas.of(address)?])
    }

    /// True unless the page is outside of the areas of its process.
    pub(super) fn matter(&self, process: ProcessId, address: u64) -> bool {
        self.of.get(&process).is_none_or(|areas| areas.areas.is_empty() || areas.of(address).is_some())
    }

    /// What holds for a page's area alone.
    pub(super) fn own(&self, process: ProcessId, address: u64) -> Option<&Own> {
        Some(&self.of(process, address)?.own)
    }

    /// The row that a page is counted in.
    fn row(&mut self, process: ProcessId, address: u64) -> &mut AreaCounts {
        let area = self.of(process, address);
        let key = (process, area.map_or(0, |area| area.start));
        let recent = self.recent.filter(|(known, _)| *known == key);
        let number = match recent.map(|(_, number)| number).or_else(|| self.numbers.get(&key).copied()) {
            Some(number) => number,
            None => {
                let row = area.map_or_else(AreaCounts::default, |area| AreaCounts {
                    name: area.name.clone(),
                    start: area.start,
                    bytes: area.bytes,
                    stays: area.own.stays,
                    ..AreaCounts::default()
                });
                self.add_row(key, row)
            }
        };
        self.recent = Some((key, number));
        &mut self.rows[number]
    }

    fn add_row(&mut self, key: (ProcessId, u64), row: AreaCounts) -> usize {
        let number = self.rows.len();
        if number >= TOLD_APART {
            // The last row is that of all the others.
            return number - 1;
        }
        self.rows.push(match number + 1 {
            TOLD_APART => AreaCounts { name: "others".into(), ..AreaCounts::default() },
            _ => row,
        });
        self.numbers.insert(key, number);
        number
    }

    /// The areas of a process are others now. One that lies over an area of before goes on with its row: mappings grow
    /// at either end.
    fn replace(&mut self, areas: Areas) {
        let process = areas.process;
        self.recent = None;
        let before = self.of.remove(&process).map(|before| before.areas).unwrap_or_default();
        let row_of = |area: HotArea| self.numbers.remove(&(process, area.start)).map(|number| (area, number));
        let before: Vec<(HotArea, usize)> = before.into_iter().filter_map(row_of).collect();
        let mut before = before.iter();
        let mut next = before.next();
        for area in &areas.areas {
            while next.is_some_and(|(old, _)| old.end() <= area.start) {
                next = before.next();
            }
            let Some(&(_, number)) = next.filter(|(old, _)| old.start < area.end()) else { continue };
            next = before.next();
            self.numbers.insert((process, area.start), number);
            let row = &mut self.rows[number];
            if number + 1 < TOLD_APART {
                (row.start, row.bytes, row.stays) = (area.start, area.bytes, area.own.stays);
                row.name.clone_from(&area.name);
            }
        }
        self.of.insert(process, areas);
    }

    /// What was counted, by area, in the order of their first accesses.
    pub fn counts(&self) -> &[AreaCounts] {
        &self.rows
    }

    /// Iterations that have ended.
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// What had been counted when iterations ended, oldest first: the first two, and further ones at equal distances.
    pub fn by_iteration(&self) -> &[IterationCounts] {
        &self.kept
    }

    /// An access to a page.
    pub(super) fn access(&mut self, entry: &Entry, first: bool, remote: bool) {
        let row = self.row(entry.process, entry.address);
        row.pages += u64::from(first);
        *(if remote { &mut row.remote } else { &mut row.local }) += 1;
    }

    /// The policy asked for something, which was not refused. `first`: for the first time of this page.
    fn asked(&mut self, entry: &Entry, first: bool, freezes: bool) {
        let row = self.row(entry.process, entry.address);
        row.eligible += u64::from(first);
        row.frozen += u64::from(freezes);
    }

    fn moved(&mut self, entry: &Entry) {
        let row = self.row(entry.process, entry.address);
        row.moves += 1;
        row.migrated += u64::from(entry.moves == 1);
    }

    /// An iteration has ended.
    pub(super) fn iteration_ends(&mut self) {
        self.iterations += 1;
        let sum = |of: fn(&AreaCounts) -> u64| self.rows.iter().map(of).sum();
        let now = IterationCounts {
            iteration: self.iterations,
            local: sum(|row| row.local),
            remote: sum(|row| row.remote),
            moves: sum(|row| row.moves),
            remote_by_area: self.rows.iter().map(|row| row.remote).collect(),
        };
        self.every = self.every.max(1);
        if self.kept.len() == KEPT {
            self.every *= 2;
            let every = self.every;
            self.kept.retain(|kept| kept.iteration <= 2 || kept.iteration.is_multiple_of(every));
        }
        if now.iteration <= 2 || now.iteration.is_multiple_of(self.every) {
            self.kept.push(now);
        }
    }
}

/// Moves until the second iteration had ended, of all there were; `None` before, and where nothing moved.
pub fn moved_in_two(by_iteration: &[IterationCounts], areas: &[AreaCounts]) -> Option<(u64, u64)> {
    let second = by_iteration.iter().find(|counts| counts.iteration == 2)?;
    let all = areas.iter().map(|area| area.moves).sum();
    (all > 0).then_some((second.moves, all))
}

impl Session<'_> {
    /// The hot areas, and what was counted for each.
    pub fn hot(&self) -> &HotAreas {
        &self.hot
    }

    /// Takes the hot areas of a process anew and forgets its pages that are in none any more.
    pub(super) fn take_areas(&mut self, areas: Areas) {
        let process = areas.process;
        self.hot.replace(areas);
        let gone: Vec<Page> = {
            let pages = self.orders().pages().iter();
            let outside = pages.filter(|(_, e)| e.process == process && !self.hot.matter(process, e.address));
            outside.map(|(page, _)| page).collect()
        };
        let hot = &self.hot;
        self.estimator.forget(|of, address| of == process && !hot.matter(process, address));
        gone.into_iter().for_each(|page| self.page_gone(page));
        self.tell_areas();
    }

    /// A process has ended.
    pub(super) fn forget_areas(&mut self, process: ProcessId) {
        if self.hot.of.remove(&process).is_some() {
            self.tell_areas();
        }
    }

    fn tell_areas(&mut self) {
        let all: Vec<HotArea> = self.hot.of.values().flat_map(|areas| areas.areas.iter().cloned()).collect();
        self.engine.areas(&all);
    }

    /// Counts what was asked for.
    pub(super) fn count_asked(&mut self, page: Page, kind: Kind, outcome: Outcome) {
        let refused = matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_) | Outcome::Already);
        if refused || !self.orders().pages().alive(page) {
            return;
        }
        let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
        let first = !std::mem::replace(&mut entry.eligible, true);
        let freezes = kind == Kind::Freeze && !std::mem::replace(&mut entry.frozen, true);
        self.hot.asked(self.engine.executor().pages().entry(page), first, freezes);
    }

    /// Counts a page that has moved.
    pub(super) fn count_moved(&mut self, page: Page) {
        self.hot.moved(self.engine.executor().pages().entry(page));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_iterations_and_few_others_are_kept() {
        let mut hot = HotAreas::default();
        hot.rows.push(AreaCounts::default());
        for round in 1..=10_000 {
            hot.rows[0].moves = round;
            hot.iteration_ends();
        }
        let kept = hot.by_iteration();
        assert!((KEPT / 2..=KEPT).contains(&kept.len()), "{}", kept.len());
        assert!(kept.iter().all(|kept| kept.moves == kept.iteration));
        assert!(kept[2..].iter().all(|kept| kept.iteration % hot.every == 0));
        assert_eq!((kept[0].iteration, kept[1].iteration), (1, 2));
        assert_eq!((hot.iterations(), moved_in_two(kept, hot.counts())), (10_000, Some((2, 10_000))));
        assert_eq!(moved_in_two(&kept[..1], hot.counts()), None);
        assert_eq!(moved_in_two(kept, &[]), None, "nothing moved");
    }

    #[test]
    fn an_area_that_grows_is_the_same() {
        let mut hot = HotAreas::default();
        let process = ProcessId(1);
        let area = |&(start, end): &(u64, u64)| HotArea {
            start,
            bytes: end - start,
            name: format!("{start:x}"),
            own: Own::default(),
        };
        let mut name = |areas: &[(u64, u64)], seen: &[u64]| -> Vec<(String, u64)> {
            hot.replace(Areas { process, areas: areas.iter().map(area).collect() });
            seen.iter().for_each(|&address| hot.row(process, address).local += 1);
            hot.counts().iter().map(|row| (row.name.clone(), row.local)).collect()
        };
        let rows = |rows: &[(&str, u64)]| rows.iter().map(|(n, c)| ((*n).to_owned(), *c)).collect::<Vec<_>>();
        let first = name(&[(0x10_000, 0x20_000), (0x40_000, 0x50_000)], &[0x10_000, 0x40_000]);
        assert_eq!(first, rows(&[("10000", 1), ("40000", 1)]));
        // One grows downwards, one upwards; between them is a new one.
        let grown = [(0x8000, 0x20_000), (0x28_000, 0x30_000), (0x40_000, 0x60_000)];
        let second = name(&grown, &[0x8000, 0x28_000, 0x5f_000]);
        assert_eq!(second, rows(&[("8000", 2), ("40000", 2), ("28000", 1)]));
        // The two parts of one that was cut are two: the first goes on.
        let cut = [(0x8000, 0x10_000), (0x18_000, 0x20_000), (0x40_000, 0x60_000)];
        let third = name(&cut, &[0x8000, 0x18_000, 0x40_000]);
        assert_eq!(third, rows(&[("8000", 3), ("40000", 3), ("28000", 1), ("18000", 1)]));
    }

    #[test]
    fn areas_beyond_those_that_are_told_apart_are_counted_together() {
        let mut hot = HotAreas::default();
        let areas = (1..=1000).map(|i| HotArea {
            start: i << 20,
            bytes: 4096,
            name: format!("a{i}"),
            own: Own::default(),
        });
        let process = ProcessId(1);
        hot.of.insert(process, Areas { process, areas: areas.collect() });
        (1..=1000).for_each(|i| hot.row(process, i << 20).local += 1);
        assert_eq!(hot.counts().len(), TOLD_APART);
        let last = &hot.counts()[TOLD_APART - 1];
        assert_eq!((last.name.as_str(), last.local), ("others", 1000 - TOLD_APART as u64 + 1));
    }
}
