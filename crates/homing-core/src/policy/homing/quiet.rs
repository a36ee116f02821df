//! References that change nothing but a count: most of them, once pages are home. They are recognised from a few bytes
//! a page; what they counted is handed to the page's state before that is looked at again.

use super::judge::Judge;
use super::page::State;
use super::visits::Known;
use crate::ids::Node;
use crate::policy::Sample;
use serde::{Deserialize, Serialize};

/// What is known of a page without its state.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Quiet {
    /// The node whose reads are quiet.
    owner: Option<Node>,
    /// Its writes are, too.
    writes: bool,
    /// Quiet references that the state has not seen.
    count: f32,
    /// There was a quiet write that the state has not seen, ..
    written: bool,
    /// .. and reads since.
    reads: f32,
    /// How many thread moves there were when the page was last used.
    seen: u32,
}

impl Quiet {
    /// A page in this state.
    pub(super) fn of(judge: &Judge, state: &State) -> Quiet {
        // As long as visits are learnt from, that must come in order.
        let owner = state.owner.filter(|&owner| judge.knows(state, owner));
        let owner = owner.filter(|&owner| judge.is_settled(state, owner, false));
        // A write ends the reads of others, which are learnt from, too.
        let alone = |owner| !state.read || state.reads_alone(owner);
        let writes = owner.is_some_and(|owner| judge.is_settled(state, owner, true) && alone(owner));
        Quiet { owner, writes, count: 0.0, written: false, reads: 0.0, seen: state.seen }
    }

    /// Takes a sample, if it changes nothing but a count; false, and nothing done, if not. `moves` is the number of
    /// thread moves so far.
    #[inline]
    pub(super) fn takes(&mut self, sample: &Sample, moves: u32) -> bool {
        let local = self.owner == Some(sample.node) && self.seen == moves && sample.at.holds(sample.node);
        let write = sample.writes > 0;
        if !local || (write && !(self.writes && sample.at.copies() == 1)) {
            return false;
        }
        let count = ((sample.reads + sample.writes) as f64 * sample.weight) as f32;
        self.count += count;
        self.reads = if write { 0.0 } else { self.reads + count };
        self.written |= write;
        true
    }

    /// Hands over what was counted.
    #[inline]
    pub(super) fn settle(&mut self, judge: &Judge, known: &mut Known, state: &mut State) {
        let Some(owner) = self.owner else { return };
        let count = std::mem::take(&mut self.count);
        if count > 0.0 {
            judge.follow(state, known, owner, f64::from(count));
        }
        if std::mem::take(&mut self.written) {
            judge.count(state, known, owner, 0.0, 1.0);
        }
        let reads = std::mem::take(&mut self.reads);
        if reads > 0.0 {
            judge.count(state, known, owner, f64::from(reads), 0.0);
        }
    }
}
