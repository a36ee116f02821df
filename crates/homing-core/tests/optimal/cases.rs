//! Random machines and traces, small enough for the exhaustive search, with costs in quarters so that sums are exact.

use crate::exhaustive::Reference;
use homing_core::machine::{Costs, General, Global, Uniform};
use homing_core::optimal::{Options, Start};
use proptest::prelude::*;

/// A uniform machine that obeys every constraint of section 2.1, its copies cheap enough to be worth it in small
/// traces.
pub fn uniform(with_global: bool) -> impl Strategy<Value = Uniform> {
    (2u16..=4, 1u32..=24, 1u32..=24, 1u32..=40, 0u32..=8).prop_map(move |(nodes, r, g, copy, share)| {
        let quarters = |n: u32| f64::from(n) / 4.0;
        let remote = 1.0 + quarters(r);
        if !with_global {
            return Uniform { nodes, remote, page_move: 2.0 * remote + quarters(copy), global: None };
        }
        let access = 1.0 + quarters(g.min(r));
        let global_move = (2.0 * access + quarters(copy)).max(remote + 0.25);
        let least = global_move.max(2.0 * remote + 0.25);
        let page_move = least + (2.0 * global_move - least) * quarters(share) / 2.0;
        Uniform { nodes, remote, page_move, global: Some(Global { access, page_move: global_move }) }
    })
}

/// A machine with unequal distances, triangle inequality or not.
pub fn general() -> impl Strategy<Value = General> {
    (2u16..=4).prop_flat_map(|nodes| {
        let cells = usize::from(nodes).pow(2);
        let access = prop::collection::vec(1u32..=20, cells);
        let copy = prop::collection::vec(1u32..=40, cells);
        (access, copy).prop_map(move |(access, copy)| {
            let quarters = |v: Vec<u32>| -> Vec<f64> { v.into_iter().map(|n| f64::from(n) / 4.0).collect() };
            General { nodes, access: quarters(access), copy: quarters(copy) }
        })
    })
}

/// Up to `length` references by nodes below `nodes`, in stretches so that copies can pay.
pub fn trace(nodes: u16, length: usize) -> impl Strategy<Value = Vec<Reference>> {
    let stretch = (0..nodes, prop::bool::weighted(0.35), 1usize..=4);
    prop::collection::vec(stretch, 1..=length).prop_map(move |stretches| {
        let mut trace: Vec<Reference> = stretches
            .into_iter()
            .flat_map(|(node, write, n)| std::iter::repeat_n((node, write), n))
            .collect();
        trace.truncate(length);
        trace
    })
}

/// A machine of every kind with a trace for it.
pub fn any_case(length: usize) -> impl Strategy<Value = (Costs, Vec<Reference>)> {
    let machine = prop_oneof![
        2 => uniform(false).prop_map(Costs::Uniform),
        3 => uniform(true).prop_map(Costs::Uniform),
        1 => general().prop_map(Costs::General),
    ];
    machine.prop_flat_map(move |costs| {
        let nodes = match &costs {
            Costs::Uniform(u) => u.nodes,
            Costs::General(g) => g.nodes,
        };
        trace(nodes, length).prop_map(move |trace| (costs.clone(), trace))
    })
}

/// Every option.
pub fn options() -> impl Strategy<Value = Options> {
    let start = prop_oneof![Just(Start::OneCopy), Just(Start::AnySet), Just(Start::FirstTouch)];
    (any::<bool>(), start).prop_map(|(replication, start)| Options { replication, start })
}
