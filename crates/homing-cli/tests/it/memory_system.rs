//! The memory system from outside: `--misses`, `--monitor`, `monitors`, several page sizes, `reproduce`, `--calibrate`.

use crate::support::{homing, import, succeeds};
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Caches that a few pages overflow.
const SMALL: [&str; 8] = [
    "--set",
    "hierarchy.l1.size=2K",
    "--set",
    "hierarchy.l2.size=8K",
    "--set",
    "hierarchy.tlb=[{entries=4}]",
    "--threads-on",
    "round-robin",
];

fn json(args: &[&str]) -> Value {
    serde_json::from_slice(&succeeds(2, args).stdout).expect("JSON on stdout")
}

/// `threads` threads on 32 pages: thread 0 makes them, then each walks its own.
fn trace(dir: &Path, name: &str, threads: u64) -> PathBuf {
    let mut csv = String::new();
    let mut line = |thread: u64, page: u64, at: u64, kind: char| {
        csv += &format!("{thread},{},8,{kind}\n", 0x10000 + page * 4096 + at * 64);
    };
    (0..32).for_each(|page| line(0, page, 0, 'w'));
    for round in 0..10u64 {
        for at in 0..64 {
            (0..32).for_each(|page| line(page % threads, page, at, if round % 2 == 0 { 'r' } else { 'w' }));
        }
    }
    import(dir, &format!("{name}.homing"), &csv)
}

#[test]
fn policies_and_the_bound_see_misses() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "walk", 2);
    let on = [&[path.to_str().unwrap(), "-m", "sunfire-6800", "--misses", "--json"], &SMALL[..]].concat();
    let optimal = json(&[&["optimal"], &on[..]].concat());
    let caches = &optimal["caches"];
    assert_eq!(caches["references"], 32 + 10 * 64 * 32);
    let demand = ["fetches_read", "fetches_write", "upgrades"]
        .iter()
        .map(|c| caches[*c].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(optimal["references"].as_u64(), Some(demand));
    // The walk comes to each line again only when all others have been in the caches since.
    assert_eq!(demand, caches["references"].as_u64().unwrap());
    let compared = json(&[&["compare"], &on[..], &["--policies", "first-touch,homing"]].concat());
    let rows = compared["traces"][0]["rows"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["references"] == optimal["references"] && row["replications"] == 0),
        "{rows:?}"
    );
    assert_eq!(&compared["traces"][0]["trace"]["caches"], caches);
    let policies = ["--policies", "first-touch,ace,interval-majority"];
    let monitors = ["--monitor", "perfect", "--monitor", "card:inbound=1"];
    let watched = json(&[&["compare"], &on[..], &policies, &monitors].concat());
    let further = watched["traces"][0]["further_levels"].as_array().unwrap();
    let names: Vec<_> = further.iter().map(|row| (&row["policy"], &row["information"])).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[1].0, "interval-majority");
    assert!(names[2].1.as_str().unwrap().starts_with("monitor card:"), "{names:?}");
    assert!(watched["notes"].as_array().unwrap().iter().any(|n| n.as_str().unwrap().ends_with(": ace")));
    // The same from any number of workers, who take parts of the caches.
    let timeless = |workers| {
        let mut value: Value =
            serde_json::from_slice(&homing(workers, &[&["optimal"], &on[..]].concat()).stdout).unwrap();
        value["seconds"] = 0.into();
        value.to_string()
    };
    assert_eq!(timeless(1), timeless(4));
    let bare = homing(1, &["optimal", path.to_str().unwrap(), "-m", "butterfly", "--misses"]);
    assert_eq!(bare.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bare.stderr).contains("[hierarchy]"));
}

/// Six threads that all read one table of 48 pages, in turn, after thread 0 has made it.
fn table(dir: &Path) -> PathBuf {
    let mut csv = String::new();
    let mut line = |thread: u64, page: u64, at: u64, kind: char| {
        csv += &format!("{thread},{},8,{kind}\n", 0x10000 + page * 8192 + at * 512);
    };
    (0..48).for_each(|page| line(0, page, 0, 'w'));
    for _ in 0..4 {
        for at in 0..16 {
            (0..48).for_each(|page| (0..6).for_each(|thread| line(thread, page, at, 'r')));
        }
    }
    import(dir, "table.homing", &csv)
}

#[test]
fn a_table_that_all_read_takes_longer_than_distances_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = table(dir.path());
    let on = [&["optimal", path.to_str().unwrap(), "-m", "sunfire-6800", "--misses", "--load"], &SMALL[..]]
        .concat();
    let load = json(&[&on[..], &["--json"]].concat())["load"].clone();
    let placements = load["placements"].as_array().unwrap();
    let of = |name: &str| {
        let placed = placements.iter().find(|placed| placed["placement"] == name);
        placed.unwrap_or_else(|| panic!("no {name}: {load}"))["ns"].as_f64().unwrap()
    };
    let (bound, without) = (load["bound_ns"].as_f64().unwrap(), load["without_load_ns"].as_f64().unwrap());
    assert!(bound > 1.02 * without && bound > 0.9 * of("striped"), "{load}");
    assert!(of("first touch") > 1.3 * of("striped"), "all of it is at thread 0: {load}");
    assert!(placements.iter().all(|placed| placed["ns"].as_f64().unwrap() >= bound), "{load}");
    assert_eq!(load["mover"], "program");
    let said = String::from_utf8(succeeds(2, &on).stdout).unwrap();
    assert!(said.contains("No placement, with or without moves, takes less than"), "{said}");
    assert!(said.contains("if memories and links had no load"), "{said}");
    // The model of time itself, in the loop: first touch is no faster than the bound.
    let simulated = ["simulate", path.to_str().unwrap(), "-m", "sunfire-6800", "--policy", "first-touch"];
    let simulated = json(&[&simulated[..], &SMALL[..], &["--monitor", "perfect", "--json"]].concat());
    assert!(simulated["modelled_ms"].as_f64().unwrap() * 1e6 >= bound, "{} {load}", simulated["modelled_ms"]);
    // Where every reference counts, time is not modelled.
    for asked in [
        &["sunfire-6800", "--load"][..],
        &["butterfly", "--misses", "--load"],
        &["sunfire-6800", "--misses", "--load", "--csv"],
    ] {
        let refused = homing(1, &[&["optimal", path.to_str().unwrap(), "-m"][..], asked].concat());
        assert_eq!((refused.status.code(), refused.stdout.len()), (Some(2), 0), "{asked:?}");
    }
}

#[test]
fn a_study_has_the_same_rows_with_monitors_as_a_comparison() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (trace(dir.path(), "walk", 2), dir.path().join("out"));
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let common = [
        &SMALL[..],
        &["--policies", "first-touch,interval-majority,verghese,ace"],
        &["--monitor", "cache-misses:period=4", "--monitor", "perfect"],
    ]
    .concat();
    let on = ["-m", "sunfire-6800", "--misses"];
    let compare = [&["compare", path], &on[..], &common, &["--placement", "single-node", "--json"]].concat();
    let compared = json(&compare);
    let study =
        [&["study", path, "-o", out], &on[..], &common, &["--starts", "first-touch,single-node"]].concat();
    let output = homing(2, &study);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("act at faults") && said.contains(": ace"), "{said}");
    let rows: Vec<HashMap<String, String>> = csv::Reader::from_path(format!("{out}/cells.csv"))
        .unwrap()
        .deserialize()
        .map(Result::unwrap)
        .collect();
    let watched: Vec<_> = rows.iter().filter(|row| row["information"].starts_with("monitor ")).collect();
    let further = compared["traces"][0]["further_levels"].as_array().unwrap();
    let mut found = 0;
    for row in further.iter().filter(|row| row["policy"] != "first-touch") {
        let same = |cell: &&&HashMap<String, String>| {
            cell["start"] == "single-node"
                && ["policy", "information"].iter().all(|&name| row[name] == cell[name])
        };
        let cell = watched.iter().find(same).unwrap_or_else(|| panic!("no cell like {row}"));
        assert_eq!(cell["gap_percent"].parse::<f64>().unwrap(), row["gap_percent"].as_f64().unwrap());
        assert_eq!(cell["private_excess"], "", "costs by class are not known in the loop");
        found += 1;
    }
    let still = watched.iter().filter(|row| row["policy"] == "first-touch").collect::<Vec<_>>();
    assert!(still.len() == 1 && !still[0]["modelled_ms"].is_empty(), "pages that stay, once: {still:?}");
    assert_eq!(watched.len(), 2 * found + 1, "two starts: {watched:?}");
    assert!(found >= 2, "{further:?}");
    let again = homing(2, &study);
    assert!(String::from_utf8_lossy(&again.stdout).contains(", 0 of them computed now"));
    let refused = homing(1, &["study", path, "-o", out, "-m", "sunfire-6800", "--monitor", "perfect"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--misses"));
}

#[test]
fn a_study_and_a_comparison_bound_from_where_policies_begin() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (trace(dir.path(), "walk", 2), dir.path().join("out"));
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let common = [
        &SMALL[..],
        &["-m", "sunfire-6800", "--misses", "--page-size", "4K", "--policies", "interval-majority,striped"],
        &["--monitor", "perfect", "--bound-start", "same"],
    ]
    .concat();
    let study =
        [&["study", path, "-o", out, "--json"], &common[..], &["--starts", "first-touch,single-node:1"]];
    let cells = json(&study.concat())["cells"].as_array().unwrap().clone();
    assert_eq!(
        cells.len(),
        2 * 2 + 2,
        "striped begins as it says: once is enough, and once in the loop: {cells:?}"
    );
    let free = json(
        &[&["optimal", path, "-m", "sunfire-6800", "--misses", "--page-size", "4K", "--json"], &SMALL[..]]
            .concat(),
    );
    for start in ["first-touch", "single-node:1"] {
        let compared = json(&[&["compare", path, "--json", "--placement", start], &common[..]].concat());
        let notes = compared["notes"].to_string();
        assert!(notes.contains("begins where it begins"), "{notes}");
        let trace = &compared["traces"][0];
        let further = trace["further_levels"].as_array().unwrap();
        let rows: Vec<&Value> = trace["rows"].as_array().unwrap().iter().chain(further).collect();
        assert!(rows[0]["cost"].as_f64() > free["cost"].as_f64(), "pages pay for leaving {start}");
        let of_start = |cell: &&Value| cell["start"] == start || cell["start"] == "own";
        let mut found = 0;
        for cell in cells.iter().filter(of_start) {
            let same = |row: &&&Value| ["policy", "information"].iter().all(|&name| row[name] == cell[name]);
            let row = rows.iter().find(same).unwrap_or_else(|| panic!("no row like {cell}"));
            assert_eq!(row["gap_percent"], cell["gap_percent"], "{row} {cell}");
            found += 1;
        }
        assert_eq!(found, 4);
    }
    let refused = homing(
        1,
        &["compare", path, "-m", "butterfly", "--bound-start", "same", "--sweep", "page-move=20..40"],
    );
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("from one copy anywhere"));
}

#[test]
fn every_monitor_runs_in_the_loop_and_gives_the_same_at_any_number_of_workers() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "walk", 2);
    let monitors = json(&["monitors", "--json"]);
    let on = [
        &["simulate", path.to_str().unwrap(), "-m", "sunfire-6800", "--policy", "interval-majority"],
        &SMALL[..],
        &["--page-size", "4K", "--interval", "2000", "--json"],
    ]
    .concat();
    for monitor in monitors["monitors"].as_array().unwrap() {
        let mut name = monitor["name"].as_str().unwrap();
        if name == "hint-faults" {
            // By itself the live session, which has intervals of its own.
            name = "hint-faults:every=500";
        }
        let args = [&on[..], &["--monitor", name]].concat();
        let result = json(&args);
        let (before, after) = (&result["before"], &result["after"]);
        for field in ["nonlocal_percent", "caches", "intervals", "modelled"] {
            assert!(!before[field].is_null() && !after[field].is_null(), "{name}: {field}");
        }
        assert!(after["modelled"]["total_ns"].as_f64().unwrap() > 0.0, "{name}");
        assert_eq!(after["intervals"].as_array().unwrap().len(), 11, "{name}");
        if name.starts_with("perfect") {
            assert!(
                result["moves"].as_u64().unwrap() >= 16,
                "{name} moves half of the pages: {}",
                result["moves"]
            );
            assert!(after["nonlocal_percent"].as_f64() < before["nonlocal_percent"].as_f64(), "{name}");
        }
        let same = |workers| {
            let mut value: Value = serde_json::from_slice(&homing(workers, &args).stdout).unwrap();
            value["seconds"] = 0.into();
            value
        };
        assert_eq!(same(1), same(4), "{name}");
    }
    let refused = |extra: &[&str]| {
        let output = homing(1, &[&on[..], extra].concat());
        assert_eq!(output.status.code(), Some(2), "{extra:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&["--monitor", "hint-faults"]).contains("intervals of 100 ms"));
    assert!(refused(&["--monitor", "nothing"]).contains("expected one of perfect"));
    assert!(refused(&["--monitor", "atc", "--set", "hierarchy.tlb=[]"]).contains("no `tlb`"));
    assert!(refused(&["--monitor", "perfect", "--placement", "nowhere"]).contains("nowhere"));
}

#[test]
fn files_of_a_run_with_a_monitor() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "walk", 2);
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (actions, intervals, placement) = (file("actions.csv"), file("intervals.csv"), file("placement"));
    let args = [
        &["simulate", path.to_str().unwrap(), "-m", "sunfire-6800", "--policy", "interval-majority"],
        &SMALL[..],
        // The machine's own pages of 8 KB would each be used by both threads alike.
        &["--page-size", "4K", "--monitor", "perfect", "--interval", "2000", "--mover", "stopped"],
        &["--actions", &actions],
        &["--intervals", &intervals, "--placement-out", &placement],
    ]
    .concat();
    let output = homing(1, &args);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("modelled time"), "{text}");
    assert!(std::fs::read_to_string(&actions).unwrap().contains("move"));
    assert_eq!(std::fs::read_to_string(&intervals).unwrap().lines().count(), 12);
    assert!(std::fs::read_to_string(&placement).unwrap().starts_with("# homing placement 1"));
}

#[test]
fn large_pages_that_threads_share_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "walk", 2);
    let report = json(&[
        "compare",
        path.to_str().unwrap(),
        "-m",
        "two-socket",
        "--threads-on",
        "one-per-node",
        "--policies",
        "first-touch,homing",
        "--no-replication",
        "--every-reference",
        "--page-size",
        "4K,64K",
        "--json",
    ]);
    let trace = &report["traces"][0];
    let rows = trace["page_sizes"].as_array().unwrap();
    let cost = |size: u64, policy: &str| {
        let row = rows.iter().find(|row| row["page_size"] == size && row["policy"] == policy).expect("a row");
        row["cost"].as_f64().unwrap()
    };
    assert!(cost(65536, "optimal") > cost(4096, "optimal"), "threads take pages in turn");
    assert!(!trace["split"].as_array().unwrap().is_empty());
    let wrong = homing(1, &["optimal", path.to_str().unwrap(), "-m", "two-socket", "--page-size", "4K,64K"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn tables_are_reproduced_from_given_traces() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "cg-n700-e120-i60-serial-6", 6);
    trace(dir.path(), "mg-i20-serial-12", 12);
    let folder = dir.path().to_str().unwrap();
    let page = dir.path().join("page.html");
    let args =
        ["reproduce", "--traces", folder, "--workloads", folder, "--only", "table1,figure2,contention"];
    let exhibits = json(&[&args[..], &["--json", "--html", page.to_str().unwrap()]].concat());
    let names: Vec<_> =
        exhibits["exhibits"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["table1", "figure2", "contention"]);
    assert_eq!(exhibits["exhibits"][0]["lines"][0]["published"][0], 0.56);
    assert!(std::fs::read_to_string(&page).unwrap().contains("<svg"));
    // One order in a quick run; else three, of which two are made.
    let repeats = |exhibits: &serde_json::Value| exhibits["exhibits"][0]["claims"][0]["repeats"].clone();
    assert_eq!(repeats(&exhibits), 3);
    assert!(dir.path().join("mg-i20-serial-12.order2.homing").exists());
    assert_eq!(repeats(&json(&[&args[..], &["--json", "--quick"]].concat())), 1);
    let text = String::from_utf8_lossy(&homing(1, &args).stdout).into_owned();
    assert!(text.starts_with(" claims") && text.contains("holds in direction"), "{text}");
    let missing = homing(1, &["reproduce", "--traces", folder, "--workloads", folder, "--only", "table2"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("make workloads"));
    assert_eq!(homing(1, &["reproduce", "--only", "table99"]).status.code(), Some(2));
    let nobody = homing(1, &["reproduce", "nobody"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nobody.stderr)
        .contains("paper nobody: expected some of tikir, nikolopoulos"));
}

#[test]
fn a_machine_is_calibrated_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("measured.csv");
    std::fs::write(&file, "from,to,latency_ns,bandwidth_gbs\n0,0,90,64\n0,1,160,32\n1,0,160,32\n1,1,90,64\n")
        .unwrap();
    let output = homing(1, &["machines", "two-socket", "--calibrate", file.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("memory_busy_ns = 1.0"), "{text}");
    assert_eq!(homing(1, &["machines", "--calibrate", file.to_str().unwrap()]).status.code(), Some(2));
}

#[test]
fn threads_that_move_leave_their_caches_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "moving", 2);
    let events = dir.path().join("events.csv");
    let path = path.to_str().unwrap();
    let on = [
        &["simulate", path, "-m", "sunfire-6800", "--misses", "--policy", "first-touch", "--json"],
        &SMALL[..],
    ];
    let on = on.concat();
    let still = json(&on);
    let with = |text: &str| {
        std::fs::write(&events, text).unwrap();
        json(&[&on[..], &["--events", events.to_str().unwrap()]].concat())
    };
    let nonlocal = |row: &Value| row["nonlocal_percent"].as_f64().unwrap();
    // Thread 1 begins on CPU 4, the first of node 1, and the pages lie on node 0.
    assert_eq!(with("time,thread,cpu\n10000,1,4\n")["trace"]["caches"], still["trace"]["caches"]);
    let moved = with("time,thread,cpu\n10000,1,1\n");
    assert!(moved["trace"]["caches"]["interventions"].as_u64() > Some(0), "lines in the old caches: {moved}");
    assert!((nonlocal(&moved) - nonlocal(&still) / 2.0).abs() < 2.0, "{moved} {still}");
    // The same with a monitor in the loop.
    let watched: Vec<&str> = on.iter().copied().filter(|arg| *arg != "--misses").collect();
    let extra = ["--policy", "homing", "--monitor", "perfect", "--interval", "2000", "--page-size", "4K"];
    let watched: Vec<&str> = watched
        .iter()
        .copied()
        .filter(|arg| !["--policy", "first-touch"].contains(arg))
        .chain(extra)
        .collect();
    let still = json(&[&watched[..], &["--events", events.to_str().unwrap()]].concat());
    assert!((nonlocal(&still["before"]) - nonlocal(&moved)).abs() < 5.0, "{moved} {still}");
    assert!(still["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "events"));
}

#[test]
fn a_simulated_live_session_brings_pages_home_and_its_log_can_be_checked() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "walk", 2);
    let (path, log) = (path.to_str().unwrap(), dir.path().join("session.log"));
    let log = log.to_str().unwrap();
    let on = [&["simulate", path, "-m", "two-socket", "--policy", "work-function"], &SMALL[..]].concat();
    // 20000 references by two threads, most of them misses: some 45 seconds.
    let monitor = ["--monitor", "hint-faults:slow=100000"];
    let run = json(&[&on[..], &monitor, &["--json", "--tee", log]].concat());
    let (session, after) = (&run["session"], &run["after"]);
    assert!(session["moved"] == 16 && after["moves"] == 16 && run.get("interval").is_none(), "{run}");
    assert!(
        session["scans"].as_u64().unwrap() >= 2 && session["hint_faults"].as_u64().unwrap() >= 16,
        "{session}"
    );
    let charges = &session["charges"];
    let scans = session["scans"].as_f64().unwrap();
    // Each scan: the helper's 20 ms, and two ticks of 4 ms in which all threads stand still.
    assert!(charges["scans_ns"].as_f64() == Some(scans * 20e6), "{session}");
    assert!(charges["holds_ns"].as_f64() > Some(scans * 8e6), "{session}");
    assert!(session["delay_seconds"].as_f64() > charges["holds_ns"].as_f64().map(|ns| ns / 1e9), "{session}");
    let curve = session["curve"].as_array().unwrap();
    let shares: Vec<f64> = curve.iter().filter_map(|point| point["nonlocal_percent"].as_f64()).collect();
    assert!(curve.len() > 100 && shares[0] > 40.0 && shares.last() == Some(&0.0), "{shares:?}");
    assert!(after["nonlocal_percent"].as_f64() < run["before"]["nonlocal_percent"].as_f64(), "{run}");
    let checked: Value =
        serde_json::from_slice(&succeeds(2, &["replay", "--check", log, "--json"]).stdout).unwrap();
    assert!(checked["actions"].as_u64() > Some(40) && checked["actions"] == checked["same"], "{checked}");

    let shown = succeeds(2, &[&on[..], &monitor].concat()).stdout;
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("charged (modelled): all threads held"), "{shown}");
    assert!(shown.contains("16 moved") && shown.contains("non-local % of misses over time"), "{shown}");
    let short = succeeds(2, &[&on[..], &["--monitor", "hint-faults"]].concat()).stdout;
    assert!(
        String::from_utf8(short).unwrap().contains("hint-faults:slow=N"),
        "too short a trace is said to be so"
    );

    let fixed = json(&[&on[..], &["--monitor", "hint-faults:window=4,every=500", "--json"]].concat());
    assert!(fixed.get("session").is_none() && fixed["samples"].as_u64() > Some(16), "{fixed}");
    assert_eq!(fixed["monitor"], "hint-faults:every=500,window=4");
    let wrong = homing(2, &[&on[..], &["--monitor", "hint-faults:every=500", "--tee", log]].concat());
    assert_eq!(wrong.status.code(), Some(2));
    let mixed = homing(2, &[&on[..], &["--monitor", "hint-faults:every=500,slow=2"]].concat());
    assert!(String::from_utf8(mixed.stderr)
        .unwrap()
        .contains("has no parameter `slow`: it has every, window"));

    let several = ["compare", path, "-m", "two-socket", "--misses", "--policies", "work-function"];
    let compared = succeeds(2, &[&several[..], &monitor, &SMALL[..]].concat()).stdout;
    let compared = String::from_utf8(compared).unwrap();
    let row = shown.lines().rfind(|line| line.starts_with(" work-function")).unwrap();
    let column = compared.split("monitor hint-faults:slow=100000").nth(1).unwrap();
    assert_eq!(
        column.lines().nth(1).unwrap().split_whitespace().last(),
        row.split_whitespace().nth(2),
        "{compared}"
    );
}
