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
            let way = (1..set.len()).find(|&way| set[way] >> 2 == line)?;
            let entry = set[way];
            set.copy_within(..way, 1);
            set[0] = entry;
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
        set.copy_within(..last, 1);
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
