//! What libhoming-place.so counts, in a file that all processes of the program share (`struct counts` of
//! preload/place.h): also what a program that was killed has counted is there.

use super::words::MOST_NAMES;

/// Numbers of the program, and of each name.
const NUMBERS: usize = 8;
/// Bytes of the file.
pub const BYTES: usize = 8 * NUMBERS * (1 + MOST_NAMES);

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Programs that began with the plan: one, and each that they executed.
    pub programs: u64,
    /// Those among them that have an allocator of their own, whose blocks are not seen.
    pub with_own_allocator: u64,
    /// Those among them that were or became confined by filters of system calls.
    pub confined: u64,
    /// By name.
    pub names: Vec<Counted>,
}

/// What was counted of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Blocks, variables or mappings that got their placement.
    pub blocks: u64,
    /// Bytes of whole pages that did.
    pub bytes: u64,
    /// Calls of `mbind` that failed.
    pub failed: u64,
    /// The error of the last one.
    pub error: i32,
    /// Data without a whole page of their own.
    pub small: u64,
    /// Blocks that were left alone, since there were too many at the same time to notice the end of each.
    pub untracked: u64,
}

impl Counts {
    /// Reads those of the first `names` names. What is missing in the bytes is 0.
    pub fn read(bytes: &[u8], names: usize) -> Counts {
        let number = |at: usize| {
            let bytes = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        let name = |index: usize| {
            let at = NUMBERS * (1 + index);
            Counted {
                blocks: number(at),
                bytes: number(at + 1),
                failed: number(at + 2),
                error: number(at + 3) as i32,
                small: number(at + 4),
                untracked: number(at + 5),
            }
        };
        Counts {
            programs: number(0),
            with_own_allocator: number(1),
            confined: number(2),
            names: (0..names).map(name).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_where_the_library_counts_them() {
        let mut bytes = vec![0; BYTES];
        let mut put = |at: usize, value: u64| bytes[8 * at..8 * at + 8].copy_from_slice(&value.to_ne_bytes());
        (0..3).for_each(|at| put(at, 10 + at as u64));
        (0..6).for_each(|at| put(NUMBERS * 2 + at, 20 + at as u64));
        let counts = Counts::read(&bytes, 2);
        assert_eq!((counts.programs, counts.with_own_allocator, counts.confined), (10, 11, 12));
        let second = Counted { blocks: 20, bytes: 21, failed: 22, error: 23, small: 24, untracked: 25 };
        assert_eq!(counts.names, [Counted::default(), second]);
        assert_eq!(Counts::read(&[], 1).names, [Counted::default()]);
        let header = include_str!("../../../../preload/place.h");
        for line in [
            "_Atomic uint64_t processes, foreign_allocator, confined, unused[5];",
            "_Atomic uint64_t blocks, bytes, failed, error, small, untracked, unused[2];",
        ] {
            assert!(header.contains(line), "{line}");
        }
    }
}
