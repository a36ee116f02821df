//! Travels of lines that the order of a recording hides. A recorder that runs one thread at a time lets each thread use
//! a line many times before the next one does. Where threads run at once, the line travels as often as the one asks for
//! it that asks less often.

use crate::ids::Node;

/// References in which each thread has had its turn: some 16 threads that run for 5000 blocks of code each.
const ROUND: u64 = 1 << 19;

/// Uses of a line by one node, none by another in between.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The number of references before it.
    begun: u64,
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
    /// What the last two runs hide: all but one of the travels that they would have made at once.
    fn of_last(&self, now: u64) -> u32 {
        let [last, before] = &self.runs;
        let together = now - last.begun <= ROUND && last.begun - before.begun <= ROUND;
        let travels = before.uses.min(last.uses).min(before.writes.saturating_add(last.writes));
        if together {
            travels.saturating_sub(1)
        } else {
            0
        }
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

    /// So many more references, to whatever.
    pub fn tick(&mut self, references: usize) {
        self.now += references as u64;
    }

    pub fn reference(&mut self, line: usize, node: Node, write: bool) {
        let now = self.now;
        let line = &mut self.lines[line];
        if line.runs[0].uses == 0 || line.runs[0].node != node.0 {
            line.hidden = line.hidden.saturating_add(line.of_last(now));
            line.runs = [Run { begun: now, node: node.0, uses: 0, writes: 0 }, line.runs[0]];
        }
        let run = &mut line.runs[0];
        run.uses = run.uses.saturating_add(1);
        run.writes = run.writes.saturating_add(write.into());
    }

    /// Travels of a line that are hidden so far.
    pub fn hidden(&self, line: usize) -> u64 {
        let line = &self.lines[line];
        u64::from(line.hidden) + u64::from(line.of_last(self.now))
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
        assert_eq!(hidden(&slices), 9 * 999);
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
}
