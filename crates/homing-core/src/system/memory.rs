//! The modelled memory system as executor: it serves references, tells the monitor, moves pages, and accounts.

use super::{Interval, Run, Setup, SystemError};
use crate::account::Account;
use crate::action::{Action, Kind as What, Locations, Outcome};
use crate::cache::{Counts, Hierarchy, Sink, Transaction};
use crate::engine::Executor;
use crate::history::Placed;
use crate::ids::{Node, Page, Time};
use crate::machine::Costs;
use crate::monitor::distance::Representation;
use crate::monitor::{Missed, Monitor, Observed, Poll, Reports, Seen, NO_HOME};
use crate::policy::placement::Placement;
use crate::time::{CpuWork, Elapsed, Mover, Times, Work};
use crate::trace::Turn;

/// Caches, memory, and what watches them.
pub struct Memory<'a, M> {
    hierarchy: Hierarchy,
    /// The monitor, the placement, and what was counted.
    pub watch: Watch<'a, M>,
    times: Option<&'a Times>,
    mover: Mover,
    /// When the interval began.
    began: Books,
    intervals: Vec<Interval>,
    modelled: Option<Elapsed>,
}

/// What policies are told at the end of an interval.
pub struct Told {
    /// What requests waited at each memory ([`Times::waits`]).
    pub waits: Vec<f64>,
    /// How long each node took ([`Elapsed::paces`]).
    pub paces: Vec<f64>,
}

/// What was counted until some moment.
#[derive(Clone, Debug)]
pub struct Books {
    cpus: Vec<Counts>,
    /// Demand transactions by CPU and home, write-backs by node and home, moves by where from and where to.
    demand: Vec<u64>,
    write_backs: Vec<u64>,
    moves: Vec<u64>,
}

/// What transactions are told to.
pub struct Watch<'a, M> {
    /// The monitor.
    pub monitor: M,
    /// Its reports since they were last taken.
    pub reports: Reports,
    /// Time of the first reference of the stretch.
    first: Time,
    /// Time of the reference that is being served.
    pub time: Time,
    costs: &'a Costs,
    placement: &'a Placement,
    addresses: &'a crate::cache::Addresses,
    nodes: Vec<Node>,
    /// The node of each page, `NO_HOME` before its first transaction.
    pub homes: Vec<Node>,
    /// Pages that the kernel has placed for a thread.
    pub kernel: Placed,
    placed: u64,
    /// Pages that were placed and that the policy has not heard of.
    pub born: Vec<u32>,
    representation: Representation,
    account: Account,
    /// As in [`Books`].
    demand: Vec<u64>,
    write_backs: Vec<u64>,
    moves: Vec<u64>,
}

impl<'a, M: Monitor> Memory<'a, M> {
    /// Empty caches, and no page has a home.
    ///
    /// # Errors
    /// A placement that needs the whole trace; caches that cannot be built.
    pub fn new(setup: &Setup<'a>, monitor: M) -> Result<Memory<'a, M>, SystemError> {
        match setup.placement {
            Placement::Best => return Err(SystemError::Placement("best")),
            Placement::Worst => return Err(SystemError::Placement("worst")),
            _ => {}
        }
        let hierarchy = Hierarchy::new(setup.shape, setup.cpus.cpus(), setup.addresses.clone())?;
        let cpus = setup.cpus.cpus().len();
        let memories = usize::from(setup.costs.memories());
        let watch = Watch {
            monitor,
            reports: Reports::default(),
            first: Time(0),
            time: Time(0),
            costs: setup.costs,
            placement: setup.placement,
            addresses: setup.addresses,
            nodes: (0..cpus as u16).map(|cpu| setup.cpus.node(cpu)).collect(),
            homes: vec![NO_HOME; setup.addresses.pages() as usize],
            kernel: Placed::new(setup.addresses.page_size()),
            placed: 0,
            born: Vec::new(),
            representation: Representation::new(cpus, setup.addresses.pages()),
            account: Account::default(),
            demand: vec![0; cpus * memories],
            write_backs: vec![0; memories * memories],
            moves: vec![0; memories * memories],
        };
        Ok(Memory {
            hierarchy,
            watch,
            times: setup.times,
            mover: setup.mover,
            began: Books {
                cpus: vec![Counts::default(); cpus],
                demand: vec![0; cpus * memories],
                write_backs: vec![0; memories * memories],
                moves: vec![0; memories * memories],
            },
            intervals: Vec::new(),
            modelled: None,
        })
    }

    /// Serves references until one makes the monitor report something. Returns how many.
    pub fn refer(&mut self, cpu: u16, turn: &Turn) -> usize {
        self.watch.first = turn.first;
        let served = self.hierarchy.serve(cpu, turn.addresses, turn.kinds, &mut self.watch);
        self.watch.time = Time(turn.first.0 + served.saturating_sub(1) as u64);
        served
    }

    /// The monitor's software looks at the hardware, or at one CPU's.
    pub fn poll(&mut self, cpu: Option<u16>) {
        let Watch { monitor, reports, nodes, homes, time, .. } = &mut self.watch;
        let mut poll = Poll { hierarchy: &mut self.hierarchy, nodes, homes, time: *time, cpu };
        monitor.poll(&mut poll, reports);
    }

    /// The monitor hears that an interval is over.
    pub fn interval_end(&mut self) {
        let Watch { monitor, reports, nodes, homes, time, .. } = &mut self.watch;
        let mut poll = Poll { hierarchy: &mut self.hierarchy, nodes, homes, time: *time, cpu: None };
        monitor.interval_end(&mut poll, reports);
    }

    /// What was reported, about pages that are somewhere: a profile of the future may name others.
    pub fn take_samples(&mut self) -> Vec<Observed> {
        let watch = &mut self.watch;
        let mut samples = std::mem::take(&mut watch.reports.samples);
        let all = samples.len();
        samples.retain(|sample| watch.homes[sample.page as usize] != NO_HOME);
        watch.reports.lost += (all - samples.len()) as u64;
        samples.iter().for_each(|sample| watch.representation.sample(sample));
        samples
    }

    fn memories(&self) -> usize {
        usize::from(self.watch.costs.memories())
    }

    /// What was counted until now.
    pub fn books(&self) -> Books {
        let watch = &self.watch;
        Books {
            cpus: self.hierarchy.counts().copied().collect(),
            demand: watch.demand.clone(),
            write_backs: watch.write_backs.clone(),
            moves: watch.moves.clone(),
        }
    }

    /// What was done between two moments.
    pub fn work(&self, from: &Books, to: &Books) -> Work {
        let memories = self.memories();
        let demand = minus(&to.demand, &from.demand);
        let cpu = |((cpu, after), before): ((usize, &Counts), &Counts)| CpuWork {
            node: self.watch.nodes[cpu],
            references: after.references - before.references,
            l1_misses: after.l1_misses - before.l1_misses,
            l3_hits: after.l3_hits - before.l3_hits,
            tlb_misses: after.tlb_misses - before.tlb_misses,
            shootdowns: after.shootdowns - before.shootdowns,
            demand: demand[cpu * memories..(cpu + 1) * memories].to_vec(),
        };
        Work {
            cpus: to.cpus.iter().enumerate().zip(&from.cpus).map(cpu).collect(),
            write_backs: minus(&to.write_backs, &from.write_backs),
            moves: minus(&to.moves, &from.moves),
        }
    }

    /// Closes the books on an interval, after the policy has acted; the program stood still for `still_ns` of it.
    /// Returns what policies are told, if times are modelled.
    pub fn close_interval(&mut self, end: u64, still_ns: f64) -> Option<Told> {
        let mover = self.mover;
        self.close_interval_as(end, |times, work| times.elapsed(work, mover).standing_still(still_ns))
    }

    /// The same, for a caller that models the interval's time.
    pub fn close_interval_as(
        &mut self,
        end: u64,
        elapsed: impl FnOnce(&Times, &Work) -> Elapsed,
    ) -> Option<Told> {
        let now = self.books();
        let work = self.work(&self.began, &now);
        let elapsed = self.times.map(|times| elapsed(times, &work));
        let told = self.times.zip(elapsed.as_ref()).map(|(times, elapsed)| Told {
            waits: times.waits(&work, elapsed.total_ns),
            paces: elapsed.paces(&work, self.memories()),
        });
        if let Some(elapsed) = &elapsed {
            self.modelled.get_or_insert_with(Elapsed::default).add(elapsed);
        }
        let memories = self.memories();
        let local = work.cpus.iter().map(|cpu| cpu.demand[cpu.node.index()]).sum();
        self.intervals.push(Interval {
            end,
            local,
            remote: work.cpus.iter().flat_map(|cpu| &cpu.demand).sum::<u64>() - local,
            write_backs: work.write_backs.iter().sum(),
            moves_to: (0..memories).map(|to| work.moves.iter().skip(to).step_by(memories).sum()).collect(),
            modelled: elapsed,
        });
        self.began = now;
        told
    }

    /// Translations that were taken out of each CPU's TLBs.
    pub fn shootdowns(&self) -> Vec<u64> {
        self.hierarchy.counts().map(|counts| counts.shootdowns).collect()
    }

    /// The intervals that were closed.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Takes a page's translations out of all TLBs.
    pub fn unmap(&mut self, page: Page) {
        self.hierarchy.unmap(page);
    }

    /// Pages that are somewhere.
    pub fn placed(&self) -> u64 {
        self.watch.placed
    }

    /// The sums, and the monitor.
    pub fn finish(self) -> (Run, M) {
        let watch = self.watch;
        let homes = watch.homes.iter().enumerate().filter(|(_, &home)| home != NO_HOME);
        let run = Run {
            account: watch.account,
            caches: self.hierarchy.total(),
            intervals: self.intervals,
            modelled: self.modelled,
            distance: watch.representation.distance(),
            lost: watch.reports.lost,
            interrupts: watch.reports.interrupts,
            homes: homes.map(|(page, &home)| (watch.addresses.address(Page(page as u32)), home)).collect(),
            ..Run::default()
        };
        (run, watch.monitor)
    }
}

impl<M: Monitor> Executor for Memory<'_, M> {
    fn at(&self, page: Page) -> Locations {
        Locations::single(self.watch.homes[page.index()])
    }

    fn execute(&mut self, action: &Action) -> Outcome {
        let to = match action.kind {
            What::Freeze | What::Defrost => return Outcome::Done,
            What::Replicate { .. } => return Outcome::Refused("pages have one copy behind caches"),
            What::Move { to } | What::Collapse { keep: to } => to,
        };
        let from = self.watch.homes[action.page.index()];
        if to.0 >= self.watch.costs.memories() {
            return Outcome::Refused("no such node");
        }
        if from == NO_HOME {
            return Outcome::Refused("nothing has referred to the page yet");
        }
        if from == to {
            return Outcome::Already;
        }
        self.hierarchy.relocate(action.page);
        self.watch.homes[action.page.index()] = to;
        let memories = usize::from(self.watch.costs.memories());
        self.watch.moves[from.index() * memories + to.index()] += 1;
        let (from, to) = (Locations::single(from), Locations::single(to));
        self.watch.account.relocate(self.watch.costs, from, to);
        Outcome::Done
    }
}

impl<M: Monitor> Sink for Watch<'_, M> {
    fn begin(&mut self, index: usize) {
        self.time = Time(self.first.0 + index as u64);
    }

    fn more(&mut self) -> bool {
        self.reports.samples.is_empty()
    }

    fn tlb_miss(&mut self, cpu: u16, page: u32) {
        let miss = Missed { cpu, node: self.nodes[cpu as usize], page, time: self.time };
        self.monitor.tlb_miss(&miss, &mut self.reports);
    }

    fn transaction(&mut self, t: &Transaction) {
        let node = self.nodes[t.cpu as usize];
        let mut home = self.homes[t.page as usize];
        let address = self.addresses.address(Page(t.page));
        if home == NO_HOME {
            home = self.first_home(address, node);
            self.homes[t.page as usize] = home;
            self.placed += 1;
            self.born.push(t.page);
        }
        let memories = usize::from(self.costs.memories());
        if t.kind.is_demand() {
            self.account.refer(self.costs, node, Locations::single(home), 1);
            self.demand[t.cpu as usize * memories + home.index()] += 1;
            self.representation.transaction(t.cpu, t.page);
        } else {
            self.write_backs[node.index() * memories + home.index()] += 1;
        }
        let seen = Seen {
            cpu: t.cpu,
            node,
            home,
            page: t.page,
            address: address + u64::from(t.offset),
            kind: t.kind,
            latency: self.costs.access(node, home),
            time: self.time,
        };
        self.monitor.transaction(&seen, &mut self.reports);
    }
}

impl<M> Watch<'_, M> {
    /// Where a page is put that `toucher` refers to first.
    fn first_home(&self, address: u64, toucher: Node) -> Node {
        let nodes = self.costs.memories() - u16::from(self.costs.global_node().is_some());
        let number = address >> self.addresses.page_size().log2();
        let rule = self.placement.by_rule(self.placed, number, nodes);
        let global = || self.costs.global_node().filter(|_| *self.placement == Placement::Global);
        rule.or_else(global)
            .or_else(|| self.placement.in_file(address))
            .or_else(|| self.kernel.node(address))
            .unwrap_or(toucher)
    }
}

fn minus(after: &[u64], before: &[u64]) -> Vec<u64> {
    after.iter().zip(before).map(|(after, before)| after - before).collect()
}
