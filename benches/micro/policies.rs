//! How fast policies run on page runs and `homing` on samples, on one core, and what state they keep a page. Prints
//! tables: `cargo bench -p homing-benches --bench policies`; `-- samples` and names of policies for those alone.

use homing_core::action::{Actions, Locations};
use homing_core::history::{History, HistoryBuilder, Options};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::{Costs, Machine, Uniform};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::{table, Sample};
use homing_core::simulate::{simulate, Setup};
use homing_core::timeline::Timeline;
use homing_core::windows::NO_WINDOWS;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

/// Seconds that this thread has had a CPU: other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstats");
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).expect("nanoseconds first") * 1e-9
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
        windows: &NO_WINDOWS,
        log: false,
    };
    let before = USED.load(Relaxed);
    MOST.store(before, Relaxed);
    let begin = cpu_seconds();
    let result = simulate(&setup, &*policy).expect("it runs");
    let seconds = cpu_seconds() - begin;
    assert_eq!(result.account.references(), history.references());
    (history.references() as f64 / seconds / 1e6, MOST.load(Relaxed) - before)
}

const SAMPLES: usize = 1 << 21;
const SAMPLED_PAGES: u32 = 1 << 14;

/// Page and node of every sample; `strays` in a thousand come from any node.
fn stream(strays: u32) -> Vec<(Page, Node)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(u64::from(strays));
    let sample = |_| {
        let page = random.gen_range(0..SAMPLED_PAGES);
        let stray = random.gen_ratio(strays, 1000);
        (Page(page), Node(if stray { random.gen_range(0..4) } else { (page % 4) as u16 }))
    };
    (0..SAMPLES).map(sample).collect()
}

/// Million samples a second of `homing`, samples alone as in life, each for 16 reads.
fn samples(machine: &str, strays: u32) -> f64 {
    let machine = Machine::builtin(machine).expect("a machine of the project");
    let costs = machine.costs(machine.page_size()).expect("its prices");
    let mut policy = table::find("homing").expect("in the table").make(&costs, true, &Settings::default());
    let mut at: Vec<Locations> =
        (0..SAMPLED_PAGES).map(|page| Locations::single(Node((page % 4) as u16))).collect();
    let (mut actions, mut taken) = (Actions::default(), Vec::new());
    let stream = stream(strays);
    let begin = cpu_seconds();
    for (time, &(page, node)) in stream.iter().enumerate() {
        let (at, time) = (&mut at[page.index()], Time(time as u64));
        let sample = Sample { page, node, reads: 1, writes: 0, weight: 16.0, time, at: *at };
        policy.sample(&sample, &mut actions);
        actions.take(&mut taken);
        for action in taken.drain(..) {
            *at = action.kind.applied(*at);
        }
    }
    SAMPLES as f64 / (cpu_seconds() - begin) / 1e6
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    if wanted("samples") {
        speeds_of_samples();
    }
    let names = ["first-touch", "work-function", "homing"].into_iter().chain(COUNTER_DRIVEN);
    let names: Vec<&str> = names.filter(|name| wanted(name)).collect();
    if !names.is_empty() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a worker");
        pool.install(|| tables_of_policies(&names));
    }
}

fn speeds_of_samples() {
    println!("million samples a second of homing, of one core's time, {SAMPLED_PAGES} pages");
    for (name, strays) in [("at home", 0), ("one stray in a hundred", 10), ("shared by all", 1000)] {
        let best = |machine| (0..3).map(|_| samples(machine, strays)).fold(0.0, f64::max);
        println!("{name:24} butterfly {:6.1}  four-socket {:6.1}", best("butterfly"), best("four-socket"));
    }
    println!();
}

fn tables_of_policies(names: &[&str]) {
    println!(
        "million references a second of one core's time, {NODES} nodes, 4096 pages, 100 intervals, 20 \
    iterations"
    );
    println!("{:18} {:>12} {:>12} {:>12} {:>12}", "policy", "runs of 8", "of 64", "of 512", "64, every:64");
    let histories = [8, 64, 512].map(|length| history(4096, 30_000_000, length));
    for &name in names {
        // The best of three, since the machine may be busy.
        let best =
            |history: &History, level: &str| (0..3).map(|_| run(history, name, level).0).fold(0.0, f64::max);
        let speeds = histories.each_ref().map(|history| best(history, "perfect"));
        let sampled = best(&histories[1], "every:64");
        println!("{name:18} {:12.0} {:12.0} {:12.0} {sampled:12.0}", speeds[0], speeds[1], speeds[2]);
    }
    println!("\nbytes a page beyond first-touch, a million pages that 2 of {NODES} nodes use");
    let wide = history(1_000_000, 4_000_000, 1);
    let floor = run(&wide, "first-touch", "intervals:4").1;
    for &name in names.iter().filter(|name| **name != "first-touch") {
        let bytes = run(&wide, name, "intervals:4").1.saturating_sub(floor);
        println!("{name:18} {:8.0}", bytes as f64 / 1e6);
    }
}
