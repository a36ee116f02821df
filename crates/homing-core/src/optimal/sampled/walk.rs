//! One pass of a monitor over the references of a page: what lies between one sample and the next.

use crate::history::PageRun;
use crate::ids::Node;
use crate::information::Sampler;

/// Calls `step` at each sample with the node that made it and the references by each node since the last sample, this
/// one included; at the end with no node and the rest. `counts` has one entry for each memory.
pub(super) fn walk(
    runs: impl Iterator<Item = PageRun>,
    mut sampler: Sampler,
    counts: &mut [u64],
    mut step: impl FnMut(Option<Node>, &[u64]),
) {
    counts.fill(0);
    for run in runs {
        let mut left = run.references();
        while let Some(skipped) = sampler.next(left) {
            counts[run.node.index()] += skipped + 1;
            step(Some(run.node), counts);
            counts.fill(0);
            left -= skipped + 1;
        }
        counts[run.node.index()] += left;
    }
    step(None, counts);
}
