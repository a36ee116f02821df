use super::*;
use crate::ids::Node;
use crate::machine::{General, Global, Uniform};
use crate::policy::table::{find, POLICIES};
use proptest::prelude::*;

fn machines() -> Vec<Costs> {
    let uniform = |global| Costs::Uniform(Uniform { nodes: 3, remote: 5.0, page_move: 60.0, global });
    let global = Global { access: 2.0, page_move: 40.0 };
    let access = vec![1.0, 2.0, 3.0, 2.0, 1.0, 2.5, 3.0, 2.5, 1.5];
    let copy = vec![0.0, 30.0, 40.0, 30.0, 0.0, 35.0, 40.0, 35.0, 0.0];
    vec![uniform(None), uniform(Some(global)), Costs::General(General { nodes: 3, access, copy })]
}

fn history(visits: &[(u16, u64, bool, usize)], costs: &Costs) -> History {
    let expand = |&(node, page, write, count): &(u16, u64, bool, usize)| {
        std::iter::repeat_n((node, page, write), count)
    };
    let references: Vec<_> = visits.iter().flat_map(expand).collect();
    History::from_references(&references, costs.read_gap())
}

fn all() -> Vec<&'static Entry> {
    POLICIES.iter().filter(|entry| !matches!(entry.begin, Begin::File)).collect()
}

fn subject<'a>(
    history: &'a History,
    costs: &'a Costs,
    replication: bool,
    settings: &'a Settings,
) -> Subject<'a> {
    Subject {
        history,
        costs,
        machine: "test",
        replication,
        placement: None,
        bound_start: BoundStart::OneCopy,
        information: Information::PERFECT,
        timeline: &crate::timeline::NO_MARKS,
        windows: &crate::windows::NO_WINDOWS,
        settings,
        in_time: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_policy_is_below_the_bound_and_parts_add_up(
        visits in prop::collection::vec((0u16..3, 0u64..4, any::<bool>(), 1usize..60), 1..60),
        replication in any::<bool>(),
        bound_start in prop_oneof![Just(BoundStart::OneCopy), Just(BoundStart::Same)],
        placement in prop_oneof![
            Just(None), Just(Some(Placement::SingleNode(Node(1)))), Just(Some(Placement::RoundRobin))
        ],
    ) {
        for costs in machines() {
            let (history, settings) = (history(&visits, &costs), Settings::default());
            let subject = subject(&history, &costs, replication, &settings);
            let subject = Subject { bound_start, placement: placement.as_ref(), ..subject };
            let compared = compare(&subject, &all(), &[], &|| 0.0).unwrap();
            for row in &compared.rows {
                let tolerance = 1e-9 * row.cost;
                prop_assert!(row.cost >= row.optimal_cost - tolerance, "{}", row.policy);
                prop_assert_eq!(row.local + row.remote + row.global, row.references, "{}", &row.policy);
            }
            let of = |part: fn(&ClassRow) -> f64| compared.sharing.iter().map(part).sum::<f64>();
            let cost = |name: &str| compared.rows.iter().find(|row| row.policy == name).unwrap().cost;
            prop_assert!((of(|class| class.optimal_cost) - cost("optimal")).abs() < 1e-6);
            prop_assert!((of(|class| class.first_touch_cost) - cost("first-touch")).abs() < 1e-6);
            prop_assert!((of(|class| class.homing_cost.unwrap()) - cost("homing")).abs() < 1e-6);
        }
    }
}

#[test]
fn a_page_that_one_node_fills_and_another_uses() {
    let costs = machines().remove(0);
    let history = history(&[(0, 1, true, 10), (1, 1, true, 1000), (2, 2, true, 100)], &costs);
    let settings = Settings::default();
    let compared = compare(&subject(&history, &costs, false, &settings), &all(), &[], &|| 0.0).unwrap();
    let map = &compared.page_map;
    assert_eq!((&map.initial, &map.most_frequent, &map.optimal), (&vec![0, 2], &vec![1, 2], &vec![1, 2]));
    assert_eq!((map.policy.as_str(), &map.last), ("homing", &vec![1, 2]));
    let row = |name: &str| compared.rows.iter().find(|row| row.policy == name).unwrap();
    // Beginning at node 1 costs 10 remote references; beginning at node 0 and moving would cost 60.
    assert_eq!(row("optimal").cost, 1110.0 + 10.0 * 4.0);
    assert_eq!(row("first-touch").cost, 1110.0 + 1000.0 * 4.0);
    assert_eq!(row("optimal").recovered_percent, Some(100.0));
    assert_eq!(row("first-touch").recovered_percent, Some(0.0));
    let text = summary(&compared.rows);
    assert!(text.starts_with("90 % of references are remote under first-touch"), "{text}");
    assert!(text.contains("`homing` reaches"), "{text}");
}

#[test]
fn a_static_placement_that_beats_homing_is_recommended() {
    let row = |policy: &str, cost: f64| Row {
        policy: policy.into(),
        machine: String::new(),
        information: String::new(),
        references: 1000,
        cost,
        mcpr: cost / 1000.0,
        local: 1000,
        remote: 0,
        global: 0,
        moves: 0,
        replications: 0,
        nonlocal_percent: 0.0,
        optimal_cost: 1000.0,
        gap_percent: 0.0,
        recovered_percent: None,
        pages: 1,
        seconds: 0.0,
        copy_cost: 0.0,
        program: None,
        modelled_ms: None,
        own_mover_ms: None,
        moves_per_page: 0.0,
    };
    let said = |costs: &[(&str, f64)]| {
        let rows: Vec<Row> = costs.iter().map(|&(policy, cost)| row(policy, cost)).collect();
        summary(&rows)
    };
    let begin = [("optimal", 1000.0), ("homing", 1500.0)];
    let with = |more: &[(&str, f64)]| said(&[&begin[..], more].concat());
    let spread = with(&[("first-touch", 2000.0), ("round-robin", 1200.0), ("best-static", 1100.0)]);
    assert!(
        spread.ends_with(
            " `homing` loses to the static placement `round-robin` (1.200), which is recommended: run the program \
             under `numactl --interleave=all`."
        ),
        "{spread}"
    );
    let own = with(&[("first-touch", 2000.0), ("round-robin", 1500.0), ("best-static", 1100.0)]);
    assert!(
        own.contains("`best-static` (1.100), which is recommended: let the threads that use data"),
        "{own}"
    );
    assert!(with(&[("first-touch", 1400.0)]).contains("leave the pages where they begin"));
    assert!(with(&[("file", 1400.0)]).contains("as the file says"));
    // A move policy that is better, and what differs by rounding, are no reason to say anything.
    let quiet = with(&[("linux", 1100.0), ("first-touch", 1500.0), ("best-static", 1499.5)]);
    assert!(!quiet.contains("loses"), "{quiet}");
    assert!(!said(&[("optimal", 1000.0), ("first-touch", 1200.0)]).contains("loses"));
}

#[test]
fn a_bound_from_where_policies_begin_pays_for_leaving() {
    let costs = machines().remove(0);
    let history = history(&[(0, 1, true, 10), (1, 1, true, 1000), (2, 2, true, 100)], &costs);
    let settings = Settings::default();
    let subject = Subject { bound_start: BoundStart::Same, ..subject(&history, &costs, false, &settings) };
    let compared = compare(&subject, &all(), &[], &|| 0.0).unwrap();
    let row = |name: &str| compared.rows.iter().find(|row| row.policy == name).unwrap();
    // From the first touch: 10 local references, one move.
    assert_eq!(row("optimal").cost, 1110.0 + 60.0);
    assert_eq!(row("first-touch").optimal_cost, 1170.0);
    // The best static placement begins at nodes 1 and 2, and nothing is better from there.
    assert_eq!((row("best-static").optimal_cost, row("best-static").gap_percent), (1150.0, 0.0));
    // From node 0: the second page pays for leaving too.
    let single = Placement::SingleNode(Node(0));
    let subject = Subject { placement: Some(&single), ..subject };
    let compared = compare(&subject, &all(), &[], &|| 0.0).unwrap();
    assert_eq!(compared.rows[0].cost, 1110.0 + 2.0 * 60.0);
    assert!(compared.notes.iter().any(|note| note.contains("begins where it begins")));
}

#[test]
fn sweeps_touch_the_machine_itself_and_rise_with_the_price() {
    for costs in machines() {
        let visits: Vec<_> = (0..200u64).map(|i| ((i % 3) as u16, i % 5, i % 2 == 0, 30)).collect();
        let (history, settings) =
            (history(&visits, &sweep::scale_page_moves(&costs, 0.5)), Settings::default());
        let here = sweep::page_move(&costs);
        let mut series = Vec::new();
        for x in sweep::geometric(0.5 * here, 2.0 * here, 5) {
            let costs = sweep::scale_page_moves(&costs, x / here);
            let subject = subject(&history, &costs, true, &settings);
            sweep::add_point(&mut series, x, &subject, &[find("delay").unwrap()]).unwrap();
        }
        let optimal = &series[0].points;
        assert!(optimal.is_sorted_by(|a, b| a.mcpr <= b.mcpr + 1e-12));
        for (bound, policy) in optimal.iter().zip(&series[1].points) {
            assert!(bound.mcpr <= policy.mcpr);
            assert!(
                (policy.local + policy.remote + policy.global + policy.copies - policy.mcpr).abs() < 1e-9
            );
        }
        let middle = sweep::geometric(0.5 * here, 2.0 * here, 5)[2];
        assert!((middle - here).abs() < 1e-9 * here);
    }
}

#[test]
fn the_file_policy_needs_a_file() {
    let costs = machines().remove(0);
    let (history, settings) = (history(&[(0, 1, true, 1)], &costs), Settings::default());
    let subject = subject(&history, &costs, true, &settings);
    let error = subject.simulate(find("file").unwrap(), false).unwrap_err();
    assert!(error.to_string().contains("--placement file:FILE"));
    assert_eq!(Node(0), Bound::new(&subject, &classify(&history).unwrap()).unwrap().floor.last_homes[0]);
}

#[test]
fn requesters_add_up_to_the_row() {
    let costs = machines().remove(0);
    let (history, settings) =
        (history(&[(0, 1, true, 3), (1, 1, false, 2), (1, 2, true, 4)], &costs), Settings::default());
    let subject = subject(&history, &costs, true, &settings);
    let still = subject.simulate(find("first-touch").unwrap(), false).unwrap();
    let rows = requesters(&history, &still).unwrap().unwrap();
    let bound = Bound::new(&subject, &classify(&history).unwrap()).unwrap();
    let row = subject.row("first-touch", &still, &bound, 0.0).unwrap();
    let nonlocal: f64 = rows.iter().map(|r| r.references as f64 * r.nonlocal_percent / 100.0).sum();
    assert_eq!(rows.iter().map(|r| r.references).sum::<u64>(), row.references);
    assert!((nonlocal - row.remote as f64).abs() < 1e-6 && row.remote == 2);
}
