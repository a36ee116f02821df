//! What `run`, `shell` and `baseline` share: options that say which machine the lab shall be and how its kernel is set,
//! and kinds of values.

use crate::names;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use homing_core::ids::parse_bytes;
pub use homing_lab::batch::duration;
use homing_lab::kernel::{Balancing, HugePages, Kernel};
use homing_lab::observer::Delay;
use homing_lab::topology::{memory, Size, Topology};
use homing_lab::LabError;

/// The machine.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    /// A built-in topology (see `homing lab topologies`) or a TOML file [default: 4x2]
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["nodes", "cpus", "mem", "distances"],
          value_parser = names::TOPOLOGY, hide_possible_values = true)]
    topology: Option<String>,
    /// Number of nodes [default: 4, or as many as a file of distances has]
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
    /// Number of CPUs of the whole machine, dealt out evenly [default: 8]
    #[arg(long, value_name = "N")]
    cpus: Option<u32>,
    /// Memory of the whole machine, dealt out evenly [default: 4G]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    mem: Option<u64>,
    /// Distances between nodes: full, ring, mesh, hypercube, or a file with a matrix [default: full]
    #[arg(long, value_name = "SHAPE|FILE")]
    distances: Option<String>,
    /// QEMU's model of the CPU; `max` has all that the emulator knows (AVX2) and boots more slowly
    #[arg(long, value_name = "MODEL", default_value = "Nehalem")]
    cpu_model: String,
}

impl MachineArgs {
    /// The machine that the options describe.
    pub fn topology(&self) -> Result<Topology, LabError> {
        let MachineArgs { nodes, cpus, mem, distances, .. } = self.clone();
        if nodes.is_none() && cpus.is_none() && mem.is_none() && distances.is_none() {
            return Topology::load(self.topology.as_deref().unwrap_or("4x2"));
        }
        Topology::of_size(&Size { nodes, cpus, memory: mem, distances })
    }

    /// QEMU's model of the CPU.
    pub fn cpu_model(&self) -> &str {
        &self.cpu_model
    }
}

/// Delays of accesses.
#[derive(clap::Args, Clone, Debug)]
pub struct DelayArgs {
    /// Delay each access (with a cache: each miss) by its latency in the topology, times this
    #[arg(long, value_name = "SCALE", num_args = 0..=1, default_missing_value = "10", require_equals = true,
          value_parser = positive)]
    delay: Option<f64>,
    /// With --delay: a memory is busy for NS nanoseconds with each access, and others wait meanwhile
    #[arg(long, value_name = "NS", requires = "delay", value_parser = positive)]
    busy: Option<f64>,
}

impl DelayArgs {
    /// The delays asked for.
    pub fn delay(&self) -> Option<Delay> {
        self.delay.map(|scale| Delay { scale, busy_ns: self.busy })
    }
}

/// How the guest's kernel is set.
#[derive(clap::Args, Clone, Debug)]
pub struct KernelArgs {
    /// The kernel's own NUMA balancing: off, on with its defaults, or scanning ten times as fast
    #[arg(long, value_parser = named(&Balancing::NAMES), default_value = "on")]
    balancing: Balancing,
    /// Transparent huge pages
    #[arg(long, value_parser = named(&HugePages::NAMES), default_value = "always")]
    thp: HugePages,
    /// Set a kernel variable before the command starts, such as vm.zone_reclaim_mode=1
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    sysctl: Vec<(String, String)>,
    /// Write to a file of the guest's /proc or /sys before the command starts
    #[arg(long, value_name = "FILE=VALUE", value_parser = assignment)]
    tune: Vec<(String, String)>,
}

/// One of these names.
pub fn named<T: Copy + Send + Sync + 'static>(
    names: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let value = |text: String| names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    PossibleValuesParser::new(names.iter().map(|(name, _)| *name))
        .map(move |text| value(text).expect("no other names are possible"))
}

impl KernelArgs {
    /// What they say.
    pub fn kernel(&self) -> Kernel {
        let KernelArgs { balancing, thp, sysctl, tune } = self.clone();
        Kernel { balancing, huge_pages: thp, variables: sysctl, files: tune }
    }
}

/// A size.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected a size such as 128K or 1M"))
}

/// A number above 0.
fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}`: expected a number above 0"))
}

/// NAME=VALUE.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}`: expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
