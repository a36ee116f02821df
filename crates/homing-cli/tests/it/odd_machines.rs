//! Machines whose nodes the kernel shows in an unusual way, or not at all: programs are started there, and what cannot
//! be done is said.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What stands below `/sys/devices/system/node`.
type Files = &'static [(&'static str, &'static str)];

/// A kernel without NUMA, or a /sys that a container masks.
const NO_NODES: Files = &[];
/// Emulated nodes (`numa=fake`): all memory is equally near, and each node has all CPUs.
const SAME_DISTANCES: Files = &[
    ("online", "0-1\n"),
    ("node0/cpulist", "0-1\n"),
    ("node0/distance", "10 10\n"),
    ("node0/meminfo", "Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 1024 kB\n"),
    ("node1/cpulist", "0-1\n"),
    ("node1/distance", "10 10\n"),
    ("node1/meminfo", "Node 1 MemTotal: 4096 kB\nNode 1 MemFree: 1024 kB\n"),
];

/// A machine that shows these files; `None` where this user may not lay a directory over one of /sys.
struct Machine(tempfile::TempDir);

impl Machine {
    fn with(files: Files) -> Option<Machine> {
        let machine = Machine(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = machine.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let may =
            Path::new("/sys/devices/system/node").is_dir() && machine.execute(&["true"]).status.success();
        if !may {
            println!("SKIPPED 1 test: no mount namespace of its own here");
        }
        may.then_some(machine)
    }

    /// Runs a command there.
    fn execute(&self, words: &[&str]) -> Output {
        let script = "mount --bind \"$0\" /sys/devices/system/node && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script]).arg(self.0.path()).args(words);
        command.output().unwrap_or_else(|error| panic!("unshare: {error}"))
    }

    /// Runs a subcommand there, which ends with that status; returns what it prints and says.
    fn homing(&self, words: &[&str], status: i32) -> (String, String) {
        let output = self.execute(&[&[env!("CARGO_BIN_EXE_homing")], words].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(status), "{words:?}: {out}{err}");
        (out, err)
    }
}

const PROGRAM: [&str; 3] = ["sh", "-c", "echo hi; exit 7"];

#[test]
fn where_the_kernel_shows_no_nodes_there_is_one_with_all_cpus() {
    let Some(machine) = Machine::with(NO_NODES) else { return };
    let (out, err) = machine.homing(&[&["run", "--"], &PROGRAM[..]].concat(), 7);
    assert!(
        out == "hi\n" && err.contains("this machine has one memory node: nothing can move here"),
        "{err}"
    );
    let (out, _) = machine.homing(&[&["rset", "exec", "all", "--"], &PROGRAM[..]].concat(), 7);
    assert_eq!(out, "hi\n");
    let (out, _) = machine.homing(&["top", "--json", "--interval", "10ms", "--pid", "1"], 0);
    let look: serde_json::Value = serde_json::from_str(&out).unwrap();
    let [node] = &look["nodes"].as_array().unwrap()[..] else { panic!("{look}") };
    assert!(node.to_string().contains("\"node\":0") || node.to_string().contains("\"id\":0"), "{node}");
    let (out, _) = machine.homing(&["machines", "host"], 0);
    assert!(out.contains("nodes = 1"), "{out}");
    machine.homing(&["rset", "show", "all"], 0);
    machine.homing(&["try", "--ways", "again", "--rounds", "1", "--", "true"], 0);
}

#[test]
fn where_no_memory_is_remote_programs_run_and_nothing_moves() {
    let Some(machine) = Machine::with(SAME_DISTANCES) else { return };
    let (out, err) = machine.homing(&[&["run", "--"], &PROGRAM[..]].concat(), 7);
    assert!(out == "hi\n" && err.contains("all 2 memory nodes of this machine the same distance"), "{err}");
    let (out, _) = machine.homing(&[&["rset", "exec", "node:0", "--"], &PROGRAM[..]].concat(), 7);
    assert_eq!(out, "hi\n");
    let (out, _) = machine.homing(&["machines", "host"], 0);
    assert!(out.contains("nodes = 2"), "{out}");
    let doctor = machine.execute(&[env!("CARGO_BIN_EXE_homing"), "doctor", "--json"]);
    let doctor: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let nodes = &doctor["checks"][0];
    assert!(nodes["works"] == false && nodes["detail"].to_string().contains("same distance"), "{nodes}");
    let trace = machine.0.path().join("trace");
    let path = trace.to_str().unwrap();
    let csv = machine.0.path().join("csv");
    let rows: String = (0..4000).map(|i| format!("{},{},8,w\n", i % 2, 4096 * (i % 64))).collect();
    fs::write(&csv, format!("thread,addr,size,kind\n{rows}")).unwrap();
    machine.homing(&["trace", "import", csv.to_str().unwrap(), "-o", path], 0);
    let (out, _) = machine.homing(&["why", path, "--machine", "host"], 0);
    assert!(out.starts_with("Not NUMA"), "{out}");
}
