//! Pages and orders for them: the engine's executor. It knows where pages are, takes actions as orders, hands them out
//! in batches, and takes what came of each.

use super::input::Landed;
use super::output::Order;
use super::pages::PageTable;
use super::plan::PLANNED;
use super::rounds::RESTS;
use super::spread::SPREAD;
use super::threads::FORWARDED;
use super::undo::UNDONE;
use ahash::AHashMap;
use homing_core::action::{Action, Kind, Locations, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Micros, Node, Page};
use homing_core::process::{Class, Held, ProcessId};
use std::collections::{BTreeMap, BTreeSet};

/// Reasons of moves that no policy asked for: they are made whatever the page did before.
const OF_THE_SESSION: [&str; 4] = [FORWARDED, PLANNED, SPREAD, UNDONE];

/// Why orders are taken back that went by where threads were.
const VOID: &str = "the threads of the process were put on other nodes before its turn";

/// Why a page was not moved that must not leave its nodes.
const NOT_ALLOWED: &str = "a memory policy (MPOL_BIND) or a cpuset keeps the page from that node";

/// ENOENT: no page is mapped at the address.
const NOT_MAPPED: i32 = 2;

/// An action that waits to be handed out.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    action: Action,
    to: Node,
}

/// An action that was handed out.
#[derive(Clone, Copy, Debug)]
struct Sent {
    action: Action,
    to: Node,
    from: Option<Node>,
    bytes: u64,
}

/// What came of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The action.
    pub action: Action,
    /// Where the page was.
    pub from: Option<Node>,
    /// Where it was to go.
    pub to: Node,
    /// Its size.
    pub bytes: u64,
    /// What came of it.
    pub outcome: Outcome,
    /// The page was forgotten meanwhile; its number may be another's.
    pub gone: bool,
}

/// Pages, and orders for them.
#[derive(Debug)]
pub struct Orders {
    nodes: usize,
    dry_run: bool,
    /// Objects that several processes can map and whose pages stay, by number.
    held: BTreeMap<u32, Held>,
    /// The present.
    now: Micros,
    pages: PageTable,
    /// The pages of orders that were not handed out; the last order of each.
    queue: Vec<Page>,
    waiting: AHashMap<Page, Waiting>,
    /// ... and those that were, by tag.
    sent: AHashMap<u32, Sent>,
    next: u32,
    /// The nodes whose memory a process may use, if that is known.
    allowed: BTreeMap<ProcessId, Vec<Node>>,
    /// The last move of each page to a node whose memory its process may not use.
    barred: AHashMap<Page, Action>,
    /// The processes of these pages.
    confined: BTreeSet<ProcessId>,
    /// Processes whose pages stay whatever the policy wants, and why.
    left: BTreeMap<ProcessId, &'static str>,
    /// Processes whose orders wait until more is known, and how many of those in the queue were passed over for that.
    put_off: BTreeSet<ProcessId>,
    passed: usize,
    /// Bytes that each node can still take.
    room: Vec<Option<u64>>,
    /// What was asked for, and where the page was, until [`Orders::take_asked`].
    asked: Vec<Asked>,
}

/// An action that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The action.
    pub action: Action,
    /// Where the page was.
    pub from: Option<Node>,
    /// What came of it at once.
    pub outcome: Outcome,
    /// The last action for this page was refused for the same reason.
    pub again: bool,
}

impl Orders {
    /// Nothing known yet. With `dry_run` actions are accepted and never handed out; pages then count as moved.
    pub fn new(nodes: usize, dry_run: bool) -> Orders {
        Orders {
            nodes,
            dry_run,
            held: BTreeMap::new(),
            now: Micros(0),
            pages: PageTable::default(),
            queue: Vec::new(),
            waiting: AHashMap::new(),
            sent: AHashMap::new(),
            next: 0,
            allowed: BTreeMap::new(),
            barred: AHashMap::new(),
            confined: BTreeSet::new(),
            left: BTreeMap::new(),
            put_off: BTreeSet::new(),
            passed: 0,
            room: vec![None; nodes],
            asked: Vec::new(),
        }
    }

    /// These objects' pages stay, by the objects' numbers; all others may move.
    pub fn hold(&mut self, held: BTreeMap<u32, Held>) {
        self.held = held;
    }

    /// Why a page stays whoever uses it; `None` if it may move.
    pub fn stays(&self, page: Page) -> Option<&'static str> {
        let entry = self.pages.entry(page);
        let held = entry.key.object().and_then(|object| self.held.get(&object));
        match entry.class {
            Class::Special => Some("the kernel's own, or a device's"),
            Class::PageCache => Some("programs, libraries and other files"),
            _ => held.map(|held| held.reason()),
        }
    }

    /// Time has passed.
    pub fn set_now(&mut self, t: Micros) {
        self.now = t;
    }

    /// The pages.
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// The pages.
    pub fn pages_mut(&mut self) -> &mut PageTable {
        &mut self.pages
    }

    /// What was asked for since the last time, oldest first.
    pub fn take_asked(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.asked)
    }

    /// Room for what will be asked for: what [`Orders::take_asked`] gave, empty again.
    pub fn take_room(&mut self, asked: Vec<Asked>) {
        if self.asked.is_empty() {
            self.asked = asked;
        }
    }

    /// Orders that were not handed out, and could be.
    pub fn waiting(&self) -> usize {
        self.queue.len() - self.passed.min(self.queue.len())
    }

    /// Orders that were handed out and have not landed.
    pub fn under_way(&self) -> usize {
        self.sent.len()
    }

    /// The pages of these processes, and of no others, stay whatever the policy wants. Returns the orders that waited
    /// for them and are no more, with the reason.
    pub(super) fn leave(
        &mut self,
        processes: BTreeMap<ProcessId, &'static str>,
    ) -> Vec<(Action, &'static str)> {
        if self.left == processes {
            return Vec::new();
        }
        let actions = self.take_back(|process| processes.get(&process).copied());
        self.left = processes;
        actions
    }

    /// What was known of who uses the pages of a process is void: takes back the orders that went by it and were not
    /// handed out, and returns those that waited.
    pub(super) fn void(&mut self, process: ProcessId) -> Vec<(Action, &'static str)> {
        self.barred.retain(|page, _| self.pages.entry(*page).process != process);
        self.confined.remove(&process);
        self.take_back(|of| (of == process).then_some(VOID))
    }

    /// Takes back what policies ordered for pages of these processes and was not handed out, and says what and why.
    fn take_back(&mut self, why: impl Fn(ProcessId) -> Option<&'static str>) -> Vec<(Action, &'static str)> {
        let taken_back = |waiting: &Waiting| {
            let entry = self.pages.entry(waiting.action.page);
            let why = why(entry.process).filter(|_| entry.under_way.is_none())?;
            (!OF_THE_SESSION.contains(&waiting.action.reason)).then_some((waiting.action, why))
        };
        let mut actions: Vec<_> = self.waiting.values().filter_map(taken_back).collect();
        actions.sort_unstable_by_key(|(action, _)| action.page);
        for (action, _) in &actions {
            self.waiting.remove(&action.page);
            self.pages.entry_mut(action.page).ordered = None;
        }
        actions
    }

    /// What the policy wants of these processes, and of no others, is not handed out until they are put off no more.
    pub(super) fn put_off(&mut self, processes: BTreeSet<ProcessId>) {
        if self.put_off != processes {
            (self.put_off, self.passed) = (processes, 0);
        }
    }

    /// True if the pages of a process stay whatever the policy wants.
    pub(super) fn leaves(&self, process: ProcessId) -> bool {
        self.left.contains_key(&process)
    }

    /// How many bytes each node can still take; `None` where that is not known.
    pub fn set_room(&mut self, room: &[Option<u64>]) {
        let given = room.iter().copied().chain(std::iter::repeat(None));
        self.room.iter_mut().zip(given).for_each(|(room, given)| *room = given);
    }

    /// A process may use these nodes' memory (none: it is not known, or the process has ended). Moves that were
    /// refused since it might not are ordered now.
    pub fn allow(&mut self, process: ProcessId, nodes: Vec<Node>) {
        self.confined.remove(&process);
        if nodes.is_empty() {
            self.allowed.remove(&process);
        } else {
            self.allowed.insert(process, nodes);
        }
        let barred = self.barred.iter().filter(|(page, _)| self.pages.entry(**page).process == process);
        let mut again: Vec<Action> = barred.map(|(_, action)| *action).collect();
        again.sort_unstable_by_key(|action| action.page);
        for action in again {
            self.execute(&action);
        }
    }

    /// Processes that have moves waiting until they may use other nodes' memory.
    pub fn confined(&self) -> &BTreeSet<ProcessId> {
        &self.confined
    }

    fn may_use(&self, process: ProcessId, node: Node) -> bool {
        self.allowed.get(&process).is_none_or(|nodes| nodes.contains(&node))
    }

    /// Forgets a page and what was ordered for it.
    pub fn forget(&mut self, page: Page) {
        self.waiting.remove(&page);
        self.barred.remove(&page);
        self.pages.remove(page);
    }

    /// The kernel says that a page is on this node. Returns the order to move it there, if one waits: it has come true
    /// by itself.
    pub fn located(&mut self, page: Page, node: Node, t: Micros) -> Option<Action> {
        let entry = self.pages.entry_mut(page);
        (entry.at, entry.asked) = (Some(node), t);
        let came_true = |waiting: &Waiting| waiting.to == node && entry.under_way.is_none();
        let action = self.waiting.get(&page).filter(|waiting| came_true(waiting))?.action;
        self.waiting.remove(&page);
        entry.ordered = None;
        Some(action)
    }

    /// Hands orders out, oldest first: at most `bytes`, and until `most` are under way. What is being moved elsewhere
    /// waits for the end of that.
    pub fn send(&mut self, bytes: u64, most: usize) -> Vec<Order> {
        let mut left = bytes;
        let mut orders = Vec::new();
        self.passed = 0;
        let mut queue = std::mem::take(&mut self.queue).into_iter();
        for page in queue.by_ref() {
            // One that was taken back is still in the queue, and twice if it was given again.
            let Some(&Waiting { action, to }) = self.waiting.get(&page) else { continue };
            let entry = self.pages.entry_mut(page);
            let put_off = self.put_off.contains(&entry.process) && !OF_THE_SESSION.contains(&action.reason);
            if put_off || entry.under_way.is_some() {
                self.passed += usize::from(put_off);
                self.queue.push(page);
                continue;
            }
            if entry.bytes > left || self.sent.len() >= most {
                self.queue.push(page);
                break;
            }
            left -= entry.bytes;
            self.waiting.remove(&page);
            let tag = self.next;
            self.next = self.next.wrapping_add(1);
            entry.under_way = Some(tag);
            self.sent.insert(tag, Sent { action, to, from: entry.at, bytes: entry.bytes });
            let shared = entry.key.object().is_some();
            orders.push(Order { tag, process: entry.process, address: entry.address, to, shared });
        }
        self.queue.extend(queue);
        orders
    }

    /// Takes what came of an order. `None` if it waits again, or nobody knows it.
    pub fn settle(&mut self, tag: u32, landed: Landed) -> Option<Settled> {
        let Sent { action, to, from, bytes } = self.sent.remove(&tag)?;
        let page = action.page;
        let gone = !self.pages.alive(page) || self.pages.entry(page).under_way != Some(tag);
        let outcome = match landed {
            Landed::There => Outcome::Done,
            Landed::Not(errno) => Outcome::Failed(errno),
            Landed::NotAllowed => Outcome::Refused(NOT_ALLOWED),
            Landed::Later if gone => return None,
            Landed::Later => Outcome::Pending,
        };
        let settled = Settled { action, from, to, bytes, outcome, gone };
        if gone {
            return Some(settled);
        }
        let entry = self.pages.entry_mut(page);
        entry.under_way = None;
        match landed {
            Landed::There => {
                entry.at = Some(to);
                entry.failures = 0;
                entry.moves += 1;
                entry.rounds.moved(from, to, self.now);
                entry.spread &= action.reason == SPREAD;
                let asked_for = !OF_THE_SESSION.contains(&action.reason);
                entry.stay.begin(from.filter(|_| asked_for));
            }
            // Another process uses a shared page; the one that was asked has it unmapped just now.
            Landed::Not(NOT_MAPPED) if entry.key.object().is_some() => {}
            Landed::Not(_) | Landed::NotAllowed => entry.failures += 1,
            Landed::Later => {}
        }
        match self.waiting.get(&page) {
            // It was ordered elsewhere meanwhile, but is there.
            Some(later) if entry.at == Some(later.to) => {
                self.waiting.remove(&page);
                entry.ordered = None;
            }
            Some(_) => {}
            None if landed == Landed::Later => {
                self.waiting.insert(page, Waiting { action, to });
                self.queue.push(page);
            }
            None => entry.ordered = None,
        }
        (landed != Landed::Later).then_some(settled)
    }

    fn order(&mut self, action: &Action, to: Node) -> Outcome {
        if to.index() >= self.nodes {
            return Outcome::Refused("no such node");
        }
        self.barred.remove(&action.page);
        let process = self.pages.entry(action.page).process;
        let may_use = self.may_use(process, to);
        let stays = self.stays(action.page);
        let entry = self.pages.entry_mut(action.page);
        if entry.seen_at() == Some(to) {
            return Outcome::Already;
        }
        if let Some(why) = stays {
            return Outcome::Refused(why);
        }
        if !OF_THE_SESSION.contains(&action.reason) {
            if let Some(why) = self.left.get(&process) {
                return Outcome::Refused(why);
            }
            if entry.rounds.rests(self.now) {
                return Outcome::Refused(RESTS);
            }
        }
        if entry.unmovable() {
            return Outcome::Refused("the page could not be moved three times");
        }
        if !may_use {
            self.barred.insert(action.page, *action);
            self.confined.insert(process);
            return Outcome::Refused("the process may not use the target node's memory (cpuset)");
        }
        if let Some(room) = &mut self.room[to.index()] {
            match room.checked_sub(entry.bytes) {
                Some(left) => *room = left,
                None => return Outcome::Refused("the target node is full"),
            }
        }
        if self.dry_run {
            entry.ordered = Some(to);
            return Outcome::Done;
        }
        if entry.at == Some(to) && entry.under_way.is_none() {
            // Ordered away and, before that happened, back again.
            entry.ordered = None;
            self.waiting.remove(&action.page);
            return Outcome::Done;
        }
        entry.ordered = Some(to);
        if self.waiting.insert(action.page, Waiting { action: *action, to }).is_none() {
            self.queue.push(action.page);
        }
        Outcome::Pending
    }
}

impl Executor for Orders {
    fn at(&self, page: Page) -> Locations {
        Locations::single(self.pages.entry(page).seen_at().unwrap_or(Node(0)))
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        let alive = self.pages.alive(action.page);
        let from = if alive { self.pages.entry(action.page).seen_at() } else { None };
        let outcome = match action.kind {
            _ if !alive => Outcome::Refused("the page is gone"),
            Kind::Move { to } | Kind::Collapse { keep: to } => self.order(action, to),
            Kind::Replicate { .. } => Outcome::Refused("Linux keeps one copy of a page"),
            Kind::Freeze | Kind::Defrost => Outcome::Done,
        };
        let mut again = false;
        if alive {
            let refused = if let Outcome::Refused(why) = outcome { Some(why) } else { None };
            let before = std::mem::replace(&mut self.pages.entry_mut(action.page).refused, refused);
            again = refused.is_some() && refused == before;
        }
        self.asked.push(Asked { action: *action, from, outcome, again });
        outcome
    }
}

#[cfg(test)]
mod tests;
