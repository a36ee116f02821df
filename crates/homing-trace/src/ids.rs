//! The newtypes that keep indices of different kinds apart.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! index {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index into a slice.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index!(
    /// The index of a reference in the trace's one total order (capital T, as in Bolosky & Scott 1991, section 2.2).
    Time(u64)
);
index!(
    /// A memory with zero or more CPUs. On machines with global memory the last node is the global memory.
    Node(u16)
);
index!(
    /// A processor of the machine model.
    Cpu(u16)
);
index!(
    /// A thread of the recorded program, numbered from 0 in order of creation; never reused in a trace.
    Thread(u32)
);
/// Threads are numbered below this wherever a table has a place for each number.
pub const MOST_THREADS: u32 = 1 << 20;

index!(
    /// A page, numbered densely from 0 in order of first reference. A page whose mapping went away and came back is a
    /// new page.
    Page(u32)
);

/// Microseconds since a live session began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl Micros {
    /// Milliseconds as microseconds.
    pub const fn from_millis(ms: u64) -> Micros {
        Micros(ms * 1000)
    }

    /// The time from `earlier` to this; none if that is later.
    #[must_use]
    pub fn since(self, earlier: Micros) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, other: Micros) -> Micros {
        Micros(self.0.saturating_add(other.0))
    }

    /// As many times as long.
    #[must_use]
    pub fn times(self, factor: u32) -> Micros {
        Micros(self.0.saturating_mul(u64::from(factor)))
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A page size: a power of two from 512 B to 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u8);

impl PageSize {
    /// The smallest page size, 512 B.
    pub const MIN: PageSize = PageSize(9);
    /// The largest page size, 1 GiB.
    pub const MAX: PageSize = PageSize(30);
    /// The usual 4 KiB.
    pub const KIB4: PageSize = PageSize(12);
    /// Those of transparent huge pages, 2 MiB.
    pub const MIB2: PageSize = PageSize(21);

    /// The page size of `bytes` bytes, if that is a power of two within the bounds.
    pub fn new(bytes: u64) -> Option<PageSize> {
        let size = PageSize(bytes.trailing_zeros() as u8);
        (bytes.is_power_of_two() && (Self::MIN..=Self::MAX).contains(&size)).then_some(size)
    }

    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        1 << self.0
    }

    /// Base-2 logarithm of the size in bytes.
    pub fn log2(self) -> u32 {
        u32::from(self.0)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n @ 0..=9 => write!(f, "{}", 1u64 << n),
            n @ 10..=19 => write!(f, "{}K", 1u64 << (n - 10)),
            n @ 20..=29 => write!(f, "{}M", 1u64 << (n - 20)),
            n => write!(f, "{}G", 1u64 << (n - 30)),
        }
    }
}

impl std::str::FromStr for PageSize {
    type Err = String;

    /// Parses `4096`, `4K`, `2M`, `1G` (binary units, case-insensitive, an optional `B`/`iB` behind).
    fn from_str(text: &str) -> Result<Self, String> {
        parse_bytes(text).and_then(PageSize::new).ok_or_else(|| {
            format!("page size `{text}`: expected a power of two from 512 to 1G, such as 4K or 2M")
        })
    }
}

/// Parses a size in bytes with an optional binary suffix K, M, G or T (`64K` is 65536).
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.checked_shl(shift).filter(|n| n >> shift == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_sizes_parse_and_print() {
        for (text, bytes) in [("512", 512), ("4K", 4096), ("4096", 4096), ("2M", 2 << 20), ("1g", 1 << 30)] {
            assert_eq!(text.parse::<PageSize>().unwrap().bytes(), bytes);
        }
        for bad in ["256", "3K", "2G", "", "K", "4X", "99999999999999999999", "18014398509481985K"] {
            assert!(bad.parse::<PageSize>().is_err(), "{bad}");
        }
        assert_eq!(PageSize::KIB4.to_string(), "4K");
        assert_eq!(PageSize::MAX.to_string(), "1G");
    }
}
