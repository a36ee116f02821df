//! How large the parts of a hierarchy are.

use super::array::Array;
use super::frames::Colours;
use crate::ids::PageSize;

/// A set-associative array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of sets, a power of two.
    pub sets: u32,
    /// Ways of each set.
    pub ways: u32,
    /// Base-2 logarithm of the bytes of a line (0 for TLBs, whose unit is the page).
    pub line_log2: u32,
}

impl Shape {
    /// Of a cache. `None` unless line and number of sets are powers of two.
    pub fn cache(bytes: u64, ways: u32, line: u64) -> Option<Shape> {
        let sets = bytes.checked_div(u64::from(ways).checked_mul(line)?)?;
        let whole = sets * u64::from(ways) * line == bytes;
        (whole && line.is_power_of_two() && sets.is_power_of_two() && sets <= 1 << 24).then(|| Shape {
            sets: sets as u32,
            ways,
            line_log2: line.trailing_zeros(),
        })
    }

    /// Of a TLB. `None` unless the number of sets is a power of two.
    pub fn tlb(entries: u32, ways: u32) -> Option<Shape> {
        let sets = entries.checked_div(ways)?;
        (sets * ways == entries && sets.is_power_of_two()).then_some(Shape { sets, ways, line_log2: 0 })
    }

    /// Empty arrays of `caches` caches.
    pub(super) fn array(&self, caches: usize) -> Array {
        Array::new(self.sets, self.ways, caches)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.sets) * u64::from(self.ways)) << self.line_log2
    }
}

/// All of a hierarchy. The lines of the first level are no longer than those of the second, and those of the third are
/// as long as those of the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HierarchyShape {
    /// First level, one a CPU.
    pub l1: Shape,
    /// Second level, one a CPU; holds all that the first level holds.
    pub l2: Shape,
    /// Third level and the number of neighbouring CPUs that share one.
    pub l3: Option<(Shape, u32)>,
    /// Data TLBs, one or two levels; none for machines whose translation is not modelled.
    pub tlbs: Vec<Shape>,
    /// How pages get their frames.
    pub colours: Colours,
}

impl HierarchyShape {
    /// The colours that make pages take the sets of their virtual addresses, in the largest cache too.
    pub fn virtual_colours(&self, page_size: PageSize) -> Colours {
        let way = |shape: &Shape| shape.sets.trailing_zeros() + shape.line_log2;
        let caches = [Some(&self.l1), Some(&self.l2), self.l3.as_ref().map(|l3| &l3.0)];
        let largest = caches.into_iter().flatten().map(way).max().unwrap_or(0);
        Colours::Virtual(largest.saturating_sub(page_size.log2()))
    }
}
