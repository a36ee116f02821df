//! What moves have brought. `gain.rs` says what moves could bring, from uses alone; this looks at the moves that were
//! made. If pages are then used no more by the node that they came to than by the one that they left, the moves did not
//! pay, whatever the policy expected of them: the pages of that process stay for a while, and each time twice as long.
//!
//! Of each stay the first uses count, those of the node that has the page as +1, those of the node that it left as -1,
//! others as 0. The mean is between 1, where each move brought a page home, and 0 or less, where the program is none
//! the faster and has paid for the moves.

use homing_core::ids::{Micros, Node};

/// Uses of a page after a move that count.
const FIRST: u8 = 4;

/// Uses of moved pages without which there is no verdict.
const EVIDENCE: u64 = 300;

/// ... and of scans: those of one say what the program did at that moment. A program that works on its own data and
/// passes it on in turn would be judged by one of the two.
const SCANS: u32 = 3;

/// The mean from which on moves pay. What they cost is not in it: a move must bring a tenth of its uses home at least.
const WORTH: f64 = 0.1;

/// Standard deviations by which the mean must be below that.
const SURE: f64 = 2.0;

/// How long the pages stay at first, and the most doublings of that.
const PAUSE: Micros = Micros::from_millis(10_000);
const DOUBLINGS: u32 = 6;

/// Why the pages of a process stay.
pub(super) const DID_NOT_PAY: &str = "moves of this process did not pay: its pages stay for a while";

/// What is known of the last move of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// The node that it left; `None` if a policy has not moved it, or enough uses were seen since.
    left: Option<Node>,
    uses: u8,
}

impl Stay {
    /// A policy's move from a node has landed.
    pub(super) fn begin(&mut self, from: Option<Node>) {
        *self = Stay { left: from, uses: 0 };
    }

    /// A use of the page, which is at a node: +1, -1 or 0, if it counts.
    #[inline]
    fn use_by(&mut self, by: Node, at: Node) -> Option<i8> {
        let left = self.left?;
        self.uses += 1;
        if self.uses >= FIRST {
            self.left = None;
        }
        Some(if by == at { 1 } else { -i8::from(by == left) })
    }
}

/// What the moves of one process have brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Payoff {
    /// Uses of moved pages; those by the node that has the page, and by the one that it left.
    uses: u64,
    home: u64,
    left: u64,
    /// Scans that these uses are of, but for the last, and whether any are of that.
    scans: u32,
    fresh: bool,
    /// Until when the pages stay.
    until: Micros,
    /// Pauses so far, less those after which moves have paid.
    pauses: u32,
}

impl Payoff {
    /// A use of a page that is at a node: +1, -1 or 0, if it counts.
    #[inline]
    pub fn uses(&mut self, stay: &mut Stay, by: Node, at: Node) -> Option<i8> {
        let worth = stay.use_by(by, at)?;
        self.uses += 1;
        self.fresh = true;
        match worth {
            1 => self.home += 1,
            -1 => self.left += 1,
            _ => {}
        }
        Some(worth)
    }

    /// Another scan has been made.
    pub fn scanned(&mut self) {
        self.scans += u32::from(std::mem::take(&mut self.fresh));
    }

    /// Judges what was seen, by a source that scans or does not. True if a pause begins.
    pub fn judge(&mut self, t: Micros, scans: bool) -> bool {
        if self.uses < EVIDENCE || scans && self.scans + u32::from(self.fresh) < SCANS {
            return false;
        }
        let uses = self.uses as f64;
        let mean = (self.home as f64 - self.left as f64) / uses;
        let error = SURE * ((self.home + self.left) as f64).sqrt() / uses;
        let (bad, good) = (mean + error <= WORTH, mean - error > WORTH);
        if bad {
            self.until = t.plus(PAUSE.times(1 << self.pauses.min(DOUBLINGS)));
            self.pauses += 1;
        } else if good {
            self.pauses = self.pauses.saturating_sub(1);
        }
        if bad || good {
            (self.uses, self.home, self.left, self.scans) = (0, 0, 0, 0);
        } else if self.uses >= 4 * EVIDENCE {
            // What was long ago counts less.
            (self.uses, self.home, self.left) = (self.uses / 2, self.home / 2, self.left / 2);
        }
        bad
    }

    /// What was seen is no longer so: threads have moved. A pause ends.
    pub fn forget(&mut self) {
        *self = Payoff { pauses: self.pauses, ..Payoff::default() };
    }

    /// True while the pages stay.
    pub fn pauses(&self, t: Micros) -> bool {
        t < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::SplitMix64;

    /// Pages that are moved from node 0 to the node that a policy chooses, then used by the node that `user` draws.
    fn after_moves(moves: usize, chosen: Node, mut user: impl FnMut(usize) -> u16) -> (Payoff, bool) {
        let (mut payoff, mut paused) = (Payoff::default(), false);
        for page in 0..moves {
            let mut stay = Stay::default();
            stay.begin(Some(Node(0)));
            payoff.uses(&mut stay, Node(user(page)), chosen);
            paused |= payoff.judge(Micros(0), false);
        }
        (payoff, paused)
    }

    #[test]
    fn moves_that_bring_pages_home_pay_and_moves_of_what_all_use_do_not() {
        let mut random = SplitMix64::seed_from_u64(3);
        assert!(!after_moves(5000, Node(1), |_| 1).1);
        assert!(!after_moves(5000, Node(1), |_| if random.gen_bool(0.6) { 1 } else { 0 }).1);
        assert!(after_moves(2000, Node(1), |_| random.gen_range(0..4)).1);
        assert!(after_moves(2000, Node(1), |page| [0, 2][page % 2]).1, "the users came back");
        assert!(!after_moves(EVIDENCE as usize - 1, Node(1), |_| 0).1, "too little was seen");
    }

    #[test]
    fn pauses_double_and_moves_that_pay_make_them_shorter_again() {
        let mut payoff = Payoff::default();
        let see = |payoff: &mut Payoff, by: u16, t: u64| {
            for _ in 0..EVIDENCE {
                let mut stay = Stay::default();
                stay.begin(Some(Node(0)));
                payoff.uses(&mut stay, Node(by), Node(1));
            }
            payoff.judge(Micros::from_millis(t), false)
        };
        let pauses = |payoff: &Payoff, t: u64| payoff.pauses(Micros::from_millis(t));
        assert!(see(&mut payoff, 0, 0) && pauses(&payoff, 9_999) && !pauses(&payoff, 10_000));
        assert!(see(&mut payoff, 0, 10_000) && pauses(&payoff, 29_999) && !pauses(&payoff, 30_000));
        assert!(!see(&mut payoff, 1, 30_000) && !pauses(&payoff, 30_000));
        assert!(see(&mut payoff, 0, 40_000) && !pauses(&payoff, 60_000));
        assert!(pauses(&payoff, 59_999));
        payoff.forget();
        assert!(!pauses(&payoff, 50_000), "threads have moved");
    }

    #[test]
    fn only_the_first_uses_of_a_stay_count() {
        let (mut payoff, mut stay) = (Payoff::default(), Stay::default());
        payoff.uses(&mut stay, Node(1), Node(1));
        assert_eq!(payoff, Payoff::default(), "no policy has moved it");
        stay.begin(Some(Node(0)));
        let counted = (0..10).filter_map(|_| payoff.uses(&mut stay, Node(1), Node(1))).count();
        assert_eq!(counted, 4);
        assert_eq!((payoff.uses, payoff.home, payoff.left), (4, 4, 0));
        stay.begin(Some(Node(1)));
        let worth: Vec<_> = (0..3).map(|by| payoff.uses(&mut stay, Node(by), Node(0))).collect();
        assert_eq!(worth, [Some(1), Some(-1), Some(0)]);
        assert_eq!((payoff.uses, payoff.home, payoff.left), (7, 5, 1));
    }

    #[test]
    fn the_uses_of_one_scan_or_two_are_no_verdict() {
        let mut payoff = Payoff::default();
        for scan in 1..=SCANS {
            for _ in 0..2 * EVIDENCE {
                let mut stay = Stay::default();
                stay.begin(Some(Node(0)));
                payoff.uses(&mut stay, Node(0), Node(1));
            }
            assert_eq!(payoff.judge(Micros(0), true), scan == SCANS, "scan {scan}");
            payoff.scanned();
        }
    }
}
