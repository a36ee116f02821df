//! Threads that run in parallel, whose segments arrive at any time: pages that come and go are the same to all of them,
//! and what one has named is known of the others.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use homing_core::ids::Thread;
use homing_core::trace::{Event, Trace, Turn, Visitor};
use std::collections::HashMap;
use std::path::Path;

/// Writes of 8 bytes by frame and thread.
#[derive(Default)]
struct Writes(HashMap<(u64, Thread), usize>);

impl Visitor for Writes {
    fn turn(&mut self, turn: Turn<'_>) {
        for (address, kind) in turn.addresses.iter().zip(turn.kinds) {
            if kind.is_write() && kind.bytes() == 8 && address % 4096 >= 64 {
                *self.0.entry((address >> 12, turn.thread)).or_default() += 1;
            }
        }
    }
}

/// Records a program without a complaint; its output, and the trace.
fn record(program: &Path, arguments: &[&str]) -> (String, Vec<u8>) {
    let name = format!("{}-{}.trace", arguments.join("-"), std::process::id());
    let out = build::directory().join(name);
    let mut homing = build::homing();
    homing.args(["record", "--merge", "--quiet", "--recorder", "tsan", "-o"]).arg(&out).arg("--");
    let output = homing.arg(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    let bytes = std::fs::read(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    (String::from_utf8(output.stdout).unwrap(), bytes)
}

/// Records a way of remaps.c; how often the page was mapped, and the writes by thread of each frame that it had.
fn frames(way: &str, edges: &str) -> (usize, Vec<[usize; 2]>) {
    let (text, bytes) = record(&build::program(Compiler::Gcc, "remaps.c", true), &[way, edges]);
    let (page, mapped) = text.trim().split_once(' ').unwrap();
    let page = u64::from_str_radix(page, 16).unwrap() >> 12;
    let trace = Trace::open(&bytes).unwrap();
    let mut writes = Writes::default();
    trace.visit_all(&mut writes).unwrap();
    let of = |frame: usize, thread| *writes.0.get(&(frame as u64, Thread(thread))).unwrap_or(&0);
    let frames = trace.frames().iter().enumerate().filter(|(_, &p)| p == page);
    let counts = frames.map(|(frame, _)| [of(frame, 0), of(frame, 1)]).filter(|&counts| counts != [0, 0]);
    (mapped.parse().unwrap(), counts.collect())
}

#[test]
fn a_page_is_new_when_it_comes_back_for_every_thread() {
    for way in ["unmap", "fixed", "move", "break", "free", "resize"] {
        for edges in ["barrier", "futex"] {
            let (mapped, counts) = frames(way, edges);
            assert!(mapped > 1000, "{way}: the page was mapped {mapped} times only");
            assert_eq!(counts.len(), mapped, "{way}, {edges}: frames");
            let other = counts.iter().filter(|&&counts| counts != [3, 5]).count();
            assert_eq!(other, 0, "{way}, {edges}: frames with others' references");
        }
    }
}

#[test]
fn a_call_site_that_another_thread_has_named_has_its_name() {
    let (_, bytes) = record(&build::program(Compiler::Gcc, "behaviours.c", true), &["sites"]);
    let trace = Trace::open(&bytes).unwrap();
    let sites =
        trace.threads().flat_map(|(thread, _)| trace.thread_events(thread)).filter_map(|event| match event {
            Event::Alloc { size: 24 | 48, site, .. } => Some(trace.names().get(site)),
            _ => None,
        });
    let mut named: HashMap<&str, usize> = HashMap::new();
    sites.for_each(|name| *named.entry(name).or_default() += 1);
    assert!(named.keys().all(|name| name.contains("behaviours")), "{named:?}");
    assert_eq!(named.values().filter(|&&count| count == 30001).count(), 2, "{named:?}");
}
