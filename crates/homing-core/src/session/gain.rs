//! What moves could still gain. Where nothing is to be gained, as with a table that all threads read at random, scans
//! and moves only cost: the session looks now and then, and moves nothing.
//!
//! A page that was last used by node a and is at h would, moved to a, make the next use b local if b = a, and remote if
//! b = h. So each use of a page whose last user was elsewhere says +1, -1 or 0. In the mean that is q(a) - q(h), with
//! q(n) the share of node n in the page's uses: all of a page that one other node uses, nothing of one that all use
//! alike, wherever it is. Pages that are where they are used say nothing, and lower the share of the others. A use of a
//! huge page counts as many times as it has base pages. One that could be split says +1 if it is of another node: its
//! parts may each have one user.

use crate::ids::Node;

/// Uses of pages that were used before without which there is no verdict.
const EVIDENCE: u64 = 200;

/// The share of the uses from which on moves are worth it: one in 200.
const WORTH: f64 = 0.005;

/// Standard deviations by which the gain must be above that: of uses at random one in 44 verdicts is wrong.
const SURE: f64 = 2.0;

/// Scans after which a process of which too little is seen for a verdict is not waited for.
const YOUNG: u32 = 4;

/// Why the pages of a process stay.
pub(super) const NOTHING: &str = "no gain is to be expected: the pages of this process stay";

/// A use of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    pub by: Node,
    /// Where the page is.
    pub at: Node,
    /// Who used it before.
    pub last: Option<Node>,
    /// Base pages that it has.
    pub pages: u64,
    /// A huge page that may be split.
    pub splits: bool,
}

/// Counts between two scans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// Uses, a huge page's as often as it has base pages.
    uses: u64,
    /// Uses of pages that were used before, each once.
    again: u64,
    /// What following the last user would have won, and what it would have lost, out of `uses`.
    won: u64,
    lost: u64,
    /// The sum of the squares of both.
    squares: u64,
    /// What splitting huge pages could make local at most, out of `uses`.
    parts: u64,
}

impl Window {
    fn and(self, other: Window) -> Window {
        Window {
            uses: self.uses + other.uses,
            again: self.again + other.again,
            won: self.won + other.won,
            lost: self.lost + other.lost,
            squares: self.squares + other.squares,
            parts: self.parts + other.parts,
        }
    }

    /// What moves could make local, in the mean, as a share of the uses.
    fn gain(self) -> f64 {
        (self.won as f64 - self.lost as f64 + self.parts as f64) / self.uses.max(1) as f64
    }

    /// True if that is not more than is worth it; `None` if too little was seen.
    fn nothing(self) -> Option<bool> {
        let spread = (self.squares as f64).sqrt() / self.uses.max(1) as f64;
        (self.again >= EVIDENCE).then(|| self.gain() <= WORTH + SURE * spread)
    }
}

/// What moves could gain in one process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gain {
    now: Window,
    before: Window,
    nothing: bool,
    /// Scans in a row after which moves were not known to be worth it.
    scans: u32,
}

impl Gain {
    /// A use of a page.
    #[inline]
    pub fn uses(&mut self, seen: &Use) {
        let (&Use { by, at, last, pages, splits }, now) = (seen, &mut self.now);
        now.uses += pages;
        let Some(last) = last else { return };
        now.again += 1;
        if splits {
            now.parts += if by == at { 0 } else { pages };
        } else if last != at && (by == last || by == at) {
            *(if by == last { &mut now.won } else { &mut now.lost }) += pages;
            now.squares += pages * pages;
        }
    }

    /// Gives a verdict on what was seen since the last scan but one. Too little of it leaves the last verdict.
    pub fn judge(&mut self) -> Option<bool> {
        let verdict = self.now.and(self.before).nothing();
        self.nothing = verdict.unwrap_or(self.nothing);
        verdict
    }

    /// Another scan has been made.
    pub fn scanned(&mut self) {
        self.scans = if self.judge() == Some(false) { 0 } else { self.scans.saturating_add(1) };
        (self.before, self.now) = (self.now, Window::default());
    }

    /// What was seen is no longer so: its threads have moved.
    pub fn forget(&mut self) {
        *self = Gain::default();
    }

    /// True if moves may gain something, for all that is known.
    pub fn is_open(&self) -> bool {
        !self.nothing && self.scans < YOUNG
    }

    /// True if moves would gain nothing.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::SplitMix64;

    /// A use of a base page at node 0.
    fn small(by: Node, last: Option<Node>) -> Use {
        Use { by, at: Node(0), last, pages: 1, splits: false }
    }

    /// The verdict after that many scans of 1000 pages at node 0 of four, whose users are drawn by the page's number.
    fn verdict(scans: usize, user: impl Fn(&mut SplitMix64, usize) -> u16) -> bool {
        let (mut gain, mut random) = (Gain::default(), SplitMix64::seed_from_u64(1));
        let mut last = vec![None; 1000];
        for _ in 0..scans {
            for (page, last) in last.iter_mut().enumerate() {
                let by = Node(user(&mut random, page));
                gain.uses(&small(by, *last));
                *last = Some(by);
            }
            gain.scanned();
        }
        gain.is_nothing()
    }

    #[test]
    fn what_all_use_alike_gains_nothing_and_a_nodes_own_does() {
        assert!(!verdict(1, |_, _| 1), "the first use of a page says nothing");
        assert!(verdict(2, |random, _| random.gen_range(0..4)));
        assert!(verdict(2, |_, _| 0), "all is at home");
        assert!(!verdict(2, |_, page| (page % 4) as u16));
        // Two of a hundred pages are another node's.
        assert!(!verdict(3, |_, page| u16::from(page % 50 == 0)));
        // One in a thousand is not worth it.
        assert!(verdict(3, |_, page| u16::from(page == 7)));
        // Of all uses seven in ten by node 1, the others anywhere.
        assert!(!verdict(2, |random, _| if random.gen_bool(0.7) { 1 } else { random.gen_range(0..4) }));
        // Node 0, where the pages are, uses them most.
        assert!(verdict(2, |random, _| if random.gen_bool(0.7) { 0 } else { random.gen_range(0..4) }));
    }

    #[test]
    fn random_uses_are_seldom_taken_for_a_gain() {
        let (mut gain, mut random) = (Gain::default(), SplitMix64::seed_from_u64(7));
        let (mut last, mut wrong) = (vec![None; 500], 0);
        for scan in 0..400 {
            for last in &mut last {
                let by = Node(random.gen_range(0..4));
                gain.uses(&small(by, *last));
                *last = Some(by);
            }
            gain.scanned();
            wrong += usize::from(scan > 0 && !gain.is_nothing());
        }
        assert!(wrong <= 20, "{wrong} of 399");
    }

    #[test]
    fn a_huge_page_weighs_as_much_as_its_parts_and_one_that_splits_is_open() {
        // 512 base pages that are at home, and one huge page that two nodes use in turn.
        let verdict = |scans: u16, splits: bool| {
            let mut gain = Gain::default();
            for scan in 0..scans {
                (0..512).for_each(|_| gain.uses(&small(Node(0), Some(Node(0)))));
                let (by, last) = (Node(1 + scan % 2), Some(Node(2 - scan % 2)));
                gain.uses(&Use { by, at: Node(0), last, pages: 512, splits });
                gain.scanned();
            }
            gain.is_nothing()
        };
        assert!(verdict(4, false), "no place is right for it as a whole");
        assert!(!verdict(4, true));
        // Of its own user it is moved as a whole.
        let mut gain = Gain::default();
        for _ in 0..16 {
            (0..200).for_each(|_| gain.uses(&small(Node(0), Some(Node(0)))));
            let (by, last) = (Node(1), Some(Node(1)));
            gain.uses(&Use { by, at: Node(0), last, pages: 512, splits: false });
        }
        gain.scanned();
        assert!(!gain.is_nothing());
    }

    #[test]
    fn a_verdict_lasts_while_too_little_is_seen_and_ends_with_what_it_was_of() {
        let mut gain = Gain::default();
        (0..300).for_each(|_| gain.uses(&small(Node(0), Some(Node(0)))));
        gain.scanned();
        assert!(gain.is_nothing());
        (0..3).for_each(|_| gain.scanned());
        assert!(gain.is_nothing());
        gain.forget();
        assert!(!gain.is_nothing());
    }
}
