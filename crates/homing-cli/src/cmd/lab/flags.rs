//! Which machine the lab shall be and how its kernel is set: options that `run`, `shell` and `baseline` share.

use super::coded;
use crate::exit::{self, Code};
use homing_lab::topology::{distances_from_text, memory, Shape, Topology};

/// The machine.
#[derive(clap::Args, Clone, Debug)]
pub struct MachineArgs {
    /// A built-in topology (see `homing lab topologies`) or a TOML file [default: 4x2]
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["nodes", "cpus", "mem", "distances"])]
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
    pub fn topology(&self) -> anyhow::Result<Topology> {
        let by_size =
            self.nodes.is_some() || self.cpus.is_some() || self.mem.is_some() || self.distances.is_some();
        if !by_size {
            return Topology::load(self.topology.as_deref().unwrap_or("4x2")).map_err(coded);
        }
        let how = self.distances.as_deref().unwrap_or("full");
        let (nodes, distances) = match how.parse::<Shape>() {
            Ok(shape) => {
                let nodes = self.nodes.unwrap_or(4);
                (nodes, shape.distances(nodes as usize).map_err(|e| exit::error(Code::USAGE, e))?)
            }
            Err(expected) => {
                let wrong = |what: String| exit::error(Code::USAGE, format!("--distances {how}: {what}"));
                let text = std::fs::read_to_string(how)
                    .map_err(|error| wrong(format!("{expected}, or a file: {error}")))?;
                let matrix = distances_from_text(&text, how).map_err(coded)?;
                let (rows, nodes) = (matrix.len(), self.nodes.unwrap_or(matrix.len() as u32));
                if rows != nodes as usize || rows == 0 || matrix.iter().any(|row| row.len() != rows) {
                    let columns = matrix.iter().map(Vec::len).max().unwrap_or(0);
                    let found = format!("{rows} rows of up to {columns} numbers");
                    let wanted =
                        self.nodes.map_or("as many of each".into(), |n| format!("{n} of each, as --nodes"));
                    return Err(wrong(format!("{found}: expected {wanted}")));
                }
                (nodes, matrix)
            }
        };
        let cpus = self.cpus.unwrap_or(8.max(nodes));
        Topology::uniform(nodes, cpus, self.mem.unwrap_or(4 << 30), distances).map_err(coded)
    }

    /// QEMU's model of the CPU.
    pub fn cpu_model(&self) -> &str {
        &self.cpu_model
    }
}

/// How the guest's kernel is set.
#[derive(clap::Args, Clone, Debug)]
pub struct KernelArgs {
    /// The kernel's own NUMA balancing: off, on with its defaults, or scanning ten times as fast
    #[arg(long, value_enum, default_value = "on")]
    balancing: Balancing,
    /// Transparent huge pages
    #[arg(long, value_enum, default_value = "always")]
    thp: HugePages,
    /// Set a kernel variable before the command starts, such as vm.zone_reclaim_mode=1
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    sysctl: Vec<(String, String)>,
    /// Write to a file of the guest's /proc or /sys before the command starts
    #[arg(long, value_name = "FILE=VALUE", value_parser = assignment)]
    tune: Vec<(String, String)>,
    /// Add a word to the kernel's command line
    #[arg(long, value_name = "WORD")]
    kernel_arg: Vec<String>,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balancing {
    Off,
    On,
    Fast,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePages {
    Always,
    Madvise,
    Never,
}

impl HugePages {
    /// As the kernel calls it.
    pub fn word(self) -> &'static str {
        match self {
            HugePages::Always => "always",
            HugePages::Madvise => "madvise",
            HugePages::Never => "never",
        }
    }
}

impl KernelArgs {
    /// These settings and files that are written to.
    pub fn new(balancing: Balancing, thp: HugePages, tune: &[(String, String)]) -> KernelArgs {
        KernelArgs { balancing, thp, sysctl: Vec::new(), tune: tune.to_vec(), kernel_arg: Vec::new() }
    }

    /// Files and what is written to them.
    pub fn tunes(&self) -> Vec<(String, String)> {
        const BALANCING: &str = "/sys/kernel/debug/sched/numa_balancing";
        let mut all: Vec<(String, String)> = Vec::new();
        let mut put = |file: &str, value: &str| all.push((file.to_owned(), value.to_owned()));
        // Whoever measures in the lab is root there and may see all.
        put("/proc/sys/kernel/perf_event_paranoid", "-1");
        put("/proc/sys/kernel/kptr_restrict", "0");
        put("/proc/sys/kernel/numa_balancing", if self.balancing == Balancing::Off { "0" } else { "1" });
        if self.balancing == Balancing::Fast {
            put(&format!("{BALANCING}/scan_delay_ms"), "100");
            put(&format!("{BALANCING}/scan_period_min_ms"), "100");
        }
        put("/sys/kernel/mm/transparent_hugepage/enabled", self.thp.word());
        for (name, value) in &self.sysctl {
            put(&format!("/proc/sys/{}", name.replace('.', "/")), value);
        }
        all.extend(self.tune.iter().cloned());
        all
    }

    /// Words for the kernel's command line.
    pub fn words(&self) -> &[String] {
        &self.kernel_arg
    }
}

pub fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}`: expected NAME=VALUE"))?;
    Ok((name.to_owned(), value.to_owned()))
}
