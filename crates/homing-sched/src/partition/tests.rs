use super::super::app::{App, CORBALAN};
use super::super::layout::Hardware;
use super::super::manager::table::MANAGERS;
use super::super::outcome::Outcome;
use super::super::simulate::{self, Setup, INTERVAL_S, IRIX_BURST_S};
use super::super::workload::{Arrival, Workload};
use super::*;
use homing_core::machine::Machine;
use homing_core::policy::stay::Stay;
use std::collections::{BTreeMap, BTreeSet};

/// Eight nodes of two CPUs.
fn hardware() -> Hardware {
    Hardware::new(&Machine::builtin("origin2000-16").unwrap()).unwrap()
}

/// Each with nodes, manager, and what else its table says.
fn divided(layout: &Layout, parts: &[(&str, &str, &str)]) -> Partitioned {
    let table = |&(nodes, manager, more): &(&str, &str, &str)| {
        format!("[[partition]]\nname = \"on {nodes}\"\nnodes = [{nodes}]\nmanager = \"{manager}\"\n{more}\n")
    };
    let partitions = file::read(&parts.iter().map(table).collect::<String>()).unwrap();
    file::check(&partitions, layout).unwrap();
    let other = table::find("batch").unwrap();
    Partitioned::of(layout, partitions, other, Settings::default(), 10.0, 1e-4)
}

/// Jobs of an application, each [partition, seconds of its arrival, its length].
fn workload(app: &str, jobs: &[(u32, f64, f64)]) -> Workload {
    let apps = App::read(CORBALAN, "corbalan-2003.toml").unwrap().apps;
    let app = apps.iter().position(|other| other.name == app).unwrap();
    let job = |&(partition, at_s, scale): &(u32, f64, f64)| Arrival {
        at_s,
        app,
        scale,
        partition: PartitionId(partition),
    };
    Workload { apps, arrivals: jobs.iter().map(job).collect() }
}

fn play(workload: &Workload, manager: &mut dyn Manager) -> Outcome {
    let hardware = hardware();
    let (burst_s, interval_s) = (IRIX_BURST_S, INTERVAL_S);
    let setup = Setup { workload, hardware: &hardware, burst_s, interval_s, seed: 1, pictures: true };
    simulate::run(&setup, manager, &mut Stay).unwrap()
}

/// Jobs of a partition by the nodes that they ran on.
fn nodes_used(outcome: &Outcome, workload: &Workload, partition: u32) -> BTreeSet<u16> {
    let layout = hardware().layout;
    let mine = |job: &JobId| workload.arrivals[job.index()].partition.0 == partition;
    let segments = outcome.segments.iter().filter(|segment| mine(&segment.job));
    segments.map(|segment| layout.node(Cpu(segment.cpu)).0).collect()
}

#[test]
fn jobs_of_static_partitions_stay_on_their_nodes_under_every_manager() {
    let jobs = [(0, 0.0, 0.1), (1, 0.0, 0.1), (0, 1.0, 0.1), (1, 2.0, 0.05), (1, 2.0, 0.05)];
    let workload = workload("swim", &jobs);
    for entry in MANAGERS.iter().filter(|entry| !entry.time_shares) {
        let layout = hardware().layout;
        let mut manager = divided(&layout, &[("0, 1, 2", entry.name, ""), ("5, 7", "equipartition", "")]);
        let outcome = play(&workload, &mut manager);
        assert_eq!(outcome.jobs, 5, "{}", entry.name);
        let used = [0, 1].map(|partition| nodes_used(&outcome, &workload, partition));
        assert_eq!(used, [BTreeSet::from([0, 1, 2]), BTreeSet::from([5, 7])], "{}", entry.name);
        let division = outcome.division.unwrap();
        assert!(division.transfers.is_empty());
        let busy: f64 = division
            .partitions
            .iter()
            .map(|part| part.utilisation_percent / 100.0 * part.mean_nodes * 2.0 * outcome.makespan_s)
            .sum();
        assert!((busy / outcome.cpu_s - 1.0).abs() < 1e-6, "{}: {busy} {}", entry.name, outcome.cpu_s);
    }
}

/// A partition without jobs gives up what the other can use, node by node, and its last job's pages go before it.
#[test]
fn nodes_go_where_they_are_used_and_pages_leave_them_first() {
    let layout = hardware().layout;
    let share = "share = 0.5";
    let workload = workload("swim", &[(0, 0.0, 1.0), (1, 0.0, 0.02)]);
    let mut fixed = divided(&layout, &[("0, 1", "homing", ""), ("2, 3, 4, 5, 6, 7", "homing", "")]);
    let before = play(&workload, &mut fixed);
    let mut moving = divided(&layout, &[("0, 1", "homing", share), ("2, 3, 4, 5, 6, 7", "homing", share)]);
    let after = play(&workload, &mut moving);
    let division = after.division.clone().unwrap();
    assert_eq!(division.partitions[0].nodes.len(), 7, "all but the least: {division:?}");
    assert_eq!(division.transfers.len(), 5);
    assert!(division
        .transfers
        .iter()
        .all(|transfer| transfer.from.as_deref() == Some("on 2, 3, 4, 5, 6, 7")));
    assert!(after.makespan_s < before.makespan_s, "{} {}", after.makespan_s, before.makespan_s);
    let rest: f64 = division.transfers.iter().map(|transfer| transfer.idle_cpu_s).sum();
    let nodes: f64 = division.partitions.iter().map(|part| part.mean_nodes).sum();
    assert!(
        (nodes + rest / 2.0 / after.makespan_s - 8.0).abs() < 1e-9,
        "a node is somewhere: {nodes}, {rest}"
    );
}

/// With a goal of half, a partition keeps two nodes for a job that fills one; the rest goes to the other.
#[test]
fn a_goal_of_utilisation_leaves_what_its_jobs_do_not_fill() {
    let layout = hardware().layout;
    let mut jobs = vec![(0, 0.0, 1.0)];
    jobs.extend([(1, 0.0, 1.0); 7]);
    let workload = workload("apsi", &jobs);
    for (goal, keeps) in [("utilisation = 0.5", 2), ("utilisation = 0.25", 4), ("utilisation = 1.0", 1)] {
        let parts = [("0, 1, 2, 3, 4, 5", "homing", goal), ("6, 7", "homing", "priority = -1")];
        let mut manager = divided(&layout, &parts);
        let division = play(&workload, &mut manager).division.unwrap();
        // Its job ends after 104 s.
        let transfers: Vec<_> = division.transfers.iter().filter(|transfer| transfer.at_s < 100.0).collect();
        assert_eq!(transfers.len(), 6 - keeps, "{goal}: {division:?}");
        assert!(transfers.iter().all(|transfer| transfer.to == "on 6, 7"), "{goal}: {division:?}");
    }
}

#[test]
fn a_node_with_pages_is_left_before_it_is_given() {
    let layout = hardware().layout;
    // The first has all nodes but one and one long job; then many jobs come that belong to the second, and come first.
    let mut jobs = vec![(0, 0.0, 2.0)];
    jobs.extend([(1, 1.0, 0.3); 4]);
    let workload = workload("bt", &jobs);
    let parts =
        [("0, 1, 2, 3, 4, 5, 6", "equipartition", "priority = 0"), ("7", "equipartition", "priority = 1")];
    let outcome = play(&workload, &mut divided(&layout, &parts));
    let transfers = &outcome.division.as_ref().unwrap().transfers;
    let first = &transfers[0];
    assert!(first.pages_moved > 0 && first.seconds > 0.0 && first.pages_left == 0, "{first:?}");
    assert!(first.at_s >= 10.0, "a whole window: {first:?}");
    // While a node is on its way nobody runs there.
    for transfer in transfers {
        let (from, to) = (transfer.at_s + 1e-9, transfer.at_s + transfer.seconds - 1e-9);
        let there = |cpu: u16| layout.node(Cpu(cpu)).0 == transfer.node;
        let overlaps = outcome.segments.iter().filter(|s| there(s.cpu) && s.from_s < to && s.to_s > from);
        assert_eq!(overlaps.count(), 0, "{transfer:?}");
    }
    let back = transfers.iter().filter(|transfer| transfer.to.starts_with("on 0")).count();
    let there = transfers.len() - back;
    assert!((1..=6).contains(&there) && back <= there, "{transfers:?}");
}

#[test]
fn what_a_transfer_costs_is_weighed() {
    let layout = hardware().layout;
    let workload = workload("bt", &[(0, 0.0, 0.5), (1, 1.0, 0.3)]);
    let parts =
        [("0, 1, 2, 3, 4, 5, 6", "equipartition", "priority = 0"), ("7", "equipartition", "priority = 1")];
    let mut manager = divided(&layout, &parts);
    // A second for each page: never worth it while the first one's job has pages.
    manager.move_s = 1.0;
    let transfers = play(&workload, &mut manager).division.unwrap().transfers;
    assert!(transfers.iter().all(|transfer| transfer.pages_moved == 0), "{transfers:?}");
}

/// Each node is in one partition at each time, or on its way.
#[test]
fn memories_are_disjoint_and_follow_the_nodes() {
    let layout = hardware().layout;
    let mut manager =
        divided(&layout, &[("0, 1, 2", "batch", "share = 0.2"), ("3, 4", "batch", "share = 0.8")]);
    let job = |id: u32, partition: u32, cpus: Vec<Cpu>| JobView {
        running: !cpus.is_empty(),
        cpus,
        partition: PartitionId(partition),
        pages: vec![1.0; 8],
        ..JobView::waiting(JobId(id), 16, true)
    };
    let mut jobs = vec![job(0, 0, Vec::new()), job(1, 1, Vec::new())];
    let (mut now_s, mut why, mut vacates) = (0.0, Why::Arrival, 0);
    for _ in 0..40 {
        let decision = manager.decide(&Scene { now_s, why, layout: &layout, jobs: &jobs });
        decision.check(&layout, |id| id.0 < 2).unwrap();
        let memories: BTreeMap<JobId, Vec<Node>> = decision.memories.into_iter().collect();
        let mut all: Vec<Node> = memories.values().flatten().copied().collect();
        all.sort_unstable_by_key(|node| node.0);
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        for (id, allocation) in decision.allocations {
            let Allocation::Cpus(cpus) = allocation else { panic!("{allocation:?}") };
            assert!(cpus.iter().all(|&cpu| memories[&id].contains(&layout.node(cpu))));
            jobs[id.index()] = job(id.0, id.0, cpus);
        }
        (now_s, why) = match decision.vacate {
            Some(vacate) => {
                vacates += 1;
                assert!(!all.contains(&vacate.node) && !vacate.to.contains(&vacate.node));
                (now_s + 0.5, Why::Vacated { moved: 1, left: 2 })
            }
            None => (decision.wake_s.unwrap(), Why::Due),
        };
    }
    // The spare nodes 5 to 7 first, to the second one; of eight it is to have six.
    let division = manager.division(now_s).unwrap();
    assert_eq!(vacates, division.transfers.len());
    let from: Vec<_> = division.transfers.iter().map(|transfer| transfer.from.is_none()).collect();
    assert_eq!(from, [true, true, true, false], "{division:?}");
    assert_eq!(division.partitions[1].nodes.len(), 6);
    assert!(division.transfers.iter().all(|transfer| (transfer.seconds, transfer.pages_left) == (0.5, 2)));
}

#[test]
fn a_job_whose_cpus_all_go_with_a_node_gets_others() {
    let layout = hardware().layout;
    for name in ["equipartition", "pdpa", "homing"] {
        let first = ("0, 1, 2", name, "priority = 0");
        let mut manager = divided(&layout, &[first, ("3, 4, 5, 6, 7", "batch", "priority = 1")]);
        let job = |id: u32, partition: u32, cpus: &[u16], pages: f64| JobView {
            running: true,
            age_s: 50.0,
            cpus: cpus.iter().map(|&cpu| Cpu(cpu)).collect(),
            partition: PartitionId(partition),
            pages: vec![pages, pages, 0.0, 0.0],
            ..JobView::waiting(JobId(id), 16, true)
        };
        let jobs = [job(0, 0, &[0, 1, 2, 3], 9.0), job(1, 0, &[4, 5], 0.0), job(2, 1, &[6, 7], 0.0)];
        let mut ask = |now_s, why| manager.decide(&Scene { now_s, why, layout: &layout, jobs: &jobs });
        ask(0.0, Why::Arrival);
        let decision = ask(10.0, Why::Due);
        assert_eq!(decision.vacate.unwrap().node, Node(2), "{name}: no pages are there");
        let of = |id: u32| decision.allocations.iter().find(|(job, _)| job.0 == id);
        let Some((_, Allocation::Cpus(cpus))) = of(1) else { panic!("{name}: it stands still") };
        assert!(!cpus.is_empty() && cpus.iter().all(|cpu| cpu.0 < 4), "{name}: {cpus:?}");
    }
}
