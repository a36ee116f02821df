//! The IRIX 6.5 kernel's migration engine on the Origin 2000: Nikolopoulos 2000, section 2.2; Corbalan 2003, section 3.
//!
//! Hardware counts the accesses of each node to each page. When "the difference between the local accesses and the
//! accesses by some remote node exceeds" the migration threshold, an interrupt asks for a migration. The handler
//! "migrates a page only if a processor receives many consecutive migration interrupts" (dampening), uses "a freezing
//! threshold to limit the maximum number of migrations for a page and a melting threshold to reenable migrations for a
//! page which is frozen for a significant amount of time", and ages the counters. "The operations that control
//! freezing, melting and aging of counters are performed periodically, at the rate of one virtual memory page every 10
//! ms." Filters also avoid "excessive pressure in a memory node" (Corbalan).
//!
//! Left open by the papers, chosen here:
//! * The threshold is a share of the 11-bit counter's range of 2048 (50 %, Corbalan's value): a difference of 1024.
//! * An interrupt clears the page's counters, so that the next needs the whole difference again. Two consecutive ones
//!   by the same node migrate (`dampening`).
//! * A page freezes for good after `freeze` migrations, until the periodic work meets it `melt-ms` later or more; its
//!   migrations are then forgotten.
//! * The periodic work takes pages in turn, by order of first reference, and halves their counters.
//! * 10 ms are references at a mean rate, as for `platinum`.
//! * Pressure: a node that holds `capacity` pages gets no more; none unless set.

use super::counters::Counters;
use super::pages::Pages;
use super::settings::Param;
use super::table::{restore, Begin, Entry};
use super::{Fault, Next, Policy, Sample};
use crate::action::{Action, Actions, Kind, Outcome};
use crate::ids::{Node, Page, Time};
use serde::{Deserialize, Serialize};

/// Counts that an 11-bit counter can tell apart (Nikolopoulos 2000, section 4).
const COUNTER_RANGE: f64 = 2048.0;

/// The policy's line in the table.
pub(super) const ENTRY: Entry = Entry {
    name: "irix",
    source: "Nikolopoulos 2000, section 2.2; Corbalan 2003, section 3",
    summary: "counter interrupts, dampened; pages freeze after many migrations and melt; counters age",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[
        Param {
            name: "threshold",
            default: 50.0,
            range: (0.01, 100.0),
            unit: "% of 2048",
            doc: "remote less local references that raise an interrupt",
        },
        Param {
            name: "dampening",
            default: 2.0,
            range: (1.0, 1e6),
            unit: "interrupts",
            doc: "consecutive interrupts by a node that migrate a page",
        },
        Param {
            name: "freeze",
            default: 4.0,
            range: (1.0, 1e9),
            unit: "migrations",
            doc: "migrations after which a page freezes",
        },
        Param {
            name: "melt-ms",
            default: 1000.0,
            range: (0.0, 1e9),
            unit: "ms",
            doc: "time that a page stays frozen at least",
        },
        Param {
            name: "period-ms",
            default: 10.0,
            range: (1e-6, 1e9),
            unit: "ms",
            doc: "time between two pages of the periodic work",
        },
        Param {
            name: "capacity",
            default: 0.0,
            range: (0.0, 4e9),
            unit: "pages",
            doc: "pages of a node beyond which none is migrated there; 0: no limit",
        },
        super::table::RATE,
    ],
    build: |setup| {
        let references = |name| (setup.values.get(name) * setup.values.get("rate") / 1000.0) as u64;
        Box::new(Irix {
            threshold: setup.values.get("threshold") / 100.0 * COUNTER_RANGE,
            dampening: setup.values.count("dampening"),
            freeze: setup.values.count("freeze"),
            melt: references("melt-ms"),
            period: references("period-ms").max(1),
            capacity: setup.values.count("capacity"),
            held: vec![0; usize::from(setup.costs.memories())],
            pages: Pages::default(),
            turn: Vec::new(),
            done: 0,
        })
    },
    restore: restore::<Irix>,
};

/// What is known of one page.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    counters: Counters,
    home: Node,
    /// The node of the last interrupts, and how many came from it in a row.
    asking: (Node, u64),
    migrations: u64,
    frozen: Option<Time>,
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Irix {
    threshold: f64,
    dampening: u64,
    freeze: u64,
    /// References for which a page stays frozen.
    melt: u64,
    /// References between two pages of the periodic work.
    period: u64,
    capacity: u64,
    /// Pages of each node, as far as they were seen.
    held: Vec<u64>,
    pages: Pages<State>,
    /// Pages in the order of the periodic work.
    turn: Vec<Page>,
    /// Pages that the periodic work has served.
    done: u64,
}

impl Irix {
    fn state(&mut self, page: Page, home: Node) -> &mut State {
        let Irix { pages, held, turn, .. } = self;
        pages.entry(page, || {
            held[home.index()] += 1;
            turn.push(page);
            State { counters: Counters::default(), home, asking: (home, 0), migrations: 0, frozen: None }
        })
    }

    /// Does the periodic work up to `time`.
    fn work(&mut self, time: Time) {
        let due = time.0 / self.period;
        // More rounds than this leave nothing of a counter.
        let least = due.saturating_sub(self.turn.len() as u64 * 64);
        self.done = self.done.max(least);
        while self.done < due {
            self.done += 1;
            if self.turn.is_empty() {
                continue;
            }
            let page = self.turn[(self.done % self.turn.len() as u64) as usize];
            let Some(state) = self.pages.get_mut(page) else { continue };
            state.counters.scale(0.5);
            if state.frozen.is_some_and(|since| time.0 - since.0 >= self.melt) {
                state.frozen = None;
                state.migrations = 0;
            }
        }
    }

    fn interrupt(&mut self, page: Page, home: Node, node: Node, time: Time, actions: &mut Actions) {
        let (threshold, dampening, freeze) = (self.threshold, self.dampening, self.freeze);
        let pressed = self.capacity > 0 && self.held[node.index()] >= self.capacity;
        let state = self.state(page, home);
        if state.counters.get(node) - state.counters.get(home) < threshold {
            return;
        }
        state.counters.clear();
        let asked = if state.asking.0 == node { state.asking.1 + 1 } else { 1 };
        state.asking = (node, asked);
        if asked < dampening || state.frozen.is_some() || pressed {
            return;
        }
        state.asking.1 = 0;
        state.migrations += 1;
        actions.push(page, Kind::Move { to: node }, "excess of remote references");
        if state.migrations >= freeze {
            state.frozen = Some(time);
            actions.push(page, Kind::Freeze, "many migrations");
        }
    }
}

impl Policy for Irix {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let (home, node) = (fault.at.home(), fault.node);
        self.work(fault.time);
        self.interrupt(fault.page, home, node, fault.time, actions);
        let threshold = self.threshold;
        let counters = &self.state(fault.page, home).counters;
        Next::After((threshold - (counters.get(node) - counters.get(home))).ceil().max(1.0) as u64)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        self.work(sample.time);
        let home = sample.at.home();
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        let threshold = self.threshold;
        let counters = &mut self.state(sample.page, home).counters;
        // No count is below 0.
        let far = counters.add(sample.node, count) >= threshold && sample.node != home;
        if far && sample.weight > 1.0 {
            self.interrupt(sample.page, home, sample.node, sample.time, actions);
        }
    }

    fn page_gone(&mut self, page: Page) {
        if let Some(state) = self.pages.get_mut(page) {
            self.held[state.home.index()] -= 1;
        }
        self.pages.remove(page);
    }

    fn outcome(&mut self, action: &Action, outcome: &Outcome) {
        if let (Kind::Move { to }, Outcome::Done) = (action.kind, outcome) {
            let Some(state) = self.pages.get_mut(action.page) else { return };
            self.held[state.home.index()] -= 1;
            self.held[to.index()] += 1;
            state.home = to;
        }
    }

    /// The periodic work and the pressure filter see all pages.
    fn independent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{expand, read_gap, run, uniform};
    use crate::history::History;

    /// No periodic work within these histories.
    const LAZY: &str = "period-ms=1000000";

    fn said(visits: &[(u16, u64, bool, usize)], sets: &[&str]) -> Vec<(u64, &'static str)> {
        let costs = uniform(3, 5.0, 20.0, None);
        let history = History::from_references(&expand(visits), read_gap(&costs));
        let result = run(&history, &costs, "irix", None, sets, false);
        result.log.iter().map(|entry| (entry.time.0, entry.action.kind.describe().0)).collect()
    }

    #[test]
    fn interrupts_dampening_and_freezing_by_hand() {
        // A difference of 20.48, so 21 references, raises an interrupt.
        let visits = [(0, 0, true, 5), (1, 0, true, 100), (0, 0, true, 200)];
        let at_once = ["threshold=1", "dampening=1", LAZY, "rate=1000"];
        assert_eq!(said(&visits, &at_once), [(5 + 5 + 21, "move"), (105 + 74 + 21, "move")]);
        let dampened = ["threshold=1", "dampening=2", LAZY, "rate=1000"];
        assert_eq!(said(&visits, &dampened)[0], (5 + 5 + 21 + 21, "move"));
        let frozen = ["threshold=1", "dampening=1", "freeze=1", LAZY, "rate=1000"];
        assert_eq!(said(&visits, &frozen), [(31, "move"), (31, "freeze")]);
    }

    #[test]
    fn pages_melt_counters_age_and_full_nodes_get_nothing() {
        let visits = [(0, 0, true, 5), (1, 0, true, 100), (0, 0, true, 200)];
        // One page of periodic work every 20 references; frozen for 100.
        let melting =
            ["threshold=0.5", "dampening=1", "freeze=1", "melt-ms=100", "period-ms=20", "rate=1000"];
        assert_eq!(said(&visits, &melting).iter().filter(|(_, what)| *what == "move").count(), 2);
        // Halved every reference the difference never reaches the threshold.
        let ageing = ["threshold=1", "dampening=1", "period-ms=1", "rate=1000"];
        let short: Vec<_> = (0..60).map(|i| (i % 2, 0, true, 6)).collect();
        assert_eq!(said(&short, &ageing), []);
        let full = ["threshold=1", "dampening=1", "capacity=1", LAZY, "rate=1000"];
        let two = [(1, 1, true, 1), (0, 0, true, 5), (1, 0, true, 100)];
        assert_eq!(said(&two, &full), []);
        assert_eq!(said(&two, &["threshold=1", "dampening=1", "capacity=2", LAZY, "rate=1000"]).len(), 1);
    }
}
