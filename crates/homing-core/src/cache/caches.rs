//! The caches of all CPUs and their coherence (MESI), by physical line; of pages they know nothing.

use super::array::Array;
use super::counts::Counts;
use super::shape::HierarchyShape;
use super::stamped::{Entered, Stamped, FLAG};
use super::third::Third;
use super::{Kind, Served};

/// Flag of a first-level line: the CPU has written it, so the second level holds it changed and alone.
const WRITTEN: u32 = FLAG;
/// Flag of a second-level line: no other CPU has it (MESI: E or M).
const EXCLUSIVE: u32 = 2;
/// Flag of a second-level line: it differs from memory (M).
const CHANGED: u32 = 1;

/// Takes what caches ask of memory.
pub(super) trait Events {
    /// A CPU waits for a line.
    fn demand(&mut self, cpu: u16, kind: Kind, served: Served);

    /// A changed second-level line goes back to memory.
    fn write_back(&mut self, cpu: u16, line: u32);
}

/// Where a line comes from that a second level misses: from memory, and nobody else has it, unless said.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    /// From a cache behind the CPU's third level, or from that, so that nothing is asked of the interconnect.
    within: bool,
    /// A cache held it changed.
    cache: bool,
    /// Others hold it, or did before it was written.
    shared: bool,
}

/// Two private levels a CPU, the second holding all that the first one does, and perhaps a third that neighbours share.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    /// Of each CPU.
    pub l1: Vec<Stamped>,
    l2: Array,
    third: Option<Third>,
    /// First-level lines in one of the second level.
    parts_log2: u32,
    pub counts: Vec<Counts>,
}

impl Caches {
    /// Empty ones. `cpus`: the number of each CPU in the machine, which says which third level it shares.
    pub fn new(shape: &HierarchyShape, cpus: &[u16]) -> Caches {
        Caches {
            l1: vec![Stamped::new(&shape.l1); cpus.len()],
            l2: shape.l2.array(cpus.len()),
            third: shape.l3.map(|(shape, each)| Third::new(&shape, each, cpus)),
            parts_log2: shape.l2.line_log2 - shape.l1.line_log2,
            counts: vec![Counts::default(); cpus.len()],
        }
    }

    /// A reference to a first-level line. Its slot, and true if that is all: it was there, and may be written if it is.
    /// Otherwise [`Caches::second`] comes next.
    #[inline(always)]
    pub fn first(&mut self, cpu: u16, line: u32, write: bool) -> (usize, bool) {
        let (slot, entered) = self.l1[cpu as usize].enter(line, write);
        match entered {
            Entered::Held(before) => (slot, !write || before & WRITTEN != 0),
            // What leaves the first level is in the second, which knows of every write.
            Entered::For(_) => {
                self.counts[cpu as usize].l1_misses += 1;
                (slot, false)
            }
        }
    }

    /// The second level: a first-level miss, or the first write to a first-level line.
    #[inline]
    pub fn second(&mut self, cpu: u16, l1_line: u32, write: bool, events: &mut impl Events) {
        let line = l1_line >> self.parts_log2;
        let Some(entry) = self.l2.touch(cpu.into(), line) else {
            return self.fetch(cpu, line, write, events);
        };
        if write {
            let alone = *entry & EXCLUSIVE != 0;
            *entry |= EXCLUSIVE | CHANGED;
            if !alone {
                self.upgrade(cpu, line, events);
            }
        }
    }

    /// A write to a line that others may hold too.
    fn upgrade(&mut self, cpu: u16, line: u32, events: &mut impl Events) {
        let others = self.l2.others(cpu as usize, line);
        let third = self.third.as_mut();
        let far = third.is_none_or(|third| third.far(cpu, others) || third.elsewhere(cpu, line) != 0);
        self.take(others, line);
        if let Some(third) = &mut self.third {
            third.settle_elsewhere(cpu, line, true);
        }
        if far {
            self.counts[cpu as usize].upgrades += 1;
            events.demand(cpu, Kind::Upgrade, Served::Memory);
        }
    }

    /// Takes a line away from CPUs. True if one had changed it.
    fn take(&mut self, mut from: u64, line: u32) -> bool {
        let mut changed = false;
        while from != 0 {
            let other = from.trailing_zeros() as u16;
            changed |= self.l2.remove(other.into(), line).is_some_and(|entry| entry & CHANGED != 0);
            self.drop_parts(other, line);
            self.counts[other as usize].invalidations += 1;
            from &= from - 1;
        }
        changed
    }

    /// Takes the parts of a second-level line out of the first level.
    #[inline]
    fn drop_parts(&mut self, cpu: u16, line: u32) {
        let (l1, first) = (&mut self.l1[cpu as usize], line << self.parts_log2);
        for part in first..first + (1 << self.parts_log2) {
            l1.remove(part);
        }
    }

    /// Another CPU reads a line that this one holds alone: both hold it now. True if it was changed.
    fn share(&mut self, owner: u16, line: u32) -> bool {
        let Some(entry) = self.l2.peek(owner.into(), line) else { return false };
        let changed = *entry & CHANGED != 0;
        *entry &= !(CHANGED | EXCLUSIVE);
        if changed {
            for part in 0..1 << self.parts_log2 {
                if let Some(entry) = self.l1[owner as usize].peek(line << self.parts_log2 | part) {
                    *entry &= !WRITTEN;
                }
            }
        }
        changed
    }

    /// A second-level miss.
    #[inline]
    fn fetch(&mut self, cpu: u16, line: u32, write: bool, events: &mut impl Events) {
        let others = self.l2.others(cpu.into(), line);
        let source = match &self.third {
            None if others == 0 => Source::default(),
            _ => self.source(cpu, line, (write, others), events),
        };
        let counts = &mut self.counts[cpu as usize];
        counts.l2_misses += 1;
        if source.within {
            counts.l3_hits += 1;
        } else {
            counts.interventions += u64::from(source.cache);
            counts.fetches_read += u64::from(!write);
            counts.fetches_write += u64::from(write);
            let kind = if write { Kind::ReadOwn } else { Kind::Read };
            events.demand(cpu, kind, if source.cache { Served::Cache } else { Served::Memory });
        }
        let alone = if write || !source.shared { EXCLUSIVE } else { 0 };
        let changed = if write { CHANGED } else { 0 };
        if let Some(victim) = self.l2.insert(cpu.into(), line, alone | changed) {
            self.evict(cpu, victim, events);
        }
        let third = self.third.as_mut();
        if let Some(victim) = third.and_then(|third| third.fill(cpu, line, false)) {
            self.give_back(cpu, victim, events);
        }
    }

    /// Where a missing line comes from, if some third level or other CPU may hold it; `others` are the CPUs that do.
    /// They give up or share what they hold.
    fn source(
        &mut self,
        cpu: u16,
        line: u32,
        (write, others): (bool, u64),
        events: &mut impl Events,
    ) -> Source {
        let third = self.third.as_mut();
        let (in_third, elsewhere, far) = third.map_or((false, false, others != 0), |third| {
            (third.hit(cpu, line), third.elsewhere(cpu, line) != 0, third.far(cpu, others))
        });
        // A changed copy: in the one other second level that holds the line, or in one third level.
        let mut changed_by = None;
        if write {
            if self.take(others, line) {
                changed_by = Some(others.trailing_zeros() as u16);
            }
        } else if others.is_power_of_two() {
            let owner = others.trailing_zeros() as u16;
            if self.share(owner, line) {
                changed_by = Some(owner);
                self.write_back(owner, line, events);
            }
        }
        let third = self.third.as_mut().filter(|_| elsewhere);
        let changed_third = third.is_some_and(|third| third.settle_elsewhere(cpu, line, write));
        if changed_third && !write {
            self.give_back(cpu, line, events);
        }
        let within = match changed_by {
            Some(owner) => self.third.as_ref().is_some_and(|third| third.near(cpu, owner)),
            None => in_third && !(write && (far || elsewhere)),
        };
        Source { within, cache: changed_by.is_some() || changed_third, shared: others != 0 || elsewhere }
    }

    /// A line leaves a second level.
    #[inline]
    fn evict(&mut self, cpu: u16, victim: u32, events: &mut impl Events) {
        let line = victim >> 2;
        self.drop_parts(cpu, line);
        if victim & CHANGED != 0 {
            self.write_back(cpu, line, events);
        }
    }

    /// A changed line goes to the third level if there is one, or to memory.
    fn write_back(&mut self, cpu: u16, line: u32, events: &mut impl Events) {
        let Some(third) = &mut self.third else { return self.give_back(cpu, line, events) };
        if let Some(victim) = third.fill(cpu, line, true) {
            self.give_back(cpu, victim, events);
        }
    }

    fn give_back(&mut self, cpu: u16, line: u32, events: &mut impl Events) {
        self.counts[cpu as usize].write_backs += 1;
        events.write_back(cpu, line);
    }

    /// Takes a second-level line out of all caches: how many CPUs held it, and whether one of the caches held it
    /// changed.
    pub fn drop_line(&mut self, line: u32) -> (u32, bool) {
        let holders = self.l2.holders(line);
        let changed = self.take(holders, line);
        let third = self.third.as_mut().is_some_and(|third| third.drop_line(line));
        (holders.count_ones(), changed | third)
    }
}
