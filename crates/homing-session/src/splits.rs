//! Huge pages that several nodes use: no node is right for them. They are split, so that each part can go to its user,
//! which the kernel's own balancing never does. One that a single node uses is moved as a whole, and keeps its reach
//! in the TLB.

use super::input::SplitResult;
use super::output::{HugePage, Output, WasSplit};
use super::{Session, HUGE};
use homing_core::ids::Page;

/// Least share that users other than the first among them must have in a page's bursts: below it a whole page costs
/// less, since its parts would miss the TLB more often.
const SHARED: f64 = 0.2;

/// Most splits in an interval: each stops the page's users for a moment.
const MOST: usize = 64;

/// Huge pages that are to be split.
#[derive(Debug)]
pub(super) struct Splits {
    wanted: Vec<Page>,
    /// How many more may be split in this interval.
    left: usize,
}

impl Splits {
    pub(super) fn new() -> Splits {
        Splits { wanted: Vec::new(), left: MOST }
    }

    /// Another interval begins.
    pub(super) fn interval(&mut self) {
        self.left = MOST;
    }
}

impl Session<'_> {
    /// A page was seen, whose users the estimator has just told: notes one that is to be split.
    pub(super) fn consider_split(&mut self, page: Page) {
        let shares = self.estimator.shares();
        if shares.len() < 2 || !self.may_split(page) {
            return;
        }
        let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        if 1.0 - most >= SHARED && !self.splits.wanted.contains(&page) {
            self.splits.wanted.push(page);
        }
    }

    /// True of a huge page that is split if several nodes use it.
    pub(super) fn may_split(&self, page: Page) -> bool {
        let entry = self.orders().pages().entry(page);
        let allowed = !self.settings.keep_huge_pages && !self.settings.dry_run;
        allowed && entry.bytes == HUGE && !entry.whole && self.orders().stays(page).is_none()
    }

    /// Asks for the splits that were noted, as many as the interval allows.
    pub(super) fn split_some(&mut self) {
        let now = self.splits.wanted.len().min(self.splits.left);
        if now == 0 {
            return;
        }
        self.splits.left -= now;
        let wanted: Vec<Page> = self.splits.wanted.drain(..now).collect();
        let pages = self.orders().pages();
        let alive = wanted.into_iter().filter(|&page| pages.alive(page)).map(|page| pages.entry(page));
        let huge = alive.filter(|entry| entry.bytes == HUGE);
        let asked: Vec<HugePage> =
            huge.map(|entry| HugePage { process: entry.process, address: entry.address }).collect();
        if !asked.is_empty() {
            self.out.push(Output::Split(asked));
        }
    }

    /// What came of splits. Pages that were split are forgotten; their parts become known at their next accesses.
    pub(super) fn took_split(&mut self, results: &[SplitResult]) {
        for result in results {
            let Some(page) = self.page_at(result.process, result.address) else { continue };
            if self.orders().pages().entry(page).bytes != HUGE {
                continue;
            }
            if result.done {
                self.was_split(page);
            } else {
                self.engine.executor_mut().pages_mut().entry_mut(page).whole = true;
                self.account.not_split += 1;
            }
        }
    }

    fn was_split(&mut self, page: Page) {
        self.account.split += 1;
        self.estimator.changes.page_moves();
        if self.record {
            let place = self.place(page).unwrap_or_default();
            self.out.push(Output::WasSplit(WasSplit { t: self.t, page: page.0, place }));
        }
        self.page_gone(page);
    }
}
