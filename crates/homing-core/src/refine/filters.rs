//! Filters: ranges of memory, cut into granules of equal size with a counter each.

use super::Limits;

/// A range that a filter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Its first address, a multiple of the granularity.
    pub start: u64,
    /// Its size, a multiple of the granularity.
    pub bytes: u64,
    /// Counter of its first granule.
    pub base: u64,
}

impl Range {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.start + self.bytes
    }
}

/// What is counted in one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    /// By address, apart from each other.
    ranges: Vec<Range>,
    granularity: u64,
    counters: u64,
}

impl Filters {
    /// Filters over blocks of `size` bytes (a power of two) that hold these addresses. With fewer filters than groups
    /// of neighbours, those with the smallest gaps between them share one. `None` if that needs more counters.
    pub fn over(addresses: &[u64], size: u64, granularity: u64, limits: Limits) -> Option<Filters> {
        let align = granularity.max(size);
        let mut blocks: Vec<u64> = addresses.iter().map(|address| address & !(align - 1)).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let between = blocks.windows(2).enumerate().map(|(place, pair)| (pair[1] - pair[0], place + 1));
        let mut gaps: Vec<(u64, usize)> = between.filter(|gap| gap.0 > align).collect();
        gaps.sort_unstable_by_key(|&(bytes, place)| (std::cmp::Reverse(bytes), place));
        let mut cuts: Vec<usize> =
            gaps.iter().take(limits.filters.saturating_sub(1)).map(|gap| gap.1).collect();
        cuts.sort_unstable();
        cuts.push(blocks.len());
        let (mut ranges, mut from, mut base) = (Vec::new(), 0, 0u64);
        for to in cuts {
            let start = *blocks.get(from)?;
            let bytes = blocks[to - 1] - start + align;
            ranges.push(Range { start, bytes, base });
            base += bytes / granularity;
            if base > limits.counters {
                return None;
            }
            from = to;
        }
        Some(Filters { ranges, granularity, counters: base })
    }

    /// The ranges, by address.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Bytes that share a counter.
    pub fn granularity(&self) -> u64 {
        self.granularity
    }

    /// Counters in use.
    pub fn counters(&self) -> u64 {
        self.counters
    }

    /// Bytes that are counted.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.bytes).sum()
    }

    /// The counter of an address; `None` if no filter has it.
    #[inline]
    pub fn counter(&self, address: u64) -> Option<usize> {
        let after = self.ranges.partition_point(|range| range.start <= address);
        let range = self.ranges[..after].last()?;
        let offset = address - range.start;
        (offset < range.bytes).then(|| (range.base + offset / self.granularity) as usize)
    }

    /// The granules that were counted, with their counts: those that have any.
    pub(super) fn counted<'c>(&'c self, counts: &'c [u64]) -> impl Iterator<Item = (u64, u64)> + 'c {
        let of_range = move |range: &'c Range| {
            let counts =
                counts.iter().skip(range.base as usize).take((range.bytes / self.granularity) as usize);
            counts
                .enumerate()
                .map(move |(place, &count)| (range.start + place as u64 * self.granularity, count))
        };
        self.ranges.iter().flat_map(of_range).filter(|(_, count)| *count > 0)
    }
}
