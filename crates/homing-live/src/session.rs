//! A session: one engine at work for some processes. The only place of this crate that reads the clock; time enters the
//! policy as microseconds of the session.
//!
//! Each step looks at the processes, takes what the source saw, asks the kernel where those pages are, tells the policy,
//! carries out what it asked for, and accounts.

use crate::account::{by_name, Account, Summary};
use crate::config::{Bind, Config};
use crate::executor::{Asked, Kernel, Settled};
use crate::host::Host;
use crate::journal::{Header, Line, Place, Writer};
use crate::mover::Mover;
use crate::plan::{Due, Plan};
use crate::regions::{self, Region};
use crate::source::{self, Access, Places, Source};
use crate::targets::{Changes, Choice, Targets};
use homing_core::action::{Action, Kind, Locations, Outcome};
use homing_core::engine::{Engine, Executor, Observation};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::Costs;
use homing_core::policy::{Policy, Sample, ThreadMoved, ThreadsChanged};
use homing_linux::pagemap::PageMap;
use homing_linux::proc::maps::{self, Class};
use homing_linux::proc::{Pid, Proc, ProcError};
use homing_linux::{clock, policy as affinity, ptrace};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{Duration, Instant};

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
    /// The journal cannot be written.
    #[error("cannot write the journal: {0}")]
    Journal(io::Error),
}

/// How often the processes' threads and mappings are looked at, at most.
const LOOK: Duration = Duration::from_millis(200);

/// How often the source is told whether anything moved.
const PACE: Duration = Duration::from_secs(2);

/// Where a page is is asked again when its last answer is older, in microseconds.
const STALE_US: u64 = 500_000;

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
    looked: Option<Instant>,
    flushed: Instant,
    cpu_before: Duration,
    bound: usize,
    paced: Instant,
    did: u64,
    would_move: u64,
    accesses: Vec<Access>,
}

/// What makes a move worth it: a page that is seen from elsewhere twice in a row goes.
fn weight_of_a_sighting(costs: &Costs) -> f64 {
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

impl<'p> Session<'p> {
    /// Opens the source and begins. Processes are looked at in the first step.
    ///
    /// # Errors
    /// If the source does not exist or does not work here, or the journal cannot be written.
    pub fn begin(setup: Setup<'p>) -> Result<Session<'p>, SessionError> {
        let Setup { config, host, costs, policy, choice, places, journal, command, plan } = setup;
        let entry = match config.source.as_str() {
            "auto" => source::best(&places),
            name => source::find(name).ok_or_else(|| SessionError::NoSource(name.to_owned()))?,
        };
        if let Some(why) = (entry.missing)(&places) {
            return Err(SessionError::Missing { name: entry.name, why });
        }
        let fail = |error| SessionError::Source { name: entry.name, error };
        let source = (entry.open)(&places, &host).map_err(fail)?;
        let mover = Mover { threads: config.movers, ..Mover::default() };
        let kernel = Kernel::new(host.clone(), mover, config.dry_run);
        let weight = config.weight.unwrap_or_else(|| weight_of_a_sighting(&costs));
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
            looked: None,
            flushed: Instant::now(),
            cpu_before: clock::cpu_time(),
            bound: 0,
            paced: Instant::now(),
            did: 0,
            would_move: 0,
            accesses: Vec::new(),
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
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.looked = Some(Instant::now());
            self.look()?;
        }
        let mut accesses = std::mem::take(&mut self.accesses);
        self.source.poll(&self.targets, &self.host, &mut accesses);
        let known = self.pages_of(&accesses)?;
        self.locate(known.iter().flatten().copied())?;
        for (access, page) in accesses.drain(..).zip(known) {
            match page.filter(|&page| self.kernel().pages().alive(page)) {
                Some(page) => self.tell(&access, page)?,
                None => self.account.unmapped += 1,
            }
        }
        self.accesses = accesses;
        let t = self.now();
        self.put(&Line::Interval { t })?;
        self.engine.observe(Observation::IntervalEnd(Time(t)));
        self.follow_plan(t);
        self.note_asked(t)?;
        self.carry_out()?;
        self.account.end_interval(self.now() / 1000);
        Ok(())
    }

    /// Looks at processes, threads and mappings.
    fn look(&mut self) -> Result<(), SessionError> {
        let changes = self.targets.look(&self.host)?;
        for pid in &changes.ended {
            self.views.remove(pid);
            self.drop_pages(|entry_pid, _| entry_pid == *pid)?;
        }
        for &pid in &changes.remapped {
            self.remapped(pid)?;
        }
        self.bind(&changes);
        for moved in &changes.moved {
            let t = self.now();
            let (from, to) = (moved.from, moved.to);
            self.put(&Line::ThreadMoved { t, thread: moved.thread.0, from: from.0, to: to.0 })?;
            let moved = ThreadMoved { thread: moved.thread, from, to, time: Time(t) };
            self.engine.observe(Observation::ThreadMoved(moved));
            self.account.threads_moved += 1;
            self.note_asked(t)?;
        }
        self.count_threads()?;
        let fail = |error| SessionError::Source { name: self.entry.name, error };
        self.source.follow(&self.targets, &changes).map_err(fail)?;
        if self.paced.elapsed() >= PACE {
            self.paced = Instant::now();
            let did = self.account.total.moved + self.would_move + self.account.threads_moved;
            let calm = std::mem::replace(&mut self.did, did) == did && changes.begun.is_empty();
            self.source.pace(calm);
        }
        self.engine.executor_mut().look_at_memory();
        Ok(())
    }

    fn count_threads(&mut self) -> Result<(), SessionError> {
        let threads = self.targets.processes().values().map(|process| process.tasks.len() as u32).sum();
        if std::mem::replace(&mut self.threads, threads) == threads {
            return Ok(());
        }
        let t = self.now();
        self.put(&Line::ThreadsChanged { t, threads })?;
        self.engine.observe(Observation::ThreadsChanged(ThreadsChanged { threads, time: Time(t) }));
        self.note_asked(t)
    }

    /// Names the regions of a process anew and forgets the pages that are in none any more.
    fn remapped(&mut self, pid: Pid) -> Result<(), SessionError> {
        let Some(process) = self.targets.processes().get(&pid) else { return Ok(()) };
        let regions = regions::of(&process.maps);
        self.drop_pages(|of, address| of == pid && regions::find(&regions, address).is_none())?;
        match self.views.get_mut(&pid) {
            Some(view) => view.regions = regions,
            None => {
                let page_map = PageMap::open(pid).ok();
                self.views.insert(pid, View { number: self.processes, regions, page_map });
                self.processes += 1;
            }
        }
        Ok(())
    }

    fn drop_pages(&mut self, gone: impl Fn(Pid, u64) -> bool) -> Result<(), SessionError> {
        let pages = self.kernel().pages().iter();
        let gone: Vec<Page> =
            pages.filter(|(_, entry)| gone(entry.pid, entry.address)).map(|(page, _)| page).collect();
        gone.into_iter().try_for_each(|page| self.page_gone(page))
    }

    fn page_gone(&mut self, page: Page) -> Result<(), SessionError> {
        self.put(&Line::Gone { page: page.0 })?;
        self.engine.observe(Observation::PageGone(page));
        self.engine.executor_mut().forget(page);
        Ok(())
    }

    /// Binds new threads to CPUs, in the order of their appearance.
    fn bind(&mut self, changes: &Changes) {
        let Some(how) = self.config.bind else { return };
        let nodes: Vec<&[u32]> = (0..self.host.nodes())
            .map(|node| self.host.cpus_of(Node(node as u16)))
            .filter(|c| !c.is_empty())
            .collect();
        let order: Vec<u32> = match how {
            Bind::Fill => nodes.concat(),
            Bind::RoundRobin => {
                let most = nodes.iter().map(|cpus| cpus.len()).max().unwrap_or(0);
                (0..most).flat_map(|i| nodes.iter().filter_map(move |cpus| cpus.get(i).copied())).collect()
            }
        };
        for &(_, tid) in &changes.new_tasks {
            let Some(&cpu) = order.get(self.bound % order.len().max(1)) else { return };
            self.bound += 1;
            if let Err(error) = affinity::set_affinity(tid, &[cpu]) {
                *self.account.failures.entry(error.raw_os_error().unwrap_or(0)).or_default() += 1;
            }
        }
    }

    /// The page of each access; `None` where no mapping of ours holds the address.
    fn pages_of(&mut self, accesses: &[Access]) -> Result<Vec<Option<Page>>, SessionError> {
        let mut pages = Vec::with_capacity(accesses.len());
        for access in accesses {
            let page = match self.known_page(access) {
                None => self.new_page(access)?,
                known => known,
            };
            pages.push(page);
        }
        Ok(pages)
    }

    fn known_page(&self, access: &Access) -> Option<Page> {
        let pages = self.kernel().pages();
        pages.find(access.pid, access.address & !(PAGE - 1)).or_else(|| {
            let page = pages.find(access.pid, access.address & !(HUGE - 1))?;
            (pages.entry(page).bytes == HUGE).then_some(page)
        })
    }

    fn new_page(&mut self, access: &Access) -> Result<Option<Page>, SessionError> {
        let Some(process) = self.targets.processes().get(&access.pid) else { return Ok(None) };
        let Some(mapping) = maps::find(&process.maps, access.address) else { return Ok(None) };
        let class = mapping.class();
        let huge = access.address & !(HUGE - 1);
        let whole = huge >= mapping.start && huge + HUGE <= mapping.end;
        let page_map = self.views.get(&access.pid).and_then(|view| view.page_map.as_ref());
        let is_huge = whole
            && matches!(class, Class::Anonymous | Class::Heap | Class::SharedMemory)
            && page_map.is_some_and(|map| map.is_huge(access.address).unwrap_or(false));
        let (address, bytes) = if is_huge { (huge, HUGE) } else { (access.address & !(PAGE - 1), PAGE) };
        let page = self.engine.executor_mut().pages_mut().number(access.pid, address, bytes, class);
        self.put(&Line::New { page: page.0, address })?;
        self.engine.observe(Observation::PageNew(page, address));
        Ok(Some(page))
    }

    /// Asks where pages are that nobody has asked for lately.
    fn locate(&mut self, pages: impl Iterator<Item = Page>) -> Result<(), SessionError> {
        let now = self.now();
        let kernel = self.engine.executor_mut();
        let wanted: BTreeSet<Page> = pages
            .filter(|&page| {
                let entry = kernel.pages().entry(page);
                entry.at.is_none() || now.saturating_sub(entry.asked) >= STALE_US
            })
            .collect();
        let wanted: Vec<Page> = wanted.into_iter().collect();
        let before: Vec<Option<Node>> = wanted.iter().map(|&page| kernel.pages().entry(page).at).collect();
        let nowhere = kernel.locate(&wanted, now);
        let moved = |(page, before): (&Page, &Option<Node>)| {
            let at = kernel.pages().entry(*page).at;
            before.is_some() && at.is_some() && at != *before
        };
        self.account.moved_by_others += wanted.iter().zip(&before).filter(|pair| moved(*pair)).count() as u64;
        nowhere.into_iter().try_for_each(|page| self.page_gone(page))
    }

    /// Orders what the plan has for now. What is not there yet waits: this run may be slower than the other.
    fn follow_plan(&mut self, t: u64) {
        let mut waits = Vec::new();
        for due in self.plan.take(t) {
            match self.planned_page(&due, t) {
                Some(page) => {
                    let kind = Kind::Move { to: due.to };
                    self.engine.executor_mut().execute(&Action { page, kind, reason: "as in the journal" });
                }
                None => waits.push(due),
            }
        }
        self.plan.put_back(waits);
    }

    /// The page of a planned move, if its region is there and the page is somewhere.
    fn planned_page(&mut self, due: &Due, t: u64) -> Option<Page> {
        let (&pid, view) = self.views.iter().find(|(_, view)| view.number == due.place.process)?;
        let region = view.regions.iter().find(|region| region.name == due.place.region)?;
        let address = region.start.checked_add(due.place.offset).filter(|&address| address < region.end)?;
        let class = maps::find(&self.targets.processes().get(&pid)?.maps, address)?.class();
        let kernel = self.engine.executor_mut();
        let page = kernel.pages_mut().number(pid, address, due.place.bytes, class);
        if kernel.pages().entry(page).at.is_none() && !kernel.locate(&[page], t).is_empty() {
            kernel.forget(page);
            return None;
        }
        Some(page)
    }

    /// Moves of the plan that are left.
    pub fn planned(&self) -> usize {
        self.plan.len()
    }

    /// Tells the policy of an access.
    fn tell(&mut self, access: &Access, page: Page) -> Result<(), SessionError> {
        let t = self.now();
        let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
        let Some(at) = entry.seen_at() else { return Ok(()) };
        entry.sighted(access.node);
        let (class, address, pid) = (entry.class, entry.address, entry.pid);
        self.account.access(access.node, at, class.name());
        if !class.movable() || !self.chosen(pid, address) {
            return Ok(());
        }
        let weight = access.weight.unwrap_or(self.weight);
        self.put(&Line::Sample {
            t,
            page: page.0,
            node: access.node.0,
            store: access.store,
            weight,
            at: at.0,
        })?;
        self.engine.observe(Observation::Sample(Sample {
            page,
            node: access.node,
            reads: u64::from(!access.store),
            writes: u64::from(access.store),
            weight,
            time: Time(t),
            at: Locations::single(at),
        }));
        self.note_asked(t)
    }

    fn chosen(&self, pid: Pid, address: u64) -> bool {
        self.config.regions.is_empty()
            || self
                .region(pid, address)
                .is_some_and(|(_, region)| regions::chosen(&region.name, &self.config.regions))
    }

    fn region(&self, pid: Pid, address: u64) -> Option<(u32, &Region)> {
        let view = self.views.get(&pid)?;
        Some((view.number, regions::find(&view.regions, address)?))
    }

    /// Writes down what the policy asked for.
    fn note_asked(&mut self, t: u64) -> Result<(), SessionError> {
        for asked in self.engine.executor_mut().take_asked() {
            match asked.outcome {
                Outcome::Refused(why) => *self.account.refused.entry(why).or_default() += 1,
                Outcome::Done if self.config.dry_run && matches!(asked.action.kind, Kind::Move { .. }) => {
                    self.would_move += 1;
                }
                _ => {}
            }
            if self.journal.is_some() {
                let line = self.action_line(&asked, t);
                self.put(&line)?;
            }
        }
        Ok(())
    }

    fn action_line(&self, asked: &Asked, t: u64) -> Line {
        let Action { page, kind, reason } = asked.action;
        let pages = self.kernel().pages();
        let entry = pages.alive(page).then(|| pages.entry(page));
        let place = entry.and_then(|entry| {
            let (process, region) = self.region(entry.pid, entry.address)?;
            let offset = entry.address.wrapping_sub(region.start);
            Some(Place { process, region: region.name.clone(), offset, bytes: entry.bytes })
        });
        Line::Action {
            t,
            page: page.0,
            action: kind,
            from: asked.from.map(|node| node.0),
            reason: reason.to_owned(),
            profile: entry.map(|entry| entry.seen.clone()).unwrap_or_default(),
            place: place.unwrap_or_default(),
            outcome: asked.outcome.into(),
        }
    }

    fn put(&mut self, line: &Line) -> Result<(), SessionError> {
        match &mut self.journal {
            Some(journal) => journal.put(line).map_err(SessionError::Journal),
            None => Ok(()),
        }
    }

    /// Moves pages, within the rate limit and the time budget.
    fn carry_out(&mut self) -> Result<(), SessionError> {
        let since = std::mem::replace(&mut self.flushed, Instant::now());
        if self.kernel().waiting() == 0 {
            return Ok(());
        }
        let rate = |limit: u64| (limit as f64 * since.elapsed().as_secs_f64()) as u64;
        let bytes =
            if self.config.rate_limit == 0 { u64::MAX } else { rate(self.config.rate_limit).max(PAGE) };
        let begin = Instant::now();
        let held = if self.config.stop_world { self.hold() } else { Vec::new() };
        let mut settled = Vec::new();
        self.engine.executor_mut().flush(bytes, Some(begin + self.config.time_budget), &mut settled);
        let took = begin.elapsed().as_micros() as u64;
        self.account.moving_us += took;
        self.account.stopped_us += if held.is_empty() { 0 } else { took };
        drop(held);
        let t = self.now();
        settled.iter().try_for_each(|settled| self.settle(settled, t))?;
        if let Some(journal) = &mut self.journal {
            journal.flush().map_err(SessionError::Journal)?;
        }
        Ok(())
    }

    fn hold(&self) -> Vec<ptrace::Held> {
        let ours = self.targets.processes().iter().filter(|(_, process)| process.ours);
        // A process that cannot be held is moved while it runs: slower for it, never wrong.
        ours.flat_map(|(&pid, _)| ptrace::hold_all(self.targets.proc(), pid).unwrap_or_default()).collect()
    }

    fn settle(&mut self, settled: &Settled, t: u64) -> Result<(), SessionError> {
        let Settled { action, outcome, .. } = settled;
        let bytes = self.kernel().pages().entry(action.page).bytes;
        if let Kind::Move { to } | Kind::Collapse { keep: to } = action.kind {
            self.account.settled(settled, to, bytes);
        }
        self.put(&Line::Result { t, page: action.page.0, action: action.kind, outcome: (*outcome).into() })?;
        self.engine.settle(action, *outcome, Time(t));
        self.note_asked(t)
    }

    /// True once no process of the choice is left (and there was a look).
    pub fn over(&self) -> bool {
        self.looked.is_some() && self.targets.processes().is_empty()
    }

    /// Ends the session: undoes what the source changed, and sums up.
    ///
    /// # Errors
    /// If the rest of the journal cannot be written.
    pub fn finish(mut self) -> Result<Summary, SessionError> {
        self.source.end(&self.targets);
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
            threads_moved: account.threads_moved,
            by_class: account.by_class.iter().map(|(class, &count)| ((*class).to_owned(), count)).collect(),
            losses: self.source.losses(),
            denied: self.targets.denied().len() as u64,
            engine_cpu_seconds: (clock::cpu_time().saturating_sub(self.cpu_before)).as_secs_f64(),
            moving_seconds: account.moving_us as f64 / 1e6,
            stopped_seconds: account.stopped_us as f64 / 1e6,
            intervals: account.intervals.clone(),
        })
    }
}
