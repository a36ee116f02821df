//! The obvious model: dynamic programming over all location sets P_t of one page, literally equations (1) and (2).
//! Exponential in the number of memories, so for small traces only.

use homing_core::ids::Node;
use homing_core::machine::Costs;
use homing_core::optimal::{Options, Start};

/// A reference to the page: node, is a write.
pub type Reference = (u16, bool);

/// The cheapest cost of any valid placement.
pub fn cheapest(references: &[Reference], costs: &Costs, options: Options) -> f64 {
    let first_touch = (options.start == Start::FirstTouch).then_some(Node(references[0].0));
    cheapest_from(first_touch, references, costs, options)
}

/// The cheapest cost of any valid placement that begins at a node, if one is given.
pub fn cheapest_from(at: Option<Node>, references: &[Reference], costs: &Costs, options: Options) -> f64 {
    match costs {
        Costs::Uniform(_) => by_sets(at, references, costs, options),
        Costs::General(_) => by_memories(at, references, costs),
    }
}

fn by_sets(at: Option<Node>, references: &[Reference], costs: &Costs, options: Options) -> f64 {
    let memories = costs.memories();
    let sets: Vec<u32> =
        (1..1u32 << memories).filter(|set| options.replication || set.count_ones() == 1).collect();
    let any_set = at.is_none() && options.start == Start::AnySet;
    let starts = |set: u32| match at {
        Some(node) => set == 1 << node.0,
        None => any_set || set.count_ones() == 1,
    };
    let free = |ok: bool| if ok { 0.0 } else { f64::INFINITY };
    let mut before: Vec<f64> = sets.iter().map(|&set| free(starts(set))).collect();
    for (time, &(node, write)) in references.iter().enumerate() {
        let valid = |set: u32| !write || set.count_ones() == 1;
        let now = |&set: &u32| {
            if !valid(set) {
                return f64::INFINITY;
            }
            let free_choice = time == 0 && any_set;
            let from = |(&old, cost): (&u32, &f64)| {
                cost + if free_choice { free(old == set) } else { movement(old, set, costs) }
            };
            sets.iter().zip(&before).map(from).fold(f64::INFINITY, f64::min) + reference(node, set, costs)
        };
        before = sets.iter().map(now).collect();
    }
    before.into_iter().fold(f64::INFINITY, f64::min)
}

/// Equation (1), one term: the cheapest copy serves.
pub fn reference(node: u16, set: u32, costs: &Costs) -> f64 {
    let copies = (0..costs.memories()).filter(|m| set >> m & 1 == 1);
    copies.map(|m| costs.access(Node(node), Node(m))).fold(f64::INFINITY, f64::min)
}

/// Equation (2), one term.
pub fn movement(old: u32, new: u32, costs: &Costs) -> f64 {
    let Costs::Uniform(uniform) = costs else { panic!("equation (2) is about uniform machines") };
    let added = f64::from((new & !old).count_ones());
    match costs.global_node() {
        Some(global) if (old | new) >> global.0 & 1 == 1 => added * uniform.global.unwrap().page_move,
        _ => added * uniform.page_move,
    }
}

/// General machines, one copy: before every reference the page may go anywhere by any chain of copies.
fn by_memories(start: Option<Node>, references: &[Reference], costs: &Costs) -> f64 {
    let memories = costs.memories();
    let mut cost: Vec<f64> = (0..memories)
        .map(|m| if start.is_some_and(|start| start.0 != m) { f64::INFINITY } else { 0.0 })
        .collect();
    for &(node, _) in references {
        for _ in 0..memories {
            for from in 0..memories {
                for to in 0..memories {
                    let moved = cost[usize::from(from)] + costs.copy(Node(from), Node(to));
                    cost[usize::from(to)] = cost[usize::from(to)].min(moved);
                }
            }
        }
        for at in 0..memories {
            cost[usize::from(at)] += costs.access(Node(node), Node(at));
        }
    }
    cost.into_iter().fold(f64::INFINITY, f64::min)
}
