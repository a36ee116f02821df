//! An experiment as a value: which machine, how traces are laid over it, where pages begin, what policies see. Looked up, it
//! is ready for traces; what all results begin and end with is here.

use crate::error::{PipelineError, Result};
use crate::info;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::model::Model;
use crate::placement::{begins, Begins};
use crate::policies::{is_machine, settings};
use crate::scene::Scene;
use crate::trace_file::{naming, TraceFile};
use homing_core::action::NodeSet;
use homing_core::compare::{BoundStart, CompareError, Subject};
use homing_core::ids::PageSize;
use homing_core::information::Information;
use homing_core::machine::{Costs, Machine};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{Begin, Entry};
use homing_core::report::{MachineInfo, Parameter, TraceInfo};
use homing_trace::Trace;

/// What is asked of traces.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The machine.
    pub model: Model,
    /// What happens around the references.
    pub scene: Scene,
    /// Where pages begin: a rule, `file:FILE` or `areas:FILE`; as the policy begins if nothing is said.
    pub placement: Option<String>,
    /// Whether pages may have several copies, where machine and caches allow it.
    pub replication: bool,
    /// Where the bound begins.
    pub bound_start: BoundStart,
    /// What policies see.
    pub information: Information,
}

/// An experiment whose names are looked up and whose files, but for traces, are read.
pub struct Ready {
    /// What was asked.
    pub experiment: Experiment,
    /// The machine with its overrides.
    pub machine: Machine,
    /// Its costs at the first page size.
    pub costs: Costs,
    /// That page size.
    pub page_size: PageSize,
    /// The parameters of policies.
    pub settings: Settings,
    /// Where pages begin.
    pub begins: Option<Begins>,
    /// The policies.
    pub policies: Vec<&'static Entry>,
}

impl Experiment {
    /// What the command line asks unless the user says more: all that policies could see, on a machine.
    pub fn new(model: Model) -> Experiment {
        Experiment {
            model,
            scene: Scene::default(),
            placement: None,
            replication: true,
            bound_start: BoundStart::default(),
            information: Information::PERFECT,
        }
    }

    /// Looks up what the bound needs, which takes larger machines than policies do.
    pub fn for_bound(self) -> Result<Ready> {
        let machine = self.model.machine(is_machine)?;
        let settings = settings(&self.model.set)?;
        let begins = self.placement.as_deref().map(begins).transpose()?;
        let costs = self.model.costs(&machine)?;
        let page_size = self.model.page_size(&machine);
        Ok(Ready { experiment: self, machine, costs, page_size, settings, begins, policies: Vec::new() })
    }

    /// Looks up everything, with the policies, which may depend on where pages begin.
    ///
    /// # Errors
    /// If a name is unknown, or machine and policies cannot begin as the user said.
    pub fn ready(
        self,
        policies: impl FnOnce(Option<&Placement>) -> Result<Vec<&'static Entry>>,
    ) -> Result<Ready> {
        let mut ready = self.for_bound()?;
        let given = ready.begins.as_ref().map(Begins::placement);
        let policies = policies(given)?;
        check(&ready.machine, given, &ready.costs, &policies)?;
        ready.policies = policies;
        Ok(ready)
    }
}

impl Ready {
    /// Lays a trace over the machine. `read_gap`: at most this, for sweeps; else what is exact for the machine.
    pub fn lay_out(&self, file: &TraceFile, trace: &Trace<'_>, read_gap: Option<u32>) -> Result<Layout> {
        naming(self.lay_out_at(trace, self.page_size, read_gap), &file.path)
    }

    /// The same at another page size.
    pub fn lay_out_at(
        &self,
        trace: &Trace<'_>,
        page_size: PageSize,
        read_gap: Option<u32>,
    ) -> Result<Layout> {
        let Experiment { model, scene, .. } = &self.experiment;
        let layout = Layout::new(model, scene, &self.machine, trace, page_size, read_gap)?;
        Ok(layout.begun(self.begins.as_ref(), trace))
    }

    /// Whether pages may have several copies as far as the user and the caches are concerned; the machine may still not
    /// allow it.
    pub fn replication(&self) -> bool {
        self.experiment.replication && !self.experiment.model.misses
    }

    /// What bounds and policies are asked about.
    pub fn subject<'a>(&'a self, layout: &'a Layout) -> Subject<'a> {
        Subject {
            history: &layout.history,
            costs: &layout.costs,
            machine: self.machine.name(),
            replication: self.replication(),
            placement: layout.placement.as_ref(),
            bound_start: self.experiment.bound_start,
            information: self.experiment.information,
            timeline: &layout.timeline,
            settings: &self.settings,
        }
    }

    /// What the report says about the machine.
    pub fn machine_info(&self) -> MachineInfo {
        info::machine_info(&self.machine, &self.costs, self.page_size)
    }

    /// What the report says about a trace.
    pub fn trace_info(&self, file: &TraceFile, trace: &Trace<'_>, layout: &Layout) -> TraceInfo {
        info::trace_info(file, trace, &layout.history, layout.partial, layout.caches)
    }

    /// The parameters that all results have.
    pub fn parameters(&self, replication: bool) -> Vec<Parameter> {
        let Experiment { model, placement, bound_start, .. } = &self.experiment;
        let (placement, policies) = (placement.as_deref(), &self.policies);
        let mut all =
            info::parameters(model, self.page_size, placement, replication, policies, &self.settings);
        all.push(info::bound_start(*bound_start));
        all
    }
}

/// Writes the manifest beside each of these results of a trace.
pub fn write_manifests<'a>(
    paths: impl IntoIterator<Item = &'a std::path::PathBuf>,
    machine: &MachineInfo,
    parameters: &[Parameter],
    trace: &TraceInfo,
) -> Result<()> {
    let manifest = Manifest::new(machine, parameters, vec![trace]);
    paths.into_iter().try_for_each(|path| manifest.write_beside(path))
}

/// Fails if the machine is too large to simulate, or the machine or a policy cannot begin as the user said.
pub fn check(
    machine: &Machine,
    placement: Option<&Placement>,
    costs: &Costs,
    policies: &[&Entry],
) -> Result<()> {
    let (memories, most) = (costs.memories(), NodeSet::CAPACITY);
    if memories > most {
        let message = format!(
            "machine {}: {memories} memories (its `nodes`, and global memory): policies are simulated on at most {most}; expected \
             fewer, or `homing optimal`, which takes more",
            machine.name()
        );
        return Err(PipelineError::Usage(message));
    }
    if let Some(placement) = placement {
        placement.check(costs).map_err(PipelineError::Usage)?;
    }
    let has_file = matches!(placement, Some(Placement::File(_)));
    if !has_file && policies.iter().any(|entry| matches!(entry.begin, Begin::File)) {
        return Err(PipelineError::Usage(CompareError::NoFile.to_string()));
    }
    Ok(())
}
