//! `homing evacuate` and `homing restore`: takes processes off a node, and gives it back.

use super::attach::Whom;
use crate::exit::{self, Code, Result};
use anyhow::Context;
use homing_core::ids::Node;
use homing_linux::private::{standard, Holder, Left, Private, PrivateLock};
use homing_linux::proc::{cgroup_processes, Pid, Proc};
use homing_live::evacuate::{evacuate, restore, Report, Restored, Was};
use homing_live::heirs::with_heirs;
use homing_live::host::Host;
use homing_live::targets::Choice;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Arguments of `homing evacuate`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Threads lose the node's CPUs (one that has no others gets those of all other nodes), then pages \
move to the nearest nodes where the threads may run, or farther ones if these are full or forbidden. Affinities are \
inherited and memory is allocated where threads run, so nothing new lands on the node, except under a memory policy of \
the process's own. Pages do not leave the nodes of MPOL_BIND and cpusets. Exit code 5: something is left, and the \
report says what. `homing restore NODE` gives threads their CPUs back.",
    mut_arg("pid", |pid| pid.required_unless_present("all"))
)]
pub struct Args {
    /// The node, by the kernel's number
    node: u32,
    #[command(flatten)]
    whom: Whom,
    /// All processes that this user may trace
    #[arg(long, conflicts_with_all = ["pid", "cgroup"])]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `homing restore`.
#[derive(clap::Args, Debug)]
pub struct RestoreArgs {
    /// The node, by the kernel's number
    node: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Evacuates.
pub fn run(args: Args) -> Result {
    let host = Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
    let node = node_of(&host, args.node)?;
    let proc = Proc::default();
    let pids = match args.whom.choice()? {
        _ if args.all => all_others(&proc)?,
        Choice::Cgroup(path) => cgroup_processes(&path)?.into_iter().collect(),
        Choice::Processes { pids, children: false } => pids.into_iter().collect(),
        Choice::Processes { pids, children: true } => proc.with_descendants(pids.into_iter().collect()),
    };
    let memory = Memory::of(args.node)?;
    let mut all = memory.read()?.unwrap_or_default();
    // Before a thread is changed: a run that is interrupted can be undone too.
    let mut remember = |were| {
        all.extend::<Vec<Was>>(were);
        memory.save(&all)
    };
    // The node is evacuated also where no thread has to leave it.
    remember(Vec::new())?;
    let others: Vec<Node> = (0..host.nodes() as u16).map(Node).filter(|&other| other != node).collect();
    let report = evacuate(&host, &proc, &pids, node, &others, &mut remember)?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        out!("{}", text(&report, args.node));
    }
    Ok(if report.complete() { Code::OK } else { Code::PARTIAL })
}

/// Gives the node back.
pub fn run_restore(args: RestoreArgs) -> Result {
    let memory = Memory::of(args.node)?;
    let Some(were) = memory.read()? else {
        let file = memory.path();
        let message = format!("node {} was not evacuated: there is no {}", args.node, file.display());
        return Err(exit::error(Code::FAILURE, message));
    };
    let proc = Proc::default();
    let restored = restore(&proc, &with_heirs(&proc, were));
    match &restored.left[..] {
        [] => memory.forget()?,
        left => memory.save(left)?,
    }
    if args.json {
        let Restored { threads, ended, failed, .. } = &restored;
        outln!(
            "{}",
            serde_json::json!({
                "node": args.node,
                "threads_restored": threads,
                "threads_ended": ended,
                "threads_failed": failed,
            })
        );
    } else {
        let ended =
            if restored.ended > 0 { format!(" ({} have ended)", restored.ended) } else { String::new() };
        outln!(
            "{} threads may run on node {} again{ended}; pages stay where they are until somebody moves them",
            restored.threads,
            args.node
        );
        for (why, count) in &restored.failed {
            outln!("left: {count} threads ({why}); homing restore {} tries again", args.node);
        }
    }
    Ok(if restored.failed.is_empty() { Code::OK } else { Code::PARTIAL })
}

fn node_of(host: &Host, id: u32) -> anyhow::Result<Node> {
    let all = || {
        (0..host.nodes())
            .map(|node| host.kernel_id(Node(node as u16)).to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let node = host
        .node(id)
        .ok_or_else(|| exit::error(Code::USAGE, format!("no node {id}: expected one of {}", all())))?;
    if host.nodes() < 2 {
        return Err(exit::error(Code::UNSUPPORTED, "the machine has one node: nothing can be moved off it"));
    }
    Ok(node)
}

/// The file that remembers the affinities of an evacuated node's threads. While this lives nobody else changes it.
struct Memory {
    lock: PrivateLock,
    name: String,
}

impl Memory {
    fn of(node: u32) -> anyhow::Result<Memory> {
        let name = format!("evacuated-{node}");
        let busy = |holder: &Holder| {
            format!("node {node} is being evacuated or restored by another homing ({holder}): try again after its end")
        };
        let lock = Private::open(&standard())?.lock(&format!("{name}.lock"), busy)?;
        Ok(Memory { lock, name })
    }

    fn path(&self) -> PathBuf {
        self.lock.directory().path(&self.name)
    }

    /// What is remembered; `None` if the node was not evacuated. A file that is not what was written there is moved
    /// aside.
    fn read(&self) -> anyhow::Result<Option<Vec<Was>>> {
        let parse =
            |text: &str| serde_json::from_str(text).map_err(|_| "not what homing wrote there".to_owned());
        Ok(match self.lock.directory().left(&self.name, parse)? {
            Left::Nothing => None,
            Left::Whole(were) => Some(were),
            Left::Aside(why) => {
                errln!("homing: {why}");
                None
            }
        })
    }

    fn save(&self, were: &[Was]) -> anyhow::Result<()> {
        let saved = self.lock.directory().write(&self.name, &serde_json::to_string(were)?);
        saved.with_context(|| format!("cannot write {}", self.path().display()))
    }

    fn forget(&self) -> anyhow::Result<()> {
        let removed = self.lock.directory().remove(&self.name);
        removed.with_context(|| format!("cannot remove {}", self.path().display()))
    }
}

/// All processes but this one.
fn all_others(proc: &Proc) -> anyhow::Result<BTreeSet<Pid>> {
    let me = Pid(std::process::id() as i32);
    Ok(proc.processes()?.into_iter().filter(|&pid| pid != me).collect())
}

fn text(report: &Report, node: u32) -> String {
    let to = |[to, pages]: &[u64; 2]| format!("{pages} to node {to}");
    let moved: Vec<String> = report.moved.iter().map(to).collect();
    let moved = if moved.is_empty() { "none".into() } else { moved.join(", ") };
    let mut out = format!(
        "node {node}: {} processes, {} threads moved; pages moved: {moved}\n",
        report.processes, report.threads_moved
    );
    for (what, counts) in [
        ("threads", &report.threads_left),
        ("pages", &report.pages_left),
        ("processes whose pages could not be looked for", &report.unseen),
    ] {
        for (why, count) in counts {
            out += &format!("left: {count} {what} ({why})\n");
        }
    }
    for (count, what) in [
        (
            report.pages_not_allowed,
            "left: {} pages that a memory policy (MPOL_BIND) or a cpuset keeps on the node",
        ),
        (report.pages_shared, "left: {} pages that processes share or that belong to files"),
        (
            report.mappings_with_policy,
            "{} mappings have a memory policy that names nodes: new pages may land on the node",
        ),
        (report.without_memory, "{} have no memory of their own: kernel threads, or they have ended"),
        (report.denied, "{} processes were left alone: this user may not trace them"),
    ] {
        if count > 0 {
            out += &what.replace("{}", &count.to_string());
            out.push('\n');
        }
    }
    out
}
