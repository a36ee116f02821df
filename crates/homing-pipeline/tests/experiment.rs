//! What the command line can do, a library can: a comparison without the program.

use homing_pipeline::compare::{run, Options};
use homing_pipeline::{Experiment, Model, PipelineError};
use homing_trace::ids::Thread;
use homing_trace::{Header, Kind, Summary, TraceWriter};
use std::path::Path;

/// Two threads write to a page each, eight times, by turns.
fn write_trace(path: &Path) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = TraceWriter::new(file, &Header::new("test", "1")).unwrap();
    for turn in 0..16u32 {
        let thread = Thread(turn % 2);
        writer.reference(thread, 0, u64::from(turn % 2) << 20, Kind::new(8, true, false)).unwrap();
        writer.turn(thread, 1).unwrap();
    }
    writer.finish(Summary::default()).unwrap();
}

fn options(trace: &Path, policies: &[&str]) -> Options {
    let experiment = Experiment::new(Model::of("butterfly"));
    Options {
        traces: vec![trace.to_owned()],
        information: vec![experiment.information],
        experiment,
        policies: policies.iter().map(ToString::to_string).collect(),
        monitors: Vec::new(),
        sweeps: Vec::new(),
        perturb: Vec::new(),
        seeds: 0,
    }
}

#[test]
fn a_comparison_needs_no_program() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.trace");
    write_trace(&path);
    let compared = run(&options(&path, &["single-node", "first-touch"])).unwrap();
    assert!(!compared.partial);
    let trace = &compared.report.traces[0];
    assert_eq!((trace.trace.name.as_str(), trace.trace.references, trace.trace.pages), ("two", 16, 2));
    let of = |policy: &str| trace.rows.iter().find(|row| row.policy == policy).unwrap();
    assert_eq!((of("optimal").remote, of("optimal").local), (0, 16));
    assert_eq!((of("first-touch").remote, of("first-touch").gap_percent), (0, 0.0));
    assert_eq!((of("single-node").remote, of("single-node").local), (8, 8));
}

#[test]
fn errors_say_whose_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.trace");
    let error = |policies: &[&str]| run(&options(&path, policies)).err().unwrap();
    let unknown = error(&["no-such-policy"]);
    assert!(matches!(&unknown, PipelineError::Usage(why) if why.contains("no-such-policy")), "{unknown}");
    assert!(error(&["first-touch"]).to_string().contains("two.trace"), "the trace is absent");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(error(&["first-touch"]), PipelineError::Failed(why) if why.contains("is empty")));
}
