//! Pages that stay where they are, in the whole program that windows are of: how much is non-local, and what a better
//! place for each of them would take off.

use super::{Estimate, Figure, Total, Windows};
use crate::engine::shape::Shape;
use crate::history::{History, SpillError};
use crate::ids::{Node, Page};
use crate::machine::Costs;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::ops::Add;

/// Pages whose sums are added up at once: in this order for any number of threads.
const CHUNK: u32 = 256;

/// What is estimated of the whole program while pages stay where they are: of every reference, without caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Still {
    /// Windows that have references.
    pub windows: usize,
    /// How much of the program they hold, from 0 to 1.
    pub share: f64,
    /// 100 * references to other nodes' memory / references.
    pub nonlocal_percent: Figure,
    /// 100 * what is saved if each page is, from the start, at the node where it costs least / what references cost
    /// now.
    /// At least: that node is chosen from half of the windows and judged by the other half. At most: it is chosen from
    /// all of them.
    pub avoidable_percent: Figure,
}

/// What references cost in one placement, and how many of them are non-local.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    cost: f64,
    nonlocal: f64,
}

impl Add for Place {
    type Output = Place;

    fn add(self, more: Place) -> Place {
        Place { cost: self.cost + more.cost, nonlocal: self.nonlocal + more.nonlocal }
    }
}

/// What a window adds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    length: f64,
    references: f64,
    /// Where pages are.
    now: f64,
    nonlocal: f64,
    /// With homes from all windows.
    best: Place,
    /// With homes from the other half of the windows.
    other: Place,
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, more: Sums) -> Sums {
        Sums {
            length: self.length + more.length,
            references: self.references + more.references,
            now: self.now + more.now,
            nonlocal: self.nonlocal + more.nonlocal,
            best: self.best + more.best,
            other: self.other + more.other,
        }
    }
}

/// Estimates it from windows with at least one reference. `homes`: where each page is.
///
/// # Errors
/// If the history cannot be read back.
pub fn still(
    history: &History,
    windows: &Windows,
    costs: &Costs,
    homes: &[Node],
) -> Result<Option<Still>, SpillError> {
    let total = sums(history, windows, costs, |page| Some(homes[page.index()]))?;
    let percent = |part: f64, of: f64| 100.0 * part / of.max(f64::MIN_POSITIVE);
    Ok(total.map(|total| Still {
        windows: total.seen,
        share: windows.share(),
        nonlocal_percent: total.figure(&|sums| {
            let share = percent(sums.nonlocal, sums.references);
            (share, share)
        }),
        avoidable_percent: total.figure(&|sums| {
            let saved = |then: Place| percent(sums.now - then.cost, sums.now).max(0.0);
            (saved(sums.other), saved(sums.best))
        }),
    }))
}

/// What the program costs if each page is, from the start, at the node where it costs least: at least with homes that
/// are chosen from all windows, at most with those that half of the windows choose and the other half judges.
///
/// # Errors
/// If the history cannot be read back.
pub fn best_static(
    history: &History,
    windows: &Windows,
    costs: &Costs,
) -> Result<Option<Estimate>, SpillError> {
    let total = sums(history, windows, costs, |_| None)?;
    let percent = |place: Place, of: f64| 100.0 * place.nonlocal / of.max(f64::MIN_POSITIVE);
    Ok(total.map(|total| {
        let all = windows.weight * windows.lengths.iter().sum::<f64>();
        let rate = |sums: &Sums, place: Place| place.cost / sums.length * all;
        Estimate {
            windows: total.seen,
            references: windows.weight * total.sums.references,
            mcpr: total.figure(&|s| (s.best.cost / s.references, s.other.cost / s.references)),
            cost: total.figure(&|s| (rate(s, s.best), rate(s, s.other))),
            nonlocal_percent: Some(total.figure(&|s| {
                let (best, other) = (percent(s.best, s.references), percent(s.other, s.references));
                (best.min(other), best.max(other))
            })),
        }
    }))
}

/// What each window adds; nothing without a reference in one. `home`: where each page is, if that is known.
fn sums(
    history: &History,
    windows: &Windows,
    costs: &Costs,
    home: impl Fn(Page) -> Option<Node> + Sync,
) -> Result<Option<Total<Sums>>, SpillError> {
    let none = || -> Vec<Sums> {
        windows.lengths.iter().map(|&length| Sums { length, ..Sums::default() }).collect()
    };
    let part = |chunk: u32| {
        let mut sums = vec![Sums::default(); windows.len()];
        let pages = chunk * CHUNK..history.pages().min((chunk + 1) * CHUNK);
        for page in pages.map(Page) {
            add(&mut sums, &counts(history, windows, costs, page)?, home(page), costs);
        }
        Ok(sums)
    };
    let chunks = (0..history.pages().div_ceil(CHUNK)).into_par_iter();
    let parts: Vec<Vec<Sums>> = chunks.map(part).collect::<Result<_, SpillError>>()?;
    let each = parts.iter().fold(none(), |mut all, part| {
        all.iter_mut().zip(part).for_each(|(all, part)| *all = *all + *part);
        all
    });
    let seen = each.iter().filter(|sums| sums.references > 0.0).count();
    Ok((seen > 0).then(|| Total::of(&each, seen)))
}

/// References to a page by window that has any, and by node in it.
fn counts(
    history: &History,
    windows: &Windows,
    costs: &Costs,
    page: Page,
) -> Result<Vec<(usize, Vec<u64>)>, SpillError> {
    let mut counts: Vec<(usize, Vec<u64>)> = Vec::new();
    for run in history.runs(page)? {
        let shape = Shape::new(&run);
        let mut from = 0;
        while from < shape.len() {
            let time = shape.time(from);
            let to = match windows.next_cut(time) {
                Some(cut) if shape.last() >= cut => shape.position(cut),
                _ => shape.len(),
            };
            if let Some(window) = windows.at(time) {
                if counts.last().is_none_or(|&(last, _)| last != window) {
                    counts.push((window, vec![0; usize::from(costs.memories())]));
                }
                counts.last_mut().expect("one was pushed").1[shape.node().index()] += to - from;
            }
            from = to;
        }
    }
    Ok(counts)
}

/// Adds what one page costs in each window. `home`: where it is; the best node if that is not known.
fn add(sums: &mut [Sums], counts: &[(usize, Vec<u64>)], home: Option<Node>, costs: &Costs) {
    let place = |counts: &[u64], home: Node| {
        let nodes = counts.iter().zip(0..).filter(|&(&count, _)| count > 0);
        nodes.fold(Place::default(), |sum, (&count, node)| {
            let away = if Node(node) == home { 0 } else { count };
            let cost = count as f64 * costs.access(Node(node), home);
            sum + Place { cost, nonlocal: away as f64 }
        })
    };
    let cost = |home: Node, wanted: &dyn Fn(usize) -> bool| -> f64 {
        let wanted = counts.iter().filter(|(window, _)| wanted(*window));
        wanted.map(|(_, counts)| place(counts, home).cost).sum()
    };
    // Where the windows that are `wanted` cost least; `from` if none has it.
    let best = |from: Node, wanted: &dyn Fn(usize) -> bool| {
        let all = (0..costs.memories()).map(|node| (Node(node), cost(Node(node), wanted)));
        all.fold((from, cost(from, wanted)), |best, node| if node.1 < best.1 { node } else { best }).0
    };
    let all = best(home.unwrap_or(Node(0)), &|_| true);
    let home = home.unwrap_or(all);
    let halves = [best(home, &|window| window % 2 == 1), best(home, &|window| window % 2 == 0)];
    for (window, counts) in counts {
        let now = place(counts, home);
        sums[*window] = sums[*window]
            + Sums {
                length: 0.0,
                references: counts.iter().sum::<u64>() as f64,
                now: now.cost,
                nonlocal: now.nonlocal,
                best: place(counts, all),
                other: place(counts, halves[window % 2]),
            };
    }
}
