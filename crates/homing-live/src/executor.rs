//! The kernel as the engine's executor: knows where pages are, takes actions as orders, carries them out in batches.

use crate::host::Host;
use crate::mover::{Landed, Mover, Order};
use crate::movers::Movers;
use crate::pages::PageTable;
use ahash::AHashMap;
use homing_core::action::{Action, Kind, Locations, Outcome};
use homing_core::engine::Executor;
use homing_core::ids::{Node, Page};
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::proc::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// An action that waits to be carried out.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    action: Action,
    to: Node,
}

/// An action that movers were told.
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
pub struct Kernel {
    host: Host,
    pages: PageTable,
    movers: Movers,
    dry_run: bool,
    /// The pages of orders that movers do not know yet; the last order of each.
    queue: Vec<Page>,
    waiting: AHashMap<Page, Waiting>,
    /// ... and those that they do, by number.
    sent: AHashMap<u32, Sent>,
    next: u32,
    /// The nodes whose memory a process may use, if that is known.
    allowed: BTreeMap<Pid, Vec<Node>>,
    /// The last move of each page to a node whose memory its process may not use.
    barred: AHashMap<Page, Action>,
    /// The processes of these pages.
    confined: BTreeSet<Pid>,
    /// Bytes that each node can still take.
    room: Vec<Option<u64>>,
    /// What was asked for, and where the page was, until [`Kernel::take_asked`].
    asked: Vec<Asked>,
}

/// An action that the policy asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The action.
    pub action: Action,
    /// Where the page was.
    pub from: Option<Node>,
    /// What came of it at once.
    pub outcome: Outcome,
}

impl Kernel {
    /// Nothing known yet. With `dry_run` actions are accepted and never carried out; pages then count as moved.
    pub fn new(host: Host, mover: Mover, dry_run: bool) -> Kernel {
        let mut kernel = Kernel {
            room: vec![None; host.nodes()],
            host,
            pages: PageTable::default(),
            movers: Movers::new(mover),
            dry_run,
            queue: Vec::new(),
            waiting: AHashMap::new(),
            sent: AHashMap::new(),
            next: 0,
            allowed: BTreeMap::new(),
            barred: AHashMap::new(),
            confined: BTreeSet::new(),
            asked: Vec::new(),
        };
        kernel.look_at_memory();
        kernel
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

    /// Orders that movers do not know yet.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// True if movers have begun with all that they know.
    pub fn hungry(&self) -> bool {
        self.movers.hungry()
    }

    /// Time in which something was being moved, and CPU time that it took.
    pub fn moving(&self) -> (Duration, Duration) {
        (self.movers.busy(), self.movers.used())
    }

    /// Reads how much memory each node has free.
    pub fn look_at_memory(&mut self) {
        for (index, room) in self.room.iter_mut().enumerate() {
            *room = self.host.room(Node(index as u16));
        }
    }

    /// A process may use these nodes' memory (none: it is not known, or the process has ended). Moves that were refused since it
    /// might not are ordered now.
    pub fn allow(&mut self, pid: Pid, nodes: Vec<Node>) {
        self.confined.remove(&pid);
        if nodes.is_empty() {
            self.allowed.remove(&pid);
        } else {
            self.allowed.insert(pid, nodes);
        }
        let barred = self.barred.iter().filter(|(page, _)| self.pages.entry(**page).pid == pid);
        let mut again: Vec<Action> = barred.map(|(_, action)| *action).collect();
        again.sort_unstable_by_key(|action| action.page);
        for action in again {
            self.execute(&action);
        }
    }

    /// Processes that have moves waiting until they may use other nodes' memory.
    pub fn confined(&self) -> &BTreeSet<Pid> {
        &self.confined
    }

    fn may_use(&self, pid: Pid, node: Node) -> bool {
        self.allowed.get(&pid).is_none_or(|nodes| nodes.contains(&node))
    }

    /// Asks the kernel where pages are. Returns those that are nowhere: not mapped, or not touched.
    pub fn locate(&mut self, pages: &[Page], now: u64) -> Vec<Page> {
        let mut by_process: BTreeMap<Pid, Vec<Page>> = BTreeMap::new();
        for &page in pages {
            by_process.entry(self.pages.entry(page).pid).or_default().push(page);
        }
        let mut nowhere = Vec::new();
        let (mut addresses, mut statuses) = (Vec::new(), Vec::new());
        for (pid, pages) in by_process {
            addresses.clear();
            addresses.extend(pages.iter().map(|&page| self.pages.entry(page).address));
            let asked = move_pages::query(pid, &addresses, &mut statuses).is_ok();
            for (&page, &status) in pages.iter().zip(&statuses) {
                let node = match PageStatus::from(status) {
                    PageStatus::On(id) if asked => self.host.node(id),
                    _ => None,
                };
                let entry = self.pages.entry_mut(page);
                (entry.at, entry.asked) = (node, now);
                if node.is_none() {
                    nowhere.push(page);
                }
            }
        }
        nowhere
    }

    /// Forgets a page and what was ordered for it.
    pub fn forget(&mut self, page: Page) {
        self.waiting.remove(&page);
        self.barred.remove(&page);
        self.pages.remove(page);
    }

    /// Tells the movers orders, oldest first: at most `bytes`. They begin none after `until`, but wait for the next time. What is being
    /// moved elsewhere waits for the end of that.
    pub fn send(&mut self, bytes: u64, until: Option<Instant>) {
        let mut left = bytes;
        let mut orders = Vec::new();
        let mut queue = std::mem::take(&mut self.queue).into_iter();
        for page in queue.by_ref() {
            // One that was taken back is still in the queue, and twice if it was given again.
            let Some(&Waiting { action, to }) = self.waiting.get(&page) else { continue };
            let entry = self.pages.entry_mut(page);
            if entry.under_way.is_some() {
                self.queue.push(page);
                continue;
            }
            if entry.bytes > left {
                self.queue.push(page);
                break;
            }
            left -= entry.bytes;
            self.waiting.remove(&page);
            let number = self.next;
            self.next = self.next.wrapping_add(1);
            entry.under_way = Some(number);
            self.sent.insert(number, Sent { action, to, from: entry.at, bytes: entry.bytes });
            let to = self.host.kernel_id(to);
            orders.push(Order { pid: entry.pid, to, address: entry.address, tag: number });
        }
        self.queue.extend(queue);
        self.movers.send(orders, until);
    }

    /// Waits until nothing is being moved; what has not begun in its time keeps waiting.
    pub fn rest(&mut self) {
        self.movers.rest();
    }

    /// Takes back what movers have not begun, and waits until nothing is being moved.
    pub fn stop(&mut self) {
        self.movers.leave();
        self.movers.rest();
    }

    /// What has come of orders since the last time.
    pub fn settled(&mut self) -> Vec<Settled> {
        let finished = self.movers.finished();
        finished.into_iter().filter_map(|(order, landed)| self.settle(order.tag, landed)).collect()
    }

    fn settle(&mut self, number: u32, landed: Landed) -> Option<Settled> {
        let Sent { action, to, from, bytes } = self.sent.remove(&number)?;
        let page = action.page;
        let gone = !self.pages.alive(page) || self.pages.entry(page).under_way != Some(number);
        let outcome = match landed {
            Landed::There => Outcome::Done,
            Landed::Not(errno) => Outcome::Failed(errno),
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
            }
            Landed::Not(_) => entry.failures += 1,
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
        if to.index() >= self.host.nodes() {
            return Outcome::Refused("no such node");
        }
        self.barred.remove(&action.page);
        let pid = self.pages.entry(action.page).pid;
        let may_use = self.may_use(pid, to);
        let entry = self.pages.entry_mut(action.page);
        if entry.seen_at() == Some(to) {
            return Outcome::Already;
        }
        if !entry.class.movable() {
            return Outcome::Refused("shared by processes: page cache is shown, not moved");
        }
        if entry.unmovable() {
            return Outcome::Refused("the kernel would not move the page three times");
        }
        if !may_use {
            self.barred.insert(action.page, *action);
            self.confined.insert(pid);
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

impl Executor for Kernel {
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
        self.asked.push(Asked { action: *action, from, outcome });
        outcome
    }
}

#[cfg(test)]
mod tests;
