//! The exact cost curves (section 4.3.1): concave, piecewise linear, with the counts as slopes.

use crate::cases::{options, trace, uniform};
use homing_core::history::History;
use homing_core::machine::{Costs, Global, Uniform};
use homing_core::optimal::curve::{curve, curve_within, CurveError, Parameter, Range, Segment};
use homing_core::optimal::{solve, Options};
use proptest::prelude::*;

const PARAMETERS: [Parameter; 4] =
    [Parameter::PageMove, Parameter::Remote, Parameter::GlobalPageMove, Parameter::Global];

fn check_shape(segments: &[Segment], range: Range) {
    assert_eq!((segments[0].from, segments[segments.len() - 1].to), (range.low, range.high));
    for pair in segments.windows(2) {
        assert!(pair[0].from < pair[0].to && pair[0].to == pair[1].from, "contiguous: {pair:?}");
        assert!(pair[0].slope > pair[1].slope, "concave: {pair:?}");
        let (left, right) = (pair[0].cost(pair[0].to), pair[1].cost(pair[0].to));
        assert!((left - right).abs() < 1e-9 * left, "continuous: {pair:?}");
    }
}

/// Checks a curve against optima at ends, break-points, middles and 20 further values.
fn check_values(references: &[(u16, u64, bool)], machine: &Uniform, range: Range, options: Options) {
    let history = History::from_references(references, range.read_gap(machine));
    let segments = curve(&history, machine, range, options).unwrap();
    check_shape(&segments, range);
    let cost = |value| {
        let costs = Costs::Uniform(range.parameter.at(machine, value));
        solve(&history, &costs, options).unwrap()
    };
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    for segment in &segments {
        let middle = (segment.from + segment.to) / 2.0;
        for value in [segment.from, middle, segment.to] {
            assert!(near(segment.cost(value), cost(value).cost), "{segment:?} at {value}");
        }
        let counts = segment.counts;
        assert_eq!(counts.references(), references.len() as u64);
        let machine = range.parameter.at(machine, middle);
        assert!(near(counts.cost(&machine), segment.cost(middle)), "counts price to the line");
    }
    let rough = curve_within(&history, machine, range, options, 0.01).unwrap();
    check_shape(&rough, range);
    // With several pages the rough break-points of one may lie where exact ones of two coincide.
    assert!(history.pages() > 1 || rough.len() <= segments.len());
    for segment in &rough {
        let (given, optimal) = (segment.cost(segment.to), cost(segment.to).cost);
        assert!(given >= optimal * (1.0 - 1e-9) && given <= optimal * 1.0102, "{segment:?}: {optimal}");
    }
    for i in 0..20 {
        let value = range.low + (range.high - range.low) * f64::from(i) / 19.0;
        let segment = segments.iter().find(|s| value <= s.to).unwrap_or(&segments[segments.len() - 1]);
        assert!(near(segment.cost(value), cost(value).cost), "{segment:?} at {value}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn curves_pass_through_the_optimum_everywhere(
        machine in uniform(true),
        pages in prop::collection::vec(trace(4, 40), 1..4),
        options in options(),
        which in 0usize..4,
        keep_global: bool,
    ) {
        let machine = Uniform { nodes: 4, global: machine.global.filter(|_| keep_global), ..machine };
        let parameter = PARAMETERS[if keep_global { which } else { which % 2 }];
        let references: Vec<_> = (0u64..)
            .zip(&pages)
            .flat_map(|(page, trace)| trace.iter().map(move |&(node, write)| (node, page, write)))
            .collect();
        let asked = Range { parameter, low: 0.0, high: 200.0 };
        let (range, machine) = asked.clip(&Costs::Uniform(machine)).unwrap();
        check_values(&references, &machine, range, options);
    }
}

/// Two pages that move once each, where 30 and 80 references pay for it: two break-points, known by hand.
#[test]
fn break_points_by_hand() {
    let page = |page: u64, n: usize| [vec![(0, page, true); 1000], vec![(1, page, true); n]].concat();
    let references = [page(7, 30), page(9, 80)].concat();
    let machine = Uniform { nodes: 2, remote: 5.0, page_move: 100.0, global: None };
    let range = Range { parameter: Parameter::PageMove, low: 10.0, high: 1000.0 };
    let history = History::from_references(&references, range.read_gap(&machine));
    let segments = curve(&history, &machine, range, Options::default()).unwrap();
    let shape: Vec<_> = segments.iter().map(|s| (s.from, s.to, s.slope, s.intercept)).collect();
    let all_local = 2110.0;
    let expected = [
        (10.0, 120.0, 2, all_local),
        (120.0, 320.0, 1, all_local + 120.0),
        (320.0, 1000.0, 0, all_local + 440.0),
    ];
    assert_eq!(shape, expected);
}

#[test]
fn ranges_are_parsed_and_clipped_to_the_models_constraints() {
    let range: Range = "R=200..20000".parse().unwrap();
    assert_eq!(range, Range { parameter: Parameter::PageMove, low: 200.0, high: 20000.0 });
    let global = Some(Global { access: 2.0, page_move: 2248.0 });
    let ace = Costs::Uniform(Uniform { nodes: 7, remote: 5.0, page_move: 4496.0, global });
    let clipped = |text: &str| {
        let (range, _) = text.parse::<Range>().unwrap().clip(&ace).unwrap();
        (range.low, range.high)
    };
    assert_eq!(clipped("R=200..20000"), (2248.0, 4496.0));
    assert_eq!(clipped("G=0..1e9"), (2248.0, 4496.0));
    assert_eq!(clipped("r=0..10"), (2.0, 10.0));
    assert_eq!(clipped("g=0..10"), (1.0, 5.0));
    let fails = |text: &str| text.parse::<Range>().and_then(|r| r.clip(&ace)).unwrap_err().to_string();
    assert!(fails("R=1..2").contains("the model allows 2248 to 4496"));
    assert!(fails("r=9..8").contains("from 9 to 8"));
    for bad in ["R", "R=1", "R=1..x", "Q=1..2", "R=nan..3"] {
        assert!(matches!(bad.parse::<Range>(), Err(CurveError::Syntax { .. })), "{bad}");
    }
    let plain = Costs::Uniform(Uniform { nodes: 2, remote: 5.0, page_move: 20.0, global: None });
    let no_global = "g=1..2".parse::<Range>().unwrap().clip(&plain).unwrap_err();
    assert!(matches!(no_global, CurveError::NoGlobal { parameter: Parameter::Global }));
}
