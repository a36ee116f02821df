//! One set-associative array with LRU replacement, in the packed form that makes simulation quick: each set is a short
//! run of words, most recently used first, so that a hit on the last one used costs one comparison and the victim is
//! always the last.

/// No line. Empty ways are always the last of a set.
const EMPTY: u32 = u32::MAX;

/// The largest number that an array can hold.
pub const MAX_LINE: u32 = (1 << 30) - 2;

/// Numbers (of lines or pages) with two flag bits each.
#[derive(Clone, Debug)]
pub struct Array {
    entries: Vec<u32>,
    mask: u32,
    ways: usize,
}

impl Array {
    /// An empty array of `sets` (a power of two) by `ways`.
    pub fn new(sets: u32, ways: u32) -> Array {
        Array { entries: vec![EMPTY; (sets * ways) as usize], mask: sets - 1, ways: ways as usize }
    }

    #[inline(always)]
    fn set(&mut self, line: u32) -> &mut [u32] {
        let first = (line & self.mask) as usize * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Makes `line` the most recently used of its set; its entry if it is there, with the flags in the two low bits.
    #[inline(always)]
    pub fn touch(&mut self, line: u32) -> Option<&mut u32> {
        let set = self.set(line);
        if set[0] >> 2 != line {
            let found = match set.len() {
                4 => to_front::<4>(set, line),
                8 => to_front::<8>(set, line),
                16 => to_front::<16>(set, line),
                _ => to_front_of_any(set, line),
            };
            if !found {
                return None;
            }
        }
        Some(&mut set[0])
    }

    /// The entry of `line`, whose age stays as it is.
    #[inline]
    pub fn peek(&mut self, line: u32) -> Option<&mut u32> {
        self.set(line).iter_mut().find(|entry| **entry >> 2 == line)
    }

    /// Puts in a line that is not there, as the most recently used. Returns the entry that had to go.
    #[inline]
    pub fn insert(&mut self, line: u32, flags: u32) -> Option<u32> {
        let set = self.set(line);
        let last = set.len() - 1;
        let victim = set[last];
        match set.len() {
            4 => age::<4>(set),
            8 => age::<8>(set),
            16 => age::<16>(set),
            _ => set.copy_within(..last, 1),
        }
        set[0] = line << 2 | flags;
        (victim != EMPTY).then_some(victim)
    }

    /// Takes a line out. Returns its entry if it was there.
    #[inline]
    pub fn remove(&mut self, line: u32) -> Option<u32> {
        let set = self.set(line);
        let way = set.iter().position(|entry| entry >> 2 == line)?;
        let entry = set[way];
        let last = set.len() - 1;
        set.copy_within(way + 1.., way);
        set[last] = EMPTY;
        Some(entry)
    }

    /// The numbers of all that is held.
    pub fn lines(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().filter(|&&entry| entry != EMPTY).map(|entry| entry >> 2)
    }
}

/// Makes `line`, which is not the first, the first of a set of `N` ways; false if it is not there. Which way it is
/// in is hard to guess, so there is no branch for it and no call.
#[inline(always)]
fn to_front<const N: usize>(set: &mut [u32], line: u32) -> bool {
    let Ok(set) = <&mut [u32; N]>::try_from(set) else { return false };
    let old = *set;
    let way = (0..N as u32).map(|way| if old[way as usize] >> 2 == line { way } else { 0 }).fold(0, u32::max);
    if way == 0 {
        return false;
    }
    for (at, entry) in (1..N as u32).zip(&mut set[1..]) {
        *entry = if at <= way { old[at as usize - 1] } else { old[at as usize] };
    }
    set[0] = old[way as usize];
    true
}

fn to_front_of_any(set: &mut [u32], line: u32) -> bool {
    let Some(way) = set.iter().position(|entry| entry >> 2 == line) else { return false };
    set[..=way].rotate_right(1);
    true
}

/// Everything goes one way on; the last is lost.
#[inline(always)]
fn age<const N: usize>(set: &mut [u32]) {
    let Ok(set) = <&mut [u32; N]>::try_from(set) else { return };
    let old = *set;
    set[1..].copy_from_slice(&old[..N - 1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sets_of_any_size_are_lists_in_order_of_use(ways in 1u32..18, lines in prop::collection::vec(0u32..24, 1..200)) {
            let mut array = Array::new(1, ways);
            let mut model: Vec<u32> = Vec::new();
            for (at, line) in lines.into_iter().enumerate() {
                let known = model.iter().position(|entry| entry >> 2 == line);
                let entry = known.map(|way| model.remove(way));
                prop_assert_eq!(array.touch(line).copied(), entry);
                let flags = at as u32 % 4;
                model.insert(0, entry.unwrap_or(line << 2 | flags));
                let gone = (model.len() > ways as usize).then(|| model.pop()).flatten();
                if entry.is_none() {
                    prop_assert_eq!(array.insert(line, flags), gone);
                }
                prop_assert!(array.lines().eq(model.iter().map(|entry| entry >> 2)));
            }
        }
    }
}
