//! What the command line can do, a library can: every kind of result without the program.

use homing_core::optimal::Start;
use homing_pipeline::compare::Comparison;
use homing_pipeline::policies::{policies, policy};
use homing_pipeline::progress::{Bar, Unit};
use homing_pipeline::simulate::{simulate, Chosen};
use homing_pipeline::study::{Grid, Plan};
use homing_pipeline::watched::{self, Watch};
use homing_pipeline::{optimal, Experiment, Model, PipelineError, Progress, TraceFile};
use homing_trace::ids::Thread;
use homing_trace::{Header, Kind, Summary, TraceWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Two threads write to a page each, eight times, by turns.
fn trace() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.trace");
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = TraceWriter::new(file, &Header::new("test", "1")).unwrap();
    for turn in 0..16u32 {
        let thread = Thread(turn % 2);
        writer.reference(thread, 0, u64::from(turn % 2) << 20, Kind::new(8, true, false)).unwrap();
        writer.turn(thread, 1).unwrap();
    }
    writer.finish(Summary::default()).unwrap();
    (directory, path)
}

fn comparison(trace: &Path, policies: &[&str]) -> Comparison {
    let policies = policies.iter().map(ToString::to_string).collect();
    let experiment = Experiment::new(Model::of("butterfly"));
    Comparison { policies, ..Comparison::new(vec![trace.to_owned()], experiment) }
}

#[test]
fn policies_are_compared() {
    let (_directory, path) = trace();
    let compared = comparison(&path, &["single-node", "first-touch"]).run().unwrap();
    assert!(!compared.partial);
    let trace = &compared.report.traces[0];
    assert_eq!((trace.trace.name.as_str(), trace.trace.references, trace.trace.pages), ("two", 16, 2));
    let of = |policy: &str| trace.rows.iter().find(|row| row.policy == policy).unwrap();
    assert_eq!((of("optimal").remote, of("optimal").local), (0, 16));
    assert_eq!((of("first-touch").remote, of("first-touch").gap_percent), (0, 0.0));
    assert_eq!((of("single-node").remote, of("single-node").local), (8, 8));
}

#[test]
fn one_policy_is_simulated_above_the_bound() {
    let (_directory, path) = trace();
    let chosen = Chosen::parse("single-node", Duration::from_secs(1)).unwrap();
    let ready = Experiment::new(Model::of("butterfly")).ready(|_| Ok(chosen.entries())).unwrap();
    let file = TraceFile::open(&path).unwrap();
    let case = ready.case(&file, None).unwrap();
    let simulated = simulate(&case, &chosen, true).unwrap();
    assert_eq!((simulated.row.remote, simulated.row.optimal_cost), (8, simulated.optimal.cost));
    assert!(simulated.last_placement(&case).unwrap().text().lines().count() > 0);
    let question = optimal::Question::new(&ready, Start::OneCopy, None).unwrap();
    let answer = question.solve(&case).unwrap();
    assert_eq!((answer.row.cost, answer.row.remote), (simulated.optimal.cost, 0));
    assert!(answer.parameters.iter().any(|parameter| parameter.name == "start"));
}

#[test]
fn a_monitor_is_in_the_loop() {
    let (_directory, path) = trace();
    let experiment = watched::behind_caches(Experiment::new(Model::of("origin2000-16")));
    let ready = experiment.ready(|_| Ok(vec![policy("homing")?])).unwrap();
    let file = TraceFile::open(&path).unwrap();
    let case = ready.case(&file, None).unwrap();
    let watch = Watch { choice: "perfect".parse().unwrap(), interval: Some(4), log: false };
    let watched = watched::simulate(&case, ready.policies[0], &watch, &mut ()).unwrap();
    assert_eq!((watched.interval, watched.pair.before.account.moves), (4, 0));
    let unable = watched::simulate(&case, policy("ace").unwrap(), &watch, &mut ()).err().unwrap();
    assert!(matches!(&unable, PipelineError::Usage(why) if why.contains("no monitor reports")), "{unable}");
}

#[test]
fn behind_caches_prices_are_in_time_and_the_bound_is_one() {
    let (_directory, path) = trace();
    let file = TraceFile::open(&path).unwrap();
    let run = |misses| {
        let mut model = Model::of("two-socket");
        (model.misses, model.threads_on) = (misses, Some("round-robin".parse().unwrap()));
        model.set = ["l1.size=1K", "l2.size=4K", "l2.ways=4"].map(|set| format!("hierarchy.{set}")).to_vec();
        let experiment = Experiment { placement: Some("single-node".into()), ..Experiment::new(model) };
        let ready = experiment.ready(|placement| policies(&[], placement)).unwrap();
        let case = ready.case(&file, None).unwrap();
        let (subject, bound) = (case.subject(), case.bound().unwrap());
        for entry in &ready.policies {
            let row = subject.simulate(entry, false).unwrap();
            let row = subject.row(entry.name, &row, &bound, 0.0).unwrap();
            assert!(row.cost >= bound.floor.optimum.cost, "{}: {row:?}", entry.name);
        }
        (ready.machine_info().page_move, subject.notes()[0].contains("misses as threads wait"))
    };
    assert_eq!(run(false), (Some(25.3), false));
    assert_eq!(run(true), (Some(125.75), true));
}

#[test]
fn a_run_costs_its_own_misses_moves_and_shootdowns() {
    let (_directory, path) = trace();
    let mut experiment = watched::behind_caches(Experiment::new(Model::of("two-socket")));
    experiment.model.threads_on = Some("round-robin".parse().unwrap());
    experiment.placement = Some("single-node".into());
    let ready = experiment.ready(|_| Ok(vec![policy("interval-majority")?])).unwrap();
    let file = TraceFile::open(&path).unwrap();
    let case = ready.case(&file, None).unwrap();
    let watch = Watch { choice: "perfect".parse().unwrap(), interval: Some(4), log: false };
    let watched = watched::simulate(&case, ready.policies[0], &watch, &mut ()).unwrap();
    let (row, run) = (&watched.rows[2], &watched.pair.after);
    let beyond = run.caches.shootdowns.saturating_sub(row.moves) as f64 * 62.5;
    let cost = row.local as f64 + 1.75 * row.remote as f64 + 125.75 * row.moves as f64 + beyond;
    assert!(row.moves > 0 && (row.cost - cost).abs() < 1e-9, "{row:?}");
    let modelled = run.modelled.as_ref().unwrap();
    assert_eq!(modelled.mover_ns, row.moves as f64 * 2024.0);
    assert_eq!(
        (row.modelled_ms, row.own_mover_ms),
        (Some(modelled.total_ns * 1e-6), Some(modelled.own_mover_ns * 1e-6))
    );
}

#[test]
fn a_study_goes_on_where_it_stopped() {
    let (directory, path) = trace();
    let grid = |policies: &[&str]| Grid {
        traces: vec![path.clone()],
        machines: vec!["butterfly".into(), "ace".into()],
        policies: policies.iter().map(ToString::to_string).collect(),
        ..Grid::default()
    };
    let out = directory.path().join("study");
    let computed = |policies: &[&str]| {
        let plan = Plan::new(grid(policies), out.clone(), Progress::default()).unwrap();
        let found = plan.begin().unwrap().run().unwrap();
        (found.cells.len(), found.computed)
    };
    assert_eq!(computed(&["first-touch"]), (2, 2));
    assert_eq!(computed(&["first-touch", "homing"]), (4, 2));
}

/// Counts references.
struct Counted(Arc<AtomicU64>);

impl Bar for Counted {
    fn advance(&self, done: u64) {
        self.0.fetch_add(done, Ordering::Relaxed);
    }
    fn restart(&self) {}
}

#[test]
fn progress_goes_to_who_asked_for_it() {
    let (directory, path) = trace();
    let (references, cases) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (in_all, done) = (references.clone(), cases.clone());
    let begin = move |total, unit, _| -> Box<dyn Bar> {
        match unit {
            Unit::References => {
                in_all.fetch_add(total, Ordering::Relaxed);
                Box::new(Counted(Arc::default()))
            }
            Unit::Cases => Box::new(Counted(done.clone())),
        }
    };
    let progress = Progress::new(begin, |line| panic!("told: {line}"));
    let grid =
        Grid { traces: vec![path], machines: vec!["ace".into(), "butterfly".into()], ..Grid::default() };
    let plan = Plan::new(grid, directory.path().join("study"), progress).unwrap();
    plan.begin().unwrap().run().unwrap();
    assert_eq!((references.load(Ordering::Relaxed), cases.load(Ordering::Relaxed)), (2 * 16, 2));
}

#[test]
fn errors_say_whose_they_are() {
    let (_directory, path) = trace();
    let error = |policies: &[&str]| comparison(&path, policies).run().err().unwrap();
    let unknown = error(&["no-such-policy"]);
    assert!(matches!(&unknown, PipelineError::Usage(why) if why.contains("no-such-policy")), "{unknown}");
    std::fs::write(&path, "").unwrap();
    assert!(matches!(error(&["first-touch"]), PipelineError::Failed(why) if why.contains("is empty")));
    std::fs::remove_file(&path).unwrap();
    assert!(error(&["first-touch"]).to_string().contains("two.trace"), "the trace is absent");
}
