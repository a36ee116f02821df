//! What reports say about machines, traces and parameters.

use crate::model::Model;
use crate::policies::is_machine;
use crate::trace_file::TraceFile;
use homing_core::cache::Counts;
use homing_core::compare::BoundStart;
use homing_core::history::History;
use homing_core::ids::PageSize;
use homing_core::machine::{Costs, Machine};
use homing_core::policy::settings::Settings;
use homing_core::policy::table::Entry;
use homing_core::report::{MachineInfo, Parameter, TraceInfo};
use homing_trace::Trace;

/// Where the bound begins, as a parameter.
pub fn bound_start(start: BoundStart) -> Parameter {
    Parameter { name: "bound-start".into(), value: start.to_string() }
}

/// What the report says about a trace.
pub fn trace_info(
    file: &TraceFile,
    trace: &Trace<'_>,
    history: &History,
    partial: bool,
    caches: Option<Counts>,
) -> TraceInfo {
    let header = trace.header();
    let reads = history.reads();
    TraceInfo {
        name: file.name.clone(),
        digest: format!("{:016x}", xxhash_rust::xxh3::xxh3_64(file.bytes())),
        command: header.command.clone(),
        recorder: header.recorder.clone(),
        references: history.references(),
        reads,
        writes: history.references() - reads,
        threads: trace.threads().count() as u64,
        pages: u64::from(history.pages()),
        complete: !partial,
        caches,
    }
}

/// What the report says about a machine.
pub fn machine_info(machine: &Machine, costs: &Costs, page_size: PageSize) -> MachineInfo {
    let mut info = MachineInfo {
        name: machine.name().into(),
        description: machine.summary().into(),
        memories: costs.memories(),
        global_node: costs.global_node().map(|node| node.0),
        page_size: page_size.bytes(),
        ..MachineInfo::default()
    };
    match costs {
        Costs::Uniform(uniform) => {
            info.remote = Some(uniform.remote);
            info.page_move = Some(uniform.page_move);
            info.global = uniform.global.map(|global| global.access);
            info.global_page_move = uniform.global.map(|global| global.page_move);
        }
        Costs::General(general) => {
            let rows =
                |matrix: &[f64]| matrix.chunks(usize::from(general.nodes)).map(<[f64]>::to_vec).collect();
            info.access = rows(&general.access);
            info.copy = rows(&general.copy);
        }
    }
    info
}

/// Every parameter of a run, as the manifest has it.
pub fn parameters(
    model: &Model,
    page_size: PageSize,
    placement: Option<&str>,
    replication: bool,
    policies: &[&Entry],
    settings: &Settings,
) -> Vec<Parameter> {
    let mut all = vec![
        ("machine".to_owned(), model.machine.clone()),
        ("page-size".to_owned(), page_size.to_string()),
        ("threads-on".to_owned(), model.threads_on.to_string()),
        ("placement".to_owned(), placement.unwrap_or("as the policy begins").to_owned()),
        ("replication".to_owned(), replication.to_string()),
        ("misses".to_owned(), model.misses.to_string()),
    ];
    all.extend(model.set.iter().filter(|set| is_machine(set)).map(|set| ("set".to_owned(), set.clone())));
    for entry in policies {
        all.extend(settings.of(entry).all().into_iter().map(|(name, value)| (name, value.to_string())));
    }
    all.into_iter().map(|(name, value)| Parameter { name, value }).collect()
}
