//! The same program with its threads on other nodes: which of them a program runs where is not known.

use super::known::{Known, Need};
use crate::case::Case;
use crate::error::Result;
use homing_core::history::ThreadsOn;
use homing_core::ids::{Cpu, Node, MOST_THREADS};
use homing_core::machine::Machine;
use homing_core::time::Times;
use homing_core::why::Diagnosis;
use std::collections::BTreeMap;

/// Widens the range of the gain by what the remedies bring with neighbouring threads on one node, where threads were
/// spread in turn. Returns what the range covers, in a sentence.
pub fn widen(case: &Case<'_>, found: &mut Diagnosis, times: Option<&Times>) -> Result<Option<String>> {
    let model = &case.ready.experiment.model;
    if model.threads_on != ThreadsOn::RoundRobin
        || !found.findings.iter().any(|finding| finding.remedy.is_some())
    {
        return Ok(None);
    }
    let threads = case.trace.threads().map(|(thread, _)| thread.index() + 1).max().unwrap_or(1);
    if threads > MOST_THREADS as usize {
        return Ok(None);
    }
    let Some(blocks) = in_blocks(&case.ready.machine, threads) else { return Ok(None) };
    let mut experiment = case.ready.experiment.clone();
    experiment.model.threads_on = blocks;
    experiment.usage = false;
    let (in_turn, in_blocks) =
        (model.binding(&case.ready.machine)?, experiment.model.binding(&case.ready.machine)?);
    if case.trace.threads().all(|(thread, _)| in_turn.node(thread) == in_blocks.node(thread)) {
        let one = "the range of the gain is without and with contention; threads have the same nodes in turn and in \
                   blocks of neighbours";
        return Ok(Some(one.into()));
    }
    let ready = experiment.ready(|_| Ok(Vec::new()))?;
    let other = Case::new(&ready, case.file, None)?;
    let known = Known::of(&other, Need::of(found))?;
    let before = found.gain;
    found.widen(&known.setup(&other, times));
    let wider = if found.gain == before { "neither end is of the blocks" } else { "the blocks widen it" };
    Ok(Some(format!(
        "the range of the gain is without and with contention, each with threads in turn over the nodes, as all else \
         is modelled, and in blocks of neighbours: {wider}"
    )))
}

/// Threads in blocks: the first on the first node, the last on the last. Nothing if there are no two nodes or threads.
fn in_blocks(machine: &Machine, threads: usize) -> Option<ThreadsOn> {
    let mut nodes: BTreeMap<Node, Vec<Cpu>> = BTreeMap::new();
    for cpu in (0..machine.cpus()).map(|cpu| Cpu(cpu as u16)) {
        nodes.entry(machine.node_of(cpu)?).or_default().push(cpu);
    }
    let nodes: Vec<Vec<Cpu>> = nodes.into_values().collect();
    let used = nodes.len().min(threads);
    let cpu = |thread: usize| {
        let node = thread * used / threads;
        let first = (node * threads).div_ceil(used);
        nodes[node][(thread - first) % nodes[node].len()]
    };
    (used > 1).then(|| ThreadsOn::List((0..threads).map(cpu).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_node() {
        let machine = Machine::builtin("two-socket").unwrap();
        let cpus = |threads| match in_blocks(&machine, threads) {
            Some(ThreadsOn::List(cpus)) => cpus.iter().map(|cpu| cpu.0).collect(),
            _ => Vec::new(),
        };
        assert_eq!(cpus(1), [0u16; 0]);
        assert_eq!(cpus(5), [0, 1, 2, 16, 17]);
        let many = cpus(80);
        assert_eq!((many[39], many[40], many.len()), (7, 16, 80));
    }
}
