//! What the live driver does around the session (homing-live, `session/`), step by step, against a simulated kernel.

use super::threads::id;
use super::{is_huge, nodes, On, Point, World, PROCESS};
use crate::input::{Access, AccessKind, Answer, Landed, Looked, Noticed, Scanned, SplitResult};
use crate::output::{Decided, HugePage, Order, Output, Question, RecordedOutcome, Settlement};
use crate::{Input, INTERVAL, PAGE};
use homing_core::action::{Action, Entry, Kind, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Micros, Node, Page, Thread, Time};
use homing_core::monitor::kernel::AT_ONCE;
use homing_core::monitor::NO_HOME;
use homing_core::time::{Mover, Times, Work};
use std::borrow::Cow;
use std::collections::VecDeque;

/// The target node is full.
const ENOMEM: i32 = 12;
/// The page is in no memory.
const ENOENT: i32 = 2;
/// Threads of a trace stay where its schedule puts them.
const EPERM: i32 = 1;

impl World<'_, '_> {
    /// One interval's work.
    pub(super) fn step(&mut self) {
        if self.threads.take_began() {
            self.feed(Input::Noticed(Noticed::ThreadsBegan));
        }
        let arrivals = self.threads.take_arrivals();
        if !arrivals.is_empty() {
            self.feed(Input::Migrated(arrivals));
        }
        // The driver notices that refused moves could be made (homing-live, `session/mod.rs`).
        if !self.open && self.clock.now() >= self.kernel.closed && !self.session.confined().is_empty() {
            self.feed(Input::Noticed(Noticed::CpusetChanged));
        }
        self.tick();
        for accesses in std::mem::take(&mut self.accesses).chunks(AT_ONCE) {
            self.feed(Input::Accesses(accesses.to_vec()));
            self.settle();
            if self.movers.queue_empty() {
                self.feed(Input::MoversIdle);
            }
        }
        self.settle();
        self.ledger.charge(On::Engine, self.prices.interval);
        self.feed(Input::IntervalEnd);
        self.close_interval();
        self.interval_end = self.interval_end.max(self.clock.now()).plus(INTERVAL);
    }

    /// Has the session do what is due.
    pub(super) fn tick(&mut self) {
        self.asked_at = self.clock.now();
        self.feed(Input::Tick { behind: false, scannable: self.found });
    }

    /// Reports what has come of orders.
    pub(super) fn settle(&mut self) {
        let results = std::mem::take(&mut self.movers.finished);
        if !results.is_empty() {
            self.feed(Input::Landed { results, moving: self.movers.busy, stopped: Micros(0) });
        }
    }

    /// The engine's work on an input.
    fn charge(&mut self, input: &Input) {
        let ns = match input {
            Input::Accesses(accesses) => accesses.len() as f64 * self.prices.sample,
            Input::Located { answers, .. } => answers.len() as f64 * self.prices.question,
            _ => return,
        };
        self.ledger.charge(On::Engine, ns);
    }

    /// Hands the session an input, carries out what it asks for, and so on until it asks for nothing.
    pub(super) fn feed(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        let mut outputs = Vec::new();
        while let Some(input) = inputs.pop_front() {
            let t = self.clock.now();
            self.log.input(t, &input);
            self.charge(&input);
            self.session.input(t, input, &mut outputs);
            for output in outputs.drain(..) {
                self.log.output(&output);
                self.carry_out(output, &mut inputs);
            }
        }
    }

    fn carry_out(&mut self, output: Output, inputs: &mut VecDeque<Input>) {
        let now = self.clock.now();
        match output {
            Output::Look => inputs.push_back(Input::Looked(self.look())),
            Output::Scan => self.ready = Some((now.plus(self.kernel.ready), now)),
            Output::Locate { number, questions } => {
                let answers = questions.iter().map(|question| self.answer(question)).collect();
                inputs.push_back(Input::Located { number, answers });
            }
            Output::Move { orders, until } => {
                self.movers.send(now, orders, until);
                if self.setup.mover == Mover::Stopped {
                    inputs.push_back(self.move_while_all_stand_still());
                }
            }
            Output::Split(pages) => {
                // Simulated pages are all of one size.
                let whole = |HugePage { process, address }| SplitResult { process, address, done: false };
                inputs.push_back(Input::Split(pages.into_iter().map(whole).collect()));
            }
            Output::Bind { .. } | Output::Keep { .. } | Output::SendBack { .. } => {
                inputs.push_back(Input::NotBound { errno: EPERM })
            }
            Output::LetGo { .. } => {}
            Output::Decided(decided) => self.keep(&decided),
            Output::Settled(settled) => self.keep_outcome(&settled),
            Output::WasSplit(_) => {}
        }
    }

    /// A process scan.
    fn look(&mut self) -> Looked {
        let regions = self.memory.watch.monitor.regions();
        let pages = self.memory.placed() * (self.setup.addresses.page_size().bytes() / PAGE);
        let ns = match self.kernel.look {
            Micros(0) => self.prices.process_scan(self.threads.count(), regions.len()),
            cost => cost.0 as f64 * 1000.0,
        };
        self.ledger.charge(On::ProcessScan, ns);
        let mut looked = Looked {
            cost: Micros((ns / 1000.0) as u64),
            threads: self.threads.look(),
            resident_pages: pages,
            room: nodes(self.setup.costs).map(|node| self.room(node).map(|(_, wanted)| wanted)).collect(),
            ..Looked::default()
        };
        if !std::mem::replace(&mut self.found, true) {
            looked.begun.push(PROCESS);
        }
        if !self.open {
            self.open = self.clock.now() >= self.kernel.closed;
            if self.open || !looked.begun.is_empty() {
                let allowed = nodes(self.setup.costs).filter(|node| self.open || *node == Node(0));
                looked.allowed.push((PROCESS, allowed.collect()));
            }
        }
        if std::mem::replace(&mut self.mappings, regions.len()) != regions.len() || !looked.begun.is_empty() {
            looked.remapped.push((PROCESS, regions));
        }
        looked
    }

    /// Bytes that a node can take, and those of them that the engine would use.
    fn room(&self, node: Node) -> Option<(u64, u64)> {
        self.kernel.room(self.used[node.index()])
    }

    fn answer(&self, question: &Question) -> Answer {
        let size = self.setup.addresses.page_size();
        let page = self.page_at.get(&(question.address & !(size.bytes() - 1)));
        let node = page.map(|&page| self.memory.watch.homes[page as usize]).filter(|&home| home != NO_HOME);
        Answer { node, huge: is_huge(size) && question.maybe_huge && node.is_some() }
    }

    /// The helpers are ready: the scan begins and ends while all threads stand still.
    pub(super) fn mark(&mut self, began: Micros) {
        let marks = &self.memory.watch.monitor;
        let (threads, pages, mappings) = (self.threads.count(), marks.to_mark(), marks.regions().len());
        let hold = self.prices.hold(threads, pages, mappings, self.shootdown_ns);
        let stop = self.kernel.stop.plus(Micros((hold / 1000.0) as u64));
        self.ledger.charge(On::Helper, self.prices.helper);
        self.stand_still(stop);
        let (now, mut unmapped) = (self.clock.now(), Vec::new());
        self.memory.watch.monitor.scan(now, |page| unmapped.push(page));
        unmapped.into_iter().for_each(|page| self.memory.unmap(page));
        self.scans += 1;
        self.last_scan = Some(now);
        self.feed(Input::Scanned(Scanned { began, stopped: stop, everywhere: true, cost: Micros(0) }));
    }

    fn stand_still(&mut self, time: Micros) {
        self.clock.stand_still(time);
        self.ledger.hold(time.0 as f64 * 1000.0);
        (self.still, self.stopped) = (self.still.plus(time), self.stopped.plus(time));
    }

    /// Takes the faults of the last references, by a thread on a CPU.
    pub(super) fn take_faults(&mut self, thread: Thread, cpu: u16) {
        self.note_new_pages();
        if self.memory.watch.reports.samples.is_empty() {
            return;
        }
        let hints = self.memory.watch.monitor.faults.hints;
        let faults = (hints - std::mem::replace(&mut self.hints, hints)) as f64 * self.prices.hint_fault;
        let samples = self.memory.watch.reports.samples.len() as f64 * self.prices.perf_sample;
        self.ledger.charge(On::Fault(cpu), faults + samples);
        let now = self.clock.now();
        let after_scan = self.last_scan.map(|scan| now.since(scan));
        for seen in self.memory.take_samples() {
            self.accesses.push(Access {
                process: PROCESS,
                thread: id(thread),
                node: seen.node,
                address: self.setup.addresses.address(Page(seen.page)),
                store: false,
                kind: AccessKind::HintFault { after_scan },
            });
        }
    }

    fn note_new_pages(&mut self) {
        let bytes = self.setup.addresses.page_size().bytes();
        for page in std::mem::take(&mut self.memory.watch.born) {
            self.page_at.insert(self.setup.addresses.address(Page(page)), page);
            self.used[self.memory.watch.homes[page as usize].index()] += bytes;
        }
    }

    /// A batch has landed: its pages are where they were to go.
    pub(super) fn land(&mut self, orders: &[Order]) {
        let before = self.memory.shootdowns();
        for order in orders {
            let landed = self.land_one(order);
            self.movers.finished.push((order.tag, landed));
        }
        self.ledger.shootdowns(&before, &self.memory.shootdowns(), self.shootdown_ns);
    }

    fn land_one(&mut self, order: &Order) -> Landed {
        let bytes = self.setup.addresses.page_size().bytes();
        let Some(&page) = self.page_at.get(&(order.address & !(bytes - 1))) else {
            return Landed::Not(ENOENT);
        };
        let from = self.memory.watch.homes[page as usize];
        if from != order.to && self.room(order.to).is_some_and(|(free, _)| free < bytes) {
            return Landed::Not(ENOMEM);
        }
        let kind = Kind::Move { to: order.to };
        match self.memory.execute(&Action { page: Page(page), kind, reason: "" }) {
            Outcome::Done => {
                // Threads that stand still for moves: the hold is the charge.
                if self.setup.mover != Mover::Stopped {
                    self.ledger.charge(On::Mover, self.copy_ns);
                }
                self.used[from.index()] -= bytes;
                self.used[order.to.index()] += bytes;
                Landed::There
            }
            Outcome::Already => Landed::There,
            _ => Landed::Not(ENOENT),
        }
    }

    /// Moves what was ordered while all threads stand still, and says what came of it.
    fn move_while_all_stand_still(&mut self) -> Input {
        let still = self.still;
        while let Some(due) = self.movers.due() {
            self.stand_still(due.since(self.clock.now()));
            let orders = self.movers.landed(due).unwrap_or_default();
            self.land(&orders);
        }
        let results = std::mem::take(&mut self.movers.finished);
        Input::Landed { results, moving: self.movers.busy, stopped: self.still.since(still) }
    }

    /// Closes the books on an interval.
    pub(super) fn close_interval(&mut self) {
        let still = self.clock.modelled_ns(std::mem::take(&mut self.still));
        let ledger = &mut self.ledger;
        let elapsed = |times: &Times, work: &Work| ledger.end_interval(times, work, still);
        self.memory.close_interval_as(self.clock.references(), elapsed);
        let Some(interval) = self.memory.intervals().last() else { return };
        let misses = interval.local + interval.remote;
        let percent = 100.0 * interval.remote as f64 / misses as f64;
        self.curve.push(Point {
            ms: self.clock.now().0 / 1000,
            nonlocal_percent: (misses > 0).then_some(percent),
            misses,
            moves: interval.moves_to.iter().sum(),
        });
    }

    /// Keeps a decision, if they are kept.
    fn keep(&mut self, decided: &Decided) {
        let place = &decided.place;
        let region = self.memory.watch.monitor.named(&place.region);
        let page = region.and_then(|region| self.page_at.get(&(region.start + place.offset)));
        let (Some(&page), true) = (page, self.setup.log) else { return };
        let action =
            Action { page: Page(page), kind: decided.action, reason: borrowed(decided.reason.clone()) };
        self.numbered.insert(decided.page, action);
        self.entry(action, &decided.outcome);
    }

    fn keep_outcome(&mut self, settled: &Settlement) {
        if let Some(&action) = self.numbered.get(&settled.page) {
            self.entry(Action { kind: settled.action, ..action }, &settled.outcome);
        }
    }

    fn entry(&mut self, action: Action, outcome: &RecordedOutcome) {
        let outcome = match outcome {
            RecordedOutcome::Done => Outcome::Done,
            RecordedOutcome::Pending => Outcome::Pending,
            RecordedOutcome::Already => Outcome::Already,
            RecordedOutcome::Refused(why) => Outcome::Refused(borrowed(why.clone())),
            RecordedOutcome::Failed(errno) => Outcome::Failed(*errno),
        };
        let time = Time(self.clock.references());
        self.entries.push(Entry { time, action, outcome });
    }
}

/// What a session says of itself is static; only what is read from a log is not.
fn borrowed(text: Cow<'static, str>) -> &'static str {
    match text {
        Cow::Borrowed(text) => text,
        Cow::Owned(_) => "",
    }
}
