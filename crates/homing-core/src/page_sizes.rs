//! Large pages against small ones: where one home for a large page costs more than a home for each of its parts, by the
//! off-line optimum of both. A region is worth splitting where the difference is large.

use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use crate::optimal::{OptimalError, Options, Solver};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// One page of the larger size, and what it would cost in pages of the smaller one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Region {
    /// Virtual address of the large page's first byte.
    pub address: u64,
    /// References to it.
    pub references: u64,
    /// Small pages that are in use.
    pub pages: u64,
    /// Nodes that refer to it.
    pub nodes: u64,
    /// Optimal cost as one page.
    pub whole_cost: f64,
    /// Optimal cost in small pages.
    pub split_cost: f64,
}

impl Region {
    /// What splitting saves.
    pub fn saved(&self) -> f64 {
        self.whole_cost - self.split_cost
    }
}

/// Histories that cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum PageSizesError {
    /// There is no bound.
    #[error(transparent)]
    Optimal(#[from] OptimalError),
    /// A history cannot be read back.
    #[error(transparent)]
    Spill(#[from] SpillError),
}

/// Every page of the `large` history, by what splitting saves, most first. Both are of one trace. Pages that had the
/// same address one after the other count together.
pub fn regions(
    large: (&History, &Costs),
    small: (&History, &Costs),
    options: Options,
) -> Result<Vec<Region>, PageSizesError> {
    let bytes = large.0.page_size().bytes();
    let mut regions: BTreeMap<u64, Region> = BTreeMap::new();
    for (address, cost, references, nodes) in optima(large.0, large.1, options)? {
        let region = regions.entry(address).or_insert(Region {
            address,
            references: 0,
            pages: 0,
            nodes: 0,
            whole_cost: 0.0,
            split_cost: 0.0,
        });
        region.references += references;
        region.whole_cost += cost;
        region.nodes = region.nodes.max(nodes);
    }
    for (address, cost, ..) in optima(small.0, small.1, options)? {
        if let Some(region) = regions.get_mut(&(address & !(bytes - 1))) {
            region.split_cost += cost;
            region.pages += 1;
        }
    }
    let mut regions: Vec<Region> = regions.into_values().collect();
    regions.sort_by(|a, b| b.saved().total_cmp(&a.saved()).then(a.address.cmp(&b.address)));
    Ok(regions)
}

/// Of each page: address, optimal cost, references, nodes that refer to it.
fn optima(
    history: &History,
    costs: &Costs,
    options: Options,
) -> Result<Vec<(u64, f64, u64, u64)>, PageSizesError> {
    let mut solver = Solver::new(costs, options);
    let mut all = Vec::new();
    for page in (0..history.pages()).map(Page) {
        let cost = solver.page(page, history.runs(page)?, &mut ())?.cost;
        let mut nodes: BTreeSet<Node> = BTreeSet::new();
        let mut references = 0;
        for run in history.runs(page)? {
            nodes.insert(run.node);
            references += run.references();
        }
        all.push((history.address(page), cost, references, nodes.len() as u64));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{HistoryBuilder, Options as Building};
    use crate::ids::{PageSize, Time};
    use crate::machine::Uniform;

    /// Two frames of one 8K page used by two nodes, and two of another used by one.
    fn history(page_size: PageSize) -> History {
        let frames = [0x10000u64, 0x11000, 0x20000, 0x21000];
        let mut builder = HistoryBuilder::new(Building { page_size, ..Building::default() });
        builder.group_frames(&frames);
        for time in 0..400u64 {
            let frame = time % 4;
            let node = if frame == 0 { 0 } else { 1 };
            builder.reference(Node(node), Time(time), frame << 12, true);
        }
        builder.finish(&frames).unwrap()
    }

    #[test]
    fn regions_that_nodes_share_by_halves_are_worth_splitting() {
        let costs = Costs::Uniform(Uniform { nodes: 2, remote: 3.0, page_move: 1e4, global: None });
        let (large, small) = (history(PageSize::new(8192).unwrap()), history(PageSize::KIB4));
        let regions = regions((&large, &costs), (&small, &costs), Options::default()).unwrap();
        let costs: Vec<_> =
            regions.iter().map(|r| (r.address, r.whole_cost, r.split_cost, r.pages, r.nodes)).collect();
        // One half is remote as a whole: 100 references at 3. Split, all are local.
        assert_eq!(costs, [(0x10000, 400.0, 200.0, 2, 2), (0x20000, 200.0, 200.0, 2, 1)]);
    }
}
