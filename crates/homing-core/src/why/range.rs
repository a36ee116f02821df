//! The range of the gain: with and without contention, and with threads on other nodes.

use super::area::Area;
use super::remedy::Remedy;
use super::traffic::Traffic;
use super::{Diagnosis, Gain, Model, Setup};
use crate::time::Elapsed;

/// What remedies bring without anybody waiting for anybody, and with contention. `surely`: with those remedies alone
/// whose effect is known.
pub(super) fn timed(before: &Elapsed, after: &Elapsed, surely: &Elapsed) -> Gain {
    let without = |elapsed: &Elapsed| elapsed.total_ns - elapsed.contention_ns;
    let low = (without(before) - without(surely)) / without(before).max(1e-9);
    let high = (before.total_ns - after.total_ns) / before.total_ns.max(1e-9);
    let (low, high) = (low.clamp(0.0, 1.0), high.clamp(0.0, 1.0));
    Gain { low: low.min(high), high: low.max(high) }
}

/// The share that a lower cost takes off.
pub(super) fn share(now: f64, then: f64) -> f64 {
    (now - then).max(0.0) / now.max(1.0)
}

impl Gain {
    /// The least range that holds both.
    fn and(self, other: Gain) -> Gain {
        Gain { low: self.low.min(other.low), high: self.high.max(other.high) }
    }
}

impl Diagnosis {
    /// Widens the range of the gain to what the same remedies of the same areas bring in another setup: the same
    /// program with its threads on other nodes.
    pub fn widen(&mut self, other: &Setup<'_>) {
        let gain = self.gain_in(other);
        self.gain = self.gain.and(gain);
        self.at_most = self.at_most.max(self.gain.high);
    }

    fn gain_in(&self, other: &Setup<'_>) -> Gain {
        let model = Model::new(other);
        let before = Traffic::new(model.nodes(), other.facts);
        let (mut after, mut surely, mut remedied) = (before.clone(), before.clone(), model.memory_cost);
        for finding in &self.findings {
            let Some(prediction) = finding.remedy else { continue };
            let area = Area::named(finding.area.name.as_deref(), other, model.nodes());
            let remedy = match prediction.remedy {
                // With threads elsewhere another node may be the one to keep it on.
                Remedy::Bind(_) => Remedy::Bind(Area::most(&area.best).0 as u16),
                same => same,
            };
            remedied += remedy.cost(&model, &area, other.facts) - area.costs.here;
            after = after.with(other.facts, &area.pages, remedy);
            if remedy.is_sure() {
                surely = surely.with(other.facts, &area.pages, remedy);
            }
        }
        match (model.elapsed(&before), model.elapsed(&after), model.elapsed(&surely)) {
            (Some(before), Some(after), Some(surely)) => timed(&before, &after, &surely),
            _ => {
                let share = share(model.memory_cost, remedied);
                Gain { low: share, high: share }
            }
        }
    }
}
