//! Each finding on a tree of its own: there with its cause, absent without it.

use super::*;
use homing_linux::proc::Pid;
use std::fs;
use tempfile::TempDir;

/// A machine in order: two nodes of two CPUs in a socket each, and a process of two threads, one on each node, with
/// its memory on both.
struct Tree {
    folder: TempDir,
    roots: Roots,
}

const PID: i32 = 40;

impl Tree {
    fn new() -> Tree {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots { sys: folder.path().join("sys"), proc: folder.path().join("proc") };
        let tree = Tree { folder, roots };
        tree.sys("devices/system/node/online", "0-1");
        tree.node(0, "0-1", 4096, "10 20");
        tree.node(1, "2-3", 4096, "20 10");
        for cpu in 0..4 {
            let path = format!("devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            tree.sys(&path, &(cpu / 2).to_string());
        }
        tree.sys("kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
        tree.sys("kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never");
        tree.sys("kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "10000");
        tree.proc("sys/kernel/numa_balancing", "0");
        tree.proc("sys/vm/zone_reclaim_mode", "0");
        tree.status("Seccomp:\t0\nVmPin:\t0 kB\n", "0-1");
        tree.thread(PID, "0-3", 0, 5000.0, 3);
        tree.thread(PID + 1, "0-3", 2, 5000.0, 3);
        tree.memory(&["7f0000000000 default anon=10000 N0=6000 N1=4000 kernelpagesize_kB=4"]);
        tree
    }

    fn write(path: PathBuf, words: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{words}\n")).unwrap();
    }

    fn sys(&self, path: &str, words: &str) {
        Tree::write(self.roots.sys.join(path), words);
    }

    fn proc(&self, path: &str, words: &str) {
        Tree::write(self.roots.proc.join(path), words);
    }

    fn node(&self, node: u32, cpus: &str, megabytes: u64, distances: &str) {
        let file = |name: &str| format!("devices/system/node/node{node}/{name}");
        self.sys(&file("cpulist"), cpus);
        self.sys(&file("distance"), distances);
        self.sys(&file("meminfo"), &format!("Node {node} MemTotal: {} kB", megabytes << 10));
    }

    fn status(&self, more: &str, memories: &str) {
        let ids = format!("Name:\tx\nTgid:\t{PID}\nPPid:\t1\nUid:\t0\t0\t0\t0\nVmRSS:\t 200000 kB\n");
        self.proc(&format!("{PID}/status"), &format!("{ids}Mems_allowed_list:\t{memories}\n{more}"));
        let threads = fs::read_dir(self.roots.proc.join(format!("{PID}/task")));
        for thread in threads.into_iter().flatten().flatten() {
            let status = fs::read_to_string(thread.path().join("status")).unwrap();
            let cpus = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
            let words = format!("{cpus}\nMems_allowed_list:\t{memories}\n{more}");
            Tree::write(thread.path().join("status"), &words);
        }
    }

    fn thread(&self, tid: i32, cpus: &str, last: u32, milliseconds: f64, migrations: u32) {
        let file = |name: &str| format!("{PID}/task/{tid}/{name}");
        self.proc(&file("status"), &format!("Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1"));
        let zeroes = "0 ".repeat(35);
        self.proc(&file("stat"), &format!("{tid} (x) S {zeroes}{last} 0 0 0"));
        let sched = format!("se.sum_exec_runtime : {milliseconds}\nse.nr_migrations : {migrations}");
        self.proc(&file("sched"), &sched);
    }

    fn memory(&self, lines: &[&str]) {
        self.proc(&format!("{PID}/numa_maps"), &lines.join("\n"));
    }

    fn machine(&self) -> Vec<Finding> {
        machine(&self.roots).unwrap()
    }

    fn process(&self) -> Vec<Finding> {
        process(&self.roots, Pid(PID)).unwrap()
    }
}

/// Names and how sure.
fn said(findings: &[Finding]) -> Vec<(&'static str, Sure)> {
    for finding in findings {
        assert!(!finding.what.is_empty() && !finding.evidence.is_empty() && !finding.advice.is_empty());
    }
    findings.iter().map(|finding| (finding.name, finding.sure)).collect()
}

#[test]
fn what_is_in_order_has_no_findings() {
    let tree = Tree::new();
    assert_eq!((said(&tree.machine()), said(&tree.process())), (vec![], vec![]));
    assert!(process(&tree.roots, Pid(7)).is_err());
    let nothing = Roots { sys: tree.folder.path().join("no"), proc: tree.folder.path().join("no") };
    assert_eq!(
        said(&machine(&nothing).unwrap()),
        [],
        "a machine of one node, of which nothing else is known"
    );
}

#[test]
fn each_finding_of_the_machine_has_its_cause() {
    let huge = "kernel/mm/transparent_hugepage";
    let one = |cause: &dyn Fn(&Tree)| {
        let tree = Tree::new();
        cause(&tree);
        said(&tree.machine())
    };
    let tier = |tree: &Tree, tier: u32, nodes: &str| {
        tree.sys(&format!("devices/virtual/memory_tiering/memory_tier{tier}/nodelist"), nodes);
    };
    assert_eq!(one(&|tree| tree.node(1, "2-3", 0, "20 10")), [("node-without-memory", Sure::Certain)]);
    assert_eq!(one(&|tree| tree.proc("sys/vm/zone_reclaim_mode", "1")), [("zone-reclaim", Sure::Likely)]);
    let defrag = |tree: &Tree| tree.sys(&format!("{huge}/defrag"), "[always] defer madvise never");
    assert_eq!(one(&defrag), [("huge-page-stalls", Sure::Likely)]);
    let none = |tree: &Tree| {
        defrag(tree);
        tree.sys(&format!("{huge}/khugepaged/scan_sleep_millisecs"), "0");
        tree.sys(&format!("{huge}/enabled"), "always madvise [never]");
    };
    assert_eq!(one(&none), []);
    let restless = |tree: &Tree| tree.sys(&format!("{huge}/khugepaged/scan_sleep_millisecs"), "10");
    assert_eq!(one(&restless), [("khugepaged-restless", Sure::Likely)]);
    let always = |tree: &Tree| tree.sys(&format!("{huge}/enabled"), "[always] madvise never");
    assert_eq!(one(&always), [("huge-pages-always", Sure::Possible)]);
    let socket = |tree: &Tree| tree.sys("devices/system/cpu/cpu2/topology/physical_package_id", "0");
    assert_eq!(one(&socket), [("sub-numa", Sure::Certain)]);
    // Memory without CPUs, as of CXL, in the tier of the others and in one of its own.
    let cxl = |tree: &Tree| {
        tree.sys("devices/system/node/online", "0-2");
        tree.node(0, "0-1", 4096, "10 20 30");
        tree.node(1, "2-3", 4096, "20 10 30");
        tree.node(2, "", 4096, "30 30 10");
    };
    let same = |tree: &Tree| {
        cxl(tree);
        tier(tree, 4, "0-2");
    };
    assert_eq!(one(&same), [("one-tier", Sure::Certain)]);
    let two = |tree: &Tree, balancing: &str, demotion: &str| {
        cxl(tree);
        tier(tree, 4, "0-1");
        tier(tree, 22, "2");
        tree.proc("sys/kernel/numa_balancing", balancing);
        tree.sys("kernel/mm/numa/demotion_enabled", demotion);
    };
    assert_eq!(one(&|tree| two(tree, "2", "true")), []);
    assert_eq!(one(&|tree| two(tree, "1", "true")), [("not-promoted", Sure::Certain)]);
    assert_eq!(one(&|tree| two(tree, "2", "false")), [("not-demoted", Sure::Certain)]);
}

#[test]
fn balancing_is_of_no_use_where_all_large_programs_are_bound() {
    let tree = Tree::new();
    tree.proc("sys/kernel/numa_balancing", "1");
    assert_eq!(said(&tree.machine()), [], "its memory is not bound");
    tree.memory(&["7f0000000000 bind:0 anon=9500 N0=9500", "7f1000000000 default anon=500 N0=500"]);
    assert_eq!(said(&tree.machine()), [("balancing-of-bound", Sure::Likely)]);
    tree.proc("sys/kernel/numa_balancing", "0");
    assert_eq!(said(&tree.machine()), []);
    tree.proc("sys/kernel/numa_balancing", "1");
    fs::remove_file(tree.roots.proc.join(format!("{PID}/numa_maps"))).unwrap();
    assert_eq!(said(&tree.machine()), [], "one that may not be looked at says nothing");
}

#[test]
fn each_finding_of_a_process_has_its_cause() {
    let tree = Tree::new();
    tree.thread(PID, "0-1", 0, 9.0, 0);
    tree.thread(PID + 1, "0-1", 1, 9.0, 0);
    assert_eq!(said(&tree.process()), [("memory-unbound", Sure::Certain)]);
    tree.memory(&["7f0000000000 default anon=100 N1=100"]);
    assert_eq!(said(&tree.process()), [], "it is too small for that to matter");
    tree.memory(&["7f0000000000 default anon=10000 N0=9900 N1=100"]);
    assert_eq!(said(&tree.process()), [("memory-unbound", Sure::Possible)]);
    tree.memory(&["7f0000000000 bind:0 anon=10000 N0=10000"]);
    assert_eq!(said(&tree.process()), []);
    tree.memory(&["7f0000000000 bind:1 anon=10000 N1=10000", "7f1000000000 default file=/lib/x N1=90000"]);
    assert_eq!(said(&tree.process()), [("memory-away", Sure::Certain)]);

    assert!(tree.process()[0].advice.contains("memory policy keeps it"));
    tree.memory(&["7f0000000000 default anon=10000 N1=10000"]);
    tree.status("", "0");
    assert_eq!(said(&tree.process()), [("memory-away", Sure::Certain), ("confined", Sure::Certain)]);
    assert!(tree.process()[0].advice.contains("homing attach --pid brings it"));

    // A cpuset with memory away from its CPUs: it is to blame, and no other remedy helps.
    tree.status("", "1");
    assert_eq!(said(&tree.process()), [("confined", Sure::Certain)]);
    let found = &tree.process()[0];
    assert!(found.what.contains("memory of node 1 alone, and CPUs of node 0 alone"), "{found:?}");
    assert!(found.advice.contains("cpuset.mems and cpuset.cpus of the same nodes"), "{found:?}");

    let tree = Tree::new();
    tree.thread(PID + 1, "0-3", 1, 5000.0, 3);
    assert_eq!(said(&tree.process()), [("memory-away", Sure::Possible)], "both ran on node 0 last");
    tree.memory(&["7f0000000000 default anon=10000 N0=9000 N1=1000"]);
    assert_eq!(said(&tree.process()), []);

    let tree = Tree::new();
    tree.status("Seccomp:\t2\nVmPin:\t 4096 kB\n", "0-1");
    assert_eq!(said(&tree.process()), [("pinned", Sure::Certain), ("filtered", Sure::Possible)]);
    tree.status("Seccomp:\t1\nVmPin:\t 0 kB\n", "0");
    assert_eq!(said(&tree.process()), [("confined", Sure::Certain)]);

    let tree = Tree::new();
    tree.thread(PID + 1, "0-3", 2, 5000.0, 300);
    assert_eq!(said(&tree.process()), [("wandering", Sure::Possible)]);
    tree.thread(PID + 1, "2-3", 2, 5000.0, 300);
    assert_eq!(said(&tree.process()), [], "it stays on its node");
    tree.thread(PID + 1, "0-3", 2, 500.0, 300);
    assert_eq!(said(&tree.process()), [], "it hardly ran");
}
