//! The observer's options, and what it reports (`lab/plugin/`): who accessed which node's memory how often, over time.
//!
//! This is the judge of the live engine and of the simulator: it knows nothing of either.

use crate::topology::Topology;
use crate::LabError;
use homing_linux::inherit;
use std::io::{BufRead, BufReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::Duration;

mod card;
pub(crate) mod entry;
mod pages;

pub use card::CARD_BYTES;
pub use pages::{Bound, Page};

/// What to count.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of an interval.
    pub every: Duration,
    /// The kernel's accesses, too.
    pub kernel: bool,
    /// By page, too.
    pub pages: bool,
    /// Only between the program's marks (`lab/guest/homing_section.h`).
    pub marked: bool,
    /// Every process, the engine and the system's included.
    pub all: bool,
    /// A cache of this many bytes per vCPU: what misses it is a transaction of the interconnect.
    pub cache: Option<u64>,
    /// Delay each transaction by its latency.
    pub delay: Option<Delay>,
    /// The monitor card is plugged in.
    pub card: bool,
    /// The trace has physical addresses instead of virtual ones.
    pub physical: bool,
}

/// Delays of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// Latencies times this are slept.
    pub scale: f64,
    /// How long a memory is busy with one transaction, in nanoseconds, while others wait there; none: memories have no
    /// load.
    pub busy_ns: Option<f64>,
}

impl Default for Options {
    fn default() -> Options {
        let every = Duration::from_millis(100);
        Options {
            every,
            kernel: false,
            pages: false,
            marked: false,
            all: false,
            cache: None,
            delay: None,
            card: false,
            physical: false,
        }
    }
}

/// A matrix of counts: by vCPU, by home node.
pub type Matrix = Vec<Vec<u64>>;

/// One kind of accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reads by vCPU and home.
    pub reads: Matrix,
    /// Writes by vCPU and home.
    pub writes: Matrix,
}

/// What came in one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its end in milliseconds since the machine was started.
    pub ms: u64,
    /// Accesses.
    pub accesses: Counts,
    /// Those that missed the cache, if one was modelled.
    pub misses: Counts,
}

/// All that was observed.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The index of each vCPU's node among the topology's nodes.
    pub node_of_cpu: Vec<usize>,
    /// The nodes' ids.
    pub nodes: Vec<u32>,
    /// Whether a cache was modelled.
    pub cached: bool,
    /// The intervals in which there was something.
    pub intervals: Vec<Interval>,
    /// By page, if asked for.
    pub pages: Vec<Page>,
    /// Pairs of pages that are the same memory: shared, of a file, or not yet written since a fork. Address space and
    /// number of each.
    pub shared: Vec<[(u64, u64); 2]>,
    /// Nanoseconds of delay by vCPU.
    pub delayed: Vec<u64>,
    /// Nanoseconds that all transactions waited at each memory for others, if memories have load. Not scaled.
    pub waited: Vec<u64>,
    /// Address spaces that were the program's.
    pub spaces: u64,
    /// Accesses to no node's memory.
    pub devices: u64,
    /// Whether the report has its end: false if the machine was killed.
    pub complete: bool,
}

/// QEMU's words for the plugin, and what a thread takes in of its report.
#[derive(Debug)]
pub struct Observer {
    /// Behind `-plugin`.
    pub words: String,
    /// The number by which QEMU knows the card's memory, if there is a card.
    pub card: Option<i32>,
    /// A byte ends a window.
    cut: PipeWriter,
    windows: Receiver<Result<Observed, LabError>>,
}

impl Observer {
    /// Prepares the observation of what runs in a machine. `programs` are all programs in the guest; an engine is known
    /// by its name,
    /// `homing`.
    pub fn prepare(
        options: &Options,
        topology: &Topology,
        built: &Path,
        programs: &[PathBuf],
        trace: Option<OwnedFd>,
        qemu: &mut Command,
    ) -> Result<Observer, LabError> {
        let plugin = built.join("observer.so");
        if !plugin.exists() {
            return Err(LabError::Missing {
                what: format!(
                    "{} is missing: build it with `make lab`; for the rest of the lab",
                    plugin.display()
                ),
            });
        }
        let doing = || LabError::io("making a pipe for the observer");
        let (reader, out) = inherit::pipe_from_child(qemu).map_err(doing())?;
        let (cut, writer) = std::io::pipe().map_err(doing())?;
        let cut = inherit::pass(qemu, cut.into());
        let mut words =
            format!("{},out={out},cut={cut},every={}", plugin.display(), options.every.as_millis().max(1));
        let mut put = |key: &str, value: String| words.push_str(&format!(",{key}={value}"));
        put("nodes", topology.nodes.len().to_string());
        put("vcpus", join(topology.cpu_slots().iter().map(|slot| slot.unwrap_or(255).to_string()), "."));
        let range = |(start, end, node)| format!("{start:x}-{end:x}:{node}");
        put("ranges", join(topology.memory_map().into_iter().map(range), ";"));
        for (key, on) in [
            ("kernel", options.kernel),
            ("pages", options.pages),
            ("marked", options.marked),
            ("all", options.all),
            ("physical", options.physical),
        ] {
            put(key, u8::from(on).to_string());
        }
        if let Some(bytes) = options.cache {
            put("cache", bytes.to_string());
        }
        if let Some(delay) = options.delay {
            put("scale", delay.scale.to_string());
            put("latency", join(topology.latency.iter().flatten().map(f64::to_string), ";"));
            if let Some(ns) = delay.busy_ns {
                check_busy(ns, topology)?;
                put("busy", ns.to_string());
            }
        }
        if let Some(trace) = trace {
            put("trace", inherit::pass(qemu, trace).to_string());
        }
        let card = options.card.then(|| card::memory(qemu)).transpose()?;
        if let Some(number) = card {
            put("card", number.to_string());
        }
        for text in entry::all(programs)? {
            put("entry", text);
        }
        let (topology, cached) = (topology.clone(), options.cache.is_some());
        let (sender, windows) = channel();
        std::thread::spawn(move || take_in(BufReader::new(reader), &topology, cached, &sender));
        Ok(Observer { words, card, cut: writer, windows })
    }

    /// Ends the window of a job, of which nothing runs any more; what was observed in it. Waits so long for the plugin.
    pub fn cut(&mut self, patience: Duration) -> Result<Observed, LabError> {
        self.cut.write_all(b"c").map_err(LabError::io("ending a window of the observer"))?;
        self.windows.recv_timeout(patience).unwrap_or_else(|_| Err(broken("the window of a job has no end")))
    }

    /// What was observed since the last window; waits for QEMU's end.
    pub fn finish(self) -> Result<Observed, LabError> {
        self.windows.recv().unwrap_or_else(|_| Err(broken("the reader of the report panicked")))
    }
}

/// Passes on each window of a report until its end.
fn take_in(
    mut report: impl BufRead,
    topology: &Topology,
    cached: bool,
    to: &Sender<Result<Observed, LabError>>,
) {
    loop {
        let mut window = Observed::empty(topology, cached);
        let more = window.read(&mut report, &cpu_of_slot(topology));
        let last = !matches!(more, Ok(true));
        // Nobody asks for the windows of a lab that failed.
        let _ = to.send(more.map(|_| window));
        if last {
            return;
        }
    }
}

/// A memory cannot be busy with an access for longer than the access takes.
fn check_busy(ns: f64, topology: &Topology) -> Result<(), LabError> {
    let least = topology.latency.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    if ns <= least {
        return Ok(());
    }
    Err(LabError::Usage(format!(
        "--busy {ns}: a memory cannot be busy with an access for longer than the {least} ns that the nearest takes in \
         topology `{}`",
        topology.name
    )))
}

fn join(words: impl Iterator<Item = String>, separator: &str) -> String {
    words.collect::<Vec<_>>().join(separator)
}

/// The kernel's number of the CPU in each of QEMU's slots; empty slots get none.
fn cpu_of_slot(topology: &Topology) -> Vec<Option<usize>> {
    let mut next = 0..;
    topology.cpu_slots().iter().map(|slot| slot.and_then(|_| next.next())).collect()
}

fn broken(what: &str) -> LabError {
    LabError::Io {
        doing: "reading the observer's report".into(),
        why: std::io::Error::other(what.to_owned()),
    }
}

impl Counts {
    fn zero(cpus: usize, nodes: usize) -> Counts {
        Counts { reads: vec![vec![0; nodes]; cpus], writes: vec![vec![0; nodes]; cpus] }
    }

    fn add(&mut self, cpu: usize, home: usize, reads: u64, writes: u64) {
        self.reads[cpu][home] += reads;
        self.writes[cpu][home] += writes;
    }

    /// As [`Counts::add`], if the sums are numbers of 64 bits.
    fn checked_add(&mut self, cpu: usize, home: usize, reads: u64, writes: u64) -> Option<()> {
        let (all_reads, all_writes) = (&mut self.reads[cpu][home], &mut self.writes[cpu][home]);
        (*all_reads, *all_writes) = (all_reads.checked_add(reads)?, all_writes.checked_add(writes)?);
        Some(())
    }

    /// Reads and writes together.
    pub fn both(&self) -> Matrix {
        let rows = self.reads.iter().zip(&self.writes);
        rows.map(|(reads, writes)| reads.iter().zip(writes).map(|(r, w)| r + w).collect()).collect()
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.both().iter().flatten().sum()
    }
}

impl Observed {
    /// What the observer of a machine reports of the first window; `cached` says whether it modelled a cache.
    ///
    /// # Errors
    /// If the report cannot be read, or holds a line that the observer does not write.
    pub fn from_report(
        mut report: impl BufRead,
        topology: &Topology,
        cached: bool,
    ) -> Result<Observed, LabError> {
        let mut observed = Observed::empty(topology, cached);
        observed.read(&mut report, &cpu_of_slot(topology))?;
        Ok(observed)
    }

    fn empty(topology: &Topology, cached: bool) -> Observed {
        Observed {
            node_of_cpu: topology.node_of_cpu(),
            nodes: topology.nodes.iter().map(|node| node.id).collect(),
            cached,
            ..Observed::default()
        }
    }

    /// Takes in the report of one window, line by line (lab/plugin/report.c has the form). True if another one follows.
    fn read(&mut self, report: &mut impl BufRead, cpus: &[Option<usize>]) -> Result<bool, LabError> {
        for line in report.by_ref().lines() {
            let line = line.map_err(LabError::io("reading the observer's report"))?;
            self.line(&line, cpus).ok_or_else(|| broken(&format!("it says `{line}`")))?;
            if line.starts_with("cut ") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn line(&mut self, line: &str, cpus: &[Option<usize>]) -> Option<()> {
        let mut words = line.split(' ');
        let kind = words.next()?;
        let numbers: Vec<&str> = words.collect();
        let number = |n: usize| numbers.get(n)?.parse::<u64>().ok();
        let hex = |n: usize| u64::from_str_radix(numbers.get(n)?, 16).ok();
        let cpu = |slot: u64| *cpus.get(slot as usize)?;
        match kind {
            "begin" => {}
            "a" | "m" => {
                let home = number(2)? as usize;
                (home < self.nodes.len()).then_some(())?;
                let (cpu, reads, writes) = (cpu(number(1)?)?, number(3)?, number(4)?);
                let interval = self.interval(number(0)?);
                let counts = if kind == "a" { &mut interval.accesses } else { &mut interval.misses };
                counts.checked_add(cpu, home, reads, writes)?;
            }
            "p" => self.pages.push(Page {
                space: hex(0)?,
                number: hex(1)?,
                cpu: cpu(number(2)?)?,
                reads: number(3)?,
                writes: number(4)?,
                misses: number(5)?,
                home: number(6).map(|home| home as usize).filter(|&home| home < self.nodes.len())?,
            }),
            "s" => self.shared.push([(hex(0)?, hex(1)?), (hex(2)?, hex(3)?)]),
            "d" => {
                self.delayed.resize(self.node_of_cpu.len(), 0);
                self.delayed[cpu(number(0)?)?] = number(1)?;
            }
            "l" => {
                self.waited.resize(self.nodes.len(), 0);
                *self.waited.get_mut(number(0)? as usize)? = number(1)?;
            }
            "cut" | "end" => (self.spaces, self.devices, self.complete) = (number(0)?, number(1)?, true),
            _ => return None,
        }
        Some(())
    }

    fn interval(&mut self, ms: u64) -> &mut Interval {
        if self.intervals.last().is_none_or(|last| last.ms != ms) {
            let zero = Counts::zero(self.node_of_cpu.len(), self.nodes.len());
            self.intervals.push(Interval { ms, accesses: zero.clone(), misses: zero });
        }
        self.intervals.last_mut().expect("one was just put there")
    }

    /// The sum over all intervals.
    pub fn total(&self) -> Interval {
        self.sum(&self.intervals)
    }

    /// The non-local % of transactions over time, in `parts` parts of the run.
    pub fn course(&self, parts: usize) -> Vec<f64> {
        let all = self.intervals.len();
        let parts = parts.min(all);
        let part = |n: usize| &self.intervals[n * all / parts..(n + 1) * all / parts];
        (0..parts).map(|n| self.nonlocal_percent(self.transactions(&self.sum(part(n))))).collect()
    }

    /// The sum over some intervals; its end is the last one's.
    pub fn sum(&self, intervals: &[Interval]) -> Interval {
        let zero = Counts::zero(self.node_of_cpu.len(), self.nodes.len());
        let mut total = Interval { ms: 0, accesses: zero.clone(), misses: zero };
        for interval in intervals {
            total.ms = interval.ms;
            for (sum, part) in
                [(&mut total.accesses, &interval.accesses), (&mut total.misses, &interval.misses)]
            {
                for (cpu, (reads, writes)) in part.reads.iter().zip(&part.writes).enumerate() {
                    for (home, (&reads, &writes)) in reads.iter().zip(writes).enumerate() {
                        sum.add(cpu, home, reads, writes);
                    }
                }
            }
        }
        total
    }

    /// The share of a matrix that another node than the requester's served, in percent.
    pub fn nonlocal_percent(&self, counts: &Counts) -> f64 {
        let both = counts.both();
        let local: u64 = both.iter().zip(&self.node_of_cpu).map(|(row, &node)| row[node]).sum();
        let all = counts.total();
        100.0 * (all - local) as f64 / all.max(1) as f64
    }

    /// What counts as transactions: misses if a cache was modelled, else accesses.
    pub fn transactions<'a>(&self, interval: &'a Interval) -> &'a Counts {
        if self.cached {
            &interval.misses
        } else {
            &interval.accesses
        }
    }

    /// What a transaction waited at each memory for others, in nanoseconds, the mean of all; empty where memories had
    /// no load.
    pub fn mean_waits(&self) -> Vec<f64> {
        let total = self.total();
        let both = self.transactions(&total).both();
        let served = |home: usize| both.iter().map(|row| row[home]).sum::<u64>().max(1);
        self.waited.iter().enumerate().map(|(home, &ns)| ns as f64 / served(home) as f64).collect()
    }

    /// Where each page was when its most frequent user last looked: address and index of the node, by address. Of the
    /// address space with the most accesses; what is in several address spaces at once has no one place.
    pub fn homes(&self) -> Vec<(u64, usize)> {
        pages::homes(&self.pages)
    }

    /// The lowest non-local % that a placement without moves could have had, by the counts by page, at a page size of
    /// `bytes`.
    pub fn bound(&self, bytes: u64) -> Bound {
        pages::bound(&self.pages, &self.shared, &self.node_of_cpu, self.nodes.len(), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_matrices() {
        let mut observed =
            Observed { node_of_cpu: vec![0, 1], nodes: vec![0, 2], cached: true, ..Observed::default() };
        let report = "begin 3 2\na 100 0 0 30 10\na 100 2 0 20 0\nm 100 2 0 5 0\na 200 2 1 40 0\n\
                      p 1a ff 0 3 4 5 1\np 1a ff 2 30 40 50 0\nd 2 7\n\
                      l 1 20\nend 1 9\n";
        observed.read(&mut report.as_bytes(), &[Some(0), None, Some(1)]).unwrap();
        assert_eq!(observed.intervals.len(), 2);
        let total = observed.total();
        assert_eq!(total.accesses.both(), [[40, 0], [20, 40]]);
        assert_eq!(observed.nonlocal_percent(&total.accesses), 20.0);
        assert_eq!(observed.nonlocal_percent(observed.transactions(&total)), 100.0);
        assert_eq!((observed.spaces, observed.devices, observed.complete), (1, 9, true));
        assert_eq!(observed.delayed, [0, 7]);
        assert_eq!((&observed.waited[..], observed.mean_waits()), (&[0, 20][..], vec![0.0, 20.0]));
        let bound = observed.bound(4096);
        assert_eq!((bound.pages, bound.access_percent), (1, 100.0 * 7.0 / 77.0));
        assert_eq!(observed.homes(), [(0xff000, 0)]);
        // The same memory in another address space, and in a third.
        let more = "p 2b 100 0 80 0 100 1\np 3c 100 2 0 0 200 1\ns 2b 100 1a ff\ns 3c 100 2b 100\n";
        observed.read(&mut more.as_bytes(), &[Some(0), None, Some(1)]).unwrap();
        let bound = observed.bound(4096);
        assert_eq!((bound.pages, bound.miss_percent), (1, 100.0 * 105.0 / 355.0), "one page has one place");
        observed.shared.clear();
        assert_eq!(observed.bound(4096).pages, 3);
        assert!(
            observed.read(&mut "a 1 1 0 1 1\n".as_bytes(), &[Some(0), None]).is_err(),
            "an empty slot accesses nothing"
        );
        let mut windows = "a 1 0 0 1 0\ncut 1 0\na 2 0 0 2 0\nend 0 0\n".as_bytes();
        let mut next = || {
            let mut window = Observed { node_of_cpu: vec![0], nodes: vec![0], ..Observed::default() };
            let more = window.read(&mut windows, &[Some(0)]).unwrap();
            (more, window.total().accesses.total(), window.complete)
        };
        assert_eq!([next(), next()], [(true, 1, true), (false, 2, true)], "each window has its own counts");
        let most = format!("a 1 0 0 {} 0\n", u64::MAX);
        let over = format!("{most}a 1 0 0 1 0\n");
        assert!(observed.read(&mut over.as_bytes(), &[Some(0)]).is_err(), "a sum that no counter reaches");
    }
}
