//! Moves of an earlier run, to be made again in another one (Tikir 2008, section 5.3.3; Nikolopoulos 2000, section
//! 2.3): at the same time since the beginning, for the same page of the same region.

use super::output::{Decided, RecordedOutcome, Settlement};
use homing_core::action::Kind;
use homing_core::ids::{Micros, Node};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The reason of planned moves.
pub const PLANNED: &str = "as in the journal";

/// Where a page is, for people and for another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The process, by order of appearance.
    pub process: u32,
    /// Its region, such as `heap#0` or `libm.so.6#2`.
    pub region: String,
    /// Bytes from the region's beginning.
    pub offset: u64,
    /// Size of the page.
    pub bytes: u64,
}

/// A move to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Due {
    /// When.
    pub t: Micros,
    /// Which page.
    pub place: Place,
    /// Where to.
    pub to: Node,
}

/// Moves to be made, the next last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plan {
    due: Vec<Due>,
}

/// What a journal says of a move.
#[derive(Clone, Copy, Debug)]
pub enum Recorded<'l> {
    /// It was decided.
    Decided(&'l Decided),
    /// It was settled later.
    Settled(&'l Settlement),
}

impl Plan {
    /// The moves of a journal that succeeded, or would have in a dry run.
    pub fn of<'l>(lines: impl Iterator<Item = Recorded<'l>>) -> Plan {
        let mut places: HashMap<u32, &Place> = HashMap::new();
        let mut due = Vec::new();
        for line in lines {
            let (t, page, action, outcome) = match line {
                Recorded::Decided(Decided { t, page, action, place, outcome, .. }) => {
                    places.insert(*page, place);
                    (*t, page, action, outcome)
                }
                Recorded::Settled(Settlement { t, page, action, outcome }) => (*t, page, action, outcome),
            };
            let (Kind::Move { to } | Kind::Collapse { keep: to }) = *action else { continue };
            let done = *outcome == RecordedOutcome::Done;
            let place = places.get(page).filter(|place| done && !place.region.is_empty());
            due.extend(place.map(|&place| Due { t, place: place.clone(), to }));
        }
        due.sort_by_key(|due| std::cmp::Reverse(due.t));
        Plan { due }
    }

    /// Takes what is due at `t`.
    pub fn take(&mut self, t: Micros) -> Vec<Due> {
        let later = self.due.partition_point(|due| due.t > t);
        let mut now = self.due.split_off(later);
        now.reverse();
        now
    }

    /// Puts back what could not be done yet.
    pub fn put_back(&mut self, due: Vec<Due>) {
        self.due.extend(due.into_iter().rev());
    }

    /// Moves that are left.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(page: u32, t: u64, outcome: RecordedOutcome) -> (Decided, Settlement) {
        let action = Kind::Move { to: Node(1) };
        let place =
            Place { process: 0, region: "heap#0".into(), offset: u64::from(page) * 4096, bytes: 4096 };
        let decided = Decided {
            t: Micros(t),
            page,
            action,
            from: Some(0),
            reason: "test".into(),
            profile: Vec::new(),
            place,
            outcome: RecordedOutcome::Pending,
        };
        (decided, Settlement { t: Micros(t + 5), page, action, outcome })
    }

    #[test]
    fn what_succeeded_is_made_again_at_its_time() {
        let lines = [
            lines(1, 10, RecordedOutcome::Done),
            lines(2, 20, RecordedOutcome::Failed(16)),
            lines(3, 30, RecordedOutcome::Done),
        ];
        let mut plan = Plan::of(lines.iter().flat_map(|(a, b)| [Recorded::Decided(a), Recorded::Settled(b)]));
        assert_eq!(plan.len(), 2);
        assert!(plan.take(Micros(14)).is_empty());
        let now = plan.take(Micros(15));
        assert_eq!((now[0].t, now[0].place.offset, now[0].to), (Micros(15), 4096, Node(1)));
        plan.put_back(now);
        let times: Vec<u64> = plan.take(Micros(u64::MAX)).iter().map(|due| due.t.0).collect();
        assert_eq!(times, [15, 35]);
        assert!(plan.is_empty());
    }
}
