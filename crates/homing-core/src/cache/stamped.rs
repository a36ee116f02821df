//! Set-associative arrays with LRU replacement that keep for each entry when it was used last. A use whose slot is
//! known is one store, whatever the set's order; a victim is the least of its set. For the first level of cache and
//! TLB, where nearly all uses are of slots that are known ([`super::quick`]).

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

/// What became of a number that was to be in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// It was there: its entry before.
    Held(u32),
    /// It was put in, and this number had to go.
    For(Option<u32>),
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

    /// The number of a number's set.
    #[inline(always)]
    fn set(&self, number: u32) -> usize {
        (number & self.mask) as usize
    }

    /// Where a number is.
    #[inline(always)]
    fn find(&self, number: u32) -> Option<usize> {
        let (set, tag) = (self.set(number), tag(number));
        let way = match self.width {
            8 => find_in(&self.entries.as_chunks::<8>().0[set], tag),
            4 => find_in(&self.entries.as_chunks::<4>().0[set], tag),
            16 => find_in(&self.entries.as_chunks::<16>().0[set], tag),
            width => self.entries[set * width..][..width].iter().position(|entry| entry | FLAG == tag),
        };
        way.map(|way| set * self.width + way)
    }

    /// All entries, and when each was used last.
    #[inline(always)]
    pub fn slots(&mut self) -> (&[u32], &mut [u64]) {
        let used = &mut self.used[..self.entries.len()];
        (&self.entries, used)
    }

    /// A number is used now, with that flag added to its own, and put in if it is not there. Returns its slot.
    #[inline(always)]
    pub fn enter(&mut self, number: u32, flag: bool) -> (usize, Entered) {
        let (set, tag, entry) = (self.set(number), tag(number), number << 1 | u32::from(flag));
        self.clock += 1;
        let (way, before) = match self.width {
            8 => self.enter_in::<8>(set, tag, entry),
            4 => self.enter_in::<4>(set, tag, entry),
            16 => self.enter_in::<16>(set, tag, entry),
            width => {
                let slots = set * width..(set + 1) * width;
                let (entries, used) = (&mut self.entries[slots.clone()], &mut self.used[slots]);
                let way =
                    entries.iter().position(|entry| entry | FLAG == tag).unwrap_or_else(|| oldest(used));
                used[way] = self.clock;
                (way, put(&mut entries[way], tag, entry))
            }
        };
        let entered = match before {
            held if held | FLAG == tag => Entered::Held(held),
            EMPTY => Entered::For(None),
            gone => Entered::For(Some(gone >> 1)),
        };
        (set * self.width + way, entered)
    }

    #[inline(always)]
    fn enter_in<const WIDTH: usize>(&mut self, set: usize, tag: u32, entry: u32) -> (usize, u32) {
        let entries = &mut self.entries.as_chunks_mut::<WIDTH>().0[set];
        let used = &mut self.used.as_chunks_mut::<WIDTH>().0[set];
        let way = find_in(entries, tag).unwrap_or_else(|| oldest(used)) % WIDTH;
        used[way] = self.clock;
        (way, put(&mut entries[way], tag, entry))
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

/// Puts an entry in another's place, or adds its flag to its own. Returns what was there.
#[inline(always)]
fn put(place: &mut u32, tag: u32, entry: u32) -> u32 {
    let before = *place;
    if before | FLAG != tag {
        *place = entry;
    } else if before | entry != before {
        *place |= entry;
    }
    before
}

/// The way of a tag, found without branches.
#[inline(always)]
fn find_in<const WIDTH: usize>(set: &[u32; WIDTH], tag: u32) -> Option<usize> {
    // Two bits a way, collected in four lanes, which compilers put into one vector.
    let mut lanes = [0u32; 4];
    for (row, entries) in set.as_chunks::<4>().0.iter().enumerate() {
        for (lane, entry) in entries.iter().enumerate() {
            lanes[lane] |= if entry | FLAG == tag { 3 << (2 * (4 * row + lane)) } else { 0 };
        }
    }
    let found = lanes.iter().fold(0, |all, lane| all | lane);
    (found != 0).then_some(found.trailing_zeros() as usize / 2)
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
                model[0] |= u32::from(flag);
                let gone = (model.len() > ways as usize).then(|| model.pop().unwrap() >> 1);
                let (slot, entered) = array.enter(number, flag);
                prop_assert_eq!(entered, held.map_or(Entered::For(gone), Entered::Held));
                prop_assert_eq!(array.slots().0[slot], number << 1 | u32::from(flag) | held.unwrap_or(0) & FLAG);
                let mut has: Vec<u32> = array.numbers().collect();
                let mut wants: Vec<u32> = models.iter().flatten().map(|entry| entry >> 1).collect();
                has.sort_unstable();
                wants.sort_unstable();
                prop_assert_eq!(has, wants);
            }
        }
    }
}
