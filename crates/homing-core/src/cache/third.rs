//! Third-level caches, which neighbouring CPUs share.

use super::array::{Array, Entered};
use super::shape::Shape;

/// A third-level line differs from memory.
const CHANGED: u32 = 1;

/// All third-level caches.
#[derive(Clone, Debug)]
pub(super) struct Third {
    caches: Array,
    /// How many there are.
    number: usize,
    /// Which cache each CPU has.
    of: Vec<u16>,
}

impl Third {
    /// Empty ones, shared by `each` neighbours. `cpus`: the number of each CPU in the machine.
    pub fn new(shape: &Shape, each: u32, cpus: &[u16]) -> Third {
        let mut groups: Vec<u32> = cpus.iter().map(|&cpu| u32::from(cpu) / each).collect();
        let of_cpu = groups.clone();
        groups.sort_unstable();
        groups.dedup();
        let index = |group: &u32| groups.binary_search(group).expect("all are there") as u16;
        Third {
            caches: shape.array(groups.len()),
            number: groups.len(),
            of: of_cpu.iter().map(index).collect(),
        }
    }

    fn own(&self, cpu: u16) -> usize {
        self.of[cpu as usize].into()
    }

    /// True if the two CPUs share a third level, so that what is between them stays within it.
    pub fn near(&self, a: u16, b: u16) -> bool {
        self.of[a as usize] == self.of[b as usize]
    }

    /// True if one of the CPUs, one bit each, shares no third level with `cpu`.
    pub fn far(&self, cpu: u16, mut others: u64) -> bool {
        while others != 0 {
            if !self.near(cpu, others.trailing_zeros() as u16) {
                return true;
            }
            others &= others - 1;
        }
        false
    }

    /// True if the line is in the CPU's third level, which makes it the most recently used there.
    pub fn hit(&mut self, cpu: u16, line: u32) -> bool {
        self.caches.touch(self.own(cpu), line).is_some()
    }

    /// The third levels other than the CPU's that hold the line.
    pub fn elsewhere(&self, cpu: u16, line: u32) -> u64 {
        self.caches.others(self.own(cpu), line)
    }

    /// Other third levels give the line up (`take`) or hold it unchanged from now on. True if one held it changed.
    pub fn settle_elsewhere(&mut self, cpu: u16, line: u32, take: bool) -> bool {
        let mut others = self.elsewhere(cpu, line);
        let mut changed = false;
        while others != 0 {
            let other = others.trailing_zeros() as usize;
            if take {
                changed |= self.caches.remove(other, line).is_some_and(|entry| entry & CHANGED != 0);
            } else if let Some(entry) = self.caches.peek(other, line) {
                changed |= *entry & CHANGED != 0;
                *entry &= !CHANGED;
            }
            others &= others - 1;
        }
        changed
    }

    /// Puts a line into the CPU's third level. Returns a changed line that has to go back to memory for it.
    pub fn fill(&mut self, cpu: u16, line: u32, changed: bool) -> Option<u32> {
        let own = self.own(cpu);
        let victim = match self.caches.enter(own, line, u32::from(changed)) {
            Entered::Held(entry) => {
                *entry |= u32::from(changed);
                return None;
            }
            Entered::For(victim) => victim?,
        };
        (victim & CHANGED != 0).then_some(victim >> 2)
    }

    /// Takes a line out of all third levels. True if one held it changed.
    pub fn drop_line(&mut self, line: u32) -> bool {
        let entries = (0..self.number).map(|cache| self.caches.remove(cache, line));
        entries.fold(false, |changed, entry| changed | entry.is_some_and(|entry| entry & CHANGED != 0))
    }
}
