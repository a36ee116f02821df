use super::*;
use crate::action::Actions;
use crate::cache::Shape;
use crate::history::ThreadsOn;
use crate::ids::{PageSize, Thread};
use crate::machine::{Machine, Uniform};
use crate::monitor::table::{self as monitor_table, Choice, MONITORS};
use crate::monitor::{Poll, Reports};
use crate::policy::settings::Settings;
use crate::policy::{table, Fault, Next};
use crate::timeline::NO_MARKS;
use crate::trace::{Header, Kind, Summary, TraceWriter};
use serde::Deserialize;
use std::sync::Mutex;

/// Two threads on two nodes; thread 0 makes all pages, then each thread walks its own half again and again.
fn trace() -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "0")).unwrap();
    let mut refer = |thread: u32, page: u64, at: u64, write: bool| {
        let address = 0x10000 + page * 4096 + at * 64;
        writer.reference(Thread(thread), 0, address, Kind::new(8, write, false)).unwrap();
        writer.turn(Thread(thread), 1).unwrap();
    };
    (0..16).for_each(|page| refer(0, page, 0, true));
    for round in 0..40 {
        for at in 0..64 {
            for page in 0..8 {
                refer(0, page, at, false);
                refer(1, 8 + page, at, round % 2 == 1);
            }
        }
    }
    writer.finish(Summary::default()).unwrap().0
}

fn shape() -> HierarchyShape {
    HierarchyShape {
        l1: Shape::cache(1024, 2, 64).unwrap(),
        l2: Shape::cache(4096, 4, 64).unwrap(),
        l3: None,
        tlbs: vec![Shape::tlb(4, 4).unwrap()],
        colours: Default::default(),
    }
}

fn costs() -> Costs {
    Costs::Uniform(Uniform { nodes: 2, remote: 4.0, page_move: 20.0, global: None })
}

fn with<R>(test: impl FnOnce(&Setup) -> R) -> R {
    let bytes = trace();
    let trace = Trace::open(&bytes).unwrap();
    let binding = ThreadsOn::Fill.bind(&[Node(0), Node(1)]).unwrap();
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), &binding);
    assert_eq!(Whereabouts::default().of(&cpus, Thread(1), Time(0)).cpu, 1);
    let frames: Vec<u64> = trace.frames().iter().map(|frame| frame << 12).collect();
    let addresses = Addresses::new(PageSize::KIB4, &frames);
    test(&Setup {
        trace: &trace,
        costs: &costs(),
        shape: &shape(),
        cpus: &cpus,
        addresses: &addresses,
        placement: &Placement::FirstTouch,
        monitor: "test",
        interval: 4096,
        timeline: &NO_MARKS,
        times: None,
        mover: Mover::Program,
        extras: None,
        log: true,
    })
}

fn run_with(setup: &Setup, monitor: &str) -> Run {
    let policy = table::find("interval-majority").unwrap().make(setup.costs, false, &Settings::default());
    run(setup, &*policy, &monitor.parse::<Choice>().unwrap()).unwrap()
}

#[test]
fn without_moves_the_account_is_that_of_the_misses() {
    with(|setup| {
        let (run, ()) = watch(setup, &Stay, ()).unwrap();
        assert_eq!(run.account.references(), run.caches.demand());
        assert_eq!((run.account.moves, run.samples), (0, 0));
        // Thread 0 made all pages: what thread 1 asks is remote.
        assert!(run.account.remote > run.account.local / 2, "{:?}", run.account);
        let sums = run.intervals.iter().fold((0, 0), |sum, i| (sum.0 + i.local, sum.1 + i.remote));
        assert_eq!(sums, (run.account.local, run.account.remote));
        assert_eq!(run.intervals.last().unwrap().end, setup.trace.references());
        let write_backs: u64 = run.intervals.iter().map(|interval| interval.write_backs).sum();
        assert_eq!(write_backs, run.caches.write_backs);
    });
}

#[test]
fn every_monitor_brings_the_pages_home() {
    with(|setup| {
        let (before, ()) = watch(setup, &Stay, ()).unwrap();
        for entry in MONITORS.iter().filter(|entry| !matches!(entry.build, monitor_table::Build::Session)) {
            let name = match entry.name {
                "tlb-content" | "atc" => format!("{}:every=500", entry.name),
                "hint-faults" => "hint-faults:every=500,window=8".into(),
                "access-bits" => "access-bits:every=500,region=2".into(),
                // Not a divisor of the walk's period, or always the same page would be taken.
                "interconnect" => "interconnect:period=17,read=0".into(),
                "cache-misses" => "cache-misses:period=17".into(),
                "tlb-misses" => "tlb-misses:period=17".into(),
                "precise" => "precise:period=17".into(),
                name => name.into(),
            };
            let after = run_with(setup, &name);
            let percent = 100 * after.account.remote / before.account.remote;
            assert!(after.account.moves >= 8, "{name} moves {}", after.account.moves);
            assert!(percent < 40, "{name} leaves {percent} %");
            assert!(after.samples > 0 && after.distance.pages_percent > 0.0, "{name}");
            assert_eq!(after.caches.references, setup.trace.references(), "{name}");
            let again = run_with(setup, &name);
            assert_eq!((again.account, again.log), (after.account, after.log), "{name} gives the same again");
        }
    });
}

#[test]
fn the_future_is_known_one_interval_earlier() {
    with(|setup| {
        let first_moves = |name: &str| run_with(setup, name).intervals[0].moves_to.clone();
        assert_eq!(first_moves("perfect-next"), [0, 8]);
        let moved = run_with(setup, "perfect-next").account.remote;
        assert!(moved <= run_with(setup, "perfect").account.remote);
    });
}

#[test]
fn moves_are_refused_that_cannot_be() {
    with(|setup| {
        let quiet = Setup { placement: &Placement::Best, ..*setup };
        assert!(matches!(watch(&quiet, &Stay, ()), Err(SystemError::Placement("best"))));
        let bare = HierarchyShape { tlbs: vec![], ..shape() };
        let no_tlb = Setup { shape: &bare, ..*setup };
        let error = run(&no_tlb, &Stay, &"atc".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("no `tlb`"), "{error}");
        let single = Setup { placement: &Placement::SingleNode(Node(1)), ..*setup };
        let (run, ()) = watch(&single, &Stay, ()).unwrap();
        assert!(run.homes.iter().all(|&(_, home)| home == Node(1)));
    });
}

/// What [`Listens`] has heard.
static HEARD: Mutex<Vec<Vec<f64>>> = Mutex::new(Vec::new());

#[derive(Clone, Serialize, Deserialize)]
struct Listens;

impl Policy for Listens {
    fn fault(&mut self, _: &Fault, _: &mut Actions) -> Next {
        Next::Never
    }

    fn begin(&mut self, context: &Context) {
        assert!(context.loads);
    }

    fn loads(&mut self, waits: &[f64]) {
        HEARD.lock().unwrap().push(waits.to_vec());
    }
}

#[test]
fn policies_hear_what_requests_wait_where_times_are_modelled() {
    let machine = Machine::builtin("two-socket").unwrap();
    let times = Times::new(&machine, machine.page_size()).unwrap();
    with(|setup| {
        let run = watch(&Setup { times: Some(&times), ..*setup }, &Listens, ()).unwrap().0;
        let heard = std::mem::take(&mut *HEARD.lock().unwrap());
        assert_eq!(heard.len(), run.intervals.len());
        // Thread 0 made all pages: node 0 serves everything, node 1 nothing but what goes through its link.
        let served: Vec<_> = heard.iter().filter(|waits| waits[0] > 0.0).collect();
        assert!(served.len() > 10 && served.iter().all(|waits| waits[0] > waits[1]), "{heard:?}");
    });
}

#[test]
fn the_scanner_at_a_fixed_rate_is_what_it_was() {
    with(|setup| {
        let sum = |run: &Run| {
            let moves = run.log.iter().map(|entry| entry.time.0 * (u64::from(entry.action.page.0) + 1));
            let account = run.account;
            (account.local, account.remote, account.moves, run.samples, run.interrupts, moves.sum::<u64>())
        };
        let fixed = sum(&run_with(setup, "hint-faults:every=500,window=8"));
        let wide = sum(&run_with(setup, "hint-faults:every=777,window=1000"));
        assert_eq!(fixed, (38936, 2040, 8, 648, 648, 409_600));
        assert_eq!(wide, (38936, 2040, 8, 832, 832, 409_600));
    });
}

/// Which CPUs were polled, in turn.
struct Polled {
    each: u64,
    cpus: Vec<Option<u16>>,
}

impl Monitor for Polled {
    fn poll_each(&self) -> Option<u64> {
        Some(self.each)
    }

    fn poll(&mut self, poll: &mut Poll, _: &mut Reports) {
        self.cpus.push(poll.cpu);
    }
}

/// Thread 0 makes 16 references before the other one's first; then they take turns.
#[test]
fn a_cpu_is_polled_after_so_many_references_of_its_own() {
    with(|setup| {
        let cpus = |each| watch(setup, &Stay, Polled { each, cpus: Vec::new() }).unwrap().1.cpus;
        let (zero, one) = (Some(0), Some(1));
        assert_eq!(cpus(16)[..4], [zero, zero, one, zero]);
        let each = 40 * 64 * 8;
        assert_eq!(cpus(each), [zero, one], "thread 0 has 16 more");
        assert_eq!(cpus(each + 16), [zero]);
    });
}
