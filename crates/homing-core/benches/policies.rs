//! How fast policies run on page runs, on one core, and what state they keep a page. Prints tables, for runs of different
//! lengths: `cargo bench -p homing-core --bench policies`.

use homing_core::history::{History, HistoryBuilder, Options};
use homing_core::ids::{Node, Time};
use homing_core::machine::{Costs, Uniform};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table;
use homing_core::simulate::{simulate, Setup};
use homing_core::timeline::Timeline;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Counts bytes in use and their maximum.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(USED.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        System.dealloc(memory, layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NODES: u16 = 8;
const COUNTER_DRIVEN: [&str; 7] =
    ["interval-majority", "competitive", "predictive", "record-replay", "irix", "verghese", "linux"];

/// Pages that change hands now and then; each visit of a node to a page has `length` references.
fn history(pages: u64, references: u64, length: u64) -> History {
    let mut builder = HistoryBuilder::new(Options { read_gap: 230, ..Options::default() });
    let mut time = 0;
    for visit in 0..references / length {
        let page = visit.wrapping_mul(0x9e37_79b9) % pages;
        let node = Node(((page + visit / (pages * 5) + u64::from(visit % 3 == 0)) % u64::from(NODES)) as u16);
        for step in 0..length {
            builder.reference(node, Time(time), page << 12, step % 3 == 0);
            time += 1;
        }
    }
    builder.finish(&(0..pages).map(|page| page << 12).collect::<Vec<_>>()).expect("nothing is spilled")
}

fn run(history: &History, name: &str, level: &str) -> (f64, usize) {
    let costs = Costs::Uniform(Uniform { nodes: NODES, remote: 15.0, page_move: 3272.0, global: None });
    let policy = table::find(name).expect("in the table").make(&costs, true, &Settings::default());
    let mut timeline = Timeline::default();
    timeline.add_iterations(history.duration().0 / 20 + 1, history.duration());
    let setup = Setup {
        history,
        costs: &costs,
        placement: &Placement::FirstTouch,
        replication: true,
        information: level.parse().expect("a level"),
        timeline: &timeline,
        log: false,
    };
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let begin = Instant::now();
    let result = simulate(&setup, &*policy).expect("it runs");
    let seconds = begin.elapsed().as_secs_f64();
    assert_eq!(result.account.references(), history.references());
    (history.references() as f64 / seconds / 1e6, MOST.load(Relaxed) - before)
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a worker");
    pool.install(|| {
        println!("million references a second on one core, {NODES} nodes, 4096 pages, 100 intervals, 20 iterations");
        println!("{:18} {:>12} {:>12} {:>12} {:>12}", "policy", "runs of 8", "of 64", "of 512", "64, every:64");
        let histories = [8, 64, 512].map(|length| history(4096, 30_000_000, length));
        for name in ["first-touch", "work-function", "homing"].into_iter().chain(COUNTER_DRIVEN) {
            // The best of three, since the machine may be busy.
            let best = |history: &History, level: &str| {
                (0..3).map(|_| run(history, name, level).0).fold(0.0, f64::max)
            };
            let speeds = histories.each_ref().map(|history| best(history, "perfect"));
            let sampled = best(&histories[1], "every:64");
            println!("{name:18} {:12.0} {:12.0} {:12.0} {sampled:12.0}", speeds[0], speeds[1], speeds[2]);
        }
        println!("\nbytes a page beyond first-touch, a million pages that 2 of {NODES} nodes use");
        let wide = history(1_000_000, 4_000_000, 1);
        let floor = run(&wide, "first-touch", "intervals:4").1;
        for name in COUNTER_DRIVEN {
            let bytes = run(&wide, name, "intervals:4").1.saturating_sub(floor);
            println!("{name:18} {:8.0}", bytes as f64 / 1e6);
        }
    });
}
