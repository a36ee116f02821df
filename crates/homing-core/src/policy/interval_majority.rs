//! Interval majority: Tikir & Hollingsworth 2008, section 3.
//!
//! "At every migration interval, regardless of the number of accesses to a page, the page is considered as a candidate
//! for migration": each page that was profiled in the interval goes to the node that accessed it most. "We freeze a
//! page for three consecutive iterations after migration." The section also suggests to "limit migration to the pages
//! with a minimum number of accesses or cache misses": the parameter `threshold`.
//!
//! Left open by the paper, chosen here:
//! * A page that moved at the end of interval i is not considered at the ends of i + 1, i + 2 and i + 3.
//! * Each interval is judged by its own counts; the counts of a frozen page are dropped.
//! * A tie leaves the page where it is if its home is among the first, else the lowest node gets it.
//! * The threshold is compared with all references of the page in the interval, scaled by the monitor's weight.
//! * Replicas are never made.

use super::counters::Counters;
use super::pages::Pages;
use super::settings::Param;
use super::table::{restore, Begin, Entry};
use super::{Decides, End, Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind, Locations};
use crate::ids::Page;
use serde::{Deserialize, Serialize};

/// The policy's line in the table.
pub(super) const ENTRY: Entry = Entry {
    name: "interval-majority",
    source: "Tikir & Hollingsworth 2008, section 3",
    summary: "at interval ends each page goes to the node that used it most, then is frozen for three",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[
        Param {
            name: "freeze",
            default: 3.0,
            range: (0.0, 1e9),
            unit: "intervals",
            doc: "intervals for which a moved page stays",
        },
        Param {
            name: "threshold",
            default: 0.0,
            range: (0.0, 1e15),
            unit: "references",
            doc: "references that a page must have had in an interval to move at its end",
        },
    ],
    build: |setup| {
        let (freeze, threshold) = (setup.values.count("freeze"), setup.values.get("threshold"));
        Box::new(IntervalMajority { freeze, threshold, pages: Pages::default(), seen: Vec::new() })
    },
    restore: restore::<IntervalMajority>,
};

/// What is known of one page.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    counters: Counters,
    at: Locations,
    /// The first interval at whose end the page may move.
    free: u64,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IntervalMajority {
    /// Intervals for which a moved page is frozen.
    freeze: u64,
    /// References that a page must have had in the interval.
    threshold: f64,
    pages: Pages<State>,
    /// Pages that were seen in this interval.
    seen: Vec<Page>,
}

impl Policy for IntervalMajority {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn decides(&self) -> Decides {
        Decides::AtEnds
    }

    fn sample(&mut self, sample: &Sample, _actions: &mut Actions) {
        let new = || State { counters: Counters::default(), at: sample.at, free: 0 };
        let state = self.pages.entry(sample.page, new);
        if state.counters.is_empty() {
            self.seen.push(sample.page);
        }
        state.at = sample.at;
        state.counters.add(sample.node, (sample.reads + sample.writes) as f64 * sample.weight);
    }

    fn interval_end(&mut self, end: &End, actions: &mut Actions) {
        for page in self.seen.drain(..) {
            let Some(state) = self.pages.get_mut(page) else { continue };
            let to = state.counters.most(state.at.home());
            let enough = state.counters.total() >= self.threshold;
            state.counters.clear();
            if end.number >= state.free && enough && to != state.at.home() {
                state.free = end.number + 1 + self.freeze;
                actions.push(page, Kind::Move { to }, "most references of the interval");
            }
        }
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}
