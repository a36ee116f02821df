//! Runs `homing trace ...` on small traces, whole and damaged.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

struct Lab {
    dir: TempDir,
}

impl Lab {
    fn new() -> Lab {
        Lab { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `homing trace` in the directory; gives the exit code, standard output, standard error.
    fn trace(&self, args: &[&str]) -> (i32, String, String) {
        let output = Command::new(env!("CARGO_BIN_EXE_homing"))
            .arg("trace")
            .args(args)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        texts(&output)
    }

    fn ok(&self, args: &[&str]) -> String {
        let (code, out, err) = self.trace(args);
        assert_eq!(code, 0, "{args:?}: {err}");
        out
    }

    fn info(&self, name: &str) -> (i32, serde_json::Value) {
        let (code, out, err) = self.trace(&["info", "--json", name]);
        (code, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out} {err}")))
    }

    /// A trace of three threads with 450 000 references, and its CSV.
    fn sample(&self) -> String {
        let mut csv = "thread,addr,size,kind\n".to_owned();
        for i in 0..450_000u64 {
            let (thread, kind) = (i / 5 % 3, if i % 3 == 0 { 'w' } else { 'r' });
            let address = 0x10000 + i * 8 % 40960 + i * i % 7 * 28672;
            writeln!(csv, "{thread},{address:#x},{},{kind}", 1 << (i % 4)).unwrap();
        }
        std::fs::write(self.path("a.csv"), &csv).unwrap();
        self.ok(&["import", "a.csv", "-o", "a.trace"]);
        csv
    }

    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// The lines of one thread, in order.
fn of_thread(csv: &str, thread: &str) -> Vec<String> {
    csv.lines().filter(|line| line.split(',').next() == Some(thread)).map(str::to_owned).collect()
}

#[test]
fn import_and_export_are_inverse() {
    let lab = Lab::new();
    let csv = lab.sample();
    assert_eq!(lab.ok(&["export", "a.trace"]), csv);
    lab.ok(&["export", "a.trace", "-o", "b.csv"]);
    lab.ok(&["import", "b.csv", "-o", "b.trace"]);
    assert_eq!(read(&lab.path("a.trace")), read(&lab.path("b.trace")));
    let window = lab.ok(&["export", "a.trace", "--from", "100", "--to", "103", "--no-header"]);
    assert_eq!(window, csv.lines().skip(101).take(3).map(|l| format!("{l}\n")).collect::<String>());
    let dense = lab.ok(&["export", "a.trace", "--dense", "--to", "1", "--no-header"]);
    assert_eq!(dense, "0,0x0,1,w\n");
    assert_eq!(lab.files(), ["a.csv", "a.trace", "b.csv", "b.trace"]);
}

#[test]
fn info_counts() {
    let lab = Lab::new();
    lab.sample();
    let (code, info) = lab.info("a.trace");
    assert_eq!(code, 0);
    for (field, value) in [("references", 450_000), ("reads", 300_000), ("writes", 150_000), ("threads", 3)] {
        assert_eq!(info[field], value, "{field}");
    }
    assert_eq!(info["bytes"], read(&lab.path("a.trace")).len());
    assert_eq!((&info["recorder"], &info["complete"]), (&"import".into(), &true.into()));
    assert!(info["pages"].as_u64().unwrap() > 10);
    let table = lab.ok(&["info", "a.trace"]);
    assert!(table.contains("450 000") && table.contains("import"), "{table}");
}

#[test]
fn refine_finds_the_hottest_lines_that_counting_all_finds() {
    let lab = Lab::new();
    let csv = lab.sample();
    let mut counts = std::collections::BTreeMap::<u64, u64>::new();
    for row in csv.lines().skip(1).filter(|row| row.starts_with("1,") && row.ends_with(",w")) {
        let address = row.split(',').nth(1).unwrap().trim_start_matches("0x");
        *counts.entry(u64::from_str_radix(address, 16).unwrap() & !63).or_default() += 1;
    }
    let mut obvious: Vec<u64> = counts.values().copied().collect();
    obvious.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    for counters in ["524288", "64"] {
        let chosen = ["--thread", "1", "--only", "writes", "--top", "20", "--counters", counters, "--json"];
        let found = lab.ok(&[&["refine", "a.trace"], &chosen[..]].concat());
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let lines = found["lines"].as_array().unwrap();
        let found_counts: Vec<u64> = lines.iter().map(|line| line["references"].as_u64().unwrap()).collect();
        assert_eq!(found_counts, obvious[..20]);
        assert!(lines.iter().all(|line| counts[&line["address"].as_u64().unwrap()] == line["references"]));
        assert_eq!(
            (&found["exact"], &found["references"]),
            (&true.into(), &obvious.iter().sum::<u64>().into())
        );
    }
    let text = lab.ok(&["refine", "a.trace", "--runs", "1"]);
    assert!(text.contains("hotter lines may be in 1 granule"), "{text}");
    let text = lab.ok(&["refine", "a.trace", "--addresses", "0x1-0x2"]);
    assert!(text.starts_with("No reference was looked at"), "{text}");
    let (code, _, error) = lab.trace(&["refine", "a.trace", "--thread", "9"]);
    assert!(code == 2 && error.contains("no such thread; it has 0, 1, 2"), "{error}");
    let (code, _, error) = lab.trace(&["refine", "a.trace", "--line", "48"]);
    assert!(code == 2 && error.contains("expected a power of two"), "{error}");
}

#[test]
fn malformed_lines_are_shown_and_counted() {
    let lab = Lab::new();
    std::fs::write(lab.path("bad.csv"), "0,0x10,8,r\n0,0x10,8,q\n1,5,4,w\n").unwrap();
    let (code, _, err) = lab.trace(&["import", "bad.csv", "-o", "bad.trace"]);
    assert_eq!(code, 5);
    assert!(err.contains("bad.csv: line 2: kind `q`: expected r (read) or w (write)"), "{err}");
    assert!(err.contains("2 references; 1 malformed line was left out"), "{err}");
    std::fs::write(lab.path("none.csv"), "what is this\n").unwrap();
    let (code, _, err) = lab.trace(&["import", "none.csv", "-o", "none.trace"]);
    assert_eq!(code, 1);
    assert!(err.contains("no references"), "{err}");
    assert!(!lab.path("none.trace").exists());
}

#[test]
fn lackey_output_is_recognised() {
    let lab = Lab::new();
    let text = "==1== Lackey\nI  04000000,3\n L 1ffe000,8\n S 1ffe008,4\n M 1ffe010,8\n";
    std::fs::write(lab.path("lackey.txt"), text).unwrap();
    lab.ok(&["import", "lackey.txt", "-o", "l.trace"]);
    let csv = lab.ok(&["export", "l.trace", "--no-header"]);
    assert_eq!(csv, "0,0x1ffe000,8,r\n0,0x1ffe008,4,w\n0,0x1ffe010,8,r\n0,0x1ffe010,8,w\n");
}

#[test]
fn merge_and_perturb_only_reorder() {
    let lab = Lab::new();
    let csv = lab.sample();
    lab.ok(&["merge", "a.trace", "-o", "m1.trace", "--seed", "1"]);
    lab.ok(&["merge", "a.trace", "-o", "m1again.trace", "--seed", "1"]);
    lab.ok(&["merge", "a.trace", "-o", "m2.trace", "--seed", "2"]);
    lab.ok(&["perturb", "a.trace", "-o", "p.trace", "--local", "--gaps", "--gap-every", "3000"]);
    assert_eq!(read(&lab.path("m1.trace")), read(&lab.path("m1again.trace")));
    assert_ne!(read(&lab.path("m1.trace")), read(&lab.path("m2.trace")));
    for name in ["m1.trace", "m2.trace", "p.trace"] {
        let (code, info) = lab.info(name);
        assert_eq!((code, &info["complete"]), (0, &true.into()));
        let other = lab.ok(&["export", name]);
        assert_ne!(other, csv);
        for thread in ["0", "1", "2"] {
            assert_eq!(of_thread(&other, thread), of_thread(&csv, thread), "{name}");
        }
    }
    assert_eq!(lab.trace(&["perturb", "a.trace", "-o", "x.trace"]).0, 2);
}

#[test]
fn a_cut_trace_is_recovered() {
    let lab = Lab::new();
    let csv = lab.sample();
    let whole = read(&lab.path("a.trace"));
    for part in [9, 7, 3] {
        std::fs::write(lab.path("cut.trace"), &whole[..whole.len() * part / 10]).unwrap();
        let (code, info) = lab.info("cut.trace");
        assert_eq!((code, &info["complete"]), (5, &false.into()));
        let (code, out, err) = lab.trace(&["recover", "cut.trace", "-o", "saved.trace", "--json"]);
        assert_eq!(code, 5, "{err}");
        let saved: serde_json::Value = serde_json::from_str(&out).unwrap();
        // Whole and undamaged, and still a part of what was recorded: whoever reads it says so, and a copy as well.
        let (code, info) = lab.info("saved.trace");
        assert_eq!((code, &info["complete"], &info["damage"]), (5, &false.into(), &serde_json::json!([])));
        assert_eq!(
            (&info["references"], &info["header"]["recovered_lost"]),
            (&saved["references"], &saved["lost"])
        );
        assert_eq!(lab.trace(&["recover", "saved.trace", "-o", "again.trace"]).0, 5);
        assert_eq!(lab.info("again.trace").1["header"]["recovered_lost"], saved["lost"]);
        if part > 3 {
            let mut why = Command::new(env!("CARGO_BIN_EXE_homing"));
            let why = why.args(["why", "saved.trace"]).current_dir(lab.dir.path()).output().unwrap();
            assert_eq!(why.status.code(), Some(5), "{}", texts(&why).2);
            assert!(texts(&why).1.contains("the program did more than is in it"), "{}", texts(&why).1);
        }
        let rows = lab.ok(&["export", "saved.trace", "--no-header"]);
        assert_eq!(rows.lines().count() as u64, saved["references"].as_u64().unwrap());
        for thread in ["0", "1", "2"] {
            let (saved, all) = (of_thread(&rows, thread), of_thread(&csv, thread));
            assert!(all.starts_with(&saved), "thread {thread}: a prefix of it");
        }
    }
}

#[test]
fn a_flipped_bit_costs_its_block_and_is_told() {
    let lab = Lab::new();
    let csv = lab.sample();
    let mut bytes = read(&lab.path("a.trace"));
    let at = bytes.len() / 3;
    bytes[at] ^= 16;
    std::fs::write(lab.path("flip.trace"), &bytes).unwrap();
    let (code, info) = lab.info("flip.trace");
    assert_eq!(code, 5);
    let lost = info["damaged_references"].as_u64().unwrap();
    assert!(lost > 0 && info["references"].as_u64().unwrap() == 450_000 - lost);
    let (code, _, err) = lab.trace(&["export", "flip.trace", "-o", "flip.csv"]);
    assert_eq!(code, 5);
    assert!(err.contains(&format!("{lost} references are lost to damage")), "{err}");
    assert_eq!(lab.trace(&["recover", "flip.trace", "-o", "saved.trace"]).0, 5);
    let rows = lab.ok(&["export", "saved.trace"]);
    assert_eq!(rows.as_bytes(), read(&lab.path("flip.csv")), "what is whole keeps its order");
    let mut left = rows.lines();
    let mut next = left.next();
    csv.lines().for_each(|line| {
        if next == Some(line) {
            next = left.next();
        }
    });
    assert_eq!(next, None, "rows of the original, in its order");
    let whole = read(&lab.path("a.trace"));
    lab.ok(&["recover", "a.trace", "-o", "same.trace"]);
    assert_eq!(lab.ok(&["export", "same.trace"]), csv);
    assert!(!whole.is_empty());
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let lab = Lab::new();
    lab.sample();
    let mut newer = read(&lab.path("a.trace"));
    newer[8] = 99;
    let cases: [(&str, &[u8], &str); 4] = [
        ("empty.trace", b"", "is empty: expected a trace"),
        ("text.trace", b"thread,addr,size,kind\n", "not a Homing trace"),
        ("newer.trace", &newer, "version 99"),
        ("short.trace", &newer[..8], "header is damaged"),
    ];
    for (name, bytes, message) in cases {
        std::fs::write(lab.path(name), bytes).unwrap();
        for command in ["info", "export"] {
            let (code, _, err) = lab.trace(&[command, name]);
            assert_eq!(code, 1, "{name}: {err}");
            assert!(err.contains(message) && err.contains(name), "{err}");
        }
    }
    let (code, _, err) = lab.trace(&["info", "missing.trace"]);
    assert!(code == 1 && err.contains("missing.trace"), "{err}");
}

#[test]
fn a_full_disk_leaves_nothing() {
    let lab = Lab::new();
    lab.sample();
    let limited = |args: &str| {
        let script = format!("trap '' XFSZ; ulimit -f 1; \"$0\" trace {args}");
        let output = Command::new("bash")
            .args(["-c", &script, env!("CARGO_BIN_EXE_homing")])
            .current_dir(lab.dir.path())
            .output()
            .unwrap();
        texts(&output)
    };
    let before = lab.files();
    for args in [
        "import a.csv -o b.trace",
        "merge a.trace -o b.trace",
        "export a.trace -o b.parquet",
        "export a.trace -o b.csv",
    ] {
        let (code, _, err) = limited(args);
        assert_eq!(code, 1, "{args}: {err}");
        assert!(err.contains("writing b.") && err.contains("File too large"), "{err}");
        assert_eq!(lab.files(), before, "{args}");
    }
    let (code, _, err) = lab.trace(&["import", "a.csv", "-o", "/dev/full"]);
    assert!(code == 1 && err.contains("No space left on device"), "{err}");
}

#[test]
fn a_new_order_of_a_damaged_trace_says_so() {
    let lab = Lab::new();
    lab.sample();
    let mut bytes = read(&lab.path("a.trace"));
    // Into the first references block: its magic, then its kind.
    let at = bytes.windows(5).position(|window| window == b"HBLK\x08").unwrap();
    bytes[at + 60] ^= 1;
    std::fs::write(lab.path("damaged.trace"), bytes).unwrap();
    for command in [&["merge"][..], &["perturb", "--local"]] {
        let (code, _, err) = lab.trace(&[command, &["damaged.trace", "-o", "out.trace"]].concat());
        assert_eq!(code, 5, "{command:?}: {err}");
        assert!(err.contains("the damage was copied"), "{command:?}: {err}");
    }
    let (code, out, _) = lab.trace(&["info", "out.trace"]);
    assert_eq!(code, 5);
    let complete = out.lines().find(|line| line.trim_start().starts_with("complete")).unwrap();
    assert!(complete.contains("no (damaged)"), "{complete}");
}

#[test]
fn a_pipe_is_no_trace_and_is_not_waited_for() {
    let lab = Lab::new();
    assert!(Command::new("mkfifo").arg(lab.path("pipe")).status().unwrap().success());
    let (code, _, err) = lab.trace(&["info", "pipe"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("pipe is not a regular file"), "{err}");
}

#[test]
fn traces_overwrite_traces_only() {
    let lab = Lab::new();
    lab.sample();
    std::fs::write(lab.path("precious.txt"), "a thesis").unwrap();
    for command in [&["merge"][..], &["perturb", "--local"], &["recover"]] {
        let (code, _, err) = lab.trace(&[command, &["a.trace", "-o", "precious.txt"]].concat());
        assert_eq!(code, 2, "{command:?}: {err}");
        assert!(err.contains("precious.txt exists and is a text: only a trace may be replaced"), "{err}");
    }
    assert_eq!(read(&lab.path("precious.txt")), b"a thesis");
    assert_eq!(lab.files(), ["a.csv", "a.trace", "precious.txt"]);
}

#[test]
fn what_is_no_text_is_a_failure_that_says_what_to_do() {
    let lab = Lab::new();
    lab.sample();
    std::fs::create_dir(lab.path("directory")).unwrap();
    let files: [(&str, &[u8], &str); 4] = [
        (
            "binary",
            b"0,0x1000,8,r\n\0\x01",
            "no text (byte 13 is 0): expected CSV lines thread,addr,size,kind",
        ),
        ("packed.gz", b"\x1f\x8b\x08\x00", "zcat"),
        ("table.parquet", b"PAR1", "a Parquet file"),
        ("again.trace", &read(&lab.path("a.trace")), "a trace already"),
    ];
    for (name, bytes, _) in &files {
        std::fs::write(lab.path(name), bytes).unwrap();
    }
    let directory = [("directory", "Is a directory")];
    for (name, message) in files.iter().map(|&(name, _, message)| (name, message)).chain(directory) {
        for format in [&[][..], &["--format", "csv"], &["--format", "lackey"]] {
            let (code, _, err) = lab.trace(&[&["import", name, "-o", "out.trace"], format].concat());
            assert_eq!(code, 1, "{name}: the command was right: {err}");
            assert!(err.contains(name) && err.contains(message), "{err}");
            assert!(!lab.path("out.trace").exists(), "{name}");
        }
    }
}

#[test]
fn a_trace_without_a_readable_reference_gives_no_table() {
    let lab = Lab::new();
    lab.sample();
    let damage = |name: &str, magic: &[u8]| {
        let mut bytes = read(&lab.path("a.trace"));
        let blocks: Vec<_> =
            (0..bytes.len() - magic.len()).filter(|&at| bytes[at..].starts_with(magic)).collect();
        blocks.iter().for_each(|at| bytes[at + 60] ^= 1);
        std::fs::write(lab.path(name), bytes).unwrap();
    };
    damage("order.trace", b"HBLK\x04");
    damage("references.trace", b"HBLK\x08");
    let header = homing_core::trace::Header::new("test", "1");
    let empty = homing_core::trace::TraceWriter::new(Vec::new(), &header).unwrap();
    let empty = empty.finish(homing_core::trace::Summary::default()).unwrap().0;
    std::fs::write(lab.path("empty.trace"), empty).unwrap();
    for (name, lost, advice) in [
        ("order.trace", "of 450000 references all are lost (wrong checksum)", "homing trace merge"),
        ("references.trace", "of 450000 references all are lost (wrong checksum)", "homing trace recover"),
        ("empty.trace", "no references", "homing trace info"),
    ] {
        for command in [
            &["compare", name, "--html", "page.html"][..],
            &["simulate", name, "--policy", "homing", "--actions", "actions.csv"],
            &["simulate", name, "--policy", "homing", "--monitor", "hint-faults"],
            &["optimal", name, "--placement", "placement.csv"],
            &["study", name, "--out", "study", "--policies", "delay"],
        ] {
            let output = Command::new(env!("CARGO_BIN_EXE_homing"))
                .args(command)
                .args(["-m", "sunfire-6800"])
                .current_dir(lab.dir.path())
                .output()
                .unwrap();
            let (code, out, err) = texts(&output);
            assert_eq!((code, out.as_str()), (1, ""), "{command:?}: {err}");
            assert!(err.contains(name) && err.contains(lost) && err.contains(advice), "{command:?}: {err}");
        }
    }
    for file in ["page.html", "actions.csv", "placement.csv", "study/cells.csv"] {
        assert!(!lab.path(file).exists(), "{file}");
    }
    lab.ok(&["merge", "order.trace", "-o", "merged.trace"]);
    assert_eq!(lab.info("merged.trace").1["references"], 450_000, "as the message says");
}

#[test]
fn a_format_that_is_not_known_is_refused() {
    let lab = Lab::new();
    let csv = lab.sample();
    let (code, _, err) = lab.trace(&["export", "a.trace", "-o", "a.xlsx"]);
    assert!(code == 2 && err.contains(".csv or .parquet"), "{err}");
    assert!(!lab.path("a.xlsx").exists());
    lab.ok(&["export", "a.trace", "-o", "a.xlsx", "--format", "csv"]);
    lab.ok(&["export", "a.trace", "-o", "b.CSV"]);
    for name in ["a.xlsx", "b.CSV"] {
        assert_eq!(read(&lab.path(name)), csv.as_bytes());
    }
}

#[test]
fn what_killed_recordings_left_is_told_and_left_alone() {
    let lab = Lab::new();
    lab.sample();
    std::fs::copy(lab.path("a.trace"), lab.path("a.trace.part2")).unwrap();
    std::fs::write(lab.path("a.trace.part"), "a thesis").unwrap();
    let (code, _, err) = lab.trace(&["recover", "a.trace", "-o", "b.trace"]);
    assert!(code == 0 && err.contains("a run that was killed left a.trace.part2"), "{err}");
    assert_eq!(err.matches("was killed").count(), 1, "{err}");
    let (code, _, err) = lab.trace(&["recover", "missing.trace", "-o", "b.trace"]);
    assert!(code == 1 && err.contains("missing.trace"), "{err}");
    assert_eq!(read(&lab.path("a.trace.part")), b"a thesis");
}
