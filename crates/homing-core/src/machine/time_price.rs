//! Prices in time: what accesses and page moves cost the program behind caches, in units of what a thread waits for a
//! local miss (the exposed part of its latency). [`Machine::costs`] has the prices of the reference model instead.
//!
//! * A **miss** costs what the requester waits for it. The same part of every latency is exposed, so that the ratios of
//!   the latencies remain. What it waits in queues depends on the load and is reported interval by interval.
//! * A **move** surely costs the mover's time, on whatever CPU, and one shoot-down. That is [`Costs::copy`], for
//!   bounds, accounts and policies alike. What it costs beyond depends on who uses the page ([`MoveExtras`]): accounts
//!   of simulated caches count it, policies may expect it, and the bound leaves it out.

use super::{Costs, General, Machine, MachineError, Uniform};
use crate::ids::{Node, PageSize};
use crate::time::{Mover, Times};
use serde::{Deserialize, Serialize};

/// Lines of a page that a CPU that has it mapped misses again after a move, as a share of all its lines: measured on
/// programs of `workloads/` (docs/memory-system.md, "Prices in time").
const LINES_AGAIN: f64 = 0.25;

/// What accesses and moves cost in time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimePrices {
    /// What they surely cost.
    pub costs: Costs,
    /// What moves cost beyond that.
    pub extras: MoveExtras,
    /// The unit, in nanoseconds.
    pub unit_ns: f64,
}

/// What a page move costs beyond [`Costs::copy`], in the same unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MoveExtras {
    /// On each CPU but one that has the page mapped: a shoot-down.
    pub shootdown: f64,
    /// On each CPU that uses the page: lines and a translation that are missed again. An expectation.
    pub refetch: f64,
    /// On all other CPUs together, if threads stand still while pages move.
    pub standing: f64,
}

impl TimePrices {
    /// What moves cost beyond [`Costs::copy`] in a run: `moves`, and the shoot-downs that they and scans have made.
    /// Misses are counted elsewhere.
    pub fn beyond(&self, moves: u64, shootdowns: u64) -> f64 {
        let MoveExtras { shootdown, standing, .. } = self.extras;
        shootdowns.saturating_sub(moves) as f64 * shootdown + moves as f64 * standing
    }
}

impl Machine {
    /// What accesses and moves cost behind caches: in time, or in the reference model if the machine's file has no
    /// section `[time]`.
    pub fn costs_behind_caches(&self, page_size: PageSize) -> Result<Costs, MachineError> {
        match self.time_prices(page_size, Mover::default(), 1)? {
            Some(prices) => Ok(prices.costs),
            None => self.costs(page_size),
        }
    }

    /// Prices in time at a page size for threads on `cpus` CPUs; none if the machine's file has no section `[time]`.
    pub fn time_prices(
        &self,
        page_size: PageSize,
        mover: Mover,
        cpus: usize,
    ) -> Result<Option<TimePrices>, MachineError> {
        let costs = self.costs(page_size)?;
        if self.time()?.is_none() {
            return Ok(None);
        }
        let Ok(times) = Times::new(self, page_size) else { return Ok(None) };
        let (unit_ns, parameters) = (times.unit_ns(), *times.parameters());
        let price = |from, to| (times.move_ns(from, to) + parameters.shootdown_ns) / unit_ns;
        let costs = match costs {
            Costs::Uniform(u) => {
                let page_move = if u.nodes > 1 { price(Node(0), Node(1)) } else { u.page_move };
                self.uniform("time", Uniform { page_move, ..u })?
            }
            Costs::General(g) => {
                let pairs =
                    || (0..g.nodes).flat_map(|from| (0..g.nodes).map(move |to| (Node(from), Node(to))));
                let copy = pairs().map(|(from, to)| if from == to { 0.0 } else { price(from, to) }).collect();
                Costs::General(General { copy, ..g })
            }
        };
        let lines = self.hierarchy(page_size)?.map_or(0, |shape| page_size.bytes() >> shape.l2.line_log2);
        let standing = match mover {
            Mover::Stopped => times.page_move_ns() * cpus.saturating_sub(1) as f64 / unit_ns,
            Mover::Program | Mover::Own => 0.0,
        };
        let extras = MoveExtras {
            shootdown: parameters.shootdown_ns / unit_ns,
            refetch: LINES_AGAIN * lines as f64 + parameters.tlb_miss_ns / unit_ns,
            standing,
        };
        Ok(Some(TimePrices { costs, extras, unit_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prices(name: &str, mover: Mover) -> TimePrices {
        let machine = Machine::builtin(name).unwrap();
        machine.time_prices(machine.page_size(), mover, 4).unwrap().unwrap()
    }

    #[test]
    fn a_move_on_two_sockets_by_hand() {
        // A thread waits 0.4 * 80 = 32 ns for a local miss and 0.4 * 140 for a remote one. A move of 4096 bytes takes
        // 0.25 * 4096 + 1000 = 2024 ns of some CPU, and each that has the page mapped 2000 ns.
        let prices = prices("two-socket", Mover::Program);
        let Costs::Uniform(uniform) = &prices.costs else { panic!("{prices:?}") };
        assert_eq!(
            (prices.unit_ns, uniform.remote, uniform.page_move),
            (32.0, 1.75, (2024.0 + 2000.0) / 32.0)
        );
        assert_eq!((prices.extras.shootdown, prices.extras.standing), (62.5, 0.0));
        assert_eq!(prices.beyond(3, 7), 4.0 * 62.5);
        assert_eq!(prices.beyond(3, 2), 0.0, "never less than what is sure");
        // Three other threads stand still.
        let stopped = self::prices("two-socket", Mover::Stopped);
        assert_eq!((stopped.costs, stopped.extras.standing), (prices.costs, 3.0 * 2024.0 / 32.0));
    }

    #[test]
    fn every_machine_with_times_has_prices_and_no_other() {
        for name in Machine::builtin_names() {
            let machine = Machine::builtin(name).unwrap();
            let prices = machine.time_prices(machine.page_size(), Mover::Program, 4).unwrap();
            assert_eq!(prices.is_some(), machine.time().unwrap().is_some(), "{name}");
            let Some(prices) = prices else { continue };
            let reference = machine.costs(machine.page_size()).unwrap();
            let nodes = || (0..reference.memories()).map(Node);
            for (i, m) in nodes().flat_map(|i| nodes().map(move |m| (i, m))) {
                assert_eq!(
                    prices.costs.access(i, m),
                    reference.access(i, m),
                    "{name}: latencies keep their ratios"
                );
                assert!(i == m || prices.costs.copy(i, m) > reference.copy(i, m), "{name}: moves cost more");
            }
        }
    }
}
