//! Successive refinement: the hottest lines of a large memory, found with few counters (Brock et al. 2001, sections 2
//! and 6). The first run counts the whole memory in regions of 2 MiB. Each further one counts the hottest of them in
//! finer granules, down to lines.
//!
//! No line has more references than the granule that it is in. So the hottest lines are known as soon as no granule
//! that is still coarse has more references than the last of them: a best-first search, which looks closely at as
//! little as it can. It is exact where each run sees the same references; over intervals of one run it is an estimate.
//!
//! This is pure: [`Refinement::plan`] says what to count next, whoever counts hands it to [`Refinement::take`].

mod filters;

pub use filters::{Filters, Range};

use std::collections::BTreeMap;

/// The granule that a search begins with.
pub const COARSEST: u64 = 2 << 20;

/// What there is to count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Ranges of memory that can be counted at a time.
    pub filters: usize,
    /// Counters in all, at least one a filter.
    pub counters: u64,
    /// Bytes of a line: a power of two of at most 4096.
    pub line: u64,
}

/// A line and its references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its address.
    pub address: u64,
    /// References that were counted.
    pub count: u64,
}

/// One step of a search, for those who look on.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was counted.
    pub filters: Filters,
    /// Steps that were announced to be needed at most, with this one.
    pub announced: Option<usize>,
    /// References in the step, whether a filter counted them or not.
    pub looked_at: u64,
    /// Those that a filter counted.
    pub counted: u64,
    /// ... in the hottest granule.
    pub most: u64,
}

/// Memory that has not been counted line by line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coarse {
    /// Granules.
    pub granules: usize,
    /// References to all of them.
    pub count: u64,
    /// ... and to the hottest: no line in one of them has more.
    pub most: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Granule {
    bytes: u64,
    count: u64,
}

/// A search for the hottest lines.
#[derive(Clone, Debug)]
pub struct Refinement {
    limits: Limits,
    top: usize,
    /// Addresses of pages of 4096 bytes, rising.
    pages: Vec<u64>,
    begun: bool,
    /// What has references and is not known line by line, by address.
    coarse: BTreeMap<u64, Granule>,
    lines: BTreeMap<u64, u64>,
    /// References of the coolest of the `top` hottest lines; 0 while fewer lines are known.
    bar: u64,
}

impl Refinement {
    /// A search for the `top` hottest lines of these pages (addresses of pages of 4096 bytes, in any order).
    pub fn new(pages: &[u64], limits: Limits, top: usize) -> Refinement {
        let mut pages = pages.to_vec();
        pages.sort_unstable();
        pages.dedup();
        let (coarse, lines) = (BTreeMap::new(), BTreeMap::new());
        Refinement { limits, top, pages, begun: false, coarse, lines, bar: 0 }
    }

    /// What to count next. `None` if the hottest lines are known, or the memory lies too far apart for the counters.
    pub fn plan(&self) -> Option<Filters> {
        if !self.begun {
            return Filters::over(&self.pages, 4096, COARSEST, self.limits);
        }
        let candidates = self.candidates();
        let &(_, Granule { bytes, .. }) = candidates.first()?;
        let same: Vec<u64> =
            candidates.iter().filter(|(_, granule)| granule.bytes == bytes).map(|(at, _)| *at).collect();
        let granularity = self.next(bytes);
        let over = |count: usize| Filters::over(&same[..count], bytes, granularity, self.limits);
        // More memory never needs fewer counters, but for the gaps between: the first that fit are enough.
        let (mut fits, mut most) = (1, same.len());
        while fits < most {
            let middle = (fits + most).div_ceil(2);
            match over(middle) {
                Some(_) => fits = middle,
                None => most = middle - 1,
            }
        }
        over(fits)
    }

    /// Takes what was counted, by number of the counter.
    pub fn take(&mut self, filters: &Filters, counts: &[u64]) {
        let line = filters.granularity() <= self.limits.line;
        // What is known already is kept; what a range holds a part of is not known by that part.
        let within = |at: u64, bytes: u64| {
            filters.ranges().iter().any(|range| range.start <= at && at + bytes <= range.end())
        };
        let known: Vec<(u64, Granule)> = self.coarse.iter().map(|(&at, &granule)| (at, granule)).collect();
        let replaced: Vec<(u64, Granule)> = known
            .into_iter()
            .filter(|(at, granule)| granule.bytes > filters.granularity() && within(*at, granule.bytes))
            .collect();
        let first = !std::mem::replace(&mut self.begun, true);
        for (at, _) in &replaced {
            self.coarse.remove(at);
        }
        let found = filters.counted(counts).filter(|(at, _)| {
            let place = replaced.partition_point(|(start, _)| start <= at);
            first || place.checked_sub(1).is_some_and(|i| *at < replaced[i].0 + replaced[i].1.bytes)
        });
        for (at, count) in found.collect::<Vec<_>>() {
            match line {
                true => drop(self.lines.insert(at, count)),
                false => drop(self.coarse.insert(at, Granule { bytes: filters.granularity(), count })),
            }
        }
        self.bar =
            self.hottest().last().filter(|_| self.lines.len() >= self.top).map_or(0, |line| line.count);
    }

    /// The hottest lines that are known, at most as many as are looked for.
    pub fn hottest(&self) -> Vec<Line> {
        let mut lines: Vec<Line> =
            self.lines.iter().map(|(&address, &count)| Line { address, count }).collect();
        lines.sort_unstable_by_key(|line| (std::cmp::Reverse(line.count), line.address));
        lines.truncate(self.top);
        lines
    }

    /// What a hotter line may be in.
    pub fn open(&self) -> Coarse {
        let mut open = Coarse::default();
        for (_, granule) in self.candidates() {
            open.granules += 1;
            open.count += granule.count;
            open.most = open.most.max(granule.count);
        }
        open
    }

    /// True if the hottest lines are known.
    pub fn is_done(&self) -> bool {
        self.begun && self.candidates().is_empty()
    }

    /// Runs that are still needed at most; `None` where granules must be halved in several steps, which depends on what
    /// will be found.
    pub fn runs_left(&self) -> Option<usize> {
        if !self.begun {
            return None;
        }
        let mut rest = self.clone();
        let mut runs = 0;
        while let Some(filters) = rest.plan() {
            if filters.granularity() > self.limits.line {
                return None;
            }
            // At worst nothing there is among the hottest, so that the others stay open.
            let within = |at: u64| filters.ranges().iter().any(|range| range.start <= at && at < range.end());
            rest.coarse.retain(|&at, _| !within(at));
            runs += 1;
        }
        Some(runs)
    }

    /// Granules that may hold a line hotter than the last of the hottest, the hottest first.
    fn candidates(&self) -> Vec<(u64, Granule)> {
        let may = self.coarse.iter().filter(|(_, granule)| granule.count > self.bar);
        let mut all: Vec<(u64, Granule)> = may.map(|(&at, &granule)| (at, granule)).collect();
        all.sort_unstable_by_key(|(at, granule)| (std::cmp::Reverse(granule.count), *at));
        all
    }

    /// The granularity to look at a granule with: lines if there are counters for one granule, else as fine as they
    /// allow if each filter has a granule.
    fn next(&self, bytes: u64) -> u64 {
        let Limits { filters, counters, line } = self.limits;
        if bytes / line <= counters {
            return line;
        }
        let each = (counters / filters.max(1) as u64).max(2);
        let finest = bytes.div_ceil(1 << each.ilog2());
        finest.next_power_of_two().clamp(line, bytes / 2)
    }
}

#[cfg(test)]
mod tests;
