//! Migrate, replicate or freeze: the decision tree of Verghese, Devine, Gupta & Rosenblum 1996, "Operating system
//! support for improving data locality on CC-NUMA compute servers" (ASPLOS VII), sections 3 and 4; in short form in
//! Tikir 2008, section 6.
//!
//! Counters per page and node count misses within a reset interval. A node whose counter reaches the trigger threshold
//! finds the page hot and asks: is the page shared, that is, has another node's counter reached the sharing threshold?
//! A shared page is replicated unless it was written more than the write threshold allows; a page that is not shared is
//! migrated unless it was migrated more than the migrate threshold allows. A write to a replicated page collapses it.
//!
//! Left open by the paper, chosen here:
//! * Times are references at a mean rate, as for `platinum`: `reset-ms` at `rate`. Counters are reset when the page is
//!   next seen in a new interval, which is the same as resetting all at once.
//! * The trigger counts references, or what the monitor counts, weighted.
//! * After an action the page's counters begin anew. A trigger that leads to nothing comes again only after another
//!   trigger threshold of references, so that a frozen page costs no more than one.
//! * Replicas collapse to the writer's copy, or else to the home. Memory is never short in the reference model, so the
//!   paper's test for memory pressure always passes.

use super::counters::Counters;
use super::pages::Pages;
use super::settings::Param;
use super::table::{restore, Begin, Entry};
use super::{Cause, Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page, Time};
use serde::{Deserialize, Serialize};

/// The policy's line in the table.
pub(super) const ENTRY: Entry = Entry {
    name: "verghese",
    source: "Verghese, Devine, Gupta & Rosenblum 1996, sections 3 and 4",
    summary: "a hot page is replicated if it is shared and read, migrated if it is not shared, else left",
    offline: false,
    replicates: true,
    begin: Begin::Given,
    params: &[
        Param {
            name: "trigger",
            default: 128.0,
            range: (1.0, 1e9),
            unit: "references",
            doc: "references from a node in an interval that make a page hot",
        },
        Param {
            name: "sharing",
            default: 32.0,
            range: (1.0, 1e9),
            unit: "references",
            doc: "references from another node in the interval that make a hot page shared",
        },
        Param {
            name: "writes",
            default: 1.0,
            range: (0.0, 1e9),
            unit: "writes",
            doc: "writes in the interval up to which a shared page is replicated",
        },
        Param {
            name: "migrations",
            default: 1.0,
            range: (0.0, 1e9),
            unit: "per interval",
            doc: "migrations of a page in an interval before it is left where it is",
        },
        Param {
            name: "reset-ms",
            default: 100.0,
            range: (1e-6, 1e9),
            unit: "ms",
            doc: "length of the interval after which counters begin anew",
        },
        super::table::RATE,
    ],
    build: |setup| {
        let value = |name| setup.values.get(name);
        Box::new(Verghese {
            thresholds: Thresholds {
                trigger: value("trigger"),
                sharing: value("sharing"),
                writes: value("writes"),
                migrations: value("migrations"),
            },
            reset: ((value("reset-ms") * value("rate") / 1000.0) as u64).max(1),
            replicates: setup.replication,
            pages: Pages::default(),
        })
    },
    restore: restore::<Verghese>,
};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Thresholds {
    trigger: f64,
    sharing: f64,
    writes: f64,
    migrations: f64,
}

/// What is known of one page in the present interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    interval: u64,
    counters: Counters,
    writes: f64,
    migrations: f64,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Verghese {
    thresholds: Thresholds,
    /// References in an interval.
    reset: u64,
    replicates: bool,
    pages: Pages<State>,
}

impl Verghese {
    fn state(&mut self, page: Page, time: Time) -> &mut State {
        let interval = time.0 / self.reset;
        let state = self.pages.entry(page, State::default);
        if state.interval != interval {
            *state = State { interval, ..State::default() };
        }
        state
    }

    /// The decision tree for a node without a copy. Returns true if the page comes to it.
    fn decide(&mut self, page: Page, node: Node, time: Time, actions: &mut Actions) -> bool {
        let (thresholds, replicates) = (self.thresholds, self.replicates);
        let state = self.state(page, time);
        if state.counters.get(node) < thresholds.trigger {
            return false;
        }
        let shared = state.counters.iter().any(|(of, count)| of != node && count >= thresholds.sharing);
        if shared && replicates && state.writes <= thresholds.writes {
            actions.push(page, Kind::Replicate { to: node }, "hot, shared and hardly written");
        } else if !shared && state.migrations < thresholds.migrations {
            state.migrations += 1.0;
            actions.push(page, Kind::Move { to: node }, "hot and not shared");
        } else {
            state.counters.set(node, 0.0);
            return false;
        }
        state.counters.clear();
        true
    }

    fn patience(&mut self, page: Page, node: Node, time: Time) -> u64 {
        let trigger = self.thresholds.trigger;
        ((trigger - self.state(page, time).counters.get(node)).ceil() as u64).max(1)
    }
}

/// Where replicas collapse to when `node` writes.
fn writers_copy(at: Locations, node: Node) -> Kind {
    Kind::Collapse { keep: if at.holds(node) { node } else { at.home() } }
}

impl Policy for Verghese {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let came = fault.cause != Cause::Write && !fault.at.holds(fault.node) && {
            let (page, node, time) = (fault.page, fault.node, fault.time);
            self.decide(page, node, time, actions)
        };
        if fault.write && fault.at.copies() > 1 && !came {
            actions.push(fault.page, writers_copy(fault.at, fault.node), "a write to a replicated page");
        }
        Next::After(self.patience(fault.page, fault.node, fault.time))
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        let state = self.state(sample.page, sample.time);
        state.counters.add(sample.node, (sample.reads + sample.writes) as f64 * sample.weight);
        state.writes += sample.writes as f64 * sample.weight;
        // With every reference known the page faults at the next one anyhow; sampled, this is the only occasion.
        if sample.weight > 1.0 && !sample.at.holds(sample.node) {
            self.decide(sample.page, sample.node, sample.time, actions);
        }
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{expand, read_gap, run, uniform};
    use crate::history::History;

    #[test]
    fn the_tree_by_hand() {
        let costs = uniform(3, 5.0, 20.0, None);
        let sets = ["trigger=4", "sharing=2", "writes=1", "reset-ms=100", "rate=1000"];
        let references = expand(&[
            (0, 0, false, 1), // first touch
            (1, 0, false, 6), // 4 remote, then hot and not shared: moved, 2 local
            (0, 0, false, 3), // 3 remote: not hot
            (1, 0, false, 2), // local
            (0, 0, false, 3), // 1 remote, then hot, node 1 has 4: replicated, 2 local
            (1, 0, true, 2),  // node 1 holds a copy: the other is dropped; 2 writes
            (0, 0, false, 9), // 4 remote: hot, shared, written too often: left; then 4 and 1 more
        ]);
        let history = History::from_references(&references, read_gap(&costs));
        let result = run(&history, &costs, "verghese", None, &sets, true);
        let said: Vec<_> = result.log.iter().map(|e| (e.time.0, e.action.kind.describe().0)).collect();
        assert_eq!(said, [(5, "move"), (13, "replicate"), (15, "collapse")]);
        assert_eq!((result.account.remote, result.account.local), (4 + 3 + 1 + 9, 1 + 2 + 2 + 2 + 2));
        // In a new interval the counters begin anew, and the page may migrate again.
        let references = expand(&[(0, 0, true, 1), (1, 0, true, 5), (0, 0, true, 10), (0, 0, true, 10)]);
        let history = History::from_references(&references, read_gap(&costs));
        let log = |reset: &str| {
            let sets = ["trigger=4", "sharing=9", reset, "rate=1000"];
            run(&history, &costs, "verghese", None, &sets, true).log
        };
        assert_eq!(log("reset-ms=100").len(), 1);
        assert_eq!(log("reset-ms=10").len(), 2);
    }
}
