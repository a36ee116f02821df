//! What reports say about machines, traces and parameters.

use crate::experiment::Ready;
use crate::layout::Layout;
use crate::policies::is_machine;
use crate::trace_file::TraceFile;
use homing_core::ids::PageSize;
use homing_core::machine::{Costs, Machine};
use homing_core::policy::settings::Settings;
use homing_core::policy::table::Entry;
use homing_core::report::{MachineInfo, Parameter, TraceInfo};
use homing_trace::Trace;

/// A parameter of a manifest.
pub(crate) fn parameter(name: &str, value: impl ToString) -> Parameter {
    Parameter { name: name.into(), value: value.to_string() }
}

/// What policies see, as a parameter.
pub(crate) fn information(levels: impl IntoIterator<Item = impl ToString>) -> Parameter {
    parameter("info", levels.into_iter().map(|level| level.to_string()).collect::<Vec<_>>().join(","))
}

/// What the report says about a trace.
pub(crate) fn trace_info(file: &TraceFile, trace: &Trace<'_>, layout: &Layout) -> TraceInfo {
    let (header, history) = (trace.header(), &layout.history);
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
        complete: !layout.partial,
        caches: layout.caches,
    }
}

/// What the report says about a machine.
pub(crate) fn machine_info(machine: &Machine, costs: &Costs, page_size: PageSize) -> MachineInfo {
    let mut info = MachineInfo {
        name: machine.name().into(),
        description: machine.summary().into(),
        memories: costs.memories(),
        node_ids: machine.node_ids().to_vec(),
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

/// Every parameter of a run, as the manifest has it. `placement`: where pages begin, in words.
pub(crate) fn parameters(ready: &Ready, placement: &str, replication: bool) -> Vec<Parameter> {
    let Ready { experiment, page_size, policies, settings, .. } = ready;
    let model = &experiment.model;
    let mut all = vec![
        parameter("machine", &model.machine),
        parameter("page-size", page_size),
        parameter("threads-on", model.threads_on(&ready.machine)),
        parameter("placement", placement),
        parameter("replication", replication),
        parameter("misses", model.misses),
        parameter("mover", model.mover),
    ];
    all.extend(model.set.iter().filter(|set| is_machine(set)).map(|set| parameter("set", set)));
    all.extend(experiment.choice.phase.iter().map(|phase| parameter("phase", phase)));
    all.extend(experiment.choice.threads.iter().map(|threads| parameter("only-threads", threads)));
    all.extend(experiment.choice.since.map(|since| parameter("since", since.0)));
    all.extend(policies.iter().flat_map(|entry| policy(settings, entry)));
    all
}

/// The parameters of a policy.
pub(crate) fn policy(settings: &Settings, entry: &Entry) -> impl Iterator<Item = Parameter> {
    settings.of(entry).all().into_iter().map(|(name, value)| Parameter { name, value: value.to_string() })
}
