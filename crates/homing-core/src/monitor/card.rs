//! A card on each node's port to the interconnect: 32 region filters, 512K counters, 16 secondary counters (Brock et
//! al. 2001, section 2: the Opium card). It sees what leaves its node (outbound), what comes in (inbound), or both;
//! local accesses never pass it.

use super::{Monitor, Observed, Poll, Reports, Seen};
use crate::cache::Kind;
use crate::ids::Node;
use crate::refine::{Filters, Limits, Range};
use std::collections::BTreeMap;

/// Region filters of a card.
pub const FILTERS: usize = 32;
/// Counters of a card.
pub const COUNTERS: u32 = 512 << 10;
/// Secondary counters of a card.
pub const SECONDARY: usize = 16;
/// Bits of a counter.
const COUNTER_MAX: u64 = (1 << 36) - 1;

/// Which way transactions go that a card counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the card's node to others.
    Outbound,
    /// From others to the card's node.
    Inbound,
    /// Either.
    Both,
}

/// One region: the five registers of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First virtual address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes that share a counter: a power of two from 32 to 2M.
    pub granularity: u64,
    /// Bit i: count transactions of kind `Kind::ALL[i]`.
    pub kinds: u8,
    /// Counter of the first granule.
    pub base: u32,
}

/// A secondary counter: counts along with a set of regions, of some kinds only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secondary {
    /// Bit i: along with region i.
    pub regions: u32,
    /// Bit i: transactions of kind `Kind::ALL[i]`.
    pub kinds: u8,
}

/// A card that cannot be set up so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CardError {
    /// More regions than filters.
    #[error("{0} regions: a card has {FILTERS} filters")]
    Regions(usize),
    /// More secondary counters than there are.
    #[error("{0} secondary counters: a card has {SECONDARY}")]
    Secondary(usize),
    /// A granularity that the card does not have.
    #[error("granularity {0}: expected a power of two from 32 to 2M")]
    Granularity(u64),
    /// A region that needs counters beyond the last.
    #[error("a region needs counters {0} to {1}: a card has {COUNTERS}; choose a coarser granularity")]
    Counters(u64, u64),
}

/// The card of one node.
#[derive(Clone, Debug)]
pub struct Card {
    node: Node,
    direction: Direction,
    regions: Vec<Region>,
    secondary: Vec<(Secondary, u64)>,
    /// A counter that reaches a multiple of this raises an event; 0 for never.
    threshold: u64,
    counters: BTreeMap<u32, u64>,
    events: u64,
}

impl Card {
    /// A programmed card with all counters at 0.
    pub fn new(
        node: Node,
        direction: Direction,
        regions: Vec<Region>,
        secondary: Vec<Secondary>,
        threshold: u64,
    ) -> Result<Card, CardError> {
        if regions.len() > FILTERS {
            return Err(CardError::Regions(regions.len()));
        }
        if secondary.len() > SECONDARY {
            return Err(CardError::Secondary(secondary.len()));
        }
        for region in &regions {
            let g = region.granularity;
            if !g.is_power_of_two() || !(32..=2 << 20).contains(&g) {
                return Err(CardError::Granularity(g));
            }
            let last = u64::from(region.base) + region.size.div_ceil(g).max(1) - 1;
            if last >= u64::from(COUNTERS) {
                return Err(CardError::Counters(u64::from(region.base), last));
            }
        }
        let secondary = secondary.into_iter().map(|secondary| (secondary, 0)).collect();
        Ok(Card { node, direction, regions, secondary, threshold, counters: BTreeMap::new(), events: 0 })
    }

    /// A transaction on the interconnect; each filter looks at it by itself.
    pub fn see(&mut self, seen: &Seen) {
        let outbound = seen.node == self.node;
        let passes = match self.direction {
            Direction::Outbound => outbound,
            Direction::Inbound => seen.home == self.node,
            Direction::Both => outbound || seen.home == self.node,
        };
        if seen.node == seen.home || !passes {
            return;
        }
        let kind =
            1 << Kind::ALL.iter().position(|&kind| kind == seen.kind).expect("all kinds are in the list");
        let mut matched = 0u32;
        for (index, region) in self.regions.iter().enumerate() {
            let offset = seen.address.wrapping_sub(region.start);
            if offset >= region.size || region.kinds & kind == 0 {
                continue;
            }
            matched |= 1 << index;
            let counter =
                self.counters.entry(region.base + (offset / region.granularity) as u32).or_insert(0);
            *counter = (*counter + 1).min(COUNTER_MAX);
            self.events += u64::from(self.threshold > 0 && counter.is_multiple_of(self.threshold));
        }
        for (secondary, count) in &mut self.secondary {
            *count += u64::from(secondary.regions & matched != 0 && secondary.kinds & kind != 0);
        }
    }

    /// The counters that are not 0.
    pub fn counters(&self) -> &BTreeMap<u32, u64> {
        &self.counters
    }

    /// The secondary counters.
    pub fn secondary(&self) -> impl Iterator<Item = u64> + '_ {
        self.secondary.iter().map(|secondary| secondary.1)
    }

    /// Interrupts raised since the last call.
    pub fn take_events(&mut self) -> u64 {
        std::mem::take(&mut self.events)
    }
}

/// One card a node, with regions over all pages of the program; read at the ends of intervals. Granules larger than a
/// page give all of their pages the same count each. What comes in has no sender that the card could tell: each of the
/// other nodes with CPUs gets an even share.
#[derive(Debug)]
pub struct Cards {
    inbound: bool,
    cards: Vec<Card>,
    /// For each counter, the pages that share it.
    pages: BTreeMap<u32, Vec<u32>>,
    read: Vec<BTreeMap<u32, u64>>,
}

impl Cards {
    /// Regions over `pages` (virtual address of each page), as fine as `granularity` or as the counters and filters
    /// allow. They count what leaves their nodes, or what comes in if they are `inbound`.
    pub fn over(
        nodes: u16,
        pages: &[u64],
        page_size: u64,
        granularity: u64,
        threshold: u64,
        inbound: bool,
    ) -> Cards {
        let direction = if inbound { Direction::Inbound } else { Direction::Outbound };
        let mut granularity = granularity.clamp(32, 2 << 20).next_power_of_two();
        let regions = loop {
            match regions(pages, page_size, granularity) {
                Some(regions) => break regions,
                None if granularity < 2 << 20 => granularity *= 2,
                // A terabyte of address space is beyond a card at its coarsest: it sees nothing.
                None => break Vec::new(),
            }
        };
        let card = |node| {
            Card::new(Node(node), direction, regions.clone(), Vec::new(), threshold)
                .expect("regions() keeps to the card's limits")
        };
        let mut shared: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (page, &address) in pages.iter().enumerate() {
            let Some(region) = regions.iter().find(|r| (r.start..r.start + r.size).contains(&address)) else {
                continue;
            };
            let first = region.base + ((address - region.start) / region.granularity) as u32;
            let counters = (page_size / region.granularity).max(1) as u32;
            (first..first + counters)
                .for_each(|counter| shared.entry(counter).or_default().push(page as u32));
        }
        let cards: Vec<Card> = (0..nodes).map(card).collect();
        let read = vec![BTreeMap::new(); cards.len()];
        Cards { inbound, cards, pages: shared, read }
    }
}

/// At most [`FILTERS`] regions that cover the pages with at most [`COUNTERS`] counters: the largest gaps stay out.
fn regions(pages: &[u64], page_size: u64, granularity: u64) -> Option<Vec<Region>> {
    let limits = Limits { filters: FILTERS, counters: COUNTERS.into(), line: granularity };
    let filters = Filters::over(pages, page_size, granularity, limits)?;
    let region = |&Range { start, bytes, base }: &Range| Region {
        start,
        size: bytes,
        granularity,
        kinds: 0b0111,
        base: base as u32,
    };
    Some(filters.ranges().iter().map(region).collect())
}

impl Monitor for Cards {
    fn transaction(&mut self, seen: &Seen, reports: &mut Reports) {
        let node = if self.inbound { seen.home } else { seen.node };
        let Some(card) = self.cards.get_mut(node.index()) else { return };
        card.see(seen);
        reports.interrupts += card.take_events();
    }

    fn interval_end(&mut self, poll: &mut Poll, reports: &mut Reports) {
        let mut users = poll.nodes.to_vec();
        users.sort_unstable();
        users.dedup();
        for (card, read) in self.cards.iter().zip(&mut self.read) {
            let mut by_page: BTreeMap<u32, f64> = BTreeMap::new();
            for (counter, &count) in card.counters() {
                let new = count - read.insert(*counter, count).unwrap_or(0);
                let pages = self.pages.get(counter).map_or(&[][..], |pages| pages);
                for &page in pages.iter().filter(|_| new > 0) {
                    *by_page.entry(page).or_default() += new as f64 / pages.len() as f64;
                }
            }
            let senders: Vec<Node> = match self.inbound {
                true => users.iter().copied().filter(|&node| node != card.node).collect(),
                false => vec![card.node],
            };
            for (page, count) in by_page {
                let weight = count / senders.len() as f64;
                let sample = |&node| Observed { cpu: None, node, page, reads: 1, writes: 0, weight };
                reports.samples.extend(senders.iter().map(sample));
            }
        }
    }
}
