//! A live session: the pure session of [`homing_session`], driven by the kernel. Time enters here alone, as
//! microseconds of the session; sources and movers read the clock for their own dates.
//!
//! Each step tells the pure session what happened (threads that came to other CPUs, what the source saw, what landed),
//! and carries out what it asks for (`carry_out.rs`): process scans (`looks.rs`), questions, moves, splits. It decides
//! nothing.

mod carry_out;
mod looks;
mod migrations;
mod summary;
mod wait;

use crate::account::Summary;
use crate::config::{Bind, Config};
use crate::host::Host;
use crate::journal::{Header, Writer};
use crate::keep::{self, Keeper};
use crate::mover::Mover;
use crate::movers::Movers;
use crate::observe::symbols::Tables;
use crate::phases::Phases;
use crate::sharers::Sharers;
use crate::source::{self, Places, Source};
use crate::targets::{Choice, Targets};
use homing_core::ids::{Micros, Node};
use homing_core::machine::Costs;
use homing_core::policy::Policy;
use homing_core::process::{ProcessId, Region};
use homing_linux::huge::Splitter;
use homing_linux::pagemap::PageMap;
use homing_linux::policy as affinity;
use homing_linux::proc::{Pid, Proc, ProcError, Tid};
use homing_linux::{clock, errln};
use homing_session::account::Account;
use homing_session::hot::HotAreas;
use homing_session::input::{Access, Areas, Constructs, HotArea, Input, Mark, Noticed};
use homing_session::pages::Entry;
use homing_session::plan::Plan;
use homing_session::thinning::Part;
use homing_session::{self as pure, weight_of_a_burst, Output};
use migrations::Migrations;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A session that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such source.
    #[error(
        "no source `{0}`: expected auto, or one of {names}",
        names = source::SOURCES.iter().map(|s| s.name).collect::<Vec<_>>().join(", ")
    )]
    NoSource(String),
    /// The source does not work here.
    #[error("source {name} does not work here: {why}")]
    Missing {
        /// The source.
        name: &'static str,
        /// What is missing.
        why: String,
    },
    /// The source failed.
    #[error("source {name}: {error}")]
    Source {
        /// The source.
        name: &'static str,
        /// Why.
        error: io::Error,
    },
    /// The processes cannot be looked at.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// The thread that holds the program's still cannot be started.
    #[error("cannot start a thread to hold the program's: {0}")]
    Threads(io::Error),
    /// The journal cannot be written.
    #[error("cannot write the journal: {0}")]
    Journal(io::Error),
}

/// What a session needs from its maker.
pub struct Setup<'p> {
    /// Settings.
    pub config: Config,
    /// The machine.
    pub host: Host,
    /// What accesses and moves cost.
    pub costs: Costs,
    /// The policy.
    pub policy: &'p mut dyn Policy,
    /// Which processes.
    pub choice: Choice,
    /// Where files are.
    pub places: Places,
    /// Where the log goes, and whether it is teed.
    pub journal: Option<(Box<dyn Write>, bool)>,
    /// The program, for the journal.
    pub command: String,
    /// Moves of an earlier run, to be made again.
    pub plan: Plan,
}

/// What was known of the memory of a process when it ended, in a session that watches.
#[derive(Debug)]
pub struct Departed {
    /// The process.
    pub pid: Pid,
    /// Its pages.
    pub pages: Vec<Entry>,
    /// Its mappings.
    pub regions: Vec<Region>,
}

/// An engine at work.
pub struct Session<'p> {
    config: Config,
    host: Host,
    /// What decides.
    pure: pure::Session<'p>,
    targets: Targets,
    sharers: Sharers,
    has_looked: bool,
    page_maps: BTreeMap<Pid, PageMap>,
    /// Processes that ended, where they are kept.
    departed: Vec<Departed>,
    /// Of the processes that were there at the last look.
    ends: BTreeMap<Pid, OwnedFd>,
    /// Hot areas that were found, and processes that name their own.
    found: BTreeMap<Pid, Vec<HotArea>>,
    named: BTreeSet<Pid>,
    symbols: Tables,
    /// Addresses of memory that is the engine's own: the mappings that hold them are no areas.
    own: Vec<u64>,
    resident_pages: u64,
    /// Readable when somebody wants a step soon.
    waker: Option<OwnedFd>,
    source: Box<dyn Source>,
    entry: &'static source::Entry,
    migrations: Migrations,
    keeper: Keeper,
    movers: Movers,
    splitter: Splitter,
    journal: Option<Writer<Box<dyn Write>>>,
    /// Lines were written that somebody may wait for.
    unflushed: bool,
    /// When it began, by the monotonic clock.
    begin: Duration,
    /// When the pure session last got a tick.
    ticked: Instant,
    phases: Phases,
    accesses: Vec<Access>,
    /// Those of them that the pure session has been given.
    processed: usize,
}

/// What the pure session goes by.
fn settings(config: &Config, host: &Host, costs: &Costs, entry: &source::Entry) -> pure::Settings {
    pure::Settings {
        nodes: host.nodes() as u16,
        time_for_moves: Micros(config.time_for_moves().as_micros() as u64),
        rate_limit: config.rate_limit,
        regions: config.regions.clone(),
        bind: config.bind.map(|how| cpus_to_bind(how, host)).unwrap_or_default(),
        keep: if config.bind == Some(Bind::Auto) { keep::cpus(host) } else { Vec::new() },
        dry_run: config.dry_run,
        watch: config.watch,
        weight: config.weight.unwrap_or_else(|| weight_of_a_burst(costs)),
        keep_huge_pages: config.keep_huge_pages,
        spread: config.spread,
        scans: entry.scans,
        send_back: entry.holds && !config.watch && !config.dry_run,
    }
}

/// The CPUs that new threads are bound to, in the order of their appearance.
fn cpus_to_bind(how: Bind, host: &Host) -> Vec<u32> {
    let nodes: Vec<&[u32]> = (0..host.nodes())
        .map(|node| host.cpus_of(Node(node as u16)))
        .filter(|cpus| !cpus.is_empty())
        .collect();
    match how {
        Bind::Auto | Bind::None => Vec::new(),
        Bind::Fill => nodes.concat(),
        Bind::RoundRobin => {
            let most = nodes.iter().map(|cpus| cpus.len()).max().unwrap_or(0);
            (0..most).flat_map(|i| nodes.iter().filter_map(move |cpus| cpus.get(i).copied())).collect()
        }
    }
}

/// Opens the source of that name. `auto` takes the best that works, which may be another than the best that could:
/// only one session at a time has hint faults. `watch`: nothing is to be moved.
fn open_source(
    name: &str,
    watch: bool,
    places: &Places,
    host: &Host,
) -> Result<(&'static source::Entry, Box<dyn Source>), SessionError> {
    if name == "auto" {
        return open_best(watch, places, host);
    }
    let entry = source::find(name).ok_or_else(|| SessionError::NoSource(name.to_owned()))?;
    if let Some(why) = (entry.missing)(places) {
        return Err(SessionError::Missing { name: entry.name, why });
    }
    match (entry.open)(places, host) {
        Ok(source) => Ok((entry, source)),
        Err(error) => Err(SessionError::Source { name: entry.name, error }),
    }
}

fn open_best(
    watch: bool,
    places: &Places,
    host: &Host,
) -> Result<(&'static source::Entry, Box<dyn Source>), SessionError> {
    let mut failed: Option<(&str, io::Error)> = None;
    for entry in source::working(places, watch) {
        match (entry.open)(places, host) {
            Ok(source) => {
                if let Some((name, error)) = failed {
                    let (next, confidence) = (entry.name, entry.confidence);
                    errln!("homing: source {name}: {error}; going on with {next}, confidence {confidence}");
                }
                return Ok((entry, source));
            }
            Err(error) => failed = Some(failed.unwrap_or((entry.name, error))),
        }
    }
    let (name, error) = failed.unwrap_or(("auto", io::ErrorKind::Unsupported.into()));
    Err(SessionError::Source { name, error })
}

impl<'p> Session<'p> {
    /// Opens the source and begins. Processes are looked at in the first step.
    ///
    /// # Errors
    /// If the source does not exist or does not work here, or the journal cannot be written.
    pub fn begin(setup: Setup<'p>) -> Result<Session<'p>, SessionError> {
        let Setup { config, host, costs, policy, choice, places, journal, command, plan } = setup;
        let left = keep::restore().map_or_else(|error| vec![error.to_string()], |restored| restored.troubles);
        left.iter()
            .for_each(|why| errln!("homing: cannot restore CPU affinities left by a killed engine: {why}"));
        let (entry, source) = open_source(&config.source, config.watch, &places, &host)?;
        let settings = settings(&config, &host, &costs, entry);
        let mut header = Header::new(&config.policy, entry.name, &costs);
        (header.command, header.set) = (command, config.set.clone());
        header.nodes = (0..host.nodes()).map(|node| host.kernel_id(Node(node as u16))).collect();
        header.context.weight = settings.weight;
        header.context.interval = Some(config.interval.as_micros() as u64);
        header.settings = Some(settings.clone());
        header.plan = plan.clone();
        let (context, record) = (header.context.clone(), journal.is_some());
        let header = |teed| Header { teed, ..header };
        let journal = journal.map(|(out, teed)| Writer::new(out, &header(teed))).transpose();
        Ok(Session {
            pure: pure::Session::new(pure::Setup { settings, policy, context, plan, record }),
            targets: Targets::new(Proc::default(), choice),
            sharers: Sharers::new(),
            has_looked: false,
            page_maps: BTreeMap::new(),
            departed: Vec::new(),
            ends: BTreeMap::new(),
            found: BTreeMap::new(),
            named: BTreeSet::new(),
            symbols: Tables::default(),
            own: Vec::new(),
            resident_pages: 0,
            waker: None,
            source,
            entry,
            migrations: Migrations::begin(&host),
            keeper: Keeper::default(),
            movers: Movers::new(Mover { threads: config.movers, preferred: true, ..Mover::default() }),
            splitter: Splitter::default(),
            journal: journal.map_err(SessionError::Journal)?,
            unflushed: false,
            begin: clock::monotonic(),
            ticked: Instant::now(),
            phases: Phases::begin(),
            accesses: Vec::new(),
            processed: 0,
            config,
            host,
        })
    }

    /// Takes one more process into the choice: the one that was started for it.
    pub fn add(&mut self, pid: Pid) {
        self.targets.add(pid);
    }

    /// The source that was chosen.
    pub fn source(&self) -> &'static source::Entry {
        self.entry
    }

    /// The processes.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Counts so far.
    pub fn account(&self) -> &Account {
        self.pure.account()
    }

    /// What the source has not seen.
    pub fn losses(&self) -> source::Losses {
        self.source.losses()
    }

    /// The number of pages that are known.
    pub fn pages(&self) -> usize {
        self.pure.orders().pages().len()
    }

    /// The pages that are known, with who was seen to use them and where they are.
    pub fn known(&self) -> impl Iterator<Item = &Entry> {
        self.pure.orders().pages().iter().map(|(_, entry)| entry)
    }

    /// The part of the pages, or samples, that is looked at.
    pub fn part(&self) -> Part {
        self.pure.part()
    }

    /// The mappings of a process.
    pub fn regions(&self, pid: Pid) -> &[Region] {
        self.pure.regions(ProcessId(pid.0))
    }

    /// The processes that have ended, if this session watches.
    pub fn departed(&self) -> &[Departed] {
        &self.departed
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Moves of the plan that are left.
    pub fn planned(&self) -> usize {
        self.pure.planned()
    }

    fn now(&self) -> Micros {
        Micros(clock::monotonic().saturating_sub(self.begin).as_micros() as u64)
    }

    /// One interval's work, without waiting for it.
    ///
    /// # Errors
    /// If the source fails, the cgroup goes away, or the journal cannot be written.
    pub fn step(&mut self) -> Result<(), SessionError> {
        if let Some(cpu) = self.config.engine_cpu.filter(|_| !self.has_looked) {
            // Where that is not permitted, or there is no such CPU, the engine runs anywhere.
            let _ = affinity::set_affinity(Tid(0), &[cpu]);
        }
        self.phases.lap("wait");
        self.notice()?;
        self.tick()?;
        self.let_source_work()?;
        self.take_accesses();
        self.process_accesses()?;
        self.settle()?;
        self.feed(Input::IntervalEnd)?;
        self.flush()
    }

    /// Reports threads that came to other CPUs or began, and cpusets that have changed.
    fn notice(&mut self) -> Result<(), SessionError> {
        let happened = self.migrations.poll(&self.targets, &self.host, self.begin);
        if happened.threads_began {
            self.feed(Input::Noticed(Noticed::ThreadsBegan))?;
        }
        if !happened.arrivals.is_empty() {
            self.feed(Input::Migrated(happened.arrivals))?;
        }
        let widened = |process: &ProcessId| self.targets.may_use_others(Pid(process.0));
        if self.pure.confined().iter().any(widened) {
            self.feed(Input::Noticed(Noticed::CpusetChanged))?;
        }
        Ok(())
    }

    /// Reports what has come of orders.
    fn settle(&mut self) -> Result<(), SessionError> {
        let results = self.finished();
        if results.is_empty() {
            return Ok(());
        }
        let landed = self.landed(results, Duration::ZERO);
        self.feed(landed)
    }

    /// Hands on lines that somebody may wait for.
    fn flush(&mut self) -> Result<(), SessionError> {
        match &mut self.journal {
            Some(journal) if std::mem::take(&mut self.unflushed) => {
                journal.flush().map_err(SessionError::Journal)
            }
            _ => Ok(()),
        }
    }

    fn log_input(&mut self, t: Micros, input: &Input) -> Result<(), SessionError> {
        match &mut self.journal {
            Some(journal) => journal.input(t, input).map_err(SessionError::Journal),
            None => Ok(()),
        }
    }

    fn log_output(&mut self, output: &Output) -> Result<(), SessionError> {
        self.unflushed |= matches!(output, Output::Settled(_) | Output::WasSplit(_));
        match &mut self.journal {
            Some(journal) => journal.output(output).map_err(SessionError::Journal),
            None => Ok(()),
        }
    }

    /// A program says which of its memory matters.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn areas(&mut self, areas: Areas) -> Result<(), SessionError> {
        let pid = Pid(areas.process.0);
        if areas.areas.is_empty() {
            self.named.remove(&pid);
            // What was found holds again from the next change of its mappings on.
            self.found.remove(&pid);
        } else {
            self.named.insert(pid);
        }
        self.feed(Input::Areas(areas))
    }

    /// A program says where its threads are in its parallel constructs.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn constructs(&mut self, constructs: Constructs) -> Result<(), SessionError> {
        self.feed(Input::Constructs(constructs))
    }

    /// The mapping with this address is the engine's own memory: it is not found to be a hot area.
    pub fn leave_out(&mut self, address: u64) {
        self.own.push(address);
    }

    /// Waits end early when this can be read; whoever steps then makes it unreadable again.
    pub fn wake_by(&mut self, waker: OwnedFd) {
        self.waker = Some(waker);
    }

    /// The hot areas, and what was counted for each.
    pub fn hot(&self) -> &HotAreas {
        self.pure.hot()
    }

    /// Most pages of all processes that were in memory at a look.
    pub fn resident_pages(&self) -> u64 {
        self.resident_pages
    }

    /// A program says where it is in its work.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn mark(&mut self, mark: Mark) -> Result<(), SessionError> {
        self.feed(Input::Marked(mark))
    }

    /// True once no process of the choice is left (and there was a look).
    pub fn over(&self) -> bool {
        self.has_looked && self.targets.processes().is_empty()
    }

    /// Ends the session: undoes what the source changed, and sums up.
    ///
    /// # Errors
    /// If the rest of the journal cannot be written.
    pub fn finish(mut self) -> Result<Summary, SessionError> {
        self.movers.leave();
        self.movers.rest();
        let landed = self.landed(self.finished(), Duration::ZERO);
        self.feed(landed)?;
        self.feed(Input::End)?;
        self.phases.add("move", self.movers.used());
        self.phases.add("helpers", self.source.helpers_cpu());
        self.phases.lap("decide");
        self.keeper.end(self.targets.proc());
        self.source.end(&self.targets);
        self.phases.lap("end");
        if let Some(journal) = &mut self.journal {
            journal.flush().map_err(SessionError::Journal)?;
        }
        Ok(self.summary())
    }
}
