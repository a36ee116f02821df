//! How long a node will read on before a page is written again: what a replica is worth. Reads between two writes last
//! as visits do, and are foreseen alike ([`super::foresight`]): by how long this page was read then, those around it,
//! and all that the node read.

use super::foresight::{begin, key, Foresight, Keys, Tally, STEPS};
use super::visits::{Measure, REGION};
use crate::ids::Node;
use serde::{Deserialize, Serialize};

/// A node's reads of a page since its last write.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Reading {
    /// How many, as far as they matter.
    pub(super) count: f32,
    /// The step that they are in, as far as it was learnt from.
    step: u8,
    /// The step that those before came to, plus 1.
    last: u8,
    /// The step and the home that a wait was asked for, and the number of reads at which it ends.
    asked: Option<(u8, Node)>,
    wait: f32,
}

impl Reading {
    /// Adds `count` reads, up to `most` in all, and learns nothing from them.
    pub(super) fn count(&mut self, count: f64, most: f64) {
        self.count = (f64::from(self.count) + count).min(most) as f32;
    }

    /// Adds `count` reads, up to `most` in all, and learns from each step that begins.
    pub(super) fn extend(
        &mut self,
        (by, count, most): (Node, f64, f64),
        tally: &mut Tally,
        known: &mut Foresight,
        measure: Measure,
    ) {
        self.count(count, most);
        while measure.foresees
            && usize::from(self.step) < STEPS
            && self.begins(usize::from(self.step) + 1, measure)
        {
            known.learn(tally, &self.keys(by, measure), usize::from(self.step), true);
            self.step += 1;
        }
    }

    /// The page is written, by the node itself or another one.
    pub(super) fn end(
        &mut self,
        by: Node,
        own: bool,
        tally: &mut Tally,
        known: &mut Foresight,
        measure: Measure,
    ) {
        // Few reads were none, those of the writer would have gone on, and of those that were only counted nothing was
        // learnt.
        let step = usize::from(self.step);
        if measure.foresees
            && !own
            && self.begins(0, measure)
            && !(step < STEPS && self.begins(step + 1, measure))
        {
            if step < STEPS {
                known.learn(tally, &self.keys(by, measure), step, false);
            }
            self.last = self.step + 1;
        }
        (self.count, self.step, self.asked) = (0.0, 0, None);
    }

    /// Finds out after how many reads a replica should be made, if the page is at `home` and that costs as much as
    /// `price` of them.
    pub(super) fn ask(
        &mut self,
        by: Node,
        (home, price): (Node, f64),
        tally: &Tally,
        known: &Foresight,
        measure: Measure,
    ) {
        if self.asked != Some((self.step, home)) {
            self.asked = Some((self.step, home));
            let price = (price / measure.short) as f32;
            self.wait = known.wait(tally, &self.keys(by, measure), price) * measure.short as f32;
        }
    }

    /// Reads, beyond those so far, after which a replica should be made of a page at `home`.
    #[inline]
    pub(super) fn left(&self, home: Node) -> f64 {
        let asked = self.asked.filter(|(_, at)| *at == home);
        f64::from(asked.map_or(f32::INFINITY, |_| self.wait * 0.9999 - self.count))
    }

    fn begins(&self, step: usize, measure: Measure) -> bool {
        self.count >= measure.short as f32 * begin(step) * 0.9999
    }

    fn keys(&self, by: Node, measure: Measure) -> Keys {
        let (node, region, last) = (u32::from(by.0), measure.page.0 / REGION, u32::from(self.last));
        [
            key([8, last, 0, 0]),
            key([9, node, 0, 0]),
            key([10, region, node, 0]),
            key([11, region, last, 0]),
            key([12, 0, 0, 0]),
            key([13, region, node, last]),
            key([14, measure.page.0, node, last]),
            key([15, node, last, 0]),
        ]
    }
}
