//! What `optimal`, `simulate` and `compare` take: a machine model, a trace file, and how the one is laid over the
//! other.

use crate::exit::{self, Code};
use crate::files::read_text;
use crate::spill::SpillFile;
use anyhow::Context;
use homing_core::cache::cpus::CpusInUse;
use homing_core::cache::hierarchy::HierarchyError;
use homing_core::cache::misses::Misses;
use homing_core::cache::{Addresses, Counts, HierarchyShape};
use homing_core::history::{Binding, History, HistoryBuilder, Options, Spill, SpillError, ThreadsOn};
use homing_core::ids::{parse_bytes, Cpu, Node, PageSize, Thread, Time};
use homing_core::machine::{Costs, Machine};
use homing_core::timeline::Mark;
use homing_core::trace::{Event, NameId, Trace, TraceError, Turn, Visitor, FRAME_BYTES};
use rayon::prelude::*;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The machine model and how a trace is laid over it.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelArgs {
    /// Machine model: a name from `homing machines`, a TOML file, or `host`
    #[arg(long, short, value_name = "MACHINE")]
    pub machine: String,
    /// Override a field of the machine, such as remote=15, or a policy's parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
    /// Page size, a power of two from 512 to 1G [default: the machine's]; `compare` takes several
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub page_size: Vec<PageSize>,
    /// CPUs that threads run on: fill, round-robin, one-per-node, or a list such as 0-3,5 or !2
    ///
    /// fill: thread i on CPU i, so that nodes fill up one by one. round-robin: thread i on the next CPU of node i.
    /// one-per-node: thread i on the first CPU of node i. A list: thread i on its i-th CPU. All begin again at their
    /// end.
    #[arg(long, value_name = "HOW", default_value = "fill")]
    pub threads_on: ThreadsOn,
    /// Memory for page histories; what is beyond goes to a temporary file
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = bytes)]
    pub memory: u64,
    /// Let the machine's caches filter the references first: what follows sees misses, and a page has one copy
    #[arg(long)]
    pub misses: bool,
}

/// Memory for page histories, unless the user says another.
pub const MEMORY: &str = "8G";

/// A number of bytes, as options have it.
pub fn bytes(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}`: expected a size such as 512M or 8G"))
}

impl ModelArgs {
    /// The machine with the overrides that `is_machine` says are its own.
    pub fn machine(&self, is_machine: impl Fn(&str) -> bool) -> anyhow::Result<Machine> {
        let mut machine = load_machine(&self.machine)?;
        for setting in self.set.iter().filter(|s| is_machine(s)) {
            machine.set(setting).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
        }
        Ok(machine)
    }

    /// The page size: the first one asked for, or the machine's.
    pub fn page_size(&self, machine: &Machine) -> PageSize {
        self.page_size.first().copied().unwrap_or(machine.page_size())
    }

    /// Fails if several page sizes were asked for.
    pub fn one_page_size(&self) -> anyhow::Result<()> {
        match self.page_size.len() {
            0 | 1 => Ok(()),
            _ => Err(exit::error(
                Code::USAGE,
                "--page-size: expected one size; `homing compare` takes several",
            )),
        }
    }

    /// What accesses and moves cost on the machine.
    pub fn costs(&self, machine: &Machine) -> anyhow::Result<Costs> {
        machine.costs(self.page_size(machine)).map_err(|e| exit::error(Code::USAGE, e.to_string()))
    }

    /// Which node each thread runs on.
    pub fn binding(&self, machine: &Machine) -> anyhow::Result<Binding> {
        let cpus = (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0)));
        self.threads_on.bind(&cpus.collect::<Vec<_>>()).map_err(|e| exit::error(Code::USAGE, e))
    }
}

/// What reaches memory when references go through the machine's caches first; a usage error if its file has none.
pub fn misses(
    machine: &Machine,
    trace: &Trace<'_>,
    binding: &Binding,
    page_size: PageSize,
) -> anyhow::Result<Misses> {
    let shape = hierarchy(machine, page_size)?;
    let cpus = CpusInUse::new(trace.threads().map(|(thread, _)| thread), binding);
    let addresses = Addresses::new(page_size, &frames(trace));
    Misses::new(&shape, cpus, addresses, rayon::current_num_threads()).map_err(|error| {
        let code = match error {
            HierarchyError::TooManyCpus(_) => Code::USAGE,
            HierarchyError::TooMuchMemory(..) => Code::FAILURE,
        };
        exit::error(code, error.to_string())
    })
}

/// The machine's caches and TLBs.
pub fn hierarchy(machine: &Machine, page_size: PageSize) -> anyhow::Result<HierarchyShape> {
    let missing = || {
        let name = machine.name();
        exit::error(
            Code::USAGE,
            format!(
                "machine `{name}` has no section [hierarchy]: docs/memory-system.md says what stands in it"
            ),
        )
    };
    machine.hierarchy(page_size).map_err(|e| exit::error(Code::USAGE, e.to_string()))?.ok_or_else(missing)
}

/// The CPUs that a trace's threads run on.
pub fn cpus(trace: &Trace<'_>, binding: &Binding) -> CpusInUse {
    CpusInUse::new(trace.threads().map(|(thread, _)| thread), binding)
}

/// The pages of a trace.
pub fn addresses(trace: &Trace<'_>, page_size: PageSize) -> Addresses {
    Addresses::new(page_size, &frames(trace))
}

/// The virtual address of each frame of a trace, in frame order.
pub fn frames(trace: &Trace<'_>) -> Vec<u64> {
    trace.frames().iter().map(|page| page.wrapping_mul(FRAME_BYTES)).collect()
}

/// A machine by name or file, or this one.
pub fn load_machine(name: &str) -> anyhow::Result<Machine> {
    if name == "host" {
        return crate::host::machine();
    }
    if let Some(machine) = Machine::builtin(name) {
        return Ok(machine);
    }
    if !name.ends_with(".toml") && !Path::new(name).exists() {
        let names: Vec<_> = Machine::builtin_names().collect();
        let message =
            format!("no machine `{name}`: expected a TOML file, `host`, or one of {}", names.join(", "));
        return Err(exit::error(Code::USAGE, message));
    }
    let text = read_text(Path::new(name), "machine file")?;
    Machine::from_toml(&text, name).map_err(|e| exit::error(Code::USAGE, e.to_string()))
}

/// A trace file, mapped.
pub struct TraceFile {
    /// The file's path.
    pub path: PathBuf,
    /// What results call it.
    pub name: String,
    map: memmap2::Mmap,
}

impl TraceFile {
    /// Maps the file.
    pub fn open(path: &Path) -> anyhow::Result<TraceFile> {
        let context = || format!("cannot open trace {}", path.display());
        // Before it is opened: a pipe would wait for its writer.
        let facts = path.metadata().with_context(context)?;
        if !facts.is_file() {
            let message = format!(
                "{} is not a regular file: expected a trace, as `homing record` writes it; write what comes from a \
                pipe to a file",
                path.display()
            );
            return Err(exit::error(Code::FAILURE, message));
        }
        if facts.len() == 0 {
            let message =
                format!("{} is empty: expected a trace, as `homing record` writes it", path.display());
            return Err(exit::error(Code::FAILURE, message));
        }
        let file = File::open(path).with_context(context)?;
        // SAFETY: the map is only read. Another process that truncates the file meanwhile ends this one with SIGBUS,
        // which is what reading it would have ended in.
        let map = unsafe { memmap2::Mmap::map(&file) };
        let map = map.with_context(|| format!("cannot map trace {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(TraceFile { path: path.to_owned(), name, map })
    }

    /// The same under another name.
    pub fn named(self, name: &str) -> TraceFile {
        TraceFile { name: name.to_owned(), ..self }
    }

    /// The trace in it.
    pub fn trace(&self) -> anyhow::Result<Trace<'_>> {
        Trace::open(&self.map).with_context(|| format!("cannot read trace {}", self.path.display()))
    }

    /// The trace, even if its header is damaged.
    pub fn salvage(&self) -> anyhow::Result<Trace<'_>> {
        Trace::salvage(&self.map).with_context(|| format!("cannot read trace {}", self.path.display()))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// A trace laid over a machine.
pub struct Laid {
    /// The page runs.
    pub history: History,
    /// References that damage in the file has lost.
    pub lost: u64,
    /// The file is damaged or unfinished.
    pub partial: bool,
    /// What a reader of the results must know.
    pub notes: Vec<String>,
    /// What the caches counted, if references went through them.
    pub caches: Option<Counts>,
    /// Iterations and phases that the program marked.
    pub marks: Vec<(Time, Mark)>,
}

/// Builds the page histories of a trace: of all its references, or of those that get past `misses`. Without caches,
/// whose state goes through the whole trace, parts of the trace are read at the same time.
pub fn lay(
    trace: &Trace<'_>,
    binding: &Binding,
    page_size: PageSize,
    read_gap: u32,
    memory: u64,
    misses: Option<Misses>,
) -> anyhow::Result<Laid> {
    let frames = frames(trace);
    let progress = crate::progress::references(trace.references(), "page runs");
    let options = |budget, spill| Options { page_size, read_gap, budget, spill };
    let new = |builder, is_part| Build::new(binding, &progress, builder, is_part, &frames);
    let parts = match misses {
        None => trace.parts(rayon::current_num_threads()),
        Some(_) => Vec::new(),
    };
    let mut built = None;
    if parts.len() > 1 {
        let budget = memory / parts.len() as u64;
        let part = |(number, range): (usize, Range<usize>)| {
            let builder = if number == 0 { HistoryBuilder::new } else { HistoryBuilder::continuing };
            let mut build = new(builder(options(budget, None)), true);
            trace.visit(range, &mut build)?;
            anyhow::Ok((!build.full).then_some(build))
        };
        let parts: Option<Vec<Build<'_>>> =
            parts.into_par_iter().enumerate().map(part).collect::<anyhow::Result<_>>()?;
        built = parts.into_iter().flatten().reduce(Build::followed_by);
    }
    // What does not fit into memory is read once more, in one go, with a file to spill to.
    let mut build = match built {
        Some(build) => build,
        None => {
            progress.reset();
            let spill = Some(Box::new(SpillFile::new()) as Box<dyn Spill>);
            let mut build = new(HistoryBuilder::new(options(memory, spill)), false);
            build.misses = misses;
            trace.visit_all(&mut build)?;
            build
        }
    };
    progress.finish_and_clear();
    if let Some(error) = build.error {
        return Err(error.into());
    }
    if build.found == 0 {
        return Err(nothing_found(trace, build.lost, build.why).into());
    }
    let caches = build.misses.map(|misses| misses.finish(&mut build.builder)).transpose()?;
    let (history, lost) = (build.builder.finish(&frames)?, build.lost);
    let partial = lost > 0 || !trace.complete() || !trace.damage().is_empty();
    let mut notes = notes(trace, binding, lost, partial);
    notes.extend(caches.as_ref().map(filtered));
    Ok(Laid { history, lost, partial, notes, caches, marks: marks(trace, &build.marks) })
}

/// The error of a trace of which no reference can be read: a table of zeros would look like a result.
fn nothing_found(trace: &Trace<'_>, lost: u64, reason: String) -> TraceError {
    if lost == 0 {
        return TraceError::NoReferences;
    }
    let advice = match trace.damaged_blocks() {
        0 => "only the order of its references is damaged: `homing trace merge TRACE -o NEW` makes another",
        _ => "`homing trace info` says where it is damaged, `homing trace recover TRACE -o NEW` keeps what is whole",
    };
    TraceError::NothingLeft { lost, reason, advice }
}

/// Lets an error of a trace say of which one; what else can go wrong in using it names its own cause.
pub fn naming<T>(result: anyhow::Result<T>, path: &Path) -> anyhow::Result<T> {
    result.map_err(|error| match error.is::<TraceError>() {
        true => error.context(path.display().to_string()),
        false => error,
    })
}

fn notes(trace: &Trace<'_>, binding: &Binding, lost: u64, partial: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if partial {
        let lost = match lost {
            0 => "no reference is lost".to_owned(),
            lost => format!("{lost} references are lost and are not counted"),
        };
        notes.push(format!(
            "the trace is damaged or unfinished: {lost}; `homing trace info` says where, `homing trace recover` makes \
            a \
             whole trace of what is there"
        ));
    }
    let mut nodes: Vec<Node> = trace.threads().map(|(thread, _)| binding.node(thread)).collect();
    let threads = nodes.len();
    nodes.sort_unstable();
    nodes.dedup();
    if threads > 1 && nodes.len() == 1 {
        notes.push(format!(
            "all {threads} threads run on node {}, so that every page can be local to all of them; `--threads-on \
             one-per-node` spreads them over the machine",
            nodes[0]
        ));
    }
    notes
}

/// What the caches let through, in words.
fn filtered(counts: &Counts) -> String {
    let share = |part: u64, of: u64| 100.0 * part as f64 / (of as f64).max(1.0);
    format!(
        "behind caches: of {} references {:.2} % missed the first level and {:.3} % reached memory ({} fetches, {} \
        upgrades; \
         {} write-backs not counted among them); {:.3} % missed the TLBs. Pages have one copy, as writes that hit are \
         not seen",
        counts.references,
        share(counts.l1_misses, counts.references),
        share(counts.demand(), counts.references),
        counts.fetches_read + counts.fetches_write,
        counts.upgrades,
        counts.write_backs,
        share(counts.tlb_misses, counts.references),
    )
}

/// Iterations and phases as a program marks them: a mark named `iteration` ends one, any other begins the phase of its
/// name.
fn marks(trace: &Trace<'_>, named: &[(Time, NameId)]) -> Vec<(Time, Mark)> {
    let mut names: Vec<NameId> = Vec::new();
    let mark = |&(time, name): &(Time, NameId)| {
        if trace.names().get(name) == "iteration" {
            return (time, Mark::IterationEnd);
        }
        let phase = names.iter().position(|&known| known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        (time, Mark::PhaseBegin(phase as u32))
    };
    named.iter().map(mark).collect()
}

/// Builds the histories of a trace, or of a part of it.
struct Build<'a> {
    builder: HistoryBuilder,
    binding: &'a Binding,
    misses: Option<Misses>,
    error: Option<SpillError>,
    /// A part has no file to spill to: if it takes more memory than it may have, it is full, and its rest is skipped.
    is_part: bool,
    full: bool,
    /// References that were read.
    found: u64,
    lost: u64,
    /// Why the first of those are lost.
    why: String,
    marks: Vec<(Time, NameId)>,
    progress: &'a indicatif::ProgressBar,
    unreported: u64,
}

impl<'a> Build<'a> {
    fn new(
        binding: &'a Binding,
        progress: &'a indicatif::ProgressBar,
        mut builder: HistoryBuilder,
        is_part: bool,
        frames: &[u64],
    ) -> Build<'a> {
        builder.group_frames(frames);
        Build {
            builder,
            binding,
            misses: None,
            error: None,
            is_part,
            full: false,
            found: 0,
            lost: 0,
            why: String::new(),
            marks: Vec::new(),
            progress,
            unreported: 0,
        }
    }

    /// Adds what comes after this part.
    fn followed_by(mut self, later: Build<'a>) -> Build<'a> {
        self.builder.append(later.builder);
        self.found += later.found;
        self.lost += later.lost;
        self.marks.extend(later.marks);
        self
    }
}

impl Build<'_> {
    /// Adds references where their thread runs at their Time.
    fn bound(&mut self, turn: Turn<'_>) -> Result<(), SpillError> {
        let mut done = 0;
        while done < turn.addresses.len() {
            let first = Time(turn.first.0 + done as u64);
            let (node, until) = self.binding.node_at(turn.thread, first);
            let rest = turn.addresses.len() - done;
            let part = done..done + until.map_or(rest, |until| rest.min((until.0 - first.0) as usize));
            self.builder.turn(node, first, &turn.addresses[part.clone()], &turn.kinds[part.clone()])?;
            done = part.end;
        }
        Ok(())
    }
}

impl Visitor for Build<'_> {
    fn turn(&mut self, turn: Turn<'_>) {
        if self.error.is_some() || self.full {
            return;
        }
        self.error = match &mut self.misses {
            Some(misses) => misses.turn(turn, &mut self.builder).err(),
            None => self.bound(turn).err(),
        };
        self.found += turn.addresses.len() as u64;
        self.unreported += turn.addresses.len() as u64;
        if self.unreported > 1 << 22 {
            self.progress.inc(std::mem::take(&mut self.unreported));
            self.full = self.is_part && self.builder.is_full();
        }
    }

    fn event(&mut self, _thread: Thread, time: Time, event: &Event) {
        if let Event::Mark { name, .. } = event {
            self.marks.push((time, *name));
        }
    }

    fn lost(&mut self, _first: Time, references: u64, reason: &str) {
        if self.lost == 0 {
            self.why = reason.to_owned();
        }
        self.lost += references;
    }
}
