//! The second pass: along the cheapest trail of homes, what each epoch (reads between two writes) does: which readers
//! get a replica, whether global memory holds one, what is counted, and the actions.

use super::replicated::Epoch;
use super::trail::Step;
use super::{Kind, Options, PageAction, Sink};
use crate::account::Charges;
use crate::history::PageRun;
use crate::ids::{Node, Page, Time};
use crate::machine::{Global, Uniform};

/// Where in a page's references something happens: its index among them, and the Time of its run's first reference.
#[derive(Clone, Copy, Debug, Default)]
struct At {
    reference: u64,
    time: Time,
}

pub(super) struct Replay {
    replication: bool,
    remote_excess: f64,
    page_move: f64,
    global: Option<Global>,
    /// Node number of global memory, whether there is one or not.
    global_node: usize,
    epoch: Epoch,
    /// First read of each reader of the epoch.
    first_read: Vec<At>,
    /// Scratch: readers that get a copy, in order of first read.
    copied: Vec<u16>,
}

/// One page on its way: what is counted and where its actions go.
struct Walk<'a, S: Sink> {
    page: Page,
    sink: &'a mut S,
    counts: Charges,
}

impl<S: Sink> Walk<'_, S> {
    fn emit(&mut self, kind: Kind, at: At, from: usize, to: usize) {
        let (from, to) = (Node(from as u16), Node(to as u16));
        let At { reference, time } = at;
        self.sink.action(&PageAction { page: self.page, reference, time, kind, from, to });
    }

    /// A page copy; `at_g`: priced at G rather than R.
    fn copy(&mut self, kind: Kind, at: At, from: usize, to: usize, at_g: bool) {
        *(if at_g { &mut self.counts.global_copies } else { &mut self.counts.copies }) += 1;
        *(if kind == Kind::Move { &mut self.counts.moves } else { &mut self.counts.replications }) += 1;
        self.emit(kind, at, from, to);
    }
}

impl Replay {
    pub fn new(costs: &Uniform, options: Options) -> Replay {
        let nodes = usize::from(costs.nodes);
        Replay {
            replication: options.replication,
            remote_excess: costs.remote - 1.0,
            page_move: costs.page_move,
            global: costs.global,
            global_node: nodes,
            epoch: Epoch::new(nodes),
            first_read: vec![At::default(); nodes],
            copied: Vec::new(),
        }
    }

    /// Replays one page that ends at `last_home` after the changes of home in `path`; `any_set`: it begins with a copy
    /// at every reader.
    pub fn page(
        &mut self,
        page: Page,
        runs: impl Iterator<Item = PageRun>,
        last_home: usize,
        path: &[Step],
        any_set: bool,
        sink: &mut impl Sink,
    ) -> Charges {
        let mut walk = Walk { page, sink, counts: Charges::default() };
        let mut home = path.first().map_or(last_home, |step| usize::from(step.from));
        let mut steps = path.iter().peekable();
        let mut replicated_start = self.replication && any_set;
        if !replicated_start {
            walk.emit(Kind::Place, At::default(), home, home);
        }
        let mut reference = 0;
        for (event, run) in (0u32..).zip(runs) {
            let at = At { reference, time: run.first };
            reference += run.references();
            let next_home =
                steps.next_if(|step| step.event == event).map_or(home, |step| usize::from(step.to));
            let node = run.node.index();
            if !self.replication {
                self.change_home(&mut walk, at, home, next_home);
                home = next_home;
                self.count(&mut walk.counts, node, home, run.references());
                continue;
            }
            self.add_reads(node, run.reads_before, at);
            if run.writes > 0 {
                let write = At { reference: at.reference + u64::from(run.reads_before), time: at.time };
                if std::mem::take(&mut replicated_start) {
                    self.replicated_start(&mut walk, Some((next_home, write)));
                } else {
                    self.end_epoch(&mut walk, home, Some((next_home, write)));
                }
                home = next_home;
                self.count(&mut walk.counts, node, home, u64::from(run.writes + run.reads_between));
                let after = reference - u64::from(run.reads_after);
                self.add_reads(node, run.reads_after, At { reference: after, time: at.time });
            }
        }
        if replicated_start {
            self.replicated_start(&mut walk, None);
        } else {
            self.end_epoch(&mut walk, home, None);
        }
        walk.counts
    }

    fn add_reads(&mut self, node: usize, reads: u32, at: At) {
        if reads > 0 && self.epoch.reads[node] == 0 {
            self.first_read[node] = at;
        }
        self.epoch.add(node, reads);
    }

    /// Counts references by `node` to the only copy at `home`.
    #[inline]
    fn count(&self, counts: &mut Charges, node: usize, home: usize, references: u64) {
        *(match home {
            _ if home == node => &mut counts.local,
            _ if home == self.global_node => &mut counts.global,
            _ => &mut counts.remote,
        }) += references;
    }

    fn change_home(&self, walk: &mut Walk<impl Sink>, at: At, from: usize, to: usize) {
        if from != to {
            walk.copy(Kind::Move, at, from, to, from == self.global_node || to == self.global_node);
        }
    }

    /// The first epoch where the page starts with a copy at every reader, free of charge.
    fn replicated_start(&mut self, walk: &mut Walk<impl Sink>, end: Option<(usize, At)>) {
        let readers = std::mem::take(&mut self.epoch.readers);
        for &node in &readers {
            let node = usize::from(node);
            walk.counts.local += std::mem::take(&mut self.epoch.reads[node]);
            walk.emit(Kind::Place, At::default(), node, node);
        }
        if let Some((home, write)) = end {
            let among = readers.iter().any(|&node| usize::from(node) == home);
            if !among {
                walk.emit(Kind::Place, At::default(), home, home);
            }
            if readers.len() + usize::from(!among) > 1 {
                walk.emit(Kind::Collapse, write, home, home);
            }
        }
        self.epoch.readers = readers;
        self.epoch.readers.clear();
    }

    /// Settles the epoch that began with the page at `home` and ends with a write, before which its only copy is at
    /// the node of `end`, or with the trace.
    fn end_epoch(&mut self, walk: &mut Walk<impl Sink>, home: usize, end: Option<(usize, At)>) {
        if self.epoch.readers.is_empty() {
            if let Some((to, write)) = end {
                self.change_home(walk, write, home, to);
            }
            return;
        }
        let to = end.map(|(to, _)| to);
        let through_global = self.through_global(home, to);
        let all_served = self.count_epoch(&mut walk.counts, home, to, through_global);
        let home_reads = self.epoch.reads.get(home).is_some_and(|&reads| reads > 0);
        // A home that neither reads, nor is read from, nor stays home is dropped with the first copy. Global memory is
        // kept while it makes further copies cheaper.
        let late_copy = to.is_some_and(|to| to != home && !self.is_reader(to) && to != self.global_node);
        let needed = to == Some(home)
            || home_reads
            || if home == self.global_node {
                !all_served || self.copied.len() + usize::from(late_copy) > 1
            } else {
                !all_served && !through_global
            };
        let held = self.make_copies(walk, home, needed, through_global);
        if let Some((to, write)) = end {
            if late_copy {
                walk.copy(Kind::Move, write, held.source, to, through_global);
            } else if held.copies > 1 {
                walk.emit(Kind::Collapse, write, to, to);
            }
        }
        self.epoch.clear();
    }

    fn is_reader(&self, node: usize) -> bool {
        self.epoch.reads.get(node).is_some_and(|&reads| reads > 0)
    }

    /// Whether the cheapest way from `home` to `to` through this epoch keeps a copy in global memory (mode B).
    fn through_global(&self, home: usize, to: Option<usize>) -> bool {
        let Some(global) = self.global else { return false };
        if home == self.global_node || to == Some(self.global_node) {
            return true;
        }
        let paid = |node: usize| {
            let reads = self.epoch.reads[node] as f64;
            let m = (reads * self.remote_excess).min(self.page_move);
            (m, (reads * (global.access - 1.0)).min(global.page_move))
        };
        let (mut without, mut with) = (0.0, global.page_move);
        for &node in self.epoch.readers.iter().filter(|&&node| usize::from(node) != home) {
            let (m, p) = paid(usize::from(node));
            without += m;
            with += p;
        }
        if let Some(to) = to.filter(|&to| to != home) {
            let (m, p) = paid(to);
            without += self.page_move - m;
            with += global.page_move - p;
        }
        with < without
    }

    /// Counts the epoch's reads and lists in `copied` the readers that get a copy. True if no reader but `home` is
    /// left without.
    fn count_epoch(
        &mut self,
        counts: &mut Charges,
        home: usize,
        to: Option<usize>,
        through_global: bool,
    ) -> bool {
        let (excess, copy) = match (self.global, through_global) {
            (Some(global), true) => (global.access - 1.0, global.page_move),
            _ => (self.remote_excess, self.page_move),
        };
        self.copied.clear();
        let mut all_served = true;
        for &reader in &self.epoch.readers {
            let node = usize::from(reader);
            let reads = self.epoch.reads[node];
            if node == home {
                counts.local += reads;
            } else if to == Some(node) || reads as f64 * excess > copy {
                counts.local += reads;
                self.copied.push(reader);
            } else {
                all_served = false;
                *(if through_global { &mut counts.global } else { &mut counts.remote }) += reads;
            }
        }
        all_served
    }

    /// Makes the copies of an epoch; `needed`: the copy at `home` stays.
    fn make_copies(
        &self,
        walk: &mut Walk<impl Sink>,
        home: usize,
        needed: bool,
        through_global: bool,
    ) -> Held {
        let mut held = Held { source: home, copies: 1, droppable: !needed };
        if through_global && home != self.global_node {
            let others = self.epoch.readers.iter().find(|&&node| usize::from(node) != home);
            let first = usize::from(*others.unwrap_or(&self.epoch.readers[0]));
            held.add(walk, self.first_read[first], self.global_node, true);
            held.source = self.global_node;
        }
        for &node in &self.copied {
            held.add(walk, self.first_read[usize::from(node)], usize::from(node), through_global);
        }
        held
    }
}

/// The copies of a page within an epoch.
struct Held {
    /// A copy to copy from.
    source: usize,
    copies: usize,
    /// The first copy made replaces the home.
    droppable: bool,
}

impl Held {
    fn add(&mut self, walk: &mut Walk<impl Sink>, at: At, to: usize, at_g: bool) {
        if std::mem::take(&mut self.droppable) {
            walk.copy(Kind::Move, at, self.source, to, at_g);
            self.source = to;
        } else {
            walk.copy(Kind::Replicate, at, self.source, to, at_g);
            self.copies += 1;
        }
    }
}
