//! The page map of a report: one entry a page.

use super::Bound;
use crate::areas;
use crate::history::{History, SpillError};
use crate::ids::{Page, PageSize};
use crate::report::PageMap;
use crate::sharing::PageUse;
use crate::simulate::Simulation;
use crate::trace::Trace;
use rayon::prelude::*;

/// Pages that a map holds at most; a page of a browser with more is slow.
const MOST_PAGES: usize = 1 << 16;

pub(super) fn page_map(
    history: &History,
    uses: &[PageUse],
    bound: &Bound,
    shown: Option<&(&str, Simulation)>,
) -> Result<PageMap, SpillError> {
    let mut pages: Vec<usize> = (0..uses.len()).collect();
    if pages.len() > MOST_PAGES {
        pages.sort_by_key(|&page| (std::cmp::Reverse(uses[page].references), page));
        pages.truncate(MOST_PAGES);
    }
    pages.sort_by_key(|&page| (history.address(Page(page as u32)), page));
    let last = shown.map_or(&bound.first_touch.last_homes, |(_, result)| &result.last_homes);
    let by_node: Result<_, _> = pages.par_iter().map(|&page| by_node(history, Page(page as u32))).collect();
    Ok(PageMap {
        pages: uses.len() as u64,
        shown: pages.len() as u64,
        vaddr: pages.iter().map(|&page| format!("{:#x}", history.address(Page(page as u32)))).collect(),
        references: pages.iter().map(|&page| uses[page].references).collect(),
        class: pages.iter().map(|&page| uses[page].class as u8).collect(),
        initial: pages.iter().map(|&page| bound.first_touch.first_homes[page].0).collect(),
        most_frequent: pages.iter().map(|&page| uses[page].most_frequent.0).collect(),
        last: pages.iter().map(|&page| last[page].0).collect(),
        policy: shown.map_or("first-touch", |(name, _)| name).into(),
        optimal: pages.iter().map(|&page| bound.floor.last_homes[page].0).collect(),
        by_node: by_node?,
        areas: Vec::new(),
        area: Vec::new(),
    })
}

/// References of each node to a page.
fn by_node(history: &History, page: Page) -> Result<Vec<u64>, SpillError> {
    let mut nodes = Vec::new();
    for run in history.runs(page)? {
        let node = run.node.index();
        if node >= nodes.len() {
            nodes.resize(node + 1, 0);
        }
        nodes[node] += run.reads() + u64::from(run.writes);
    }
    Ok(nodes)
}

impl PageMap {
    /// Adds what the trace knows of the data in the pages.
    pub fn name_areas(&mut self, trace: &Trace<'_>, page_size: PageSize) {
        let address = |text: &String| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0);
        let addresses: Vec<u64> = self.vaddr.iter().map(address).collect();
        let areas = areas::name_pages(trace, &addresses, page_size.bytes());
        (self.areas, self.area) = (areas.names, areas.of_page);
    }
}
