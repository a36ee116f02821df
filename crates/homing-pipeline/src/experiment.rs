//! An experiment as a value: which machine, how traces are laid over it, where pages begin, what policies see. Looked
//! up, it is ready for traces.

use crate::case::Case;
use crate::chosen::Choice;
use crate::error::{PipelineError, Result};
use crate::info;
use crate::layout::Layout;
use crate::model::Model;
use crate::placement::{begins, Begins};
use crate::policies::{is_machine, settings};
use crate::progress::Progress;
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
use homing_core::report::{MachineInfo, Parameter};
use homing_trace::Trace;

/// What is asked of traces.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The machine, and how traces are laid over it.
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
    /// Which references are looked at.
    pub choice: Choice,
    /// Whether who refers to what in which phase is counted, too: [`Layout::usage`].
    pub usage: bool,
    /// Who is shown how far reading is.
    pub progress: Progress,
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
    /// What the command line asks unless the user says more: policies see all references of a trace on a machine.
    pub fn new(model: Model) -> Experiment {
        Experiment {
            model,
            scene: Scene::default(),
            placement: None,
            replication: true,
            bound_start: BoundStart::default(),
            information: Information::PERFECT,
            choice: Choice::default(),
            usage: false,
            progress: Progress::default(),
        }
    }

    /// Looks up what the bound alone needs, which takes larger machines than policies do.
    ///
    /// # Errors
    /// If the machine is unknown, or a parameter of a policy is set.
    pub fn for_bound(self) -> Result<Ready> {
        if let Some(setting) = self.model.set.iter().find(|setting| !is_machine(setting)) {
            return Err(PipelineError::Usage(format!(
                "--set {setting}: the optimum has no policy; expected a field of the machine, such as remote=15"
            )));
        }
        self.look_up()
    }

    /// Looks up everything, with the policies, which may depend on where pages begin.
    ///
    /// # Errors
    /// If a name is unknown, or machine and policies cannot begin as the user said.
    pub fn ready(
        self,
        policies: impl FnOnce(Option<&Placement>) -> Result<Vec<&'static Entry>>,
    ) -> Result<Ready> {
        let mut ready = self.look_up()?;
        ready.policies = policies(ready.begins.as_ref().map(Begins::placement))?;
        ready.check(ready.begins.as_ref())?;
        Ok(ready)
    }

    /// Looks up everything but policies.
    pub(crate) fn look_up(self) -> Result<Ready> {
        let machine = self.model.machine(is_machine)?;
        let settings = settings(&self.model.set)?;
        let begins = self.placement.as_deref().map(begins).transpose()?;
        let page_size = self.model.page_size(&machine);
        let costs = self.model.costs(&machine, page_size)?;
        Ok(Ready { experiment: self, machine, costs, page_size, settings, begins, policies: Vec::new() })
    }
}

impl Ready {
    /// Opens the trace in a file and lays it over the machine. `read_gap`: the most reads in a page run, for
    /// sweeps; else what is exact for the machine.
    pub fn case<'a>(&'a self, file: &'a TraceFile, read_gap: Option<u32>) -> Result<Case<'a>> {
        naming(Case::new(self, file, read_gap), &file.path)
    }

    /// Lays a trace over the machine at a page size. `read_gap` as for [`Ready::case`].
    pub fn lay_out(&self, trace: &Trace<'_>, page_size: PageSize, read_gap: Option<u32>) -> Result<Layout> {
        Layout::new(&self.experiment, &self.machine, self.begins.as_ref(), trace, page_size, read_gap)
    }

    /// Whether pages may have several copies as far as the user and the caches are concerned; the machine may still
    /// not allow it.
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
            windows: &layout.windows,
            settings: &self.settings,
            in_time: layout.prices.is_some(),
        }
    }

    /// What reports say about the machine.
    pub fn machine_info(&self) -> MachineInfo {
        info::machine_info(&self.machine, &self.costs, self.page_size)
    }

    /// The parameters that results of policies have. `replication`: whether pages had several copies.
    pub fn parameters(&self, replication: bool) -> Vec<Parameter> {
        let placement = self.experiment.placement.as_deref().unwrap_or("as the policy begins");
        let mut all = info::parameters(self, placement, replication);
        all.push(info::parameter("bound-start", self.experiment.bound_start));
        all
    }

    /// Fails if the machine is too large to simulate, or the machine or a policy cannot begin so.
    pub(crate) fn check(&self, begins: Option<&Begins>) -> Result<()> {
        let (memories, most) = (self.costs.memories(), NodeSet::CAPACITY);
        if memories > most {
            let message = format!(
                "machine {}: {memories} memories (its `nodes`, and global memory): policies are simulated on at most \
                 {most}; expected fewer, or `homing optimal`, which takes more",
                self.machine.name()
            );
            return Err(PipelineError::Usage(message));
        }
        let placement = begins.map(Begins::placement);
        if let Some(placement) = placement {
            placement.check(&self.costs).map_err(PipelineError::Usage)?;
        }
        let has_file = matches!(placement, Some(Placement::File(_)));
        if !has_file && self.policies.iter().any(|entry| matches!(entry.begin, Begin::File)) {
            return Err(PipelineError::Usage(CompareError::NoFile.to_string()));
        }
        Ok(())
    }
}
