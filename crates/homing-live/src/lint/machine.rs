//! The rules about the machine.

use super::{chosen, list, mib, number, text, Finding, Roots, Sure};
use homing_linux::proc::{Pid, Proc};
use homing_linux::topology::{parse_list, Topology, TopologyError};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the rules look at.
struct Facts<'a> {
    roots: &'a Roots,
    topology: Topology,
    /// Nodes of each tier of memory, as far as the kernel says it (Linux 6.1).
    tiers: Vec<Vec<u32>>,
}

/// All rules, in the order in which findings are shown.
const RULES: &[fn(&Facts<'_>) -> Option<Finding>] = &[
    node_without_memory,
    one_tier,
    not_promoted,
    not_demoted,
    zone_reclaim,
    balancing_of_bound,
    defragments,
    khugepaged,
    huge_pages,
    sub_numa,
];

/// What is found on the machine.
///
/// # Errors
/// If its nodes cannot be read.
pub fn machine(roots: &Roots) -> Result<Vec<Finding>, TopologyError> {
    let facts = Facts { roots, topology: Topology::read(&roots.sys)?, tiers: tiers(roots) };
    Ok(RULES.iter().filter_map(|rule| rule(&facts)).collect())
}

fn tiers(roots: &Roots) -> Vec<Vec<u32>> {
    let Ok(entries) = roots.sys.join("devices/virtual/memory_tiering").read_dir() else { return Vec::new() };
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("memory_tier"))
    };
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(named).collect();
    folders.sort();
    let nodes = |folder: &PathBuf| parse_list(&text(&folder.join("nodelist"))?);
    folders.iter().filter_map(nodes).filter(|nodes| !nodes.is_empty()).collect()
}

impl Facts<'_> {
    fn several_nodes(&self) -> bool {
        self.topology.nodes.len() > 1
    }

    /// Bytes of memory of a node.
    fn memory(&self, node: u32) -> Option<u64> {
        let meminfo = text(&self.roots.sys.join(format!("devices/system/node/node{node}/meminfo")))?;
        let line = meminfo.lines().find(|line| line.contains(" MemTotal:"))?;
        Some(line.split_whitespace().rev().nth(1)?.parse::<u64>().ok()? * 1024)
    }

    /// Whether a node has CPUs.
    fn has_cpus(&self, id: u32) -> bool {
        self.topology.nodes.iter().any(|node| node.id == id && !node.cpus.is_empty())
    }

    fn balancing(&self) -> u64 {
        number(&self.roots.proc.join("sys/kernel/numa_balancing")).unwrap_or(0)
    }

    fn huge(&self, file: &str) -> PathBuf {
        self.roots.sys.join("kernel/mm/transparent_hugepage").join(file)
    }
}

fn node_without_memory(facts: &Facts<'_>) -> Option<Finding> {
    let nodes = facts.topology.nodes.iter().filter(|node| !node.cpus.is_empty());
    let empty: Vec<u32> = nodes.map(|node| node.id).filter(|&node| facts.memory(node) == Some(0)).collect();
    (facts.several_nodes() && !empty.is_empty()).then(|| Finding {
        name: "node-without-memory",
        what: format!(
            "CPUs of node {} have no memory of their own: all that they use is remote",
            list(empty.clone())
        ),
        evidence: format!("MemTotal is 0 in /sys/devices/system/node/node{}/meminfo", empty[0]),
        advice: "put memory modules beside that socket, or bring its memory on line \
            (/sys/devices/system/memory); until then bind programs to the other nodes' CPUs",
        sure: Sure::Certain,
    })
}

fn one_tier(facts: &Facts<'_>) -> Option<Finding> {
    let mixed = |nodes: &&Vec<u32>| {
        nodes.iter().any(|&node| facts.has_cpus(node)) && nodes.iter().any(|&node| !facts.has_cpus(node))
    };
    let tier = facts.tiers.iter().find(mixed)?;
    let only: Vec<u32> = tier.iter().copied().filter(|&node| !facts.has_cpus(node)).collect();
    Some(Finding {
        name: "one-tier",
        what: format!(
            "memory without CPUs (node {}, as of CXL) is in one tier with that of CPUs: the kernel \
                takes it for equally fast, and promotes and demotes nothing",
            list(only)
        ),
        evidence: format!(
            "a nodelist under /sys/devices/virtual/memory_tiering is {}",
            list(tier.iter().copied())
        ),
        advice: "look for HMAT in the kernel's log: firmware that describes the memory, or Linux \
            6.8, gives it a tier of its own; until then place by hand (numactl \
            --weighted-interleave, homing rset)",
        sure: Sure::Certain,
    })
}

fn not_promoted(facts: &Facts<'_>) -> Option<Finding> {
    let balancing = facts.balancing();
    (facts.tiers.len() > 1 && balancing & 2 == 0).then(|| Finding {
        name: "not-promoted",
        what: "there are tiers of memory, but hot pages are not promoted to the fast one".into(),
        evidence: format!("/proc/sys/kernel/numa_balancing is {balancing}: the bit of tiers (2) is off"),
        advice: "echo 2 > /proc/sys/kernel/numa_balancing (3: balance between equal nodes as well)",
        sure: Sure::Certain,
    })
}

fn not_demoted(facts: &Facts<'_>) -> Option<Finding> {
    let enabled = text(&facts.roots.sys.join("kernel/mm/numa/demotion_enabled"))?;
    let off = matches!(enabled.as_str(), "0" | "false");
    (facts.tiers.len() > 1 && off).then(|| Finding {
        name: "not-demoted",
        what: "there are tiers of memory, but cold pages are not demoted: under pressure they are \
            swapped"
            .into(),
        evidence: format!("/sys/kernel/mm/numa/demotion_enabled is {enabled}"),
        advice: "echo 1 > /sys/kernel/mm/numa/demotion_enabled",
        sure: Sure::Certain,
    })
}

fn zone_reclaim(facts: &Facts<'_>) -> Option<Finding> {
    let mode = number(&facts.roots.proc.join("sys/vm/zone_reclaim_mode")).filter(|&mode| mode != 0)?;
    facts.several_nodes().then(|| Finding {
        name: "zone-reclaim",
        what: "a node that is full drops its file cache, or worse, before it takes memory of another \
            one"
        .into(),
        evidence: format!("/proc/sys/vm/zone_reclaim_mode is {mode}"),
        advice: "sysctl vm.zone_reclaim_mode=0, unless each program fits into one node and is bound \
            to it",
        sure: Sure::Likely,
    })
}

/// Processes that are looked at, the largest.
const LARGEST: usize = 8;
/// Smaller ones do not count.
const LARGE: u64 = 64 << 20;
/// The share of a process's memory that has to be bound.
const BOUND: f64 = 0.9;

fn balancing_of_bound(facts: &Facts<'_>) -> Option<Finding> {
    if !facts.several_nodes() || facts.balancing() & 1 == 0 {
        return None;
    }
    let proc = Proc::at(&facts.roots.proc);
    let resident = |pid: &Pid| Some((proc.status(*pid).ok()?.resident, *pid));
    let mut large: Vec<(u64, Pid)> = proc.processes().ok()?.iter().filter_map(resident).collect();
    large.retain(|(resident, _)| *resident >= LARGE);
    large.sort_by_key(|(resident, pid)| (std::cmp::Reverse(*resident), pid.0));
    large.truncate(LARGEST);
    let bound = |pid: &Pid| {
        let (mut all, mut bound) = (0, 0);
        for range in proc.numa_maps(*pid).ok()? {
            let bytes: u64 = range.bytes().map(|(_, bytes)| bytes).sum();
            all += bytes;
            bound += if range.bound_to().is_some() { bytes } else { 0 };
        }
        Some(bound as f64 >= BOUND * all as f64 && all > 0)
    };
    // One that may not be looked at says nothing.
    let known: Vec<bool> = large.iter().filter_map(|(_, pid)| bound(pid)).collect();
    let all = !known.is_empty() && known.len() == large.len() && known.iter().all(|bound| *bound);
    all.then(|| Finding {
        name: "balancing-of-bound",
        what: "the kernel's balancing is on, though all large programs are bound: it can move \
            nothing of them".into(),
        evidence: format!(
            "/proc/sys/kernel/numa_balancing is {}; in /proc/PID/numa_maps, {} % or more of each of the {} largest \
             processes (of {} and more) is bound",
            facts.balancing(),
            BOUND * 100.0,
            known.len(),
            mib(LARGE)
        ),
        advice: "echo 0 > /proc/sys/kernel/numa_balancing, if that is how the machine is always used",
        sure: Sure::Likely,
    })
}

fn defragments(facts: &Facts<'_>) -> Option<Finding> {
    let enabled = chosen(&facts.huge("enabled")).filter(|enabled| enabled != "never")?;
    let defrag = chosen(&facts.huge("defrag")).filter(|defrag| defrag == "always")?;
    Some(Finding {
        name: "huge-page-stalls",
        what: "each page fault that wants a huge page waits until memory is compacted for it".into(),
        evidence: format!("/sys/kernel/mm/transparent_hugepage has enabled={enabled} and defrag={defrag}"),
        advice: "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag (the kernel's default), \
            or defer+madvise",
        sure: Sure::Likely,
    })
}

/// The kernel's default is ten seconds.
const RESTLESS_MS: u64 = 1000;

fn khugepaged(facts: &Facts<'_>) -> Option<Finding> {
    chosen(&facts.huge("enabled")).filter(|enabled| enabled != "never")?;
    let sleep =
        number(&facts.huge("khugepaged/scan_sleep_millisecs")).filter(|&sleep| sleep < RESTLESS_MS)?;
    Some(Finding {
        name: "khugepaged-restless",
        what: "khugepaged joins pages all the time: that takes a CPU, and undoes homing's splits of \
            shared pages"
            .into(),
        evidence: format!("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs is {sleep}"),
        advice: "echo 10000 > /sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs \
            (the default)",
        sure: Sure::Likely,
    })
}

fn huge_pages(facts: &Facts<'_>) -> Option<Finding> {
    chosen(&facts.huge("enabled")).filter(|enabled| enabled == "always")?;
    facts.several_nodes().then(|| Finding {
        name: "huge-pages-always",
        what: "memory comes in huge pages whether programs ask or not: parts of several nodes may \
            share one"
            .into(),
        evidence: "/sys/kernel/mm/transparent_hugepage/enabled is always".into(),
        advice: "ask `homing why` or `homing try --ways small-pages` whether that costs; echo \
            madvise > /sys/kernel/mm/transparent_hugepage/enabled leaves it to the programs",
        sure: Sure::Possible,
    })
}

fn sub_numa(facts: &Facts<'_>) -> Option<Finding> {
    let mut sockets: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for node in &facts.topology.nodes {
        let Some(cpu) = node.cpus.first() else { continue };
        let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        if let Some(socket) = number(&facts.roots.sys.join(path)) {
            sockets.entry(socket).or_default().push(node.id);
        }
    }
    let (socket, nodes) = sockets.into_iter().find(|(_, nodes)| nodes.len() > 1)?;
    Some(Finding {
        name: "sub-numa",
        what: format!(
            "a socket has {} nodes (SNC of Intel, NPS of AMD): a node is not a socket here",
            nodes.len()
        ),
        evidence: format!("CPUs of nodes {} all have physical_package_id {socket}", list(nodes)),
        advice: "bind to all nodes of a socket where a socket is meant; whether the setting of the \
            firmware pays: homing compare --machine with each",
        sure: Sure::Certain,
    })
}
