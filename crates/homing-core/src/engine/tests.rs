use super::*;
use crate::history::PageRun;
use crate::ids::Thread;

/// Writes down what it hears, asks for what it is told to.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Witness {
    heard: Vec<String>,
    after: u64,
    replicate: bool,
}

impl Policy for Witness {
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next {
        let kind = if fault.write { 'w' } else { 'r' };
        self.heard.push(format!("fault {} {kind} {} {:?}", fault.node, fault.time, fault.cause));
        if self.replicate && !fault.write {
            actions.push(fault.page, Kind::Replicate { to: fault.node }, "test");
        }
        Next::After(self.after)
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, _actions: &mut Actions) {
        self.heard.push(format!("sample {} {}r {}w", sample.node, sample.reads, sample.writes));
    }

    fn interval_end(&mut self, end: &End, _actions: &mut Actions) {
        self.heard.push(format!("interval {} {}", end.number, end.time));
    }

    fn iteration_end(&mut self, end: &End, _actions: &mut Actions) {
        self.heard.push(format!("iteration {} {}", end.number, end.time));
    }

    fn phase_begin(&mut self, phase: u32, time: Time, _actions: &mut Actions) {
        self.heard.push(format!("phase {phase} {time}"));
    }

    fn threads_changed(&mut self, changed: &ThreadsChanged, _actions: &mut Actions) {
        self.heard.push(format!("threads {}", changed.threads));
    }

    fn page_new(&mut self, page: Page, address: u64) {
        self.heard.push(format!("new {page} {address:#x}"));
    }

    fn thread_moved(&mut self, moved: &ThreadMoved, _actions: &mut Actions) {
        self.heard.push(format!("thread {} {} -> {}", moved.thread, moved.from, moved.to));
    }

    fn page_gone(&mut self, page: Page) {
        self.heard.push(format!("gone {page}"));
    }

    fn outcome(&mut self, action: &Action, outcome: &Outcome) {
        let (name, node) = action.kind.describe();
        self.heard.push(format!("{name} {} {outcome}", node.map_or(-1, |node| i32::from(node.0))));
    }
}

/// One page that goes where it is told.
struct OnePage(Locations);

impl Executor for OnePage {
    fn at(&self, _: Page) -> Locations {
        self.0
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        self.0 = action.kind.applied(self.0);
        Outcome::Done
    }
}

fn run(node: u16, first: u64, counts: [u32; 4]) -> PageRun {
    let [reads_before, writes, reads_between, reads_after] = counts;
    let last = Time(first + u64::from(counts.iter().sum::<u32>()) - 1);
    PageRun { node: Node(node), first: Time(first), last, reads_before, writes, reads_between, reads_after }
}

fn heard(after: u64, replicate: bool, runs: &[PageRun]) -> Vec<String> {
    let mut witness = Witness { heard: Vec::new(), after, replicate };
    let mut engine = Engine::new(&mut witness, OnePage(Locations::single(Node(0))), false);
    runs.iter().for_each(|run| engine.run(Page(0), run));
    witness.heard
}

#[test]
fn local_runs_are_whole_and_remote_ones_split_where_asked() {
    let observations = [
        run(0, 0, [4, 1, 0, 0]),
        run(1, 5, [5, 0, 0, 0]),
        run(0, 10, [1, 0, 0, 0]),
        run(1, 11, [2, 0, 0, 0]),
    ];
    let expected = [
        "sample 0 4r 1w",
        "fault 1 r 5 Unmapped",
        "sample 1 3r 0w",
        "fault 1 r 8 Due",
        "sample 1 2r 0w",
        "sample 0 1r 0w",
        "sample 1 1r 0w",
        "fault 1 r 12 Due",
        "sample 1 1r 0w",
    ];
    assert_eq!(heard(3, false, &observations), expected);
}

#[test]
fn a_write_meets_replicas_and_the_engine_leaves_one_copy() {
    let observations = [run(1, 0, [2, 2, 1, 1]), run(0, 6, [1, 0, 0, 0])];
    let expected = [
        "fault 1 r 0 Unmapped",
        "replicate 1 done",
        "sample 1 2r 0w",
        "fault 1 w 2 Write",
        "collapse 1 done",
        "sample 1 2r 2w",
        "fault 0 r 6 Unmapped",
        "replicate 0 done",
        "sample 0 1r 0w",
    ];
    assert_eq!(heard(9, true, &observations), expected);
}

#[test]
fn all_observations_reach_the_policy() {
    let at = Locations::single(Node(9));
    let moved = ThreadMoved { thread: Thread(3), from: Node(0), to: Node(1), time: Time(7) };
    let sample =
        Sample { page: Page(0), node: Node(1), reads: 2, writes: 1, weight: 64.0, time: Time(1), at };
    let observations = [
        Observation::Sample(sample),
        Observation::IntervalEnd(Time(4)),
        Observation::IntervalEnd(Time(5)),
        Observation::IterationEnd(Time(6)),
        Observation::PhaseBegin(2, Time(6)),
        Observation::ThreadMoved(moved),
        Observation::ThreadsChanged(ThreadsChanged { threads: 2, time: Time(8) }),
        Observation::PageNew(Page(0), 0x1000),
        Observation::Forget(Page(0), 0x1000),
        Observation::PageGone(Page(0)),
    ];
    let expected = [
        "sample 1 2r 1w",
        "interval 0 4",
        "interval 1 5",
        "iteration 0 6",
        "phase 2 6",
        "thread 3 0 -> 1",
        "threads 2",
        "new 0 0x1000",
        "gone 0",
        "new 0 0x1000",
        "gone 0",
    ];
    let mut witness = Witness { heard: Vec::new(), after: 1, replicate: false };
    let mut engine = Engine::new(&mut witness, OnePage(Locations::single(Node(0))), false);
    observations.into_iter().for_each(|observation| engine.observe(observation));
    assert_eq!(witness.heard, expected, "a policy that does not know better begins anew with a page");
}
