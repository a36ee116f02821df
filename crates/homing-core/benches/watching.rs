//! What a session that only watches takes for a sample, on one core: scans of a process of 64 MiB and of 1 GiB that two
//! nodes use, half each. Where pages are is answered at once, so that the kernel has no part in it. Prints a table:
//! `cargo bench -p homing-core --bench watching`.

use homing_core::ids::{Micros, Node};
use homing_core::machine::{Costs, Uniform};
use homing_core::policy::{table, Context};
use homing_core::process::{Class, ProcessId, Region, ThreadId};
use homing_core::session::input::{Access, AccessKind, Answer, Input, Looked, ThreadSeen};
use homing_core::session::plan::Plan;
use homing_core::session::{Output, Session, Settings, Setup, PAGE};
use std::time::Instant;

const PROCESS: ProcessId = ProcessId(1);
const BEGIN: u64 = 0x4000_0000;
const SCANS: u64 = 8;
/// Samples that are handed over together.
const AT_ONCE: usize = 2048;

fn settings() -> Settings {
    Settings {
        nodes: 2,
        time_for_moves: Micros(0),
        rate_limit: 0,
        regions: Vec::new(),
        bind: Vec::new(),
        keep: Vec::new(),
        dry_run: true,
        watch: true,
        weight: 1.0,
        keep_huge_pages: true,
        spread: false,
        scans: true,
        send_back: false,
    }
}

/// Hands over an input, and the answers to what is asked then.
fn feed(session: &mut Session<'_>, t: Micros, input: Input) {
    let (mut inputs, mut outputs) = (vec![input], Vec::new());
    while let Some(input) = inputs.pop() {
        session.input(t, input, &mut outputs);
        for output in outputs.drain(..) {
            if let Output::Locate { number, questions } = output {
                let answers = vec![Answer { node: Some(Node(0)), huge: false }; questions.len()];
                inputs.push(Input::Located { number, answers });
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

/// Seconds for scans of that number of pages, and the samples that were looked at.
fn watch(pages: u64) -> (f64, u64) {
    let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
    let mut policy =
        table::find("first-touch").expect("in the table").make(&costs, false, &Default::default());
    let context = Context {
        monitor: "hint-faults".into(),
        weight: 1.0,
        interval: None,
        iterations: false,
        phases: false,
        page_bytes: PAGE,
        nodes: 2,
        loads: false,
        moves: None,
    };
    let setup =
        Setup { settings: settings(), policy: &mut *policy, context, plan: Plan::default(), record: false };
    let mut session = Session::new(setup);
    feed(&mut session, Micros(0), Input::Looked(process(pages)));
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
        scan.chunks(AT_ONCE).for_each(|some| feed(&mut session, t, Input::Accesses(some.to_vec())));
        feed(&mut session, t, Input::IntervalEnd);
    }
    let seconds = begin.elapsed().as_secs_f64();
    (seconds, session.account().total.local + session.account().total.remote)
}

fn main() {
    println!("| MiB | samples | looked at | ms | ns a sample | ns a sample that was looked at |");
    println!("|---|---|---|---|---|---|");
    for mib in [64, 1024] {
        let pages = mib * 256;
        let (seconds, looked_at) =
            (0..3).map(|_| watch(pages)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("three");
        let (samples, ns) = (SCANS * pages, seconds * 1e9);
        let (each, of_looked_at) = (ns / samples as f64, ns / looked_at as f64);
        println!("| {mib} | {samples} | {looked_at} | {:.1} | {each:.0} | {of_looked_at:.0} |", ns / 1e6);
    }
}
