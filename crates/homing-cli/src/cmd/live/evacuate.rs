//! `homing evacuate` and `homing restore`: takes processes off a node, and gives it back.

use super::attach::Whom;
use crate::exit::{self, Code, Result};
use anyhow::Context;
use homing_core::ids::Node;
use homing_linux::private::{standard, Holder, Left, Private, PrivateLock};
use homing_linux::proc::{cgroup_processes, Proc};
use homing_live::evacuate::{evacuate, restore, Report, Restored, Was};
use homing_live::heirs::with_heirs;
use homing_live::host::Host;
use homing_live::targets::Choice;
use std::path::{Path, PathBuf};

/// Arguments of `homing evacuate`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Threads lose the node's CPUs (one that has no others gets those of all other nodes), then pages \
    move \
where most memory is free. Affinities are inherited and memory is allocated where threads run, so nothing new lands on \
the node, except \
under a memory policy of the process's own. Exit code 5: something is left, and the report says what. `homing restore \
NODE` gives \
threads their CPUs back."
)]
pub struct Args {
    /// The node, by the kernel's number
    node: u32,
    #[command(flatten)]
    whom: Whom,
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
        Choice::Cgroup(path) => cgroup_processes(&path)?.into_iter().collect(),
        Choice::Processes { pids, children: false } => pids.into_iter().collect(),
        Choice::Processes { pids, children: true } => proc.with_descendants(pids.into_iter().collect()),
    };
    let memory = Memory::of(args.node)?;
    let mut all = memory.read()?;
    // Before a thread is changed: a run that is interrupted can be undone too.
    let mut remember = |were| {
        all.extend::<Vec<Was>>(were);
        memory.save(&all)
    };
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
    let were = memory.read()?;
    if were.is_empty() {
        let file = memory.path();
        let message =
            format!("node {} was not evacuated: no threads are remembered in {}", args.node, file.display());
        return Err(exit::error(Code::FAILURE, message));
    }
    let proc = Proc::default();
    let restored = restore(&proc, &with_heirs(&proc, were));
    memory.save(&restored.left)?;
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

    /// What is remembered. A file that is not what was written there is moved aside.
    fn read(&self) -> anyhow::Result<Vec<Was>> {
        let parse =
            |text: &str| serde_json::from_str(text).map_err(|_| "not what homing wrote there".to_owned());
        Ok(match self.lock.directory().left(&self.name, parse)? {
            Left::Nothing => Vec::new(),
            Left::Whole(were) => were,
            Left::Aside(why) => {
                errln!("homing: {why}");
                Vec::new()
            }
        })
    }

    /// With nothing to remember there is no file.
    fn save(&self, were: &[Was]) -> anyhow::Result<()> {
        let directory = self.lock.directory();
        let saved = match were {
            [] => directory.remove(&self.name),
            were => directory.write(&self.name, &serde_json::to_string(were)?),
        };
        saved.with_context(|| format!("cannot write {}", self.path().display()))
    }
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
        (report.pages_shared, "left: {} pages that processes share or that belong to files"),
        (
            report.mappings_with_policy,
            "{} mappings have a memory policy that names nodes: new pages may land on the node",
        ),
        (report.denied, "{} processes were left alone: this user may not trace them"),
    ] {
        if count > 0 {
            out += &what.replace("{}", &count.to_string());
            out.push('\n');
        }
    }
    out
}
