//! Properties that hold for every machine and trace.

use crate::cases::{any_case, options, trace, uniform};
use crate::evaluate::evaluate;
use crate::exhaustive::{cheapest, cheapest_from, Reference};
use homing_core::history::History;
use homing_core::ids::{Node, Page};
use homing_core::machine::{Costs, Global, Uniform};
use homing_core::optimal::{place, solve, Optimum, Options, PageAction, Solver};
use proptest::prelude::*;

pub fn history(trace: &[Reference], read_gap: u32) -> History {
    let references: Vec<_> = trace.iter().map(|&(node, write)| (node, 0, write)).collect();
    History::from_references(&references, read_gap)
}

pub fn optimum(trace: &[Reference], costs: &Costs, options: Options) -> (Optimum, Vec<PageAction>) {
    let mut actions = Vec::new();
    let optimum = place(&history(trace, costs.read_gap()), costs, options, &mut actions).unwrap();
    (optimum, actions)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    /// The heart of it: the optimum is that of the exhaustive search, its placement is valid and costs just that.
    #[test]
    fn equals_the_exhaustive_search((costs, trace) in any_case(12), options in options()) {
        let expected = cheapest(&trace, &costs, options);
        let (optimum, actions) = optimum(&trace, &costs, options);
        prop_assert_eq!(optimum.cost, expected, "{:?}", actions);
        let (cost, moves, replications) = evaluate(&trace, &actions, &costs);
        prop_assert_eq!(cost, optimum.cost, "{:?}", actions);
        prop_assert_eq!((moves, replications), (optimum.counts.moves, optimum.counts.replications));
        let counts = optimum.counts;
        prop_assert_eq!(counts.references(), trace.len() as u64);
        prop_assert_eq!(counts.moves + counts.replications, counts.copies + counts.global_copies);
        if let Costs::Uniform(uniform) = &costs {
            prop_assert_eq!(counts.cost(uniform), optimum.cost);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// Longer traces, on which more states are left behind before they are touched again.
    #[test]
    fn equals_the_exhaustive_search_on_longer_traces((costs, trace) in any_case(60), options in options()) {
        let expected = cheapest(&trace, &costs, options);
        let (optimum, actions) = optimum(&trace, &costs, options);
        prop_assert_eq!(optimum.cost, expected, "{:?}", actions);
        prop_assert_eq!(evaluate(&trace, &actions, &costs).0, optimum.cost);
    }

    /// From any given node, whatever the options say of the start.
    #[test]
    fn equals_the_exhaustive_search_from_a_given_node(
        (costs, trace) in any_case(12), options in options(), at in any::<prop::sample::Index>(),
    ) {
        let nodes = costs.memories() - u16::from(costs.global_node().is_some());
        let at = Some(Node(at.index(usize::from(nodes)) as u16));
        let mut actions = Vec::new();
        let mut solver = Solver::new(&costs, options);
        let history = history(&trace, costs.read_gap());
        let page = solver.page_from(Page(0), at, history.runs(Page(0)).unwrap(), &mut actions).unwrap();
        prop_assert_eq!(Some(page.first_home), at);
        prop_assert_eq!(page.cost, cheapest_from(at, &trace, &costs, options), "{:?}", actions);
        prop_assert_eq!(evaluate(&trace, &actions, &costs).0, page.cost);
    }

    /// Cutting page runs at shorter read gaps than necessary changes nothing.
    #[test]
    fn read_gaps_may_be_shorter((costs, trace) in any_case(30), options in options(), gap in 0u32..6) {
        let gap = gap.min(costs.read_gap());
        let cut = solve(&history(&trace, gap), &costs, options).unwrap();
        prop_assert_eq!(cut.cost, solve(&history(&trace, costs.read_gap()), &costs, options).unwrap().cost);
    }

    /// Theorem and corollary of section 2.5: scaling r - 1, g - 1, R and G by s scales MCPR - 1 by s, and the optimal
    /// placement stays optimal.
    #[test]
    fn scaling_theorem(machine in uniform(true), trace in trace(4, 40), options in options(), s in 1u32..=16) {
        let s = f64::from(s) / 4.0;
        let global = machine.global.unwrap();
        let scaled = Costs::Uniform(Uniform {
            nodes: 4,
            remote: s * (machine.remote - 1.0) + 1.0,
            page_move: s * machine.page_move,
            global: Some(Global { access: s * (global.access - 1.0) + 1.0, page_move: s * global.page_move }),
        });
        let machine = Costs::Uniform(Uniform { nodes: 4, ..machine });
        let (optimal, actions) = optimum(&trace, &machine, options);
        let gap = machine.read_gap().min(scaled.read_gap());
        let scaled_optimal = solve(&history(&trace, gap), &scaled, options).unwrap();
        let expected = 1.0 + s * (optimal.mcpr() - 1.0);
        prop_assert!((scaled_optimal.mcpr() - expected).abs() < 1e-12 * expected);
        let (cost, ..) = evaluate(&trace, &actions, &scaled);
        prop_assert!((cost - scaled_optimal.cost).abs() < 1e-12 * cost);
    }

    /// More freedom never costs more; one copy at the first reference's node is the least free.
    #[test]
    fn freedom_never_costs((costs, trace) in any_case(30)) {
        let cost = |replication, start| {
            optimum(&trace, &costs, Options { replication, start }).0.cost
        };
        use homing_core::optimal::Start::{AnySet, FirstTouch, OneCopy};
        prop_assert!(cost(true, OneCopy) <= cost(false, OneCopy));
        prop_assert!(cost(true, AnySet) <= cost(true, OneCopy));
        prop_assert!(cost(true, OneCopy) <= cost(true, FirstTouch));
        prop_assert!(cost(false, OneCopy) <= cost(false, FirstTouch));
    }
}
