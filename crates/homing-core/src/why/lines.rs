//! What happens within pages that several nodes write: which lines one node uses alone, and which travel between nodes.
//!
//! A line travels when a node refers to it that does not hold it, or writes it while others hold it. It brings nothing
//! new, and is *falsely shared*, if none of the bytes that the node asks for was written by others since it last held
//! them (Torrellas, Lam & Hennessy 1994: judged by the word that misses). A line that the node last used so long ago
//! that its caches have dropped it anyway is fetched for want of room, and does not count as travelling.
//!
//! Padding ends such travels where the parts of a line have a user each. Where nodes use random words of a line, some
//! of its travels bring something new, and lines of their own would be needed for each word: these do not count.
//!
//! Lines also travel between the CPUs of a node. No memory sees that, but each time is a miss of the CPU's first level,
//! which ends, too, if lines are not shared: [`Ended`] counts these.

mod rounds;
#[cfg(test)]
mod tests;

use crate::ids::Node;
use crate::trace::Kind;
use rounds::Rounds;
use std::ops::{Add, AddAssign};

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
/// A line's parts have a user each if at most this share of its travels brings something new. Random uses of its words
/// bring something new in no less than a sixteenth: a line has at most 16 words of 4 bytes.
const PARTED: f64 = 1.0 / 32.0;
/// A line that travels this often is judged by itself, others together with those of their page.
const TELLING: u64 = 64;

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

/// What one CPU does with one line.
#[derive(Clone, Copy, Debug, Default)]
struct CpuUse {
    /// Bytes that others wrote since the CPU last held the line.
    news: u64,
    /// When the CPU last used it, by the CPU's clock.
    last: u32,
}

/// Misses of a CPU's first level for lines that others had taken away from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// All of them.
    pub l1_misses: u64,
    /// Those that were served within the CPU's node.
    pub within: u64,
}

impl AddAssign for Ended {
    fn add_assign(&mut self, more: Ended) {
        self.l1_misses += more.l1_misses;
        self.within += more.within;
    }
}

/// The [`Ended`] of one CPU: of lines that brought it nothing new, and of those that brought something new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuLines {
    /// ... with nothing new: these end if each thread's part has lines of its own.
    pub falsely: Ended,
    /// ... with something new.
    pub truly: Ended,
}

/// A clock that counts how often the line in use changes.
#[derive(Clone, Copy, Debug)]
struct Clock {
    line: u64,
    now: u32,
}

impl Clock {
    const NEW: Clock = Clock { line: u64::MAX, now: 0 };

    fn tick(&mut self, line: u64) {
        if self.line != line {
            *self = Clock { line, now: self.now.wrapping_add(1) };
        }
    }
}

/// Lines that caches hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// All caches of a node.
    pub node: u64,
    /// Those of one CPU alone.
    pub cpu: u64,
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
    /// Of each node, and of each CPU: no fewer ticks than the lines that it used.
    clocks: Vec<Clock>,
    cpu_clocks: Vec<Clock>,
    /// Lines that the caches of a node hold, and those of a CPU.
    capacity: u32,
    cpu_capacity: u32,
    /// CPUs; 0 if there are too many to follow lines between them.
    cpus: usize,
    /// CPUs that hold each line, and those that have used it.
    cpu_holders: Vec<u128>,
    cpu_users: Vec<u128>,
    /// `[line * cpus + cpu]`
    cpu_uses: Vec<CpuUse>,
    /// `[frame * cpus + cpu]`
    by_cpu: Vec<CpuLines>,
    /// What the order of the recording hides.
    rounds: Rounds,
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
    /// ... of lines whose parts have a user each: padding ends these.
    pub parted: Vec<u64>,
    /// Times a line travelled to the node with something new.
    pub truly: Vec<u64>,
    /// Travels of lines that the order of the recording may hide ([`rounds`]).
    pub hidden: u64,
    /// Writes after others than its maker had used the page.
    pub late_writes: Vec<u64>,
    /// By CPU.
    pub cpus: Vec<CpuLines>,
    /// The lines that travel most, most first.
    pub travelling: Vec<Travelling>,
}

impl Lines {
    /// Watches the first of `watched` that fit into memory: numbers of frames, of which the trace has `frames`.
    pub fn new(nodes: usize, cpus: usize, frames: usize, watched: &[u32], capacity: Capacity) -> Lines {
        let cpus = if cpus <= u128::BITS as usize { cpus } else { 0 };
        let of_nodes = 32 + Rounds::BYTES + nodes * std::mem::size_of::<Use>();
        let of_cpus = 32 + cpus * std::mem::size_of::<CpuUse>();
        let fit = watched.len().min(BUDGET / (LINES * (of_nodes + of_cpus)));
        let mut slots = vec![NONE; frames];
        watched[..fit].iter().zip(0..).for_each(|(&frame, slot)| slots[frame as usize] = slot);
        let clock = |lines: u64| lines.min(u64::from(u32::MAX / 2)) as u32;
        Lines {
            nodes,
            slots,
            holders: vec![0; fit * LINES],
            truly: vec![0; fit * LINES],
            uses: vec![Use::default(); fit * LINES * nodes],
            made: vec![Made::default(); fit],
            late: vec![0; fit * nodes],
            clocks: vec![Clock::NEW; nodes],
            cpu_clocks: vec![Clock::NEW; cpus],
            capacity: clock(capacity.node),
            cpu_capacity: clock(capacity.cpu),
            cpus,
            cpu_holders: vec![0; fit * LINES],
            cpu_users: vec![0; fit * LINES],
            cpu_uses: vec![CpuUse::default(); fit * LINES * cpus],
            by_cpu: vec![CpuLines::default(); fit * cpus],
            rounds: Rounds::new(fit * LINES),
        }
    }

    /// Frames that are watched.
    pub fn watched(&self) -> usize {
        self.holders.len() / LINES
    }

    /// References of a thread on the CPU `cpu` of `node` to dense addresses (`frame << 12 | offset`). One that crosses
    /// lines counts for the first.
    pub fn turn(&mut self, node: Node, cpu: usize, addresses: &[u64], kinds: &[Kind]) {
        self.rounds.tick(addresses.len());
        for (&address, &kind) in addresses.iter().zip(kinds) {
            self.clocks[node.index()].tick(address >> LINE_LOG2);
            if let Some(clock) = self.cpu_clocks.get_mut(cpu) {
                clock.tick(address >> LINE_LOG2);
            }
            let slot = self.slots[(address >> FRAME_LOG2) as usize];
            if slot != NONE {
                // What the node holds is judged by before the reference changes it.
                self.reference_by_cpu(slot, node.index(), cpu, address, kind);
                self.reference(slot, node.index(), address, kind);
                self.rounds.reference(line_of(slot, address), node, kind.is_write());
            }
        }
    }

    fn reference_by_cpu(&mut self, slot: u32, node: usize, cpu: usize, address: u64, kind: Kind) {
        if cpu >= self.cpus {
            return;
        }
        let line = line_of(slot, address);
        let (mask, bit) = (bytes_of(address, kind), 1u128 << cpu);
        let (holders, users) = (self.cpu_holders[line], self.cpu_users[line]);
        let now = self.cpu_clocks[cpu].now;
        let uses = &mut self.cpu_uses[line * self.cpus..(line + 1) * self.cpus];
        let used = &mut uses[cpu];
        let recent = users & bit != 0 && now.wrapping_sub(used.last) <= self.cpu_capacity;
        used.last = now;
        if holders & bit == 0 {
            let new = std::mem::take(&mut used.news) & mask != 0;
            if recent && holders != 0 {
                let by_cpu = &mut self.by_cpu[slot as usize * self.cpus + cpu];
                let ended = if new { &mut by_cpu.truly } else { &mut by_cpu.falsely };
                ended.l1_misses += 1;
                ended.within += u64::from(self.holders[line] >> node & 1 == 1);
            }
        }
        self.cpu_users[line] |= bit;
        if !kind.is_write() {
            self.cpu_holders[line] |= bit;
            return;
        }
        self.cpu_holders[line] = bit;
        let mut others = users & !bit;
        while others != 0 {
            uses[others.trailing_zeros() as usize].news |= mask;
            others &= others - 1;
        }
    }

    fn reference(&mut self, slot: u32, node: usize, address: u64, kind: Kind) {
        let line = line_of(slot, address);
        let mask = bytes_of(address, kind);
        let (bit, holders) = (1u128 << node, self.holders[line]);
        self.note_writer(slot as usize, node, kind.is_write());
        let now = self.clocks[node].now;
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
        let lines = || self.uses[slot * LINES * self.nodes..].chunks(self.nodes).take(LINES);
        let all: Vec<Travels> = lines().map(Travels::of).collect();
        let few =
            all.iter().filter(|travels| travels.sum() < TELLING).fold(Travels::default(), |a, &b| a + b);
        for (number, uses) in lines().enumerate() {
            let travels = if all[number].sum() < TELLING { few } else { all[number] };
            page.add_line(uses, offset as u32 + number as u32 * LINE as u32, travels.are_of_parts());
        }
        page.hidden = (slot * LINES..(slot + 1) * LINES).map(|line| self.rounds.hidden(line)).sum();
        page.late_writes.copy_from_slice(&self.late[slot * self.nodes..][..self.nodes]);
        page.cpus = self.by_cpu[slot * self.cpus..][..self.cpus].to_vec();
        page.keep_parts(all.iter().map(|travels| travels.falsely).sum());
        page.keep_most();
        Some(page)
    }
}

/// The number of a line of a frame that is watched.
fn line_of(slot: u32, address: u64) -> usize {
    slot as usize * LINES + (address >> LINE_LOG2) as usize % LINES
}

/// The bytes of its line that a reference is to, a bit each.
fn bytes_of(address: u64, kind: Kind) -> u64 {
    let first = address % LINE;
    let bytes = u64::from(kind.bytes()).min(LINE - first);
    (u64::MAX >> (LINE - bytes)) << first
}

/// How often lines travelled.
#[derive(Clone, Copy, Debug, Default)]
struct Travels {
    truly: u64,
    falsely: u64,
}

impl Travels {
    fn of(uses: &[Use]) -> Travels {
        let add = |sum: Travels, used: &Use| Travels {
            truly: sum.truly + u64::from(used.truly),
            falsely: sum.falsely + u64::from(used.falsely),
        };
        uses.iter().fold(Travels::default(), add)
    }

    fn sum(self) -> u64 {
        self.truly + self.falsely
    }

    /// Whether the parts of these lines have a user each.
    fn are_of_parts(self) -> bool {
        self.truly as f64 <= PARTED * self.sum() as f64
    }
}

impl Add for Travels {
    type Output = Travels;

    fn add(self, other: Travels) -> Travels {
        Travels { truly: self.truly + other.truly, falsely: self.falsely + other.falsely }
    }
}

impl PageLines {
    fn new(nodes: usize) -> PageLines {
        let none = || vec![0; nodes];
        let (references, own, falsely, parted) = (none(), none(), none(), none());
        let (truly, late_writes) = (none(), none());
        let (cpus, travelling) = (Vec::new(), Vec::new());
        PageLines { references, own, falsely, parted, truly, hidden: 0, late_writes, cpus, travelling }
    }

    /// `parts`: whether the line's parts have a user each.
    fn add_line(&mut self, uses: &[Use], offset: u32, parts: bool) {
        let all: u64 = uses.iter().map(|used| u64::from(used.references)).sum();
        let mut line = Travelling { truly: 0, falsely: 0, nodes: 0, offset };
        for (node, used) in uses.iter().enumerate().filter(|(_, used)| used.references > 0) {
            let references = u64::from(used.references);
            self.references[node] += references;
            if references as f64 >= OWN * all as f64 {
                self.own[node] += references;
            }
            self.falsely[node] += u64::from(used.falsely);
            self.parted[node] += if parts { used.falsely.into() } else { 0 };
            self.truly[node] += u64::from(used.truly);
            line.nodes += 1;
            line.falsely += u64::from(used.falsely);
            line.truly += u64::from(used.truly);
        }
        if line.truly + line.falsely > 0 {
            self.travelling.push(line);
        }
    }

    /// Keeps of what CPUs missed with nothing new the share that lines of parts have; `falsely`: all travels between
    /// nodes with nothing new. Where nothing travels between nodes, CPUs are judged together.
    fn keep_parts(&mut self, falsely: u64) {
        let kept = match falsely {
            0 => {
                let sum = |of: fn(&CpuLines) -> u64| self.cpus.iter().map(of).sum();
                let travels = Travels {
                    truly: sum(|cpu| cpu.truly.l1_misses),
                    falsely: sum(|cpu| cpu.falsely.l1_misses),
                };
                f64::from(u8::from(travels.are_of_parts()))
            }
            all => self.parted.iter().sum::<u64>() as f64 / all as f64,
        };
        let part = |count: u64| (count as f64 * kept).round() as u64;
        for Ended { l1_misses, within } in self.cpus.iter_mut().map(|cpu| &mut cpu.falsely) {
            (*l1_misses, *within) = (part(*l1_misses), part(*within));
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
        add(&mut self.parted, other.parted);
        add(&mut self.truly, other.truly);
        add(&mut self.late_writes, other.late_writes);
        self.hidden += other.hidden;
        self.cpus.resize(other.cpus.len(), CpuLines::default());
        for (sum, more) in self.cpus.iter_mut().zip(other.cpus) {
            sum.falsely += more.falsely;
            sum.truly += more.truly;
        }
        self.travelling.extend(other.travelling);
        self.keep_most();
    }

    /// The share of a node's references that are to lines of its own.
    pub fn own_share(&self, node: usize) -> f64 {
        self.own[node] as f64 / (self.references[node] as f64).max(1.0)
    }
}
