//! User-level page migration: Nikolopoulos et al. 2000, section 3 and figure 1. Two policies of the table are this one:
//! `competitive` (sections 3.1, 3.3, 3.4) and `predictive`, which switches to equation (3) when threads move (3.2, and
//! the filter of section 4).
//!
//! At the end of each outer iteration, for each hot memory area and each page in it, a node i other than the home h is
//! a candidate if
//!
//! ```text
//! r_c(i, h) racc(i)  >  (r_u(i, h) / l_u) l_u lacc  +  ml              (1)
//! r_c(i, h) = r_u(i, h) + 50 ns c(h)                                  (2)
//! ```
//!
//! where racc and lacc are the counts of remote and local accesses, r_u and l_u the latencies of an uncontended remote
//! and local access, c(h) the number of nodes with more accesses than the home, and ml the latency of a migration. Of
//! several nodes the one with the highest ratio of remote to local latency wins. A page whose target was its home
//! before its first migration freezes (section 3.3). If an area's greatest latency of remote accesses, over nodes,
//! rises from one invocation to the next, the ratio r_u / l_u is multiplied by a constant for that area; an area
//! without candidates for several invocations is cold and skipped (3.4).
//!
//! After a thread has moved to node i, and until no page satisfies it, the criterion is (3):
//! racc(i, t) > racc(i, t - 1) and lacc(t) < lacc(t - 1) for iterations t - 1 and t; of several nodes the one with
//! most accesses wins. A move counts "if a thread migrates and stays on the same node for the execution of two
//! consecutive parallel constructs" (section 4).
//!
//! Left open by the paper, chosen here:
//! * Latencies are the machine's access costs; 50 ns are a sixth of the 300 ns of a local access, so `contention` is
//!   1/6 local references a node. ml is the cost of a page move; `migration-cost` 0 is the optimistic variant.
//! * The counts of (1) add up from the page's last migration on (the counters run on, and a migrated page has new
//!   ones); those of (3) are of one iteration.
//! * The counts of the iteration before are kept of cold areas too: a thread's move makes them warm, and (3) compares.
//! * A frozen page is free again when a move of a thread counts, since prevention assumes that threads stay.
//! * The constant of self-tuning is `selectivity` (1.1); `cold` (3) invocations without candidates make an area cold.
//! * An area is one that the program names, where it names any ([`crate::process::HotArea`]), and else an
//!   aligned block of `area-pages` (512) pages of addresses: the compiler that names arrays is not here.
//! * Constructs are the phases that the program marks. One ends where the next begins or the iteration ends. Threads
//!   are polled before and after each: a move is noticed at the first poll after it, and counts when `constructs`
//!   whole ones have run since with the thread still there. Without marks it counts at the end of the iteration.
//! * "The instrumentation excluded the first iteration" (section 5): the first `skip` (1) that end are left out, with
//!   all that came before. Their counts are dropped, and they make no area cold.
//! * Invocations make an area cold only once a node has used it from afar: while one thread sets memory up, there is
//!   nothing to select.
//! * When another number of threads does the work, any node may have taken some of it up: all are targets of (3).
//! * Programs without iterations are served at interval ends: section 2.3's sampling mechanism (`areas.rs`). The first
//!   iteration that ends is the end of that.

use super::counters::Counters;
use super::pages::Pages;
use super::prices::Prices;
use super::table::{restore, Begin, Entry, PolicySetup};
use super::{Context, Decides, End, Fault, Next, Policy, Sample, ThreadMoved, ThreadsChanged};
use crate::action::{Action, Actions, Kind, Outcome};
use crate::ids::{Node, Page, Time};
use crate::process::HotArea;
use areas::{Area, AreaKey, Areas, Wakes};
use moves::Moves;
use params::{AREA, COLD, CONSTRUCTS, CONTENTION, MIGRATION_COST, SELECTIVITY, SKIP, WAKE_EVERY, WAKE_PAGES};
use serde::{Deserialize, Serialize};

mod areas;
mod moves;
mod params;

/// The line of `competitive` in the table.
pub(super) const COMPETITIVE: Entry = Entry {
    name: "competitive",
    source: "Nikolopoulos 2000, sections 3.1, 3.3, 3.4; equations (1), (2)",
    summary: "after each iteration pages go where remote latency exceeds local; no ping-pong; self-tuning",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[MIGRATION_COST, CONTENTION, SELECTIVITY, COLD, SKIP, AREA, WAKE_PAGES, WAKE_EVERY],
    build: |setup| Box::new(UserLevel::new(setup, None)),
    restore: restore::<UserLevel>,
};

/// The line of `predictive` in the table.
pub(super) const PREDICTIVE: Entry = Entry {
    name: "predictive",
    source: "Nikolopoulos 2000, sections 3.2 and 4; equation (3)",
    summary: "as competitive, but forwards the pages of threads that moved",
    offline: false,
    replicates: false,
    begin: Begin::Given,
    params: &[MIGRATION_COST, CONTENTION, SELECTIVITY, COLD, SKIP, AREA, WAKE_PAGES, WAKE_EVERY, CONSTRUCTS],
    build: |setup| Box::new(UserLevel::new(setup, Some(setup.values.count("constructs")))),
    restore: restore::<UserLevel>,
};

/// What is known of one page.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct State {
    address: u64,
    area: AreaKey,
    /// The round of its area in which it was looked at last.
    round: u64,
    home: Node,
    /// Counts since the last migration, of this iteration, and of the one before.
    sum: Counters,
    now: Counters,
    before: Counters,
    /// The home before the last migration.
    was: Option<Node>,
    frozen: bool,
}

impl State {
    fn new(address: u64, area: AreaKey) -> State {
        State { address, area, ..State::default() }
    }
}

/// What an area may have of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tuning {
    migration_cost: f64,
    contention: f64,
    selectivity: f64,
    cold: u64,
}

/// Both policies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UserLevel {
    prices: Prices,
    tuning: Tuning,
    /// Constructs of equation (3)'s filter; none for the competitive criterion alone.
    constructs: Option<u64>,
    /// What the program and the monitor report.
    iterations: bool,
    phases: bool,
    /// First iterations that are still to be left out.
    skip: u64,
    pages: Pages<State>,
    areas: Areas,
    wakes: Wakes,
    moves: Moves,
    threads: u32,
    /// Nodes that threads moved to, while the predictive criterion is in use.
    targets: Vec<Node>,
    /// A page has satisfied the predictive criterion in this invocation.
    forwarded: bool,
}

impl UserLevel {
    fn new(setup: &PolicySetup, constructs: Option<u64>) -> UserLevel {
        let tuning = Tuning {
            migration_cost: setup.values.get("migration-cost"),
            contention: setup.values.get("contention"),
            selectivity: setup.values.get("selectivity"),
            cold: setup.values.count("cold"),
        };
        UserLevel {
            prices: Prices::new(setup.costs),
            tuning,
            constructs,
            iterations: false,
            phases: false,
            skip: setup.values.count("skip"),
            pages: Pages::default(),
            areas: Areas::new(setup.values.count("area-pages")),
            wakes: Wakes::new(setup.values.count("wake-pages"), setup.values.count("wake-every")),
            moves: Moves::new(constructs.unwrap_or(0)),
            threads: 0,
            targets: Vec::new(),
            forwarded: false,
        }
    }

    fn name(&self) -> &'static str {
        self.constructs.map_or(COMPETITIVE.name, |_| PREDICTIVE.name)
    }

    /// What the nodes' accesses to a page from afar take, by equation (2), and without what contention adds.
    fn remote<'a>(
        &'a self,
        counts: &'a Counters,
        home: Node,
        contention: f64,
    ) -> impl Iterator<Item = (Node, f64, f64)> + 'a {
        let local = counts.get(home);
        let contending = counts.iter().filter(|&(node, count)| node != home && count > local).count();
        counts.iter().filter(move |&(node, _)| node != home).map(move |(node, count)| {
            let uncontended = self.prices.access(node, home);
            (node, (uncontended + contention * contending as f64) * count, uncontended)
        })
    }

    /// Equations (1) and (2): where the page should go.
    fn competitive(&self, state: &State, tuning: &Tuning, factor: f64) -> Option<Node> {
        let (home, local) = (state.home, state.sum.get(state.home));
        let at_home = self.prices.access(home, home);
        let remotes = self.remote(&state.sum, home, tuning.contention);
        let candidates = remotes.filter_map(|(node, remote, uncontended)| {
            let moving = tuning.migration_cost * self.prices.copy(home, node);
            let local = at_home * local;
            (remote > uncontended / at_home * factor * local + moving).then_some((node, remote))
        });
        // The local latency is the same for all, so the highest ratio is the highest remote latency.
        candidates
            .reduce(|a, b| if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) { b } else { a })
            .map(|(node, _)| node)
    }

    /// Equation (3).
    fn predictive(&self, state: &State) -> Option<Node> {
        let home = state.home;
        if state.now.get(home) >= state.before.get(home) {
            return None;
        }
        let rises = |&(node, count): &(Node, f64)| {
            node != home && self.targets.contains(&node) && count > state.before.get(node)
        };
        let risen = state.now.iter().filter(rises);
        risen.reduce(|a, b| if b.1 > a.1 || (b.1 == a.1 && b.0 < a.0) { b } else { a }).map(|(node, _)| node)
    }

    /// Figure 1.
    fn invoke(&mut self, actions: &mut Actions) {
        let mut areas = std::mem::take(&mut self.areas);
        for area in areas.all() {
            if !area.is_cold() {
                self.serve(area, usize::MAX, actions);
            } else if self.constructs.is_some() {
                self.roll(area);
            }
        }
        self.areas = areas;
        self.invoked();
    }

    /// An iteration has ended for a cold area.
    fn roll(&mut self, area: &Area) {
        for &page in &area.pages {
            if let Some(state) = self.pages.get_mut(page) {
                state.before = std::mem::take(&mut state.now);
            }
        }
    }

    /// Figure 1, lines 2 to 20, for the next `most` pages of an area. Returns how many it was, and of them the
    /// candidates.
    fn serve(&mut self, area: &mut Area, most: usize, actions: &mut Actions) -> (usize, u64) {
        let predicts = !self.targets.is_empty();
        let mut pages = std::mem::take(&mut self.pages);
        let (some, last) = area.next_pages(most, &mut pages);
        let mut candidates = 0;
        for &page in &some {
            let Some(state) = pages.get_mut(page) else { continue };
            for (node, latency, _) in self.remote(&state.now, state.home, area.tuning.contention) {
                area.add_latency(node, latency);
            }
            let to = match predicts {
                true => self.predictive(state),
                false => self.competitive(state, &area.tuning, area.factor),
            };
            state.before = std::mem::take(&mut state.now);
            let Some(to) = to.filter(|_| predicts || !state.frozen) else { continue };
            candidates += 1;
            if predicts {
                self.forwarded = true;
                actions.push(page, Kind::Move { to }, "equation (3): its thread moved");
            } else if state.was == Some(to) {
                state.frozen = true;
                actions.push(page, Kind::Freeze, "would go back: ping-pong");
            } else {
                actions.push(page, Kind::Move { to }, "equation (1)");
            }
        }
        self.pages = pages;
        area.candidates += candidates;
        if last {
            area.round_ends(!predicts);
        }
        (some.len(), candidates)
    }

    /// All areas were served: if no page satisfies the predictive criterion, the competitive one is back.
    fn invoked(&mut self) {
        if !std::mem::take(&mut self.forwarded) {
            self.targets.clear();
        }
    }

    /// The sampling mechanism of section 2.3: some pages, area after area.
    fn wake(&mut self, actions: &mut Actions) {
        let Some(mut left) = self.wakes.due() else { return };
        let mut areas = std::mem::take(&mut self.areas);
        let (mut looked, mut candidates, mut over) = (0, 0, false);
        while left > 0 && !over {
            let Some(area) = areas.turn() else {
                over = true;
                continue;
            };
            let (pages, found) = self.serve(area, left, actions);
            (left, looked, candidates) = (left - pages, looked + pages as u64, candidates + found);
            areas.go_on();
        }
        self.areas = areas;
        self.wakes.looked(looked, candidates);
        if over {
            self.invoked();
        }
    }

    /// A thread's move to `to` counts: pages are free again, cold areas warm.
    fn count(&mut self, to: Node) {
        if !self.targets.contains(&to) {
            self.targets.push(to);
        }
        let mut areas = std::mem::take(&mut self.areas);
        for area in areas.all() {
            area.idle = 0;
            for &page in &area.pages {
                if let Some(state) = self.pages.get_mut(page) {
                    (state.frozen, state.was) = (false, None);
                }
            }
        }
        self.areas = areas;
        self.wakes.hurry();
    }

    /// Threads moved to these nodes for good.
    fn count_all(&mut self, nodes: Vec<Node>) {
        nodes.into_iter().for_each(|to| self.count(to));
    }

    /// An iteration is left out, with all that came before: no count of it is kept, and it says nothing of areas.
    fn leave_out(&mut self) {
        let mut areas = std::mem::take(&mut self.areas);
        for area in areas.all() {
            area.forget_rounds();
            for &page in &area.pages {
                if let Some(state) = self.pages.get_mut(page) {
                    state.sum.clear();
                    state.now.clear();
                    state.before.clear();
                }
            }
        }
        self.areas = areas;
    }

    fn list(&mut self, page: Page, address: u64) -> &mut Area {
        let area = self.areas.of(address, self.tuning);
        area.pages.push(page);
        area
    }
}

impl Policy for UserLevel {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }

    fn begin(&mut self, context: &Context) {
        self.areas.page_bytes = context.page_bytes;
        (self.iterations, self.phases) = (context.iterations, context.phases);
    }

    fn decides(&self) -> Decides {
        Decides::AtEnds
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn areas(&mut self, hot: &[HotArea]) {
        let (name, given) = (self.name(), self.tuning);
        let known = self.areas.name(hot, |area| given.of(area, name));
        for page in known {
            let Some(state) = self.pages.get_mut(page) else { continue };
            let (address, area) = (state.address, self.areas.key(state.address));
            (state.area, state.round) = (area, 0);
            self.list(page, address);
        }
    }

    fn page_new(&mut self, page: Page, address: u64) {
        let area = self.areas.key(address);
        *self.pages.entry(page, State::default) = State::new(address, area);
        self.list(page, address).idle = 0;
    }

    fn page_forget(&mut self, page: Page, address: u64) {
        let area = self.areas.key(address);
        match self.pages.get_mut(page) {
            Some(state) => *state = State { round: state.round, ..State::new(address, area) },
            None => self.page_new(page, address),
        }
    }

    fn sample(&mut self, sample: &Sample, _actions: &mut Actions) {
        let state = self.pages.entry(sample.page, State::default);
        state.home = sample.at.home();
        let count = (sample.reads + sample.writes) as f64 * sample.weight;
        state.sum.add(sample.node, count);
        state.now.add(sample.node, count);
    }

    fn iteration_end(&mut self, _end: &End, actions: &mut Actions) {
        self.iterations = true;
        let lasted = if self.phases { self.moves.construct_ends() } else { self.moves.all() };
        self.count_all(lasted);
        match self.skip.checked_sub(1) {
            Some(left) => {
                self.skip = left;
                self.leave_out();
            }
            None => self.invoke(actions),
        }
    }

    fn interval_end(&mut self, _end: &End, actions: &mut Actions) {
        if self.iterations {
            return;
        }
        if !self.phases {
            let moved = self.moves.all();
            self.count_all(moved);
        }
        self.wake(actions);
    }

    fn phase_begin(&mut self, _phase: u32, _time: Time, _actions: &mut Actions) {
        self.phases = true;
        let lasted = self.moves.construct_begins();
        self.count_all(lasted);
    }

    fn thread_moved(&mut self, moved: &ThreadMoved, _actions: &mut Actions) {
        if self.constructs.is_some() {
            self.moves.moved(moved);
        }
    }

    fn threads_changed(&mut self, changed: &ThreadsChanged, _actions: &mut Actions) {
        let before = std::mem::replace(&mut self.threads, changed.threads);
        if self.constructs.is_some() && before > 0 && before != changed.threads {
            (0..self.prices.memories()).for_each(|node| self.count(Node(node)));
        }
    }

    fn forwards(&self) -> bool {
        self.constructs.is_some()
    }

    fn page_gone(&mut self, page: Page) {
        self.pages.remove(page);
    }

    fn outcome(&mut self, action: &Action, outcome: &Outcome) {
        if let (Kind::Move { to }, Outcome::Done) = (action.kind, outcome) {
            let Some(state) = self.pages.get_mut(action.page) else { return };
            state.was = Some(std::mem::replace(&mut state.home, to));
            state.sum.clear();
        }
    }

    /// Areas and the choice of the criterion join pages.
    fn independent(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
