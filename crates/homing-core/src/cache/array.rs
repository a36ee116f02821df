//! Set-associative arrays with LRU replacement, in the packed form that makes simulation quick. A set is a short run of
//! words, one a way, as many half-words with the lowest digits of what tells the lines of a set apart, and a word of
//! sixteen digits that names the ways in order of use: a line is found by its half-word, all of a set compared at once;
//! its use moves one digit, and a victim is the last digit. The sets of several caches of one shape lie side by side,
//! so that who else holds a line is one search through neighbouring half-words: no directory is kept. For all levels
//! but the first, whose arrays are [`super::stamped`].

/// No line.
const EMPTY: u32 = u32::MAX;
/// The most ways that are kept in order by digits. Sets of more ways are lists, most recently used first.
const DIGITS: usize = 16;

/// The largest number that an array can hold.
pub const MAX_LINE: u32 = (1 << 30) - 2;

/// Numbers (of lines or pages) with two flag bits each, for some caches of one shape.
#[derive(Clone, Debug)]
pub struct Array {
    entries: Vec<u32>,
    /// What [`Array::half`] says of the line in each way. Lists have none, and no order.
    halves: Vec<u16>,
    /// The ways of each set, the most recently used in the lowest digit.
    orders: Vec<u64>,
    mask: u32,
    sets_log2: u32,
    ways: usize,
    /// Where the digit of the least recently used way is.
    last: u32,
    /// Words of a set: the ways, and what fills them up to 4, 8 or 16, which is always empty.
    width: usize,
    caches: usize,
}

/// What became of a line that was to be in a cache.
#[derive(Debug, PartialEq, Eq)]
pub enum Entered<'a> {
    /// It was there: its entry.
    Held(&'a mut u32),
    /// It was put in, and this entry had to go.
    For(Option<u32>),
}

/// What is done with a set whose width is known when compiled, or else with a list.
macro_rules! by_width {
    ($array:expr, $width:ident => $what:expr, else $list:expr) => {
        match $array.width {
            16 => by_width!(@ 16, $width => $what),
            4 => by_width!(@ 4, $width => $what),
            8 => by_width!(@ 8, $width => $what),
            _ => $list,
        }
    };
    (@ $value:expr, $width:ident => $what:expr) => {{
        const $width: usize = $value;
        $what
    }};
}

impl Array {
    /// Empty arrays for `caches` caches of `sets` (a power of two) by `ways`.
    pub fn new(sets: u32, ways: u32, caches: usize) -> Array {
        let (all, ways) = (sets as usize * caches, ways as usize);
        let width = if ways > DIGITS { ways } else { ways.next_power_of_two().max(4) };
        let ordered = if ways > DIGITS { 0 } else { all };
        Array {
            entries: vec![EMPTY; all * width],
            halves: vec![u16::MAX; ordered * width],
            orders: vec![0xfedc_ba98_7654_3210; ordered],
            mask: sets - 1,
            sets_log2: sets.trailing_zeros(),
            ways,
            last: if ways > DIGITS { 0 } else { 4 * (ways as u32 - 1) },
            width,
            caches,
        }
    }

    /// The number of the set that a line can be in.
    #[inline(always)]
    fn set(&self, cache: usize, line: u32) -> usize {
        (line & self.mask) as usize * self.caches + cache
    }

    /// What few lines of a set have in common.
    #[inline(always)]
    fn half(&self, line: u32) -> u16 {
        (line >> self.sets_log2) as u16
    }

    /// Makes `line` the most recently used of its set; its entry if it is there, with the flags in the two low bits.
    #[inline(always)]
    pub fn touch(&mut self, cache: usize, line: u32) -> Option<&mut u32> {
        let set = self.set(cache, line);
        by_width!(self, WIDTH => self.touch_in::<WIDTH>(set, line), else to_front(self.list(set), line))
    }

    /// Puts in a line that is not there, as the most recently used. Returns the entry that had to go.
    #[inline(always)]
    pub fn insert(&mut self, cache: usize, line: u32, flags: u32) -> Option<u32> {
        let (set, entry) = (self.set(cache, line), line << 2 | flags);
        let gone = by_width!(self, WIDTH => self.insert_in::<WIDTH>(set, line, entry), else {
            push_front(self.list(set), entry)
        });
        (gone != EMPTY).then_some(gone)
    }

    /// Makes `line` the most recently used of its set, and puts it in if it is not there.
    #[inline(always)]
    pub fn enter(&mut self, cache: usize, line: u32, flags: u32) -> Entered<'_> {
        let (set, entry) = (self.set(cache, line), line << 2 | flags);
        let gone = by_width!(self, WIDTH => {
            match self.find::<WIDTH>(set, line) {
                Some(way) => return Entered::Held(self.used_in::<WIDTH>(set, way)),
                None => self.insert_in::<WIDTH>(set, line, entry),
            }
        }, else match self.place(set, line) {
            Some(_) => return Entered::Held(to_front(self.list(set), line).expect("it is there")),
            None => push_front(self.list(set), entry),
        });
        Entered::For((gone != EMPTY).then_some(gone))
    }

    /// The entry of `line`, whose age stays as it is.
    #[inline]
    pub fn peek(&mut self, cache: usize, line: u32) -> Option<&mut u32> {
        let at = self.place(self.set(cache, line), line)?;
        Some(&mut self.entries[at])
    }

    /// Takes a line out. Returns its entry if it was there.
    #[inline]
    pub fn remove(&mut self, cache: usize, line: u32) -> Option<u32> {
        let set = self.set(cache, line);
        let at = self.place(set, line)?;
        let entry = std::mem::replace(&mut self.entries[at], EMPTY);
        // An empty way is the next to be taken.
        let way = at - set * self.width;
        match self.orders.get_mut(set) {
            Some(order) => {
                let used = u64::MAX >> (60 - self.last);
                *order = (with_first(*order, way) & used) >> 4 | (way as u64) << self.last;
                self.halves[at] = u16::MAX;
            }
            None => self.list(set)[way..].rotate_left(1),
        }
        Some(entry)
    }

    /// The caches that hold the line, one bit each.
    pub fn holders(&self, line: u32) -> u64 {
        let holds = |cache| self.place(self.set(cache, line), line).is_some();
        (0..self.caches).fold(0, |bits, cache| bits | u64::from(holds(cache)) << cache)
    }

    /// The caches other than `cache` that hold the line, one bit each.
    #[inline(always)]
    pub fn others(&self, cache: usize, line: u32) -> u64 {
        // Hardly ever one: all are searched at once before any is for itself.
        let (first, half) = (self.set(0, line), self.half(line));
        let perhaps = by_width!(self, WIDTH => {
            let sets = &self.halves.as_chunks::<WIDTH>().0[first..][..self.caches];
            sets.as_flattened().iter().fold(false, |any, &other| any | (other == half))
        }, else true);
        if perhaps {
            self.holders(line) & !(1 << cache)
        } else {
            0
        }
    }

    /// Where among all entries a line is.
    #[inline]
    fn place(&self, set: usize, line: u32) -> Option<usize> {
        let way = by_width!(self, WIDTH => self.find::<WIDTH>(set, line), else {
            let list = &self.entries[set * self.ways..][..self.ways];
            list.iter().position(|entry| entry >> 2 == line)
        });
        way.map(|way| set * self.width + way)
    }

    /// The way that a line is in.
    #[inline(always)]
    fn find<const WIDTH: usize>(&self, set: usize, line: u32) -> Option<usize> {
        let (halves, half) = (&self.halves.as_chunks::<WIDTH>().0[set], self.half(line));
        let found = if WIDTH < 16 { name::<WIDTH, 4>(halves, half) } else { name::<WIDTH, 8>(halves, half) };
        if found == 0 {
            return None;
        }
        let (way, entries) = (usize::from(found) % WIDTH, &self.entries.as_chunks::<WIDTH>().0[set]);
        if entries[way] >> 2 == line {
            Some(way)
        } else {
            search(entries, line)
        }
    }

    #[inline(always)]
    fn touch_in<const WIDTH: usize>(&mut self, set: usize, line: u32) -> Option<&mut u32> {
        let way = self.find::<WIDTH>(set, line)?;
        Some(self.used_in::<WIDTH>(set, way))
    }

    /// A way is the most recently used one. Returns its entry.
    #[inline(always)]
    fn used_in<const WIDTH: usize>(&mut self, set: usize, way: usize) -> &mut u32 {
        let order = &mut self.orders[set];
        *order = with_first(*order, way);
        &mut self.entries.as_chunks_mut::<WIDTH>().0[set][way % WIDTH]
    }

    /// Returns what was in the way that was taken.
    #[inline(always)]
    fn insert_in<const WIDTH: usize>(&mut self, set: usize, line: u32, entry: u32) -> u32 {
        let half = self.half(line);
        let order = &mut self.orders[set];
        let way = (*order >> self.last) as usize % WIDTH;
        // The digits beyond the ways go out of use.
        *order = *order << 4 | way as u64;
        self.halves.as_chunks_mut::<WIDTH>().0[set][way] = half;
        std::mem::replace(&mut self.entries.as_chunks_mut::<WIDTH>().0[set][way], entry)
    }

    #[inline(always)]
    fn list(&mut self, set: usize) -> &mut [u32] {
        &mut self.entries[set * self.ways..][..self.ways]
    }

    /// The numbers of all that a cache holds.
    pub fn lines(&self, cache: usize) -> impl Iterator<Item = u32> + '_ {
        let sets = self.entries.chunks_exact(self.width).skip(cache).step_by(self.caches);
        sets.flatten().filter(|&&entry| entry != EMPTY).map(|entry| entry >> 2)
    }
}

/// What names the way of a half-word, in its lowest digit; 0 if there is none, and anything if there are several.
#[inline(always)]
fn name<const WIDTH: usize, const LANES: usize>(halves: &[u16; WIDTH], half: u16) -> u16 {
    // Collected in lanes, which compilers put into one vector; of two bits at least, which they treat all alike.
    let mut lanes = [0; LANES];
    for (row, halves) in halves.as_chunks::<LANES>().0.iter().enumerate() {
        for (lane, &other) in halves.iter().enumerate() {
            lanes[lane] |= if other == half { 0x60 | (LANES * row + lane) as u16 } else { 0 };
        }
    }
    lanes.iter().fold(0, |all, lane| all | lane)
}

/// The way of a line where half-words do not tell.
#[cold]
fn search(entries: &[u32], line: u32) -> Option<usize> {
    entries.iter().position(|entry| entry >> 2 == line)
}

/// The order with a way's digit in front of all others.
#[inline(always)]
fn with_first(digits: u64, way: usize) -> u64 {
    const ONES: u64 = 0x1111_1111_1111_1111;
    // The lowest digit that is zero here is the way's.
    let differs = digits ^ (ONES * way as u64);
    let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
    let lowest = zero & zero.wrapping_neg();
    let through = lowest | lowest.wrapping_sub(1);
    digits & !through | (digits << 4) & through | way as u64
}

/// Makes `line` the first of a list.
#[inline]
fn to_front(list: &mut [u32], line: u32) -> Option<&mut u32> {
    let way = list.iter().position(|entry| entry >> 2 == line)?;
    list[..=way].rotate_right(1);
    list.first_mut()
}

/// Makes an entry the first of a list, and returns the last one, which goes.
#[inline]
fn push_front(list: &mut [u32], entry: u32) -> u32 {
    list.rotate_right(1);
    std::mem::replace(&mut list[0], entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_of_any_size_are_lists_in_order_of_use(
            ways in 1u32..19,
            uses in prop::collection::vec((0usize..3, 0u32..24, 0u8..7), 1..200),
        ) {
            let mut array = Array::new(1, ways, 3);
            let mut models: [Vec<u32>; 3] = Default::default();
            for (at, (cache, line, what)) in uses.into_iter().enumerate() {
                // Some differ beyond their half-words only.
                let line = (line % 8) | ((line / 8) << 16);
                let held = |model: &Vec<u32>| model.iter().position(|entry| entry >> 2 == line);
                let others = (0..3).filter(|&c| c != cache && held(&models[c]).is_some());
                prop_assert_eq!(array.others(cache, line), others.fold(0, |bits, c| bits | 1 << c));
                let model = &mut models[cache];
                let entry = held(model).map(|way| model.remove(way));
                if what == 0 {
                    prop_assert_eq!(array.remove(cache, line), entry);
                    continue;
                }
                prop_assert_eq!(array.peek(cache, line).copied(), entry);
                let flags = at as u32 % 4;
                model.insert(0, entry.unwrap_or(line << 2 | flags));
                let gone = (model.len() > ways as usize).then(|| model.pop()).flatten();
                if what == 1 {
                    let entered = match array.enter(cache, line, flags) {
                        Entered::Held(entry) => Ok(*entry),
                        Entered::For(gone) => Err(gone),
                    };
                    prop_assert_eq!(entered, entry.ok_or(gone));
                } else {
                    prop_assert_eq!(array.touch(cache, line).copied(), entry);
                    if entry.is_none() {
                        prop_assert_eq!(array.insert(cache, line, flags), gone);
                    }
                }
                let (mut has, mut wants): (Vec<u32>, Vec<u32>) =
                    (array.lines(cache).collect(), model.iter().map(|entry| entry >> 2).collect());
                has.sort_unstable();
                wants.sort_unstable();
                prop_assert_eq!(has, wants);
            }
        }
    }
}
