//! One trace of several processes that ran side by side: a server and its forked workers, ranks on one machine. Memory
//! that they share is one memory in it, each one's own memory is its own, and a fork is the beginning of a thread.
//!
//! Pages of process number n (from 0) lie n * 2^48 bytes higher than in the process ([`memory`]). What the processes
//! executed stays as it is, with its virtual time ([`lanes`]). Processes have no clock in common: how far one is when
//! another begins is told by forks alone; further on they go by virtual time, as threads without synchronisation do.

mod lanes;
mod memory;
#[cfg(test)]
mod tests;

use crate::error::{PipelineError, Result, While};
use crate::progress::{Bar, Progress, Unit};
use crate::trace_file::TraceFile;
use homing_trace::ids::{Thread, Time};
use homing_trace::{Event, Header, NameId, Summary, Symbol, Trace, TraceError, TraceWriter, Turn, Visitor};
use lanes::Lanes;
use memory::{Memory, Slots};
use serde_json::json;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

/// The most processes of a trace.
pub const MOST: usize = 1 << 14;

/// A process's trace, with what the joined trace makes of it.
struct Process<'t, 'a> {
    trace: &'t Trace<'a>,
    /// Its process id, if its recorder has said it.
    id: Option<u64>,
    /// Which of them forked it.
    parent: Option<usize>,
    /// Its thread 0.
    first: u32,
    memory: Memory,
}

/// What was joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The counts of the joined trace.
    pub summary: Summary,
    /// Processes that another of them forked.
    pub forked: usize,
    /// Pieces of memory that several of them have mapped and one may write.
    pub shared: usize,
}

/// Whether a program began as a copy of another recorded process: forked, with no program executed since, which its
/// recorder would have said.
pub(crate) fn is_forked(header: &Header) -> bool {
    header.is_child() && !header.more.contains_key("replaced")
}

/// What is shared by whom.
struct Plan<'t, 'a> {
    processes: Vec<Process<'t, 'a>>,
    /// Which process forked which: by the parent's number and the child's process id, both numbers.
    forks: HashMap<(usize, u64), (usize, usize)>,
    slots: Slots,
}

impl<'t, 'a> Plan<'t, 'a> {
    fn new(traces: &'t [Trace<'a>]) -> Plan<'t, 'a> {
        let mut processes = Vec::new();
        let mut next = 0;
        let mut slots = Slots::behind(traces.len());
        for (number, trace) in traces.iter().enumerate() {
            let id = trace.header().process();
            let threads = trace.threads().map(|(thread, _)| thread.0.saturating_add(1)).max().unwrap_or(1);
            processes.push(Process {
                trace,
                id,
                parent: None,
                first: next,
                memory: Memory::of_process(number),
            });
            next = next.saturating_add(threads);
        }
        let forks = forks(&processes);
        for &(parent, child) in forks.values() {
            processes[child].parent = Some(parent);
            if is_forked(processes[child].trace.header()) {
                processes[child].memory.forked_by(parent);
            }
        }
        for number in parents_first(&processes) {
            let parent = processes[number].parent.map(|parent| processes[parent].memory.shared());
            let trace = processes[number].trace;
            processes[number].memory.plan(trace, parent.as_ref(), &mut slots);
        }
        Plan { processes, forks, slots }
    }
}

/// The processes of `files`, by number, that share memory with number `of`, or with one that does, in their order and
/// with `of` itself: memory that one of them may write, and that several map; or a fork without another program since.
///
/// # Errors
/// If a trace cannot be read.
pub fn related(files: &[TraceFile], of: usize) -> Result<Vec<usize>> {
    let traces = files.iter().map(TraceFile::trace).collect::<Result<Vec<_>>>()?;
    let plan = Plan::new(&traces);
    let mut shared: Vec<BTreeSet<usize>> = plan.slots.in_common().into_iter().cloned().collect();
    let forked = |fork: &&(usize, usize)| is_forked(plan.processes[fork.1].trace.header());
    shared.extend(plan.forks.values().filter(forked).map(|&(a, b)| BTreeSet::from([a, b])));
    let mut related = BTreeSet::from([of]);
    loop {
        let meets = shared.iter().filter(|users| !users.is_disjoint(&related));
        let more: Vec<usize> = meets.flat_map(|users| users.iter().copied()).collect();
        let known = related.len();
        related.extend(more);
        if related.len() == known {
            return Ok(related.into_iter().collect());
        }
    }
}

/// Writes one trace of the processes of `files` to `out`. Each must be whole, and in order ([`TraceFile::ordered`]).
///
/// # Errors
/// If traces cannot be read or written, are damaged, or were recorded in ways that do not go together.
pub fn join<W: Write>(files: &[TraceFile], out: W, progress: &Progress) -> Result<(W, Joined)> {
    let traces = files.iter().map(TraceFile::trace).collect::<Result<Vec<_>>>()?;
    check(files, &traces)?;
    let Plan { mut processes, forks, slots } = Plan::new(&traces);
    let writing = || "cannot write the joined trace".to_owned();
    let mut writer = TraceWriter::new(out, &header(&processes)).doing(writing)?;
    let bar = progress.begin(traces.iter().map(Trace::references).sum::<u64>(), Unit::References, "joining");
    for number in 0..processes.len() {
        let process = &mut processes[number];
        let lanes = Lanes::new(process.trace, process.first);
        let begun = forks.iter().filter(|(_, child)| child.0 == number);
        let begun: HashMap<u64, usize> = begun.map(|(&(_, id), child)| (id, child.1)).collect();
        let memory = std::mem::replace(&mut process.memory, Memory::of_process(number));
        let firsts: Vec<u32> = processes.iter().map(|process| process.first).collect();
        let (trace, first) = (processes[number].trace, firsts[number]);
        let names = trace.names().iter().map(|(_, name)| writer.name(name));
        let names = std::iter::once(NameId::NONE).chain(names).collect();
        let mut copy =
            Copy { writer: &mut writer, lanes, memory, names, first, begun, firsts, bar: &*bar, error: None };
        copy.symbols(trace.symbols());
        let stats = trace.visit_all(&mut copy).doing(|| files[number].path.display().to_string())?;
        copy.finish();
        if let Some(error) = copy.error {
            return Err(error).doing(writing);
        }
        if stats.lost > 0 {
            return Err(damaged(&files[number]));
        }
    }
    let summary = summary(&traces);
    let (out, summary) = writer.finish(summary).doing(writing)?;
    let forked = processes.iter().filter(|process| process.parent.is_some()).count();
    Ok((out, Joined { summary, forked, shared: slots.in_common().len() }))
}

fn damaged(file: &TraceFile) -> PipelineError {
    PipelineError::Failed(format!(
        "{} is damaged or was not finished: expected a whole trace; `homing trace recover` makes one",
        file.path.display()
    ))
}

/// Fails if the traces do not go together.
fn check(files: &[TraceFile], traces: &[Trace<'_>]) -> Result<()> {
    let usage = |message: String| Err(PipelineError::Usage(message));
    if traces.len() < 2 || traces.len() > MOST {
        return usage(format!("expected 2 to {MOST} traces to join, found {}", traces.len()));
    }
    let name = |at: usize| files[at].path.display();
    for (at, trace) in traces.iter().enumerate() {
        let header = trace.header();
        if !trace.complete() || !trace.damage().is_empty() {
            return Err(damaged(&files[at]));
        }
        if header.windows().is_some() {
            let name = name(at);
            return usage(format!(
                "{name} was recorded in windows (--windows), which cannot be joined: record it whole"
            ));
        }
        if header.processes() > 1 {
            return usage(format!("{} is joined already: expected traces of one process each", name(at)));
        }
        let first = traces[0].header();
        for (what, same) in
            [("--grain", header.grain == first.grain), ("--filter", header.filter == first.filter)]
        {
            if !same {
                let (name, other) = (name(at), name(0));
                return usage(format!(
                    "{name} was recorded with another {what} than {other}: expected the same"
                ));
            }
        }
        let ids = header.process();
        if ids.is_some() && traces[..at].iter().any(|other| other.header().process() == ids) {
            let (id, name) = (ids.unwrap_or_default(), name(at));
            return usage(format!(
                "{name} is of process {id}, as another of the traces: expected each process once"
            ));
        }
    }
    Ok(())
}

/// Which process forked which: by the parent's number and the child's process id, both numbers.
fn forks(processes: &[Process<'_, '_>]) -> HashMap<(usize, u64), (usize, usize)> {
    let by_id: HashMap<u64, usize> =
        processes.iter().enumerate().filter_map(|(number, process)| Some((process.id?, number))).collect();
    let mut forks = HashMap::new();
    for (parent, process) in processes.iter().enumerate() {
        for (thread, _) in process.trace.threads() {
            for event in process.trace.thread_events(thread) {
                let Event::Fork { process: id } = event else { continue };
                if let Some(&child) = by_id.get(&id).filter(|&&child| child != parent) {
                    forks.insert((parent, id), (parent, child));
                }
            }
        }
    }
    forks
}

/// The numbers of all processes, each behind the one that forked it.
fn parents_first(processes: &[Process<'_, '_>]) -> Vec<usize> {
    let depth = |number: usize| {
        let parent = |&at: &usize| processes[at].parent;
        std::iter::successors(Some(number), parent).take(processes.len()).count()
    };
    let mut order: Vec<usize> = (0..processes.len()).collect();
    order.sort_by_key(|&number| depth(number));
    order
}

/// The first process's header, with what the processes are. It is still a child's if somebody else made a process.
fn header(processes: &[Process<'_, '_>]) -> Header {
    let mut header = processes[0].trace.header().clone();
    let threads = |process: &Process<'_, '_>| process.trace.threads().count();
    let list = processes.iter().map(|process| {
        let command = &process.trace.header().command;
        json!({ "process": process.id, "command": command, "first_thread": process.first, "threads": threads(process) })
    });
    header.set_processes(list.collect());
    let orphan = |process: &Process<'_, '_>| process.trace.header().is_child() && process.parent.is_none();
    header.set_child(processes.iter().any(orphan));
    header
}

/// What the writer does not count by itself.
fn summary(traces: &[Trace<'_>]) -> Summary {
    let mut all = Summary { ending: traces[0].summary().ending, ..Summary::default() };
    for trace in traces {
        let of = trace.summary();
        let told: u64 = trace
            .threads()
            .flat_map(|(thread, _)| trace.thread_events(thread))
            .map(|event| lost(&event))
            .sum();
        // The writer counts what events say again.
        all.lost += of.lost.saturating_sub(told);
        all.lost_segments += of.lost_segments;
        all.malformed += of.malformed;
        all.filtered += of.filtered;
        all.skipped += of.skipped;
        all.beyond_limit += of.beyond_limit;
        all.outside += of.outside;
        all.first_touches += of.first_touches;
    }
    all
}

fn lost(event: &Event) -> u64 {
    match event {
        Event::Lost { references, .. } => *references,
        _ => 0,
    }
}

/// One process on its way into the joined trace.
struct Copy<'c, 't, 'a, W: Write> {
    writer: &'c mut TraceWriter<W>,
    lanes: Lanes<'t, 'a>,
    memory: Memory,
    /// The joined trace's ids of the process's names.
    names: Vec<NameId>,
    first: u32,
    /// Processes that it forks, by process id, and thread 0 of all.
    begun: HashMap<u64, usize>,
    firsts: Vec<u32>,
    bar: &'c dyn Bar,
    error: Option<TraceError>,
}

impl<W: Write> Copy<'_, '_, '_, W> {
    fn symbols(&mut self, symbols: &[Symbol]) {
        for symbol in symbols {
            let (name, object) = (self.name(symbol.name), self.name(symbol.object));
            let address = self.memory.address(symbol.address);
            self.writer.symbol(Symbol { name, address, size: symbol.size, object });
        }
    }

    fn finish(&mut self) {
        if self.error.is_none() {
            self.error = self.lanes.finish(self.writer).err();
        }
    }

    fn name(&self, id: NameId) -> NameId {
        self.names.get(id.0 as usize).copied().unwrap_or_default()
    }

    fn thread(&self, thread: Thread) -> Thread {
        Thread(self.first.saturating_add(thread.0))
    }

    /// An event as the joined trace has it: none where the others would take it for something of their own.
    fn translated(&mut self, thread: Thread, time: Time, event: &Event) -> Vec<Event> {
        let mut event = event.clone();
        match &mut event {
            Event::Mmap { .. } | Event::Munmap { .. } | Event::Mremap { .. } => {
                let names = &self.names;
                let name = |id: NameId| names.get(id.0 as usize).copied().unwrap_or_default();
                return self.memory.mapping(thread, &event, time.0 == 0, name);
            }
            Event::ThreadStart { thread, creator } => {
                (*thread, *creator) = (self.thread(*thread), self.thread(*creator));
            }
            Event::ThreadJoin { thread } => *thread = self.thread(*thread),
            // Each process numbers its stamps by itself: nothing follows from those of two.
            Event::Sync { object, .. } => *object = self.memory.own(*object),
            Event::Brk { old, new } => {
                (*old, *new) = (self.memory.own(*old), self.memory.own(*new));
            }
            Event::Alloc { address, site, .. } => {
                *address = self.memory.address(*address);
                *site = self.name(*site);
            }
            Event::Free { address } | Event::KernelAccess { address, .. } | Event::Huge { address, .. } => {
                *address = self.memory.address(*address);
            }
            Event::Mark { name, .. } => *name = self.name(*name),
            Event::Lost { reason, .. } => *reason = self.name(*reason),
            Event::Fork { process } => {
                if let Some(&child) = self.begun.get(process) {
                    let creator = self.thread(thread);
                    event = Event::ThreadStart { thread: Thread(self.firsts[child]), creator };
                }
            }
            Event::ThreadEnd | Event::Window { .. } => {}
        }
        vec![event]
    }
}

impl<W: Write> Visitor for Copy<'_, '_, '_, W> {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.error.is_none() {
            self.error = self.lanes.turn(turn, &mut self.memory, self.writer).err();
            self.bar.advance(turn.addresses.len() as u64);
        }
    }

    fn event(&mut self, thread: Thread, time: Time, event: &Event) {
        if self.error.is_some() {
            return;
        }
        let joined = self.thread(thread);
        self.error = self
            .translated(thread, time, event)
            .iter()
            .try_for_each(|event| self.writer.event(joined, event))
            .err();
    }
}
