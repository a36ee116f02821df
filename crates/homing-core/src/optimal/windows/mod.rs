//! The bound of a whole program, estimated from windows of it (`homing record --windows`): from page histories that end
//! and begin anew, with nothing known in between.
//!
//! Window k stands for a stretch of the program that is `weight` times as long. Two estimates enclose the optimum of
//! the program: the sum of the windows' own optima, which may begin anywhere for free, so that no placement is cheaper
//! in them, and the sum of what a placement costs that could have been carried out on the whole program ([`homes`]),
//! so that no optimum is dearer. How far chance has brought them from their means is told by the bootstrap
//! ([`crate::windows`]). `docs/optimal.md`, "From windows", has the argument.

mod homes;

use super::{solve, OptimalError, Options, Solver, Start};
use crate::history::History;
use crate::ids::{Node, Page};
use crate::machine::Costs;
use crate::windows::{Ends, Figure, Sums, Total};
use homes::{PageCost, Seen};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Pages whose costs are added up at once: in this order for any number of threads.
const CHUNK: usize = 256;

/// A window of a program.
#[derive(Debug)]
pub struct Window {
    /// Its page runs.
    pub history: History,
    /// How many times as long as the window what it stands for is; at least 1.
    pub weight: f64,
    /// How long it is itself, in what such lengths are counted in.
    pub length: f64,
}

/// The bound of the program that windows were cut out of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Windows that have references.
    pub windows: usize,
    /// References in them.
    pub references_seen: u64,
    /// References of the whole program, estimated.
    pub references: f64,
    /// Cost of a reference.
    pub mcpr: Figure,
    /// Cost of the whole program in local word references.
    pub cost: Figure,
}

/// Estimates the bound of a program from its windows, in their order in Time, each laid out with at most
/// `costs.read_gap()`. `options` says what the optimum of the whole program may do. Pages are those at the same virtual
/// address. None without any reference. The result is the same for any number of threads.
pub fn estimate(
    windows: &[Window],
    costs: &Costs,
    options: Options,
) -> Result<Option<Estimate>, OptimalError> {
    let references_seen: u64 = windows.iter().map(|window| window.history.references()).sum();
    if references_seen == 0 {
        return Ok(None);
    }
    let high = high(windows, costs, options)?;
    let sums = |(window, high): (&Window, f64)| {
        let low = window.weight * low(&window.history, costs, options)?;
        let references = window.weight * window.history.references() as f64;
        let (cost, length) = (Ends { low, high }, window.weight * window.length);
        Ok(Sums { cost, references, length, ..Sums::default() })
    };
    let each: Vec<Sums> = windows.iter().zip(high).map(sums).collect::<Result<_, OptimalError>>()?;
    let seen = windows.iter().filter(|window| window.history.references() > 0).count();
    let total = Total::of(&each, seen);
    Ok(Some(Estimate {
        windows: seen,
        references_seen,
        references: total.sums.references,
        mcpr: total.mcpr(),
        cost: total.cost(),
    }))
}

/// What no placement of the whole program can be below in this window: pages may begin anywhere.
fn low(history: &History, costs: &Costs, options: Options) -> Result<f64, OptimalError> {
    let start = if options.replication { Start::AnySet } else { Start::OneCopy };
    Ok(solve(history, costs, Options { start, ..options })?.cost)
}

/// What the placement that could have been carried out costs, by window and with its weight.
fn high(windows: &[Window], costs: &Costs, options: Options) -> Result<Vec<f64>, OptimalError> {
    let pages = pages(windows);
    let homes = homes::neighbours(&pages)?;
    let weights: Vec<f64> = windows.iter().map(|window| window.weight).collect();
    let part = |(pages, homes): (&[Vec<Seen<'_>>], &[Option<Node>])| {
        let solver = Solver::new(costs, Options { start: Start::OneCopy, ..options });
        let mut page_cost = PageCost::new(costs, options, &weights, solver);
        let mut part = Part::new(windows.len());
        for (page, &home) in pages.iter().zip(homes) {
            if let [seen] = &page[..] {
                let (anywhere, beside) = page_cost.of_lone(seen, home)?;
                part.anywhere[seen.window] += anywhere;
                part.beside[seen.window] += beside;
                continue;
            }
            for (seen, cost) in page.iter().zip(page_cost.of(page)?) {
                part.known[seen.window] += cost;
            }
        }
        Ok::<_, OptimalError>(part)
    };
    let parts: Vec<Part> =
        pages.par_chunks(CHUNK).zip(homes.par_chunks(CHUNK)).map(part).collect::<Result<_, _>>()?;
    let Part { known, anywhere, beside } = parts.iter().fold(Part::new(windows.len()), Part::and);
    let lone = if sum(&beside) < sum(&anywhere) { beside } else { anywhere };
    Ok(known.iter().zip(lone).map(|(known, lone)| known + lone).collect())
}

/// What some pages cost, by window.
struct Part {
    /// Those that several windows have.
    known: Vec<f64>,
    /// Those that one window has: from any home, in the mean.
    anywhere: Vec<f64>,
    /// The same pages, from the home of their neighbour.
    beside: Vec<f64>,
}

impl Part {
    fn new(windows: usize) -> Part {
        let none = || vec![0.0; windows];
        Part { known: none(), anywhere: none(), beside: none() }
    }

    fn and(mut self, more: &Part) -> Part {
        for (sums, more) in [
            (&mut self.known, &more.known),
            (&mut self.anywhere, &more.anywhere),
            (&mut self.beside, &more.beside),
        ] {
            sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        self
    }
}

fn sum(values: &[f64]) -> f64 {
    values.iter().sum()
}

/// Every page with the windows that have it. Where a window has several pages at one address, one after the other, the
/// first is the one of the first in other windows, and so on.
fn pages(windows: &[Window]) -> Vec<Vec<Seen<'_>>> {
    let mut pages: BTreeMap<(u64, u32), Vec<Seen<'_>>> = BTreeMap::new();
    for (number, Window { history, .. }) in windows.iter().enumerate() {
        let mut births: HashMap<u64, u32> = HashMap::new();
        for page in (0..history.pages()).map(Page) {
            let birth = births.entry(history.address(page)).or_insert(0);
            let seen = Seen { window: number, history, page };
            pages.entry((history.address(page), *birth)).or_default().push(seen);
            *birth += 1;
        }
    }
    pages.into_values().collect()
}
