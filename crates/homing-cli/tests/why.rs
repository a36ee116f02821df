//! `homing why` from the outside: verdicts on small traces with a known cause.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};

const PAGES: u64 = 64;
const THREADS: u64 = 4;

/// `maker` says which thread first writes a page; then each of four threads uses 16 of them, 40 times.
fn trace(folder: &Path, maker: impl Fn(u64) -> u64) -> PathBuf {
    let mut csv = String::new();
    let mut turn = |thread: u64, page: u64| {
        for word in 0..64 {
            csv += &format!("{thread},{},8,w\n", (page + 1) * 4096 + word * 8);
        }
    };
    (0..PAGES).for_each(|page| turn(maker(page), page));
    for _ in 0..40 {
        (0..PAGES).for_each(|page| turn(page * THREADS / PAGES, page));
    }
    support::import(folder, "a.trace", &csv)
}

fn stdout(args: &[&str]) -> String {
    String::from_utf8(support::succeeds(1, args).stdout).unwrap()
}

#[test]
fn one_thread_that_makes_all_pages_is_the_cause() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    let text = stdout(&["why", trace, "--machine", "butterfly"]);
    assert!(text.starts_with("Initialised by one thread: 1 area with 100 %"), "{text}");
    for shown in [
        "4 threads",
        "4 nodes (round-robin)",
        "node 0",
        "pragma omp parallel for",
        "numactl --interleave=all",
    ] {
        assert!(text.contains(shown), "{shown}\n{text}");
    }
    let json: Value =
        serde_json::from_str(&stdout(&["why", trace, "--machine", "butterfly", "--json"])).unwrap();
    assert_eq!(json["verdict"], "initialised-by-one-thread");
    let area = &json["areas"][0];
    assert_eq!((area["pages"].as_u64(), &area["remedy"]["remedy"]), (Some(64), &"initialise-by-user".into()));
    // Three quarters of the uses cost 15 instead of 1; making the pages is remote afterwards.
    let now = f64::from(64 * 64 + 16 * 40 * 64) + f64::from(48 * 40 * 64) * 15.0;
    let then = f64::from(64 * 40 * 64 + 16 * 64) + f64::from(48 * 64) * 15.0;
    assert_eq!(
        (json["cost"]["now"].as_f64(), json["cost"]["with_remedies"].as_f64()),
        (Some(now), Some(then))
    );
    assert!((json["gain"]["high"].as_f64().unwrap() - (1.0 - then / now)).abs() < 1e-9);
    let page = folder.path().join("why.md");
    stdout(&["why", trace, "--machine", "butterfly", "--markdown", page.to_str().unwrap()]);
    assert!(std::fs::read_to_string(page).unwrap().starts_with("**Initialised by one thread"));
}

#[test]
fn pages_made_by_their_users_are_not_numa() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |page| page * THREADS / PAGES);
    let text = stdout(&["why", trace.to_str().unwrap(), "--machine", "butterfly"]);
    assert!(text.starts_with("Not NUMA: at most 0.0 %") && text.contains("Nothing to do"), "{text}");
}

#[test]
fn data_that_fit_into_caches_are_not_numa_wherever_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), |_| 0);
    let text = stdout(&["why", trace.to_str().unwrap()]);
    assert!(
        text.starts_with("Not NUMA") && text.contains("two-socket (behind caches, one copy a page)"),
        "{text}"
    );
}

#[test]
fn wrong_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let absent = support::homing(1, &["why", "/absent.trace"]);
    assert_eq!(absent.status.code(), Some(1), "{}", String::from_utf8_lossy(&absent.stderr));
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    for wrong in [["--machine", "none"], ["--areas", "0"], ["--threads-on", "99"], ["--page-size", "3K"]] {
        let output = support::homing(1, &[&["why", trace], &wrong[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", String::from_utf8_lossy(&output.stderr));
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
    assert!(text.starts_with("Initialised by one thread"), "the text is printed as well: {text}");
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
    let trace = trace(folder.path(), |_| 0);
    let trace = trace.to_str().unwrap();
    let compare = |options: &[&str]| -> Value {
        let all = [&["compare", trace, "--policies", "first-touch,homing", "--json"], options].concat();
        serde_json::from_str(&stdout(&all)).unwrap()
    };
    let why = |options: &[&str]| compare(options)["traces"][0]["why"].clone();
    let own = why(&["--machine", "two-socket", "--threads-on", "fill"]);
    assert_eq!((&own["behind_caches"], &own["threads_on"]), (&false.into(), &"fill".into()));
    let basis = own["basis"].as_str().unwrap();
    for other in ["model of the comparison", "--misses", "--threads-on round-robin"] {
        assert!(basis.contains(other), "{other}: {basis}");
    }
    let honest = why(&["--machine", "two-socket", "--threads-on", "round-robin", "--misses"]);
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
