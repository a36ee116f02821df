//! On the files that are built in the tests of homing-trace.

use super::*;

fn asked(name: &str) -> Asked {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../homing-trace/tests/perf_data");
    Asked { path: Path::new(folder).join(name).with_extension("data"), ..Asked::default() }
}

fn judged(name: &str) -> WhyReport {
    judge(&asked(name)).unwrap().report
}

fn has_note(report: &WhyReport, text: &str) -> bool {
    report.notes.iter().any(|note| note.contains(text))
}

#[test]
fn pebs_says_local_and_remote_of_two_nodes() {
    let Judged { report, partial } = judge(&asked("pebs")).unwrap();
    assert!(!partial);
    let area = &report.areas[0];
    assert_eq!((area.name.as_deref(), area.pages), (Some("anonymous#0"), 64));
    assert_eq!((area.pages_on_node[0], area.pages_best_on_node[1]), (64, 32));
    // Six samples a page, each for 2003 loads.
    assert_eq!(area.references_by_node, [32 * 6 * 2003, 32 * 6 * 2003]);
    assert!(report.sentence.contains("is on node 0, and other nodes use it"), "{}", report.sentence);
    assert!(report.basis.contains("pebs.data, Intel(R) Xeon(R) (built)"), "{}", report.basis);
    let sampled = report.sampled.as_ref().unwrap();
    assert_eq!(sampled.samples, 384);
    for note in [
        "local memory 183 cycles, remote 313",
        "of other processes are left out: 1 (other (99) 1)",
        "near caches, which no placement changes: 9",
        "without a data address: 5",
        "kernel's memory: 3",
        "a ring being full: 7",
        "variables of /opt/solver/bin/solver have no names",
    ] {
        assert!(has_note(&report, note), "{note}: {:?}", report.notes);
    }
}

#[test]
fn ibs_says_physical_addresses_and_modified_lines() {
    let report = judged("ibs");
    let area = report.areas.iter().find(|area| area.name.as_deref() == Some("anonymous#0")).unwrap();
    assert_eq!((area.pages_on_node[0], area.pages_best_on_node[3]), (64, 32));
    let own = report.areas.iter().find(|area| area.name.as_deref() == Some("solver#1")).unwrap();
    assert_eq!(own.pages_on_node, [0, 0, 1, 0], "a page that only modified lines were seen of");
    assert!(has_note(
        &report,
        "found their line modified in another cache (HITM), most at 0x604000 in solver#1 40"
    ));
    assert!(has_note(&report, "where pages are is known of 65 by physical addresses"));
    assert!(!has_note(&report, "sizes of pages are not recorded"));
}

#[test]
fn spe_says_who_left_the_socket_and_nodes_have_the_kernels_numbers() {
    let report = judged("spe");
    let area = &report.areas[0];
    assert_eq!((area.pages_on_node[0], area.pages_best_on_node[1]), (64, 32));
    assert!(has_note(&report, "a miss of the last cache that stayed in the socket counts as local"));
    let nodes = report.parameters.iter().find(|one| one.name == "nodes").unwrap();
    assert_eq!(nodes.value, "0,2");
}

#[test]
fn what_is_no_use_says_what_to_do() {
    let refused = |name: &str| judge(&asked(name)).err().unwrap().to_string();
    assert!(refused("spe-raw").contains("perf inject --itrace=M -i perf.data -o decoded.data"));
    // A machine of one node: its pages are where they are.
    let report = judged("real/faults");
    assert!(report.sentence.starts_with("Not NUMA: the machine that it was recorded on"));
    assert!(has_note(&report, "do not say what served them"));
    let names: Vec<&str> = report.areas.iter().filter_map(|area| area.name.as_deref()).collect();
    assert!(names.contains(&"stack#0"), "{names:?}");
}

#[test]
fn processes_and_machines_can_be_named() {
    let with = |process: &str| judge(&Asked { process: Some(process.into()), ..asked("pebs") });
    assert!(with("99").unwrap().report.basis.contains("of other (99)"));
    let all = with("all").unwrap().report;
    assert!(all.basis.contains("2 processes"), "{}", all.basis);
    assert!(all.areas.iter().any(|area| area.name.as_deref() == Some("4242: anonymous#0")));
    let message = with("nobody").err().unwrap().to_string();
    assert!(message.contains("it has those of solver (4242), other (99)"), "{message}");
    let machine = |name: &str, machine: &str| judge(&Asked { machine: Some(machine.into()), ..asked(name) });
    assert_eq!(machine("pebs", "four-socket").unwrap().report.machine.name, "four-socket");
    assert!(machine("ibs", "two-socket").err().unwrap().to_string().contains("of a machine with 4"));
}

#[test]
fn files_begin_with_their_magic() {
    assert!(is_perf_data(&asked("pebs").path) && is_perf_data(&asked("real/piped").path));
    assert!(!is_perf_data(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
    assert!(!is_perf_data(Path::new("/dev/null")) && !is_perf_data(Path::new("/")));
}

/// Large enough to be looked up.
static mut LARGE: [u64; 4096] = [3; 4096];

/// This process, as perf would record it: its variables have names where its file is here, by inode or build-id.
#[test]
fn variables_of_files_that_are_here_have_names() {
    use homing_linux::proc::{Pid, Proc};
    use homing_trace::perf_data::{Facts, Mapped};
    let pid = std::process::id() as i32;
    let own = std::env::current_exe().unwrap().canonicalize().unwrap();
    let maps = Proc::default().maps(Pid(pid)).unwrap();
    let spaces = |change: &dyn Fn(Mapped) -> Mapped| {
        let mut spaces = spaces::Spaces::default();
        for map in maps.iter().filter(|map| map.name == own.to_str().unwrap()) {
            spaces.map(change(Mapped {
                pid,
                start: map.start,
                end: map.end,
                offset: map.offset,
                inode: map.inode,
                build_id: None,
                protection: Some(
                    u32::from(map.read) | u32::from(map.write) << 1 | u32::from(map.execute) << 2,
                ),
                shared: false,
                name: map.name.clone(),
            }));
        }
        spaces
    };
    let address = std::hint::black_box(&raw const LARGE) as u64;
    let page = address & !4095;
    let name = |spaces: &spaces::Spaces, symfs: Option<&Path>| {
        let names = names::Names::of(&spaces.all[0], &Facts::default(), symfs);
        let name = names.name(page, spaces.all[0].find(address)).map(str::to_owned);
        (name.unwrap(), names.missing.len())
    };
    let (found, missing) = name(&spaces(&|mapped| mapped), None);
    assert!(found.contains("LARGE") && missing == 0, "{found}");
    // Another file at that path has other variables.
    let (found, missing) = name(&spaces(&|mapped| Mapped { inode: mapped.inode + 1, ..mapped }), None);
    assert!(!found.contains("LARGE") && found.contains('#') && missing == 1, "{found}");
    let other = |mapped| Mapped { inode: 0, build_id: Some(vec![7; 20]), ..mapped };
    let (found, missing) = name(&spaces(&other), own.parent());
    assert!(!found.contains("LARGE") && missing == 1, "{found}");
}

/// Files of which bits, bytes and parts are wrong are judged or refused, whatever they say.
#[test]
fn damaged_files_never_panic() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut judged = 0;
    for name in ["pebs", "ibs", "spe", "real/packed"] {
        let whole = std::fs::read(asked(name).path).unwrap();
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random(8) {
                // Half of it in the features, which stand at the end.
                let at = [random(bytes.len()), bytes.len() - 1 - random(3000)][random(2)];
                match random(4) {
                    0 => bytes[at] ^= 1 << random(8),
                    1 => bytes[at] = random(256) as u8,
                    2 => bytes[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
                    _ => drop(bytes.drain(at..(at + random(64)).min(bytes.len() - 1).max(at))),
                }
            }
            std::fs::write(&file, &bytes).unwrap();
            let asked = Asked { path: file.path().into(), process: Some("all".into()), ..Asked::default() };
            judged += u32::from(judge(&asked).is_ok());
        }
    }
    assert!(judged > 100, "{judged} of 600 were judged");
}
