//! Linux NUMA balancing as in kernels 5.15 to 6.12 (kernel/sched/fair.c: `task_numa_work`, `update_task_scan_period`,
//! `should_numa_migrate_memory`; mm/memory.c: `do_numa_page`), with the defaults of
//! /sys/kernel/debug/sched/numa_balancing.
//!
//! * **Scan**: first after `scan_delay_ms`, then every scan period, the next `scan_size_mb` of the address space are
//!   made inaccessible. The next reference to such a page, from any node, is a *hint fault*.
//! * **Two-reference filter**: a page moves to the node of a hint fault if the hint fault before it (`last_cpupid`)
//!   came from the same node; in the first four passes over the address space also if there was none before.
//! * **Adaptive scan**: after each pass, with the shares of ten (`NUMA_PERIOD_SLOTS`) that were private and that were
//!   local: where one of the two is at least seven (`NUMA_PERIOD_THRESHOLD`) the period grows by a tenth for each slot
//!   above it (at least one), else it shrinks by a tenth for each slot that the greater one is short. No faults at all
//!   double it. It stays between `scan_period_min_ms` / windows (at least 100 ms) and `scan_period_max_ms` / windows,
//!   where windows is the address space in units of the scan size, rounded up.
//!
//! What the model leaves out, and why:
//! * The kernel compares threads; here faults tell nodes. A fault is private if its node is that of the fault before.
//!   On machines with one thread a node that is the same.
//! * The balance between nodes with many and few faults of a NUMA group (the 3/4 rule) only decides on shared faults
//!   that pass the filter, which this rule makes private; so it never decides. Threads stay where the schedule puts
//!   them.
//! * The scanner is one for the program, not one a thread. Only pages that were referred to are scanned.
//! * Milliseconds are references at a mean rate, as for `platinum`. A fault costs nothing, as in all policies here.
//! * A local run of references that a scan interrupts faults at the page's next run.

use super::balancing::{Balancing, Tunables};
use super::pages::Pages;
use super::settings::Param;
use super::table::{restore, Begin, Entry};
use super::{Context, Fault, Next, Policy, Sample};
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page, Time};
use crate::monitor::mapping::{Mapping, Touch};
use serde::{Deserialize, Serialize};

const TUNABLES: Tunables = Tunables::DEFAULT;

/// The policy's line in the table.
pub(super) const ENTRY: Entry = Entry {
    name: "linux",
    source: "Linux 5.15 to 6.12, kernel/sched/fair.c",
    summary: "NUMA balancing: adaptive scan, hint faults, two-reference filter",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[
        ms("scan-delay-ms", TUNABLES.scan_delay, "time before the first scan"),
        ms("scan-period-min-ms", TUNABLES.scan_period_min, "shortest time for a pass over the address space"),
        ms("scan-period-max-ms", TUNABLES.scan_period_max, "longest time for a pass over the address space"),
        Param {
            name: "scan-size-mb",
            default: TUNABLES.scan_size_mb,
            range: (0.001, 1e9),
            unit: "MB",
            doc: "what one scan makes inaccessible",
        },
        super::table::RATE,
    ],
    build: |setup| {
        let value = |name| setup.values.get(name);
        let tunables = Tunables {
            scan_delay: value("scan-delay-ms"),
            scan_period_min: value("scan-period-min-ms"),
            scan_period_max: value("scan-period-max-ms"),
            scan_size_mb: value("scan-size-mb"),
        };
        Box::new(Linux {
            per_ms: value("rate") / 1000.0,
            next_scan: Time((tunables.scan_delay * value("rate") / 1000.0) as u64),
            balancing: Balancing::new(tunables, 4096),
            mappings: Pages::default(),
        })
    },
    restore: restore::<Linux>,
};

const fn ms(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, default, range: (0.001, 1e12), unit: "ms", doc }
}

/// The policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Linux {
    /// References in a millisecond.
    per_ms: f64,
    next_scan: Time,
    balancing: Balancing,
    /// What scans have done to each page.
    mappings: Pages<Mapping<Time>>,
}

impl Linux {
    /// Scans up to `time`.
    fn clock(&mut self, time: Time) {
        while self.next_scan <= time {
            let (mappings, now) = (&mut self.mappings, self.next_scan);
            self.balancing.scan(|page| {
                if let Some(mapping) = mappings.get_mut(page) {
                    mapping.take_away(now);
                }
            });
            let period = (self.balancing.period() * self.per_ms).max(1.0) as u64;
            let late = time.0.saturating_sub(self.next_scan.0) / period;
            // Scans of a time without any reference would find the pages as this one left them.
            self.next_scan = Time(self.next_scan.0 + period * late.max(1));
        }
    }

    /// A reference to the page: a hint fault if the page was scanned since the last.
    fn touch(&mut self, page: Page, node: Node, at: Locations, actions: &mut Actions) {
        if self.mappings.get_mut(page).is_none() {
            self.balancing.begins(page);
        }
        let mapping = self.mappings.entry(page, Mapping::default);
        let Touch::Hint(_) = mapping.touch() else { return };
        if self.balancing.fault(page, node, at.holds(node)) {
            actions.push(page, Kind::Move { to: node }, "two hint faults from this node");
        }
    }
}

impl Policy for Linux {
    fn begin(&mut self, context: &Context) {
        self.balancing.set_page_bytes(context.page_bytes);
    }

    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        self.clock(fault.time);
        self.touch(fault.page, fault.node, fault.at, actions);
        Next::At(self.next_scan)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, actions: &mut Actions) {
        self.clock(sample.time);
        self.touch(sample.page, sample.node, sample.at, actions);
    }

    fn page_gone(&mut self, page: Page) {
        self.mappings.remove(page);
        self.balancing.gone(page);
    }

    /// The scanner walks over all pages.
    fn independent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{expand, read_gap, run, uniform};
    use crate::history::History;

    #[test]
    fn the_filter_by_hand() {
        let costs = uniform(3, 5.0, 20.0, None);
        // One reference a millisecond, a scan every 10 from Time 10 on.
        let sets = ["rate=1000", "scan-delay-ms=10", "scan-period-min-ms=10", "scan-period-max-ms=10"];
        let references = expand(&[
            (0, 0, true, 9),  // Time 0: first touch
            (1, 0, true, 7),  // the scan at 10: a first hint fault, early: moved
            (0, 0, true, 20), // Time 16: no hint; the scan at 20: last was node 1: stays; the scan at 30: moved
            (1, 0, true, 4),  // Time 36: no hint
        ]);
        let history = History::from_references(&references, read_gap(&costs));
        let log = run(&history, &costs, "linux", None, &sets, false).log;
        assert_eq!(log.iter().map(|entry| entry.time.0).collect::<Vec<_>>(), [10, 30]);
    }

    #[test]
    fn many_pages_in_windows_move_as_they_did() {
        let costs = uniform(3, 5.0, 20.0, None);
        let sets = [
            "rate=1000",
            "scan-delay-ms=10",
            "scan-period-min-ms=30",
            "scan-period-max-ms=900",
            "scan-size-mb=0.04",
        ];
        let mut state = 7u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        // Pages 0 to 39, most of each by a node of its own, of which some are met late.
        let runs = (0..6000u64).map(|time| {
            let page = next(40.min(8 + time / 100));
            let own = (page % 3) as u16;
            let node = if next(5) == 0 { next(3) as u16 } else { own };
            (node, page, next(4) == 0, 1 + next(6) as usize)
        });
        let references = expand(&runs.collect::<Vec<_>>());
        let history = History::from_references(&references, read_gap(&costs));
        let result = run(&history, &costs, "linux", None, &sets, false);
        let sum =
            result.log.iter().map(|entry| entry.time.0 * (u64::from(entry.action.page.0) + 1)).sum::<u64>();
        assert_eq!(
            (result.log.len(), sum, result.account.local, result.account.remote),
            (103, 10_459_861, 17824, 3122)
        );
    }
}
