//! Moves of an earlier run, to be made again in another one (Tikir 2008, section 5.3.3; Nikolopoulos 2000, section 2.3):
//! at the same time since the beginning, for the same page of the same region.

use crate::journal::{Came, Journal, Line, Place};
use homing_core::action::Kind;
use homing_core::ids::Node;
use std::collections::HashMap;

/// The reason of planned moves.
pub(crate) const PLANNED: &str = "as in the journal";

/// A move to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// When, in microseconds of the session.
    pub t: u64,
    /// Which page.
    pub place: Place,
    /// Where to.
    pub to: Node,
}

/// Moves to be made, the next first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    due: Vec<Due>,
}

impl Plan {
    /// The moves of a journal that succeeded, or would have in a dry run.
    pub fn of(journal: &Journal) -> Plan {
        let mut places: HashMap<u32, &Place> = HashMap::new();
        let mut due = Vec::new();
        for line in &journal.lines {
            let (t, page, action, outcome) = match line {
                Line::Action { t, page, action, place, outcome, .. } => {
                    places.insert(*page, place);
                    (*t, page, action, outcome)
                }
                Line::Result { t, page, action, outcome } => (*t, page, action, outcome),
                _ => continue,
            };
            let (Kind::Move { to } | Kind::Collapse { keep: to }) = *action else { continue };
            let place = places.get(page).filter(|place| *outcome == Came::Done && !place.region.is_empty());
            due.extend(place.map(|&place| Due { t, place: place.clone(), to }));
        }
        due.sort_by_key(|due| std::cmp::Reverse(due.t));
        Plan { due }
    }

    /// Takes what is due at `t`.
    pub fn take(&mut self, t: u64) -> Vec<Due> {
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
    use crate::journal::Header;
    use homing_core::machine::{Costs, Uniform};

    fn lines(page: u32, t: u64, outcome: Came) -> [Line; 2] {
        let action = Kind::Move { to: Node(1) };
        let place =
            Place { process: 0, region: "heap#0".into(), offset: u64::from(page) * 4096, bytes: 4096 };
        let asked = Line::Action {
            t,
            page,
            action,
            from: Some(0),
            reason: "test".into(),
            profile: Vec::new(),
            place,
            outcome: Came::Pending,
        };
        [asked, Line::Result { t: t + 5, page, action, outcome }]
    }

    #[test]
    fn what_succeeded_is_made_again_at_its_time() {
        let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
        let lines =
            [lines(1, 10, Came::Done), lines(2, 20, Came::Failed(16)), lines(3, 30, Came::Done)].concat();
        let journal = Journal { header: Header::new("homing", "test", &costs), lines, cut: false };
        let mut plan = Plan::of(&journal);
        assert_eq!(plan.len(), 2);
        assert!(plan.take(14).is_empty());
        let now = plan.take(15);
        assert_eq!((now[0].t, now[0].place.offset, now[0].to), (15, 4096, Node(1)));
        plan.put_back(now);
        assert_eq!(plan.take(u64::MAX).iter().map(|due| due.t).collect::<Vec<_>>(), [15, 35]);
        assert!(plan.is_empty());
    }
}
