//! Hot memory areas, whose pages are served together; and the sampling mechanism for programs without iterations, which
//! "serves the hot memory areas round-robin" (Nikolopoulos 2000, section 2.3): it "wakes up periodically and scans a
//! number of pages in the hot areas ... The sampling period and the number of pages scanned upon each invocation can be
//! tuned by the user, or automatically" (section 4).
//!
//! Left open by the paper, chosen here: where it tunes itself, a look begins with 1024 pages at each interval. One that
//! finds candidates among more than an eighth of its pages doubles the pages and is followed by the next interval's;
//! one that finds none halves them, down to 64, and doubles the intervals, up to 16.

use super::{Pages, State, Tuning};
use crate::ids::{Node, Page};
use crate::process::HotArea;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Pages of a look and intervals between looks, where they are tuned.
const PAGES: u64 = 1024;
const FEWEST_PAGES: u64 = 64;
const MOST_PAGES: u64 = 1 << 20;
const SELDOM: u64 = 16;
/// A look found many if this many times its candidates are more than its pages.
const MANY: u64 = 8;

/// Which area: one that the program has named, by its first address, or else a block of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct AreaKey {
    named: bool,
    place: u64,
}

/// A hot memory area.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Area {
    key: AreaKey,
    pub(super) pages: Vec<Page>,
    pub(super) tuning: Tuning,
    /// What the ratio of equation (1) is multiplied by.
    pub(super) factor: f64,
    /// Greatest remote latency of a node in the last round.
    latency: f64,
    /// Rounds without candidates in a row, since a node has used the area from afar.
    pub(super) idle: u64,
    /// One has.
    shared: bool,
    /// The present round: its number, pages looked at, remote latency of each node, candidates.
    round: u64,
    looked: usize,
    latencies: Vec<f64>,
    pub(super) candidates: u64,
}

impl Area {
    fn new(key: AreaKey, tuning: Tuning) -> Area {
        Area { key, tuning, factor: 1.0, round: 1, ..Area::default() }
    }

    pub(super) fn is_cold(&self) -> bool {
        self.idle >= self.tuning.cold
    }

    /// The next pages of the round, and whether they are its last. A round begins with the pages that are still there.
    pub(super) fn next_pages(&mut self, most: usize, states: &mut Pages<State>) -> (Vec<Page>, bool) {
        if self.looked == 0 {
            let (key, round) = (self.key, self.round);
            // A page's number may have gone to another page, here or elsewhere.
            self.pages.retain(|&page| {
                let listed = states.get_mut(page).filter(|state| state.area == key && state.round != round);
                listed.map(|state| state.round = round).is_some()
            });
        }
        let end = self.looked.saturating_add(most).min(self.pages.len());
        let some = self.pages[self.looked.min(end)..end].to_vec();
        self.looked = end;
        (some, end == self.pages.len())
    }

    pub(super) fn add_latency(&mut self, node: Node, latency: f64) {
        if self.latencies.len() <= node.index() {
            self.latencies.resize(node.index() + 1, 0.0);
        }
        self.latencies[node.index()] += latency;
    }

    /// Figure 1, lines 13 to 20.
    pub(super) fn round_ends(&mut self, tunes: bool) {
        let latency = self.latencies.drain(..).fold(0.0, f64::max);
        self.shared |= latency > 0.0;
        if tunes && self.latency > 0.0 && latency > self.latency {
            self.factor *= self.tuning.selectivity;
        }
        self.latency = latency;
        if std::mem::take(&mut self.candidates) > 0 {
            self.idle = 0;
        } else if self.shared {
            self.idle += 1;
        }
        (self.looked, self.round) = (0, self.round + 1);
    }

    /// What was seen of the area does not count.
    pub(super) fn forget_rounds(&mut self) {
        self.latencies.clear();
        (self.factor, self.latency, self.idle, self.shared) = (1.0, 0.0, 0, false);
        (self.looked, self.round, self.candidates) = (0, self.round + 1, 0);
    }
}

impl Tuning {
    /// With what an area has of its own for a policy.
    pub(super) fn of(self, area: &HotArea, policy: &str) -> Tuning {
        let own = |name: &str, given: f64| area.own.parameter(policy, name).unwrap_or(given);
        Tuning {
            migration_cost: own("migration-cost", self.migration_cost),
            contention: own("contention", self.contention),
            selectivity: own("selectivity", self.selectivity),
            cold: own("cold", self.cold as f64) as u64,
        }
    }
}

/// An area that the program has named.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Named {
    end: u64,
    tuning: Tuning,
}

/// All areas.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Areas {
    pub(super) page_bytes: u64,
    area_pages: u64,
    /// By first address.
    named: BTreeMap<u64, Named>,
    all: Vec<Area>,
    /// The area that is served next, by its place among `all`.
    next: usize,
}

impl Areas {
    pub(super) fn new(area_pages: u64) -> Areas {
        Areas { page_bytes: 4096, area_pages, ..Areas::default() }
    }

    /// The area of the page with this address: the last that the page has bytes of.
    pub(super) fn key(&self, address: u64) -> AreaKey {
        let behind = Bound::Excluded(address.saturating_add(self.page_bytes));
        let last = self.named.range((Bound::Unbounded, behind)).next_back();
        match last.filter(|(_, named)| named.end > address) {
            Some((&start, _)) => AreaKey { named: true, place: start },
            None => AreaKey { named: false, place: address / self.page_bytes / self.area_pages },
        }
    }

    /// The area of the page with this address, made if it is new.
    pub(super) fn of(&mut self, address: u64, tuning: Tuning) -> &mut Area {
        let key = self.key(address);
        let own = self.named.get(&key.place).filter(|_| key.named);
        let tuning = own.map_or(tuning, |named| named.tuning);
        let at = match self.all.binary_search_by_key(&key, |area| area.key) {
            Ok(at) => at,
            Err(at) => {
                self.all.insert(at, Area::new(key, tuning));
                self.next += usize::from(at < self.next);
                at
            }
        };
        &mut self.all[at]
    }

    /// The program names its areas anew. Those that were known keep what was learnt of them. Returns all pages, which
    /// are in no area any more.
    pub(super) fn name(&mut self, hot: &[HotArea], tuning: impl Fn(&HotArea) -> Tuning) -> Vec<Page> {
        let named = |area: &HotArea| (area.start, Named { end: area.end(), tuning: tuning(area) });
        self.named = hot.iter().map(named).collect();
        let mut pages: Vec<Page> = self.all.iter_mut().flat_map(|area| area.pages.drain(..)).collect();
        pages.sort_unstable();
        pages.dedup();
        self.all.retain(|area| !area.key.named || self.named.contains_key(&area.key.place));
        for area in &mut self.all {
            area.looked = 0;
            if let Some(named) = self.named.get(&area.key.place).filter(|_| area.key.named) {
                area.tuning = named.tuning;
            }
        }
        self.next = 0;
        pages
    }

    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Area> {
        self.all.iter_mut()
    }

    /// The next area that is not cold; `None` if this turn of all of them is over.
    pub(super) fn turn(&mut self) -> Option<&mut Area> {
        let warm = |&at: &usize| !self.all[at].is_cold();
        let found = (self.next..self.all.len()).find(warm);
        self.next = found.unwrap_or(0);
        self.all.get_mut(found?)
    }

    /// Goes on to the next area if this one's round has ended.
    pub(super) fn go_on(&mut self) {
        self.next += usize::from(self.all[self.next].looked == 0);
    }
}

/// When programs without iterations are looked at, and at how many pages.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Wakes {
    pages: u64,
    every: u64,
    tunes_pages: bool,
    tunes_every: bool,
    /// Intervals before the next look.
    wait: u64,
}

impl Wakes {
    /// 0: tuned by itself.
    pub(super) fn new(pages: u64, every: u64) -> Wakes {
        let (tunes_pages, tunes_every) = (pages == 0, every == 0);
        let pages = if tunes_pages { PAGES } else { pages };
        Wakes { pages, every: every.max(1), tunes_pages, tunes_every, wait: 0 }
    }

    /// An interval ends: how many pages are to be looked at, if a look is due.
    pub(super) fn due(&mut self) -> Option<usize> {
        if self.wait > 0 {
            self.wait -= 1;
            return None;
        }
        self.wait = self.every - 1;
        Some(self.pages as usize)
    }

    /// What a look found.
    pub(super) fn looked(&mut self, pages: u64, candidates: u64) {
        let (many, none) = (candidates * MANY > pages, candidates == 0);
        if self.tunes_pages && many {
            self.pages = (self.pages * 2).min(MOST_PAGES);
        } else if self.tunes_pages && none {
            self.pages = (self.pages / 2).max(FEWEST_PAGES);
        }
        if self.tunes_every && many {
            self.hurry();
        } else if self.tunes_every && none {
            self.every = (self.every * 2).min(SELDOM);
        }
    }

    /// Something has changed: the next interval's end is a look's.
    pub(super) fn hurry(&mut self) {
        if self.tunes_every {
            (self.every, self.wait) = (1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_tune_themselves_by_what_they_find_unless_the_user_does() {
        let mut wakes = Wakes::new(0, 0);
        assert_eq!(wakes.due(), Some(1024));
        wakes.looked(1024, 129);
        assert_eq!(wakes.due(), Some(2048), "many candidates: more pages, at once");
        wakes.looked(2048, 0);
        assert_eq!((wakes.due(), wakes.due(), wakes.due()), (Some(1024), None, Some(1024)));
        (0..9).for_each(|_| wakes.looked(1024, 0));
        assert_eq!((wakes.pages, wakes.every), (FEWEST_PAGES, SELDOM));
        wakes.hurry();
        assert_eq!((wakes.due(), wakes.due()), (Some(64), Some(64)));
        let mut given = Wakes::new(10, 3);
        assert_eq!([given.due(), given.due(), given.due(), given.due()], [Some(10), None, None, Some(10)]);
        given.looked(10, 10);
        given.hurry();
        assert_eq!((given.pages, given.every), (10, 3));
    }
}
