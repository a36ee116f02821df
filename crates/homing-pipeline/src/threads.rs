//! Which threads of a trace work when, and where they run by default.

use homing_core::history::busy::Counts;
use homing_core::history::{Busy, ThreadsOn};
use homing_core::ids::Time;
use homing_core::machine::Machine;
use homing_trace::Trace;
use rayon::prelude::*;

/// Which threads of a trace are busy when, from its order alone.
pub fn busy(trace: &Trace<'_>) -> Busy {
    let references = trace.references();
    let blocks: Vec<_> = trace.order_blocks().collect();
    let count = |(number, block): (usize, &homing_trace::OrderBlock)| {
        let mut counts = Counts::new(references);
        let mut at = block.first;
        // Whoever reads the references reports damage.
        for (thread, references) in trace.order_turns(number).unwrap_or_default() {
            counts.add(thread, at, references);
            at = Time(at.0.saturating_add(references));
        }
        counts
    };
    let join = |mut counts: Counts, other| {
        counts.append(other);
        counts
    };
    blocks.par_iter().enumerate().map(count).reduce(|| Counts::new(references), join).finish()
}

/// Where threads run unless the user says it: those that work at the same time are spread over the nodes. On machines
/// of papers and on those without caches thread i runs on CPU i, as in the papers.
pub fn by_default(machine: &Machine) -> ThreadsOn {
    let caches = machine.hierarchy(machine.page_size()).is_ok_and(|shape| shape.is_some());
    match caches && machine.paper().is_none() {
        true => ThreadsOn::Busy,
        false => ThreadsOn::Fill,
    }
}
