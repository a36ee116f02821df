//! The live session on a corpus of programs, in modelled time: is a program ever slower with it than if pages stay, or
//! than under the kernel's balancing? `benches/brain.sh` runs it and prints the tables; nothing here is measured.
//!
//!     brain [--quick] [--seeds N] | TRACE...
//!
//! Programs are generated (`program.rs`), or recordings that have an order. Each begins with pages at first touch, on
//! node 0, and on the nodes in turn, on two machines.

mod program;
mod table;

use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::{Addresses, HierarchyShape, Shape};
use homing_core::history::{Schedule, ThreadsOn};
use homing_core::ids::{Cpu, Node, PageSize, Thread};
use homing_core::machine::Machine;
use homing_core::policy::balancing::Tunables;
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::find;
use homing_core::system::{Run, Setup};
use homing_core::time::{Mover, Times};
use homing_core::timeline::Timeline;
use homing_core::trace::Trace;
use homing_session::simulated::{balance, run, Charges};
use program::{Generated, Program, PROGRAMS};
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

/// What a run stands for, in seconds of the program without balancing.
const SECONDS: f64 = 30.0;
/// Programs drawn at random, beside those with names.
const RANDOM: u64 = 20;
/// Programs of `--quick`: each such one of the list.
const QUICK: usize = 5;

/// A machine, and whether the engine finds a free CPU on it.
const MACHINES: [(&str, Mover); 2] = [("four-socket", Mover::Own), ("two-socket", Mover::Program)];
const STARTS: [(&str, Placement); 3] = [
    ("first touch", Placement::FirstTouch),
    ("node 0", Placement::SingleNode(Node(0))),
    ("in turn", Placement::RoundRobin),
];

/// A program to run.
enum Source {
    Generated(String, Program, u64),
    Recorded(PathBuf),
}

/// What came of a program, a machine and a start.
pub struct Cell {
    /// The program.
    pub program: String,
    /// The machine.
    pub machine: &'static str,
    /// Where pages begin.
    pub start: &'static str,
    /// Seconds if pages stay, with the kernel's balancing, and with the session.
    pub none: f64,
    /// See `none`.
    pub kernel: f64,
    /// See `none`.
    pub homing: f64,
    /// The session's charges.
    pub charges: Charges,
    /// Seconds by which they made the program slower.
    pub delay: f64,
    /// The session's scans.
    pub scans: u64,
    /// Pages that the session moved.
    pub moved: u64,
}

impl Cell {
    /// The session's time to the better of the other two.
    pub fn ratio(&self) -> f64 {
        self.homing / self.none.min(self.kernel)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut quick, mut seeds, mut traces) = (false, 1, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => quick = true,
            "--seeds" => seeds = arguments.next().ok_or("--seeds: expected a number")?.parse::<u64>()?,
            option if option.starts_with('-') => {
                return Err(format!("`{option}`: expected --quick, --seeds N or traces").into())
            }
            file => traces.push(PathBuf::from(file)),
        }
    }
    let sources: Vec<Source> = match traces.is_empty() {
        true => generated(seeds).into_iter().step_by(if quick { QUICK } else { 1 }).collect(),
        false => traces.into_iter().map(Source::Recorded).collect(),
    };
    let (next, cells) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        let work = || {
            while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                let done = all_cells(source).map_err(|error| format!("{}: {error}", source.name()));
                cells.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(done);
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let cells = cells.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut cells: Vec<Cell> =
        cells.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    cells.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    print!("{}", table::table(&cells));
    Ok(())
}

fn generated(seeds: u64) -> Vec<Source> {
    let mut sources = Vec::new();
    for seed in 1..=seeds {
        let name = |name: &str| if seeds > 1 { format!("{name} ({seed})") } else { name.into() };
        sources.extend(PROGRAMS.iter().map(|(of, program)| Source::Generated(name(of), *program, seed)));
        sources.extend((1..=RANDOM).map(|number| {
            let seed = seed * 1000 + number;
            Source::Generated(format!("random-{seed}"), program::random(seed), seed)
        }));
    }
    sources
}

impl Source {
    fn name(&self) -> String {
        match self {
            Source::Generated(name, ..) => name.clone(),
            Source::Recorded(path) => path.file_stem().unwrap_or_default().to_string_lossy().into(),
        }
    }

    fn load(&self) -> Result<Generated, Box<dyn Error>> {
        match self {
            Source::Generated(_, program, seed) => Ok(program.generate(*seed)?),
            Source::Recorded(path) => Ok(Generated { bytes: std::fs::read(path)?, exchanges: Vec::new() }),
        }
    }
}

fn all_cells(source: &Source) -> Result<Vec<Cell>, Box<dyn Error + Send + Sync>> {
    let cells = || -> Result<Vec<Cell>, Box<dyn Error>> {
        let generated = source.load()?;
        let trace = Trace::open(&generated.bytes)?;
        let mut cells = Vec::new();
        for (machine, mover) in MACHINES {
            cells.extend(on_machine(&source.name(), &trace, &generated.exchanges, machine, mover)?);
        }
        Ok(cells)
    };
    cells().map_err(|error| error.to_string().into())
}

/// Caches of 64 KiB a CPU, which hold a small part of each program.
fn shape() -> Option<HierarchyShape> {
    Some(HierarchyShape {
        l1: Shape::cache(8192, 4, 64)?,
        l2: Shape::cache(65536, 8, 64)?,
        l3: None,
        tlbs: vec![Shape::tlb(64, 4)?],
        colours: Default::default(),
    })
}

fn on_machine(
    program: &str,
    trace: &Trace,
    exchanges: &[(u64, u32, u32)],
    name: &'static str,
    mover: Mover,
) -> Result<Vec<Cell>, Box<dyn Error>> {
    let machine = Machine::builtin(name).ok_or("no such machine")?;
    let size = PageSize::KIB4;
    let (costs, times) = (machine.costs(size)?, Times::new(&machine, size)?);
    let nodes: Vec<Node> = (0..).map_while(|cpu| machine.node_of(Cpu(cpu))).collect();
    let mut binding = ThreadsOn::RoundRobin.bind(&nodes)?;
    let threads = trace.threads().map(|(thread, _)| thread.0 + 1).max().unwrap_or(0);
    let mut timeline = Timeline::default();
    if !exchanges.is_empty() {
        let schedule = schedule(exchanges, |thread| binding.cpu(Thread(thread)), threads);
        timeline.add(Schedule::parse(&schedule)?.apply(&mut binding, threads, &nodes)?);
    }
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), &binding);
    let frames: Vec<u64> = trace.frames().iter().map(|frame| frame << 12).collect();
    let (shape, addresses) = (shape().ok_or("no such caches")?, Addresses::new(size, &frames));
    let (mut slow, mut cells) = (1.0, Vec::new());
    for (start, placement) in &STARTS {
        let setup = Setup {
            trace,
            costs: &costs,
            shape: &shape,
            cpus: &cpus,
            addresses: &addresses,
            placement,
            monitor: "hint-faults",
            interval: 1,
            timeline: &timeline,
            times: Some(&times),
            mover,
            extras: None,
            log: false,
        };
        if cells.is_empty() {
            // Twice: how long threads wait for each other depends on how long an interval is of the trace.
            for _ in 0..2 {
                slow = SECONDS * 1e9 / modelled(&balance(&setup, slow, None)?.0);
            }
        }
        let seconds = |run: &Run| slow * modelled(run) / 1e9;
        let none = seconds(&balance(&setup, slow, None)?.0);
        let kernel = seconds(&balance(&setup, slow, Some(Tunables::DEFAULT))?.0);
        let policy = find("work-function").ok_or("no policy")?.make(&costs, false, &Settings::default());
        let monitor = format!("hint-faults:slow={slow}").parse()?;
        let (homing, live) = run(&setup, &*policy, &monitor, &mut ())?;
        let live = live.ok_or("no session")?;
        cells.push(Cell {
            program: program.into(),
            machine: name,
            start,
            none,
            kernel,
            homing: seconds(&homing),
            charges: live.charges,
            delay: live.delay_ns / 1e9,
            scans: live.scans,
            moved: live.account.total.moved,
        });
    }
    Ok(cells)
}

fn modelled(run: &Run) -> f64 {
    run.modelled.as_ref().map_or(0.0, |elapsed| elapsed.total_ns)
}

/// A file of scheduling events in which threads change places.
fn schedule(exchanges: &[(u64, u32, u32)], cpu: impl Fn(u32) -> Cpu, threads: u32) -> String {
    let mut cpus: Vec<Cpu> = (0..threads).map(cpu).collect();
    let mut text = "time,thread,cpu\n".to_owned();
    for &(time, first, second) in exchanges {
        cpus.swap(first as usize, second as usize);
        for thread in [first, second] {
            text += &format!("{time},{thread},{}\n", cpus[thread as usize].0);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_change_cpus_where_they_are_by_then() {
        let text = schedule(&[(5, 0, 1), (9, 0, 2)], |thread| Cpu(thread as u16 * 10), 3);
        assert_eq!(text, "time,thread,cpu\n5,0,10\n5,1,0\n9,0,20\n9,2,10\n");
    }

    #[test]
    fn pages_of_others_come_home_in_the_kernel_s_and_the_session_s_runs() {
        let small = Program { pages: 256, ..program::OWN };
        let cells = all_cells(&Source::Generated("small".into(), small, 1)).unwrap();
        assert_eq!(cells.len(), 6);
        for cell in cells {
            let Cell { start, none, kernel, homing, moved, .. } = cell;
            let better = none * if start == "first touch" { 1.02 } else { 0.97 };
            assert!(kernel < better && homing < better, "{start}: {none} {kernel} {homing}");
            assert!(none > 29.0 && (start != "first touch" || none < 31.0), "{start}: {none}");
            assert!((moved > 30) == (start != "first touch"), "{start}: {moved}");
            assert!(cell.delay > 0.0 && cell.delay < 0.03 * homing, "{}", cell.delay);
            let (delay, held, others) = (cell.delay * 1e9, cell.charges.holds_ns, cell.charges.cpu_ns());
            assert!(
                (held..=held + others).contains(&delay),
                "each charge delays once at most: {delay} {held} {others}"
            );
        }
    }
}
