//! Accesses: the pages that they are to, where those are, and what the policy is told.

use super::gain::Use;
use super::input::{Access, AccessKind, Answer};
use super::look_pace::Urgency;
use super::output::{Output, Question};
use super::plan::Due;
use super::{Session, HUGE, PAGE, STALE, STALE_TO_WATCHERS, STALE_WITH_BALANCING};
use crate::estimate::HintFault;
use ahash::AHashSet;
use homing_core::action::{Locations, Outcome};
use homing_core::engine::Observation;
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::Sample;
use homing_core::process::{self, ProcessId};

/// Questions that were asked, and what waits for the answers.
#[derive(Debug)]
pub(super) struct Asked {
    questions: Vec<Question>,
    then: Then,
}

/// What is done once it is known where pages are.
#[derive(Debug)]
pub(super) enum Then {
    /// These accesses are reported to the policy; with the page of each, where it was known.
    Tell(Vec<(Access, Option<Page>)>),
    /// These planned moves are ordered.
    Order(Vec<Due>),
}

impl Then {
    /// Planned moves among it.
    pub(super) fn planned(&self) -> usize {
        match self {
            Then::Tell(_) => 0,
            Then::Order(due) => due.len(),
        }
    }
}

impl Asked {
    /// What waits for the answers.
    pub(super) fn then(&self) -> &Then {
        &self.then
    }
}

impl Session<'_> {
    /// Takes accesses: at once if it is known where all their pages are, else once the kernel has said it.
    pub(super) fn take_accesses(&mut self, mut accesses: Vec<Access>) {
        if self.settings.watch {
            self.thin(&mut accesses);
        }
        let before = accesses.len();
        accesses.retain(|access| self.makes_sense(access));
        self.account.malformed += (before - accesses.len()) as u64;
        self.account.sight.sees(accesses.len() as u64);
        let before = accesses.len();
        accesses.retain(|access| self.matters(access));
        self.account.outside_areas += (before - accesses.len()) as u64;
        let mut known = AHashSet::new();
        let mut questions = Vec::new();
        let mut told = Vec::with_capacity(accesses.len());
        for access in accesses {
            let access = Access { node: self.node_of(&access), ..access };
            let page = self.page_at(access.process, access.address);
            questions.extend(self.question(&access, page).filter(|question| known.insert(*question)));
            told.push((access, page));
        }
        self.ask(questions, Then::Tell(told));
    }

    /// Leaves out what a watcher does not need, and the pages that are not followed any more.
    fn thin(&mut self, accesses: &mut Vec<Access>) {
        if self.thinning.halve(self.orders().pages().len()) {
            let pages = self.orders().pages().iter();
            let left_out = pages.filter(|(_, entry)| !self.thinning.looks_at(entry.address));
            let gone: Vec<Page> = left_out.map(|(page, _)| page).collect();
            gone.into_iter().for_each(|page| self.page_gone(page));
        }
        let (before, t) = (accesses.len(), self.t);
        accesses.retain(|access| self.thinning.keeps(t, access));
        self.account.thinned += (before - accesses.len()) as u64;
    }

    fn makes_sense(&self, access: &Access) -> bool {
        let counted = match access.kind {
            AccessKind::References(count) => count > 0.0 && count.is_finite(),
            AccessKind::HintFault { .. } => true,
        };
        counted && self.exists(access.node)
    }

    /// True unless the access is outside of the hot areas of its process.
    fn matters(&self, access: &Access) -> bool {
        self.hot.matter(access.process, access.address)
    }

    /// Asks where pages are, and then goes on.
    pub(super) fn ask(&mut self, questions: Vec<Question>, then: Then) {
        if questions.is_empty() {
            return self.go_on(then);
        }
        let number = self.questions;
        self.questions = number.wrapping_add(1);
        self.asked.insert(number, Asked { questions: questions.clone(), then });
        self.out.push(Output::Locate { number, questions });
    }

    /// The kernel has said where pages are.
    pub(super) fn located(&mut self, number: u32, answers: &[Answer]) {
        let Some(Asked { questions, then }) = self.asked.remove(&number) else { return };
        let nowhere = Answer { node: None, huge: false };
        let answers = answers.iter().copied().chain(std::iter::repeat(nowhere));
        for (question, answer) in questions.iter().zip(answers) {
            self.note_location(question, answer);
        }
        let planned = matches!(then, Then::Order(_));
        self.go_on(then);
        if planned {
            self.send_orders();
        }
    }

    fn go_on(&mut self, then: Then) {
        match then {
            Then::Tell(accesses) => {
                for (access, page) in &accesses {
                    let page = page.filter(|page| self.is_of(*page, access));
                    match page.or_else(|| self.page_at(access.process, access.address)) {
                        Some(page) => self.access(access, page),
                        None => self.account.unmapped += 1,
                    }
                }
            }
            Then::Order(due) => self.order_planned(due),
        }
        self.split_some();
    }

    /// The page that holds an address; `None` if it is not known.
    pub(super) fn page_at(&self, process: ProcessId, address: u64) -> Option<Page> {
        let (pages, key) = (self.orders().pages(), self.processes.key(process, address));
        pages.find(key.base()).or_else(|| {
            let page = pages.find(key.huge())?;
            (pages.entry(page).bytes == HUGE).then_some(page)
        })
    }

    /// True if a page that was the access's is still: it may have gone, and its number be another's. False of shared
    /// memory, which is in several places.
    fn is_of(&self, page: Page, access: &Access) -> bool {
        let pages = self.orders().pages();
        pages.alive(page) && {
            let entry = pages.entry(page);
            let process = entry.key.object().is_none() && entry.process == access.process;
            process && access.address & !(entry.bytes - 1) == entry.address
        }
    }

    /// What has to be asked before an access to that page can be taken.
    fn question(&mut self, access: &Access, page: Option<Page>) -> Option<Question> {
        let process = access.process;
        if let Some(page) = page {
            // In the process that has just used it: others that share it may not have it mapped.
            let address = access.address & !(self.orders().pages().entry(page).bytes - 1);
            return self.stale(page).then_some(Question { process, address, maybe_huge: false });
        }
        let Some((_, region)) = self.processes.region(process, access.address) else {
            if self.processes.contains(process) {
                self.look_pace.request(Urgency::Busy);
            }
            return None;
        };
        let block = access.address & !(HUGE - 1);
        let whole = block >= region.start && block.checked_add(HUGE).is_some_and(|end| end <= region.end);
        // Shared memory has huge pages where its offsets are aligned as addresses are.
        let aligned = region.shows(block).is_none_or(|(_, place)| place % HUGE == 0);
        let maybe_huge = whole && aligned && region.class.may_be_huge();
        Some(Question { process, address: access.address & !(PAGE - 1), maybe_huge })
    }

    /// True if nobody has asked lately where a page is.
    fn stale(&self, page: Page) -> bool {
        let stale = match (self.kernel_moves_pages, self.settings.watch) {
            (true, _) => STALE_WITH_BALANCING,
            (false, true) => STALE_TO_WATCHERS,
            (false, false) => STALE,
        };
        let entry = self.orders().pages().entry(page);
        // One that is being moved is asked for by the mover.
        entry.at.is_none() || entry.under_way.is_none() && self.t.since(entry.asked) >= stale
    }

    fn note_location(&mut self, question: &Question, answer: Answer) {
        let huge = answer.huge && question.maybe_huge;
        let (address, bytes) =
            if huge { (question.address & !(HUGE - 1), HUGE) } else { (question.address, PAGE) };
        let node = answer.node.filter(|&node| self.exists(node));
        let known = self.orders().pages().find(self.processes.key(question.process, address));
        match (known, node) {
            // Shared memory is there while somebody maps it, although this process may have it unmapped just now.
            (Some(page), None) if self.orders().pages().entry(page).key.object().is_some() => {}
            (Some(page), None) => self.page_gone(page),
            (Some(page), Some(node)) => self.set_location(page, node),
            (None, Some(node)) => {
                if let Some(page) = self.new_page(question.process, address, bytes) {
                    self.set_location(page, node);
                }
            }
            (None, None) => {}
        }
    }

    fn set_location(&mut self, page: Page, node: Node) {
        let entry = self.orders().pages().entry(page);
        if entry.at.is_some() && entry.under_way.is_some() {
            return;
        }
        let by_others = entry.at.is_some_and(|before| before != node);
        self.account.moved_by_others += u64::from(by_others);
        if let Some(action) = self.engine.executor_mut().located(page, node, self.t) {
            self.settled(&action, Outcome::Already);
        }
    }

    /// Numbers a page; `None` if its mapping went away.
    fn new_page(&mut self, process: ProcessId, address: u64, bytes: u64) -> Option<Page> {
        let class = self.processes.region(process, address)?.1.class;
        let key = self.processes.key(process, address);
        let page = self.engine.executor_mut().pages_mut().number(key, (process, address), bytes, class);
        self.engine.observe(Observation::PageNew(page, address));
        Some(page)
    }

    /// Forgets a page.
    pub(super) fn page_gone(&mut self, page: Page) {
        self.engine.observe(Observation::PageGone(page));
        self.engine.executor_mut().forget(page);
    }

    /// Tells the policy of an access.
    fn access(&mut self, access: &Access, page: Page) {
        let task = self.processes.thread_uses(access.process, access.thread);
        let thread = task.map(|task| task.number);
        if task.is_none_or(|task| task.home != Some(access.node)) {
            self.look_pace.request(Urgency::Busy);
        }
        let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
        let Some(at) = entry.seen_at() else { return };
        // Orders may wait for long, or be taken back. Policies see the page where it is to be, all others where it is.
        let is_at = if self.settings.dry_run { at } else { entry.at.unwrap_or(at) };
        self.wanderers.used(access.process, access.thread, at, self.t);
        let first = entry.seen.is_empty();
        entry.used_by(access.process, access.address);
        entry.count(access.node);
        let home = access.node == is_at;
        entry.rounds.access(home);
        // Who makes a page, or is first met where it is, need not be its user; who is met there twice is.
        let met = std::mem::replace(&mut entry.met_at_home, first && home);
        let last = if first && home {
            None
        } else {
            entry.last.replace(access.node).or((met && home).then_some(is_at))
        };
        let (class, process, address, pages) =
            (entry.class, entry.process, entry.address, entry.bytes / PAGE);
        self.hot.access(entry, first, !home);
        self.account.access(access.node, is_at, class);
        let bursts = match access.kind {
            AccessKind::References(_) => None,
            AccessKind::HintFault { after_scan } => {
                let period = self.scan_pace.period();
                let node = access.node;
                let fault = HintFault { process, address, node, thread, at, first, after_scan, period };
                Some(self.estimator.fault(&mut entry.users, &fault))
            }
        };
        if let Some(why) = self.orders().stays(page) {
            *self.account.staying.entry(why).or_default() += 1;
            return;
        }
        if self.settings.watch || !self.may_move(process, address) {
            return;
        }
        if let Some(payoff) = self.payoffs.get_mut(&process) {
            let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
            self.account.after_moves.add(payoff.uses(&mut entry.stay, access.node, is_at));
        }
        if let Some(undo) = self.undos.get_mut(&process) {
            let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
            match entry.first {
                Some(first) => undo.uses(access.node, first, is_at),
                None => undo.met(is_at),
            }
            entry.first.get_or_insert(is_at);
        }
        if let Some(load) = self.loads.get_mut(&process) {
            load.used();
        }
        let splits = self.may_split(page);
        if let Some(gain) = self.gains.get_mut(&process) {
            gain.uses(&Use { by: access.node, at: is_at, last, pages, splits });
        }
        match (access.kind, bursts) {
            (AccessKind::References(count), _) => self.observe(access, page, access.node, count, at),
            (AccessKind::HintFault { .. }, bursts) => self.fault(access, page, at, bursts.unwrap_or(1.0)),
        }
    }

    /// Tells the policy of a hint fault that stands for that many bursts.
    fn fault(&mut self, access: &Access, page: Page, at: Node, bursts: f64) {
        self.consider_split(page);
        for place in 0..self.estimator.shares().len() {
            let (node, share) = self.estimator.shares()[place];
            self.observe(access, page, node, share * bursts * self.settings.weight, at);
        }
        if access.node != at {
            // A policy decides at a reference, by what came before it.
            self.observe(access, page, access.node, 1.0, at);
        }
    }

    /// Tells the policy of references by a node to a page at `at`.
    fn observe(&mut self, access: &Access, page: Page, node: Node, weight: f64, at: Node) {
        let threshold = self.hot.own(access.process, access.address).map_or(1.0, |own| own.threshold);
        self.engine.observe(Observation::Sample(Sample {
            page,
            node,
            reads: u64::from(!access.store),
            writes: u64::from(access.store),
            weight: weight / threshold,
            time: Time(self.t.0),
            at: Locations::single(at),
        }));
        self.record_actions();
    }

    /// True if the regions that may move hold the address, and its area does not stay.
    pub(super) fn may_move(&self, process: ProcessId, address: u64) -> bool {
        let regions = &self.settings.regions;
        let region = || self.processes.region(process, address);
        let chosen =
            regions.is_empty() || region().is_some_and(|(_, region)| process::chosen(&region.name, regions));
        chosen && self.hot.own(process, address).is_none_or(|own| !own.stays)
    }
}
