//! Set-associative arrays with LRU replacement, in the packed form that makes simulation quick. A set is a short run of
//! words, one a way, a word of sixteen digits that names the ways in order of use, and a byte of each way's line: a hit on
//! the last one used costs one comparison, any other finds its byte and moves one digit, and a victim is the last digit.
//! The arrays of several caches of one shape lie side by side, set by set, so that who else holds a line is one search
//! through neighbouring words: no directory is kept. For all levels but the first, whose arrays are [`super::stamped`].

/// No line.
const EMPTY: u32 = u32::MAX;
/// The most ways that are kept in order by digits. Sets of more ways are lists, most recently used first.
const DIGITS: usize = 16;
/// The width of such sets, where one is asked for.
const LIST: usize = 0;

/// The largest number that an array can hold.
pub const MAX_LINE: u32 = (1 << 30) - 2;

/// What finding a way of a set takes.
#[derive(Clone, Copy, Debug)]
struct Order {
    /// The ways, the most recently used in the lowest digit.
    digits: u64,
    /// A byte of each way's line.
    bytes: [u64; 2],
}

/// Numbers (of lines or pages) with two flag bits each, for some caches of one shape.
#[derive(Clone, Debug)]
pub struct Array {
    entries: Vec<u32>,
    orders: Vec<Order>,
    mask: u32,
    ways: usize,
    /// Words of a set: the ways, and what fills them up to 4, 8 or 16, which is always empty.
    width: usize,
    caches: usize,
}

/// Does something with the sets of one cache, which know their width when compiled.
macro_rules! with_sets {
    ($array:expr, $cache:expr, $sets:ident => $what:expr) => {
        match $array.width {
            4 => with_sets!(@ 4, $array, $cache, $sets => $what),
            8 => with_sets!(@ 8, $array, $cache, $sets => $what),
            16 => with_sets!(@ 16, $array, $cache, $sets => $what),
            _ => with_sets!(@ LIST, $array, $cache, $sets => $what),
        }
    };
    (@ $width:expr, $array:expr, $cache:expr, $sets:ident => $what:expr) => {{
        let $sets = $array.of::<{ $width }>($cache);
        $what
    }};
}

impl Array {
    /// Empty arrays for so many `caches` of `sets` (a power of two) by `ways`.
    pub fn new(sets: u32, ways: u32, caches: usize) -> Array {
        let (all, ways) = (sets as usize * caches, ways as usize);
        let width = if ways > DIGITS { ways } else { ways.next_power_of_two().max(4) };
        let order = Order { digits: 0xfedc_ba98_7654_3210, bytes: [0; 2] };
        let orders = if ways > DIGITS { Vec::new() } else { vec![order; all] };
        Array { entries: vec![EMPTY; all * width], orders, mask: sets - 1, ways, width, caches }
    }

    /// The sets of one cache, whose width must be right.
    #[inline(always)]
    fn of<const WIDTH: usize>(&mut self, cache: usize) -> Sets<'_, WIDTH> {
        let orders = if WIDTH == LIST { &mut [] } else { &mut self.orders[cache..] };
        let (entries, mask) = (&mut self.entries[cache * self.width..], self.mask);
        Sets { entries, orders, mask, ways: self.ways, caches: self.caches }
    }

    /// See [`Sets::touch`].
    #[inline(always)]
    pub fn touch(&mut self, cache: usize, line: u32) -> Option<&mut u32> {
        with_sets!(self, cache, sets => sets.touch(line))
    }

    /// See [`Sets::insert`].
    #[inline(always)]
    pub fn insert(&mut self, cache: usize, line: u32, flags: u32) -> Option<u32> {
        with_sets!(self, cache, sets => sets.insert(line, flags))
    }

    /// The entry of `line`, whose age stays as it is.
    #[inline]
    pub fn peek(&mut self, cache: usize, line: u32) -> Option<&mut u32> {
        with_sets!(self, cache, sets => sets.peek(line))
    }

    /// Takes a line out. Returns its entry if it was there.
    #[inline]
    pub fn remove(&mut self, cache: usize, line: u32) -> Option<u32> {
        with_sets!(self, cache, sets => sets.remove(line))
    }

    /// The caches that hold the line, one bit each.
    pub fn holders(&self, line: u32) -> u64 {
        let sets = self.neighbours(line).chunks_exact(self.width).enumerate();
        sets.fold(0, |bits, (cache, set)| bits | u64::from(holds(set, line)) << cache)
    }

    /// The caches other than `cache` that hold the line, one bit each.
    #[inline]
    pub fn others(&self, cache: usize, line: u32) -> u64 {
        // Hardly ever one: all are searched at once before any is for itself.
        if !holds(self.neighbours(line), line) {
            return 0;
        }
        self.holders(line) & !(1 << cache)
    }

    /// The sets of all caches that a line can be in.
    #[inline(always)]
    fn neighbours(&self, line: u32) -> &[u32] {
        let each = self.caches * self.width;
        let first = (line & self.mask) as usize * each;
        &self.entries[first..first + each]
    }

    /// The numbers of all that a cache holds.
    pub fn lines(&self, cache: usize) -> impl Iterator<Item = u32> + '_ {
        let sets = self.entries.chunks_exact(self.width).skip(cache).step_by(self.caches);
        sets.flatten().filter(|&&entry| entry != EMPTY).map(|entry| entry >> 2)
    }
}

/// True if one of the entries is the line's. All are looked at, as there is mostly none.
#[inline(always)]
fn holds(entries: &[u32], line: u32) -> bool {
    entries.iter().fold(false, |held, entry| held | (entry >> 2 == line))
}

/// The sets of one cache, with all in registers that finding one takes.
struct Sets<'a, const WIDTH: usize> {
    entries: &'a mut [u32],
    orders: &'a mut [Order],
    mask: u32,
    ways: usize,
    caches: usize,
}

impl<'a, const WIDTH: usize> Sets<'a, WIDTH> {
    #[inline(always)]
    fn list(self, line: u32) -> &'a mut [u32] {
        let first = (line & self.mask) as usize * self.caches * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    #[inline(always)]
    fn set(self, line: u32) -> (&'a mut [u32; WIDTH], &'a mut Order) {
        let number = (line & self.mask) as usize * self.caches;
        let entries = &mut self.entries[number * WIDTH..][..WIDTH];
        (entries.try_into().expect("as long as that"), &mut self.orders[number])
    }

    /// Makes `line` the most recently used of its set; its entry if it is there, with the flags in the two low bits.
    #[inline(always)]
    fn touch(self, line: u32) -> Option<&'a mut u32> {
        if WIDTH == LIST {
            return to_front(self.list(line), line);
        }
        let (set, order) = self.set(line);
        let mut way = order.digits as usize % WIDTH;
        if set[way] >> 2 != line {
            way = order.find(set, line)?;
            order.digits = with_first(order.digits, way);
        }
        Some(&mut set[way])
    }

    /// Puts in a line that is not there, as the most recently used. Returns the entry that had to go.
    #[inline(always)]
    fn insert(self, line: u32, flags: u32) -> Option<u32> {
        let entry = line << 2 | flags;
        let last = self.ways - 1;
        let victim = if WIDTH == LIST {
            let list = self.list(line);
            list.rotate_right(1);
            std::mem::replace(&mut list[0], entry)
        } else {
            let (set, order) = self.set(line);
            let way = (order.digits >> (4 * last)) as usize % WIDTH;
            // The digits beyond the ways go out of use.
            order.digits = order.digits << 4 | way as u64;
            let (bytes, shift) = (&mut order.bytes[way / 8], 8 * (way % 8));
            *bytes = *bytes & !(0xff << shift) | byte(line) << shift;
            std::mem::replace(&mut set[way], entry)
        };
        (victim != EMPTY).then_some(victim)
    }

    fn peek(self, line: u32) -> Option<&'a mut u32> {
        let set = if WIDTH == LIST { self.list(line) } else { self.set(line).0 };
        set.iter_mut().find(|entry| **entry >> 2 == line)
    }

    fn remove(self, line: u32) -> Option<u32> {
        let last = self.ways - 1;
        // An empty way is the next to be taken.
        if WIDTH == LIST {
            let list = self.list(line);
            let way = list.iter().position(|entry| entry >> 2 == line)?;
            let entry = std::mem::replace(&mut list[way], EMPTY);
            list[way..].rotate_left(1);
            return Some(entry);
        }
        let (set, order) = self.set(line);
        let way = order.find(set, line)?;
        let used = u64::MAX >> (60 - 4 * last);
        order.digits = (with_first(order.digits, way) & used) >> 4 | (way as u64) << (4 * last);
        Some(std::mem::replace(&mut set[way], EMPTY))
    }
}

impl Order {
    /// The way that a line is in: one whose byte is the line's.
    #[inline(always)]
    fn find<const WIDTH: usize>(&self, set: &[u32; WIDTH], line: u32) -> Option<usize> {
        const ONES: u64 = 0x0101_0101_0101_0101;
        let wanted = ONES * byte(line);
        for half in 0..WIDTH.div_ceil(8) {
            let differs = self.bytes[half] ^ wanted;
            // The high bit of each byte that does not differ, and rarely of one above it that does.
            let mut same = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
            while same != 0 {
                let way = (8 * half + same.trailing_zeros() as usize / 8) % WIDTH;
                if set[way] >> 2 == line {
                    return Some(way);
                }
                same &= same - 1;
            }
        }
        None
    }
}

/// A byte that few lines of a set have in common.
#[inline(always)]
fn byte(line: u32) -> u64 {
    u64::from(line.wrapping_mul(0x9e37_79b1) >> 24)
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
                prop_assert_eq!(array.touch(cache, line).copied(), entry);
                let flags = at as u32 % 4;
                model.insert(0, entry.unwrap_or(line << 2 | flags));
                let gone = (model.len() > ways as usize).then(|| model.pop()).flatten();
                if entry.is_none() {
                    prop_assert_eq!(array.insert(cache, line, flags), gone);
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
