//! What a session takes for a sample, on one core: scans of a process of 64 MiB and of 1 GiB whose memory begins on
//! node 0, and which two nodes use, half each. One session only watches, the other brings the pages home. Where pages
//! are is answered and orders land at once, so that the kernel has no part in it. Prints a table:
//! `cargo bench -p homing-benches --bench session`, with ` -- 64` for that many MiB only.

use homing_core::ids::{Micros, Node};
use homing_core::machine::{Costs, Uniform};
use homing_core::policy::{table, Context};
use homing_core::process::{Class, ProcessId, Region, ThreadId};
use homing_session::input::{Access, AccessKind, Answer, Input, Landed, Looked, Scanned, ThreadSeen};
use homing_session::plan::Plan;
use homing_session::{weight_of_a_burst, Output, Session, Settings, Setup, PAGE};
use std::time::Instant;

const PROCESS: ProcessId = ProcessId(1);
const BEGIN: u64 = 0x4000_0000;
const SCANS: u64 = 8;
/// Samples that are handed over together.
const AT_ONCE: usize = 2048;

fn costs() -> Costs {
    Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None })
}

fn settings(watch: bool) -> Settings {
    Settings {
        nodes: 2,
        time_for_moves: Micros::from_millis(100),
        rate_limit: 0,
        regions: Vec::new(),
        bind: Vec::new(),
        keep: Vec::new(),
        dry_run: watch,
        watch,
        weight: weight_of_a_burst(&costs()),
        keep_huge_pages: true,
        spread: false,
        scans: true,
        send_back: false,
    }
}

/// Where pages are.
struct Memory(Vec<Node>);

impl Memory {
    fn node(&mut self, address: u64) -> &mut Node {
        &mut self.0[((address - BEGIN) / PAGE) as usize]
    }
}

/// Hands over an input, and the answers to what is asked then.
fn feed(session: &mut Session<'_>, memory: &mut Memory, t: Micros, input: Input) {
    let (mut inputs, mut outputs) = (vec![input], Vec::new());
    while let Some(input) = inputs.pop() {
        session.input(t, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Locate { number, questions } => {
                    let mut node = |address| Answer { node: Some(*memory.node(address)), huge: false };
                    let answers = questions.iter().map(|question| node(question.address)).collect();
                    inputs.push(Input::Located { number, answers });
                }
                Output::Move { orders, .. } => {
                    orders.iter().for_each(|order| *memory.node(order.address) = order.to);
                    let results = orders.iter().map(|order| (order.tag, Landed::There)).collect();
                    inputs.push(Input::Landed { results, moving: t, stopped: Micros(0) });
                }
                _ => {}
            }
        }
    }
}

fn process(pages: u64) -> Looked {
    let region = Region {
        name: "heap#0".into(),
        start: BEGIN,
        end: BEGIN + pages * PAGE,
        class: Class::Heap,
        backing: None,
    };
    let thread = |node: u16| ThreadSeen {
        process: PROCESS,
        thread: ThreadId(node.into()),
        node: Some(Node(node)),
        ran: true,
    };
    Looked {
        begun: vec![PROCESS],
        remapped: vec![(PROCESS, vec![region])],
        threads: vec![thread(0), thread(1)],
        resident_pages: pages,
        ..Looked::default()
    }
}

/// What a session took.
struct Took {
    seconds: f64,
    /// Samples that were looked at.
    looked_at: u64,
    moved: u64,
}

/// Scans of that number of pages.
fn scans(pages: u64, watch: bool) -> Took {
    let name = if watch { "first-touch" } else { "work-function" };
    let mut policy = table::find(name).expect("in the table").make(&costs(), false, &Default::default());
    let settings = settings(watch);
    let context = Context {
        monitor: "hint-faults".into(),
        weight: settings.weight,
        interval: None,
        iterations: false,
        phases: false,
        page_bytes: PAGE,
        nodes: 2,
        loads: false,
        moves: None,
    };
    let setup = Setup { settings, policy: &mut *policy, context, plan: Plan::default(), record: false };
    let mut session = Session::new(setup);
    let mut memory = Memory(vec![Node(0); pages as usize]);
    feed(&mut session, &mut memory, Micros(0), Input::Looked(process(pages)));
    let fault = |page: u64| {
        let node = u16::from(page >= pages / 2);
        let (address, kind) = (BEGIN + page * PAGE, AccessKind::HintFault { after_scan: Some(Micros(100)) });
        let thread = ThreadId(node.into());
        Access { process: PROCESS, thread, node: Node(node), address, store: false, kind }
    };
    let scan: Vec<Access> = (0..pages / 2).flat_map(|page| [fault(page), fault(page + pages / 2)]).collect();
    let begin = Instant::now();
    for number in 1..=SCANS {
        let t = Micros::from_millis(2000 * number);
        let all = Scanned { began: t, stopped: Micros(0), everywhere: true, cost: Micros(0) };
        feed(&mut session, &mut memory, t, Input::Scanned(all));
        scan.chunks(AT_ONCE)
            .for_each(|some| feed(&mut session, &mut memory, t, Input::Accesses(some.to_vec())));
        feed(&mut session, &mut memory, t, Input::IntervalEnd);
    }
    let (seconds, total) = (begin.elapsed().as_secs_f64(), session.account().total);
    Took { seconds, looked_at: total.local + total.remote, moved: total.moved }
}

fn main() {
    let chosen: Vec<u64> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let sizes = if chosen.is_empty() { vec![64, 1024] } else { chosen };
    println!(
        "| session | MiB | samples | looked at | moved | ms | ns a sample | ns a sample that was looked at |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for watch in [true, false] {
        for &mib in &sizes {
            let pages = mib * 256;
            let all = (0..3).map(|_| scans(pages, watch));
            let Took { seconds, looked_at, moved } =
                all.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("three");
            let (name, samples, ns) = (if watch { "watches" } else { "moves" }, SCANS * pages, seconds * 1e9);
            let (each, of_looked_at) = (ns / samples as f64, ns / looked_at as f64);
            println!(
                "| {name} | {mib} | {samples} | {looked_at} | {moved} | {:.1} | {each:.0} | {of_looked_at:.0} |",
                ns / 1e6
            );
        }
    }
}
