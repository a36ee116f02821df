//! Corbalan, Martorell & Labarta 2003, section 6: workloads of parallel jobs on 64 processors with and without page
//! migration, under IRIX, equipartition and PDPA.
//!
//! Jobs, machine and managers are modelled (docs/scheduling.md): the four workloads of table 1 at loads of 60, 80 and
//! 100 %, three seeds each. Every ratio is of means over the same jobs; "mean" is the mean over applications.

use super::claim::Claim;
use super::exhibit::Exhibit;
use super::programs::{Size, Traces};
use super::Chosen;
use homing_core::machine::Machine;
use homing_pipeline::sched::{self, Cell, Jobs, Request, NO_POLICY};
use homing_sched::manager::table::Settings;
use homing_sched::outcome::OfApp;
use homing_sched::partition::resources::WINDOW_S;
use homing_sched::simulate::{INTERVAL_S, IRIX_BURST_S};
use homing_sched::workload::Lengths;
use std::collections::BTreeMap;

const MACHINE: &str = "origin2000-64";
const MANAGERS: [&str; 3] = ["irix", "equipartition", "pdpa"];
/// The kernel's engine of the paper.
const ENGINE: &str = "irix";
const LOADS: [f64; 3] = [0.6, 0.8, 1.0];
/// Seeds of a repeat.
const SEEDS: u64 = 3;
/// Names of the paper's exhibits.
pub const IDS: [&str; 7] = [
    "jobs-equipartition",
    "jobs-pdpa",
    "jobs-irix",
    "jobs-speedup",
    "jobs-allocation",
    "jobs-bursts",
    "jobs-managers",
];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    if !chosen.any(&IDS) {
        return Ok(Vec::new());
    }
    let seeds = if traces.size == Size::Quick { 1 } else { SEEDS };
    let first = 1 + traces.order * seeds;
    let runs = Runs::new((first..first + seeds).collect())?;
    Ok(vec![
        runs.of_ratios("jobs-equipartition", "equipartition", |app| app.cpu_s)?,
        runs.of_ratios("jobs-pdpa", "pdpa", |app| app.cpu_s)?,
        runs.of_ratios("jobs-irix", "irix", |app| app.cpu_s)?,
        runs.of_ratios("jobs-speedup", "pdpa", |app| app.speed_up)?,
        runs.of_ratios("jobs-allocation", "pdpa", |app| app.processors)?,
        runs.bursts()?,
        runs.managers()?,
    ])
}

/// Everything that was simulated, by workload.
struct Runs(BTreeMap<String, Vec<Cell>>);

impl Runs {
    fn new(seeds: Vec<u64>) -> anyhow::Result<Runs> {
        let catalogue = sched::catalogue(None)?;
        let machine = Machine::builtin(MACHINE).expect("a machine of this name is built in");
        let mut runs = BTreeMap::new();
        for mix in &catalogue.mixes {
            let request = Request {
                partitions: Vec::new(),
                window_s: WINDOW_S,
                machine: machine.clone(),
                jobs: Jobs::Mix {
                    apps: catalogue.apps.clone(),
                    mix: mix.clone(),
                    loads: LOADS.to_vec(),
                    jobs: None,
                    lengths: Lengths::Same,
                },
                managers: MANAGERS.map(String::from).to_vec(),
                policies: vec![NO_POLICY.into(), ENGINE.into()],
                set: Vec::new(),
                settings: Settings::default(),
                burst_s: IRIX_BURST_S,
                interval_s: INTERVAL_S,
                seeds: seeds.clone(),
                pictures: false,
            };
            runs.insert(mix.name.clone(), sched::run(&request)?);
        }
        Ok(Runs(runs))
    }

    fn cells<'a>(&'a self, manager: &'a str, policy: &'a str) -> impl Iterator<Item = &'a Cell> {
        self.0.values().flatten().filter(move |cell| cell.manager == manager && cell.policy == policy)
    }

    /// By application, a mean over its jobs with migration over that without.
    fn ratios(&self, manager: &str, of: fn(&OfApp) -> f64) -> Vec<(String, f64)> {
        let mean = |policy| {
            let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
            for app in self.cells(manager, policy).flat_map(|cell| &cell.outcome.apps) {
                let (sum, jobs) = sums.entry(app.app.clone()).or_default();
                *sum += of(app) * app.jobs as f64;
                *jobs += app.jobs as f64;
            }
            sums.into_iter().map(|(app, (sum, jobs))| (app, sum / jobs)).collect::<BTreeMap<_, _>>()
        };
        let (with, without) = (mean(ENGINE), mean(NO_POLICY));
        with.into_iter().map(|(app, value)| (app.clone(), value / without[&app])).collect()
    }

    /// An exhibit of ratios by application, with their mean.
    fn of_ratios(&self, id: &str, manager: &str, of: fn(&OfApp) -> f64) -> anyhow::Result<Exhibit> {
        let mut exhibit = Exhibit::new(id)?;
        for (app, ratio) in self.ratios(manager, of) {
            exhibit.line(&app, &app, vec![ratio]);
        }
        let mean = exhibit.mean(0);
        exhibit.line("mean", "mean", vec![mean]);
        Ok(exhibit)
    }

    fn bursts(&self) -> anyhow::Result<Exhibit> {
        let mut exhibit = Exhibit::new("jobs-bursts")?;
        let full = |cell: &&Cell| (cell.load_percent - 100.0).abs() < 0.5 && cell.policy == ENGINE;
        for manager in MANAGERS {
            let cells = self.0["w1"].iter().filter(full).filter(|cell| cell.manager == manager);
            let cells: Vec<&Cell> = cells.collect();
            let mean =
                |of: fn(&Cell) -> f64| cells.iter().map(|cell| of(cell)).sum::<f64>() / cells.len() as f64;
            let values = vec![
                mean(|cell| cell.outcome.process_migrations as f64),
                mean(|cell| cell.outcome.burst_s),
                mean(|cell| cell.outcome.bursts_per_cpu),
            ];
            exhibit.line(manager, manager, values);
        }
        Ok(exhibit)
    }

    fn managers(&self) -> anyhow::Result<Exhibit> {
        let mut exhibit = Exhibit::new("jobs-managers")?;
        let turnaround = |manager, policy| {
            let cells: Vec<&Cell> = self.cells(manager, policy).collect();
            cells.iter().map(|cell| cell.outcome.turnaround_s).sum::<f64>() / cells.len() as f64
        };
        for (first, second) in [("equipartition", "irix"), ("pdpa", "equipartition")] {
            let better = |policy| 100.0 * (turnaround(second, policy) / turnaround(first, policy) - 1.0);
            let label = format!("{first} over {second}");
            exhibit.line(&label, &label, vec![better(ENGINE), better(NO_POLICY)]);
        }
        Ok(exhibit)
    }
}

/// What the paper says that its figures show.
pub fn claims(exhibit: &Exhibit) -> Vec<Claim> {
    let apps = ["swim", "bt", "hydro2d"];
    // A ratio has no effect at 1.
    let mean = |text: &str| Claim::new(text).sizes(exhibit, 0, 1.0, &["mean"]);
    let less = |text: &str| {
        apps.iter().fold(Claim::new(text), |claim, app| claim.direction(app, exhibit.of(app, 0) < 1.0))
    };
    match exhibit.id.as_str() {
        "jobs-equipartition" => vec![
            mean("migration saves half of the CPU time under equipartition"),
            Claim::new("of each application").sizes(exhibit, 0, 1.0, &apps),
        ],
        "jobs-pdpa" => vec![
            mean("migration saves 13 % of the CPU time under PDPA"),
            Claim::new("of each application").sizes(exhibit, 0, 1.0, &apps),
        ],
        "jobs-irix" => vec![
            mean("migration saves 10 % of the CPU time under IRIX"),
            less("applications always consume less CPU time with it (section 7; apsi by 1 %)"),
        ],
        "jobs-speedup" => vec![
            mean("migration raises the speed-up by 27 % in the mean"),
            Claim::new("swim's by 55, hydro2d's by 39, bt's by 14 %").sizes(exhibit, 0, 1.0, &apps),
            Claim::new("swim's most").above(exhibit, 0, &["swim"], &["bt", "hydro2d", "apsi"]),
            Claim::new("apsi's hardly [less than 5 %]")
                .direction("apsi", (exhibit.of("apsi", 0) - 1.0).abs() < 0.05),
        ],
        "jobs-allocation" => vec![mean("PDPA gives 14 % more processors to jobs whose pages migrate")],
        "jobs-bursts" => {
            let of = |manager, column| exhibit.of(manager, column);
            let irix = of("irix", 0);
            vec![
                Claim::new("IRIX makes more than 150,000 process migrations, in bursts of 0.243 s")
                    .direction("migrations", irix > 150_000.0)
                    .sizes(exhibit, 1, 0.0, &["irix"]),
                Claim::new("space-sharing makes hundreds of times fewer")
                    .direction("equipartition", of("equipartition", 0) < irix / 100.0)
                    .direction("pdpa", of("pdpa", 0) < irix / 100.0),
                Claim::new("and bursts of more than ten seconds")
                    .direction("equipartition", of("equipartition", 1) > 10.0)
                    .direction("pdpa", of("pdpa", 1) > 10.0),
            ]
        }
        "jobs-managers" => vec![
            Claim::new("equipartition outperforms IRIX by 40 % with migration").sizes(
                exhibit,
                0,
                0.0,
                &["equipartition over irix"],
            ),
            Claim::new("PDPA outperforms equipartition by 30 % without migration, and is 5 % behind with it")
                .sizes(exhibit, 1, 0.0, &["pdpa over equipartition"])
                .sizes(exhibit, 0, 0.0, &["pdpa over equipartition"]),
        ],
        _ => Vec::new(),
    }
}
