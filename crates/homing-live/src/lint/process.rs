//! The rules about a process.

use super::{list, mib, text, Finding, Roots, Sure};
use homing_linux::proc::numa_maps::{strict, Range};
use homing_linux::proc::task::Confinement;
use homing_linux::proc::{Pid, Proc, ProcError, Tid};
use homing_linux::topology::Topology;
use std::collections::{BTreeMap, BTreeSet};

/// One thread.
struct Thread {
    /// CPUs that it may use.
    cpus: Vec<u32>,
    /// The one that it ran on last.
    last: u32,
    /// Seconds that it ran, and how often it went to another CPU; none if the kernel does not say.
    ran: Option<(f64, f64)>,
}

/// What the rules look at.
struct Facts {
    topology: Topology,
    threads: Vec<Thread>,
    /// Of its first thread.
    confinement: Confinement,
    ranges: Vec<Range>,
    /// `Seccomp` of its status.
    seccomp: Option<u32>,
}

/// All rules, in the order in which findings are shown.
const RULES: &[fn(&Facts) -> Option<Finding>] =
    &[memory_unbound, memory_away, pinned, confined, filtered, wandering];

/// What is found on a process.
///
/// # Errors
/// If it is not there, or may not be looked at. A machine whose nodes cannot be read has no findings.
pub fn process(roots: &Roots, pid: Pid) -> Result<Vec<Finding>, ProcError> {
    let proc = Proc::at(&roots.proc);
    let confinement = proc.confinement(pid, Tid(pid.0))?;
    let ranges = proc.numa_maps(pid)?;
    let Ok(topology) = Topology::read(&roots.sys) else { return Ok(Vec::new()) };
    let mut threads = Vec::new();
    for tid in proc.tasks(pid)? {
        // It may have ended meanwhile.
        let (Ok(may), Ok(stat)) = (proc.confinement(pid, tid), proc.stat(pid, tid)) else { continue };
        let sched = text(&proc.path(pid, &format!("task/{tid}/sched")));
        threads.push(Thread { cpus: may.cpus, last: stat.processor, ran: sched.as_deref().and_then(ran) });
    }
    let status = text(&proc.path(pid, "status")).unwrap_or_default();
    let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:")?.trim().parse().ok());
    let facts = Facts { topology, threads, confinement, ranges, seccomp };
    Ok(RULES.iter().filter_map(|rule| rule(&facts)).collect())
}

/// Seconds and migrations in `/proc/PID/task/TID/sched`.
fn ran(sched: &str) -> Option<(f64, f64)> {
    let field = |name: &str| {
        let line = sched.lines().find(|line| line.starts_with(name))?;
        line.rsplit(':').next()?.trim().parse::<f64>().ok()
    };
    Some((field("se.sum_exec_runtime")? / 1000.0, field("se.nr_migrations")?))
}

impl Facts {
    fn node_of(&self, cpu: u32) -> Option<u32> {
        self.topology.nodes.iter().find(|node| node.cpus.contains(&cpu)).map(|node| node.id)
    }

    /// Nodes on whose CPUs threads may run.
    fn allowed(&self) -> BTreeSet<u32> {
        self.threads.iter().flat_map(|thread| &thread.cpus).filter_map(|&cpu| self.node_of(cpu)).collect()
    }

    /// Nodes on whose CPUs they ran last.
    fn ran_on(&self) -> BTreeSet<u32> {
        self.threads.iter().filter_map(|thread| self.node_of(thread.last)).collect()
    }

    /// Nodes that have CPUs.
    fn with_cpus(&self) -> BTreeSet<u32> {
        self.topology.nodes.iter().filter(|node| !node.cpus.is_empty()).map(|node| node.id).collect()
    }

    /// Nodes whose memory it may use.
    fn memories(&self) -> BTreeSet<u32> {
        match self.confinement.memories.is_empty() {
            true => self.topology.nodes.iter().map(|node| node.id).collect(),
            false => self.confinement.memories.iter().copied().collect(),
        }
    }

    /// Bytes of its own memory by node: without files and libraries, which others use as well.
    fn bytes(&self) -> BTreeMap<u32, u64> {
        let mut bytes = BTreeMap::new();
        for range in self.ranges.iter().filter(|range| range.anonymous > 0) {
            range.bytes().for_each(|(node, more)| *bytes.entry(node).or_insert(0) += more);
        }
        bytes
    }

    /// Bytes on other nodes than these, and in all.
    fn outside(&self, nodes: &BTreeSet<u32>) -> (u64, u64) {
        let bytes = self.bytes();
        let away = bytes.iter().filter(|(node, _)| !nodes.contains(node)).map(|(_, bytes)| bytes).sum();
        (away, bytes.values().sum())
    }

    /// A cpuset keeps the memory off all nodes where threads may run: it is away wherever it is.
    fn apart(&self) -> bool {
        let allowed = self.allowed();
        !allowed.is_empty() && self.memories().is_disjoint(&allowed)
    }

    /// The policies (`MPOL_BIND`) that keep memory off these nodes, if they hold most of what is elsewhere.
    fn bound_away_from(&self, nodes: &BTreeSet<u32>) -> Option<String> {
        let away = |range: &&Range| {
            strict(&range.policy).is_some_and(|bound| !bound.iter().any(|node| nodes.contains(node)))
        };
        let own = self.ranges.iter().filter(|range| range.anonymous > 0);
        let (mut bytes, mut policies) = (0, BTreeSet::new());
        for range in own.filter(away) {
            bytes += range.bytes().map(|(_, bytes)| bytes).sum::<u64>();
            policies.insert(range.policy.clone());
        }
        let most = 2 * bytes > self.outside(nodes).0;
        most.then(|| policies.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// All threads are held on some nodes' CPUs, and no policy or cpuset holds the memory there. Returns these nodes.
    fn cpus_alone_are_bound(&self) -> Option<BTreeSet<u32>> {
        let allowed = self.allowed();
        let held = !allowed.is_empty() && allowed != self.with_cpus();
        let own = self.ranges.iter().filter(|range| range.anonymous > 0);
        let free = own.clone().any(|range| range.bound_to().is_none());
        let elsewhere = !self.memories().is_subset(&allowed) && !self.apart();
        (held && free && elsewhere).then_some(allowed)
    }
}

/// Less than this share of the memory does not matter.
const SOME: f64 = 0.1;
/// Where a process has less memory than this it does not matter where it is.
const LEAST: u64 = 1 << 20;

fn share(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

fn memory_unbound(facts: &Facts) -> Option<Finding> {
    let allowed = facts.cpus_alone_are_bound()?;
    let (away, all) = facts.outside(&allowed);
    if all < LEAST {
        return None;
    }
    let is_away = share(away, all) >= SOME;
    Some(Finding {
        name: "memory-unbound",
        what: format!(
            "its CPUs are bound to node {}, its memory is not{}",
            list(allowed),
            if is_away {
                ", and part of it is elsewhere"
            } else {
                ": it goes elsewhere once that node is full"
            }
        ),
        evidence: format!(
            "Cpus_allowed_list of all threads; no policy in numa_maps; {} of {} is on other nodes",
            mib(away),
            mib(all)
        ),
        advice: "bind both: numactl --cpunodebind=N --membind=N (or --preferred=N), or cpuset.mems \
            beside cpuset.cpus; what is elsewhere by now: migratepages PID all N",
        sure: if is_away { Sure::Certain } else { Sure::Possible },
    })
}

fn memory_away(facts: &Facts) -> Option<Finding> {
    if facts.cpus_alone_are_bound().is_some() || facts.apart() {
        // That is why.
        return None;
    }
    let (allowed, ran_on) = (facts.allowed(), facts.ran_on());
    let (never, all) = facts.outside(&allowed);
    let (now, _) = facts.outside(&ran_on);
    if all < LEAST {
        return None;
    }
    let certain = !allowed.is_empty() && share(never, all) >= SOME;
    if !certain && (ran_on.is_empty() || share(now, all) < 2.0 * SOME) {
        return None;
    }
    let (away, nodes) = if certain { (never, allowed) } else { (now, ran_on) };
    let policies = facts.bound_away_from(&nodes);
    let shown = policies.as_ref().map_or(String::new(), |policies| format!("; numa_maps shows {policies}"));
    Some(Finding {
        name: "memory-away",
        what: "part of its memory is on nodes where none of its threads is".into(),
        evidence: format!(
            "{} of {} is not on node {}, where its threads {}{shown}",
            mib(away),
            mib(all),
            list(nodes),
            if certain { "are bound to" } else { "ran last" }
        ),
        advice: match policies {
            Some(_) => {
                "its memory policy keeps it there: bind memory and CPUs to the same nodes (numactl \
                 --cpunodebind=N --membind=N, or the program's own mbind); homing attach moves no page out of MPOL_BIND"
            }
            None => {
                "homing why --pid says what it costs; homing attach --pid brings it to the threads, \
                 migratepages moves all"
            }
        },
        sure: if certain { Sure::Certain } else { Sure::Possible },
    })
}

fn pinned(facts: &Facts) -> Option<Finding> {
    let bytes = facts.confinement.pinned;
    (bytes > 0 && facts.topology.nodes.len() > 1).then(|| Finding {
        name: "pinned",
        what: format!("{} of its memory is pinned for a device: nothing can move that", mib(bytes)),
        evidence: "VmPin of its status".into(),
        advice: "place it before it is pinned: mbind(2), or start the program with numactl --membind \
            or --interleave",
        sure: Sure::Certain,
    })
}

fn confined(facts: &Facts) -> Option<Finding> {
    let (memories, all) = (facts.memories(), facts.topology.nodes.len());
    if facts.apart() {
        let (memories, cpus) = (list(memories), list(facts.allowed()));
        return Some(Finding {
            name: "confined",
            what: format!(
                "a cpuset lets it use memory of node {memories} alone, and CPUs of node {cpus} alone: all of its \
                 memory is away"
            ),
            evidence: "Mems_allowed_list of its status names no node of Cpus_allowed_list of its threads".into(),
            advice: "give its cgroup cpuset.mems and cpuset.cpus of the same nodes (docker: --cpuset-mems, \
                     --cpuset-cpus); numactl, migratepages and homing cannot put the memory elsewhere",
            sure: Sure::Certain,
        });
    }
    (memories.len() < all).then(|| Finding {
        name: "confined",
        what: format!(
            "a cpuset lets it use memory of node {} alone: policies for other nodes fail",
            list(memories)
        ),
        evidence: "Mems_allowed_list of its status".into(),
        advice: "if that is not meant: cpuset.mems of its cgroup (docker: --cpuset-mems)",
        sure: Sure::Certain,
    })
}

/// `SECCOMP_MODE_FILTER`.
const FILTER: u32 = 2;

fn filtered(facts: &Facts) -> Option<Finding> {
    let filtered = facts.seccomp == Some(FILTER) && facts.topology.nodes.len() > 1;
    filtered.then(|| Finding {
        name: "filtered",
        what: "a filter of system calls is on: it may forbid mbind, set_mempolicy and move_pages".into(),
        evidence: "Seccomp is 2 in its status; docker's own profile forbids them without \
            CAP_SYS_NICE"
            .into(),
        advice: "docker: --cap-add SYS_NICE, or a seccomp profile with these calls; try: numactl \
            --interleave=all true inside",
        sure: Sure::Possible,
    })
}

/// CPU seconds below which nothing is said.
const RAN: f64 = 1.0;
/// Changes of the CPU in a second of running.
const OFTEN: f64 = 10.0;

fn wandering(facts: &Facts) -> Option<Finding> {
    // Those that are held on one node cannot leave it.
    let free = facts.threads.iter().filter(|thread| {
        thread.cpus.iter().filter_map(|&cpu| facts.node_of(cpu)).collect::<BTreeSet<_>>().len() > 1
    });
    let often: Vec<(f64, f64)> = free
        .filter_map(|thread| thread.ran)
        .filter(|(seconds, migrations)| *seconds >= RAN && migrations / seconds >= OFTEN)
        .collect();
    let &(seconds, migrations) = often.iter().max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    Some(Finding {
        name: "wandering",
        what: format!(
            "{} of {} threads go from CPU to CPU, and may leave their memory",
            often.len(),
            facts.threads.len()
        ),
        evidence: format!(
            "/proc/PID/task/TID/sched: up to {:.0} changes in a second of running; whether between nodes is not said",
            migrations / seconds
        ),
        advice: "bind them (OMP_PROC_BIND=true, numactl --cpunodebind), and ask homing why --pid, \
            which looks at nodes",
        sure: Sure::Possible,
    })
}
