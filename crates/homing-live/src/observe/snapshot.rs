//! One look at the machine, as tables and JSON show it. Nodes have the kernel's numbers.

use homing_linux::proc::{Pid, Tid};
use serde::{Serialize, Serializer};

/// Version of the JSON.
pub const SCHEMA: u32 = 1;

/// One look.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Version of this structure.
    pub schema: u32,
    /// Since the look before; 0 for the first, which knows no rates.
    pub seconds: f64,
    /// The nodes, by number.
    pub nodes: Vec<NodeRow>,
    /// Moves and hint faults of the whole machine, whoever made them.
    pub moves: Moves,
    /// The processes, by number.
    pub processes: Vec<ProcessRow>,
    /// CPU time of the observer itself since it began.
    pub own_cpu_seconds: f64,
    /// Processes whose pages wait to be looked at, because looking may only cost so much.
    pub waiting: usize,
}

/// A node.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NodeRow {
    /// The kernel's number.
    pub node: u32,
    /// Its CPUs; 0 for a memory-only node.
    pub cpus: usize,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// ... that is free.
    pub free_bytes: Option<u64>,
    /// Threads of the processes looked at that run there.
    pub threads: u64,
    /// Resident bytes there of the processes looked at.
    pub resident_bytes: u64,
    /// ... of processes with a thread on the node.
    pub with_threads_bytes: u64,
    /// `with_threads_bytes` of `resident_bytes`.
    pub residency_percent: Option<f64>,
}

/// Counters of `/proc/vmstat`, a second; absent where the kernel does not count or before the second look.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Moves {
    /// Pages moved.
    pub moved_per_second: Option<f64>,
    /// ... by the kernel's NUMA balancing.
    pub balanced_per_second: Option<f64>,
    /// Pages that did not move though somebody asked.
    pub failed_per_second: Option<f64>,
    /// Hint faults.
    pub hint_faults_per_second: Option<f64>,
}

/// A process.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProcessRow {
    /// Its number.
    #[serde(serialize_with = "pid")]
    pub pid: Option<Pid>,
    /// Its name.
    pub name: String,
    /// Its command line.
    pub command: String,
    /// Number of threads.
    pub threads: u32,
    /// CPU time since the look before, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// True if this user may not look at its pages.
    pub denied: bool,
    /// Its pages; absent until they have been looked at.
    pub pages: Option<Pages>,
}

fn pid<S: Serializer>(pid: &Option<Pid>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(pid.map_or(0, |pid| pid.0))
}

/// Where a process's pages and threads are.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pages {
    /// Age of this knowledge.
    pub age_seconds: f64,
    /// What looking cost.
    pub cost_ms: f64,
    /// Resident bytes by node.
    pub bytes: Vec<OnNode>,
    /// Share of the resident pages on nodes where its threads run. Says nothing of accesses.
    pub residency_percent: Option<f64>,
    /// Threads by node, those that ran since the look before; if none did, all by where they ran last.
    pub threads: Vec<OnNode>,
    /// Regions with most pages.
    pub regions: Vec<RegionRow>,
    /// Regions that are not listed.
    pub regions_left_out: usize,
    /// Static data with most pages: parts of the regions of programs and libraries. Only of a process shown in detail.
    pub symbols: Vec<SymbolRow>,
    /// Smaller static data of a page or more that is not listed.
    pub symbols_left_out: usize,
    /// The threads; of a process that is not shown in detail, none.
    pub tasks: Vec<TaskRow>,
}

/// A number of things on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnNode {
    /// The kernel's number.
    pub node: u32,
    /// How many.
    pub count: u64,
}

/// A region of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RegionRow {
    /// `heap#0`, `anonymous#3`, or a file's name.
    pub name: String,
    /// What it holds: heap, stack, anonymous, page-cache, ...
    pub class: &'static str,
    /// Memory policy, as the kernel writes it.
    pub policy: String,
    /// First address.
    pub start: u64,
    /// Resident bytes by node.
    pub bytes: Vec<OnNode>,
}

impl RegionRow {
    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        resident(&self.bytes)
    }
}

fn resident(bytes: &[OnNode]) -> u64 {
    bytes.iter().map(|on| on.count).sum()
}

/// Static data of a process, at least a page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SymbolRow {
    /// Its name, as the linker knows it.
    pub name: String,
    /// The program or library.
    pub file: String,
    /// First address.
    pub start: u64,
    /// Bytes, resident or not.
    pub size: u64,
    /// True if not every page was looked at: the resident bytes are an estimate.
    pub sampled: bool,
    /// Resident bytes by node.
    pub bytes: Vec<OnNode>,
}

impl SymbolRow {
    /// Resident bytes.
    pub fn resident(&self) -> u64 {
        resident(&self.bytes)
    }
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TaskRow {
    /// Its number.
    #[serde(serialize_with = "tid")]
    pub tid: Tid,
    /// Its name.
    pub name: String,
    /// R, S, D, ...
    pub state: char,
    /// The CPU on which it ran last.
    pub cpu: u32,
    /// That CPU's node.
    pub node: Option<u32>,
    /// True if it ran since the look before.
    pub ran: bool,
}

fn tid<S: Serializer>(tid: &Tid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(tid.0)
}
