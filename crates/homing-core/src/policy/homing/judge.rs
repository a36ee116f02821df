//! Simulates the experts, names the leader, and says what the page should do.

use super::super::prices::Prices;
use super::super::work_function::Rule as Eagerness;
use super::expert::{Wish, EXPERTS, FORESEES, NEVER, SCALES, VISITS};
use super::page::{State, ALL};
use super::pools::Losses;
use super::visits::{Known, Measure};
use super::Parameters;
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

/// What reads since the last write may cost before they are worth a replica, in page moves. A page that was read for
/// long without a write will mostly be read on.
const ENOUGH_READING: f64 = 0.5;

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
    /// Whether pages learn from each other how long visits last.
    pooling: bool,
    /// The cheapest page move.
    unit: f64,
    /// By node: remote reads that cost as much as the cheapest page move.
    read_gaps: Vec<f64>,
    /// The same of the nearest other memory: far ones, where no page may be, do not make samples count less, nor visits
    /// look longer.
    near_gaps: Vec<f64>,
}

/// Who refers to a page, whether it writes, and references that come with this one.
type Reference = (Node, bool, f64);

impl Judge {
    pub(super) fn new(costs: &Costs, replication: bool, parameters: &Parameters) -> Judge {
        let prices = Prices::new(costs);
        let unit = prices.least_copy();
        let worth = |loss| if loss > 0.0 { unit / loss } else { f64::INFINITY };
        let gaps =
            |loss: &dyn Fn(Node) -> f64| (0..prices.memories()).map(|by| worth(loss(Node(by)))).collect();
        Judge {
            replication,
            hysteresis: parameters.hysteresis,
            catch_up: Eagerness { eagerness: parameters.catch_up },
            pooling: parameters.pooling,
            unit,
            read_gaps: gaps(&|by| prices.highest_loss(by)),
            near_gaps: gaps(&|by| prices.lowest_loss(by)),
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
    pub(super) fn begin(&self, page: Page, start: Node, prior: &Losses) -> State {
        let mut state = State::new(page, &self.scaled, start);
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

    /// What an expert wants at a reference from `by`, a node where it has no copy. `coming`: what it stands for.
    fn wish(&self, state: &State, expert: usize, on: Reference) -> Option<Wish> {
        let (by, write, coming) = on;
        let (home, beside) = (state.experts[expert].home, self.replication && !write);
        if expert == NEVER {
            return None;
        }
        let seat = &state.seats[by.index()];
        if expert == FORESEES && self.pooling {
            if state.visit.node == by && state.visit.left(home) <= 0.0 {
                return Some(Wish::new(by, by, beside));
            }
            if beside && seat.reads.left(home) <= coming {
                return Some(Wish::Replica(by));
            }
        }
        self.wish_by_past(CAUTIOUS, state, home, on)
    }

    /// What goes by the work function, this eagerly, and by reads wants with a copy at `home`.
    fn wish_by_past(&self, rule: Eagerness, state: &State, home: Node, on: Reference) -> Option<Wish> {
        let ((by, write, _), work) = (on, &state.works[0]);
        let beside = self.replication && !write;
        let to = rule.target(self.prices(), work, home, by).map(|to| Wish::new(to, by, beside));
        to.or_else(|| (beside && self.has_read_enough(state, home, by)).then_some(Wish::Replica(by)))
    }

    /// References of `by` until [`Judge::wish_by_past`] could want something.
    fn until_wish(&self, rule: Eagerness, state: &State, home: Node, by: Node) -> u64 {
        let by_work = rule.patience(self.prices(), &state.works[0], home, by);
        by_work.min(self.until_read_enough(state, home, by))
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
        (SAMPLE_LIMIT * self.near_gaps[by.index()]).max(1.0)
    }

    /// What visits of `by` to a page are measured by.
    #[inline]
    fn measure(&self, page: Page, by: Node) -> Measure {
        let [_, worth] = SCALES;
        let gap = self.near_gaps[by.index()];
        let short = (worth * gap).max(1.0);
        let worth = short / gap;
        Measure { page, foresees: self.pooling, nodes: self.prices().memories(), short, worth }
    }

    /// True if more references of `by` say nothing more of the page's visits.
    #[inline]
    pub(super) fn knows(&self, state: &State, by: Node) -> bool {
        !self.pooling || state.visit.is_known(by)
    }

    /// `count` references from `by` belong to the page's visit, if it is one of that node or becomes one.
    #[inline]
    pub(super) fn follow(&self, state: &mut State, known: &mut Known, by: Node, mut count: f64) {
        if !self.pooling {
            return;
        }
        let measure = self.measure(state.page, by);
        if state.visit.node != by {
            let until = self.until_visit(state, by).max(0.0);
            if count < until {
                return;
            }
            count -= until;
            state.visit.turn(by, measure.short, &mut state.seats, known, measure);
        }
        state.visit.extend(count, &mut state.seats[by.index()].past, known, measure);
    }

    /// A reference from `by` is coming: how long should the expert that goes by visits wait?
    #[inline]
    fn look_ahead(&self, state: &mut State, known: &mut Known, (by, write, coming): Reference) {
        if state.visit.node != by && self.pooling && self.until_visit(state, by) <= coming {
            let measure = self.measure(state.page, by);
            state.visit.turn(by, measure.short, &mut state.seats, known, measure);
        }
        let (home, measure) = (state.experts[FORESEES].home, self.measure(state.page, by));
        if home == by || !self.pooling {
            return;
        }
        let price = self.prices().copy(home, by) / self.loss(by, home).max(f64::MIN_POSITIVE);
        let seat = &mut state.seats[by.index()];
        if state.visit.node == by {
            state.visit.ask((home, price), &seat.past, known, measure);
        }
        // A write makes no replica, and where nobody reads it would leave what was asked for.
        if self.replication && !write {
            seat.reads.ask(by, (home, price), &state.reading, &known.reading, measure);
        }
    }

    /// References of `by` until a visit of that node begins; 0 or less if it does.
    #[inline]
    fn until_visit(&self, state: &State, by: Node) -> f64 {
        let (prices, visiting) = (&self.scaled[VISITS], state.visit.node);
        let missing = prices.copy(visiting, by) - state.works[VISITS].advantage(prices, visiting, by);
        (missing - prices.copy(visiting, by) * EPSILON) / self.loss(by, visiting).max(f64::MIN_POSITIVE)
    }

    /// True if the reads of `by` since the last write have cost [`ENOUGH_READING`].
    fn has_read_enough(&self, state: &State, home: Node, by: Node) -> bool {
        let lost = f64::from(state.seats[by.index()].reads.count) * self.loss(by, home);
        lost >= ENOUGH_READING * self.prices().copy(home, by) * (1.0 - EPSILON)
    }

    /// What a reference from `by` costs beyond a local one.
    #[inline]
    fn loss(&self, by: Node, home: Node) -> f64 {
        self.prices().access(by, home) - self.prices().access(by, by)
    }

    /// The one of an expert's copies that a write by `by` leaves.
    fn keep(&self, state: &State, expert: usize, by: Node) -> Node {
        if expert == FORESEES && state.holds(expert, by) {
            return by;
        }
        let (prices, work) = (self.prices(), &state.works[0]);
        let cost = |node: &Node| work.value(prices, *node) + prices.access(by, *node);
        let nodes = (0..prices.memories()).map(Node).filter(|&node| state.holds(expert, node));
        nodes.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(by)
    }

    /// A reference from `by` is coming: lets each expert act first. Returns what the leader wished.
    fn advance(&self, state: &mut State, known: &mut Known, on: Reference) -> Option<Wish> {
        self.look_ahead(state, known, on);
        let mut led = None;
        for index in 0..EXPERTS {
            let wish = self.act(state, index, on);
            if index == state.leader() {
                led = wish;
            }
        }
        led
    }

    fn act(&self, state: &mut State, index: usize, on: Reference) -> Option<Wish> {
        let (by, write, _) = on;
        let mut wish = None;
        if !state.holds(index, by) {
            wish = self.wish(state, index, on);
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
        let place = |index: usize| state.works[0].value(self.prices(), state.experts[index].home);
        let paid = |index: usize| state.experts[index].paid + place(index) + f64::from(prior[index]) * trust;
        let best = (0..EXPERTS).min_by(|&a, &b| paid(a).total_cmp(&paid(b))).unwrap_or(FORESEES);
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
        let counted = || f64::from(state.seats[by.index()].reads.count) >= self.read_gaps[by.index()];
        let known = state.owner == Some(by) || (self.replication && !write && counted());
        known && at.holds(by) && single && self.is_settled(state, by, write)
    }

    /// As [`State::settled`], but the expert that never moves may be left behind once it has paid that much more.
    #[inline]
    pub(super) fn is_settled(&self, state: &State, by: Node, write: bool) -> bool {
        let lost = state.experts[NEVER].paid >= state.experts[state.leader()].paid + DEBT * self.unit;
        let holders = state.seats[by.index()].holders | u8::from(lost) << NEVER;
        holders == ALL && (!write || state.single())
    }

    /// Takes references that are [routine](Judge::is_routine).
    #[inline]
    pub(super) fn count(&self, state: &mut State, known: &mut Known, by: Node, reads: f64, writes: f64) {
        if writes > 0.0 {
            self.end_epoch(state, known, by);
        } else if self.replication {
            state.seats[by.index()].reads.count(reads, 4.0 * self.near_gaps[by.index()]);
            state.read = true;
        }
    }

    /// A write of `by`: reads count anew.
    fn end_epoch(&self, state: &mut State, known: &mut Known, by: Node) {
        if !std::mem::take(&mut state.read) {
            return;
        }
        for (node, seat) in (0..).map(Node).zip(&mut state.seats) {
            let measure = self.measure(state.page, node);
            seat.reads.end(node, node == by, &mut state.reading, &mut known.reading, measure);
        }
    }

    /// Charges the experts and the work functions for references from `by`. Reads too far from the writes to be among
    /// them come first.
    pub(super) fn charge(&self, state: &mut State, known: &mut Known, by: Node, reads: f64, writes: f64) {
        // With replication, more reads than this in a row are worth a replica.
        let gap = if self.replication { self.read_gaps[by.index()] } else { f64::INFINITY };
        let loose = if writes > 0.0 { (reads - writes * gap).max(0.0) } else { reads };
        if loose > 0.0 {
            self.charge_stretch(state, known, by, loose, !self.replication);
        }
        if writes > 0.0 {
            self.advance(state, known, (by, true, 0.0));
            self.end_epoch(state, known, by);
            self.charge_stretch(state, known, by, reads + writes - loose, true);
        }
    }

    /// References in stretches that end where an expert acts. `single`: they need, or count as if they needed, a single
    /// copy.
    fn charge_stretch(&self, state: &mut State, known: &mut Known, by: Node, count: f64, single: bool) {
        let mut left = count;
        // No expert waits for less.
        let least = SCALES[VISITS] * self.read_gaps[by.index()];
        while left > 0.0 {
            let stretch = if left <= least { left } else { left.min(self.patience(state, by, None) as f64) };
            for index in 0..EXPERTS {
                if !state.holds(index, by) {
                    let home = state.experts[index].home;
                    state.experts[index].paid += stretch * self.loss(by, home);
                }
            }
            self.serve(state, known, by, stretch, single);
            left -= stretch;
            if left > 0.0 {
                self.advance(state, known, (by, single && self.replication, 0.0));
            }
        }
    }

    /// References from `by` enter the work functions. Reads count up to the price of a replica in each epoch: all
    /// placements but those with a copy here pay that at most.
    fn serve(&self, state: &mut State, known: &mut Known, by: Node, count: f64, single: bool) {
        self.follow(state, known, by, count);
        let mut counted = count;
        if !single {
            let room = self.read_gaps[by.index()] - f64::from(state.seats[by.index()].reads.count);
            counted = count.min(room.max(0.0));
            let (seat, most) = (&mut state.seats[by.index()], 4.0 * self.near_gaps[by.index()]);
            let measure = self.measure(state.page, by);
            seat.reads.extend((by, count, most), &mut state.reading, &mut known.reading, measure);
            state.read = true;
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
            least = least.min(self.until_wish(self.catch_up, state, at.home(), by));
        }
        for index in (0..EXPERTS).filter(|&index| !state.holds(index, by)) {
            settled = false;
            if index == NEVER {
                continue;
            }
            let home = state.experts[index].home;
            least = least.min(self.until_wish(CAUTIOUS, state, home, by));
            if index == FORESEES && self.pooling {
                let visit = match state.visit.node == by {
                    true => state.visit.left(home),
                    false => self.until_visit(state, by),
                };
                let left = visit.min(state.seats[by.index()].reads.left(home));
                least = least.min(left.ceil().clamp(1.0, u64::MAX as f64) as u64);
            }
        }
        if settled {
            u64::MAX
        } else {
            least
        }
    }

    /// Reads until [`Judge::has_read_enough`].
    fn until_read_enough(&self, state: &State, home: Node, by: Node) -> u64 {
        let loss = self.loss(by, home);
        if !self.replication || loss <= 0.0 {
            return u64::MAX;
        }
        let enough = ENOUGH_READING * self.prices().copy(home, by) / loss;
        match enough - f64::from(state.seats[by.index()].reads.count) {
            missing if missing > 0.0 => (missing * (1.0 - EPSILON)).ceil().max(1.0) as u64,
            _ => u64::MAX,
        }
    }

    /// Asks for what the page should do at a reference from `by`. Returns where it then is.
    pub(super) fn decide(
        &self,
        state: &mut State,
        known: &mut Known,
        at: Locations,
        on: Reference,
        actions: &mut Actions,
    ) -> Locations {
        let (page, (by, write, _)) = (state.page, on);
        let led = if state.settled(by, write) { None } else { self.advance(state, known, on) };
        if !at.holds(by) {
            let wish = led.map(|wish| (wish, "the leader moved")).or_else(|| {
                let wish = self.wish_by_past(self.catch_up, state, at.home(), on)?;
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
