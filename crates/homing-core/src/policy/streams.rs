//! Pathological streams: no policy may go below the optimum, run for ever, or keep more than bounded state on them.

use super::placement::Placement;
use super::settings::Settings;
use super::table::{self, POLICIES};
use super::tests::{read_gap, run_with, uniform};
use crate::history::{History, HistoryBuilder, Options};
use crate::ids::{Node, Time};
use crate::machine::Costs;
use crate::optimal::{solve, Options as Optimal};
use crate::simulate::{simulate, Setup};
use crate::timeline::{Timeline, NO_MARKS};
use crate::windows::NO_WINDOWS;

const LEVELS: [&str; 3] = ["perfect", "every:16", "intervals:10"];

fn hold(history: &History, costs: &Costs, what: &str) {
    for replication in [false, true] {
        let bound = solve(history, costs, Optimal { replication, ..Optimal::default() }).unwrap().cost;
        let mut timeline = Timeline::default();
        timeline.add_iterations(history.duration().0 / 7 + 1, history.duration());
        for entry in POLICIES {
            for level in LEVELS {
                let result = run_with(history, costs, entry.name, None, &[], replication, level, &timeline);
                let cost = result.account.cost(costs);
                assert_eq!(result.account.references(), history.references());
                assert!(cost >= bound * (1.0 - 1e-9), "{what}: {} at {level}: {cost} < {bound}", entry.name);
            }
        }
    }
}

/// A history of visits (node, page, is a write, references), built without a list of references.
fn history(visits: impl Iterator<Item = (u16, u64, bool, u64)>, costs: &Costs) -> History {
    let mut builder = HistoryBuilder::new(Options { read_gap: read_gap(costs), ..Options::default() });
    let (mut time, mut pages) = (0, 0);
    for (node, page, write, count) in visits {
        pages = pages.max(page + 1);
        for _ in 0..count {
            builder.reference(Node(node), Time(time), page << 12, write);
            time += 1;
        }
    }
    builder.finish(&(0..pages).map(|page| page << 12).collect::<Vec<_>>()).unwrap()
}

/// What `homing` pays beyond local references is at most three times what the optimum pays, and some page moves for
/// each page that it learns from.
fn hold_regret(history: &History, costs: &Costs, what: &str) {
    let learning = 6.0 * costs.copy(Node(0), Node(1)) * history.pages() as f64;
    let local = history.references() as f64;
    for replication in [false, true] {
        let bound = solve(history, costs, Optimal { replication, ..Optimal::default() }).unwrap().cost;
        let result = run_with(history, costs, "homing", None, &[], replication, "perfect", &NO_MARKS);
        let (paid, least) = (result.account.cost(costs) - local, bound - local);
        assert!(paid <= 3.0 * least + learning, "{what}: {paid} beyond local, the optimum {least}");
    }
}

#[test]
fn ping_pong_at_every_period() {
    let costs = uniform(4, 5.0, 60.0, None);
    for period in [1, 2, 3, 5, 8, 13, 15, 16, 21, 34, 55, 89, 144, 233] {
        let writes = (0..3000 / period).map(|i| ((i % 2) as u16, 0, true, period));
        let writes = history(writes, &costs);
        hold(&writes, &costs, &format!("ping-pong of {period} writes"));
        hold_regret(&writes, &costs, &format!("ping-pong of {period} writes"));
        let mixed = (0..3000 / period).map(|i| ((i % 3) as u16, i % 2, i % 4 == 0, period));
        let mixed = history(mixed, &costs);
        hold(&mixed, &costs, &format!("three nodes, {period} references"));
        hold_regret(&mixed, &costs, &format!("three nodes, {period} references"));
    }
}

#[test]
fn pages_touched_once_and_only_writes() {
    let costs = uniform(3, 5.0, 60.0, None);
    hold(&history((0..5000).map(|i| ((i % 3) as u16, i, i % 2 == 0, 1)), &costs), &costs, "one-touch pages");
    let writes = (0..4000).map(|i| ((i * i % 3) as u16, i * 7 % 11, true, 1 + i % 5));
    let writes = history(writes, &costs);
    hold(&writes, &costs, "all writes");
    hold_regret(&writes, &costs, "all writes");
}

#[test]
fn sixty_four_nodes() {
    let costs = uniform(64, 3.0, 40.0, None);
    let visits = (0..6000).map(|i| ((i * 37 % 64) as u16, i * i % 9, i % 10 == 0, 1 + i % 30));
    let visits = history(visits, &costs);
    hold(&visits, &costs, "64 nodes");
    hold_regret(&visits, &costs, "64 nodes");
}

#[test]
fn a_million_pages() {
    let costs = uniform(4, 3.0, 40.0, None);
    let history = history((0..2_000_000).map(|i| ((i * 3 % 4) as u16, i % 1_000_000, i % 3 == 0, 1)), &costs);
    assert_eq!(history.pages(), 1_000_000);
    let bound = solve(&history, &costs, Optimal::default()).unwrap().cost;
    for name in ["interval-majority", "competitive", "irix", "verghese", "linux", "record-replay"] {
        let entry = table::find(name).unwrap();
        let policy = entry.make(&costs, true, &Settings::default());
        let setup = Setup {
            history: &history,
            costs: &costs,
            placement: &Placement::FirstTouch,
            replication: true,
            information: "intervals:4".parse().unwrap(),
            timeline: &NO_MARKS,
            windows: &NO_WINDOWS,
            log: false,
        };
        let account = simulate(&setup, &*policy).unwrap().account;
        assert_eq!(account.references(), 2_000_000);
        assert!(account.cost(&costs) >= bound, "{name}");
    }
}
