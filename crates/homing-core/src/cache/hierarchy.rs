//! The walk of a reference through TLBs and caches to the home of its page.

use super::array::MAX_LINE;
use super::counts::Counts;
use super::frames::{Addresses, Frames};
use super::private::{Private, CHANGED, EXCLUSIVE, NONE, WRITTEN};
use super::shape::HierarchyShape;
use super::shared::Shared;
use super::{Kind, Served, Sink, Transaction};
use crate::ids::{Cpu, Page};
use crate::trace::Kind as Access;

/// The most CPUs that a hierarchy has.
pub const MAX_CPUS: usize = 64;

/// A hierarchy that cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HierarchyError {
    /// More CPUs in use than the directory has bits.
    #[error("the threads run on {0} CPUs; caches are simulated for at most {MAX_CPUS}: put fewer threads on each other's \
             CPUs with --threads-on, or record with fewer threads")]
    TooManyCpus(usize),
    /// Physical memory too large.
    #[error(
        "the trace touches {0} pages; with these page and line sizes caches are simulated for at most {1}"
    )]
    TooMuchMemory(u32, u64),
}

/// The caches and TLBs of the CPUs in use, and the frames of memory.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    cpus: Vec<Private>,
    rest: Rest,
}

/// All but the private parts.
#[derive(Clone, Debug)]
struct Rest {
    shared: Shared,
    addresses: Addresses,
    frames: Frames,
    page_log2: u32,
    l1_log2: u32,
    l2_log2: u32,
    write_backs_of_moves: u64,
}

/// What moving a page did to the caches and TLBs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relocation {
    /// CPUs whose translation of the page was shot down.
    pub shootdowns: u32,
    /// Lines that caches held and lost.
    pub lines: u32,
    /// Of those, the changed ones, which were written back.
    pub write_backs: u32,
}

impl Hierarchy {
    /// Empty caches. `cpus`: the CPUs in use; everywhere else a CPU is an index into this list.
    pub fn new(
        shape: &HierarchyShape,
        cpus: &[Cpu],
        addresses: Addresses,
    ) -> Result<Hierarchy, HierarchyError> {
        if cpus.len() > MAX_CPUS {
            return Err(HierarchyError::TooManyCpus(cpus.len()));
        }
        let page_log2 = addresses.page_size().log2();
        let lines_log2 = page_log2.saturating_sub(shape.l1.line_log2);
        let frames = Frames::new(shape.colours, &addresses, lines_log2).ok_or_else(|| {
            HierarchyError::TooMuchMemory(addresses.pages(), u64::from(MAX_LINE >> lines_log2) / 2)
        })?;
        let numbers: Vec<u16> = cpus.iter().map(|cpu| cpu.0).collect();
        let shared = Shared::new(shape, &numbers);
        let (l1_log2, l2_log2) = (shape.l1.line_log2, shape.l2.line_log2);
        let rest = Rest { shared, addresses, frames, page_log2, l1_log2, l2_log2, write_backs_of_moves: 0 };
        Ok(Hierarchy { cpus: vec![Private::new(shape); cpus.len()], rest })
    }

    /// The pages.
    pub fn addresses(&self) -> &Addresses {
        &self.rest.addresses
    }

    /// Counts of each CPU.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.cpus.iter().map(|cpu| &cpu.counts)
    }

    /// Counts of all CPUs, with what moving pages has written back.
    pub fn total(&self) -> Counts {
        let mut total = Counts { write_backs: self.rest.write_backs_of_moves, ..Counts::default() };
        self.counts().for_each(|counts| total.add(counts));
        total
    }

    /// One reference of `cpu` to a dense address. A reference belongs to one page, that of its first byte.
    #[inline(always)]
    pub fn reference(&mut self, cpu: u16, address: u64, access: Access, sink: &mut impl Sink) {
        let write = access.is_write();
        let own = &mut self.cpus[cpu as usize];
        own.counts.references += 1;
        let line_mask = (1u64 << self.rest.l1_log2) - 1;
        let crosses = (address & line_mask) + u64::from(access.bytes()) > line_mask + 1;
        if !crosses && address >> self.rest.l1_log2 == own.last_line && (!write || own.last_written) {
            own.counts.lines += 1;
            return;
        }
        self.lines(cpu, address, access, crosses, sink);
    }

    /// A reference that is not to the line of the one before.
    #[inline(never)]
    fn lines(&mut self, cpu: u16, address: u64, access: Access, crosses: bool, sink: &mut impl Sink) {
        self.line(cpu, address, access.is_write(), sink);
        if crosses {
            let granule = 1u64 << self.rest.addresses.granule_log2();
            let end = (address + u64::from(access.bytes())).min((address | (granule - 1)) + 1);
            let step = 1u64 << self.rest.l1_log2;
            let mut next = (address & !(step - 1)) + step;
            while next < end {
                self.line(cpu, next, access.is_write(), sink);
                next += step;
            }
        }
    }

    /// A reference within one first-level line.
    #[inline(always)]
    fn line(&mut self, cpu: u16, address: u64, write: bool, sink: &mut impl Sink) {
        let rest = &mut self.rest;
        let own = &mut self.cpus[cpu as usize];
        own.counts.lines += 1;
        let granule_log2 = rest.addresses.granule_log2();
        let granule = address >> granule_log2;
        if granule != own.granule {
            enter(own, rest, cpu, granule, sink);
        }
        let physical = own.base + (address & ((1 << granule_log2) - 1));
        let line = (physical >> rest.l1_log2) as u32;
        own.last_line = address >> rest.l1_log2;
        if let Some(entry) = own.l1.touch(line) {
            if !write || *entry & WRITTEN != 0 {
                own.last_written = *entry & WRITTEN != 0;
                return;
            }
            *entry |= WRITTEN;
        } else {
            own.counts.l1_misses += 1;
            sink.l1_miss(cpu, own.page);
            // What leaves the first level is in the second, which knows of every write.
            own.l1.insert(line, if write { WRITTEN } else { 0 });
        }
        let offset = (physical & ((1 << rest.page_log2) - 1)) as u32;
        self.second(cpu, line, offset, write, sink);
        let own = &mut self.cpus[cpu as usize];
        (own.last_line, own.last_written) = (address >> self.rest.l1_log2, write);
    }

    /// The second level: a first-level miss, or the first write to a first-level line.
    fn second(&mut self, cpu: u16, l1_line: u32, offset: u32, write: bool, sink: &mut impl Sink) {
        let line = l1_line >> (self.rest.l2_log2 - self.rest.l1_log2);
        let own = &mut self.cpus[cpu as usize];
        if let Some(entry) = own.l2.touch(line) {
            if write {
                let alone = *entry & EXCLUSIVE != 0;
                *entry |= EXCLUSIVE | CHANGED;
                if !alone {
                    self.upgrade(cpu, line, offset, sink);
                }
            }
            return;
        }
        own.counts.l2_misses += 1;
        self.fetch(cpu, line, offset, write, sink);
    }

    /// A write to a line that others may hold too.
    fn upgrade(&mut self, cpu: u16, line: u32, offset: u32, sink: &mut impl Sink) {
        let others = self.rest.shared.holders(line) & !(1 << cpu);
        let far =
            self.far(cpu, others) || self.rest.shared.elsewhere(cpu, line) || !self.rest.shared.has_third();
        self.take(others, line);
        self.rest.shared.settle_elsewhere(cpu, line, true);
        self.rest.shared.set_holders(line, 1 << cpu);
        let own = &mut self.cpus[cpu as usize];
        own.counts.upgrades += u64::from(far);
        if far {
            let (page, kind) = (own.page, Kind::Upgrade);
            sink.transaction(&Transaction { cpu, page, offset, kind, served: Served::Memory });
        }
    }

    /// Takes a line away from CPUs. True if one had changed it.
    fn take(&mut self, mut from: u64, line: u32) -> bool {
        let parts_log2 = self.rest.l2_log2 - self.rest.l1_log2;
        let mut changed = false;
        while from != 0 {
            let other = &mut self.cpus[from.trailing_zeros() as usize];
            changed |= other.invalidate(line, parts_log2).is_some_and(|entry| entry & CHANGED != 0);
            other.counts.invalidations += 1;
            from &= from - 1;
        }
        changed
    }

    /// True if one of the CPUs shares no third level with `cpu`.
    fn far(&self, cpu: u16, mut others: u64) -> bool {
        while others != 0 {
            if !self.rest.shared.near(cpu, others.trailing_zeros() as u16) {
                return true;
            }
            others &= others - 1;
        }
        false
    }

    /// A second-level miss.
    fn fetch(&mut self, cpu: u16, line: u32, offset: u32, write: bool, sink: &mut impl Sink) {
        let page = self.cpus[cpu as usize].page;
        let others = self.rest.shared.holders(line) & !(1 << cpu);
        let in_third = self.rest.shared.third_hit(cpu, line);
        let elsewhere = self.rest.shared.elsewhere(cpu, line);
        let far = self.far(cpu, others);
        // A changed copy: in the one other second level that holds the line, or in one third level.
        let mut changed_by = None;
        if write {
            if self.take(others, line) {
                changed_by = Some(others.trailing_zeros() as u16);
            }
        } else if others.is_power_of_two() {
            let owner = others.trailing_zeros() as u16;
            let parts_log2 = self.rest.l2_log2 - self.rest.l1_log2;
            if self.cpus[owner as usize].share(line, parts_log2) {
                changed_by = Some(owner);
                self.write_back(owner, line, sink);
            }
        }
        let changed_third = elsewhere && self.rest.shared.settle_elsewhere(cpu, line, write);
        if changed_third && !write {
            self.give_back(cpu, line, sink);
        }
        let within = match changed_by {
            Some(owner) => self.rest.shared.near(cpu, owner),
            None => in_third && !(write && (far || elsewhere)),
        };
        let own = &mut self.cpus[cpu as usize];
        if within {
            own.counts.l3_hits += 1;
        } else {
            let kind = if write { Kind::ReadOwn } else { Kind::Read };
            let served = match changed_by.is_some() || changed_third {
                true => Served::Cache,
                false => Served::Memory,
            };
            own.counts.interventions += u64::from(served == Served::Cache);
            own.counts.fetches_read += u64::from(!write);
            own.counts.fetches_write += u64::from(write);
            sink.transaction(&Transaction { cpu, page, offset, kind, served });
        }
        let flags = match write {
            true => EXCLUSIVE | CHANGED,
            false if others == 0 && !elsewhere => EXCLUSIVE,
            false => 0,
        };
        let keep = if write { 0 } else { others };
        self.rest.shared.set_holders(line, keep | 1 << cpu);
        if let Some(victim) = self.cpus[cpu as usize].l2.insert(line, flags) {
            self.evict(cpu, victim, sink);
        }
        if let Some(victim) = self.rest.shared.third_fill(cpu, line, false) {
            self.give_back(cpu, victim, sink);
        }
    }

    /// A line leaves a second level.
    fn evict(&mut self, cpu: u16, victim: u32, sink: &mut impl Sink) {
        let line = victim >> 2;
        let holders = self.rest.shared.holders(line);
        self.rest.shared.set_holders(line, holders & !(1 << cpu));
        self.cpus[cpu as usize].drop_parts(line, self.rest.l2_log2 - self.rest.l1_log2);
        if victim & CHANGED != 0 {
            self.write_back(cpu, line, sink);
        }
    }

    /// A changed line goes to the third level if there is one, or to memory.
    fn write_back(&mut self, cpu: u16, line: u32, sink: &mut impl Sink) {
        if !self.rest.shared.has_third() {
            self.give_back(cpu, line, sink);
        } else if let Some(victim) = self.rest.shared.third_fill(cpu, line, true) {
            self.give_back(cpu, victim, sink);
        }
    }

    fn give_back(&mut self, cpu: u16, line: u32, sink: &mut impl Sink) {
        self.cpus[cpu as usize].counts.write_backs += 1;
        let address = u64::from(line) << self.rest.l2_log2;
        let page = self.rest.frames.page_in((address >> self.rest.page_log2) as u32);
        let offset = (address & ((1 << self.rest.page_log2) - 1)) as u32;
        sink.transaction(&Transaction { cpu, page, offset, kind: Kind::WriteBack, served: Served::Memory });
    }

    /// Moves a page to another frame: its lines leave all caches, its translations all TLBs.
    pub fn relocate(&mut self, page: Page) -> Relocation {
        let mut done = Relocation::default();
        let rest = &mut self.rest;
        let Some(frame) = rest.frames.of(page.0) else { return done };
        let per_page = rest.page_log2.saturating_sub(rest.l2_log2);
        let first = ((u64::from(frame) << rest.page_log2) >> rest.l2_log2) as u32;
        for line in first..first + (1 << per_page) {
            let holders = self.rest.shared.holders(line);
            done.lines += holders.count_ones();
            let changed = self.take(holders, line) | self.rest.shared.third_drop(line);
            done.write_backs += u32::from(changed);
            self.rest.shared.set_holders(line, 0);
        }
        done.shootdowns = self.unmap(page);
        self.rest.write_backs_of_moves += u64::from(done.write_backs);
        self.rest.assign(page.0);
        done
    }

    /// Takes a page's translations out of all TLBs, so that each CPU's next reference misses them. Returns how many CPUs
    /// had one.
    pub fn unmap(&mut self, page: Page) -> u32 {
        self.cpus.iter_mut().map(|cpu| u32::from(cpu.shoot_down(page.0))).sum()
    }

    /// Counts the translations by each page in each TLB from now on.
    pub fn count_translations(&mut self) {
        let pages = self.rest.addresses.pages();
        self.cpus.iter_mut().for_each(|cpu| cpu.count_translations(pages));
    }

    /// The pages in a CPU's TLBs, and the translations by each since it came in or was last read (0 unless they are
    /// counted).
    pub fn read_tlb(&mut self, cpu: u16, each: impl FnMut(u32, u64)) {
        self.cpus[cpu as usize].read_translations(each);
    }
}

impl Rest {
    fn assign(&mut self, page: u32) -> u32 {
        let frame = self.frames.assign(page, &self.addresses);
        let lines = (u64::from(self.frames.span()) << self.page_log2) >> self.l2_log2;
        self.shared.grow(lines as usize + 1);
        frame
    }
}

/// The CPU's references come to another granule.
fn enter(own: &mut Private, rest: &mut Rest, cpu: u16, granule: u64, sink: &mut impl Sink) {
    let page = rest.addresses.page(granule);
    let frame = match rest.frames.of(page) {
        Some(frame) => frame,
        None => rest.assign(page),
    };
    if page != own.page && own.translate(page) {
        sink.tlb_miss(cpu, page);
    }
    own.granule = granule;
    own.base = (u64::from(frame) << rest.page_log2) + u64::from(rest.addresses.offset(granule));
    debug_assert_ne!(granule, NONE);
}
