//! A world for tests of the session: processes with memory, a kernel that answers questions, and words for what
//! happens in it; those for what the session asks for are in words.rs.
//!
//! Process 1 is there from the beginning, with thread `tN` on node N. It has a heap of 16 MiB (pages `h0`, `h1`, ...;
//! the huge page `H1` begins at `h512`), data of a library (`d0`, ...) and pages of the page cache (`c0`, ...), all on
//! node 0. `2:h0` is a page of process 2. All processes map the same shared memory (`s0`, ...), each elsewhere.

use super::super::input::*;
use super::super::output::*;
use super::super::plan::{Due, Place, Plan};
use super::super::{weight_of_a_burst, Session, Settings, Setup, HUGE, PAGE};
use super::words::{describe, hot_area, number, place};
use homing_core::ids::{Micros, Node};
use homing_core::machine::{Costs, Uniform};
use homing_core::policy::{table, Context, Policy};
use homing_core::process::{Backing, Class, Held, Object, ProcessId, Region, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const HEAP: u64 = 0x4000_0000;
pub(super) const DATA: u64 = 0x7000_0000;
pub(super) const CACHE: u64 = 0x8000_0000;
const HEAP_PAGES: u64 = 4096;
/// Where process 1 maps the shared memory, and how far from there the next does.
pub(super) const SHARED: u64 = 0x9000_0000;
const APART: u64 = 0x100_0000;
const SEGMENT: Object = Object { device: 1, inode: 7 };

/// Words for a session: `nodes=4 dry-run watch rate=4096 regions=heap keep-huge scans bind=2,3 plan=h0>1@5
/// policy=predictive`.
pub(super) fn settings(words: &str) -> (Settings, Plan) {
    let mut settings = Settings {
        nodes: 4,
        time_for_moves: Micros::from_millis(100),
        rate_limit: 0,
        regions: Vec::new(),
        bind: Vec::new(),
        keep: Vec::new(),
        dry_run: false,
        watch: false,
        weight: 1.0,
        keep_huge_pages: false,
        spread: true,
        scans: false,
        send_back: false,
    };
    let mut plan = Plan::default();
    for word in words.split_whitespace() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("dry-run", _) => settings.dry_run = true,
            ("watch", _) => settings.watch = true,
            ("keep-huge", _) => settings.keep_huge_pages = true,
            ("no-spread", _) => settings.spread = false,
            ("scans", _) => settings.scans = true,
            ("send-back", _) => settings.send_back = true,
            ("rate", bytes) => settings.rate_limit = bytes.parse().unwrap(),
            ("regions", names) => settings.regions = names.split(',').map(Into::into).collect(),
            ("keep", cpus) => settings.keep = cpus.split(',').map(|cpus| cpus.parse().unwrap()).collect(),
            ("bind", cpus) => settings.bind = cpus.split(',').map(|cpu| cpu.parse().unwrap()).collect(),
            ("policy" | "set", _) => {}
            ("plan", due) => plan.put_back(vec![planned(due)]),
            (other, _) => panic!("no option {other}"),
        }
    }
    settings.weight = weight_of_a_burst(&costs());
    (settings, plan)
}

/// A planned move: `h0>1@5`, page, node and milliseconds.
fn planned(text: &str) -> Due {
    let (page, rest) = text.split_once('>').unwrap();
    let (to, ms) = rest.split_once('@').unwrap();
    let offset = page[1..].parse::<u64>().unwrap() * PAGE;
    let place = Place { process: 0, region: "heap#0".into(), offset, bytes: PAGE };
    Due { t: Micros::from_millis(ms.parse().unwrap()), place, to: Node(to.parse().unwrap()) }
}

pub(super) fn costs() -> Costs {
    Costs::Uniform(Uniform { nodes: 4, remote: 2.0, page_move: 100.0, global: None })
}

pub(super) fn policy() -> Box<dyn Policy> {
    policy_of("")
}

/// The policy of the words for a session.
pub(super) fn policy_of(words: &str) -> Box<dyn Policy> {
    let name = words.split_whitespace().find_map(|word| word.strip_prefix("policy="));
    let mut settings = homing_core::policy::settings::Settings::default();
    words
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("set="))
        .for_each(|set| settings.set(set).unwrap());
    table::find(name.unwrap_or("work-function")).unwrap().make(&costs(), false, &settings)
}

pub(super) fn session<'p>(words: &str, policy: &'p mut dyn Policy) -> Session<'p> {
    let (settings, plan) = settings(words);
    let context = Context {
        monitor: "test".into(),
        weight: settings.weight,
        interval: None,
        iterations: false,
        phases: false,
        page_bytes: PAGE,
        nodes: 4,
        loads: false,
        moves: None,
    };
    Session::new(Setup { settings, policy, context, plan, record: true })
}

/// What the mappings of process 1 are.
pub(super) fn regions() -> Vec<Region> {
    regions_of(ProcessId(1))
}

fn regions_of(process: ProcessId) -> Vec<Region> {
    let region = |name: &str, start, pages, class| {
        let name = name.to_owned();
        Region { name, start, end: start + pages * PAGE, class, backing: None }
    };
    vec![
        region("heap#0", HEAP, HEAP_PAGES, Class::Heap),
        region("lib.so#0", DATA, 64, Class::FilePrivate),
        region("lib.so#1", CACHE, 64, Class::PageCache),
        Region {
            backing: Some(Backing { object: SEGMENT, offset: 0 }),
            ..region("segment#0", shared_of(process.0), 64, Class::SharedMemory)
        },
    ]
}

/// Where a process maps the shared memory.
pub(super) fn shared_of(process: i32) -> u64 {
    SHARED + (process as u64 - 1) * APART
}

/// The key of a page in the memory: process 1's for one that is shared.
fn kept(process: i32, address: u64) -> (i32, u64) {
    match address.checked_sub(shared_of(process)) {
        Some(offset) => (1, SHARED + offset),
        None => (process, address),
    }
}

pub(super) struct World<'p> {
    pub(super) session: Session<'p>,
    t: Micros,
    /// Pages that are elsewhere than on node 0.
    memory: BTreeMap<(i32, u64), Option<Node>>,
    huge: BTreeSet<(i32, u64)>,
    splits_work: bool,
    /// Where threads run.
    threads: BTreeMap<i32, u16>,
    /// What the next process scan will find.
    found: Looked,
    /// Orders that have not landed.
    under_way: Vec<Order>,
    said: Vec<String>,
}

impl<'p> World<'p> {
    /// A world with process 1, which the session has found.
    pub(super) fn new(words: &str, policy: &'p mut dyn Policy) -> World<'p> {
        let mut world = World {
            session: session(words, policy),
            t: Micros(0),
            memory: BTreeMap::new(),
            huge: BTreeSet::new(),
            splits_work: true,
            threads: BTreeMap::new(),
            found: Looked { resident_pages: 1000, ..Looked::default() },
            under_way: Vec::new(),
            said: Vec::new(),
        };
        world.found.begun.push(ProcessId(1));
        world.found.remapped.push((ProcessId(1), regions()));
        (0..4).for_each(|thread| world.thread(1, thread, thread as u16));
        world.look();
        world.said.clear();
        world
    }

    /// Does what the command says, and returns what the session asked for.
    pub(super) fn say(&mut self, command: &str) -> String {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            ["fault", thread, page] => self.fault(thread, page, 100),
            ["late", thread, page] => self.fault(thread, page, 400_000),
            ["sweep", thread, from, to] => self.sweep(thread, number(from)..=number(to)),
            ["count", thread, page, count] => {
                self.access(thread, page, AccessKind::References(count.parse().unwrap()));
            }
            ["end"] => self.input(Input::IntervalEnd),
            ["idle"] => self.input(Input::MoversIdle),
            ["wait", ms] => self.wait(ms.parse().unwrap(), false),
            ["wait", ms, "behind"] => self.wait(ms.parse().unwrap(), true),
            ["wait", ms, "by", step] => (0..number(ms) / number(step)).for_each(|_| {
                self.wait(number(step), false);
            }),
            ["look"] => self.look(),
            ["land"] => self.land(Landed::There),
            ["later"] => self.land(Landed::Later),
            ["fail", errno] => self.land(Landed::Not(errno.parse().unwrap())),
            ["not-allowed"] => self.land(Landed::NotAllowed),
            ["scanned"] => self.scanned(true),
            ["missed"] => self.scanned(false),
            _ => self.change(&words),
        }
        std::mem::take(&mut self.said).join(", ")
    }

    /// Changes the world: the session will notice later.
    fn change(&mut self, words: &[&str]) {
        match *words {
            ["lost", page] => drop(self.memory.insert(place(page), None)),
            ["others", page, node] => drop(self.memory.insert(place(page), Some(Node(number(node) as u16)))),
            ["outside"] => self.found.held = Some(vec![(SEGMENT, Held::Outside)]),
            ["alone"] => self.found.held = Some(Vec::new()),
            ["huge", page] => drop(self.huge.insert(place(page))),
            ["unsplittable"] => self.splits_work = false,
            ["goes", thread, node] => self.goes(thread, number(node) as u16, false),
            ["bound", thread, node] => self.goes(thread, number(node) as u16, true),
            ["seen", thread, node] => {
                self.thread(1, number(thread) as i32, number(node) as u16);
                self.look();
            }
            ["threads", count] => (0..number(count)).for_each(|more| self.thread(1, 100 + more as i32, 0)),
            ["grows"] => self.found.resident_pages *= 2,
            ["begins", process] => {
                let process = ProcessId(number(process) as i32);
                self.found.begun.push(process);
                self.found.remapped.push((process, regions_of(process)));
            }
            ["exits", process] => {
                self.found.ended.push(ProcessId(number(process) as i32));
                self.input(Input::Noticed(Noticed::ProcessEnded));
            }
            ["exits"] => {
                self.found.ended.push(ProcessId(1));
                self.input(Input::Noticed(Noticed::ProcessEnded));
            }
            ["unmaps"] => self.found.remapped.push((ProcessId(1), regions().split_off(1))),
            ["allows", nodes] => {
                let nodes = nodes.split(',').map(|node| Node(node.parse().unwrap())).collect();
                self.found.allowed.push((ProcessId(1), nodes));
            }
            ["room", bytes] => self.found.room = vec![Some(number(bytes)); 4],
            ["areas", ref areas @ ..] => {
                let areas = areas.iter().map(|area| hot_area(area)).collect();
                self.input(Input::Areas(Areas { process: ProcessId(1), areas }));
            }
            ["constructs", team, ref threads @ ..] => self.constructs(number(team) as u32, threads),
            ["phase", number_of] => {
                self.input(Input::Marked(Mark::PhaseBegin(number(number_of) as u32)));
            }
            ["iteration"] => self.input(Input::Marked(Mark::IterationEnd)),
            ["area", name] => {
                let rows = self.session.hot().counts().iter();
                let area = rows.clone().find(|row| row.name == name.trim_matches('\'')).unwrap();
                self.said.push(format!(
                    "{} local, {} remote, {} pages: {} eligible, {} migrated, {} frozen",
                    area.local, area.remote, area.pages, area.eligible, area.migrated, area.frozen
                ));
            }
            ["free", thread] => self.input(Input::NotKept(ThreadId(number(thread) as i32))),
            ["crowded", thread] => {
                self.input(Input::Crowded([ThreadId(number(thread) as i32)].into()));
            }
            ["balancing"] => self.found.kernel_moves_pages = true,
            _ => panic!("no command {words:?}"),
        }
    }

    fn fault(&mut self, thread: &str, page: &str, after_us: u64) {
        self.access(thread, page, AccessKind::HintFault { after_scan: Some(Micros(after_us)) });
    }

    /// Late faults at pages of the heap in turn; only counts what is asked for.
    fn sweep(&mut self, thread: &str, pages: std::ops::RangeInclusive<u64>) {
        pages.for_each(|page| self.fault(thread, &format!("h{page}"), 400_000));
        let pending = self.said.iter().filter(|said| said.ends_with("pending")).count();
        self.said = vec![format!("{pending} pending")];
    }

    fn access(&mut self, thread: &str, page: &str, kind: AccessKind) {
        let (process, address) = place(page);
        let thread = number(thread) as i32;
        let node = Node(self.threads.get(&thread).copied().unwrap_or(0));
        let (process, thread) = (ProcessId(process), ThreadId(thread));
        let access = Access { process, thread, node, address: address + 8, store: false, kind };
        self.input(Input::Accesses(vec![access]));
    }

    /// A process scan will find a thread, which has run.
    fn thread(&mut self, process: i32, thread: i32, node: u16) {
        self.threads.insert(thread, node);
        let (process, thread) = (ProcessId(process), ThreadId(thread));
        self.found.threads.push(ThreadSeen { process, thread, node: Some(Node(node)), ran: true });
    }

    /// A thread comes to another node, as the kernel's event reports; bound: somebody has put it there.
    fn goes(&mut self, thread: &str, node: u16, bound: bool) {
        let (thread, at) = (number(thread) as i32, self.t);
        self.threads.insert(thread, node);
        let (process, thread) = (ProcessId(1), ThreadId(thread));
        self.input(Input::Migrated(vec![Arrival { process, thread, node: Node(node), at, bound }]));
    }

    /// Threads work in parallel constructs: `t1:2x3`, the first on node 2, where it has ended three in a row.
    fn constructs(&mut self, team: u32, threads: &[&str]) {
        let threads = threads.iter().map(|words| {
            let (thread, place) = words.split_once(':').unwrap();
            let (node, ended) = place.split_once('x').unwrap();
            let (thread, node) = (number(thread) as i32, number(node) as u16);
            self.threads.insert(thread, node);
            InConstructs { thread: ThreadId(thread), node: Node(node), ended: number(ended) as u32 }
        });
        let threads = threads.collect();
        self.input(Input::Constructs(Constructs { process: ProcessId(1), team, threads }));
    }

    fn wait(&mut self, ms: u64, behind: bool) {
        self.t = self.t.plus(Micros::from_millis(ms));
        self.input(Input::Tick { behind, scannable: true });
    }

    fn look(&mut self) {
        let looked = self.found();
        self.input(Input::Looked(looked));
    }

    fn found(&mut self) -> Looked {
        let Looked { resident_pages, kernel_moves_pages, ref room, .. } = self.found;
        let next = Looked { resident_pages, kernel_moves_pages, room: room.clone(), ..Looked::default() };
        std::mem::replace(&mut self.found, next)
    }

    fn land(&mut self, landed: Landed) {
        let orders = std::mem::take(&mut self.under_way);
        let results = orders.iter().map(|order| (order.tag, landed)).collect();
        if landed == Landed::There {
            let at = |order: &Order| (kept(order.process.0, order.address), Some(order.to));
            self.memory.extend(orders.iter().map(at));
        }
        self.input(Input::Landed { results, moving: self.t, stopped: Micros(0) });
    }

    fn scanned(&mut self, everywhere: bool) {
        let (began, stopped) = (self.t, Micros::from_millis(10));
        self.input(Input::Scanned(Scanned { began, stopped, everywhere, cost: Micros(0) }));
    }

    /// Hands the session an input, and answers what it asks for.
    fn input(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut outputs = Vec::new();
            self.session.input(self.t, input, &mut outputs);
            for output in outputs {
                self.said.push(describe(&output));
                match output {
                    Output::Look => inputs.push(Input::Looked(self.found())),
                    Output::Locate { number, questions } => {
                        let answers = questions.iter().map(|question| self.answer(question)).collect();
                        inputs.push(Input::Located { number, answers });
                    }
                    Output::Move { orders, .. } => self.under_way.extend(orders),
                    Output::Split(pages) => {
                        let done = self.splits_work;
                        let result = |HugePage { process, address }| SplitResult { process, address, done };
                        if done {
                            pages.iter().for_each(|page| {
                                self.huge.remove(&(page.process.0, page.address));
                            });
                        }
                        inputs.push(Input::Split(pages.into_iter().map(result).collect()));
                    }
                    _ => {}
                }
            }
        }
    }

    /// How many of these pages of the heap each node has.
    pub(super) fn pages_on(&self, pages: std::ops::RangeInclusive<u64>) -> [usize; 4] {
        let mut on = [0; 4];
        for page in pages {
            let node = self.memory.get(&(1, HEAP + page * PAGE)).copied().unwrap_or(Some(Node(0)));
            node.into_iter().for_each(|node| on[node.index()] += 1);
        }
        on
    }

    fn answer(&self, question: &Question) -> Answer {
        let process = question.process.0;
        let block = question.address & !(HUGE - 1);
        let huge = question.maybe_huge && self.huge.contains(&(process, block));
        let address = if huge { block } else { question.address };
        let node = self.memory.get(&kept(process, address)).copied().unwrap_or(Some(Node(0)));
        Answer { node, huge }
    }
}
