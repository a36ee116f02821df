//! What happens to a program besides its references: iterations and phases that end, threads that run elsewhere. A
//! simulation merges these marks with the ends of a monitor's intervals.

use crate::ids::{Node, Thread, Time};

/// Another number of threads does the program's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadsChanged {
    /// How many run now.
    pub threads: u32,
    /// Since when.
    pub time: Time,
}

/// A thread that now runs on another node.
#[derive(Clone, Copy, Debug)]
pub struct ThreadMoved {
    /// The thread.
    pub thread: Thread,
    /// Where it ran.
    pub from: Node,
    /// Where it runs.
    pub to: Node,
    /// Since when.
    pub time: Time,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub enum Mark {
    /// A monitor's interval is over.
    IntervalEnd,
    /// The program ended an iteration.
    IterationEnd,
    /// The program begins a phase.
    PhaseBegin(u32),
    /// A thread runs on another node.
    ThreadMoved(ThreadMoved),
    /// Another number of threads does the work.
    ThreadsChanged(ThreadsChanged),
}

impl Mark {
    /// True if a profile ends here: counters are read at the ends of intervals and iterations and between phases.
    pub fn ends_profile(&self) -> bool {
        matches!(self, Mark::IntervalEnd | Mark::IterationEnd | Mark::PhaseBegin(_))
    }
}

/// A mark and when it falls: before the references of that Time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// When.
    pub time: Time,
    /// How many marks of its kind come before it.
    pub number: u64,
    /// What.
    pub mark: Mark,
}

/// The marks of one trace, in order of Time.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    marks: Vec<(Time, Mark)>,
}

/// Nothing happens besides references.
pub static NO_MARKS: Timeline = Timeline { marks: Vec::new() };

impl Timeline {
    /// Adds marks in any order; those of one Time stay in the order in which they came.
    pub fn add(&mut self, marks: impl IntoIterator<Item = (Time, Mark)>) {
        self.marks.extend(marks);
        self.marks.sort_by_key(|&(time, _)| time);
    }

    /// An iteration ends every `period` references of a trace of that duration.
    pub fn add_iterations(&mut self, period: u64, duration: Time) {
        let ends = (1..).map(|number| number * period).take_while(|&time| time <= duration.0);
        self.add(ends.map(|time| (Time(time), Mark::IterationEnd)));
    }

    /// True if iterations are marked.
    pub fn has_iterations(&self) -> bool {
        self.marks.iter().any(|(_, mark)| matches!(mark, Mark::IterationEnd))
    }

    /// True if phases are marked.
    pub fn has_phases(&self) -> bool {
        self.marks.iter().any(|(_, mark)| matches!(mark, Mark::PhaseBegin(_)))
    }

    /// All marks, with an interval end every `interval` references and a last one at `duration`. At one Time, intervals
    /// end first.
    pub fn moments(&self, interval: u64, duration: Time) -> Vec<Moment> {
        let interval = interval.max(1);
        let ends = (1..=duration.0.div_ceil(interval)).map(|number| Moment {
            time: Time((number.saturating_mul(interval)).min(duration.0)),
            number: number - 1,
            mark: Mark::IntervalEnd,
        });
        let mut moments: Vec<Moment> = ends.collect();
        let mut numbers = [0; 4];
        moments.extend(self.marks.iter().map(|&(time, mark)| {
            let kind = match mark {
                Mark::IntervalEnd | Mark::IterationEnd => 0,
                Mark::PhaseBegin(_) => 1,
                Mark::ThreadMoved(_) => 2,
                Mark::ThreadsChanged(_) => 3,
            };
            numbers[kind] += 1;
            Moment { time, number: numbers[kind] - 1, mark }
        }));
        moments.sort_by_key(|moment| moment.time);
        moments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_merge_with_interval_ends() {
        let mut timeline = Timeline::default();
        timeline.add([(Time(25), Mark::PhaseBegin(1)), (Time(5), Mark::PhaseBegin(0))]);
        timeline.add_iterations(20, Time(45));
        assert!(timeline.has_iterations() && timeline.has_phases());
        let text = |moment: &Moment| {
            let what = match moment.mark {
                Mark::IntervalEnd => "interval",
                Mark::IterationEnd => "iteration",
                _ => "phase",
            };
            format!("{} {what} {}", moment.time, moment.number)
        };
        let all: Vec<_> = timeline.moments(20, Time(45)).iter().map(text).collect();
        let expected = [
            "5 phase 0",
            "20 interval 0",
            "20 iteration 0",
            "25 phase 1",
            "40 interval 1",
            "40 iteration 1",
            "45 interval 2",
        ];
        assert_eq!(all, expected);
    }
}
