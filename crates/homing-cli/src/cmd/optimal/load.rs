//! What no placement is below in modelled time, and what some placements take, for people.

use crate::tables;
use homing_core::optimal::load::{LoadBound, Placed, CHEAPEST, FIRST_TOUCH, STRIPED};
use homing_pipeline::load::Load;

/// Placements this close to the fastest are as good.
const CLOSE: f64 = 0.02;
/// Bounds this close to each other are the same to a reader.
const SAME: f64 = 0.002;

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
    let least = time(bound.bound_ns);
    let without = match bound.bound_ns > (1.0 + SAME) * bound.without_load_ns {
        true => format!("{} if memories and links had no load", time(bound.without_load_ns)),
        false => "load makes no difference to that".to_owned(),
    };
    format!(
        "No placement, with or without moves, takes less than {least} of modelled time ({without}).\n{}\n\n{table}\n\n\
         Times as though the load of each placement were even over the run; page moves take the time of: {} \
         (docs/optimal.md, \"With load\")",
        advice(bound),
        load.mover,
    )
}

/// What the reader can do.
fn advice(bound: &LoadBound) -> String {
    let of = |name: &str| bound.placements.iter().find(|placed| placed.placement == name);
    let (Some(best), Some(first), Some(cheapest)) = (bound.placements.first(), of(FIRST_TOUCH), of(CHEAPEST))
    else {
        return String::new();
    };
    let left = 100.0 * (1.0 - bound.bound_ns / best.ns.max(1e-9));
    let (best_time, close) = (time(best.ns), best.ns * (1.0 + CLOSE));
    let how = match best.placement {
        _ if first.ns <= close => {
            return format!(
            "First touch takes {}, and nothing below is more than {:.0} % faster; at most {:.1} % could be.",
            time(first.ns),
            100.0 * CLOSE,
            100.0 * (1.0 - bound.bound_ns / first.ns.max(1e-9))
        )
        }
        _ if cheapest.ns <= close => {
            return format!(
                "First touch takes {}, the cheapest placement {}: spreading pages gains no more. \
                 At most {left:.1} % less is possible.",
                time(first.ns),
                time(cheapest.ns)
            )
        }
        STRIPED => "with all pages striped over the memories (`numactl --interleave=all`)",
        _ => "with pages that many nodes use spread over the memories",
    };
    format!(
        "First touch takes {}, the cheapest placement (which knows distances alone) {}; {how} it is {best_time}, and \
         at most {left:.1} % less is possible.",
        time(first.ns),
        time(cheapest.ns)
    )
}

fn above(bound: &LoadBound, placed: &Placed) -> f64 {
    100.0 * (placed.ns / bound.bound_ns.max(1e-9) - 1.0)
}

/// A time in the unit that suits it.
fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 1e6 => format!("{:.2} ms", ns / 1e6),
        ns if ns >= 1e3 => format!("{:.2} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}
