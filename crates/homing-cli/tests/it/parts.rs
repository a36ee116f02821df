//! A trace that is large enough to be read in parts at the same time gives what it gives in one go, also when the parts
//! do not fit into memory.

use homing_core::ids::Thread;
use homing_core::trace::{Header, Kind, Summary, TraceWriter};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;
use std::process::Command;

/// Thirteen million references of two threads to 300 pages: mostly the thread's own ones, with stretches of reads that
/// outlast the end of a part.
fn trace(path: &Path) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    for turn in 0..26_000u32 {
        let thread = Thread(turn % 2);
        for i in 0..500u64 {
            let shared = random.gen_ratio(1, 16);
            let page = if shared { random.gen_range(0..100) } else { 100 * u64::from(thread.0 + 1) + i / 5 };
            let write = if shared { random.gen_ratio(1, 50) } else { turn / 3000 % 2 == 0 };
            let kind = if write { Kind::write(8) } else { Kind::read(8) };
            writer.reference(thread, i % 5, page << 12 | (i % 512) << 3, kind).unwrap();
        }
        writer.turn(thread, 500).unwrap();
    }
    std::fs::write(path, writer.finish(Summary::default()).unwrap().0).unwrap();
}

#[test]
fn parts_of_a_trace_give_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    trace(Path::new(&path("t.trace")));
    let results = |workers: usize, memory: &str, page_size: &str| {
        let (trace, placement) = (path("t.trace"), path("p.csv"));
        let model = ["-m", "butterfly", "--memory", memory, "--page-size", page_size, "--json"];
        let args = [&["optimal", &trace, "--placement", &placement][..], &model].concat();
        let mut homing = Command::new(env!("CARGO_BIN_EXE_homing"));
        let output = homing.args(&args).env("RAYON_NUM_THREADS", workers.to_string()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut row: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        row.as_object_mut().unwrap().remove("seconds");
        (row, std::fs::read(&placement).unwrap())
    };
    for page_size in ["4K", "16K"] {
        let whole = results(1, "8G", page_size);
        assert_eq!(whole.0["references"], 13_000_000);
        assert!(whole == results(3, "8G", page_size), "three parts of {page_size}");
        assert!(whole == results(3, "100K", page_size), "three parts of {page_size} that do not fit");
    }
}
