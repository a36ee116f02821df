//! Travels of lines that the order of a recording hides. A recorder that runs one thread at a time lets each thread use
//! a line many times before the next one does. Where threads run at once, the line travels as often as the one asks for
//! it that asks less often, as far as both use it all the time: where the uses of each lie close together, as in a pass
//! over an array, they seldom meet.

use crate::ids::Node;

/// References in which each thread has had its turn: some 16 threads that run for 5000 blocks of code each.
const ROUND: u64 = 1 << 19;

/// Uses of a line by one node, none by another in between.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The number of references until its first use, and until its last.
    begun: u64,
    ended: u64,
    node: u16,
    uses: u32,
    writes: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// The last run, and that of another node before it; without uses if there is none.
    runs: [Run; 2],
    hidden: u32,
}

impl Line {
    /// What the last two runs hide: all but one of the travels that they would have made at once, by the part of the
    /// time in which the shorter one uses the line.
    fn of_last(&self) -> u32 {
        let [last, before] = &self.runs;
        let period = last.begun - before.begun;
        if before.uses == 0 || period > ROUND || last.ended - last.begun > ROUND {
            return 0;
        }
        let travels = before.uses.min(last.uses).min(before.writes.saturating_add(last.writes));
        let using = (before.ended - before.begun).min(last.ended - last.begun);
        let part = (using as f64 / period.max(1) as f64).min(1.0);
        (f64::from(travels.saturating_sub(1)) * part).round() as u32
    }
}

/// The lines that are watched.
pub(super) struct Rounds {
    /// References so far.
    now: u64,
    lines: Vec<Line>,
}

impl Rounds {
    /// Memory for each line.
    pub const BYTES: usize = std::mem::size_of::<Line>();

    pub fn new(lines: usize) -> Rounds {
        Rounds { now: 0, lines: vec![Line::default(); lines] }
    }

    /// Counts references, to any address.
    pub fn tick(&mut self, references: usize) {
        self.now += references as u64;
    }

    pub fn reference(&mut self, line: usize, node: Node, write: bool) {
        let now = self.now;
        let line = &mut self.lines[line];
        if line.runs[0].uses == 0 || line.runs[0].node != node.0 {
            line.hidden = line.hidden.saturating_add(line.of_last());
            line.runs = [Run { begun: now, ended: now, node: node.0, uses: 0, writes: 0 }, line.runs[0]];
        }
        let run = &mut line.runs[0];
        run.ended = now;
        run.uses = run.uses.saturating_add(1);
        run.writes = run.writes.saturating_add(write.into());
    }

    /// Travels of a line that are hidden so far.
    pub fn hidden(&self, line: usize) -> u64 {
        let line = &self.lines[line];
        u64::from(line.hidden) + u64::from(line.of_last())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of one line: (node, uses, references to others between two of them, writes among the uses).
    fn hidden(runs: &[(u16, u32, usize, u32)]) -> u64 {
        let mut rounds = Rounds::new(2);
        for &(node, uses, others, writes) in runs {
            for number in 0..uses {
                rounds.tick(others + 1);
                rounds.reference(1, Node(node), number < writes);
            }
        }
        assert_eq!(rounds.hidden(0), 0);
        rounds.hidden(1)
    }

    #[test]
    fn slices_of_a_counter_hide_that_it_travels_at_each_use() {
        let slices: Vec<_> = (0..10).map(|slice| (slice % 2, 1000, 9, 1000)).collect();
        assert_eq!(hidden(&slices), 9 * 998, "all but the first of each slice, and its rest");
        // In the order of a program that runs at once nothing is hidden.
        let turns: Vec<_> = (0..1000).map(|turn| (turn % 2, 1, 9, 1)).collect();
        assert_eq!(hidden(&turns), 0);
    }

    #[test]
    fn who_only_reads_or_comes_long_after_makes_no_line_travel() {
        assert_eq!(hidden(&[(0, 1000, 9, 0), (1, 1000, 9, 0)]), 0);
        assert_eq!(hidden(&[(0, 1000, 9, 3), (1, 1000, 9, 0)]), 2, "one writes three times, the other reads");
        assert_eq!(hidden(&[(0, 1000, 999, 1000), (1, 1000, 9, 1000)]), 0, "a phase, and then another");
        assert_eq!(hidden(&[(0, 5, 0, 5)]), 0);
    }

    #[test]
    fn passes_over_an_array_seldom_meet() {
        // Eight words of a line at once, and thousands of references to others until the next node comes.
        let mut rounds = Rounds::new(1);
        for pass in 0..100 {
            for _ in 0..8 {
                rounds.tick(5);
                rounds.reference(0, Node(pass % 2), true);
            }
            rounds.tick(10_000);
        }
        assert_eq!(rounds.hidden(0), 0);
    }
}
