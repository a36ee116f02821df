//! What `simulate` and `compare` share: a trace laid over a machine, placements and policy parameters from the command
//! line, and what the report says about machine and trace.

use crate::exit::{self, Code};
use crate::files::read_text;
use crate::input::{lay, Laid, ModelArgs, TraceFile};
use crate::scene::SceneArgs;
use anyhow::Context;
use homing_core::action::NodeSet;
use homing_core::areas::{self, Located};
use homing_core::cache::Counts;
use homing_core::compare::{BoundStart, CompareError};
use homing_core::history::History;
use homing_core::ids::{Page, PageSize};
use homing_core::machine::{Costs, Machine};
use homing_core::policy::placement::{Placement, PlacementFile};
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{self, Begin, Entry};
use homing_core::report::{MachineInfo, Parameter, TraceInfo};
use homing_core::timeline::Timeline;
use homing_core::trace::Trace;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

/// True if a `--set` is for a machine, not for a policy.
pub fn is_machine(setting: &str) -> bool {
    let key = setting.split('=').next().unwrap_or_default();
    key.split_once('.').is_none_or(|(first, _)| table::find(first).is_none())
}

/// The parameters of policies among `--set`.
pub fn settings(sets: &[String]) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    for set in sets.iter().filter(|set| !is_machine(set)) {
        settings.set(set).map_err(|e| exit::error(Code::USAGE, e))?;
    }
    Ok(settings)
}

/// A placement from the command line, with its file read.
#[derive(Clone, Debug)]
pub struct Begins {
    placement: Placement,
    /// The file's pages are found by their data areas.
    by_area: bool,
}

impl Begins {
    /// The placement by address.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// The placement of a trace's pages.
    pub fn of(&self, trace: &Trace<'_>, history: &History) -> Cow<'_, Placement> {
        match &self.placement {
            Placement::File(file) if self.by_area => {
                Cow::Owned(Placement::File(file.by_area(&located(trace, history), history.page_size())))
            }
            placement => Cow::Borrowed(placement),
        }
    }
}

/// Where a trace's pages lie in its data areas.
pub fn located(trace: &Trace<'_>, history: &History) -> Vec<Located> {
    let addresses = (0..history.pages()).map(|page| history.address(Page(page)));
    areas::locate(trace, addresses, history.page_size().bytes())
}

/// Reads a placement: a rule, `file:FILE` (by address) or `areas:FILE` (by data area).
pub fn begins(text: &str) -> anyhow::Result<Begins> {
    let (path, by_area) = match (text.strip_prefix("file:"), text.strip_prefix("areas:")) {
        (Some(path), _) => (path, false),
        (_, Some(path)) => (path, true),
        _ => {
            let placement = text.parse().map_err(|e: String| exit::error(Code::USAGE, e))?;
            return Ok(Begins { placement, by_area: false });
        }
    };
    if path.is_empty() {
        let message = format!("placement `{text}`: expected the name of a file behind the colon");
        return Err(exit::error(Code::USAGE, message));
    }
    let text = read_text(Path::new(path), "placement file")?;
    let file = PlacementFile::parse(&text).with_context(|| path.to_owned())?;
    if by_area && !file.has_areas() {
        let message = format!(
            "{path} names no data areas; write it by `homing simulate --placement-out` from a trace that has names"
        );
        return Err(exit::error(Code::USAGE, message));
    }
    Ok(Begins { placement: Placement::File(file), by_area })
}

/// Fails if the machine is too large to simulate, or the machine or a policy cannot begin as the user said.
pub fn check(
    machine: &Machine,
    placement: Option<&Placement>,
    costs: &Costs,
    policies: &[&Entry],
) -> anyhow::Result<()> {
    let (memories, most) = (costs.memories(), NodeSet::CAPACITY);
    if memories > most {
        let message = format!(
            "machine {}: {memories} memories (its `nodes`, and global memory): policies are simulated on at most \
            {most}; expected \
             fewer, or `homing optimal`, which takes more",
            machine.name()
        );
        return Err(exit::error(Code::USAGE, message));
    }
    if let Some(placement) = placement {
        placement.check(costs).map_err(|e| exit::error(Code::USAGE, e))?;
    }
    let has_file = matches!(placement, Some(Placement::File(_)));
    if !has_file && policies.iter().any(|entry| matches!(entry.begin, Begin::File)) {
        return Err(exit::error(Code::USAGE, CompareError::NoFile.to_string()));
    }
    Ok(())
}

/// A policy by name.
pub fn policy(name: &str) -> anyhow::Result<&'static Entry> {
    table::find(name).ok_or_else(|| {
        if name.starts_with("external:") {
            let message = format!(
                "policy `{name}`: expected a policy of homing's own here (see `homing policies`); a process can be the \
                policy of \
                 `homing simulate` without --monitor only"
            );
            return exit::error(Code::USAGE, message);
        }
        let names: Vec<_> = table::POLICIES.iter().map(|entry| entry.name).collect();
        exit::error(Code::USAGE, format!("no policy `{name}`: expected one of {}", names.join(", ")))
    })
}

/// Fails if a list has something twice: its rows could not be told apart. `what` is one of the list.
pub fn each_once(what: &str, names: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(name.clone())) {
        Some(name) => Err(exit::error(
            Code::USAGE,
            format!("{what} `{name}` is named twice: expected each {what} once"),
        )),
        None => Ok(()),
    }
}

/// Where the bound begins, as a parameter.
pub fn bound_start(start: BoundStart) -> Parameter {
    Parameter { name: "bound-start".into(), value: start.to_string() }
}

/// A trace laid over a machine at one page size.
pub struct Study {
    /// The machine's costs at that page size.
    pub costs: Costs,
    /// The page runs.
    pub history: History,
    /// The file is damaged or unfinished.
    pub partial: bool,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What the caches counted, if references went through them.
    pub caches: Option<Counts>,
    /// What happens besides references.
    pub timeline: Timeline,
    /// Where pages begin, if the user said it.
    pub placement: Option<Placement>,
}

impl Study {
    /// Lays `trace` over `machine`. `read_gap`: at most this, for sweeps; else what is exact for the machine.
    pub fn new(
        model: &ModelArgs,
        scene: &SceneArgs,
        machine: &Machine,
        trace: &Trace<'_>,
        page_size: PageSize,
        read_gap: Option<u32>,
    ) -> anyhow::Result<Study> {
        let costs = machine.costs(page_size).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
        let gap = costs.read_gap().min(read_gap.unwrap_or(u32::MAX));
        let mut binding = model.binding(machine)?;
        let scheduled = scene.schedule(trace, machine, &mut binding)?;
        let misses =
            model.misses.then(|| crate::input::misses(machine, trace, &binding, page_size)).transpose()?;
        let Laid { history, partial, notes, caches, mut marks, .. } =
            lay(trace, &binding, page_size, gap, model.memory, misses)?;
        marks.extend(scheduled);
        let timeline = scene.timeline(marks, history.duration());
        Ok(Study { costs, history, partial, notes, caches, timeline, placement: None })
    }

    /// The same with pages that begin as the user said.
    pub fn begun(mut self, begins: Option<&Begins>, trace: &Trace<'_>) -> Study {
        self.placement = begins.map(|begins| begins.of(trace, &self.history).into_owned());
        self
    }
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
    model: &ModelArgs,
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
