//! The machine model and how traces are laid over it.

use crate::error::{PipelineError, Result};
use crate::threads;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::hierarchy::HierarchyError;
use homing_core::cache::misses::Misses;
use homing_core::cache::{Addresses, HierarchyShape};
use homing_core::history::{Binding, ThreadsOn};
use homing_core::ids::{parse_bytes, Cpu, Node, PageSize};
use homing_core::machine::{Costs, Machine, TimePrices};
use homing_core::time::Mover;
use homing_linux::files::read_text;
use homing_trace::{Trace, FRAME_BYTES};
use std::path::Path;

/// Memory for page histories, unless the user says another.
pub const MEMORY: &str = "8G";

/// The machine model and how a trace is laid over it.
#[derive(Clone, Debug)]
pub struct Model {
    /// A name from `homing machines`, a TOML file, or `host`.
    pub machine: String,
    /// Overrides: a field of the machine, such as remote=15, or a policy's parameter (POLICY.PARAM=VALUE).
    pub set: Vec<String>,
    /// Page sizes; the machine's if there is none.
    pub page_size: Vec<PageSize>,
    /// CPUs that threads run on; [`threads::by_default`] where the user does not say it.
    pub threads_on: Option<ThreadsOn>,
    /// Bytes of memory for page histories; what is beyond goes to a temporary file.
    pub memory: u64,
    /// Whether the machine's caches filter the references first. Prices are in time then, if the machine has times.
    pub misses: bool,
    /// Whose time page moves take, where times are modelled.
    pub mover: Mover,
}

/// A number of bytes, as options have it.
pub fn bytes(text: &str) -> std::result::Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected a size such as 512M or 8G"))
}

impl Model {
    /// All references of a trace on a machine, with the defaults of the command line.
    pub fn of(machine: &str) -> Model {
        Model {
            machine: machine.to_owned(),
            set: Vec::new(),
            page_size: Vec::new(),
            threads_on: None,
            memory: parse_bytes(MEMORY).expect("the default is a size"),
            misses: false,
            mover: Mover::default(),
        }
    }

    /// The machine with the overrides that `is_machine` says are its own.
    pub fn machine(&self, is_machine: impl Fn(&str) -> bool) -> Result<Machine> {
        let mut machine = load_machine(&self.machine)?;
        for setting in self.set.iter().filter(|s| is_machine(s)) {
            machine.set(setting).map_err(PipelineError::usage)?;
        }
        Ok(machine)
    }

    /// The page size: the first one asked for, or the machine's.
    pub fn page_size(&self, machine: &Machine) -> PageSize {
        self.page_size.first().copied().unwrap_or(machine.page_size())
    }

    /// Fails if several page sizes were asked for.
    pub fn one_page_size(&self) -> Result<()> {
        match self.page_size.len() {
            0 | 1 => Ok(()),
            _ => Err(PipelineError::usage("--page-size: expected one size; `homing compare` takes several")),
        }
    }

    /// What accesses and moves cost on the machine at a page size: in time if the references go through caches and the
    /// machine has times, else in the reference model.
    pub fn costs(&self, machine: &Machine, page_size: PageSize) -> Result<Costs> {
        let costs =
            if self.misses { machine.costs_behind_caches(page_size) } else { machine.costs(page_size) };
        costs.map_err(PipelineError::usage)
    }

    /// Prices in time for threads on `cpus` CPUs; none if references count.
    pub fn time_prices(
        &self,
        machine: &Machine,
        page_size: PageSize,
        cpus: usize,
    ) -> Result<Option<TimePrices>> {
        if !self.misses {
            return Ok(None);
        }
        machine.time_prices(page_size, self.mover, cpus).map_err(PipelineError::usage)
    }

    /// CPUs that threads run on.
    pub fn threads_on(&self, machine: &Machine) -> ThreadsOn {
        self.threads_on.clone().unwrap_or_else(|| threads::by_default(machine))
    }

    /// Which node each thread of a trace runs on.
    pub fn binding(&self, machine: &Machine, trace: &Trace<'_>) -> Result<Binding> {
        let nodes = cpu_nodes(machine);
        let threads_on = match self.threads_on(machine) {
            ThreadsOn::Busy => match threads::busy(trace).in_turn(&nodes) {
                none if none.is_empty() => ThreadsOn::Busy,
                cpus => ThreadsOn::List(cpus),
            },
            other => other,
        };
        threads_on.bind(&nodes).map_err(PipelineError::Usage)
    }
}

/// The node of each CPU of a machine.
pub fn cpu_nodes(machine: &Machine) -> Vec<Node> {
    (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0))).collect()
}

/// What reaches memory when references go through the machine's caches first; a usage error if its file has none.
pub fn misses(
    machine: &Machine,
    trace: &Trace<'_>,
    binding: &Binding,
    page_size: PageSize,
) -> Result<Misses> {
    let shape = hierarchy(machine, page_size)?;
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), binding);
    let addresses = Addresses::new(page_size, &frames(trace));
    Misses::new(&shape, cpus, addresses, rayon::current_num_threads()).map_err(|error| {
        let message = error.to_string();
        match error {
            HierarchyError::TooManyCpus(_) => PipelineError::Usage(message),
            HierarchyError::TooMuchMemory(..) => PipelineError::Failed(message),
        }
    })
}

/// The machine's caches and TLBs.
pub fn hierarchy(machine: &Machine, page_size: PageSize) -> Result<HierarchyShape> {
    let missing = || {
        let name = machine.name();
        PipelineError::Usage(format!(
            "machine `{name}` has no section [hierarchy]: docs/memory-system.md says what stands in it"
        ))
    };
    machine.hierarchy(page_size).map_err(PipelineError::usage)?.ok_or_else(missing)
}

/// The CPUs that a trace's threads run on.
pub fn cpus(trace: &Trace<'_>, binding: &Binding) -> CpusInUse {
    CpusInUse::new(trace.threads().map(|(thread, _)| thread), binding)
}

/// The pages of a trace.
pub fn addresses(trace: &Trace<'_>, page_size: PageSize) -> Addresses {
    Addresses::new(page_size, &frames(trace))
}

/// The virtual address of each frame of a trace, in frame order.
pub fn frames(trace: &Trace<'_>) -> Vec<u64> {
    trace.frames().iter().map(|page| page.wrapping_mul(FRAME_BYTES)).collect()
}

/// A machine by name or file, or this one.
pub fn load_machine(name: &str) -> Result<Machine> {
    if name == "host" {
        return crate::host::machine();
    }
    if let Some(machine) = Machine::builtin(name) {
        return Ok(machine);
    }
    if !name.ends_with(".toml") && !Path::new(name).exists() {
        let names: Vec<_> = Machine::builtin_names().collect();
        let message =
            format!("no machine `{name}`: expected a TOML file, `host`, or one of {}", names.join(", "));
        return Err(PipelineError::Usage(message));
    }
    let text = read_text(Path::new(name), "machine file")?;
    Machine::from_toml(&text, name).map_err(PipelineError::usage)
}
