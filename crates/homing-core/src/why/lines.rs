//! What happens within pages that several nodes write: which lines one node uses alone, and which travel between nodes.
//!
//! A line travels when a node refers to it that does not hold it, or writes it while others hold it. It brings nothing
//! new, and is *falsely shared*, if none of the bytes that the node asks for was written by others since it last held
//! them (Torrellas, Lam & Hennessy 1994: judged by the word that misses). A line that the node last used so long ago
//! that its caches have dropped it anyway is fetched for want of room, and does not count as travelling.

use crate::ids::Node;
use crate::trace::Kind;

/// Bytes of a line.
pub const LINE: u64 = 64;
const LINE_LOG2: u32 = LINE.trailing_zeros();
/// Bytes of a frame of a trace.
const FRAME_LOG2: u32 = 12;
const LINES: usize = 1 << (FRAME_LOG2 - LINE_LOG2);
/// Memory for the lines of one trace, in bytes.
const BUDGET: usize = 512 << 20;
/// A line, or a page, is a node's own if the node makes this share of its references.
pub(super) const OWN: f64 = 0.9;
/// The lines of a page that travel most are kept.
const KEPT: usize = 8;

/// A frame that is not watched.
const NONE: u32 = u32::MAX;

/// What one node does with one line.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    references: u32,
    /// Times it travelled to the node with nothing new, and with something new.
    falsely: u32,
    truly: u32,
    /// When the node last used it, by the node's clock.
    last: u32,
    /// Bytes that others wrote since the node last held the line.
    news: u64,
}

/// Who writes a frame after its maker has shared it.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    /// The node that used it first.
    by: u16,
    /// It has been used at all, and by another node.
    used: bool,
    shared: bool,
}

/// The lines of some frames while a trace is read.
pub struct Lines {
    nodes: usize,
    /// By frame: its number among those watched.
    slots: Vec<u32>,
    /// Nodes that hold each line.
    holders: Vec<u128>,
    /// Nodes to which the line last travelled with something new.
    truly: Vec<u128>,
    /// `[line * nodes + node]`
    uses: Vec<Use>,
    /// By frame watched.
    made: Vec<Made>,
    /// Writes after others than the maker had used the frame: `[frame * nodes + node]`.
    late: Vec<u64>,
    /// The line that each node used last, and how often it has gone on to another: no fewer than the lines it used.
    clocks: Vec<(u64, u32)>,
    /// Lines that the caches of a node hold.
    capacity: u32,
}

/// A line that travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Travelling {
    /// Times it travelled with something new.
    pub truly: u64,
    /// ... with nothing new.
    pub falsely: u64,
    /// Nodes that use it.
    pub nodes: u32,
    /// Where in its page it begins, in bytes.
    pub offset: u32,
}

/// What the lines of a page say. Columns are indexed by node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageLines {
    /// References that were seen.
    pub references: Vec<u64>,
    /// Those among them to lines that the node has nearly to itself.
    pub own: Vec<u64>,
    /// Times a line travelled to the node with nothing new.
    pub falsely: Vec<u64>,
    /// ... with something new.
    pub truly: Vec<u64>,
    /// Writes after others than its maker had used the page.
    pub late_writes: Vec<u64>,
    /// The lines that travel most, most first.
    pub travelling: Vec<Travelling>,
}

impl Lines {
    /// Watches the first of `watched` that fit into memory: numbers of frames, of which the trace has `frames`.
    /// `capacity`: lines that the caches of a node hold.
    pub fn new(nodes: usize, frames: usize, watched: &[u32], capacity: u64) -> Lines {
        let bytes = LINES * (32 + nodes * std::mem::size_of::<Use>());
        let fit = watched.len().min(BUDGET / bytes);
        let mut slots = vec![NONE; frames];
        watched[..fit].iter().zip(0..).for_each(|(&frame, slot)| slots[frame as usize] = slot);
        Lines {
            nodes,
            slots,
            holders: vec![0; fit * LINES],
            truly: vec![0; fit * LINES],
            uses: vec![Use::default(); fit * LINES * nodes],
            made: vec![Made::default(); fit],
            late: vec![0; fit * nodes],
            clocks: vec![(u64::MAX, 0); nodes],
            capacity: capacity.min(u64::from(u32::MAX / 2)) as u32,
        }
    }

    /// Frames that are watched.
    pub fn watched(&self) -> usize {
        self.holders.len() / LINES
    }

    /// References of a thread on `node` to dense addresses (`frame << 12 | offset`). One that crosses lines counts for
    /// the first.
    pub fn turn(&mut self, node: Node, addresses: &[u64], kinds: &[Kind]) {
        for (&address, &kind) in addresses.iter().zip(kinds) {
            let (line, clock) = &mut self.clocks[node.index()];
            if *line != address >> LINE_LOG2 {
                (*line, *clock) = (address >> LINE_LOG2, clock.wrapping_add(1));
            }
            let slot = self.slots[(address >> FRAME_LOG2) as usize];
            if slot != NONE {
                self.reference(slot, node.index(), address, kind);
            }
        }
    }

    fn reference(&mut self, slot: u32, node: usize, address: u64, kind: Kind) {
        let line = slot as usize * LINES + (address >> LINE_LOG2) as usize % LINES;
        let first = address % LINE;
        let bytes = u64::from(kind.bytes()).min(LINE - first);
        let mask = (u64::MAX >> (LINE - bytes)) << first;
        let (bit, holders) = (1u128 << node, self.holders[line]);
        self.note_writer(slot as usize, node, kind.is_write());
        let now = self.clocks[node].1;
        let uses = &mut self.uses[line * self.nodes..(line + 1) * self.nodes];
        let used = &mut uses[node];
        used.references = used.references.saturating_add(1);
        let recent = used.references > 1 && now.wrapping_sub(used.last) <= self.capacity;
        used.last = now;
        let fetched = holders & bit == 0;
        if fetched {
            let new = used.news & mask != 0;
            self.truly[line] = if new { self.truly[line] | bit } else { self.truly[line] & !bit };
            used.news = 0;
        }
        if recent && holders != 0 && (fetched || (kind.is_write() && holders != bit)) {
            match self.truly[line] & bit != 0 {
                true => used.truly = used.truly.saturating_add(1),
                false => used.falsely = used.falsely.saturating_add(1),
            }
        }
        if kind.is_write() {
            self.holders[line] = bit;
            let others = uses.iter_mut().enumerate().filter(|(other, _)| *other != node);
            others.for_each(|(_, other)| other.news |= mask);
        } else {
            self.holders[line] |= bit;
        }
    }

    fn note_writer(&mut self, slot: usize, node: usize, write: bool) {
        let made = &mut self.made[slot];
        if !made.used {
            *made = Made { by: node as u16, used: true, shared: false };
        }
        made.shared |= usize::from(made.by) != node;
        self.late[slot * self.nodes + node] += u64::from(write && made.shared);
    }

    /// What a frame's lines say; `offset`: where in its page the frame begins. Nothing if it is not watched.
    pub fn of_frame(&self, frame: u32, offset: u64) -> Option<PageLines> {
        let slot = self.slots.get(frame as usize).copied().filter(|&slot| slot != NONE)? as usize;
        let mut page = PageLines::new(self.nodes);
        for (number, uses) in
            self.uses[slot * LINES * self.nodes..].chunks(self.nodes).take(LINES).enumerate()
        {
            page.add_line(uses, offset as u32 + number as u32 * LINE as u32);
        }
        page.late_writes.copy_from_slice(&self.late[slot * self.nodes..][..self.nodes]);
        page.keep_most();
        Some(page)
    }
}

impl PageLines {
    fn new(nodes: usize) -> PageLines {
        let none = || vec![0; nodes];
        let (references, own, falsely, truly, late_writes) = (none(), none(), none(), none(), none());
        PageLines { references, own, falsely, truly, late_writes, travelling: Vec::new() }
    }

    fn add_line(&mut self, uses: &[Use], offset: u32) {
        let all: u64 = uses.iter().map(|used| u64::from(used.references)).sum();
        let mut line = Travelling { truly: 0, falsely: 0, nodes: 0, offset };
        for (node, used) in uses.iter().enumerate().filter(|(_, used)| used.references > 0) {
            let references = u64::from(used.references);
            self.references[node] += references;
            if references as f64 >= OWN * all as f64 {
                self.own[node] += references;
            }
            self.falsely[node] += u64::from(used.falsely);
            self.truly[node] += u64::from(used.truly);
            line.nodes += 1;
            line.falsely += u64::from(used.falsely);
            line.truly += u64::from(used.truly);
        }
        if line.truly + line.falsely > 0 {
            self.travelling.push(line);
        }
    }

    fn keep_most(&mut self) {
        self.travelling.sort_by_key(|line| (std::cmp::Reverse(line.truly + line.falsely), line.offset));
        self.travelling.truncate(KEPT);
    }

    /// Adds another frame of the same page.
    pub fn add(&mut self, other: PageLines) {
        let add = |sum: &mut Vec<u64>, more: Vec<u64>| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more)
        };
        add(&mut self.references, other.references);
        add(&mut self.own, other.own);
        add(&mut self.falsely, other.falsely);
        add(&mut self.truly, other.truly);
        add(&mut self.late_writes, other.late_writes);
        self.travelling.extend(other.travelling);
        self.keep_most();
    }

    /// The share of a node's references that are to lines of its own.
    pub fn own_share(&self, node: usize) -> f64 {
        self.own[node] as f64 / (self.references[node] as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// References (node, offset in the frame, write) of eight bytes each.
    fn lines(references: impl IntoIterator<Item = (u16, u64, bool)>) -> PageLines {
        lines_of(1000, references)
    }

    fn lines_of(capacity: u64, references: impl IntoIterator<Item = (u16, u64, bool)>) -> PageLines {
        let mut lines = Lines::new(2, 4, &[3], capacity);
        for (node, offset, write) in references {
            let kind = if write { Kind::write(8) } else { Kind::read(8) };
            lines.turn(Node(node), &[3 << 12 | offset, 2 << 12], &[kind, kind]);
        }
        assert_eq!((lines.watched(), lines.of_frame(2, 0)), (1, None));
        lines.of_frame(3, 8192).unwrap()
    }

    #[test]
    fn counters_of_two_nodes_in_one_line_travel_in_vain() {
        let page = lines((0..100).flat_map(|_| [(0, 64, true), (1, 72, true)]));
        // The first reference of each is not because of the other.
        assert_eq!((&page.falsely, &page.truly), (&vec![99, 99], &vec![0, 0]));
        assert_eq!(page.late_writes, [99, 100]);
        assert_eq!(page.own, [0, 0]);
        let line = Travelling { truly: 0, falsely: 198, nodes: 2, offset: 8192 + 64 };
        assert_eq!(page.travelling, [line]);
    }

    #[test]
    fn a_counter_of_all_travels_with_something_new() {
        // Each reads what the other wrote, then writes: a fetch and an upgrade.
        let increments = |node| [(node, 0, false), (node, 0, true)];
        let page = lines((0..50).flat_map(|_| [increments(0), increments(1)].concat()));
        assert_eq!((page.falsely, page.truly), (vec![0, 0], vec![98, 99]));
    }

    #[test]
    fn lines_of_their_own_stay_where_they_are() {
        let page = lines((0..100).flat_map(|_| [(0, 0, true), (1, 2048, true), (1, 2056, false)]));
        assert_eq!((&page.falsely, &page.truly), (&vec![0, 0], &vec![0, 0]));
        assert_eq!((page.own_share(0), page.own_share(1)), (1.0, 1.0));
        assert_eq!(page.travelling, []);
    }

    #[test]
    fn lines_that_the_caches_have_dropped_are_fetched_for_want_of_room() {
        // Between two uses of a line a node uses 63 others.
        let round = || (0..64).flat_map(|line| [(0, line * 64, true), (1, line * 64 + 8, true)]);
        let falsely =
            |capacity| lines_of(capacity, (0..10).flat_map(|_| round())).falsely.iter().sum::<u64>();
        assert_eq!((falsely(200), falsely(20)), (2 * 64 * 9, 0));
    }

    #[test]
    fn machines_of_many_nodes_are_told_apart() {
        // Node 64 is not node 0.
        let mut lines = Lines::new(128, 1, &[0], 1000);
        for node in [0, 64, 0, 64] {
            lines.turn(Node(node), &[u64::from(node)], &[Kind::write(8)]);
            lines.turn(Node(node), &[2048 + u64::from(node) / 8], &[Kind::write(8)]);
        }
        let page = lines.of_frame(0, 0).unwrap();
        assert_eq!((page.falsely[0], page.falsely[64]), (1, 1));
    }

    #[test]
    fn readers_hold_a_line_together() {
        let once = [(0, 0, true)].into_iter();
        let page = lines(once.chain((0..100).flat_map(|_| [(0, 0, false), (1, 0, false)])));
        assert_eq!((&page.falsely, &page.truly), (&vec![0, 0], &vec![0, 0]));
        assert_eq!(page.late_writes, [0, 0]);
    }
}
