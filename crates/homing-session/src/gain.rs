//! What moves could still gain. Where nothing is to be gained, as with a table that all threads read at random, scans
//! and moves only cost: the session looks now and then, and moves nothing.
//!
//! A page that was last used by node a and is at h would, moved to a, make the next use b local if b = a, and remote if
//! b = h. So each use of a page whose last user was elsewhere says +1, -1 or 0. In the mean that is q(a) - q(h), with
//! q(n) the share of node n in the page's uses: all of a page that one other node uses, nothing of one that all use
//! alike, wherever it is. Pages that are where they are used say nothing, and lower the share of the others. The first
//! use of a page that is seen does not count: after the first scan nearly all are. A use of a huge page counts as many
//! times as it has base pages. One that could be split says +1 if it is of another node: its parts may each have one
//! user.
//!
//! The mean has two errors:
//!
//! * The standard error of the uses, as if they were independent.
//! * The error of scans. A scan takes the mappings of all pages away at once. Whichever thread runs first then takes
//!   many of the faults, whosever the pages are; after the next scan that is another thread. Let s(n) be the share of
//!   node n in the uses of a scan, q(n) that in the uses of all scans that are looked at, and T(n) the uses in that
//!   scan of pages that n used last, less those of pages that are at n. If all pages are used alike, the uses of the
//!   scan say the sum of T(n) s(n), and would say that of T(n) q(n) if the scan were like the others. How far these are
//!   apart in several scans is the error of their sum (as a t-test has it). It is 0 where the shares are alike from
//!   scan to scan, as where one node uses all. Pages that have one user each say the same whoever runs first: if all
//!   pages were used alike, the uses would win the sum of T(n) s(n); if each had its own user, they would win one for
//!   each page that is elsewhere. The nearer what they have won is to the second, the less this error counts.

use homing_core::ids::Node;

/// Uses of pages that were used before without which there is no verdict ...
pub(super) const EVIDENCE: u64 = 200;

/// ... and which must be at least one in this many of all uses. After the first scan the few pages that are used twice
/// are shared ones, which say nothing of the others.
const OF_ALL: u64 = 8;

/// The share of the uses from which on moves are worth it: one in 200.
const WORTH: f64 = 0.005;

/// Standard deviations by which the gain must be above that: of uses at random one in 44 verdicts is wrong.
const SURE: f64 = 2.0;

/// ... of the error of scans, which is estimated from 2 and 3 scans: Student's t for as many errors.
const SURE_OF_SCANS: [f64; WINDOWS - 1] = [12.7, 4.3];

/// What was seen since the last scan, and since the ones before it. Two threads that run first twice are no evidence.
const WINDOWS: usize = 3;

/// Scans after which a process of which too little is seen for a verdict is not waited for.
const YOUNG: u32 = 4;

/// Memory begins on one node if the node has this share of the pages that are seen for the first time.
const ON_ONE: f64 = 0.5;

/// Counts are void once one thread in 16 has moved. Its uses come from another node then, and they are a larger share
/// than [`WORTH`].
const THREADS: u32 = 16;

/// True if memory begins on one node. `met`: by node, how many pages were there when they were seen for the first time.
pub(super) fn begins_on_one(met: &[u64]) -> bool {
    let most = met.iter().max().copied().unwrap_or(0);
    most as f64 >= ON_ONE * met.iter().sum::<u64>() as f64
}

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Window {
    /// Uses by each node.
    by: Vec<u64>,
    /// Those of pages that were used before.
    again: u64,
    /// ... with a huge page's as often as it has base pages.
    uses: u64,
    /// What following the last user would have won, less what it would have lost, out of `uses`.
    won: i64,
    /// The sum of the squares of what each use won or lost.
    squares: u64,
    /// Uses of pages that were used last by another node than the one where they are, out of `uses`.
    away: u64,
    /// Uses of pages that the node used last, less those of pages that are there, out of `uses`: T(n).
    followed: Vec<i64>,
    /// Where pages are that were not used before: one for each use.
    first: Vec<u64>,
    /// What splitting huge pages could make local at most, out of `uses`.
    parts: i64,
}

/// The place of a node in counts.
pub(super) fn count<T: Clone + Default>(counts: &mut Vec<T>, node: Node) -> &mut T {
    if counts.len() <= node.index() {
        counts.resize(node.index() + 1, T::default());
    }
    &mut counts[node.index()]
}

impl Window {
    fn add(&mut self, seen: &Use) {
        let &Use { by, at, last, pages, splits } = seen;
        *count(&mut self.by, by) += 1;
        let Some(last) = last else {
            *count(&mut self.first, at) += 1;
            return;
        };
        self.again += 1;
        self.uses += pages;
        let signed = pages as i64;
        if splits {
            self.parts += if by == at { 0 } else { signed };
        } else if last != at {
            self.away += pages;
            *count(&mut self.followed, last) += signed;
            *count(&mut self.followed, at) -= signed;
            if by == last || by == at {
                self.won += if by == last { signed } else { -signed };
                self.squares += pages * pages;
            }
        }
    }

    /// All uses, each once.
    fn all(&self) -> u64 {
        self.by.iter().sum()
    }

    /// The sum of T(n) s(n), with the shares `s` of these counts of uses.
    fn common(&self, by: &[u64]) -> f64 {
        let both = by.iter().zip(&self.followed);
        let sum: f64 = both.map(|(&by, &followed)| by as f64 * followed as f64).sum();
        sum / by.iter().sum::<u64>().max(1) as f64
    }
}

/// What uses say of moves, and how sure it is; all as a share of the uses.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    gain: f64,
    /// Both errors, and that of the uses alone.
    error: f64,
    of_uses: f64,
    /// Uses of pages that another node used last than the one where they are.
    away: f64,
}

impl Verdict {
    /// Of all that was seen in these windows; `None` if it is too little.
    fn of(windows: &[Window]) -> Option<Verdict> {
        let sum = |of: fn(&Window) -> f64| windows.iter().map(of).sum::<f64>();
        let total = |of: fn(&Window) -> u64| windows.iter().map(of).sum::<u64>();
        let again = total(|window| window.again);
        if again < EVIDENCE || again * OF_ALL < total(Window::all) {
            return None;
        }
        let mut by = Vec::new();
        for (node, &uses) in windows.iter().flat_map(|window| window.by.iter().enumerate()) {
            *count(&mut by, Node(node as u16)) += uses;
        }
        let apart = windows.iter().map(|window| window.common(&window.by) - window.common(&by));
        let squares: f64 = apart.map(|apart| apart * apart).sum();
        // Accesses that no scan has brought about are all in one window.
        let scans = windows.iter().filter(|window| !window.by.is_empty()).count();
        let of_scans = match scans.checked_sub(2) {
            Some(more) => SURE_OF_SCANS[more] * (squares * scans as f64 / (scans - 1) as f64).sqrt(),
            None => 0.0,
        };
        let of_uses = SURE * sum(|window| window.squares as f64).sqrt();
        let alike: f64 = windows.iter().map(|window| window.common(&window.by)).sum();
        let from_alike = |won: f64| (won - alike).max(0.0);
        let away = sum(|window| window.away as f64);
        let own = from_alike(sum(|window| window.won as f64));
        let own = own / from_alike(away).max(own).max(1.0);
        let error = of_uses + of_scans * (1.0 - own);
        let uses = sum(|window| window.uses as f64);
        let gain = sum(|window| (window.won + window.parts) as f64) / uses;
        let (error, of_uses, away) = (error / uses, of_uses / uses, away / uses);
        Some(Verdict { gain, error, of_uses, away })
    }

    /// True if moves are known to be worth it.
    fn is_worth(self) -> bool {
        self.gain > WORTH + self.error
    }

    /// True if more scans than these may tell that they are worth it. Two may have come while the program did two
    /// things: worked on its own data, and passed it on. Who does not scan has seen enough.
    fn is_open(self, scans: usize) -> bool {
        scans > 0 && (self.gain > WORTH + self.of_uses || scans < WINDOWS && self.away > WORTH)
    }
}

/// What moves could gain in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gain {
    /// Since the last scan, and before.
    windows: [Window; WINDOWS],
    nothing: bool,
    /// ... but more scans may tell otherwise.
    undecided: bool,
    /// There was a verdict.
    judged: bool,
    /// Scans since these counts began.
    seen: usize,
    /// Scans in a row after which moves were not known to be worth it.
    scans: u32,
    /// Threads that went to other nodes since these counts began.
    moved: u32,
}

impl Gain {
    /// A use of a page.
    #[inline]
    pub fn uses(&mut self, seen: &Use) {
        self.windows[0].add(seen);
    }

    /// Gives a verdict on what was seen lately. Too little of it leaves the last verdict.
    pub fn judge(&mut self) -> Option<bool> {
        let verdict = Verdict::of(&self.windows)?;
        (self.nothing, self.undecided) = (!verdict.is_worth(), verdict.is_open(self.seen));
        self.judged = true;
        Some(self.nothing)
    }

    /// Another scan has been made.
    pub fn scanned(&mut self) {
        self.scans = if self.judge() == Some(false) { 0 } else { self.scans.saturating_add(1) };
        self.seen += 1;
        self.windows.rotate_right(1);
        self.windows[0] = Window::default();
    }

    /// One of this many threads has moved.
    pub fn thread_moved(&mut self, threads: u32) {
        self.moved += 1;
        if self.moved * THREADS >= threads {
            self.forget();
        }
    }

    /// What was seen is no longer so: its threads have moved.
    pub fn forget(&mut self) {
        *self = Gain::default();
    }

    /// True if moves may gain something, for all that is known.
    pub fn is_open(&self) -> bool {
        (!self.nothing || self.undecided) && self.scans < YOUNG
    }

    /// True until the first verdict, if pages were found on several nodes, and while a verdict may change with the next
    /// scans. Many of these pages may be at home, and of what several nodes use it is chance whose first use is seen.
    /// Pages that are all on one node are not waited for before there is a verdict: few of them can be at home.
    pub fn waits(&self) -> bool {
        let mut first = Vec::new();
        for (node, &uses) in self.windows.iter().flat_map(|window| window.first.iter().enumerate()) {
            *count(&mut first, Node(node as u16)) += uses;
        }
        let unknown = !self.judged && !begins_on_one(&first);
        self.scans < YOUNG && (unknown || self.nothing && self.undecided)
    }

    /// True if moves would gain nothing.
    pub fn is_nothing(&self) -> bool {
        self.nothing && !self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::distributions::{Distribution, WeightedIndex};
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
        gain.judge();
        gain.is_nothing()
    }

    #[test]
    fn what_all_use_alike_gains_nothing_and_a_nodes_own_does() {
        assert!(!verdict(1, |_, _| 1), "the first use of a page says nothing");
        assert!(!verdict(2, |random, _| random.gen_range(0..4)), "the program may do two things in turn");
        assert!(verdict(3, |random, _| random.gen_range(0..4)));
        assert!(verdict(2, |_, _| 0), "all is at home");
        assert!(!verdict(2, |_, page| (page % 4) as u16));
        // Two of a hundred pages are another node's.
        assert!(!verdict(3, |_, page| u16::from(page % 50 == 0)));
        // One in a thousand is not worth it.
        assert!(verdict(3, |_, page| u16::from(page == 7)));
        // Of all uses seven in ten by node 1, the others anywhere.
        assert!(!verdict(2, |random, _| if random.gen_bool(0.7) { 1 } else { random.gen_range(0..4) }));
        // Node 0, where the pages are, uses them most.
        assert!(verdict(3, |random, _| if random.gen_bool(0.7) { 0 } else { random.gen_range(0..4) }));
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
            wrong += usize::from(scan > 0 && !gain.nothing);
        }
        assert!(wrong <= 20, "{wrong} of 399");
    }

    /// How often moves are found worth it in `scans` scans; `shares` draws the share of each node in the uses of one.
    fn found(scans: usize, mut shares: impl FnMut(&mut SplitMix64, usize) -> [f64; 4]) -> usize {
        let (mut gain, mut random) = (Gain::default(), SplitMix64::seed_from_u64(5));
        let (mut last, mut found) = (vec![None; 1000], 0);
        for scan in 0..scans {
            let users = WeightedIndex::new(shares(&mut random, scan)).unwrap();
            for last in &mut last {
                let by = Node(users.sample(&mut random) as u16);
                gain.uses(&small(by, *last));
                *last = Some(by);
            }
            gain.scanned();
            found += usize::from(scan > 0 && !gain.nothing);
        }
        found
    }

    #[test]
    fn whose_threads_run_first_after_a_scan_is_no_gain() {
        // Of four nodes one or two take most faults of a scan, others in the next; all use the pages alike.
        let first = |random: &mut SplitMix64, _| [(); 4].map(|()| random.gen::<f64>().powi(4));
        assert!(found(400, first) <= 20, "{}", found(400, first));
        // The same nodes each time: the others do not use the pages.
        assert!(found(20, |_, _| [0.0, 1.0, 1.0, 0.0]) >= 18);
        assert_eq!(found(20, |_, _| [0.0, 1.0, 0.0, 0.0]), 19);
    }

    #[test]
    fn another_node_that_uses_all_pages_from_now_on_is_found_after_three_scans() {
        let found = |scans| {
            found(scans, |_, scan| if scan < 10 { [1.0, 0.0, 0.0, 0.0] } else { [0.0, 1.0, 0.0, 0.0] })
        };
        assert_eq!((found(12), found(13)), (0, 1));
    }

    #[test]
    fn first_uses_say_nothing_of_a_gain() {
        let mut gain = Gain::default();
        let by = |page: u16| Node(1 + page % 3);
        for page in 0..60_000u16 {
            gain.uses(&small(by(page), None));
            // A few pages are used twice after the scan: what nodes share.
            if page % 100 == 0 {
                gain.uses(&small(by(page + 1), Some(by(page))));
                gain.judge();
                assert!(!gain.is_nothing(), "after {page}");
            }
        }
    }

    #[test]
    fn pages_with_one_user_each_are_a_gain_in_whatever_order_they_are_used() {
        let mut random = SplitMix64::seed_from_u64(11);
        let mut gain = Gain::default();
        let mut last = vec![None; 4000];
        for scan in 0..20 {
            // Each thread comes a part of the way, one after the other.
            for node in 0..4u16 {
                let far = random.gen_range(0..1000);
                for page in (0..far).map(|page| page * 4 + usize::from(node)) {
                    gain.uses(&small(Node(node), last[page]));
                    last[page] = Some(Node(node));
                }
                // Of who comes first nothing but his own is known.
                gain.judge();
                assert!(!gain.is_nothing() || node == 0, "scan {scan}, node {node}");
            }
            gain.scanned();
        }
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

    #[test]
    fn a_verdict_ends_when_one_thread_in_sixteen_has_moved() {
        let mut gain = Gain::default();
        (0..300).for_each(|_| gain.uses(&small(Node(0), Some(Node(0)))));
        gain.scanned();
        gain.thread_moved(32);
        assert!(gain.is_nothing());
        gain.thread_moved(32);
        assert_eq!(gain, Gain::default());
    }

    #[test]
    fn pages_on_several_nodes_wait_for_the_first_verdict_and_those_on_one_do_not() {
        let waits = |nodes: u16, uses: u16, scans: u32| {
            let mut gain = Gain::default();
            for scan in 0..=scans {
                (0..200).for_each(|page| gain.uses(&Use { at: Node(page % nodes), ..small(Node(0), None) }));
                (scan < scans).then(|| gain.scanned());
            }
            (0..uses).for_each(|page| gain.uses(&small(Node(page % 4), Some(Node(page % 4)))));
            gain.judge();
            gain.waits()
        };
        assert!(!waits(1, 0, 0) && !waits(2, 0, 0) && waits(3, 0, 0));
        assert!(waits(4, 199, 1) && !waits(4, 200, 1));
        assert!(waits(4, 0, YOUNG - 1) && !waits(4, 0, YOUNG), "too little is used for a verdict");
    }

    #[test]
    fn a_verdict_that_more_scans_may_change_keeps_orders_waiting_and_is_final_after_some() {
        // Node 1 uses most of what node 0 has, in the first scan; in the second all do.
        let mut gain = Gain::default();
        let (mut last, mut random) = (vec![None; 1000], SplitMix64::seed_from_u64(3));
        for often in [0.9, 0.5] {
            for last in &mut last {
                let by = Node(if random.gen_bool(often) { 1 } else { random.gen_range(0..4) });
                gain.uses(&small(by, *last));
                *last = Some(by);
            }
            gain.scanned();
        }
        assert!(gain.waits() && gain.is_open() && !gain.is_nothing(), "{gain:?}");
        gain.scans = YOUNG;
        assert!(!gain.waits() && !gain.is_open() && gain.is_nothing(), "enough of that");
    }
}
