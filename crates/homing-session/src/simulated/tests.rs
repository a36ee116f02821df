use super::*;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::{Addresses, HierarchyShape, Shape};
use homing_core::history::{Schedule, ThreadsOn};
use homing_core::ids::Thread;
use homing_core::machine::{Machine, Uniform};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings as Parameters;
use homing_core::policy::table;
use homing_core::timeline::Timeline;
use homing_core::trace::{Header, Kind, Summary, Trace, TraceWriter};

const NODES: [Node; 4] = [Node(0), Node(1), Node(2), Node(3)];
pub(super) const PAGES: u64 = 64;
const ROUNDS: u64 = 60;

/// Four threads on four nodes; thread `by(page)` makes each page, then each thread walks its own quarter of them.
pub(super) fn trace(by: impl Fn(u64) -> u32) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "0")).unwrap();
    let mut refer = |thread: u32, page: u64, at: u64, write: bool| {
        let address = 0x4000_0000 + page * PAGE + at * 64;
        writer.reference(Thread(thread), 0, address, Kind::new(8, write, false)).unwrap();
        writer.turn(Thread(thread), 1).unwrap();
    };
    (0..PAGES).for_each(|page| refer(by(page), page, 0, true));
    for round in 0..ROUNDS {
        for page in 0..PAGES / 4 {
            for at in 0..64 {
                (0..4).for_each(|thread| refer(thread as u32, thread * PAGES / 4 + page, at, round % 2 == 1));
            }
        }
    }
    writer.finish(Summary::default()).unwrap().0
}

/// One line of a log.
#[derive(PartialEq)]
enum Line {
    Input(Micros, Input),
    Output(Output),
}

/// Lines as a log has them.
#[derive(Default)]
struct Lines {
    settings: Option<(Settings, Context)>,
    lines: Vec<Line>,
}

impl Log for Lines {
    fn begin(&mut self, settings: &Settings, context: &Context) {
        self.settings = Some((settings.clone(), context.clone()));
    }

    fn input(&mut self, t: Micros, input: &Input) {
        self.lines.push(Line::Input(t, input.clone()));
    }

    fn output(&mut self, output: &Output) {
        self.lines.push(Line::Output(output.clone()));
    }
}

fn costs() -> Costs {
    Costs::Uniform(Uniform { nodes: 4, remote: 2.0, page_move: 100.0, global: None })
}

/// The shape of caches, of which a quarter of the pages does not fit.
fn shape() -> HierarchyShape {
    HierarchyShape {
        l1: Shape::cache(1024, 2, 64).unwrap(),
        l2: Shape::cache(4096, 4, 64).unwrap(),
        l3: None,
        tlbs: vec![Shape::tlb(4, 4).unwrap()],
        colours: Default::default(),
    }
}

/// Simulates a session of some ten seconds, or what is asked for instead; also gives the homes of pages in order.
fn live(
    bytes: &[u8],
    schedule: &str,
    monitor: &str,
    change: impl FnOnce(&mut Setup),
    log: &mut dyn Log,
) -> (Run, Live) {
    on_machine(bytes, schedule, change, |setup| {
        let policy = table::find("work-function").unwrap().make(setup.costs, false, &Parameters::default());
        let (run, live) = super::run(setup, &*policy, &monitor.parse().unwrap(), log).unwrap();
        (run, live.unwrap())
    })
}

/// Lays a trace over the machine of these tests.
pub(super) fn on_machine<T>(
    bytes: &[u8],
    schedule: &str,
    change: impl FnOnce(&mut Setup),
    simulate: impl FnOnce(&Setup) -> T,
) -> T {
    let trace = Trace::open(bytes).unwrap();
    let mut binding = ThreadsOn::Fill.bind(&NODES).unwrap();
    let mut timeline = Timeline::default();
    if !schedule.is_empty() {
        timeline.add(Schedule::parse(schedule).unwrap().apply(&mut binding, 4, &NODES).unwrap());
    }
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), &binding);
    let frames: Vec<u64> = trace.frames().iter().map(|frame| frame << 12).collect();
    let machine = Machine::builtin("four-socket").unwrap();
    let mut setup = Setup {
        trace: &trace,
        costs: &costs(),
        shape: &shape(),
        cpus: &cpus,
        addresses: &Addresses::new(PageSize::KIB4, &frames),
        placement: &Placement::FirstTouch,
        monitor: "hint-faults",
        interval: 1,
        timeline: &timeline,
        times: Some(&Times::new(&machine, machine.page_size()).unwrap()),
        mover: Mover::Program,
        extras: None,
        log: true,
    };
    change(&mut setup);
    simulate(&setup)
}

/// Ten seconds for each of the trace's 1.4 ms or so.
pub(super) const SLOW: &str = "hint-faults:slow=7000";

pub(super) fn homes(run: &Run) -> Vec<u16> {
    let mut homes = run.homes.clone();
    homes.sort_unstable();
    homes.iter().map(|(_, home)| home.0).collect()
}

pub(super) fn quarters(nodes: [u16; 4]) -> Vec<u16> {
    (0..PAGES).map(|page| nodes[(page / (PAGES / 4)) as usize]).collect()
}

/// Non-local share of the last third, in per cent.
fn tail(run: &Run) -> f64 {
    let third = &run.intervals[run.intervals.len() * 2 / 3..];
    let sum = |count: fn(&homing_core::system::Interval) -> u64| third.iter().map(count).sum::<u64>() as f64;
    100.0 * sum(|i| i.remote) / (sum(|i| i.local) + sum(|i| i.remote))
}

#[test]
fn pages_that_one_thread_made_come_home() {
    let bytes = trace(|_| 0);
    let (still, _) = live(&bytes, "", SLOW, |setup| setup.log = false, &mut ());
    let (run, session) = live(&bytes, "", SLOW, |_| {}, &mut ());
    assert!(still.log.is_empty() && still.account == run.account);
    assert_eq!(homes(&run), quarters([0, 1, 2, 3]));
    assert_eq!((session.account.total.moved, run.account.moves), (48, 48));
    assert!(tail(&run) < 1.0, "{} %", tail(&run));
    assert!(session.scans >= 3 && session.hint_faults >= 64 && session.faults_before == 64, "{session:?}");
    assert!(session.curve[0].nonlocal_percent.unwrap_or(100.0) > 50.0, "{:?}", session.curve);
    let seconds = session.curve.last().unwrap().ms as f64 / 1000.0;
    assert!((3.0..30.0).contains(&seconds), "{seconds} s");
    // Every decision is there with its reason, and what came of it.
    assert_eq!(
        run.log.iter().filter(|entry| entry.outcome == homing_core::action::Outcome::Done).count(),
        48
    );
    assert!(run.log.iter().all(|entry| !entry.action.reason.is_empty()));
    let modelled = run.modelled.unwrap().total_ns * 7000.0;
    assert!((modelled / (seconds * 1e9) - 1.0).abs() < 0.1, "{modelled} ns in {seconds} s");
}

#[test]
fn where_there_is_nothing_to_gain_nothing_moves() {
    let (run, session) = live(&trace(|page| (page / (PAGES / 4)) as u32), "", SLOW, |_| {}, &mut ());
    assert_eq!((run.account.moves, run.account.remote, session.account.forwarded), (0, 0, 0));
    assert!(session.scans >= 3 && session.hint_faults >= 64, "{session:?}");
    let last = &session.curve[session.curve.len() / 2..];
    assert!(last.iter().all(|point| point.nonlocal_percent.is_none_or(|percent| percent == 0.0)));
}

#[test]
fn the_pages_of_a_thread_that_moves_follow_it() {
    // Half-way threads 2 and 3 change places.
    let half = ROUNDS * PAGES * 64 / 2;
    let schedule = format!("time,thread,cpu\n{half},2,3\n{half},3,2\n");
    let (run, session) = live(&trace(|_| 0), &schedule, SLOW, |_| {}, &mut ());
    assert_eq!(homes(&run), quarters([0, 1, 3, 2]));
    assert_eq!((session.account.threads_moved, session.account.forwarded), (2, 32));
    assert!(run.account.moves == 80 && tail(&run) < 1.0, "{} moves, {} %", run.account.moves, tail(&run));
}

#[test]
fn the_same_trace_gives_the_same_log_and_a_fresh_session_does_the_same_again() {
    let bytes = trace(|_| 0);
    let logged = || {
        let mut log = Lines::default();
        live(&bytes, "", SLOW, |_| {}, &mut log);
        log
    };
    let (one, two) = (logged(), logged());
    assert!(one.lines == two.lines && one.lines.len() > 200, "{} lines", one.lines.len());
    let (settings, context) = one.settings.unwrap();
    let mut policy = table::find("work-function").unwrap().make(&costs(), false, &Parameters::default());
    let plan = Plan::default();
    let mut session =
        Session::new(crate::Setup { settings, policy: &mut *policy, context, plan, record: true });
    let (mut expected, mut outputs) = (Vec::new(), Vec::new());
    for line in one.lines {
        match line {
            Line::Input(t, input) => session.input(t, input, &mut outputs),
            Line::Output(output) => expected.push(output),
        }
    }
    assert!(outputs == expected && outputs.iter().any(|output| matches!(output, Output::Settled(_))));
}

#[test]
fn full_nodes_refuse_moves_and_stopped_threads_wait_for_them() {
    // Of the 48 pages that belong elsewhere, each node takes 7: 32 KiB, of which it keeps two per cent free.
    let (_, session) = live(&trace(|_| 0), "", "hint-faults:slow=7000,memory=0.03125", |_| {}, &mut ());
    let account = session.account;
    assert_eq!(account.total.moved, 21, "{:?}", account.refused);
    assert!(account.refused["the target node is full"] > 0);
    let (_, session) = live(
        &trace(|_| 0),
        "",
        "hint-faults:slow=7000,move=500",
        |setup| setup.mover = Mover::Stopped,
        &mut (),
    );
    let account = session.account;
    // 48 moves of 500 us, by movers that are 1.4 times as fast as one.
    assert_eq!((account.total.moved, account.stopped.0 / 1000), (48, 17));
}

#[test]
fn what_the_session_cannot_run_on_is_refused_with_another_way() {
    let bytes = trace(|_| 0);
    let trace = Trace::open(&bytes).unwrap();
    let (costs, shape) = (costs(), shape());
    let binding = ThreadsOn::Fill.bind(&NODES).unwrap();
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), &binding);
    let frames: Vec<u64> = trace.frames().iter().map(|frame| frame << 12).collect();
    let (small, large) = (PageSize::KIB4, PageSize::new(65536).unwrap());
    let [small, large] = [small, large].map(|size| Addresses::new(size, &frames));
    let setup = Setup {
        trace: &trace,
        costs: &costs,
        shape: &shape,
        cpus: &cpus,
        addresses: &small,
        placement: &Placement::FirstTouch,
        monitor: "hint-faults",
        interval: 1,
        timeline: &homing_core::timeline::NO_MARKS,
        times: None,
        mover: Mover::Program,
        extras: None,
        log: false,
    };
    let refused = |setup: &Setup| {
        let policy = homing_core::policy::stay::Stay;
        super::run(setup, &policy, &"hint-faults".parse().unwrap(), &mut ()).unwrap_err().to_string()
    };
    let no_times = refused(&setup);
    assert!(no_times.contains("no section [time]") && no_times.contains("every=N,window=M"), "{no_times}");
    assert!(refused(&Setup { addresses: &large, ..setup }).contains("pages of 4K and of 2M"));
}

#[test]
fn pages_wait_until_a_cpuset_lets_them_go() {
    let bytes = trace(|_| 0);
    let (run, session) = live(&bytes, "", "hint-faults:slow=7000,closed=5000", |_| {}, &mut ());
    assert_eq!(homes(&run), quarters([0, 1, 2, 3]), "they are home in the end");
    assert!(session.account.refused.values().sum::<u64>() > 0, "{:?}", session.account.refused);
    let moved_by = |ms: u64| {
        let intervals = session.account.intervals.iter().filter(|interval| interval.ms <= ms);
        intervals.map(|interval| interval.moved).sum::<u64>()
    };
    assert_eq!(moved_by(4900), 0);
    assert!(session.account.total.moved >= 48, "{}", session.account.total.moved);
}
