//! Simulates the experts, names the leader, and says what the page should do.

use super::super::prices::Prices;
use super::super::work_function::Rule as Eagerness;
use super::expert::{rule, scale, Rule, EXPERTS, FIRST_LEADER, SCALES, UNFORESEEN};
use super::page::State;
use super::pools::Losses;
use super::replay::{Ahead, Measure};
use crate::action::{Actions, Kind, Locations};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use serde::{Deserialize, Serialize};

/// What remote references may cost, in page moves, before the experts are compared again.
const RECHECK: f64 = 0.25;

/// What the expert that never moves may owe, in page moves. Beyond it nobody counts: if the page comes to be shared by
/// all, this number of wasted moves brings it back.
const DEBT: f64 = 8.0;

/// Page moves that a page's best expert has paid when what other pages say counts half.
const NOVICE: f64 = 4.0;

/// The most that one sample counts, in page moves. What it stands for need not be one visit: where samples are rarer
/// than moves are expensive, a page that several nodes use would follow every one of them.
const SAMPLE_LIMIT: f64 = 0.6;

/// Sums of prices are compared with this relative tolerance.
const EPSILON: f64 = 1e-9;

/// The work function algorithm's.
const CAUTIOUS: Eagerness = Eagerness { eagerness: -1.0 };

/// Parameters and prices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Judge {
    /// Where a move costs each of [`SCALES`]; the first are the machine's own.
    scaled: [Prices; SCALES.len()],
    replication: bool,
    hysteresis: f64,
    catch_up: Eagerness,
    /// The cheapest page move.
    unit: f64,
    /// By node: remote reads that cost as much as the cheapest page move.
    read_gaps: Vec<f64>,
}

/// A copy that a rule wants.
#[derive(Clone, Copy, PartialEq)]
enum Wish {
    /// Beside the others.
    Replica(Node),
    /// Instead of them.
    Home(Node),
}

impl Wish {
    /// A copy at `to`: a replica if it is the reader's, `by`, and may stand beside others.
    fn new(to: Node, by: Node, beside: bool) -> Wish {
        if beside && to == by {
            Wish::Replica(by)
        } else {
            Wish::Home(to)
        }
    }
}

impl Judge {
    pub(super) fn new(costs: &Costs, replication: bool, hysteresis: f64, catch_up: f64) -> Judge {
        let prices = Prices::new(costs);
        let unit = prices.least_copy();
        let gap = |by| match prices.highest_loss(Node(by)) {
            loss if loss > 0.0 => unit / loss,
            _ => f64::INFINITY,
        };
        Judge {
            replication,
            hysteresis,
            catch_up: Eagerness { eagerness: catch_up },
            unit,
            read_gaps: (0..prices.memories()).map(gap).collect(),
            scaled: SCALES.map(|scale| prices.clone().with_moves_at(scale)),
        }
    }

    /// The same with prices that [`Judge::raise`] can change.
    pub(super) fn into_general(mut self) -> Judge {
        self.scaled = self.scaled.map(Prices::into_general);
        self
    }

    /// The same where references from other nodes cost so much more at each memory.
    pub(super) fn raise(mut self, by_memory: &[f64]) -> Judge {
        self.scaled.iter_mut().for_each(|prices| prices.raise(by_memory));
        self
    }

    /// The machine's prices.
    #[inline]
    fn prices(&self) -> &Prices {
        &self.scaled[0]
    }

    /// A page that begins at `start`; `prior` is what other pages say about the experts.
    pub(super) fn begin(&self, start: Node, prior: &Losses) -> State {
        let mut state = State::new(&self.scaled, start);
        self.elect(&mut state, start, prior);
        state
    }

    /// What the experts lost since they had paid `before`, in page moves; `None` if nothing.
    pub(super) fn lost(&self, state: &State, before: &[f64; EXPERTS]) -> Option<Losses> {
        let now = state.paid();
        let per_move = 1.0 / self.unit;
        (now != *before)
            .then(|| std::array::from_fn(|index| ((now[index] - before[index]) * per_move) as f32))
    }

    /// What an expert wants at a reference from `by`, a node where it has no copy.
    fn wish(&self, state: &State, expert: usize, by: Node, write: bool) -> Option<Wish> {
        let home = state.experts[expert].home;
        let beside = self.replication && !write;
        match rule(expert) {
            Rule::Never => None,
            Rule::AtOnce => (self.loss(by, home) > 0.0).then(|| Wish::new(by, by, beside)),
            Rule::Weighs(scale) => self.weigh(state, scale, home, by, beside),
            Rule::Replays => match state.track.ahead(self.measure(by)) {
                Some(ahead) => self.foresee(&ahead, home, by, beside),
                None => self.weigh(state, UNFORESEEN, home, by, beside),
            },
        }
    }

    /// What the past is worth, where a page move costs a share of its price.
    fn weigh(&self, state: &State, scale: usize, home: Node, by: Node, beside: bool) -> Option<Wish> {
        let to = CAUTIOUS.target(&self.scaled[scale], &state.works[scale], home, by);
        let enough = || beside && self.has_read_enough(state, scale, home, by);
        to.map(|to| Wish::new(to, by, beside)).or_else(|| enough().then_some(Wish::Replica(by)))
    }

    /// What the future is worth.
    fn foresee(&self, ahead: &Ahead, home: Node, by: Node, beside: bool) -> Option<Wish> {
        if beside && ahead.undisturbed * self.loss(by, home) >= self.prices().copy(home, by) {
            return Some(Wish::Replica(by));
        }
        let to = CAUTIOUS.target(self.prices(), &ahead.to_go, home, by)?;
        Some(Wish::new(to, by, beside))
    }

    /// References of `by` that one sample of `weight` references stands for. Where pages have replicas, the reads of
    /// several nodes do not exclude each other.
    #[inline]
    pub(super) fn counted(&self, weight: f64, by: Node, write: bool) -> f64 {
        if self.replication && !write {
            return weight;
        }
        weight.min(self.most_told(by))
    }

    /// The most that one sample of `by` counts, in references.
    #[inline]
    pub(super) fn most_told(&self, by: Node) -> f64 {
        (SAMPLE_LIMIT * self.read_gaps[by.index()]).max(1.0)
    }

    /// What visits of `by` are measured by.
    #[inline]
    fn measure(&self, by: Node) -> Measure<'_> {
        let (prices, gap) = (self.prices(), self.read_gaps[by.index()]);
        Measure { prices, gap, replication: self.replication }
    }

    /// References from `by` belong to the page's visits.
    #[inline]
    pub(super) fn follow(&self, state: &mut State, by: Node, count: f64, wrote: bool) {
        state.track.turn(by, self.measure(by));
        state.track.extend(count, wrote);
    }

    /// What the page wants to catch up with its leader, who is at `by`.
    fn wish_to_catch_up(&self, state: &State, home: Node, by: Node, write: bool) -> Option<Wish> {
        let beside = self.replication && !write;
        if let Some(to) = self.catch_up.target(self.prices(), &state.works[0], home, by) {
            return Some(Wish::new(to, by, beside));
        }
        (beside && self.has_read_enough(state, 0, home, by)).then_some(Wish::Replica(by))
    }

    /// True if the reads of `by` since the last write have cost [`enough_reading`].
    fn has_read_enough(&self, state: &State, scale: usize, home: Node, by: Node) -> bool {
        let lost = f64::from(state.seats[by.index()].reads) * self.loss(by, home);
        lost >= enough_reading(scale) * self.prices().copy(home, by) * (1.0 - EPSILON)
    }

    /// What a reference from `by` costs beyond a local one.
    #[inline]
    fn loss(&self, by: Node, home: Node) -> f64 {
        self.prices().access(by, home) - self.prices().access(by, by)
    }

    /// The one of an expert's copies that a write by `by` leaves.
    fn keep(&self, state: &State, expert: usize, by: Node) -> Node {
        let Rule::Weighs(scale) = rule(expert) else { return by };
        let (prices, work) = (&self.scaled[scale], &state.works[scale]);
        let cost = |node: &Node| work.value(prices, *node) + prices.access(by, *node);
        let nodes = (0..prices.memories()).map(Node).filter(|&node| state.holds(expert, node));
        nodes.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(by)
    }

    /// A reference from `by` is coming: lets each expert act first. Returns what the leader wished.
    fn advance(&self, state: &mut State, by: Node, write: bool) -> Option<Wish> {
        state.track.turn(by, self.measure(by));
        let mut led = None;
        for index in 0..EXPERTS {
            let wish = self.act(state, index, by, write);
            if index == state.leader() {
                led = wish;
            }
        }
        led
    }

    fn act(&self, state: &mut State, index: usize, by: Node, write: bool) -> Option<Wish> {
        let mut wish = None;
        if !state.holds(index, by) {
            wish = self.wish(state, index, by, write);
            let home = state.experts[index].home;
            match wish {
                Some(Wish::Replica(to)) => {
                    state.experts[index].paid += self.prices().copy(home, to);
                    state.add_copy(index, to);
                }
                Some(Wish::Home(to)) => {
                    state.experts[index].paid += self.prices().copy(home, to);
                    state.set_home(index, to);
                }
                None => {}
            }
        }
        if write && state.experts[index].replicas > 0 {
            state.set_home(index, self.keep(state, index, by));
        }
        wish
    }

    /// Gives the lead to the expert that paid least, other pages considered, if it paid less by the hysteresis.
    pub(super) fn elect(&self, state: &mut State, by: Node, prior: &Losses) {
        let own = state.experts.iter().map(|expert| expert.paid).fold(f64::INFINITY, f64::min) / self.unit;
        let trust = self.unit * NOVICE / (NOVICE + own);
        let paid = |index: usize| state.experts[index].paid + f64::from(prior[index]) * trust;
        let best = (0..EXPERTS).min_by(|&a, &b| paid(a).total_cmp(&paid(b))).unwrap_or(FIRST_LEADER);
        let leader = state.leader();
        let margin = self.hysteresis * self.prices().copy(state.experts[leader].home, by).max(self.unit);
        if paid(leader) - paid(best) >= margin {
            state.leader = best as u8;
        }
    }

    /// True if references from `by` change nothing but the count of reads: the page is there, every expert that matters
    /// has it there, and no work function changes.
    #[inline]
    pub(super) fn is_routine(&self, state: &State, at: Locations, by: Node, write: bool) -> bool {
        let single = !write || at.copies() == 1;
        let counted = || f64::from(state.seats[by.index()].reads) >= self.read_gaps[by.index()];
        let known = state.owner == Some(by) || (self.replication && !write && counted());
        known && at.holds(by) && single && self.is_settled(state, by, write)
    }

    /// True if a reference from `by` is local to every expert that matters and moves none.
    #[inline]
    pub(super) fn is_settled(&self, state: &State, by: Node, write: bool) -> bool {
        state.settled_but_for_never(by, write, DEBT * self.unit)
    }

    /// Takes references that are [routine](Judge::is_routine).
    #[inline]
    pub(super) fn count(&self, state: &mut State, by: Node, reads: f64, writes: f64) {
        if writes > 0.0 {
            state.end_epoch();
        } else if self.replication {
            self.count_reads(state, by, reads);
        }
    }

    fn count_reads(&self, state: &mut State, by: Node, count: f64) {
        let (seat, gap) = (&mut state.seats[by.index()], self.read_gaps[by.index()]);
        seat.reads = (f64::from(seat.reads) + count).min(4.0 * gap) as f32;
        state.read = true;
    }

    /// Charges the experts and the work functions for references from `by`. Reads too far from the writes to be among
    /// them come first.
    pub(super) fn charge(&self, state: &mut State, by: Node, reads: f64, writes: f64) {
        // With replication, more reads than this in a row are worth a replica.
        let gap = if self.replication { self.read_gaps[by.index()] } else { f64::INFINITY };
        let loose = if writes > 0.0 { (reads - writes * gap).max(0.0) } else { reads };
        if loose > 0.0 {
            self.charge_stretch(state, by, loose, !self.replication);
        }
        if writes > 0.0 {
            self.advance(state, by, true);
            state.end_epoch();
            self.charge_stretch(state, by, reads + writes - loose, true);
        }
    }

    /// References in stretches that end where an expert acts. `single`: they need, or count as if they needed, a single
    /// copy.
    fn charge_stretch(&self, state: &mut State, by: Node, count: f64, single: bool) {
        let mut left = count;
        // No expert waits for less.
        let least = SCALES[SCALES.len() - 1] * self.read_gaps[by.index()];
        while left > 0.0 {
            let stretch = if left <= least { left } else { left.min(self.patience(state, by, None) as f64) };
            for index in 0..EXPERTS {
                if !state.holds(index, by) {
                    let home = state.experts[index].home;
                    state.experts[index].paid += stretch * self.loss(by, home);
                }
            }
            self.serve(state, by, stretch, single);
            left -= stretch;
            if left > 0.0 {
                self.advance(state, by, single && self.replication);
            }
        }
    }

    /// References from `by` enter the work functions. Reads count up to the price of a replica in each epoch: all
    /// placements but those with a copy here pay that at most.
    fn serve(&self, state: &mut State, by: Node, count: f64, single: bool) {
        self.follow(state, by, count, single);
        let mut counted = count;
        if !single {
            let room = self.read_gaps[by.index()] - f64::from(state.seats[by.index()].reads);
            counted = count.min(room.max(0.0));
            self.count_reads(state, by, count);
        }
        if counted > 0.0 && state.owner != Some(by) {
            let mut works = state.works.iter_mut().zip(&self.scaled);
            works.by_ref().for_each(|(work, prices)| work.serve(prices, by, counted));
            let mut works = state.works.iter().zip(&self.scaled);
            state.owner = works.all(|(work, prices)| work.belongs_to(prices, by)).then_some(by);
        }
    }

    /// True if `node` alone matters to the page, and the leader has it there.
    pub(super) fn belongs(&self, state: &State, node: Node) -> bool {
        state.experts[state.leader()].home == node && state.works[0].belongs_to(self.prices(), node)
    }

    /// References from `by` until something could change for an expert, or for the page if it is at `at`. As long as
    /// one of them refers remotely, no more than cost a part of a page move: another may deserve the lead by then.
    pub(super) fn patience(&self, state: &State, by: Node, at: Option<Locations>) -> u64 {
        let mut least = (RECHECK * self.read_gaps[by.index()]).ceil().max(1.0) as u64;
        let mut settled = true;
        if let Some(at) = at.filter(|at| !at.holds(by)) {
            settled = false;
            let by_work = self.catch_up.patience(self.prices(), &state.works[0], at.home(), by);
            least = least.min(by_work).min(self.until_read_enough(state, 0, at.home(), by));
        }
        for index in (0..EXPERTS).filter(|&index| !state.holds(index, by)) {
            settled = false;
            if let Some(scale) = scale(rule(index)) {
                let (prices, work) = (&self.scaled[scale], &state.works[scale]);
                let home = state.experts[index].home;
                let by_work = CAUTIOUS.patience(prices, work, home, by);
                least = least.min(by_work).min(self.until_read_enough(state, scale, home, by));
            }
            let unknown = state.track.until_visit(self.measure(by));
            if rule(index) == Rule::Replays && unknown > 0.0 {
                least = least.min(unknown.ceil() as u64);
            }
        }
        if settled {
            u64::MAX
        } else {
            least
        }
    }

    /// Reads until [`Judge::has_read_enough`].
    fn until_read_enough(&self, state: &State, scale: usize, home: Node, by: Node) -> u64 {
        let loss = self.loss(by, home);
        if !self.replication || loss <= 0.0 {
            return u64::MAX;
        }
        let enough = enough_reading(scale) * self.prices().copy(home, by) / loss;
        match enough - f64::from(state.seats[by.index()].reads) {
            missing if missing > 0.0 => (missing * (1.0 - EPSILON)).ceil().max(1.0) as u64,
            _ => u64::MAX,
        }
    }

    /// Asks for what the page should do at a reference from `by`. Returns where it then is.
    pub(super) fn decide(
        &self,
        state: &mut State,
        page: Page,
        at: Locations,
        by: Node,
        write: bool,
        actions: &mut Actions,
    ) -> Locations {
        let led = if state.settled(by, write) { None } else { self.advance(state, by, write) };
        if !at.holds(by) {
            let wish = led.map(|wish| (wish, "the leader moved")).or_else(|| {
                let wish = self.wish_to_catch_up(state, at.home(), by, write)?;
                let (Wish::Replica(to) | Wish::Home(to)) = wish;
                state.holds(state.leader(), to).then_some((wish, "the leader is there"))
            });
            match wish {
                Some((Wish::Replica(to), reason)) => {
                    actions.push(page, Kind::Replicate { to }, reason);
                    return at.with_replica(to);
                }
                Some((Wish::Home(to), reason)) if Locations::single(to) != at => {
                    actions.push(page, Kind::Move { to }, reason);
                    return Locations::single(to);
                }
                _ => {}
            }
        }
        if write && at.copies() > 1 {
            let home = state.experts[state.leader()].home;
            let candidates = [by, home, at.home()];
            let keep = candidates.into_iter().find(|&node| at.holds(node)).unwrap_or(at.home());
            actions.push(page, Kind::Collapse { keep }, "a write needs a single copy");
            return Locations::single(keep);
        }
        at
    }
}

/// What reads since the last write may cost before they are worth a replica, in page moves: as much as the rule takes a
/// move to cost, half a move at most. A page that was read for long without a write will mostly be read on.
fn enough_reading(scale: usize) -> f64 {
    SCALES[scale].min(0.5)
}
