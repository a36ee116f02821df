//! Set-associative arrays with LRU replacement that keep for each entry when it was used last. A use whose slot is known is one
//! store, whatever the set's order; a victim is the least of its set. For the first level of cache and TLB, where nearly all
//! uses are of slots that are known ([`super::quick`]).

use super::shape::Shape;

/// No entry: no tag is like it.
const EMPTY: u32 = u32::MAX;
/// Sets of no more ways are filled up to a width that the compiler knows.
const WIDEST: usize = 16;

/// Flag of an entry, its lowest bit.
pub(super) const FLAG: u32 = 1;

/// Entries of numbers (of lines or pages) with a flag each, for one CPU.
#[derive(Clone, Debug)]
pub(super) struct Stamped {
    /// Number and flag.
    pub entries: Vec<u32>,
    /// When each was used last; 0 where there is none, and never where the set has no such way.
    pub used: Vec<u64>,
    /// The last use of all.
    pub clock: u64,
    mask: u32,
    width: usize,
}

/// The entry of a number, with the flag.
#[inline(always)]
pub(super) fn tag(number: u32) -> u32 {
    number << 1 | FLAG
}

impl Stamped {
    /// An empty array.
    pub fn new(shape: &Shape) -> Stamped {
        let ways = shape.ways as usize;
        let width = if ways > WIDEST { ways } else { ways.next_power_of_two().max(4) };
        let all = shape.sets as usize * width;
        let never = |slot: usize| if slot % width < ways { 0 } else { u64::MAX };
        let used = (0..all).map(never).collect();
        Stamped { entries: vec![EMPTY; all], used, clock: 0, mask: shape.sets - 1, width }
    }

    /// Where a number is.
    #[inline(always)]
    pub fn find(&self, number: u32) -> Option<usize> {
        let first = (number & self.mask) as usize * self.width;
        let tag = tag(number);
        let way = match self.width {
            4 => find_in(array::<u32, 4>(&self.entries, first), tag),
            8 => find_in(array::<u32, 8>(&self.entries, first), tag),
            16 => find_in(array::<u32, 16>(&self.entries, first), tag),
            width => self.entries[first..][..width].iter().position(|entry| entry | FLAG == tag),
        };
        way.map(|way| first + way)
    }

    /// All entries, and when each was used last.
    #[inline(always)]
    pub fn slots(&mut self) -> (&[u32], &mut [u64]) {
        let used = &mut self.used[..self.entries.len()];
        (&self.entries, used)
    }

    /// Slot `slot` is used now.
    #[inline(always)]
    pub fn touch(&mut self, slot: usize) {
        self.clock += 1;
        self.used[slot] = self.clock;
    }

    /// Puts in a number that is not there, as the last one used. Returns its slot, and the number that had to go.
    #[inline(always)]
    pub fn insert(&mut self, number: u32, flag: bool) -> (usize, Option<u32>) {
        let first = (number & self.mask) as usize * self.width;
        let way = match self.width {
            4 => oldest(array::<u64, 4>(&self.used, first)),
            8 => oldest(array::<u64, 8>(&self.used, first)),
            16 => oldest(array::<u64, 16>(&self.used, first)),
            width => oldest(&self.used[first..][..width]),
        };
        let slot = first + way;
        self.touch(slot);
        let victim = std::mem::replace(&mut self.entries[slot], number << 1 | u32::from(flag));
        (slot, (victim != EMPTY).then_some(victim >> 1))
    }

    /// The entry of a number, whose age stays as it is.
    #[inline]
    pub fn peek(&mut self, number: u32) -> Option<&mut u32> {
        self.find(number).map(|slot| &mut self.entries[slot])
    }

    /// Takes a number out. True if it was there.
    #[inline]
    pub fn remove(&mut self, number: u32) -> bool {
        let Some(slot) = self.find(number) else { return false };
        (self.entries[slot], self.used[slot]) = (EMPTY, 0);
        true
    }

    /// All numbers.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().filter(|&&entry| entry != EMPTY).map(|entry| entry >> 1)
    }
}

/// A set, as long as the compiler knows.
#[inline(always)]
fn array<T, const WIDTH: usize>(all: &[T], first: usize) -> &[T; WIDTH] {
    all[first..][..WIDTH].try_into().expect("as long as that")
}

/// The way of a tag, found without branches.
#[inline(always)]
fn find_in<const WIDTH: usize>(set: &[u32; WIDTH], tag: u32) -> Option<usize> {
    let number = |way: usize| if set[way] | FLAG == tag { way as u32 + 1 } else { 0 };
    let found = (0..WIDTH).fold(0, |found, way| found | number(way));
    (found as usize).checked_sub(1)
}

/// The way that was used least recently.
#[inline(always)]
fn oldest(used: &[u64]) -> usize {
    let mut oldest = (used[0], 0);
    for (way, &when) in used.iter().enumerate().skip(1) {
        if when < oldest.0 {
            oldest = (when, way);
        }
    }
    oldest.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_of_any_size_are_lists_in_order_of_use(
            ways in 1u32..19,
            uses in prop::collection::vec((0u32..48, 0u8..7, any::<bool>()), 1..200),
        ) {
            let mut array = Stamped::new(&Shape { sets: 2, ways, line_log2: 0 });
            let mut models: [Vec<u32>; 2] = Default::default();
            for (number, what, flag) in uses {
                let model = &mut models[(number % 2) as usize];
                let held = model.iter().position(|entry| entry >> 1 == number).map(|at| model.remove(at));
                prop_assert_eq!(array.peek(number).copied(), held);
                if what == 0 {
                    prop_assert_eq!(array.remove(number), held.is_some());
                    continue;
                }
                model.insert(0, held.unwrap_or(number << 1 | u32::from(flag)));
                let gone = (model.len() > ways as usize).then(|| model.pop().unwrap() >> 1);
                match array.find(number) {
                    Some(slot) => array.touch(slot),
                    None => prop_assert_eq!(array.insert(number, flag).1, gone),
                }
                let mut has: Vec<u32> = array.numbers().collect();
                let mut wants: Vec<u32> = models.iter().flatten().map(|entry| entry >> 1).collect();
                has.sort_unstable();
                wants.sort_unstable();
                prop_assert_eq!(has, wants);
            }
        }
    }
}
