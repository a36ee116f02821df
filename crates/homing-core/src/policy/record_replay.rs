//! Record and replay of migrations at phase changes: Nikolopoulos 2000, section 2.3.
//!
//! "Programs that exhibit fine-grain phase changes in their memory reference pattern within the parallel computation
//! ... are handled with a page forwarding mechanism that tries to perform the necessary page migrations before a phase
//! change in the program's access pattern, in a record-replay fashion."
//!
//! In the first iterations the counters are read at each phase's end: that is the record. Then, in each later
//! iteration, the pages that a phase uses from elsewhere are moved before it begins: the replay.
//!
//! Left open by the paper (the mechanism was "in an early evaluation stage"), chosen here:
//! * A page is moved for a phase if the phase, as recorded, saves more than the move costs: the competitive criterion,
//!   equation (1), on the phase's counts with the latency of an uncontended machine. The plan of a page is followed
//!   twice around the iteration to find where it is when the first phase begins again.
//! * Phases are those that the program marks; without marks, the monitor's intervals since the iteration began. Where
//!   nobody knows beforehand that it marks some, the record begins anew with the first iteration that begins after
//!   the first mark.
//! * A page without a plan is left alone; pages that are first seen later have none.
//! * 64 phases are recorded; further ones are not, which bounds the memory of a page.

use super::counters::Counters;
use super::pages::Pages;
use super::prices::Prices;
use super::settings::Param;
use super::table::{restore, Begin, Entry};
use super::{Context, Decides, End, Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page, Time};
use serde::{Deserialize, Serialize};

/// Phases of an iteration that are recorded.
const MOST_PHASES: u64 = 64;

/// The policy's line in the table.
pub(super) const ENTRY: Entry = Entry {
    name: "record-replay",
    source: "Nikolopoulos 2000, section 2.3",
    summary: "records what each phase of an iteration uses, then moves pages before the phase comes again",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[Param {
        name: "record",
        default: 1.0,
        range: (1.0, 1e6),
        unit: "iterations",
        doc: "iterations that are recorded before the replay begins",
    }],
    build: |setup| {
        Box::new(RecordReplay {
            prices: Prices::new(setup.costs),
            record: setup.values.count("record"),
            marked: false,
            phase: 0,
            partial: false,
            recorded: 0,
            replays: false,
            pages: Pages::default(),
            seen: Vec::new(),
        })
    },
    restore: restore::<RecordReplay>,
};

/// What is known of one page.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    at: Locations,
    /// Counts of each phase while recording, by the phase's place in the iteration.
    record: Vec<(u64, Counters)>,
    /// Where the page goes before each phase.
    plan: Vec<(u64, Node)>,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RecordReplay {
    prices: Prices,
    record: u64,
    /// The program marks its phases.
    marked: bool,
    /// Place of the present phase in the iteration.
    phase: u64,
    /// The present iteration had begun before the first mark of a phase.
    partial: bool,
    /// Iterations that have ended since the record began.
    recorded: u64,
    replays: bool,
    pages: Pages<State>,
    seen: Vec<Page>,
}

impl RecordReplay {
    /// The phase in progress has ended; the next one begins.
    fn next_phase(&mut self, actions: &mut Actions) {
        self.phase += 1;
        self.forward(actions);
    }

    /// What was recorded was of intervals.
    fn begin_anew(&mut self) {
        (self.phase, self.recorded, self.replays) = (0, 0, false);
        for &page in &self.seen {
            if let Some(state) = self.pages.get_mut(page) {
                (state.record, state.plan) = (Vec::new(), Vec::new());
            }
        }
    }

    fn forward(&mut self, actions: &mut Actions) {
        if !self.replays {
            return;
        }
        for &page in &self.seen {
            let Some(state) = self.pages.get_mut(page) else { continue };
            if let Some(&(_, to)) = state.plan.iter().find(|(phase, _)| *phase == self.phase) {
                if to != state.at.home() {
                    state.at = Locations::single(to);
                    actions.push(page, Kind::Move { to }, "before the phase that uses it there");
                }
            }
        }
    }

    /// Makes the plans from the record.
    fn plan(&mut self) {
        for &page in &self.seen {
            let Some(state) = self.pages.get_mut(page) else { continue };
            state.record.sort_by_key(|(phase, _)| *phase);
            let mut here = state.at.home();
            for _ in 0..2 {
                state.plan.clear();
                for (phase, counters) in &state.record {
                    let cost = |at: Node| -> f64 {
                        counters.iter().map(|(by, count)| count * self.prices.access(by, at)).sum()
                    };
                    let best = counters.iter().map(|(node, _)| node).min_by(|&a, &b| {
                        (cost(a) + self.prices.copy(here, a))
                            .total_cmp(&(cost(b) + self.prices.copy(here, b)))
                    });
                    if let Some(to) = best.filter(|&to| cost(to) + self.prices.copy(here, to) < cost(here)) {
                        here = to;
                    }
                    state.plan.push((*phase, here));
                }
            }
            state.record = Vec::new();
        }
    }
}

impl Policy for RecordReplay {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }

    fn begin(&mut self, context: &Context) {
        self.marked = context.phases;
    }

    fn decides(&self) -> Decides {
        Decides::AtEnds
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, _actions: &mut Actions) {
        if self.pages.get_mut(sample.page).is_none() {
            self.seen.push(sample.page);
        }
        let new = || State { at: sample.at, record: Vec::new(), plan: Vec::new() };
        let state = self.pages.entry(sample.page, new);
        state.at = sample.at;
        if self.replays || self.phase >= MOST_PHASES {
            return;
        }
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        match state.record.iter_mut().find(|(phase, _)| *phase == self.phase) {
            Some((_, counters)) => _ = counters.add(sample.node, count),
            None => {
                let mut counters = Counters::default();
                counters.add(sample.node, count);
                state.record.push((self.phase, counters));
            }
        }
    }

    fn interval_end(&mut self, _end: &End, actions: &mut Actions) {
        if !self.marked {
            self.next_phase(actions);
        }
    }

    fn phase_begin(&mut self, _phase: u32, _time: Time, actions: &mut Actions) {
        if !std::mem::replace(&mut self.marked, true) {
            self.partial = true;
            self.begin_anew();
        }
        self.next_phase(actions);
    }

    fn hurries(&self) -> bool {
        true
    }

    fn iteration_end(&mut self, _end: &End, actions: &mut Actions) {
        self.phase = 0;
        if std::mem::take(&mut self.partial) {
            self.begin_anew();
            return;
        }
        self.recorded += 1;
        if !self.replays && self.recorded >= self.record {
            self.replays = true;
            self.plan();
        }
        self.forward(actions);
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }

    /// All pages keep step with the phases.
    fn independent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{expand, run_with, uniform};
    use crate::history::History;
    use crate::ids::Time;
    use crate::timeline::{Mark, Timeline};

    /// An iteration of two phases: node 0 uses the page 100 times, then node 1.
    #[test]
    fn pages_are_forwarded_before_their_phase() {
        let costs = uniform(2, 5.0, 50.0, None);
        let visits: Vec<_> = (0..12).map(|i| (i % 2, 0, true, 100)).collect();
        let history = History::from_references(&expand(&visits), 12);
        let mut timeline = Timeline::default();
        timeline.add((1..12).step_by(2).map(|phase| (Time(phase * 100), Mark::PhaseBegin(1))));
        timeline.add_iterations(200, Time(1200));
        let log = |timeline: &Timeline, level: &str, sets: &[&str]| {
            run_with(&history, &costs, "record-replay", None, sets, false, level, timeline)
        };
        let result = log(&timeline, "perfect", &[]);
        let times: Vec<_> = result.log.iter().map(|entry| entry.time.0).collect();
        assert_eq!(times, [300, 400, 500, 600, 700, 800, 900, 1000, 1100, 1200]);
        assert_eq!((result.account.remote, result.account.local), (100, 1100));
        // Intervals serve where the program marks no phases.
        let mut unmarked = Timeline::default();
        unmarked.add_iterations(200, Time(1200));
        assert_eq!(log(&unmarked, "interval:100", &[]).account.remote, 100);
        // A later start of the replay, and none without iterations.
        assert_eq!(log(&timeline, "perfect", &["record=3"]).account.remote, 300);
        assert_eq!(log(&Timeline::default(), "perfect", &[]).account.moves, 0);
        // Phases too short to pay are left alone.
        let costs = uniform(2, 5.0, 500.0, None);
        let expensive = run_with(&history, &costs, "record-replay", None, &[], false, "perfect", &timeline);
        assert_eq!(expensive.account.moves, 0);
    }
}
