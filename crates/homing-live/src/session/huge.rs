//! Huge pages that several nodes use: no node is right for them. They are split, so that each part can go to its user, which the
//! kernel's own balancing never does. One that a single node uses is moved as a whole, and keeps its reach in the TLB.

use super::{Session, SessionError, HUGE};
use crate::journal::{Line, Place};
use homing_core::ids::{Node, Page};
use homing_linux::huge;
use homing_linux::proc::Pid;
use std::collections::BTreeMap;

/// Least share that users other than the first among them must have in a page's visits: below it a whole page costs less, since its
/// parts would miss the TLB more often.
const SHARED: f64 = 0.2;

/// Most splits in an interval: each stops the page's users for a moment.
const MOST: usize = 64;

impl Session<'_> {
    /// A page was seen whose users have these shares: notes one that is to be split.
    pub(super) fn consider_split(&mut self, page: Page, shares: &[(Node, f64)]) {
        if shares.len() < 2 {
            return;
        }
        let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        let entry = self.kernel().pages().entry(page);
        let worth = entry.bytes == HUGE && !entry.whole && entry.class.movable() && 1.0 - most >= SHARED;
        if worth && !self.config.keep_huge_pages && !self.config.dry_run && !self.to_split.contains(&page) {
            self.to_split.push(page);
        }
    }

    /// Splits what was noted. The pages are forgotten, their parts are heard of at their next accesses.
    pub(super) fn split_pages(&mut self) -> Result<(), SessionError> {
        let later = self.to_split.split_off(self.to_split.len().min(MOST));
        let mut by_process: BTreeMap<Pid, Vec<(Page, u64)>> = BTreeMap::new();
        for page in std::mem::replace(&mut self.to_split, later) {
            if self.kernel().pages().alive(page) {
                let entry = self.kernel().pages().entry(page);
                by_process.entry(entry.pid).or_default().push((page, entry.address));
            }
        }
        for (pid, pages) in by_process {
            let ranges: Vec<(u64, u64)> = pages.iter().map(|&(_, address)| (address, HUGE)).collect();
            let kept = huge::keep_small(self.targets.proc(), pid, &ranges).is_ok();
            for (page, address) in pages {
                if kept && self.split(pid, address) {
                    self.was_split(page)?;
                } else {
                    self.engine.executor_mut().pages_mut().entry_mut(page).whole = true;
                    self.account.not_split += 1;
                }
            }
        }
        Ok(())
    }

    /// True if the page is not huge any more.
    fn split(&self, pid: Pid, address: u64) -> bool {
        let asked = self.splitter.split(pid, address, HUGE);
        let map = self.views.get(&pid).and_then(|view| view.page_map.as_ref());
        asked.is_ok() && map.is_some_and(|map| !map.is_huge(address).unwrap_or(true))
    }

    fn was_split(&mut self, page: Page) -> Result<(), SessionError> {
        self.account.split += 1;
        self.news.moves();
        let (pid, address) = {
            let entry = self.kernel().pages().entry(page);
            (entry.pid, entry.address)
        };
        let place = self.region(pid, address).map(|(process, region)| {
            let offset = address.wrapping_sub(region.start);
            Place { process, region: region.name.clone(), offset, bytes: HUGE }
        });
        let t = self.now();
        self.put(&Line::Split { t, page: page.0, place: place.unwrap_or_default() })?;
        self.page_gone(page)
    }
}
