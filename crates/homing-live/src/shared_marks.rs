//! Shared memory is made markable for the moment of a scan ([`homing_linux::hint_faults::shared`]).

use crate::host::Host;
use crate::targets::Targets;
use homing_core::ids::Node;
use homing_linux::hint_faults::own;
use homing_linux::hint_faults::scanner::Scanner;
use homing_linux::hint_faults::shared::{Range, AT_ONCE};
use homing_linux::proc::{Pid, Proc};
use std::collections::BTreeMap;

/// The shared memory that scans mark.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The nodes of the machine; none if there are too many for a word.
    nodes: Option<u64>,
    /// Ranges without a policy of somebody's own, as last seen.
    free: BTreeMap<Pid, Vec<Range>>,
}

/// Ranges that the kernel marks now.
#[must_use = "they must not stay so"]
pub(crate) struct Admitted(BTreeMap<Pid, Vec<Range>>);

impl Shared {
    pub(crate) fn new(host: &Host) -> Shared {
        let bit = |node: usize| 1u64.checked_shl(host.kernel_id(Node(node as u16)));
        let bits: Option<Vec<u64>> = (0..host.nodes()).map(bit).collect();
        Shared { nodes: bits.map(|bits| bits.into_iter().fold(0, |a, b| a | b)), free: BTreeMap::new() }
    }

    /// Finds what may be marked, while the programs run. What may not is not seen, as before.
    pub(crate) fn prepare(&mut self, scanners: &BTreeMap<Pid, Scanner>, targets: &Targets) {
        let before = std::mem::take(&mut self.free);
        let serves = |pid: Pid| !own::is_this(pid) && scanners.contains_key(&pid);
        for (pid, ranges) in by_process(targets.shared(), serves) {
            let (Some(scanner), Some(_)) = (scanners.get(&pid), self.nodes) else { continue };
            let known = |range: &Range| before.get(&pid).is_some_and(|known| known.contains(range));
            let (known, new): (Vec<Range>, Vec<Range>) = ranges.iter().partition(|range| known(range));
            let look =
                |ranges: &[Range], new| scanner.without_policy(targets.proc(), ranges, new).unwrap_or(0);
            let free =
                chosen(&known, |ranges| look(ranges, false)).chain(chosen(&new, |ranges| look(ranges, true)));
            self.free.insert(pid, free.collect());
        }
    }

    /// Lets the kernel mark what was found.
    pub(crate) fn admit(&self, scanners: &BTreeMap<Pid, Scanner>, proc: &Proc) -> Admitted {
        let mut admitted = BTreeMap::new();
        for (pid, ranges) in &self.free {
            let (Some(scanner), Some(nodes)) = (scanners.get(pid), self.nodes) else { continue };
            let admit = |ranges: &[Range]| scanner.admit(proc, ranges, nodes).unwrap_or(0);
            admitted.insert(*pid, chosen(ranges, admit).collect());
        }
        Admitted(admitted)
    }
}

/// Each range once: in the first process that maps it and has a helper. One that sleeps has none.
fn by_process(shared: &[Vec<(Pid, Range)>], serves: impl Fn(Pid) -> bool) -> BTreeMap<Pid, Vec<Range>> {
    let mut all: BTreeMap<Pid, Vec<Range>> = BTreeMap::new();
    for (pid, range) in shared.iter().filter_map(|users| users.iter().find(|(pid, _)| serves(*pid))) {
        all.entry(*pid).or_default().push(*range);
    }
    all
}

/// The ranges that a call chooses, by one bit each.
fn chosen<'r>(ranges: &'r [Range], call: impl Fn(&[Range]) -> u64 + 'r) -> impl Iterator<Item = Range> + 'r {
    ranges.chunks(AT_ONCE).flat_map(move |ranges| {
        let bits = call(ranges);
        ranges.iter().enumerate().filter(move |(place, _)| bits >> place & 1 == 1).map(|(_, range)| *range)
    })
}

impl Admitted {
    /// Ends that.
    pub(crate) fn dismiss(self, scanners: &BTreeMap<Pid, Scanner>, proc: &Proc) {
        for (pid, ranges) in self.0.iter().filter(|(_, ranges)| !ranges.is_empty()) {
            // A process that has ended has no policy, and the memory lasts as long as the others have it: they try too.
            let dismissed = scanners.get(pid).map(|scanner| scanner.dismiss(proc, ranges));
            if let Some(Err(error)) = dismissed {
                homing_linux::errln!(
                    "homing: process {pid}: shared memory keeps the policy of a scan: {error}"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_marked_in_one_process_that_has_a_helper() {
        let [first, second] = [Pid(1), Pid(2)];
        let shared = [vec![(first, (0x1000, 8)), (second, (0x2000, 8))], vec![(first, (0x9000, 8))]];
        assert_eq!(by_process(&shared, |_| true), [(first, vec![(0x1000, 8), (0x9000, 8)])].into());
        assert_eq!(by_process(&shared, |pid| pid == second), [(second, vec![(0x2000, 8)])].into());
        assert!(by_process(&shared, |_| false).is_empty());
    }
}
