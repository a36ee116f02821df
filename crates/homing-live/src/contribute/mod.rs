//! A bundle that a user with hardware can send: nodes, PMU, what the kernel can do, and samples if a PMU gives any.
//!
//! Nothing in it says who or where: no name of a machine or a user, no path; addresses of samples are offsets in memory
//! that was allocated for this, times begin with the first sample. What is read is a list of files, not all there are,
//! and [`Bundle::text`] looks over every word once more.

mod samples;

pub use samples::{Sample, Samples};

use crate::lint::{self, Roots};
use crate::source::{Places, SOURCES};
use homing_linux::topology::Topology;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Files of a PMU that are read, and how long they may be.
const FOLDERS: [&str; 3] = ["format", "events", "caps"];
const LONGEST: usize = 256;
const MOST: usize = 512;
/// PMUs whose formats and events say how memory accesses are sampled.
const MEMORY: [&str; 6] = ["cpu", "cpu_core", "cpu_atom", "ibs_op", "ibs_fetch", "arm_spe"];

/// What the kernel can do, by file.
const SETTINGS: [(&str, &str, bool); 8] = [
    ("numa_balancing", "sys/kernel/numa_balancing", true),
    ("perf_event_paranoid", "sys/kernel/perf_event_paranoid", true),
    ("perf_event_max_sample_rate", "sys/kernel/perf_event_max_sample_rate", true),
    ("zone_reclaim_mode", "sys/vm/zone_reclaim_mode", true),
    ("transparent_hugepage", "kernel/mm/transparent_hugepage/enabled", false),
    ("transparent_hugepage_defrag", "kernel/mm/transparent_hugepage/defrag", false),
    ("demotion_enabled", "kernel/mm/numa/demotion_enabled", false),
    ("memory_block_bytes", "devices/system/memory/block_size_bytes", false),
];
/// What /proc/cpuinfo says of the processor, on x86 and on Arm.
const PROCESSOR: [&str; 8] = [
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "stepping",
    "CPU implementer",
    "CPU part",
    "CPU variant",
];

/// All that is sent.
#[derive(Clone, Debug, Serialize)]
pub struct Bundle {
    /// Of this form.
    schema: u32,
    /// The version of Homing.
    homing: String,
    architecture: &'static str,
    /// The kernel's version in numbers: what a distribution or a user appends is left out.
    kernel: String,
    processor: BTreeMap<String, String>,
    nodes: Vec<NodeFacts>,
    pmus: Vec<Pmu>,
    settings: BTreeMap<&'static str, String>,
    /// Sources of the live engine, and whether they work.
    sources: BTreeMap<&'static str, bool>,
    /// Names of what `homing doctor` finds.
    findings: Vec<&'static str>,
    samples: Samples,
}

#[derive(Clone, Debug, Serialize)]
struct NodeFacts {
    id: u32,
    cpus: Vec<u32>,
    distances: Vec<u32>,
    /// In GiB, rounded.
    memory_gib: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
struct Pmu {
    name: String,
    kind: Option<u32>,
    /// By folder and file.
    files: BTreeMap<String, String>,
}

impl Bundle {
    /// Gathers it, and samples for some seconds if the PMU works. `version`: of the program.
    pub fn gather(roots: &Roots, places: &Places, version: &str) -> Bundle {
        let findings = lint::machine(roots).unwrap_or_default();
        Bundle {
            schema: 1,
            homing: version.to_owned(),
            architecture: std::env::consts::ARCH,
            kernel: kernel(&roots.proc),
            processor: processor(&roots.proc),
            nodes: nodes(&roots.sys),
            pmus: pmus(&roots.sys),
            settings: settings(roots),
            sources: SOURCES.iter().map(|source| (source.name, (source.missing)(places).is_none())).collect(),
            findings: findings.iter().map(|finding| finding.name).collect(),
            samples: Samples::take(places),
        }
    }

    /// What is in it, for people: a line each.
    pub fn contents(&self) -> Vec<String> {
        let pmus: Vec<&str> = self.pmus.iter().map(|pmu| pmu.name.as_str()).collect();
        let processor = self.processor.get("model name").or(self.processor.get("CPU part"));
        let working: Vec<&str> = self
            .sources
            .iter()
            .filter(|(name, works)| **works && **name != "none")
            .map(|(name, _)| *name)
            .collect();
        vec![
            format!("versions: Homing {}, kernel {}, {}", self.homing, self.kernel, self.architecture),
            format!("processor: {}", processor.map_or("unknown", String::as_str)),
            format!(
                "nodes: {}, with the numbers of their CPUs, distances and memory in GiB",
                self.nodes.len()
            ),
            format!("PMUs: {}, with their formats and events", pmus.join(", ")),
            format!(
                "settings of the kernel: {}",
                self.settings.keys().copied().collect::<Vec<_>>().join(", ")
            ),
            format!(
                "sources that work: {}; findings of homing doctor: {}",
                working.join(", "),
                self.findings.len()
            ),
            self.samples.words(),
        ]
    }

    /// The text of the file. Words that are in `secret` (names of the machine and the user) and paths are taken out,
    /// wherever they stand; how many were is said.
    ///
    /// # Errors
    /// None that a bundle can make.
    pub fn text(&self, secret: &[String]) -> serde_json::Result<(String, usize)> {
        let mut value = serde_json::to_value(self)?;
        let mut removed = 0;
        scrub(&mut value, secret, &mut removed);
        Ok((serde_json::to_string_pretty(&value)? + "\n", removed))
    }
}

/// What must not be in a bundle: the names of the machine, of its domain and of the user, and the last part of the
/// user's home.
pub fn secrets(proc: &Path) -> Vec<String> {
    let host = text(&proc.join("sys/kernel/hostname")).unwrap_or_default();
    let domain = text(&proc.join("sys/kernel/domainname")).unwrap_or_default();
    let home = std::env::var("HOME").unwrap_or_default();
    let home = home.rsplit('/').next().unwrap_or_default().to_owned();
    let users =
        ["USER", "LOGNAME", "SUDO_USER", "HOSTNAME"].map(|name| std::env::var(name).unwrap_or_default());
    let short = host.split('.').next().unwrap_or_default().to_owned();
    let mut all: Vec<String> = [host, short, domain, home].into_iter().chain(users).collect();
    all.retain(|word| !word.is_empty() && word != "(none)");
    all.sort();
    all.dedup();
    all
}

/// Takes secret words and paths out of all texts. Names of fields are ours.
fn scrub(value: &mut Value, secret: &[String], removed: &mut usize) {
    match value {
        Value::String(text) => {
            let clean = without(text, secret);
            *removed += usize::from(clean != *text);
            *text = clean;
        }
        Value::Array(all) => all.iter_mut().for_each(|value| scrub(value, secret, removed)),
        Value::Object(fields) => fields.values_mut().for_each(|value| scrub(value, secret, removed)),
        _ => {}
    }
}

fn without(text: &str, secret: &[String]) -> String {
    const TAKEN_OUT: &str = "(left out)";
    let is_word = |part: &str| secret.iter().any(|word| word == part);
    let clean = |part: &str| match part.contains('/') || is_word(part) {
        true => TAKEN_OUT.to_owned(),
        // A name may stand between other signs: `x@name`.
        false => {
            let mut text = part.to_owned();
            for word in secret.iter().filter(|word| word.len() > 2) {
                text = text.replace(word.as_str(), TAKEN_OUT);
            }
            text
        }
    };
    text.split(' ').map(clean).collect::<Vec<_>>().join(" ")
}

fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().chars().take(LONGEST).collect())
}

/// The numbers of the version: `6.1.0`.
fn kernel(proc: &Path) -> String {
    let release = text(&proc.join("sys/kernel/osrelease")).unwrap_or_default();
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    release[..end].to_owned()
}

fn processor(proc: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(proc.join("cpuinfo")).unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    let fields = first.lines().filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    fields.filter(|(name, _)| PROCESSOR.contains(&name.as_str())).collect()
}

fn nodes(sys: &Path) -> Vec<NodeFacts> {
    let nodes = Topology::read(sys).map(|topology| topology.nodes).unwrap_or_default();
    let memory = |id: u32| {
        let text = fs::read_to_string(sys.join(format!("devices/system/node/node{id}/meminfo"))).ok()?;
        let line = text.lines().find(|line| line.contains(" MemTotal:"))?;
        let kib: u64 = line.split_whitespace().rev().nth(1)?.parse().ok()?;
        Some((kib + (1 << 19)) >> 20)
    };
    let facts = |node: homing_linux::topology::TopologyNode| NodeFacts {
        id: node.id,
        memory_gib: memory(node.id),
        cpus: node.cpus,
        distances: node.distances,
    };
    nodes.into_iter().map(facts).collect()
}

fn pmus(sys: &Path) -> Vec<Pmu> {
    let mut all = Vec::new();
    for entry in fs::read_dir(sys.join("bus/event_source/devices")).into_iter().flatten().flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let memory = MEMORY.iter().any(|known| name == *known || name.starts_with("arm_spe"));
        let kind = text(&entry.path().join("type")).and_then(|text| text.parse().ok());
        let files = if memory { files(&entry.path()) } else { BTreeMap::new() };
        all.push(Pmu { name, kind, files });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn files(pmu: &Path) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(pmu.join(folder)).into_iter().flatten().flatten().take(MOST) {
            let name = format!("{folder}: {}", entry.file_name().to_string_lossy());
            all.extend(text(&entry.path()).map(|text| (name, text)));
        }
    }
    all
}

fn settings(roots: &Roots) -> BTreeMap<&'static str, String> {
    let read = |&(name, path, in_proc): &(&'static str, &str, bool)| {
        Some((name, text(&if in_proc { &roots.proc } else { &roots.sys }.join(path))?))
    };
    SETTINGS.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_are_taken_out_wherever_they_stand() {
        let secret = ["epsilon".to_owned(), "ann".to_owned(), "vm".to_owned()];
        let clean = |text: &str| without(text, &secret);
        assert_eq!(clean("Intel(R) Xeon(R) CPU @ 2.5GHz"), "Intel(R) Xeon(R) CPU @ 2.5GHz");
        assert_eq!(clean("6.1 ann@epsilon.lan"), "6.1 (left out)@(left out).lan");
        assert_eq!(clean("see /home/x or vm"), "see (left out) or (left out)");
        assert_eq!(clean("vmx"), "vmx", "two letters are a word only by themselves");
        let mut value = serde_json::json!({ "a": ["epsilon", 7], "b": { "c": "fine" } });
        let mut removed = 0;
        scrub(&mut value, &secret, &mut removed);
        assert_eq!((removed, &value["a"][0], &value["b"]["c"]), (1, &"(left out)".into(), &"fine".into()));
    }

    #[test]
    fn a_bundle_has_the_files_that_are_named_and_no_others() {
        let (sys, _host) = crate::host::tests::snapshot(2);
        let proc = tempfile::tempdir().unwrap();
        let put = |root: &Path, path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(proc.path(), "sys/kernel/osrelease", "6.12.3-of-ann+\n");
        put(proc.path(), "sys/kernel/hostname", "epsilon\n");
        put(proc.path(), "sys/kernel/numa_balancing", "1\n");
        put(
            proc.path(),
            "cpuinfo",
            "processor : 0\nmodel name : A CPU of epsilon\nserial : 12345\n\nmodel : 9",
        );
        let pmu = "bus/event_source/devices/ibs_op";
        put(sys.path(), &format!("{pmu}/type"), "11\n");
        put(sys.path(), &format!("{pmu}/format/cnt_ctl"), "config:19\n");
        put(sys.path(), &format!("{pmu}/format/odd"), "/home/ann/x\n");
        put(sys.path(), "bus/event_source/devices/power/events/x", "event=1\n");
        let roots = Roots { sys: sys.path().into(), proc: proc.path().into() };
        let places = Places { sys: sys.path().into(), ..Places::default() };
        let bundle = Bundle::gather(&roots, &places, "1.2.3");
        let secret = ["ann".to_owned()].into_iter().chain(secrets(proc.path())).collect::<Vec<_>>();
        let (text, removed) = bundle.text(&secret).unwrap();
        assert_eq!(removed, 2, "{text}");
        for word in ["epsilon", "ann", "12345", "/home"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["kernel"], &value["settings"]["numa_balancing"]), (&"6.12.3".into(), &"1".into()));
        assert_eq!(value["nodes"][1]["distances"], serde_json::json!([20, 10]));
        assert_eq!(value["pmus"][0]["files"]["format: cnt_ctl"], "config:19");
        assert_eq!(value["pmus"][1]["files"], serde_json::json!({}), "of `power` only that it is there");
        assert!(bundle.contents().len() > 5);
    }
}
