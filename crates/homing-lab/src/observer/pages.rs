//! Counts by page, and the static bound that they give.

use std::collections::{BTreeMap, HashMap};

/// Accesses of one vCPU to one 4 KiB page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its address space.
    pub space: u64,
    /// Number of the virtual page.
    pub number: u64,
    /// Who.
    pub cpu: usize,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Misses among them (all of them, without a cache).
    pub misses: u64,
    /// Index of the node where this vCPU last found it.
    pub home: usize,
}

/// The best that a placement without moves could do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Pages that were accessed.
    pub pages: usize,
    /// Non-local % of accesses with every page on the node that accesses it most.
    pub access_percent: f64,
    /// ... of misses with every page on the node that misses most on it.
    pub miss_percent: f64,
}

/// Accesses and misses by node.
type Both = (Vec<u64>, Vec<u64>);

/// Address and home of each page of the address space with the most accesses, as its most frequent user last saw it.
pub(super) fn homes(pages: &[Page]) -> Vec<(u64, usize)> {
    let accesses = |page: &Page| page.reads + page.writes;
    let mut by_space: HashMap<u64, u64> = HashMap::new();
    pages.iter().for_each(|page| *by_space.entry(page.space).or_default() += accesses(page));
    let largest = by_space.into_iter().max_by_key(|&(space, sum)| (sum, space)).map(|(space, _)| space);
    let mut best: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
    for page in pages.iter().filter(|page| Some(page.space) == largest) {
        let entry = best.entry(page.number << 12).or_insert((0, page.home));
        *entry = (accesses(page), page.home).max(*entry);
    }
    best.into_iter().map(|(address, (_, home))| (address, home)).collect()
}

/// The page that stands for all that are the same memory.
#[derive(Default)]
struct Joined {
    /// Of pages that are the same memory as another one: that one.
    by: HashMap<(u64, u64), (u64, u64)>,
}

impl Joined {
    fn new(pairs: &[[(u64, u64); 2]]) -> Joined {
        let mut joined = Joined::default();
        for &[one, other] in pairs {
            let (one, other) = (joined.root(one), joined.root(other));
            if one != other {
                // The first of them all, so that the order of pairs does not matter.
                joined.by.insert(one.max(other), one.min(other));
            }
        }
        joined
    }

    fn root(&self, mut page: (u64, u64)) -> (u64, u64) {
        while let Some(&next) = self.by.get(&page) {
            page = next;
        }
        page
    }
}

/// The bound at a page size. Pairs in `shared` are the same memory, which has one place.
pub(super) fn bound(
    pages: &[Page],
    shared: &[[(u64, u64); 2]],
    node_of_cpu: &[usize],
    nodes: usize,
    bytes: u64,
) -> Bound {
    let joined = Joined::new(shared);
    let mut by_page: HashMap<(u64, u64), Both> = HashMap::new();
    for page in pages {
        let (space, number) = joined.root((page.space, page.number));
        let key = (space, number / (bytes >> 12).max(1));
        let (accesses, misses) = by_page.entry(key).or_insert_with(|| (vec![0; nodes], vec![0; nodes]));
        accesses[node_of_cpu[page.cpu]] += page.reads + page.writes;
        misses[node_of_cpu[page.cpu]] += page.misses;
    }
    let percent = |of: fn(&Both) -> &Vec<u64>| {
        let best: u64 = by_page.values().map(|counts| of(counts).iter().max().copied().unwrap_or(0)).sum();
        let all: u64 = by_page.values().map(|counts| of(counts).iter().sum::<u64>()).sum();
        100.0 * (all - best) as f64 / all.max(1) as f64
    };
    Bound { pages: by_page.len(), access_percent: percent(|c| &c.0), miss_percent: percent(|c| &c.1) }
}
