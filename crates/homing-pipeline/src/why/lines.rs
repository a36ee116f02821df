//! A second reading of a trace, for the lines of the pages that several nodes write.

use crate::case::Case;
use crate::error::Result;
use crate::model::frames;
use homing_core::history::{Binding, History};
use homing_core::ids::Page;
use homing_core::why::facts::PageFacts;
use homing_core::why::lines::Lines;
use homing_trace::{Trace, Turn, Visitor, FRAME_BYTES};
use std::collections::HashMap;

/// Gives the facts of pages that several nodes write what their lines say. Returns how many of these pages were not
/// watched for want of memory.
pub fn watch(case: &Case<'_>, nodes: usize, facts: &mut [PageFacts]) -> Result<usize> {
    let frames = frames(&case.trace);
    let page_bytes = case.layout.history.page_size().bytes();
    if page_bytes < FRAME_BYTES {
        return Ok(0);
    }
    let watched = watched(facts, &frames, &case.layout.history);
    if watched.is_empty() {
        return Ok(0);
    }
    let numbers: Vec<u32> = watched.iter().map(|&(frame, _)| frame).collect();
    let binding = case.ready.experiment.model.binding(&case.ready.machine)?;
    let mut watch = Watch { lines: Lines::new(nodes, frames.len(), &numbers), binding: &binding };
    read(&case.trace, &mut watch)?;
    let mut left = 0;
    for (frame, page) in watched {
        let offset = frames[frame as usize] % page_bytes;
        match (watch.lines.of_frame(frame, offset), &mut facts[page].lines) {
            (Some(more), Some(known)) => known.add(more),
            (Some(first), none) => *none = Some(Box::new(first)),
            (None, _) => left += 1,
        }
    }
    Ok(left)
}

/// The frames of the pages that several nodes write, those with most references first, each with its page.
fn watched(facts: &[PageFacts], frames: &[u64], history: &History) -> Vec<(u32, usize)> {
    let page_bytes = history.page_size().bytes();
    let of_page = |address: u64| address / page_bytes;
    // Addresses that were unmapped and mapped again have several pages: where numbers do not tell them apart, the one
    // with most references stands for all.
    let identical = page_bytes == FRAME_BYTES && frames.len() == facts.len();
    let mut pages: HashMap<u64, usize> = HashMap::new();
    for (page, found) in facts.iter().enumerate().filter(|(_, found)| found.is_shared_and_written()) {
        let known = pages.entry(of_page(found.address)).or_insert(page);
        if facts[*known].references() < found.references() {
            *known = page;
        }
    }
    let page_of = |(number, &address): (usize, &u64)| {
        let same = identical && history.address(Page(number as u32)) == address;
        let page = match same {
            true => facts[number].is_shared_and_written().then_some(number),
            false => pages.get(&of_page(address)).copied(),
        };
        page.map(|page| (number as u32, page))
    };
    let mut watched: Vec<(u32, usize)> = frames.iter().enumerate().filter_map(page_of).collect();
    watched.sort_by_key(|&(frame, page)| (std::cmp::Reverse(facts[page].references()), frame));
    watched
}

fn read(trace: &Trace<'_>, watch: &mut Watch<'_>) -> Result<()> {
    trace.visit_all(watch)?;
    Ok(())
}

struct Watch<'a> {
    lines: Lines,
    binding: &'a Binding,
}

impl Visitor for Watch<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        // Where a thread moves within a turn, the turn's first node stands for all of it.
        let (node, _) = self.binding.node_at(turn.thread, turn.first);
        self.lines.turn(node, turn.addresses, turn.kinds);
    }
}
