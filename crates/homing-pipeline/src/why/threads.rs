//! The same program with its threads on other nodes: which of them a program runs where is not known.

use super::known::{Known, Need};
use crate::case::Case;
use crate::error::Result;
use crate::model::cpu_nodes;
use crate::threads;
use homing_core::history::ThreadsOn;
use homing_core::time::Times;
use homing_core::why::verdict::Cause;
use homing_core::why::Diagnosis;

/// What blocks of neighbouring threads make of a trace whose threads were spread in turn.
pub enum Blocks {
    /// Nothing else: the nodes are the same, or the user said where threads run, or there is nothing to vary.
    Same,
    /// This note.
    Note(String),
    /// There is something to gain, which there is not in turn: why, and its share.
    Cause(Cause, f64),
}

/// Widens the range of the gain by what the remedies bring with neighbouring threads on one node, where threads that
/// work were spread in turn. Where nothing is to be gained in turn, looks whether there is in blocks.
pub fn in_blocks(case: &Case<'_>, found: &mut Diagnosis, times: Option<&Times>) -> Result<Blocks> {
    let machine = &case.ready.machine;
    if case.ready.experiment.model.threads_on(machine) != ThreadsOn::Busy {
        return Ok(Blocks::Same);
    }
    let Some(blocks) = threads::busy(&case.trace).in_blocks(&cpu_nodes(machine)) else {
        return Ok(Blocks::Same);
    };
    let mut experiment = case.ready.experiment.clone();
    experiment.model.threads_on = Some(ThreadsOn::List(blocks));
    experiment.usage = false;
    let (in_turn, in_blocks) = (&case.layout.binding, experiment.model.binding(machine, &case.trace)?);
    let nothing = found.cause == Cause::NotNuma;
    if case.trace.threads().all(|(thread, _)| in_turn.node(thread) == in_blocks.node(thread)) {
        let one = "the range of the gain is without and with contention; threads have the same nodes in turn and in \
                   blocks of neighbours";
        return Ok(if nothing { Blocks::Same } else { Blocks::Note(one.into()) });
    }
    let ready = experiment.ready(|_| Ok(Vec::new()))?;
    let other = Case::new(&ready, case.file, None)?;
    if nothing {
        let known = Known::of(&other, Need::ALL)?;
        let diagnosis = homing_core::why::diagnose(&known.setup(&other, times));
        return Ok(match diagnosis.cause {
            Cause::NotNuma => Blocks::Same,
            cause => Blocks::Cause(cause, diagnosis.gain.high),
        });
    }
    let known = Known::of(&other, Need::of(found))?;
    let before = found.gain;
    found.widen(&known.setup(&other, times));
    let wider = if found.gain == before { "neither end is of the blocks" } else { "the blocks widen it" };
    Ok(Blocks::Note(format!(
        "the range of the gain is without and with contention, each with threads in turn over the nodes, as all else \
         is modelled, and in blocks of neighbours: {wider}"
    )))
}
