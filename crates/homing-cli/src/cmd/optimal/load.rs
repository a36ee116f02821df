//! What no placement is below in modelled time, and what some placements take, for people.

use crate::tables;
use homing_core::optimal::load::{LoadBound, Placed};
use homing_pipeline::load::Load;

/// Placements this close to the bound, as a share of it, leave nothing worth having.
const CLOSE: f64 = 0.02;

/// The bound, what to do about it, and a line for each placement.
pub(super) fn text(load: &Load) -> String {
    let bound = &load.bound;
    let mut table = tables::table(&[
        "placement",
        "modelled time",
        "above the bound",
        "of which in queues",
        "non-local",
        "moves",
        "busiest memory",
        "busiest link",
    ]);
    for placed in &bound.placements {
        table.add_row([
            placed.placement.to_owned(),
            time(placed.ns),
            format!("{:.1} %", above(bound, placed)),
            time(placed.contention_ns),
            format!("{:.1} %", placed.nonlocal_percent),
            placed.moves.to_string(),
            format!("{:.0} %", 100.0 * placed.memory_utilisation),
            format!("{:.0} %", 100.0 * placed.link_utilisation),
        ]);
    }
    format!(
        "No placement, with or without moves, takes less than {} of modelled time ({} if memories and links had no \
         load; moves take the time of: {}).\n{}\n\n{table}\n\nModelled time as though the load of each placement were \
         even over the run (docs/optimal.md, \"With load\")",
        time(bound.bound_ns),
        time(bound.without_load_ns),
        load.mover,
        advice(bound),
    )
}

/// What the reader can do.
fn advice(bound: &LoadBound) -> String {
    let of = |name: &str| bound.placements.iter().find(|placed| placed.placement == name);
    let (Some(best), Some(first), Some(cheapest)) =
        (bound.placements.first(), of("first touch"), of("cheapest without load"))
    else {
        return String::new();
    };
    let left = format!(
        "at most {:.1} % of that could be gained beyond it",
        100.0 * (1.0 - bound.bound_ns / best.ns)
    );
    if first.ns <= best.ns.max(bound.bound_ns) * (1.0 + CLOSE) {
        return format!("First touch takes {}: placement has little to gain.", time(first.ns));
    }
    if cheapest.ns <= best.ns * (1.0 + CLOSE) {
        return format!(
            "Load asks for nothing that distances do not: the placement of least cost (--placement) takes {}; {left}.",
            time(cheapest.ns)
        );
    }
    let how = match best.placement {
        "striped" => "striping all pages over the memories (`numactl --interleave=all`)",
        _ => "spreading the pages that no node has for itself over the memories, others at their users,",
    };
    format!(
        "The placement of least cost, which knows distances alone, takes {}; {how} takes {}; {left}.",
        time(cheapest.ns),
        time(best.ns)
    )
}

fn above(bound: &LoadBound, placed: &Placed) -> f64 {
    100.0 * (placed.ns / bound.bound_ns.max(1e-9) - 1.0)
}

/// A time in the unit that suits it.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e10 => format!("{:.1} s", ns / 1e9),
        ns if ns >= 1e7 => format!("{:.1} ms", ns / 1e6),
        ns if ns >= 1e4 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}
