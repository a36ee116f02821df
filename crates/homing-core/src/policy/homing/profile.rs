//! Counts of which nobody knows in which order they came: those of an interval, or since the hardware was polled. Told
//! one after the other they would look like long visits, each worth a move. So the nodes take turns: what one of them
//! counted more than the others then shows, and nothing else.

use crate::action::{Action, Actions, Kind, Locations};
use crate::ids::{Node, Page};
use crate::policy::Sample;

/// Most turns of a node. More turns do not change the decision.
const ROUNDS: f64 = 16.0;

/// How the counts of one page are dealt out.
pub(super) struct Deal {
    rounds: u32,
    /// The part of each count that comes in a round.
    part: f64,
}

impl Deal {
    /// In no turn a node has more references than `most`.
    pub(super) fn of(counts: &[Sample], most: impl Fn(Node) -> f64) -> Deal {
        if counts.iter().all(|count| count.node == counts[0].node) {
            return Deal { rounds: 1, part: 1.0 };
        }
        let turns = |count: &Sample| (count.reads + count.writes) as f64 * count.weight / most(count.node);
        let all = counts.iter().map(turns).fold(1.0, f64::max);
        Deal { rounds: all.min(ROUNDS).ceil() as u32, part: 1.0 / all.ceil() }
    }

    /// The counts of each round.
    pub(super) fn samples<'a>(&self, counts: &'a [Sample]) -> impl Iterator<Item = Sample> + 'a {
        let part = self.part;
        let round = move |_| counts.iter().map(move |count| Sample { weight: count.weight * part, ..*count });
        (0..self.rounds).flat_map(round)
    }
}

/// Asks for what brings a page from where it was to where it is in the end, not for what it did on the way.
pub(super) fn go_straight(
    page: Page,
    from: Locations,
    to: Locations,
    mut on_the_way: Actions,
    actions: &mut Actions,
) {
    let mut taken: Vec<Action> = Vec::new();
    on_the_way.take(&mut taken);
    let Some(reason) = taken.last().map(|action| action.reason).filter(|_| from != to) else { return };
    let mut copies = from.all();
    if from.home() != to.home() || !copies.without(to.all()).is_empty() {
        actions.push(page, Kind::Move { to: to.home() }, reason);
        copies = Locations::single(to.home()).all();
    }
    to.all().without(copies).iter().for_each(|node| actions.push(page, Kind::Replicate { to: node }, reason));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Time;

    #[test]
    fn nodes_take_turns_and_all_counts_are_told_but_for_what_convinces_nobody() {
        let count = |node, reads| {
            let (page, at, time) = (Page(7), Locations::single(Node(0)), Time(0));
            Sample { page, node: Node(node), reads, writes: 0, weight: 2.0, time, at }
        };
        let reported = |counts: &[Sample]| -> Vec<(u16, f64)> {
            let samples = Deal::of(counts, |_| 10.0).samples(counts);
            samples.map(|sample| (sample.node.0, sample.reads as f64 * sample.weight)).collect()
        };
        assert_eq!(reported(&[count(1, 300)]), [(1, 600.0)]);
        assert_eq!(reported(&[count(0, 1), count(1, 10)]), [(0, 1.0), (1, 10.0), (0, 1.0), (1, 10.0)]);
        let most = reported(&[count(0, 400), count(1, 800)]);
        assert_eq!((most.len(), most[0], most[1]), (32, (0, 5.0), (1, 10.0)));
    }

    #[test]
    fn a_page_goes_straight_to_where_it_ends() {
        let straight = |from: Locations, to: Locations| {
            let (mut on_the_way, mut actions, mut taken) =
                (Actions::default(), Actions::default(), Vec::new());
            (1..4).for_each(|node| on_the_way.push(Page(0), Kind::Move { to: Node(node) }, "a turn"));
            go_straight(Page(0), from, to, on_the_way, &mut actions);
            actions.take(&mut taken);
            taken.into_iter().map(|action| action.kind).collect::<Vec<Kind>>()
        };
        let (home, away) = (Locations::single(Node(0)), Locations::single(Node(2)));
        let both = home.with_replica(Node(2));
        assert_eq!(straight(home, home), []);
        assert_eq!(straight(home, away), [Kind::Move { to: Node(2) }]);
        assert_eq!(straight(home, both), [Kind::Replicate { to: Node(2) }]);
        assert_eq!(straight(both, home), [Kind::Move { to: Node(0) }]);
        assert_eq!(straight(away, both), [Kind::Move { to: Node(0) }, Kind::Replicate { to: Node(2) }]);
    }
}
