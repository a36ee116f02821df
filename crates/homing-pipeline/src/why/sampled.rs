//! The diagnosis of samples: of processes that run, or of a file of perf.

use crate::error::{PipelineError, Result};
use crate::info;
use crate::manifest::GENERATOR;
use homing_core::areas::Areas;
use homing_core::ids::{Node, PageSize};
use homing_core::machine::Machine;
use homing_core::report::process::SampledReport;
use homing_core::report::why::{Basis, WhyReport};
use homing_core::report::{Parameter, TraceInfo};
use homing_core::why::process::{signs, ProcessFacts};
use homing_core::why::samples::{facts, held_share, Sampled};
use homing_core::why::{self, Setup};

/// What was sampled.
pub struct Samples {
    /// What was looked at: `process 12`.
    pub name: String,
    /// Command lines of the processes.
    pub command: Vec<String>,
    /// The source.
    pub source: String,
    /// The file that has the samples, and where it was recorded; `None`: this machine.
    pub recorded: Option<String>,
    /// It counts references that reached memory.
    pub behind_caches: bool,
    /// Threads that were seen.
    pub threads: u64,
    /// The pages.
    pub pages: Vec<Sampled>,
    /// Names of areas, by number.
    pub names: Vec<String>,
    /// Facts of the processes, but for what their pages could save.
    pub process: ProcessFacts,
    /// Every parameter.
    pub parameters: Vec<Parameter>,
    /// What else a reader must know.
    pub notes: Vec<String>,
}

/// Diagnoses samples on a machine.
///
/// # Errors
/// If the machine makes no sense.
pub fn diagnose(machine: &Machine, samples: Samples) -> Result<WhyReport> {
    let costs = match samples.behind_caches {
        true => machine.costs_behind_caches(PageSize::KIB4),
        false => machine.costs(PageSize::KIB4),
    };
    let costs = costs.map_err(PipelineError::usage)?;
    let facts = facts(&samples.pages, &costs);
    let areas = Areas {
        names: samples.names,
        of_page: samples.pages.iter().map(|page| page.area).collect(),
        ..Areas::default()
    };
    let setup = Setup {
        facts: &facts,
        costs: &costs,
        areas: &areas,
        cpus: &[],
        // Samples of a huge page are not told apart by its parts.
        small_pages: None,
        times: None,
        behind_caches: samples.behind_caches,
    };
    let diagnosis = why::diagnose(&setup);
    let references: u64 = facts.iter().map(|page| page.references()).sum();
    let held_share = Some(held_share(&samples.pages, &facts));
    // With one sample a page nobody knows who shares it, and the bound promises too little.
    let seen: u64 = samples.pages.iter().flat_map(|page| &page.seen).copied().map(u64::from).sum();
    let at_most = (seen >= 2 * facts.len() as u64).then_some(diagnosis.at_most);
    let process = ProcessFacts { held_share, at_most, ..samples.process };
    let used = |by: usize| facts.iter().any(|page| page.by_node[by] > 0);
    let notes = samples.notes;
    let sampled = SampledReport {
        source: samples.source.clone(),
        recorded: samples.recorded,
        seconds: process.seconds,
        samples: process.local + process.nonlocal,
    };
    let basis = Basis {
        generator: GENERATOR.into(),
        behind_caches: samples.behind_caches,
        replication: false,
        shares: None,
        threads_on: "where they ran".into(),
        nodes_in_use: (0..diagnosis.before.rows().len()).filter(|&by| used(by)).count() as u64,
        machine: info::machine_info(machine, &costs, PageSize::KIB4),
        trace: TraceInfo {
            name: samples.name,
            command: samples.command,
            recorder: format!("sampled: {}", samples.source),
            references,
            threads: samples.threads,
            pages: samples.pages.iter().map(|page| page.stands_for).sum(),
            complete: true,
            ..TraceInfo::default()
        },
        cpus_of_node_0: super::cpus_list(machine.cpus_of(Node(0))),
        sampled: Some(sampled),
        process: signs(&process).iter().map(Into::into).collect(),
        parameters: samples.parameters,
        notes,
        busy: None,
        doubt: None,
    };
    Ok(WhyReport::new(&diagnosis, basis))
}
