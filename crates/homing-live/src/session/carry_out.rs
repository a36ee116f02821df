//! Carries out what the pure session asks for, and hands it the answers.

use super::{Session, SessionError};
use crate::{keep, mover};
use homing_core::ids::Micros;
use homing_linux::huge;
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::policy as affinity;
use homing_linux::proc::{Pid, Tid};
use homing_linux::ptrace::standstill::Standstill;
use homing_session::input::{Answer, Input, Landed, SplitResult};
use homing_session::output::{HugePage, Order, Output, Question};
use homing_session::HUGE;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

impl Session<'_> {
    /// Hands the pure session an input, carries out what it asks for, and so on until it asks for nothing.
    pub(super) fn feed(&mut self, input: Input) -> Result<(), SessionError> {
        let mut inputs = VecDeque::from([input]);
        let mut outputs = Vec::new();
        while let Some(input) = inputs.pop_front() {
            let t = self.now();
            self.log_input(t, &input)?;
            if let Input::Areas(areas) = &input {
                self.source.areas(&areas.areas);
            }
            self.pure.input(t, input, &mut outputs);
            self.phases.lap("decide");
            for output in outputs.drain(..) {
                self.log_output(&output)?;
                self.carry_out(output, &mut inputs)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, output: Output, inputs: &mut VecDeque<Input>) -> Result<(), SessionError> {
        match output {
            Output::Look => {
                let looked = self.look()?;
                let remapped: Vec<_> = looked.remapped.iter().map(|(process, _)| *process).collect();
                self.resident_pages = self.resident_pages.max(looked.resident_pages);
                inputs.push_back(Input::Looked(looked));
                let crowded = self.keeper.crowded();
                if !crowded.is_empty() {
                    inputs.push_back(Input::Crowded(crowded));
                }
                inputs.extend(self.find_areas(&remapped).into_iter().map(Input::Areas));
            }
            Output::Scan => {
                self.source.scan(&self.targets);
                self.phases.lap("scan");
            }
            Output::Locate { number, questions } => {
                let answers = self.locate(&questions);
                self.phases.lap("locate");
                inputs.push_back(Input::Located { number, answers });
            }
            Output::Move { orders, until } => {
                self.move_pages(&orders, until, inputs)?;
                self.phases.lap("move");
            }
            Output::Split(pages) => inputs.push_back(Input::Split(self.split(&pages))),
            Output::Bind { thread, cpu } => {
                if let Err(error) = affinity::set_affinity(Tid(thread.0), &[cpu]) {
                    inputs.push_back(Input::NotBound { errno: error.raw_os_error().unwrap_or(0) });
                }
            }
            Output::Keep { process, thread, node } => {
                let cpus = self.host.cpus_of(node);
                let (proc, pid) = (self.targets.proc(), Pid(process.0));
                if let Err(error) = self.keeper.keep(proc, pid, Tid(thread.0), cpus) {
                    inputs.push_back(Input::NotKept(thread));
                    if !keep::is_not_ours(&error) {
                        inputs.push_back(Input::NotBound { errno: error.raw_os_error().unwrap_or(0) });
                    }
                }
            }
            Output::SendBack { process, thread, node } => {
                let cpus = self.host.cpus_of(node);
                let (proc, pid) = (self.targets.proc(), Pid(process.0));
                if let Err(error) = self.keeper.send_back(proc, pid, Tid(thread.0), cpus) {
                    inputs.push_back(Input::NotBound { errno: error.raw_os_error().unwrap_or(0) });
                }
            }
            Output::LetGo { thread } => self.keeper.let_go(self.targets.proc(), Tid(thread.0)),
            Output::Decided(_) | Output::Settled(_) | Output::WasSplit(_) => {}
        }
        Ok(())
    }

    /// Asks the kernel where pages are. It makes none for that.
    fn locate(&self, questions: &[Question]) -> Vec<Answer> {
        let mut answers = vec![Answer { node: None, huge: false }; questions.len()];
        let mut by_process: BTreeMap<Pid, Vec<usize>> = BTreeMap::new();
        for (place, question) in questions.iter().enumerate() {
            by_process.entry(Pid(question.process.0)).or_default().push(place);
        }
        let mut statuses = Vec::new();
        for (pid, places) in by_process {
            self.find_huge(pid, &places, questions, &mut answers);
            let address = |&place: &usize| match (questions[place].address, answers[place].huge) {
                (address, true) => address & !(HUGE - 1),
                (address, false) => address,
            };
            let addresses: Vec<u64> = places.iter().map(address).collect();
            if move_pages::query(pid, &addresses, &mut statuses).is_err() {
                continue;
            }
            for (&place, &status) in places.iter().zip(&statuses) {
                if let PageStatus::On(id) = PageStatus::from(status) {
                    answers[place].node = self.host.node(id);
                }
            }
        }
        answers
    }

    /// Says which of the pages that might be huge are.
    fn find_huge(&self, pid: Pid, places: &[usize], questions: &[Question], answers: &mut [Answer]) {
        let Some(map) = self.page_maps.get(&pid) else { return };
        // Where huge pages could be and none are: others there need not be asked.
        let mut small = HashSet::new();
        for &place in places.iter().filter(|place| questions[**place].maybe_huge) {
            let address = questions[place].address;
            let block = address & !(HUGE - 1);
            answers[place].huge = !small.contains(&block) && map.is_huge(address).unwrap_or(false);
            if !answers[place].huge {
                small.insert(block);
            }
        }
    }

    /// Hands orders to the movers. With `--stop-world` the program's threads stand still until they are carried out.
    fn move_pages(
        &mut self,
        orders: &[Order],
        until: Micros,
        inputs: &mut VecDeque<Input>,
    ) -> Result<(), SessionError> {
        let order = |order: &Order| mover::Order {
            pid: Pid(order.process.0),
            to: self.host.kernel_id(order.to),
            address: order.address,
            tag: order.tag,
            all: order.shared && self.sharers.may_move_all(),
        };
        let orders: Vec<mover::Order> = orders.iter().map(order).collect();
        if orders.iter().any(|order| order.all) {
            self.movers.share(self.ours());
        }
        let begin = Instant::now();
        let left = Duration::from_micros(until.since(self.now()).0);
        if !self.config.stop_world {
            self.movers.send(orders, Some(begin + left));
            return Ok(());
        }
        let held = self.hold()?;
        self.movers.send(orders, Some(begin + left));
        self.movers.rest();
        let stopped = if held.count().held > 0 { held.since().elapsed() } else { Duration::ZERO };
        drop(held);
        inputs.push_back(self.landed(self.finished(), stopped));
        Ok(())
    }

    /// What has come of orders since the last time, by their tags.
    pub(super) fn finished(&self) -> Vec<(u32, Landed)> {
        self.movers.finished().into_iter().map(|(order, landed)| (order.tag, landed)).collect()
    }

    /// What has come of orders, as an input; threads were stopped that long for them.
    pub(super) fn landed(&self, results: Vec<(u32, Landed)>, stopped: Duration) -> Input {
        let micros = |time: Duration| Micros(time.as_micros() as u64);
        Input::Landed { results, moving: micros(self.movers.busy()), stopped: micros(stopped) }
    }

    /// The processes that something is done to.
    fn ours(&self) -> Vec<Pid> {
        let ours = self.targets.processes().iter().filter(|(_, process)| process.ours);
        ours.map(|(&pid, _)| pid).collect()
    }

    fn hold(&self) -> Result<Standstill, SessionError> {
        // A process that cannot be held is moved while it runs: slower for it, never wrong.
        Standstill::of(self.targets.proc(), &self.ours()).map_err(SessionError::Threads)
    }

    /// Splits huge pages.
    fn split(&self, pages: &[HugePage]) -> Vec<SplitResult> {
        let mut by_process: BTreeMap<Pid, Vec<HugePage>> = BTreeMap::new();
        for page in pages {
            by_process.entry(Pid(page.process.0)).or_default().push(*page);
        }
        let mut results = Vec::with_capacity(pages.len());
        for (pid, pages) in by_process {
            let ranges: Vec<(u64, u64)> = pages.iter().map(|page| (page.address, HUGE)).collect();
            let kept = huge::keep_small(self.targets.proc(), pid, &ranges).is_ok();
            let result = |HugePage { process, address }| SplitResult {
                process,
                address,
                done: kept && self.split_one(pid, address),
            };
            results.extend(pages.into_iter().map(result));
        }
        results
    }

    /// True if the page is not huge any more.
    fn split_one(&self, pid: Pid, address: u64) -> bool {
        let asked = self.splitter.split(pid, address, HUGE);
        let map = self.page_maps.get(&pid);
        asked.is_ok() && map.is_some_and(|map| !map.is_huge(address).unwrap_or(true))
    }
}
