//! When each CPU asks memories for what its caches do not hold.

use homing_core::history::{References, SpillError};
use homing_core::ids::{Node, Time};
use homing_core::why::facts::INTERVALS;
use homing_trace::Kind;

/// Stretches of the trace that are told apart.
const STRETCHES: usize = 32 * INTERVALS;

/// What gets past the caches of each CPU in use, by when.
#[derive(Clone, Debug)]
pub struct Demand {
    /// References of a stretch.
    length: u64,
    by_cpu: Vec<Vec<u64>>,
}

impl Demand {
    /// For a trace with this number of references.
    pub fn new(references: u64) -> Demand {
        Demand { length: references / STRETCHES as u64 + 1, by_cpu: Vec::new() }
    }

    fn add(&mut self, cpu: u16, first: Time, count: usize) {
        let cpu = usize::from(cpu);
        if cpu >= self.by_cpu.len() {
            self.by_cpu.resize(cpu + 1, vec![0; STRETCHES]);
        }
        let stretch = ((first.0 / self.length) as usize).min(STRETCHES - 1);
        self.by_cpu[cpu][stretch] += count as u64;
    }

    /// The demand of a CPU in each interval of a history with this duration.
    pub fn in_intervals(&self, cpu: usize, duration: Time) -> [f64; INTERVALS] {
        let mut intervals = [0.0; INTERVALS];
        let interval = duration.0 / INTERVALS as u64 + 1;
        for (stretch, &count) in self.by_cpu.get(cpu).into_iter().flatten().enumerate() {
            let middle = stretch as u64 * self.length + self.length / 2;
            intervals[((middle / interval) as usize).min(INTERVALS - 1)] += count as f64;
        }
        intervals
    }
}

/// Passes on the misses of the caches, and counts them.
pub struct Asked<'a, R> {
    /// Takes it.
    pub to: &'a mut R,
    /// Counts it.
    pub demand: &'a mut Demand,
}

impl<R: References> References for Asked<'_, R> {
    #[inline]
    fn references(
        &mut self,
        cpu: u16,
        node: Node,
        first: Time,
        addresses: &[u64],
        kinds: &[Kind],
    ) -> Result<(), SpillError> {
        self.demand.add(cpu, first, addresses.len());
        self.to.references(cpu, node, first, addresses, kinds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpus_demand_is_where_it_asks() {
        let mut demand = Demand::new(32_000);
        demand.add(1, Time(0), 3);
        demand.add(1, Time(31_999), 4);
        demand.add(1, Time(16_500), 5);
        let of = demand.in_intervals(1, Time(32_000));
        assert_eq!((of[0], of[16], of[31]), (3.0, 5.0, 4.0));
        assert_eq!((of.iter().sum::<f64>(), demand.in_intervals(0, Time(32_000))), (12.0, [0.0; INTERVALS]));
        assert_eq!(demand.in_intervals(7, Time(32_000)), [0.0; INTERVALS]);
        // A history that ends before the trace has shorter intervals.
        assert_eq!(demand.in_intervals(1, Time(16_600))[31], 9.0);
    }
}
