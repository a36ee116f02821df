//! The walk of a reference through TLBs and caches to the home of its page.

use super::array::MAX_LINE;
use super::caches::{Caches, Events};
use super::counts::Counts;
use super::frames::{Addresses, Frames, NOWHERE};
use super::quick::Quick;
use super::shape::HierarchyShape;
use super::tlbs::{Found, Tlbs};
use super::{Kind, Served, Sink, Transaction};
use crate::ids::{Cpu, Page};
use crate::trace::Kind as Access;

/// The most CPUs that a hierarchy has.
pub const MAX_CPUS: usize = 64;

/// References whose places are looked up together, where pages jump about.
const AHEAD: usize = 16;

/// A hierarchy that cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HierarchyError {
    /// More CPUs in use than the directory has bits.
    #[error(
        "the threads run on {0} CPUs; caches are simulated for at most {MAX_CPUS}: put fewer threads on each other's \
         CPUs with --threads-on, record with fewer threads, or leave caches out (`homing compare --every-reference`)"
    )]
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
    pub(super) tlbs: Vec<Tlbs>,
    quick: Vec<Quick>,
    /// If the last page that each CPU looked for was not in its first TLB.
    strange: Vec<bool>,
    pub(super) caches: Caches,
    pub(super) addresses: Addresses,
    pub(super) frames: Frames,
    pub(super) l1_log2: u32,
    pub(super) l2_log2: u32,
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
        let lines_log2 = addresses.page_size().log2() - shape.l1.line_log2;
        let frames = Frames::new(shape.colours, &addresses, lines_log2).ok_or_else(|| {
            HierarchyError::TooMuchMemory(addresses.pages(), u64::from(MAX_LINE >> lines_log2) / 2)
        })?;
        let numbers: Vec<u16> = cpus.iter().map(|cpu| cpu.0).collect();
        Ok(Hierarchy {
            tlbs: vec![Tlbs::new(shape); cpus.len()],
            quick: vec![Quick::new(shape.l1.line_log2); cpus.len()],
            strange: vec![false; cpus.len()],
            caches: Caches::new(shape, &numbers),
            addresses,
            frames,
            l1_log2: shape.l1.line_log2,
            l2_log2: shape.l2.line_log2,
            write_backs_of_moves: 0,
        })
    }

    /// The pages.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Counts of each CPU.
    pub fn counts(&self) -> impl Iterator<Item = &Counts> {
        self.caches.counts.iter()
    }

    /// Counts of all CPUs, with what moving pages has written back.
    pub fn total(&self) -> Counts {
        let mut total = Counts { write_backs: self.write_backs_of_moves, ..Counts::default() };
        self.counts().for_each(|counts| total.add(counts));
        total
    }

    /// One reference of `cpu` to a dense address.
    pub fn reference(&mut self, cpu: u16, address: u64, access: Access, sink: &mut impl Sink) {
        self.serve(cpu, &[address], &[access], sink);
    }

    /// References of `cpu` to dense addresses, up to the one after which the sink wants no more. Returns how many were
    /// served. A reference belongs to one page, that of its first byte.
    pub fn serve(&mut self, cpu: u16, addresses: &[u64], accesses: &[Access], sink: &mut impl Sink) -> usize {
        let mut served = 0;
        let mut fetched = if self.strange[cpu as usize] { self.fetch(addresses, 0) } else { 0 };
        while served < addresses.len() {
            if self.quick[cpu as usize].knows(addresses[served]) {
                served += self.quick(cpu, &addresses[served..], &accesses[served..]);
                if served == addresses.len() {
                    break;
                }
            }
            sink.begin(served);
            let strange = self.walk(cpu, addresses[served], accesses[served], sink);
            served += 1;
            if strange && served >= fetched {
                fetched = self.fetch(addresses, served);
            }
            if !sink.more() {
                break;
            }
        }
        let counts = &mut self.caches.counts[cpu as usize];
        counts.references += served as u64;
        counts.lines += served as u64;
        served
    }

    /// Gets the places of the next addresses into this machine's own caches. Returns how far.
    #[inline]
    fn fetch(&self, addresses: &[u64], from: usize) -> usize {
        let to = addresses.len().min(from + AHEAD);
        self.frames.fetch(addresses[from..to].iter().map(|at| at >> self.addresses.granule_log2()));
        to
    }

    /// How many references from the first on are quick, which are served.
    #[inline]
    fn quick(&mut self, cpu: u16, addresses: &[u64], accesses: &[Access]) -> usize {
        let cpu = cpu as usize;
        let Some(tlb) = self.tlbs[cpu].first() else { return 0 };
        self.quick[cpu].serve(tlb, &mut self.caches.l1[cpu], addresses, accesses)
    }

    fn granule_mask(&self) -> u64 {
        (1 << self.addresses.granule_log2()) - 1
    }

    /// A reference that takes more than a look at what is known. True if the first TLB did not hold its page.
    #[inline(never)]
    fn walk(&mut self, cpu: u16, address: u64, access: Access, sink: &mut impl Sink) -> bool {
        let granule = address >> self.addresses.granule_log2();
        let mut place = self.frames.places()[granule as usize];
        if place.page == NOWHERE {
            place = self.frames.enter(granule, &self.addresses);
        }
        let counts = &mut self.caches.counts[cpu as usize];
        let (page_slot, found) = self.tlbs[cpu as usize].translate(place.page, counts);
        if found == Found::Nowhere {
            sink.tlb_miss(cpu, place.page);
        }
        self.strange[cpu as usize] = found != Found::First;
        let (mut at, mask) = (address & self.granule_mask(), (1 << self.l1_log2) - 1);
        let last = (at + access.last()).min(self.granule_mask());
        loop {
            let line = place.line + (at >> self.l1_log2) as u32;
            let (slot, done) = self.caches.first(cpu, line, access.is_write());
            let dense = address & !self.granule_mask() | at;
            self.quick[cpu as usize].learn(dense, (line, slot), (place.page, page_slot));
            if !done {
                let physical = u64::from(line) << self.l1_log2 | at & mask;
                let mut asked =
                    Asked { page: place.page, physical, frames: &self.frames, l2_log2: self.l2_log2, sink };
                self.caches.second(cpu, line, access.is_write(), &mut asked);
            }
            at = (at | mask) + 1;
            if at > last {
                return found != Found::First;
            }
            self.caches.counts[cpu as usize].lines += 1;
        }
    }

    /// Moves a page to another frame: its lines leave all caches, its translations all TLBs.
    pub fn relocate(&mut self, page: Page) -> Relocation {
        let mut done = Relocation::default();
        let Some(frame) = self.frames.of(page.0, &self.addresses) else { return done };
        let lines_log2 = self.addresses.page_size().log2() - self.l2_log2;
        let first = frame << lines_log2;
        for line in first..first + (1 << lines_log2) {
            let (holders, changed) = self.caches.drop_line(line);
            done.lines += holders;
            done.write_backs += u32::from(changed);
        }
        done.shootdowns = self.unmap(page);
        self.write_backs_of_moves += u64::from(done.write_backs);
        self.frames.assign(page.0, &self.addresses);
        let bytes = 1 << self.addresses.granule_log2();
        for (granule, _) in self.addresses.granules(page.0) {
            self.quick.iter_mut().for_each(|quick| quick.forget(u64::from(granule) * bytes, bytes));
        }
        done
    }

    /// Takes a page's translations out of all TLBs, so that each CPU's next reference misses them. Returns how many
    /// CPUs had one.
    pub fn unmap(&mut self, page: Page) -> u32 {
        let mut shot = 0;
        for (tlbs, counts) in self.tlbs.iter_mut().zip(&mut self.caches.counts) {
            let held = u32::from(tlbs.shoot_down(page.0));
            counts.shootdowns += u64::from(held);
            shot += held;
        }
        shot
    }

    /// Counts the translations by each page in each TLB from now on.
    pub fn count_translations(&mut self) {
        let pages = self.addresses.pages();
        self.tlbs.iter_mut().for_each(|tlbs| tlbs.count_translations(pages));
    }

    /// The pages in a CPU's TLBs, and the translations by each since it came in or was last read (0 unless they are
    /// counted).
    pub fn read_tlb(&mut self, cpu: u16, each: impl FnMut(u32, u64)) {
        self.tlbs[cpu as usize].read_translations(each);
    }
}

/// Makes transactions of what caches ask while they serve a reference.
struct Asked<'a, S> {
    /// Page and physical address of what is referred to.
    page: u32,
    physical: u64,
    frames: &'a Frames,
    l2_log2: u32,
    sink: &'a mut S,
}

impl<S: Sink> Events for Asked<'_, S> {
    #[inline]
    fn demand(&mut self, cpu: u16, kind: Kind, served: Served) {
        let offset = self.frames.offset(self.physical);
        self.sink.transaction(&Transaction { cpu, page: self.page, offset, kind, served });
    }

    #[inline]
    fn write_back(&mut self, cpu: u16, line: u32) {
        if S::WRITE_BACKS {
            let physical = u64::from(line) << self.l2_log2;
            let (page, offset) = (self.frames.page_at(physical), self.frames.offset(physical));
            let (kind, served) = (Kind::WriteBack, Served::Memory);
            self.sink.transaction(&Transaction { cpu, page, offset, kind, served });
        }
    }
}
