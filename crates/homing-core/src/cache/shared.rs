//! What the CPUs have in common: the directory, which knows who holds each line, and third-level caches.

use super::array::Array;
use super::shape::HierarchyShape;

/// The directory and the third level, by second-level line of physical memory.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    /// CPUs whose second level holds the line, one bit each.
    holders: Vec<u64>,
    third: Option<Third>,
}

#[derive(Clone, Debug)]
struct Third {
    caches: Vec<Array>,
    /// Which cache each CPU has.
    of: Vec<u16>,
    /// Caches that hold the line, one bit each.
    holders: Vec<u64>,
}

/// A third-level line differs from memory.
const CHANGED: u32 = 1;

impl Shared {
    /// `cpus`: the number of each CPU in the machine, which says which third level it shares.
    pub fn new(shape: &HierarchyShape, cpus: &[u16]) -> Shared {
        let third = shape.l3.map(|(shape, each)| {
            let mut groups: Vec<u32> = cpus.iter().map(|&cpu| u32::from(cpu) / each).collect();
            let of_cpu = groups.clone();
            groups.sort_unstable();
            groups.dedup();
            let index = |group: &u32| groups.binary_search(group).expect("all are there") as u16;
            Third {
                caches: vec![shape.array(); groups.len()],
                of: of_cpu.iter().map(index).collect(),
                holders: Vec::new(),
            }
        });
        Shared { holders: Vec::new(), third }
    }

    /// Physical memory now has this many lines.
    pub fn grow(&mut self, lines: usize) {
        if lines > self.holders.len() {
            let lines = lines.max(2 * self.holders.len());
            self.holders.resize(lines, 0);
            if let Some(third) = &mut self.third {
                third.holders.resize(lines, 0);
            }
        }
    }

    #[inline]
    pub fn holders(&self, line: u32) -> u64 {
        self.holders[line as usize]
    }

    #[inline]
    pub fn set_holders(&mut self, line: u32, holders: u64) {
        self.holders[line as usize] = holders;
    }

    /// True if the two CPUs share a third level, so that what is between them stays within it.
    pub fn near(&self, a: u16, b: u16) -> bool {
        self.third.as_ref().is_some_and(|third| third.of[a as usize] == third.of[b as usize])
    }

    /// True if the line is in the CPU's third level, which makes it the most recently used there.
    pub fn third_hit(&mut self, cpu: u16, line: u32) -> bool {
        let Some(third) = &mut self.third else { return false };
        third.caches[usize::from(third.of[cpu as usize])].touch(line).is_some()
    }

    /// True if a third level other than the CPU's holds the line.
    pub fn elsewhere(&self, cpu: u16, line: u32) -> bool {
        let own = |third: &Third| 1u64 << third.of[cpu as usize];
        self.third.as_ref().is_some_and(|third| third.holders[line as usize] & !own(third) != 0)
    }

    /// Other third levels give the line up (`take`) or hold it unchanged from now on. True if one held it changed.
    pub fn settle_elsewhere(&mut self, cpu: u16, line: u32, take: bool) -> bool {
        let Some(third) = &mut self.third else { return false };
        let own = 1u64 << third.of[cpu as usize];
        let mut others = third.holders[line as usize] & !own;
        let mut changed = false;
        while others != 0 {
            let cache = &mut third.caches[others.trailing_zeros() as usize];
            if take {
                changed |= cache.remove(line).is_some_and(|entry| entry & CHANGED != 0);
            } else if let Some(entry) = cache.peek(line) {
                changed |= *entry & CHANGED != 0;
                *entry &= !CHANGED;
            }
            others &= others - 1;
        }
        if take {
            third.holders[line as usize] &= own;
        }
        changed
    }

    /// Puts a line into the CPU's third level. Returns a changed line that has to go back to memory for it.
    pub fn third_fill(&mut self, cpu: u16, line: u32, changed: bool) -> Option<u32> {
        let third = self.third.as_mut()?;
        let index = third.of[cpu as usize];
        let cache = &mut third.caches[usize::from(index)];
        if let Some(entry) = cache.touch(line) {
            *entry |= u32::from(changed);
            return None;
        }
        third.holders[line as usize] |= 1 << index;
        let victim = cache.insert(line, u32::from(changed))?;
        third.holders[(victim >> 2) as usize] &= !(1 << index);
        (victim & CHANGED != 0).then_some(victim >> 2)
    }

    /// Takes a line out of all third levels. True if one held it changed.
    pub fn third_drop(&mut self, line: u32) -> bool {
        let Some(third) = &mut self.third else { return false };
        let mut changed = false;
        let mut held = std::mem::take(&mut third.holders[line as usize]);
        while held != 0 {
            let entry = third.caches[held.trailing_zeros() as usize].remove(line);
            changed |= entry.is_some_and(|entry| entry & CHANGED != 0);
            held &= held - 1;
        }
        changed
    }

    /// True if there is a third level.
    pub fn has_third(&self) -> bool {
        self.third.is_some()
    }
}
