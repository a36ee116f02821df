//! An independent evaluator: carries a placement out reference by reference and charges equations (1) and (2).

use crate::exhaustive::{movement, reference, Reference};
use homing_core::ids::{Node, Time};
use homing_core::machine::Costs;
use homing_core::optimal::{Kind, PageAction};

/// What a placement of one page costs, and its moves and replications.
pub fn evaluate(references: &[Reference], actions: &[PageAction], costs: &Costs) -> (f64, u64, u64) {
    let mut actions = actions.iter().peekable();
    let (mut set, mut cost, mut moves, mut replications) = (0u32, 0.0, 0, 0);
    while let Some(place) = actions.next_if(|a| a.kind == Kind::Place) {
        assert_eq!((place.reference, place.from), (0, place.to));
        set |= 1 << place.to.0;
    }
    assert_ne!(set, 0, "every page is placed");
    for (index, &(node, write)) in references.iter().enumerate() {
        let before = set;
        while let Some(action) = actions.next_if(|a| a.reference == index as u64) {
            assert!(action.time <= Time(index as u64), "the run begins at or before the reference");
            let (from, to) = (1 << action.from.0, 1 << action.to.0);
            assert_ne!(set & from, 0, "{action:?} has its source");
            match action.kind {
                Kind::Place => panic!("placed late"),
                Kind::Move => (set, moves) = (to, moves + 1),
                Kind::Replicate => (set, replications) = (set | to, replications + 1),
                Kind::Collapse => {
                    assert!(set & to != 0 && set != to, "{action:?} keeps one copy of several");
                    set = to;
                }
            }
            if let Costs::General(_) = costs {
                cost += costs.copy(Node(action.from.0), Node(action.to.0));
            }
        }
        assert!(!write || set.count_ones() == 1, "a write needs a single copy");
        if let Costs::Uniform(_) = costs {
            cost += movement(before, set, costs);
        }
        cost += reference(node, set, costs);
    }
    assert_eq!(actions.next(), None, "no action after the last reference");
    (cost, moves, replications)
}
