//! `homing why` from the outside: verdicts on small traces with a known cause.

use crate::support::{self, judged as stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};

const PAGES: u64 = 64;
const THREADS: u64 = 4;

/// `maker` says which thread first writes a page; then each of four threads uses 16 of them, 40 times.
fn trace(folder: &Path, maker: impl Fn(u64) -> u64) -> PathBuf {
    used(folder, 40, maker)
}

/// The same, each page used `times` times.
fn used(folder: &Path, times: u64, maker: impl Fn(u64) -> u64) -> PathBuf {
    let mut csv = String::new();
    let mut turn = |thread: u64, page: u64| {
        for word in 0..64 {
            csv += &format!("{thread},{},8,w\n", (page + 1) * 4096 + word * 8);
        }
    };
    (0..PAGES).for_each(|page| turn(maker(page), page));
    for _ in 0..times {
        (0..PAGES).for_each(|page| turn(page * THREADS / PAGES, page));
    }
    support::import(folder, "a.trace", &csv)
}

#[test]
fn one_thread_that_makes_all_pages_is_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    let text = stdout(&["why", trace, "--machine", "butterfly"]);
    assert!(
        text.contains("One thread filled ")
            && text.contains("so all of it is on node 0. Filling it by the threads"),
        "{text}"
    );
    for shown in
        ["4 threads", "4 nodes (busy)", "node 0", "pragma omp parallel for", "(spreading all pages would add"]
    {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&["why", trace, "--machine", "butterfly", "--json"])).unwrap();
    assert_eq!(json["verdict"], "initialised-by-one-thread");
    let area = &json["areas"][0];
    assert_eq!((area["pages"].as_u64(), &area["remedy"]["remedy"]), (Some(64), &"initialise-by-user".into()));
    // Three quarters of the uses cost 15 instead of 1; whoever uses the pages makes them afterwards.
    let now = f64::from(64 * 64 + 16 * 40 * 64) + f64::from(48 * 40 * 64) * 15.0;
    let then = f64::from(64 * 40 * 64 + 64 * 64);
    assert_eq!(
        (json["cost"]["now"].as_f64(), json["cost"]["with_remedies"].as_f64()),
        (Some(now), Some(then))
    );
    assert!((json["gain"]["high"].as_f64().unwrap() - (1.0 - then / now)).abs() < 1e-9);
    let page = folder.path().join("why.md");
    stdout(&["why", trace, "--machine", "butterfly", "--markdown", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(page)
        .unwrap()
        .starts_with("**4 threads of this program work, on 4 of 7 nodes. One "));
}

#[test]
fn pages_made_by_their_users_are_not_numa() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |page| page * THREADS / PAGES);
    let text = stdout(&["why", trace.to_str().unwrap(), "--machine", "butterfly"]);
    assert!(
        text.contains("Not NUMA: placing memory saves at most 0.0 %") && text.contains("Nothing to do"),
        "{text}"
    );
}

#[test]
fn one_thread_alone_is_told_and_how_to_judge_what_comes_after() {
    let lab = tempfile::tempdir().unwrap();
    let trace = trace(lab.path(), |page| page * THREADS / PAGES);
    let text = stdout(&["why", trace.to_str().unwrap(), "--machine", "butterfly", "--threads-on", "0"]);
    assert!(text.contains("since all threads that were seen run on one node"), "{text}");
    assert!(text.contains("homing why --from FUNCTION"), "{text}");
}

#[test]
fn data_that_fit_into_caches_do_not_tell_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    // Long enough that filling the caches takes less than 3 % of the time.
    let trace = used(folder.path(), 200, |_| 0);
    let text = stdout(&["why", trace.to_str().unwrap()]);
    assert!(
        text.starts_with("Not known: the program uses 256 KiB, and caches hold 64 MiB (modelled).")
            && text.contains("two-socket (behind caches, one copy a page)"),
        "{text}"
    );
}

#[test]
fn threads_are_looked_at_by_themselves_on_pages_where_the_whole_trace_puts_them() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    let why = |options: &[&str]| stdout(&[&["why", trace, "--machine", "butterfly"], options].concat());
    let text = why(&["--threads", "1-3", "--verbose"]);
    assert!(text.contains("One thread filled "), "{text}");
    assert!(
        text.contains("note: only threads 1-3: ") && text.contains("; 64 stay that are the first"),
        "{text}"
    );
    // Thread 0 uses what it has made.
    assert!(why(&["--threads", "0"]).contains("Not NUMA"));
    let compared = |options: &[&str]| {
        let args = ["compare", trace, "--machine", "butterfly", "--policies", "first-touch", "--json"];
        let json: Value = serde_json::from_str(&stdout(&[&args, options].concat())).unwrap();
        let rows = json["traces"][0]["rows"].as_array().unwrap().clone();
        rows.iter().find(|row| row["policy"] == "first-touch").unwrap()["references"].as_u64().unwrap()
    };
    let use_of_one = 16 * 40 * 64;
    assert_eq!(compared(&[]), 64 * 64 + 4 * use_of_one);
    assert_eq!(compared(&["--threads", "2"]), 64 + use_of_one);
    let monitor = ["compare", trace, "--machine", "two-socket", "--misses", "--monitor", "hint-faults"];
    let output = support::homing(1, &[&monitor[..], &["--threads", "2"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn threads_have_shares_of_what_can_be_avoided() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    let args = ["why", trace, "--machine", "butterfly", "--by", "thread,phase"];
    let json: Value = serde_json::from_str(&stdout(&[&args[..], &["--json"]].concat())).unwrap();
    let threads = json["shares"]["by_thread"].as_array().unwrap();
    let use_of_one = 16 * 40 * 64;
    for (number, share) in threads.iter().enumerate() {
        let own = number > 0;
        assert_eq!(share["name"], number.to_string());
        assert_eq!(share["references"], use_of_one + if own { 0 } else { 64 * 64 });
        assert_eq!(share["nonlocal_percent"], if own { 100.0 } else { 0.0 });
        let avoidable = share["avoidable_percent"].as_f64().unwrap();
        assert!((avoidable - if own { 100.0 / 3.0 } else { 0.0 }).abs() < 1e-9, "{avoidable}");
    }
    assert_eq!((threads.len(), json["shares"]["by_phase"].as_array().unwrap().len()), (4, 1));
    let text = stdout(&args);
    for shown in ["thread  references  non-local  avoidable", "33.3 %", "(before the first phase)"] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    let page = stdout(&[&args[..], &["--markdown", "-"]].concat());
    assert!(page.contains("| thread | references | non-local | avoidable |\n|---|---|---|---|"), "{page}");
    let all: Value =
        serde_json::from_str(&stdout(&["why", trace, "--machine", "butterfly", "--json"])).unwrap();
    assert!(all["shares"].is_null());
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let absent = support::homing(1, &["why", "/absent.trace"]);
    assert_eq!(absent.status.code(), Some(1), "{}", String::from_utf8_lossy(&absent.stderr));
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    for wrong in [
        ["--machine", "none"],
        ["--areas", "0"],
        ["--threads-on", "99"],
        ["--page-size", "3K"],
        ["--threads", "4-7"],
        ["--threads", "x"],
        ["--phase", "forces"],
        ["--by", "page"],
    ] {
        let output = support::homing(1, &[&["why", trace], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Two threads that write `offset` bytes into 16 lines each, in turn.
fn in_turn(folder: &Path, address: impl Fn(u64, u64) -> u64) -> PathBuf {
    let mut csv = String::new();
    for turn in 0..3000 {
        (0..2).for_each(|thread| csv += &format!("{thread},{},8,w\n", 4096 + address(thread, turn)));
    }
    support::import(folder, "turns.trace", &csv)
}

#[test]
fn counters_that_share_a_line_are_to_be_padded_and_apart_nothing_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let trace = in_turn(folder.path(), |thread, turn| turn % 16 * 64 + thread * 8);
    let json: Value = serde_json::from_str(&stdout(&["why", trace.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(json["verdict"], "falsely-shared-lines");
    let area = &json["areas"][0];
    assert_eq!(area["remedy"]["remedy"], "pad-lines");
    assert!(area["remedy"]["paste"][1]["text"].as_str().unwrap().contains("alignas(64)"), "{area}");
    // Each write of a thread but its first to each line fetches it from the other node for nothing new.
    assert_eq!(
        (area["lines"]["falsely"].as_u64(), area["lines"]["truly"].as_u64()),
        (Some(6000 - 32), Some(0))
    );
    let apart = in_turn(folder.path(), |thread, turn| turn % 16 * 64 + thread * 4096);
    let text = stdout(&["why", apart.to_str().unwrap()]);
    assert!(text.starts_with("Not known: the trace has 6000 references"), "{text}");
}

#[test]
fn remedies_without_a_change_of_the_source_are_there_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let trace = in_turn(folder.path(), |thread, turn| turn % 16 * 64 + thread * 8);
    let json: Value = serde_json::from_str(&stdout(&["why", trace.to_str().unwrap(), "--json"])).unwrap();
    let all = json["one_remedy_for_all"].as_array().unwrap();
    let one_node =
        all.iter().find(|remedy| remedy["remedy"] == "one-node").expect("two threads fit on a node");
    assert!(one_node["saves"].as_f64().unwrap() > 0.0, "threads of one node share lines at its third level");
    let forms: Vec<&str> =
        one_node["paste"].as_array().unwrap().iter().map(|paste| paste["form"].as_str().unwrap()).collect();
    assert_eq!(forms, ["shell", "systemd", "oci", "cgroup"]);
    for remedy in all.iter().filter(|remedy| remedy["saves"].as_f64().unwrap() <= 0.0) {
        assert!(remedy.get("paste").is_none(), "what does not pay is not offered: {remedy}");
    }
}

/// The data inside a page.
fn data(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, rest) = text.split_once(r#"<script type="application/json" id="homing-report">"#).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_page_has_the_same_diagnosis_with_the_page_map_and_four_policies() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (trace(folder.path(), |_| 0), folder.path().join("why.html"));
    let why = ["why", trace.to_str().unwrap(), "--machine", "butterfly"];
    let json: Value = serde_json::from_str(&stdout(&[&why[..], &["--json"]].concat())).unwrap();
    let text = stdout(&[&why[..], &["--html", page.to_str().unwrap()]].concat());
    assert!(text.contains("One thread filled "), "the text is printed as well: {text}");
    let report = data(&page);
    let shown = &report["traces"][0];
    assert_eq!(shown["why"], json);
    let policies: Vec<&str> =
        shown["rows"].as_array().unwrap().iter().map(|row| row["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["optimal", "first-touch", "striped", "homing"]);
    assert_eq!(shown["page_map"]["vaddr"].as_array().unwrap().len(), 64);
    // The diagnosis counts one copy a page, and so do the policies beside it.
    assert_eq!(shown["rows"][3]["replications"], 0);
}

#[test]
fn a_comparison_diagnoses_its_own_model_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let trace = used(folder.path(), 200, |_| 0);
    let trace = trace.to_str().unwrap();
    let compare = |options: &[&str]| -> Value {
        let all = [&["compare", trace, "--policies", "first-touch,homing", "--json"], options].concat();
        serde_json::from_str(&stdout(&all)).unwrap()
    };
    let why = |options: &[&str]| compare(options)["traces"][0]["why"].clone();
    let own = why(&["--machine", "two-socket", "--threads-on", "fill", "--every-reference"]);
    assert_eq!((&own["behind_caches"], &own["threads_on"]), (&false.into(), &"fill".into()));
    let basis = own["basis"].as_str().unwrap();
    for other in ["model of the comparison", "--misses", "--threads-on busy"] {
        assert!(basis.contains(other), "{other}: {basis}");
    }
    let honest = why(&["--machine", "two-socket"]);
    let same: Value = serde_json::from_str(&stdout(&["why", trace, "--json"])).unwrap();
    for field in ["verdict", "basis", "cost", "gain", "areas", "traffic"] {
        assert_eq!(honest[field], same[field], "{field}");
    }
    // Global memory is no node that a diagnosis could speak of.
    let none = compare(&["--machine", "ace", "--placement", "global"]);
    assert!(none["traces"][0].get("why").is_none());
    assert!(none["notes"].to_string().contains("no diagnosis: pages begin in global memory"), "{none}");
    assert!(why(&["--machine", "ace"])["verdict"].is_string());
}

#[test]
fn huge_pages_that_threads_share_by_small_pages_are_to_be_small() {
    let folder = tempfile::tempdir().unwrap();
    // Threads in turn make and use eight small pages each, all in one huge page.
    let mut csv = String::new();
    for turn in 0..40 * 64 {
        let (page, word) = (turn % 64, turn / 64 * 8);
        let thread = page / 8 % THREADS;
        csv += &format!("{thread},{},8,w\n", (2 << 20) + page * 4096 + word).repeat(8);
    }
    let trace = support::import(folder.path(), "huge.trace", &csv);
    let why = ["why", trace.to_str().unwrap(), "--machine", "butterfly"];
    let in_huge = [&why[..], &["--page-size", "2M"]].concat();
    let json: Value = serde_json::from_str(&stdout(&[&in_huge[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["verdict"], "shared-huge-pages");
    let remedy = &json["areas"][0]["remedy"];
    assert_eq!(remedy["remedy"], serde_json::json!({ "small-pages": "as-now" }));
    // What first touch costs in small pages: all is local.
    assert_eq!(
        (remedy["cost"].as_f64(), &json["cost"]["with_remedies"]),
        (Some(40.0 * 64.0 * 8.0), &remedy["cost"])
    );
    let text = stdout(&[&in_huge[..], &["--verbose"]].concat());
    for shown in ["MADV_NOHUGEPAGE", "prctl(41, 1", "small pages miss the TLBs more often"] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    let small = stdout(&why);
    assert!(small.contains("Not known: the trace has 20480 references"), "{small}");
    assert!(!small.contains("MADV_NOHUGEPAGE"), "{small}");
}

#[test]
fn the_range_says_what_neighbouring_threads_on_one_node_would_change() {
    let folder = tempfile::tempdir().unwrap();
    // Thread 0 makes what thread 1 uses, while the others work on pages of their own.
    let turn = |thread: u64, page: u64| format!("{thread},{},8,w\n", (page + 1) * 4096).repeat(64);
    let mut csv: String = (0..64).map(|page| turn(0, page)).collect();
    for _ in 0..20 {
        (0..64).for_each(|page| csv += &turn(1, page));
        [0, 2, 3]
            .iter()
            .for_each(|&thread| (0..8).for_each(|page| csv += &turn(thread, 100 * thread + 100 + page)));
    }
    let trace = support::import(folder.path(), "neighbours.trace", &csv);
    let why = |options: &[&str]| -> (f64, f64, String) {
        let all = [&["why", trace.to_str().unwrap(), "--machine", "butterfly", "--json"], options].concat();
        let json: Value = serde_json::from_str(&stdout(&all)).unwrap();
        let gain = |end: &str| json["gain"][end].as_f64().unwrap();
        (gain("low"), gain("high"), json["notes"].to_string())
    };
    // On two nodes thread 1 is on the other one in turn, and on the same in blocks, where nothing is to be had.
    let (low, high, notes) = why(&["--set", "nodes=2"]);
    assert!(low == 0.0 && high > 0.5 && notes.contains("the blocks widen it"), "{low} {high} {notes}");
    // On four nodes each thread has its own, and where threads run may be said.
    let (low, high, notes) = why(&["--set", "nodes=4"]);
    assert!(low == high && notes.contains("the same nodes in turn and in blocks"), "{low} {high} {notes}");
    let (low, high, notes) = why(&["--set", "nodes=2", "--threads-on", "one-per-node"]);
    assert!(low == high && !notes.contains("in blocks"), "{low} {high} {notes}");
}
