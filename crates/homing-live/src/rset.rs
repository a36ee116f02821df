//! Resource sets on this machine: what its global set is, and how the calling thread and what it executes are bound to
//! a set. What decides is in `homing_rset`; `preload/rset.c` does inside the program what only can be done there.

use crate::host::Host;
use homing_core::ids::{Cpu, Node};
use homing_linux::environment::variable;
use homing_linux::ld_preload;
use homing_linux::policy::{self, BALANCED, BIND, INTERLEAVE};
use homing_linux::proc::{Pid, Proc, ProcError, Tid};
use homing_linux::seccomp;
use homing_rset::{Global, GlobalNode, Memory, Policies, ResourceSet, Threads};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The library that lays memory and threads over a set from inside of the program, below the directory of the
/// recorders.
pub const LIBRARY: &str = "preload/libhoming-rset.so";

/// What tells the library its set.
pub const SET_ENV: &str = "HOMING_RSET";

/// The global set of this machine as the calling process may use it.
///
/// # Errors
/// If /proc does not say what that is.
pub fn global(host: &Host, proc: &Proc) -> Result<Global, ProcError> {
    let node = |node: Node| GlobalNode {
        id: Node(host.kernel_id(node) as u16),
        cpus: cpus(host.cpus_of(node)).collect(),
        // A node whose memory size the kernel does not say is taken to have some.
        memory: host.memory(node).is_none_or(|(_, total)| total > 0),
        distances: host.distances_from(node).to_vec(),
    };
    let machine = Global::new((0..host.nodes()).map(|at| node(Node(at as u16))).collect());
    let me = std::process::id() as i32;
    let may = proc.confinement(Pid(me), Tid(me))?;
    // What the kernel does not say is not confined.
    let whole = machine.machine();
    let usable = ResourceSet {
        cpus: if may.cpus.is_empty() { whole.cpus } else { cpus(&may.cpus).collect() },
        memories: match may.memories.is_empty() {
            true => whole.memories,
            false => may.memories.iter().map(|&id| Node(id as u16)).collect(),
        },
    };
    let here = policy::this_cpu().and_then(|cpu| machine.node_of(Cpu(cpu as u16)));
    Ok(machine.confined(&usable, here))
}

/// The newtypes of the kernel's numbers, which are far below 2^16.
fn cpus(numbers: &[u32]) -> impl Iterator<Item = Cpu> + '_ {
    numbers.iter().map(|&cpu| Cpu(cpu as u16))
}

/// The user's own file of sets, which need not be there.
pub fn own_file() -> Option<PathBuf> {
    let under = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let configuration = under("XDG_CONFIG_HOME").or_else(|| Some(under("HOME")?.join(".config")))?;
    Some(configuration.join("homing/rsets.toml"))
}

/// Whether policies need the library inside of the program.
pub fn needs_library(policies: &Policies) -> bool {
    let memory = policies.memory.is_some_and(|memory| memory != Memory::Float);
    memory || policies.threads.is_some() || policies.huge.is_some()
}

/// Binds the calling thread, and what it executes, to a set: its CPUs and its memory. A part that is empty stays as
/// it is.
///
/// # Errors
/// What `sched_setaffinity` and `set_mempolicy` give.
pub fn bind(set: &ResourceSet, memory: Memory) -> io::Result<()> {
    if !set.cpus.is_empty() {
        let cpus: Vec<u32> = set.cpus.iter().map(|cpu| u32::from(cpu.0)).collect();
        policy::set_affinity(Tid(0), &cpus)?;
    }
    if set.memories.is_empty() {
        return Ok(());
    }
    let nodes: Vec<u32> = set.memories.iter().map(|node| u32::from(node.0)).collect();
    match memory {
        Memory::Striped => policy::set(INTERLEAVE, &nodes),
        Memory::Local | Memory::Remote => policy::set(BIND, &nodes),
        // Kernels before 5.12 do not know the flag; pages then stay where they are.
        Memory::Float => policy::set(BIND | BALANCED, &nodes).or_else(|_| policy::set(BIND, &nodes)),
    }
}

/// What the library is told: the memory policy, bytes of a stripe (0: a page), bytes of the smallest allocation that
/// is looked after, bytes of huge pages (0: as the system has it), the nodes, and the CPUs of threads; `-` for none.
/// Last, how many filters of system calls there are now: a program with more may be killed for what the library does.
fn words(set: &ResourceSet, policies: &Policies, least: u64, layout: &[Cpu], filters: u32) -> String {
    let list = |numbers: Vec<String>| if numbers.is_empty() { "-".to_owned() } else { numbers.join(",") };
    let nodes = list(set.memories.iter().map(Node::to_string).collect());
    let cpus = list(layout.iter().map(Cpu::to_string).collect());
    let (stride, huge) = (policies.stride.unwrap_or(0), policies.huge.unwrap_or(0));
    let memory = policies.memory.unwrap_or(Memory::Float);
    format!("{memory} {stride} {least} {huge} {nodes} {cpus} {}", filters)
}

/// The environment in which a program has the library and its set. None if the library's path cannot stand there.
pub fn environment(
    library: &Path,
    set: &ResourceSet,
    policies: &Policies,
    least: u64,
    global: &Global,
) -> Option<Vec<(&'static str, OsString)>> {
    let preload = ld_preload::variables(library, |name| std::env::var_os(name))?;
    // A thread whose memory is remote has to stay on its node.
    let threads = policies.threads.or((policies.memory == Some(Memory::Remote)).then_some(Threads::Fill));
    let layout = threads.map_or_else(Vec::new, |threads| threads.layout(set, global));
    let words = words(set, policies, least, &layout, seccomp::filters());
    Some(preload.into_iter().chain([(SET_ENV, words.into())]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::snapshot;
    use homing_rset::Expr;

    fn on(global: &Global, text: &str) -> ResourceSet {
        Expr::parse(text).unwrap().on(global, &mut |_| unreachable!()).unwrap()
    }

    #[test]
    fn the_global_set_has_the_kernels_numbers_and_what_the_process_may_use() {
        let (_sys, host) = snapshot(3);
        let proc = tempfile::tempdir().unwrap();
        let me = std::process::id();
        let folder = proc.path().join(format!("{me}/task/{me}"));
        std::fs::create_dir_all(&folder).unwrap();
        let say = |text: &str| std::fs::write(folder.join("status"), text).unwrap();
        say("Cpus_allowed_list:\t2-9\nMems_allowed_list:\t2,4\n");
        let global = global(&host, &Proc::at(proc.path())).unwrap();
        assert_eq!(global.words(&global.machine()), "node:0,2,4");
        assert_eq!(global.words(global.all()), "node:2,4");
        assert_eq!(global.words(&on(&global, "within:10@4")), "node:4");
        say("Name:\tx\n");
        let global = super::global(&host, &Proc::at(proc.path())).unwrap();
        assert_eq!(global.words(global.all()), "node:0,2,4", "what is not said is not confined");
    }

    #[test]
    fn the_library_is_told_the_set_in_words() {
        let (_sys, host) = snapshot(3);
        let global = global(&host, &Proc::default()).unwrap();
        let set = on(&global, "node:2,4");
        let policies = Policies { memory: Some(Memory::Striped), stride: Some(65536), ..Policies::default() };
        assert_eq!(words(&set, &policies, 131072, &[], 0), "striped 65536 131072 0 2,4 - 0");
        let library = Path::new("/lib/libhoming-rset.so");
        let remote = Policies { memory: Some(Memory::Remote), ..Policies::default() };
        let told = environment(library, &set, &remote, 4096, &global).unwrap();
        let expected = format!("remote 0 4096 0 2,4 2,3,4,5 {}", seccomp::filters());
        assert_eq!(told.last().unwrap(), &(SET_ENV, expected.into()));
        assert_eq!(environment(Path::new("/a b.so"), &set, &remote, 4096, &global), None);
        let alone = ResourceSet { cpus: set.cpus.clone(), ..ResourceSet::default() };
        assert_eq!(words(&alone, &Policies::default(), 1, &[Cpu(2)], 3), "float 0 1 0 - 2 3");
    }
}
