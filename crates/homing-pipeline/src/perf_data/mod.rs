//! The diagnosis of a file of perf: `perf mem record`, `perf c2c record`, and what else records data addresses.
//!
//! [`judge`] takes the way that samples of a running process take, from [`Samples`] on. Before it, [`gather`] reads the
//! file, [`spaces`] follows what processes map, [`nodes`] says which node a CPU is on and what memories cost, [`homes`]
//! says where pages are, [`names`] what their data are called; [`notes`] says what was not seen.

mod gather;
mod homes;
mod names;
mod nodes;
mod notes;
mod pages;
mod spaces;

pub use gather::{gather, of, Access, Gathered, Unused};
pub use nodes::{Latencies, Nodes};

use crate::error::{PipelineError, Result};
use crate::why::sampled::{diagnose, Samples};
use homing_core::report::why::WhyReport;
use homing_core::report::Parameter;
use homing_core::why::process::ProcessFacts;
use homing_linux::visible;
use homing_trace::perf_data::looks_so;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is asked of a file.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The file.
    pub path: PathBuf,
    /// A machine model instead of what the file says.
    pub machine: Option<String>,
    /// The process: its number, its name, or `all`; the one with most samples if nobody says it.
    pub process: Option<String>,
    /// A directory with the programs and libraries that were recorded.
    pub symfs: Option<PathBuf>,
}

/// A diagnosis, and whether the file is damaged or cut.
pub struct Judged {
    /// The diagnosis.
    pub report: WhyReport,
    /// Something of the file could not be read.
    pub partial: bool,
}

/// Diagnoses a file.
///
/// # Errors
/// If it is no file of perf, holds nothing that says where data are, or needs a machine or another process to be named.
pub fn judge(asked: &Asked) -> Result<Judged> {
    let gathered = gather(&asked.path)?;
    let named = nodes::named(asked.machine.as_deref())?;
    let nodes = Nodes::of(&gathered, named.as_ref())?;
    let latencies = nodes::latencies(&gathered);
    let machine = match named {
        Some(machine) => machine,
        None => nodes.machine(&gathered, latencies)?,
    };
    let chosen = choose(&gathered, asked.process.as_deref())?;
    let found = pages::take(&gathered, &nodes, &chosen, asked.symfs.as_deref());
    if found.pages.is_empty() {
        return Err(PipelineError::Failed(nowhere(asked, &found)));
    }
    let samples = samples(asked, &gathered, &nodes, latencies, &chosen, found);
    let mut report = diagnose(&machine, samples)?;
    if nodes.ids.len() == 1 {
        report.sentence = "Not NUMA: the machine that it was recorded on has one memory node.".into();
    }
    let counts = gathered.contents.counts;
    Ok(Judged { report, partial: counts.cut || counts.malformed > 0 })
}

/// Why no page can be judged.
fn nowhere(asked: &Asked, found: &pages::Found) -> String {
    let name = asked.path.display();
    if found.pages.is_empty() && found.no_cpu > 0 && found.nowhere == 0 {
        return format!(
            "{name}: its samples do not say on which CPU they were taken: expected `perf mem record`, `perf c2c \
             record`, or `perf record -d --sample-cpu`"
        );
    }
    format!(
        "{name}: none of its samples says where its page is: expected a file of `perf mem record` or `perf c2c \
         record`, or physical addresses (`--phys-data`, as root)"
    )
}

/// The places of the spaces that are judged: by number, by name, all, or the one with most samples.
fn choose(gathered: &Gathered, process: Option<&str>) -> Result<BTreeSet<usize>> {
    let mut samples: BTreeMap<usize, u64> = BTreeMap::new();
    gathered.accesses.iter().for_each(|access| *samples.entry(access.space).or_default() += 1);
    let most = samples.iter().max_by_key(|&(&space, &count)| (count, std::cmp::Reverse(space)));
    let Some(wanted) = process else {
        return Ok(most.map(|(&space, _)| space).into_iter().collect());
    };
    let space = |space: usize| &gathered.spaces.all[space];
    let is_wanted = |&at: &usize| {
        wanted == "all"
            || space(at).name == wanted
            || wanted.parse().is_ok_and(|pid: i32| space(at).pid == pid)
    };
    let chosen: BTreeSet<usize> = samples.keys().copied().filter(is_wanted).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let mut known: Vec<(u64, usize)> = samples.into_iter().map(|(at, count)| (count, at)).collect();
    known.sort_by_key(|&(count, at)| (std::cmp::Reverse(count), at));
    let known: Vec<String> = known.iter().take(notes::NAMED).map(|&(_, at)| called(gathered, at)).collect();
    Err(PipelineError::Usage(format!(
        "--process {wanted}: the file has no samples of it; it has those of {}",
        known.join(", ")
    )))
}

/// A process as people know it.
fn called(gathered: &Gathered, space: usize) -> String {
    let space = &gathered.spaces.all[space];
    match space.name.is_empty() {
        true => format!("process {}", space.pid),
        false => format!("{} ({})", visible::name(&space.name), space.pid),
    }
}

fn samples(
    asked: &Asked,
    gathered: &Gathered,
    nodes: &Nodes,
    latencies: Option<Latencies>,
    chosen: &BTreeSet<usize>,
    found: pages::Found,
) -> Samples {
    let facts = &gathered.contents.facts;
    let name = match chosen.len() {
        1 => chosen.iter().map(|&space| called(gathered, space)).collect(),
        several => format!("{several} processes"),
    };
    let events: BTreeSet<&str> = gathered
        .accesses
        .iter()
        .filter_map(|access| gathered.contents.events.get(access.sample.event))
        .map(|event| event.name.as_str())
        .collect();
    let source = format!("perf.data: {}", events.into_iter().collect::<Vec<_>>().join(", "));
    let processor = facts.processor.as_deref().unwrap_or("unknown processor");
    let file = asked.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Samples {
        name,
        command: facts.command.clone(),
        source,
        recorded: Some(format!("{file}, {processor}")),
        behind_caches: gathered.behind_caches,
        threads: found.threads,
        process: ProcessFacts {
            seconds: found.seconds,
            local: found.local,
            nonlocal: found.nonlocal,
            ..ProcessFacts::default()
        },
        parameters: parameters(asked, gathered, nodes, latencies),
        notes: notes::of(asked, gathered, nodes, latencies, chosen, &found),
        pages: found.pages,
        names: found.names,
    }
}

fn parameters(
    asked: &Asked,
    gathered: &Gathered,
    nodes: &Nodes,
    latencies: Option<Latencies>,
) -> Vec<Parameter> {
    let facts = &gathered.contents.facts;
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".into());
    let number = |latency: Option<f64>| latency.map_or("unknown".into(), |latency| format!("{latency:.0}"));
    let ids: Vec<String> = nodes.ids.iter().map(u32::to_string).collect();
    let all = [
        ("process", asked.process.clone().unwrap_or_else(|| "the one with most samples".into())),
        ("machine", asked.machine.clone().unwrap_or_else(|| "as the file says".into())),
        ("perf", or_unknown(&facts.version)),
        ("architecture", or_unknown(&facts.architecture)),
        ("nodes", ids.join(",")),
        ("local-latency-cycles", number(latencies.map(|found| found.local))),
        ("remote-latency-cycles", number(latencies.map(|found| found.remote))),
    ];
    let counted = notes::counted(gathered).into_iter().map(|(name, count, _)| (name, count.to_string()));
    let all = all.into_iter().chain(counted);
    all.map(|(name, value)| Parameter { name: name.into(), value }).collect()
}

/// Reads whether a file begins as one of perf's does, of any version and byte order.
pub fn is_perf_data(path: &Path) -> bool {
    use std::io::Read;
    let mut magic = [0; 8];
    let regular = path.metadata().is_ok_and(|facts| facts.is_file());
    let read = || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    regular && { read }().is_ok() && looks_so(&magic)
}

#[cfg(test)]
mod tests;
