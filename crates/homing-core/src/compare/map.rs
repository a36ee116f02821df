//! The page map of a report: one entry a page.

use super::Bound;
use crate::history::History;
use crate::ids::Page;
use crate::report::PageMap;
use crate::sharing::PageUse;
use crate::simulate::Simulation;

/// Pages that a map holds at most; a page of a browser with more is slow.
const MOST_PAGES: usize = 1 << 16;

pub(super) fn page_map(
    history: &History,
    uses: &[PageUse],
    bound: &Bound,
    shown: Option<&(&str, Simulation)>,
) -> PageMap {
    let mut pages: Vec<usize> = (0..uses.len()).collect();
    if pages.len() > MOST_PAGES {
        pages.sort_by_key(|&page| (std::cmp::Reverse(uses[page].references), page));
        pages.truncate(MOST_PAGES);
    }
    pages.sort_by_key(|&page| (history.address(Page(page as u32)), page));
    let last = shown.map_or(&bound.first_touch.last_homes, |(_, result)| &result.last_homes);
    PageMap {
        pages: uses.len() as u64,
        shown: pages.len() as u64,
        vaddr: pages.iter().map(|&page| format!("{:#x}", history.address(Page(page as u32)))).collect(),
        references: pages.iter().map(|&page| uses[page].references).collect(),
        class: pages.iter().map(|&page| uses[page].class as u8).collect(),
        initial: pages.iter().map(|&page| bound.first_touch.first_homes[page].0).collect(),
        most_frequent: pages.iter().map(|&page| uses[page].most_frequent.0).collect(),
        last: pages.iter().map(|&page| last[page].0).collect(),
        policy: shown.map_or("first-touch", |(name, _)| name).into(),
        optimal: pages.iter().map(|&page| bound.last_homes[page].0).collect(),
    }
}
