//! Simulated scheduling as a value: what arrives, on which machine, under which managers and page policies.

use crate::error::{PipelineError, Result};
use crate::policies;
use homing_core::machine::Machine;
use homing_core::policy::settings::Settings as Values;
use homing_core::policy::{stay::Stay, Policy};
use homing_sched::app::{App, Catalogue, CORBALAN};
use homing_sched::layout::Hardware;
use homing_sched::manager::table::{self, Settings};
use homing_sched::manager::Manager;
use homing_sched::outcome::Outcome;
use homing_sched::partition::file::{self, Partition};
use homing_sched::partition::Partitioned;
use homing_sched::simulate::{self, Setup, Stuck};
use homing_sched::swf::Log;
use homing_sched::workload::{Arriving, Lengths, Mix, Workload};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name that stands for pages which stay where they are.
pub const NO_POLICY: &str = "none";

/// What arrives.
#[derive(Clone, Debug)]
pub enum Jobs {
    /// A mix of applications, at some loads.
    Mix {
        /// Applications.
        apps: Vec<App>,
        /// Their shares.
        mix: Mix,
        /// Loads, 1 for all processors busy.
        loads: Vec<f64>,
        /// Number of jobs at a load of 1, instead of the mix's.
        jobs: Option<u32>,
        /// Lengths of jobs.
        lengths: Lengths,
    },
    /// The jobs of a log.
    Log {
        /// The log.
        log: Log,
        /// Applications that executables of the log behave as.
        like: BTreeMap<i64, App>,
    },
}

/// What is simulated: every load under every manager with every policy, once for each seed.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machine.
    pub machine: Machine,
    /// What arrives.
    pub jobs: Jobs,
    /// Names of managers.
    pub managers: Vec<String>,
    /// Names of page policies, or [`NO_POLICY`].
    pub policies: Vec<String>,
    /// Parameters of policies, POLICY.PARAM=VALUE.
    pub set: Vec<String>,
    /// What managers are told.
    pub settings: Settings,
    /// Partitions of the machine; a manager has those that name none.
    pub partitions: Vec<Partition>,
    /// Seconds over which the demand of partitions is measured.
    pub window_s: f64,
    /// Mean seconds of a burst of a time-shared thread.
    pub burst_s: f64,
    /// Seconds between two decisions of the page policy.
    pub interval_s: f64,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Whether to keep who ran where.
    pub pictures: bool,
}

/// One simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The load that was asked for; that of the log where one is played.
    pub load_percent: f64,
    /// The manager.
    pub manager: String,
    /// The page policy.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// What came of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The applications and mixes of a file, or of Corbalan 2003.
pub fn catalogue(file: Option<(&str, &str)>) -> Result<Catalogue> {
    let (name, text) = file.unwrap_or(("corbalan-2003", CORBALAN));
    App::read(text, name).map_err(PipelineError::usage)
}

/// Simulates, on all cores. Results stand in the order of loads, managers, policies and seeds.
pub fn run(request: &Request) -> Result<Vec<Cell>> {
    let hardware = Hardware::new(&request.machine).map_err(PipelineError::usage)?;
    let values = policies::settings(&request.set)?;
    file::check(&request.partitions, &hardware.layout).map_err(PipelineError::usage)?;
    if !request.partitions.is_empty() {
        request.managers.iter().try_for_each(|name| file::can_manage(name)).map_err(PipelineError::usage)?;
    }
    for name in request.policies.iter().filter(|name| *name != NO_POLICY) {
        policies::policy(name)?;
    }
    let mut cells = Vec::new();
    for load in loads(&request.jobs) {
        for manager in &request.managers {
            let manager = table::find(manager).ok_or_else(|| {
                let names: Vec<_> = table::MANAGERS.iter().map(|entry| entry.name).collect();
                PipelineError::usage(format!("no manager `{manager}`: there are {}", names.join(", ")))
            })?;
            for policy in &request.policies {
                cells.extend(request.seeds.iter().map(|&seed| (load, manager, policy, seed)));
            }
        }
    }
    let each = |(load, manager, policy, seed): (Option<f64>, &table::Entry, &String, u64)| -> Result<Cell> {
        let workload = workload(request, &hardware, load, seed)?;
        let mut built = built(request, manager, &hardware);
        let mut moving = page_policy(policy, &hardware, &values)?;
        let setup = Setup {
            workload: &workload,
            hardware: &hardware,
            burst_s: request.burst_s,
            interval_s: request.interval_s,
            seed,
            pictures: request.pictures,
        };
        let outcome = simulate::run(&setup, &mut *built, &mut *moving).map_err(|stuck| match stuck {
            Stuck::Long { .. } => PipelineError::usage(stuck),
            stuck => PipelineError::Failed(stuck.to_string()),
        })?;
        let load_percent = 100.0 * load.unwrap_or_else(|| workload.load(&hardware));
        Ok(Cell { load_percent, manager: manager.name.into(), policy: policy.clone(), seed, outcome })
    };
    cells.into_par_iter().map(each).collect()
}

/// A manager of the machine, or those of its partitions.
fn built(request: &Request, entry: &table::Entry, hardware: &Hardware) -> Box<dyn Manager> {
    match request.partitions.is_empty() {
        true => (entry.build)(request.settings),
        false => {
            let partitions = request.partitions.clone();
            let (settings, window_s, move_s) = (request.settings, request.window_s, hardware.move_s);
            Box::new(Partitioned::of(&hardware.layout, partitions, entry, settings, window_s, move_s))
        }
    }
}

fn loads(jobs: &Jobs) -> Vec<Option<f64>> {
    match jobs {
        Jobs::Mix { loads, .. } => loads.iter().copied().map(Some).collect(),
        Jobs::Log { .. } => vec![None],
    }
}

fn workload(request: &Request, hardware: &Hardware, load: Option<f64>, seed: u64) -> Result<Workload> {
    let mut workload = match (&request.jobs, load) {
        (Jobs::Mix { apps, mix, jobs, lengths, .. }, Some(load)) => {
            let arriving = Arriving { load, jobs: *jobs, lengths: *lengths, seed };
            Workload::generate(mix, apps, hardware, arriving).map_err(PipelineError::usage)?
        }
        (Jobs::Log { log, like }, _) => Workload::of_log(log, like, hardware.layout.cpus() as u32, hardware),
        (Jobs::Mix { .. }, None) => unreachable!("a mix has loads"),
    };
    let log = match &request.jobs {
        Jobs::Log { log, .. } => Some(log),
        Jobs::Mix { .. } => None,
    };
    workload.divide(&request.partitions, log).map_err(PipelineError::usage)?;
    Ok(workload)
}

fn page_policy(name: &str, hardware: &Hardware, values: &Values) -> Result<Box<dyn Policy>> {
    if name == NO_POLICY {
        return Ok(Box::new(Stay));
    }
    Ok(policies::policy(name)?.make(&hardware.costs, false, values))
}
