//! Moves that are taken back. A policy goes by the first scans, and these may mislead: where all threads pass over all
//! data in one half of the time, whichever thread runs first after two scans in a row looks like the user of all pages.
//! Once moves are known to gain nothing more, those that were made are compared with what was before them: of pages
//! that are elsewhere than where they were met, uses by the node where they were met count +1, by the node that has
//! them -1. If the mean is above a tenth by two standard deviations, in at least two scans, they all go back.
//!
//! Where one node had half of all pages or more at first, nothing goes back: that is where memory happened to begin,
//! not where threads have put it.

use super::gain::{begins_on_one, count};
use super::Session;
use homing_core::action::{Action, Kind, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Node, Page};
use homing_core::process::ProcessId;

/// The reason of moves that no policy asked for.
pub const UNDONE: &str = "moves made it worse: the page goes back to where it was";

/// Uses of moved pages without which there is no verdict, and how many of them a scan must have to count as one.
const EVIDENCE: u64 = 200;
const OF_A_SCAN: u64 = 50;

/// Scans that are looked at, and how many must count.
const WINDOWS: usize = 3;
const SCANS: usize = 2;

/// The mean above which moves made it worse, and the standard deviations by which it must be above that.
const WORSE: f64 = 0.1;
const SURE: f64 = 2.0;

/// Uses of pages that are elsewhere than where they were met, between two scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    uses: u64,
    by_first: u64,
    by_own: u64,
}

/// What the moves of one process have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Undo {
    /// Pages by the node where they were met.
    met: Vec<u64>,
    /// Since the last scan, and before.
    windows: [Window; WINDOWS],
}

impl Undo {
    /// A page was met for the first time, at a node.
    pub fn met(&mut self, at: Node) {
        *count(&mut self.met, at) += 1;
    }

    /// A use of a page that was met at `first` and is at `at`.
    #[inline]
    pub fn uses(&mut self, by: Node, first: Node, at: Node) {
        if first == at {
            return;
        }
        let window = &mut self.windows[0];
        window.uses += 1;
        window.by_first += u64::from(by == first);
        window.by_own += u64::from(by == at);
    }

    /// Another scan has been made.
    pub fn scanned(&mut self) {
        self.windows.rotate_right(1);
        self.windows[0] = Window::default();
    }

    /// True if the moves made it worse.
    fn is_worse(&self) -> bool {
        let sum = |of: fn(&Window) -> u64| self.windows.iter().map(of).sum::<u64>();
        let (uses, first, own) = (sum(|w| w.uses), sum(|w| w.by_first), sum(|w| w.by_own));
        let scans = self.windows.iter().filter(|window| window.uses >= OF_A_SCAN).count();
        if uses < EVIDENCE || scans < SCANS {
            return false;
        }
        let mean = (first as f64 - own as f64) / uses as f64;
        let error = SURE * ((first + own) as f64).sqrt() / uses as f64;
        mean - error > WORSE && !begins_on_one(&self.met)
    }
}

impl Session<'_> {
    /// Takes the moves back that made it worse, of processes whose pages stay otherwise.
    pub(super) fn undo(&mut self) {
        let worse =
            self.undos.iter().filter(|(process, undo)| self.orders().leaves(**process) && undo.is_worse());
        for process in worse.map(|(process, _)| *process).collect::<Vec<ProcessId>>() {
            self.undo_of(process);
        }
        self.record_actions();
    }

    fn undo_of(&mut self, process: ProcessId) {
        let pages = self.orders().pages().iter().filter_map(|(page, entry)| {
            let to =
                entry.first.filter(|&first| entry.process == process && entry.seen_at() != Some(first))?;
            let may = self.orders().stays(page).is_none() && self.may_move(process, entry.address);
            may.then_some((page, to))
        });
        for (page, to) in pages.collect::<Vec<(Page, Node)>>() {
            let action = Action { page, kind: Kind::Move { to }, reason: UNDONE };
            let outcome = self.engine.executor_mut().execute(&action);
            self.account.undone += u64::from(!matches!(outcome, Outcome::Refused(_)));
        }
        if let Some(undo) = self.undos.get_mut(&process) {
            undo.windows = Default::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::SplitMix64;

    /// Whether moves of 400 pages of four nodes, or of node 0 alone, to the node that `to` says made it worse, after
    /// scans in which they are used by the node that `by` says.
    fn worse(nodes: u16, scans: u16, to: fn(u16) -> u16, mut by: impl FnMut(u16, u16) -> u16) -> bool {
        let mut undo = Undo::default();
        (0..400).for_each(|page| undo.met(Node(page % nodes)));
        for scan in 0..scans {
            undo.scanned();
            for page in 0..400 {
                undo.uses(Node(by(scan, page)), Node(page % nodes), Node(to(page)));
            }
        }
        undo.is_worse()
    }

    #[test]
    fn moves_away_from_those_who_use_the_pages_half_of_the_time_made_it_worse() {
        let mut random = SplitMix64::seed_from_u64(5);
        // Each second scan shows the owner, the other anybody.
        let mut by = |scan, page| if scan % 2 == 0 { page % 4 } else { random.gen_range(0..4) };
        assert!(worse(4, 2, |_| 3, &mut by));
        assert!(!worse(4, 1, |_| 3, &mut by), "one scan says what the program did at that moment");
        assert!(!worse(1, 2, |page| page % 4, |_, _| 0), "all began on one node");
    }

    #[test]
    fn moves_to_those_who_use_the_pages_and_of_what_all_use_did_not() {
        let mut random = SplitMix64::seed_from_u64(5);
        assert!(!worse(4, 3, |page| (page + 1) % 4, |_, page| (page + 1) % 4));
        assert!(!worse(4, 3, |_| 3, |_, _| random.gen_range(0..4)));
        assert!(!worse(4, 3, |page| page % 4, |_, page| page % 4), "nothing is elsewhere");
    }
}
