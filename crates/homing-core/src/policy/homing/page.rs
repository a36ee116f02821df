//! What is known of one page: its work functions, the reads of its present epoch, and where each expert has it.

use super::super::prices::Prices;
use super::super::work_function::WorkFunction;
use super::expert::{Expert, EXPERTS, FORESEES, SCALES};
use super::foresight::Tally;
use super::reading::Reading;
use super::visits::{exchanged, Past, Visit};
use crate::ids::{Node, Page};
use serde::{Deserialize, Serialize};

/// Every expert.
pub(super) const ALL: u8 = (1 << EXPERTS) - 1;

/// One page. Memory: `size_of::<State>()` and, for each node, a number of each work function and a [`Seat`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) page: Page,
    /// Where a move costs each of [`SCALES`].
    pub(super) works: [WorkFunction; SCALES.len()],
    pub(super) seats: Vec<Seat>,
    pub(super) experts: [Expert; EXPERTS],
    pub(super) leader: u8,
    /// True if a node has read the page since its last write.
    pub(super) read: bool,
    /// The node whose references change no work function any more: all other nodes are a move behind.
    pub(super) owner: Option<Node>,
    /// How many thread moves there were when the page was last used.
    pub(super) seen: u32,
    pub(super) visit: Visit,
    /// How long it was read between two writes.
    pub(super) reading: Tally,
}

/// What a page keeps for one node.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Seat {
    pub(super) reads: Reading,
    /// Bit e: expert e has a copy here.
    pub(super) holders: u8,
    /// Its visits.
    pub(super) past: Past,
}

impl State {
    /// A page that begins at `start`; `scaled` are the prices for each of [`SCALES`].
    pub(super) fn new(page: Page, scaled: &[Prices; SCALES.len()], start: Node) -> State {
        let mut seats = vec![Seat::default(); usize::from(scaled[0].memories())];
        seats[start.index()].holders = ALL;
        State {
            page,
            works: std::array::from_fn(|scale| WorkFunction::new(&scaled[scale], start)),
            seats,
            experts: [Expert { home: start, replicas: 0, paid: 0.0 }; EXPERTS],
            leader: FORESEES as u8,
            read: false,
            owner: None,
            seen: 0,
            visit: Visit::new(start),
            reading: Tally::default(),
        }
    }

    /// The leading expert.
    #[inline]
    pub(super) fn leader(&self) -> usize {
        usize::from(self.leader)
    }

    /// True if the expert has a copy at `node`.
    #[inline]
    pub(super) fn holds(&self, expert: usize, node: Node) -> bool {
        self.seats[node.index()].holders >> expert & 1 == 1
    }

    /// The expert gets a copy at `node` beside those it has.
    pub(super) fn add_copy(&mut self, expert: usize, node: Node) {
        self.seats[node.index()].holders |= 1 << expert;
        self.experts[expert].replicas += 1;
    }

    /// The expert's only copy is now at `node`.
    pub(super) fn set_home(&mut self, expert: usize, node: Node) {
        let home = self.experts[expert].home;
        if self.experts[expert].replicas > 0 {
            self.seats.iter_mut().for_each(|seat| seat.holders &= !(1 << expert));
        } else {
            self.seats[home.index()].holders &= !(1 << expert);
        }
        self.seats[node.index()].holders |= 1 << expert;
        self.experts[expert].home = node;
        self.experts[expert].replicas = 0;
    }

    /// True if a reference from `by` is local to every expert and moves none.
    #[inline]
    pub(super) fn settled(&self, by: Node, write: bool) -> bool {
        self.seats[by.index()].holders == ALL && (!write || self.single())
    }

    /// True if no other node has read the page since its last write.
    pub(super) fn reads_alone(&self, node: Node) -> bool {
        (0..).map(Node).zip(&self.seats).all(|(other, seat)| other == node || seat.reads.count == 0.0)
    }

    pub(super) fn single(&self) -> bool {
        self.experts.iter().all(|expert| expert.replicas == 0)
    }

    /// What the experts have paid.
    #[inline]
    pub(super) fn paid(&self) -> [f64; EXPERTS] {
        self.experts.map(|expert| expert.paid)
    }

    /// All that is known of `from` is from now on of `to`, and the other way round.
    pub(super) fn exchange(&mut self, from: Node, to: Node) {
        self.works.iter_mut().for_each(|work| work.exchange(from, to));
        self.seats.swap(from.index(), to.index());
        self.owner = None;
        self.visit.exchange(from, to);
        self.experts.iter_mut().for_each(|expert| expert.home = exchanged(expert.home, from, to));
    }
}
