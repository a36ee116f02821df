use super::super::app::{App, Catalogue, CORBALAN};
use super::super::layout::Hardware;
use super::super::manager::table::{find, Settings, MANAGERS};
use super::super::partition::PartitionId;
use super::super::workload::{self, Arrival, Arriving, Lengths, Mix, Workload};
use super::*;
use homing_core::machine::Machine;
use homing_core::policy::settings::Settings as Values;
use homing_core::policy::{stay::Stay, table};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn hardware() -> Hardware {
    Hardware::new(&Machine::builtin("origin2000-64").unwrap()).unwrap()
}

fn catalogue() -> Catalogue {
    App::read(CORBALAN, "corbalan-2003.toml").unwrap()
}

fn play_with(
    workload: &Workload,
    hardware: &Hardware,
    manager: &str,
    policy: &str,
    settings: Settings,
) -> Outcome {
    let setup =
        Setup { workload, hardware, burst_s: IRIX_BURST_S, interval_s: 0.25, seed: 5, pictures: true };
    let mut manager = (find(manager).unwrap().build)(settings);
    let mut policy: Box<dyn Policy> = match policy {
        "none" => Box::new(Stay),
        name => table::find(name).unwrap().make(&hardware.costs, false, &Values::default()),
    };
    run(&setup, &mut *manager, &mut *policy).unwrap()
}

fn play(workload: &Workload, hardware: &Hardware, manager: &str, policy: &str) -> Outcome {
    play_with(workload, hardware, manager, policy, Settings::default())
}

fn one_cpu_jobs(load: f64, count: u32, cpus: usize) -> (Workload, Hardware) {
    let mut hardware = hardware();
    let node_of = (0..cpus).map(|_| homing_core::ids::Node(0)).collect();
    hardware.layout = super::super::layout::Layout::new(node_of, 1, vec![1.0]);
    let app = App { name: "one".into(), iterations: 100.0, ..App::of_log(1, true) };
    let mix = Mix { name: "mmc".into(), shares: BTreeMap::from([("one".into(), 1.0)]), jobs: count };
    let arriving = Arriving { load, jobs: Some(count), lengths: Lengths::Exponential, seed: 11 };
    (Workload::generate(&mix, &[app], &hardware, arriving).unwrap(), hardware)
}

/// The mean wait in a queue M/M/c, in service times (Erlang's formula C).
fn erlang_c(servers: usize, load: f64) -> f64 {
    let offered = load * servers as f64;
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= offered / (k as f64 + 1.0);
    }
    let all_busy = term / (1.0 - load);
    all_busy / (sum + all_busy) / (servers as f64 * (1.0 - load))
}

#[test]
fn a_queue_of_single_processors_waits_as_erlang_says() {
    for (servers, load) in [(1, 0.6), (2, 0.8), (4, 0.7), (8, 0.9)] {
        let (workload, hardware) = one_cpu_jobs(load, 60_000, servers);
        let outcome = play(&workload, &hardware, "batch", "none");
        let wait = outcome.apps[0].wait_s / 100.0;
        let expected = erlang_c(servers, load);
        assert!(
            (wait / expected - 1.0).abs() < 0.1,
            "{servers} servers, load {load}: {wait}, Erlang {expected}"
        );
    }
}

#[test]
fn a_job_that_takes_too_long_or_comes_too_late_is_refused_at_once() {
    let (whole, hardware) = one_cpu_jobs(0.5, 8, 2);
    let refused = |change: &dyn Fn(&mut Arrival)| {
        let mut workload = whole.clone();
        change(&mut workload.arrivals[5]);
        let setup = Setup {
            workload: &workload,
            hardware: &hardware,
            burst_s: IRIX_BURST_S,
            interval_s: 0.25,
            seed: 1,
            pictures: false,
        };
        let mut manager = (find("irix").unwrap().build)(Settings::default());
        run(&setup, &mut *manager, &mut Stay).map(|_| ()).unwrap_err().to_string()
    };
    for wild in [1e6, 1e300, f64::INFINITY, f64::NAN] {
        let error = refused(&|job| job.scale = wild);
        assert!(
            error.starts_with("job 6 of 8 comes after") && error.contains("12150000 s at most"),
            "{error}"
        );
    }
    let error = refused(&|job| job.at_s = 1e17);
    assert!(error.contains("comes after 100000000000000000 s") && error.contains("1000000000 s"), "{error}");
}

#[test]
fn misses_take_time_at_memories_that_nobody_waits_for() {
    let (mut hardware, catalogue) = (hardware(), catalogue());
    hardware.memory_busy_s = 0.0;
    let arrivals = vec![Arrival { at_s: 0.0, app: 0, scale: 0.1, partition: PartitionId::default() }];
    let workload = Workload { apps: catalogue.apps, arrivals };
    let outcome = play(&workload, &hardware, "batch", "none");
    assert!(outcome.cpu_s >= outcome.bound_cpu_s * (1.0 - 1e-9), "{} {}", outcome.cpu_s, outcome.bound_cpu_s);
}

#[test]
fn one_job_alone_takes_what_its_model_says() {
    let (hardware, catalogue) = (hardware(), catalogue());
    for app in 0..catalogue.apps.len() {
        let arrivals = vec![Arrival { at_s: 3.0, app, scale: 0.1, partition: PartitionId::default() }];
        let workload = Workload { apps: catalogue.apps.clone(), arrivals };
        let outcome = play(&workload, &hardware, "batch", "none");
        let app = &catalogue.apps[app];
        let local = workload::alone_s(app, &hardware) * app.iterations * 0.1;
        let took = outcome.apps[0].execution_s;
        // What all threads use is at several nodes, so that a job is never wholly local.
        assert!(took >= local && took < 1.25 * local, "{}: {took} s, {local} s with local pages", app.name);
        assert!((outcome.apps[0].bound_cpu_s / (local * f64::from(app.request)) - 1.0).abs() < 1e-6);
        assert!((outcome.cpu_s - took * f64::from(app.request)).abs() < 1e-6 * outcome.cpu_s);
        assert!((outcome.makespan_s - 3.0 - took).abs() < 1e-9);
    }
}

#[test]
fn applications_scale_as_the_paper_says() {
    let (hardware, catalogue) = (hardware(), catalogue());
    let speed_up = |name: &str, p: u32| {
        let app = catalogue.apps.iter().find(|app| app.name == name).unwrap();
        let local = workload::local_s(&hardware);
        app.iteration_s(1, local) / app.iteration_s(p, local)
    };
    assert!(speed_up("swim", 32) > 32.0, "super-linear: {}", speed_up("swim", 32));
    assert!((24.0..32.0).contains(&speed_up("bt", 32)), "nearly linear: {}", speed_up("bt", 32));
    assert!((8.0..16.0).contains(&speed_up("hydro2d", 32)), "medium to low: {}", speed_up("hydro2d", 32));
    assert!(speed_up("apsi", 2) < 1.3, "does not scale: {}", speed_up("apsi", 2));
}

fn w(name: &str, load: f64, jobs: u32, seed: u64) -> (Workload, Hardware) {
    let (hardware, catalogue) = (hardware(), catalogue());
    let mix = catalogue.mixes.iter().find(|mix| mix.name == name).unwrap();
    let arriving = Arriving { load, jobs: Some(jobs), lengths: Lengths::Same, seed };
    (Workload::generate(mix, &catalogue.apps, &hardware, arriving).unwrap(), hardware)
}

/// What must hold of every outcome.
fn consistent(outcome: &Outcome, workload: &Workload, cpus: usize) {
    assert_eq!(outcome.jobs as usize, workload.arrivals.len(), "every job ends");
    let of_apps: f64 = outcome.apps.iter().map(|app| app.cpu_s * app.jobs as f64).sum();
    assert!((of_apps - outcome.cpu_s).abs() <= 1e-6 * of_apps);
    assert!(outcome.bound_cpu_s <= outcome.cpu_s * (1.0 + 1e-9), "no placement is better than all local");
    assert!(outcome.utilisation_percent <= 100.0 + 1e-6);
    // Little's law: jobs present are arrivals a second times the time that each stays.
    let little = outcome.jobs as f64 / outcome.makespan_s * outcome.turnaround_s;
    assert!((outcome.jobs_present - little).abs() <= 1e-6 * little, "{} {little}", outcome.jobs_present);
    // A CPU runs one thing at a time, and what CPUs ran is what jobs got.
    let mut by_cpu: Vec<Vec<(f64, f64)>> = vec![Vec::new(); cpus];
    outcome.segments.iter().for_each(|s| by_cpu[usize::from(s.cpu)].push((s.from_s, s.to_s)));
    let mut busy = 0.0;
    for segments in &mut by_cpu {
        segments.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(segments.windows(2).all(|pair| pair[0].1 <= pair[1].0 + 1e-9));
        busy += segments.iter().map(|(from, to)| to - from).sum::<f64>();
    }
    if outcome.left_out_of_pictures == 0 {
        assert!((busy - outcome.cpu_s).abs() <= 1e-6 * busy, "{busy} {}", outcome.cpu_s);
    }
}

#[test]
fn nothing_is_lost_under_any_manager_and_policy() {
    let (workload, hardware) = w("w3", 1.0, 12, 3);
    for manager in MANAGERS {
        for policy in ["none", "irix"] {
            let outcome = play(&workload, &hardware, manager.name, policy);
            consistent(&outcome, &workload, 64);
            // Under gang and batch every job keeps its CPUs, and its pages are where it made them.
            let moves = policy != "none" && !["gang", "batch"].contains(&manager.name);
            assert_eq!(outcome.pages_moved > 0.0, moves, "{} {policy}", manager.name);
            assert_eq!(
                outcome,
                play(&workload, &hardware, manager.name, policy),
                "the same seed, the same result"
            );
        }
    }
}

#[test]
fn time_sharing_moves_threads_and_space_sharing_does_not() {
    let (workload, hardware) = w("w1", 1.0, 16, 1);
    let [irix, equal] = ["irix", "equipartition"].map(|manager| play(&workload, &hardware, manager, "irix"));
    assert!(irix.process_migrations > 100 * equal.process_migrations.max(1));
    assert!(irix.burst_s < 0.5 && equal.burst_s > 5.0, "{} {}", irix.burst_s, equal.burst_s);
}

#[test]
fn migration_brings_pages_home_after_processors_changed() {
    let (workload, hardware) = w("w1", 1.0, 16, 1);
    let [still, moved] = ["none", "irix"].map(|policy| play(&workload, &hardware, "equipartition", policy));
    let (now, before) = (moved.nonlocal_percent, still.nonlocal_percent);
    assert!(
        now < 0.8 * before && moved.cpu_s < still.cpu_s,
        "{now} {before}, {} {}",
        moved.cpu_s,
        still.cpu_s
    );
}

#[test]
fn the_policy_of_this_project_moves_pages_of_jobs_too() {
    let hardware = Hardware::new(&Machine::builtin("origin2000-16").unwrap()).unwrap();
    let catalogue = catalogue();
    let job = |at_s| Arrival { at_s, app: 0, scale: 0.3, partition: PartitionId::default() };
    let workload = Workload { apps: catalogue.apps, arrivals: vec![job(0.0), job(3.0), job(6.0)] };
    let [still, ours] = ["none", "homing"].map(|policy| play(&workload, &hardware, "equipartition", policy));
    consistent(&ours, &workload, 16);
    assert!(
        ours.nonlocal_percent < still.nonlocal_percent,
        "{} {}",
        ours.nonlocal_percent,
        still.nonlocal_percent
    );
}

#[test]
fn a_job_that_can_never_run_is_said() {
    let hardware = hardware();
    let app = App { name: "huge".into(), malleable: false, ..App::of_log(128, false) };
    let workload = Workload {
        apps: vec![app],
        arrivals: vec![Arrival { at_s: 0.0, app: 0, scale: 1.0, partition: PartitionId::default() }],
    };
    let settings = Settings::default();
    let setup = Setup {
        workload: &workload,
        hardware: &hardware,
        burst_s: 0.2,
        interval_s: 1.0,
        seed: 1,
        pictures: false,
    };
    let mut manager = (find("equipartition").unwrap().build)(settings);
    let error = run(&setup, &mut *manager, &mut Stay).unwrap_err().to_string();
    assert!(error.contains("the first for 128 of 64 processors"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any jobs on any manager end, and the books balance.
    #[test]
    fn random_workloads_balance(
        seed in 0u64..1000, jobs in 1u32..10, manager in 0..MANAGERS.len(), level in 1usize..6, mix in 0usize..4,
    ) {
        let catalogue = catalogue();
        let (mut workload, hardware) = w(&catalogue.mixes[mix].name, 1.0, jobs, seed);
        workload.arrivals.iter_mut().for_each(|job| job.scale *= 0.05);
        let settings = Settings { level, ..Settings::default() };
        let outcome = play_with(&workload, &hardware, MANAGERS[manager].name, "irix", settings);
        consistent(&outcome, &workload, 64);
    }
}
