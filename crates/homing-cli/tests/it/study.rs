//! `study` from outside: the grid is whole, a killed study goes on, rows are the same at any number of workers.

use crate::support;
use crate::support::{command, import, succeeds};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// Two threads; which pages the second takes over depends on `shift`.
fn trace(dir: &Path, name: &str, shift: u64) -> PathBuf {
    let mut csv = String::new();
    for step in 0..4000u64 {
        let page = step % 8;
        let thread = u64::from(step >= 500 && (page + shift) % 8 >= 4);
        let kind = if step % 3 == 0 { 'w' } else { 'r' };
        csv += &format!("{thread},{},8,{kind}\n", 0x10000 + page * 4096 + step % 512 * 8);
    }
    import(dir, &format!("{name}.trace"), &csv)
}

/// The plan of all tests here, as a file.
fn plan(dir: &Path) -> PathBuf {
    let traces = [trace(dir, "one", 0), trace(dir, "two", 3)];
    let plan = dir.join("plan.toml");
    let text = format!(
        "traces = {:?}\nmachines = [\"butterfly\", \"eight-node\"]\nstarts = [\"first-touch\", \"single-node\"]\n\
         info = [\"perfect\", \"every:8\"]\npolicies = [\"first-touch\", \"best-static\", \"interval-majority\", \
         \"verghese\"]\n\
         threads-on = \"one-per-node\"\n",
        traces.map(|path| path.display().to_string())
    );
    fs::write(&plan, text).unwrap();
    plan
}

/// Two static policies once, two others at two starts and two levels, on two traces and two machines.
const CELLS: usize = (2 + 2 * 4) * 4;

/// Rows by key, without what is measured.
fn rows(out: &Path) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(out.join("cells.csv")).unwrap();
    let rows = reader.deserialize::<BTreeMap<String, String>>().map(|row| {
        let mut row = row.unwrap();
        row.remove("seconds");
        (row["key"].clone(), row)
    });
    rows.collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_grid_is_whole_and_written_in_all_forms() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, out) = (plan(dir.path()), dir.path().join("out"));
    let (plan, target) = (plan.to_str().unwrap(), out.to_str().unwrap());
    let output = succeeds(2, &["study", "--plan", plan, "--out", target]);
    assert!(said(&output).contains(&format!("{CELLS} cells, {CELLS} of them computed now")));
    let rows = rows(&out);
    assert_eq!(rows.len(), CELLS);
    for row in rows.values() {
        assert!(row["gap_percent"].parse::<f64>().unwrap() > -1e-9, "{row:?}");
        let excess = ["private", "read_shared", "migratory", "producer_consumer", "write_shared"];
        let excess: f64 =
            excess.iter().map(|class| row[&format!("{class}_excess")].parse::<f64>().unwrap()).sum();
        let gap: f64 = row["cost"].parse::<f64>().unwrap() - row["optimal_cost"].parse::<f64>().unwrap();
        assert!((excess - gap).abs() < 1e-6 * gap.max(1.0), "the classes add up: {row:?}");
    }
    let parquet = SerializedFileReader::new(File::open(out.join("cells.parquet")).unwrap()).unwrap();
    assert_eq!(parquet.metadata().file_metadata().num_rows(), CELLS as i64);
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("manifest.json")).unwrap()).unwrap();
    assert!(manifest["parameters"].to_string().contains("interval-majority.freeze"));
    let page = fs::read_to_string(out.join("study.html")).unwrap();
    assert!(page.contains("\"cells\":[{\"key\""));
}

#[test]
fn a_killed_study_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (plan, whole, cut) = (plan(dir.path()), dir.path().join("whole"), dir.path().join("cut"));
    let study = |out: &Path| {
        ["study", "--plan", plan.to_str().unwrap(), "--out", out.to_str().unwrap()].map(str::to_owned)
    };
    let args = |words: &[String]| words.iter().map(String::as_str).map(str::to_owned).collect::<Vec<_>>();
    let run = |workers, out: &Path| {
        let words = args(&study(out));
        succeeds(workers, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    run(1, &whole);
    // A real kill at whatever moment, then a journal that ends in the middle of a line.
    let words = study(&cut);
    let mut child = command(2, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut child = child.stdout(Stdio::null()).spawn().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    run(2, &cut);
    let journal = fs::read(cut.join("cells.jsonl")).unwrap();
    let lines = journal.iter().filter(|&&byte| byte == b'\n').count();
    assert_eq!(lines, CELLS);
    let tenth = journal.iter().enumerate().filter(|(_, &byte)| byte == b'\n').nth(9).unwrap().0;
    fs::write(cut.join("cells.jsonl"), &journal[..tenth + 100]).unwrap();
    let output = run(2, &cut);
    assert!(said(&output).contains(&format!("{CELLS} cells, {} of them computed now", CELLS - 10)));
    assert_eq!(rows(&cut), rows(&whole));
    assert!(said(&run(2, &cut)).contains(", 0 of them computed now"));
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let fails = |args: &[&str]| {
        let output =
            command(1, &[&["study", "--out", out.to_str().unwrap()], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(fails(&[]).contains("needs traces and machines"));
    assert!(fails(&["x.trace", "-m", "butterfly", "--policies", "nobody"]).contains("no policy `nobody`"));
    assert!(fails(&["x.trace", "-m", "butterfly", "--info", "some"]).contains("every:N"));
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, "machine = [\"x\"]\n").unwrap();
    assert!(fails(&["--plan", plan.to_str().unwrap()]).contains("unknown field `machine`"));
}

#[test]
fn json_has_all_cells_and_damage_is_told_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = trace(dir.path(), "one", 0);
    let mut bytes = fs::read(&path).unwrap();
    // Into the references block: its magic, then its kind.
    let at = bytes.windows(5).position(|window| window == b"HBLK\x08").unwrap();
    bytes[at + 60] ^= 1;
    fs::write(&path, bytes).unwrap();
    let out = dir.path().join("out");
    // The second run has its cells from the journal.
    for _ in 0..2 {
        let output =
            command(1, &["study", path.to_str().unwrap(), "-m", "ace", "--policies", "delay", "--json"])
                .arg("--out")
                .arg(&out)
                .output()
                .unwrap();
        assert_eq!(output.status.code(), Some(5));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["cells"].as_array().unwrap().len(), 1);
        assert_eq!(json["cells"][0]["policy"], "delay");
        assert!(json["notes"][0].as_str().unwrap().contains("one.trace"), "{}", json["notes"]);
    }
}

/// The traces' names in the rows of a study, sorted, each once.
fn names(out: &Path) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = rows(out).values().map(|row| row["trace"].clone()).collect();
    names.into_iter().collect()
}

#[test]
fn traces_of_one_file_name_are_told_apart_also_by_a_study_that_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    trace(&a, "run", 0);
    import(&b, "run.trace", "0,0x10000,8,w\n1,0x10000,8,r\n");
    let run = |traces: &[&str]| {
        let more = ["-m", "butterfly", "--policies", "delay", "--out", out.to_str().unwrap()];
        let mut study = command(1, &[&["study"], traces, &more].concat());
        study.current_dir(dir.path()).output().unwrap()
    };
    let computes = |traces: &[&str], count: u32, expected: &[&str]| {
        let output = run(traces);
        assert!(said(&output).contains(&format!("{count} of them computed now")), "{}", said(&output));
        assert_eq!(names(&out), expected);
    };
    // The cell of this one has the short name in the journal.
    computes(&["a/run.trace"], 1, &["run"]);
    computes(&["a/run.trace", "b/run.trace"], 1, &["a/run.trace", "b/run.trace"]);
    let costs =
        |name: &str| rows(&out).into_values().find(|row| row["trace"] == name).unwrap()["cost"].clone();
    let (a, b) = (costs("a/run.trace"), costs("b/run.trace"));
    assert_ne!(a, b);
    computes(&["b/run.trace"], 0, &["run"]);
    assert_eq!(costs("run"), b);
    let output = run(&["a/run.trace", "./a/run.trace"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("a/run.trace is named twice"), "{error}");
}

#[test]
fn a_start_in_a_file_is_what_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, out, place) = (trace(dir.path(), "one", 0), dir.path().join("out"), dir.path().join("place"));
    let cost = |node: u32| {
        let text = format!("# homing placement 1: begin end node\n0x10000 0x18000 {node}\n");
        fs::write(&place, text).unwrap();
        let start = format!("file:{}", place.display());
        let words =
            ["-m", "butterfly", "--policies", "file", "--threads-on", "one-per-node", "--starts", &start];
        let common = ["study", trace.to_str().unwrap(), "--out", out.to_str().unwrap()];
        succeeds(1, &[&common[..], &words].concat());
        rows(&out).into_values().next().unwrap()["cost"].clone()
    };
    let (first, second) = (cost(0), cost(2));
    assert_ne!(first, second, "the journal has the cells of another file of that name");
    assert_eq!(cost(0), first);
}

#[test]
fn whatever_would_have_the_same_rows_twice_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "one", 0);
    let out = dir.path().join("out");
    let common = ["study", trace.to_str().unwrap(), "--out", out.to_str().unwrap()];
    for (words, said) in [
        (&["-m", "ace,ace"][..], "machine `ace` is named twice"),
        (&["-m", "ace", "--starts", "first-touch,first-touch"], "start `first-touch` is named twice"),
        (&["-m", "ace", "--info", "every:8,every:8"], "level of information `every:8` is named twice"),
        (&["-m", "ace", "--policies", "delay,delay"], "policy `delay` is named twice"),
    ] {
        let output = command(1, &[&common[..], words].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_damaged_order_is_told() {
    let dir = tempfile::tempdir().unwrap();
    // As many turns as take two order blocks.
    let csv: String =
        (0..300_000u64).map(|i| format!("{},{},8,r\n", i % 2, 0x10000 + i % 9 * 4096)).collect();
    let path = import(dir.path(), "one.trace", &csv);
    let mut bytes = fs::read(&path).unwrap();
    let orders: Vec<_> = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"HBLK\x04")).collect();
    assert!(orders.len() > 1);
    bytes[orders[1] + 60] ^= 1;
    fs::write(&path, bytes).unwrap();
    let words = ["study", path.to_str().unwrap(), "-m", "ace", "--policies", "delay", "--out"];
    let output = command(1, &words).arg(dir.path().join("out")).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(said(&output).contains("damaged or unfinished") && said(&output).contains("one.trace"));
    let disturbed = dir.path().join("disturbed.trace");
    for words in [
        &["trace", "perturb", "--local", "-o", disturbed.to_str().unwrap()][..],
        &["compare", "-m", "ace", "--policies", "delay", "--perturb", "local"],
    ] {
        let output = command(1, words).arg(&path).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("one.trace: the order of the references is damaged (at byte"), "{error}");
        assert!(error.contains("`homing trace merge` makes another"), "{error}");
    }
    assert!(!disturbed.exists());
}

#[test]
fn one_study_at_a_time_works_in_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, out) = (trace(dir.path(), "one", 0), dir.path().join("out"));
    let words = [
        "study",
        trace.to_str().unwrap(),
        "-m",
        "ace",
        "--policies",
        "delay",
        "--out",
        out.to_str().unwrap(),
    ];
    succeeds(1, &words);
    let journal = fs::read(out.join("cells.jsonl")).unwrap();
    let other = File::open(out.join("cells.jsonl")).unwrap();
    let other = homing_linux::lock::Lock::take(other).unwrap().expect("the first study has ended");
    let output = command(1, &words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("another homing study is at work in") && error.contains("out"), "{error}");
    assert_eq!(fs::read(out.join("cells.jsonl")).unwrap(), journal);
    drop(other);
    succeeds(1, &words);
}

#[test]
fn memory_for_page_histories_is_what_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let line = |i: u64| format!("{},{},8,w\n", i % 2, 0x10000 + i / 2 % 8 * 4096);
    let trace = import(dir.path(), "turns.trace", &(0..20_000).map(line).collect::<String>());
    let missing = dir.path().join("missing");
    let run = |name: &str, memory: &[&str]| {
        let out = dir.path().join(name);
        let args = ["study", trace.to_str().unwrap(), "--machines", "ace", "--threads-on", "one-per-node"];
        let own = ["--policies", "homing", "--out", out.to_str().unwrap()];
        let args = [&args[..], &own, memory].concat();
        (command(1, &args).env("TMPDIR", &missing).output().unwrap(), out)
    };
    // What fits needs no temporary file, what does not fit cannot make one there.
    let (whole, out) = run("whole", &["--memory", "1G"]);
    assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
    let manifest = fs::read_to_string(out.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let memory = serde_json::json!({ "name": "memory", "value": (1u64 << 30).to_string() });
    assert!(manifest["parameters"].as_array().unwrap().contains(&memory), "{manifest}");
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, "memory = \"1K\"\n").unwrap();
    for (name, memory) in [("flag", ["--memory", "1K"]), ("plan", ["--plan", plan.to_str().unwrap()])] {
        let (output, _) = run(name, &memory);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("TMPDIR"), "{name}: {said}");
    }
    let (wrong, _) = run("wrong", &["--memory", "much"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn files_of_others_in_the_directory_are_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let trace = support::import(directory.path(), "it.trace", "0,0x1000,8,r\n1,0x1000,8,w\n");
    let out = directory.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let (trace, dir) = (trace.to_str().unwrap(), out.to_str().unwrap());
    let study = ["study", trace, "--machines", "ace", "--policies", "delay", "--out", dir];
    for (name, text, said) in [
        ("manifest.json", "{\"of\": \"my own\"}", "no manifest that homing wrote"),
        ("cells.jsonl", "my own\nlines", "no journal of a study"),
        ("cells.jsonl", "my own line", "no journal of a study"),
        ("cells.csv", "HOMINGTR and all references", "is a trace"),
    ] {
        std::fs::write(out.join(name), text).unwrap();
        let output = support::homing(1, &study);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(said), "{name}: {told}");
        assert_eq!(std::fs::read_to_string(out.join(name)).unwrap(), text);
        std::fs::remove_file(out.join(name)).unwrap();
    }
    let plan = out.join("study.html");
    std::fs::write(&plan, "machines = [\"ace\"]\n").unwrap();
    let output = support::homing(1, &["study", trace, "--plan", plan.to_str().unwrap(), "--out", dir]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(&plan).unwrap(), "machines = [\"ace\"]\n");
}

#[test]
fn what_is_wrong_on_one_machine_is_wrong_usage_in_a_study() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path(), "one", 0);
    let (trace, out) = (trace.to_str().unwrap(), dir.path().join("out"));
    let events = dir.path().join("events.csv");
    fs::write(&events, "time,thread,cpu\n1000,x,0\n").unwrap();
    let (out, events) = (out.to_str().unwrap(), events.to_str().unwrap());
    let wrong = [(&["--misses"][..], "[hierarchy]"), (&["--events", events], "--events")];
    for (wrong, why) in wrong {
        let words = [&["study", trace, "--machines", "ace", "--out", out], wrong].concat();
        let output = command(1, &words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("one.trace on ace: ") && said.contains(why), "{said}");
    }
}
