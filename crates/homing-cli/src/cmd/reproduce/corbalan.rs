//! Corbalan, Martorell & Labarta 2003, section 6: workloads of parallel jobs on 64 processors with and without page
//! migration, under IRIX, equipartition and PDPA.
//!
//! Jobs, machine and managers are modelled (docs/scheduling.md): the four workloads of table 1 at loads of 60, 80 and
//! 100 %, three seeds each. Every ratio is of means over the same jobs; "mean" is the mean over applications.

use super::exhibit::Exhibit;
use super::Chosen;
use homing_core::machine::Machine;
use homing_core::sched::manager::table::Settings;
use homing_core::sched::outcome::OfApp;
use homing_core::sched::simulate::{INTERVAL_S, IRIX_BURST_S};
use homing_core::sched::workload::Lengths;
use homing_pipeline::sched::{self, Cell, Jobs, Request, NO_POLICY};
use std::collections::BTreeMap;

const MACHINE: &str = "origin2000-64";
const MANAGERS: [&str; 3] = ["irix", "equipartition", "pdpa"];
/// The kernel's engine of the paper.
const ENGINE: &str = "irix";
const LOADS: [f64; 3] = [0.6, 0.8, 1.0];
const SEEDS: [u64; 3] = [1, 2, 3];
const IDS: [&str; 7] = [
    "jobs-equipartition",
    "jobs-pdpa",
    "jobs-irix",
    "jobs-speedup",
    "jobs-allocation",
    "jobs-bursts",
    "jobs-managers",
];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen) -> anyhow::Result<Vec<Exhibit>> {
    if !chosen.any(&IDS) {
        return Ok(Vec::new());
    }
    let runs = Runs::new()?;
    Ok(vec![
        runs.cpu_time("jobs-equipartition", "equipartition")?,
        runs.cpu_time("jobs-pdpa", "pdpa")?,
        runs.cpu_time("jobs-irix", "irix")?,
        runs.speed_up()?,
        runs.allocation()?,
        runs.bursts()?,
        runs.managers()?,
    ])
}

/// Everything that was simulated, by workload.
struct Runs(BTreeMap<String, Vec<Cell>>);

impl Runs {
    fn new() -> anyhow::Result<Runs> {
        let catalogue = sched::catalogue(None)?;
        let machine = Machine::builtin(MACHINE).expect("a machine of this name is built in");
        let mut runs = BTreeMap::new();
        for mix in &catalogue.mixes {
            let request = Request {
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
                seeds: SEEDS.to_vec(),
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
    fn of_ratios(&self, id: &str, manager: &str, of: fn(&OfApp) -> f64) -> anyhow::Result<(Exhibit, f64)> {
        let mut exhibit = Exhibit::new(id)?;
        for (app, ratio) in self.ratios(manager, of) {
            exhibit.line(&app, &app, vec![ratio]);
        }
        let mean = exhibit.mean(0);
        exhibit.line("mean", "mean", vec![mean]);
        Ok((exhibit, mean))
    }

    fn cpu_time(&self, id: &str, manager: &str) -> anyhow::Result<Exhibit> {
        let (mut exhibit, mean) = self.of_ratios(id, manager, |app| app.cpu_s)?;
        exhibit.claim(mean < 1.0, "page migration saves CPU time in the mean");
        let lines = exhibit.lines.iter();
        let always = lines.filter(|line| line.label != "apsi").all(|line| line.ours[0] < 1.0);
        exhibit.claim(always, "applications always consume less CPU time with it (section 7; apsi by 1 %)");
        if manager != "equipartition" {
            let equal = self.of_ratios("jobs-equipartition", "equipartition", |app| app.cpu_s)?.1;
            exhibit.claim(equal < mean, "it saves more under equipartition");
        }
        Ok(exhibit)
    }

    fn speed_up(&self) -> anyhow::Result<Exhibit> {
        let (mut exhibit, mean) = self.of_ratios("jobs-speedup", "pdpa", |app| app.speed_up)?;
        exhibit.claim(mean > 1.0, "page migration raises the speed-up in the mean");
        let of =
            |name: &str| exhibit.lines.iter().find(|line| line.label == name).map_or(f64::NAN, |l| l.ours[0]);
        let (swim, apsi) = (of("swim"), of("apsi"));
        let most = exhibit.lines.iter().all(|line| line.ours[0] <= swim);
        exhibit.claim(most, "swim's most");
        exhibit.claim((apsi - 1.0).abs() < 0.05, "apsi's hardly at all");
        Ok(exhibit)
    }

    fn allocation(&self) -> anyhow::Result<Exhibit> {
        let (mut exhibit, mean) = self.of_ratios("jobs-allocation", "pdpa", |app| app.processors)?;
        exhibit.claim(mean > 1.0, "PDPA gives more processors to jobs whose pages migrate");
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
        let [irix, equal, pdpa] = [0, 1, 2].map(|line| exhibit.lines[line].ours.clone());
        exhibit.claim(irix[0] > 150_000.0, "IRIX makes more than 150,000 process migrations");
        let few = equal[0] < irix[0] / 100.0 && pdpa[0] < irix[0] / 100.0;
        exhibit.claim(few, "space-sharing makes hundreds of times fewer");
        exhibit.claim(equal[1] > 10.0 && pdpa[1] > 10.0, "and bursts of more than ten seconds");
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
        let [equal, pdpa] = [0, 1].map(|line| exhibit.lines[line].ours.clone());
        exhibit.claim(equal[0] > 0.0, "equipartition outperforms IRIX with migration");
        exhibit.claim(pdpa[1] > 0.0, "PDPA outperforms equipartition without migration");
        exhibit.claim(pdpa[1] > pdpa[0], "and by more than with it");
        Ok(exhibit)
    }
}
