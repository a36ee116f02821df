//! Synchronisation operations that do not fit into memory while a trace is put in order.

use homing_core::ids::Thread;
use homing_core::trace::{Event, Header, Kind, Summary, SyncOp, TraceWriter};
use std::path::Path;
use std::process::{Command, Output};

/// Two threads that hand a lock to each other.
fn trace(path: &Path) {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    for stamp in 0..40_000 {
        let thread = Thread((stamp / 2 % 2) as u32);
        let op = if stamp % 2 == 0 { SyncOp::Acquire } else { SyncOp::Release };
        writer.event(thread, &Event::Sync { op, object: 0x40 + stamp % 6, stamp }).unwrap();
        writer.reference(thread, 0, 0x1000 + stamp % 512 * 8, Kind::write(8)).unwrap();
        writer.turn(thread, 1).unwrap();
    }
    std::fs::write(path, writer.finish(Summary::default()).unwrap().0).unwrap();
}

fn merge(folder: &Path, to: &str, memory: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_homing"))
        .args(["trace", "merge", "a.trace", "-o", to, "--seed", "3", "--memory", memory])
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn they_go_through_a_file_and_the_order_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    trace(&folder.path().join("a.trace"));
    let said = |to: &str, memory: &str| {
        let output = merge(folder.path(), to, memory);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!said("all.trace", "1G").contains("temporary file"));
    let little = said("little.trace", "16K");
    // 40,000 operations of 8 bytes, less those that stayed.
    assert!(little.contains("KiB of synchronisation operations went through a temporary file"), "{little}");
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("all.trace"), bytes("little.trace"));
    assert_eq!(folder.path().read_dir().unwrap().count(), 3, "nothing else stays");
}

#[test]
fn sizes_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    trace(&folder.path().join("a.trace"));
    let output = merge(folder.path(), "x.trace", "much");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--memory"));
}
