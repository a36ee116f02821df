//! The pages that are known: a dense number for each, its address, and where it is.
//!
//! Numbers of pages whose mapping went away are used again, once the policy has been told, so memory stays bounded by
//! the pages that are there.

use super::numbers::Numbers;
use super::payoff::Stay;
use super::rounds::Rounds;
use super::{HUGE, PAGE};
use crate::estimate::users::Users;
use homing_core::ids::{Micros, Node, Page};
use homing_core::process::{Class, ProcessId};
use smallvec::SmallVec;

/// What a page is known by, whoever uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The process that it belongs to, and its address there.
    Own(ProcessId, u64),
    /// The object that several processes can map, by order of appearance, and the place in it.
    Shared(u32, u64),
}

impl Key {
    /// The base page that holds the address or place.
    pub fn base(self) -> Key {
        self.rounded(PAGE)
    }

    /// The huge page that would hold the address or place.
    pub fn huge(self) -> Key {
        self.rounded(HUGE)
    }

    /// The address or place.
    pub(super) fn place(self) -> u64 {
        match self {
            Key::Own(_, place) | Key::Shared(_, place) => place,
        }
    }

    /// What begins at a multiple of that many bytes, a power of two, and holds the address or place.
    pub(super) fn rounded(self, bytes: u64) -> Key {
        match self {
            Key::Own(process, address) => Key::Own(process, address & !(bytes - 1)),
            Key::Shared(object, offset) => Key::Shared(object, offset & !(bytes - 1)),
        }
    }

    /// The object that several processes can map, if there is one.
    pub fn object(self) -> Option<u32> {
        match self {
            Key::Own(..) => None,
            Key::Shared(object, _) => Some(object),
        }
    }
}

/// A page of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it is known by.
    pub key: Key,
    /// The process; of several that share the page, one that has used it lately.
    pub process: ProcessId,
    /// Address of the first byte, in that process.
    pub address: u64,
    /// Size: the base page, or a huge page that moves as a whole.
    pub bytes: u64,
    /// What its mapping holds.
    pub class: Class,
    /// Where the kernel said it is; `None` if it is nowhere, or has not been asked for.
    pub at: Option<Node>,
    /// Where it has been ordered to, until that is settled. In a dry run for good.
    pub ordered: Option<Node>,
    /// The number of the order by which it is being moved.
    pub under_way: Option<u32>,
    /// When the kernel was asked last.
    pub asked: Micros,
    /// Moves that failed in a row.
    pub failures: u32,
    /// A huge page that the kernel would not split.
    pub whole: bool,
    /// The policy has wanted it elsewhere.
    pub eligible: bool,
    /// The policy has frozen it.
    pub frozen: bool,
    /// Moves that succeeded.
    pub moves: u32,
    /// Whether it moves back and forth.
    pub rounds: Rounds,
    /// What its last move has brought.
    pub stay: Stay,
    /// It was spread (`spread.rs`) since a policy moved it.
    pub spread: bool,
    /// Why the last action was refused, if it was.
    pub refused: Option<&'static str>,
    /// Where it was when it was first met, or met again after its users had gone elsewhere.
    pub first: Option<Node>,
    /// The node that used it last, as far as was seen.
    pub last: Option<Node>,
    /// It was used once as far as was seen, by the node that had it.
    pub met_at_home: bool,
    /// Accesses by node since it was first seen.
    pub seen: SmallVec<[u32; 4]>,
    /// Who uses it, by hint faults.
    pub users: Users,
    alive: bool,
}

/// Moves that may fail in a row before a page counts as unmovable.
const PATIENCE: u32 = 3;

impl Entry {
    /// True if the kernel would not move it several times.
    pub fn unmovable(&self) -> bool {
        self.failures >= PATIENCE
    }

    /// A process has used it at this address. Orders for a shared page are carried out in a process that has it mapped.
    pub fn used_by(&mut self, process: ProcessId, address: u64) {
        if self.key.object().is_some() && self.under_way.is_none() {
            (self.process, self.address) = (process, address & !(self.bytes - 1));
        }
    }

    /// The node that used it last, as far as was seen.
    pub fn user(&self) -> Option<Node> {
        self.last.or(if self.met_at_home { self.first } else { None })
    }

    /// Counts an access.
    pub fn count(&mut self, by: Node) {
        if self.seen.len() <= by.index() {
            self.seen.resize(by.index() + 1, 0);
        }
        self.seen[by.index()] = self.seen[by.index()].saturating_add(1);
    }

    /// Where policies see it: where it is going, else where it is.
    pub fn seen_at(&self) -> Option<Node> {
        self.ordered.or(self.at)
    }
}

/// All pages.
#[derive(Debug, Default)]
pub struct PageTable {
    numbers: Numbers,
    entries: Vec<Entry>,
    free: Vec<Page>,
}

impl PageTable {
    /// The number of the page of that key, which begins at `address` of `process`; made if it is new.
    pub fn number(
        &mut self,
        key: Key,
        (process, address): (ProcessId, u64),
        bytes: u64,
        class: Class,
    ) -> Page {
        if let Some(page) = self.numbers.get(key) {
            return page;
        }
        let entry = Entry {
            key,
            process,
            address,
            bytes,
            class,
            at: None,
            ordered: None,
            under_way: None,
            asked: Micros(0),
            failures: 0,
            whole: false,
            eligible: false,
            frozen: false,
            moves: 0,
            rounds: Rounds::default(),
            stay: Stay::default(),
            spread: false,
            refused: None,
            first: None,
            last: None,
            met_at_home: false,
            seen: SmallVec::new(),
            users: Users::default(),
            alive: true,
        };
        let page = match self.free.pop() {
            Some(page) => {
                self.entries[page.index()] = entry;
                page
            }
            None => {
                self.entries.push(entry);
                Page(self.entries.len() as u32 - 1)
            }
        };
        self.numbers.insert(key, page);
        page
    }

    /// The number of the page of that key, if it is known.
    pub fn find(&self, key: Key) -> Option<Page> {
        self.numbers.get(key)
    }

    /// A page. Only for numbers that [`PageTable::number`] gave and that are not gone.
    pub fn entry(&self, page: Page) -> &Entry {
        &self.entries[page.index()]
    }

    /// As [`PageTable::entry`].
    pub fn entry_mut(&mut self, page: Page) -> &mut Entry {
        &mut self.entries[page.index()]
    }

    /// True if the page has not gone.
    pub fn alive(&self, page: Page) -> bool {
        self.entries.get(page.index()).is_some_and(|entry| entry.alive)
    }

    /// Forgets a page; its number will be used again.
    pub fn remove(&mut self, page: Page) {
        let entry = &mut self.entries[page.index()];
        if std::mem::take(&mut entry.alive) {
            self.numbers.remove(entry.key);
            self.free.push(page);
        }
    }

    /// All pages that are there.
    pub fn iter(&self) -> impl Iterator<Item = (Page, &Entry)> {
        let numbered = self.entries.iter().enumerate().map(|(index, entry)| (Page(index as u32), entry));
        numbered.filter(|(_, entry)| entry.alive)
    }

    /// Number of pages that are there.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_when_a_page_is_gone() {
        let mut table = PageTable::default();
        let of = ProcessId(7);
        let number = |table: &mut PageTable, address| {
            table.number(Key::Own(of, address), (of, address), 4096, Class::Heap)
        };
        let (a, b) = (number(&mut table, 0x1000), number(&mut table, 0x2000));
        assert_eq!((a, b, number(&mut table, 0x1000)), (Page(0), Page(1), Page(0)));
        table.entry_mut(a).failures = PATIENCE;
        assert!(table.entry(a).unmovable());
        table.remove(a);
        table.remove(a);
        assert_eq!((table.find(Key::Own(of, 0x1000)), table.alive(a), table.len()), (None, false, 1));
        assert_eq!((number(&mut table, 0x3000), number(&mut table, 0x4000)), (Page(0), Page(2)));
        assert!(!table.entry(a).unmovable());
        assert_eq!(table.iter().count(), 3);
    }
}
