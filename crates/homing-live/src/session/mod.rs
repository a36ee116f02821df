//! A session: one engine at work for some processes. Time enters the policy here alone, as microseconds of the
//! session; sources and movers read the clock for their own dates.
//!
//! Each step looks at the processes, takes what the source saw, asks the kernel where those pages are, tells the policy,
//! carries out what it asked for, and accounts.

mod huge;
mod look;
mod migrations;
pub(crate) mod news;
mod orders;
mod pace;
mod sightings;
pub(crate) mod threads;
mod wait;

use crate::account::{by_name, Account, Summary};
use crate::config::Config;
use crate::executor::Kernel;
use crate::host::Host;
use crate::journal::{Header, Line, Writer};
use crate::mover::Mover;
use crate::neighbours::Neighbours;
use crate::phases::Phases;
use crate::plan::Plan;
use crate::regions::Region;
use crate::source::{self, Access, Places, Source};
use crate::targets::{Choice, Targets};
use homing_core::engine::{Engine, Observation};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::Costs;
use homing_core::policy::Policy;
use homing_linux::errln;
use homing_linux::huge::Splitter;
use homing_linux::pagemap::PageMap;
use homing_linux::proc::maps::Class;
use homing_linux::proc::{Pid, Proc, ProcError};
use migrations::Migrations;
use news::News;
use pace::Pace;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// A session that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such source.
    #[error("no source `{0}`: expected auto, or one of {names}", names = source::SOURCES.iter().map(|s| s.name).collect::<Vec<_>>().join(", "))]
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

/// Where a page is is asked again when its last answer is older, in microseconds.
const STALE_US: u64 = 5_000_000;

/// ... where the kernel moves pages by itself.
const STALE_WITH_BALANCING_US: u64 = 500_000;

/// Moves that are made in the middle of a step; fewer wait for its end, since a call costs much by itself.
const MANY: usize = 512;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

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

/// A process's regions, and what tells its huge pages.
struct View {
    number: u32,
    regions: Vec<Region>,
    page_map: Option<PageMap>,
}

/// An engine at work.
pub struct Session<'p> {
    config: Config,
    host: Host,
    targets: Targets,
    views: BTreeMap<Pid, View>,
    processes: u32,
    threads: u32,
    plan: Plan,
    source: Box<dyn Source>,
    entry: &'static source::Entry,
    engine: Engine<'p, Kernel>,
    account: Account,
    journal: Option<Writer<Box<dyn Write>>>,
    weight: f64,
    begin: Instant,
    pace: Pace,
    news: News,
    neighbours: Neighbours,
    migrations: Migrations,
    splitter: Splitter,
    to_split: Vec<Page>,
    /// Of the processes that were there at the last look.
    ends: BTreeMap<Pid, OwnedFd>,
    flushed: Instant,
    phases: Phases,
    bound: usize,
    would_move: u64,
    accesses: Vec<Access>,
    /// So many of them the policy has been told.
    heard: usize,
    /// Those who use the page that was accessed: kept, so that not every access needs memory.
    shares: Vec<(Node, f64)>,
}

/// Accesses by the name of what their mapping holds, where there were any.
fn by_class(account: &Account) -> BTreeMap<String, u64> {
    let counts = Class::ALL.iter().map(|&class| (class.name().to_owned(), account.by_class[class as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// References of a visit: as many as make a move worth it.
fn weight_of_a_visit(costs: &Costs) -> f64 {
    let nodes = costs.memories();
    let pairs = (0..nodes).flat_map(|a| (0..nodes).map(move |b| (Node(a), Node(b)))).filter(|(a, b)| a != b);
    let references = pairs.filter_map(|(by, at)| {
        let saved = costs.access(by, at) - costs.access(by, by);
        (saved > 0.0).then(|| costs.copy(at, by) / saved)
    });
    let least = references.fold(f64::INFINITY, f64::min);
    if least.is_finite() {
        least.max(1.0)
    } else {
        1.0
    }
}

/// Opens the source of that name. `auto` takes the best that works, which may be another than the best that could: only one
/// session at a time has hint faults.
fn open_source(
    name: &str,
    places: &Places,
    host: &Host,
) -> Result<(&'static source::Entry, Box<dyn Source>), SessionError> {
    let entry = match name {
        "auto" => source::best(places),
        name => source::find(name).ok_or_else(|| SessionError::NoSource(name.to_owned()))?,
    };
    if let Some(why) = (entry.missing)(places) {
        return Err(SessionError::Missing { name: entry.name, why });
    }
    let error = match (entry.open)(places, host) {
        Ok(source) => return Ok((entry, source)),
        Err(error) => error,
    };
    let after = source::SOURCES.iter().skip_while(|other| other.name != entry.name).skip(1);
    for next in after.filter(|next| name == "auto" && (next.missing)(places).is_none()) {
        if let Ok(source) = (next.open)(places, host) {
            errln!(
                "homing: source {}: {error}; going on with {}, confidence {}",
                entry.name,
                next.name,
                next.confidence
            );
            return Ok((next, source));
        }
    }
    Err(SessionError::Source { name: entry.name, error })
}

impl<'p> Session<'p> {
    /// Opens the source and begins. Processes are looked at in the first step.
    ///
    /// # Errors
    /// If the source does not exist or does not work here, or the journal cannot be written.
    pub fn begin(setup: Setup<'p>) -> Result<Session<'p>, SessionError> {
        let Setup { config, host, costs, policy, choice, places, journal, command, plan } = setup;
        let (entry, source) = open_source(&config.source, &places, &host)?;
        let mover = Mover { threads: config.movers, ..Mover::default() };
        let kernel = Kernel::new(host.clone(), mover, config.dry_run);
        let weight = config.weight.unwrap_or_else(|| weight_of_a_visit(&costs));
        let mut header = Header::new(&config.policy, entry.name, &costs);
        (header.command, header.set) = (command, config.set.clone());
        header.nodes = (0..host.nodes()).map(|node| host.kernel_id(Node(node as u16))).collect();
        header.context.weight = weight;
        header.context.interval = Some(config.interval.as_micros() as u64);
        let mut engine = Engine::new(policy, kernel, false);
        engine.begin(&header.context);
        let header = |teed| Header { teed, ..header };
        let journal = journal.map(|(out, teed)| Writer::new(out, &header(teed))).transpose();
        Ok(Session {
            weight,
            targets: Targets::new(Proc::default(), choice),
            views: BTreeMap::new(),
            processes: 0,
            source,
            entry,
            engine,
            plan,
            threads: 0,
            account: Account::default(),
            journal: journal.map_err(SessionError::Journal)?,
            begin: Instant::now(),
            pace: Pace::new(),
            news: News::default(),
            neighbours: Neighbours::default(),
            migrations: Migrations::begin(&host),
            splitter: Splitter::default(),
            to_split: Vec::new(),
            ends: BTreeMap::new(),
            flushed: Instant::now(),
            phases: Phases::begin(),
            bound: 0,
            would_move: 0,
            accesses: Vec::new(),
            heard: 0,
            shares: Vec::new(),
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
        &self.account
    }

    /// What the source has not seen.
    pub fn losses(&self) -> source::Losses {
        self.source.losses()
    }

    /// The pages that were heard of.
    pub fn kernel(&self) -> &Kernel {
        self.engine.executor()
    }

    fn now(&self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }

    /// One interval's work, without waiting for it.
    ///
    /// # Errors
    /// If the source fails, the cgroup goes away, or the journal cannot be written.
    pub fn step(&mut self) -> Result<(), SessionError> {
        self.phases.lap("wait");
        self.follow_threads()?;
        if self.kernel().confined().iter().any(|&pid| self.targets.may_use_others(pid)) {
            self.pace.at_once();
        }
        if self.pace.due() {
            let quiet = self.look()?;
            let cost = self.phases.lap("look");
            self.pace.looked(cost, quiet);
        }
        self.let_source_work()?;
        self.take_accesses();
        self.hear_all()?;
        self.split_pages()?;
        let t = self.now();
        self.put(&Line::Interval { t })?;
        self.engine.observe(Observation::IntervalEnd(Time(t)));
        self.follow_plan(t);
        self.note_asked(t)?;
        let (sightings, news) = self.news.take();
        self.source.learnt(sightings, news);
        self.phases.lap("decide");
        self.carry_out()?;
        self.phases.lap("move");
        self.account.end_interval(self.now() / 1000);
        Ok(())
    }

    /// Finds the pages of some accesses and tells the policy of each. What it knows to belong elsewhere does not wait for
    /// the rest.
    fn hear(&mut self, accesses: &[Access]) -> Result<(), SessionError> {
        let known = self.pages_of(accesses)?;
        self.locate(known.iter().flatten().copied())?;
        self.phases.lap("locate");
        let mut t = self.now();
        for (access, page) in accesses.iter().zip(known) {
            if self.config.rate_limit == 0 && self.kernel().waiting() >= MANY && self.kernel().hungry() {
                self.phases.lap("decide");
                self.carry_out()?;
                self.phases.lap("move");
                t = self.now();
            }
            match page.filter(|&page| self.kernel().pages().alive(page)) {
                Some(page) => self.tell(access, page, t)?,
                None => self.account.unmapped += 1,
            }
        }
        self.phases.lap("decide");
        Ok(())
    }

    fn put(&mut self, line: &Line) -> Result<(), SessionError> {
        match &mut self.journal {
            Some(journal) => journal.put(line).map_err(SessionError::Journal),
            None => Ok(()),
        }
    }

    /// True once no process of the choice is left (and there was a look).
    pub fn over(&self) -> bool {
        self.pace.has_looked() && self.targets.processes().is_empty()
    }

    /// Ends the session: undoes what the source changed, and sums up.
    ///
    /// # Errors
    /// If the rest of the journal cannot be written.
    pub fn finish(mut self) -> Result<Summary, SessionError> {
        self.engine.executor_mut().stop();
        self.settle_all()?;
        self.account.end_interval(self.now() / 1000);
        self.phases.add("move", self.kernel().moving().1);
        self.phases.add("helpers", self.source.helpers_cpu());
        self.source.end(&self.targets);
        self.phases.lap("end");
        if let Some(journal) = &mut self.journal {
            journal.flush().map_err(SessionError::Journal)?;
        }
        let id = |node: Node| u64::from(self.host.kernel_id(node));
        let account = &self.account;
        let moved_before = account.total.moved == 0;
        let before = if moved_before { account.total } else { account.before };
        Ok(Summary {
            schema: 1,
            policy: self.config.policy.clone(),
            source: self.entry.name,
            confidence: self.entry.confidence,
            dry_run: self.config.dry_run,
            seconds: self.begin.elapsed().as_secs_f64(),
            samples: account.total.local + account.total.remote,
            nonlocal_percent_before: before.nonlocal_percent(),
            nonlocal_percent_after: account.after().nonlocal_percent(),
            pages: self.kernel().pages().len() as u64,
            pages_moved: account.total.moved,
            bytes_moved: account.bytes_moved,
            would_move: self.would_move,
            moves: account.moves.iter().map(|(&(from, to), &pages)| [id(from), id(to), pages]).collect(),
            failures: by_name(&account.failures),
            refused: account.refused.iter().map(|(why, &count)| ((*why).to_owned(), count)).collect(),
            moved_by_others: account.moved_by_others,
            left_waiting: self.kernel().waiting() as u64,
            unheard: (self.accesses.len() - self.heard) as u64,
            threads_moved: account.threads_moved,
            thread_events_refused: self.migrations.refused(),
            forwarded: account.forwarded,
            huge_pages_split: account.split,
            huge_pages_not_split: account.not_split,
            by_class: by_class(account),
            losses: self.source.losses(),
            scans: self.source.scans(),
            denied: self.targets.denied().len() as u64,
            engine_cpu_seconds: self.phases.total().as_secs_f64(),
            engine_cpu_by_phase: self.phases.seconds(),
            moving_seconds: account.moving_us as f64 / 1e6,
            stopped_seconds: account.stopped_us as f64 / 1e6,
            intervals: account.intervals.clone(),
        })
    }
}
