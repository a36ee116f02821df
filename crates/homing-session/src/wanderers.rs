//! Threads that wander. A thread that the kernel moves from node to node drags its pages along, which never pays. It
//! is counted, so that whoever looks on can be told.
//!
//! Whoever asks for that has threads kept, all that work in a process, from the first time on that one of them stays on
//! another node or the engine displaces it, on any CPU of a node that has room: each on the node that has more of what
//! it uses than of what all of them use. Where memory says nothing, since all use the same or all of it is on one node,
//! threads that began one after the other are kept together: most programs give neighbours in their data to them.

use super::output::Output;
use super::processes::Moved;
use super::Session;
use homing_core::ids::{Micros, Node};
use homing_core::process::{ProcessId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// A thread wanders if it came to other nodes and stayed this often ...
const MOVES: usize = 3;
/// ... within this time.
const LATELY: Micros = Micros::from_millis(20_000);
/// Samples of a thread after which older ones count half.
const FADES: f64 = 128.0;
/// A thread works if it was seen to use memory within this time.
const WORKS: Micros = Micros::from_millis(5000);
/// Nobody is kept before this time after a thread or process began: what kept threads start inherits their CPUs.
const STEADY: Micros = Micros::from_millis(300);
/// A thread prefers a node if the node's share of what it uses is at least this much above that of what the others use.
const PREFERS: f64 = 0.2;
/// A few samples prove little: as many as these, shared between nodes as those of the others, are added to its own.
const DOUBT: f64 = 8.0;
/// What one that waited for a CPU where it was kept, or could not be kept, is left alone for.
const CROWDED: Micros = Micros::from_millis(60_000);

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
struct Wanderer {
    process: Option<ProcessId>,
    /// When it last came to other nodes, oldest first.
    moved: Vec<Micros>,
    wanders: bool,
    /// Samples by the node that had the page, and when the last one was.
    homes: Vec<f64>,
    used: Option<Micros>,
    kept: Option<Node>,
    /// Its last move, if it is kept on another node than that to which it went.
    left: Option<Moved>,
    left_alone_until: Micros,
    /// Somebody has bound it to the node where it came last. One that is kept looks like that, too.
    bound: bool,
}

impl Wanderer {
    /// Samples of pages that were at a node.
    fn samples(&self, node: Node) -> f64 {
        self.homes.get(node.index()).copied().unwrap_or(0.0)
    }

    /// True if it was seen to use memory lately.
    fn works(&self, now: Micros) -> bool {
        self.used.is_some_and(|used| now.since(used) < WORKS)
    }

    /// True if it may be kept.
    fn is_free(&self, now: Micros) -> bool {
        self.kept.is_none() && !self.bound && now >= self.left_alone_until
    }
}

/// A thread that could be kept on a node.
struct Wish {
    /// How much more of what it uses is there than of what the others use, from 0 to 1.
    prefers: f64,
    /// If threads in the order in which they began were on the nodes where they are, node by node, it would be there.
    in_order: bool,
    here: bool,
    id: ThreadId,
    node: Node,
}

/// All of these threads, the best first. `here`: where they are.
fn wishes(
    threads: &[(ThreadId, &Wanderer)],
    here: impl Fn(ThreadId) -> Option<Node>,
    nodes: &[Node],
) -> Vec<Wish> {
    let mut ordered: Vec<Node> = threads.iter().filter_map(|&(id, _)| here(id)).collect();
    ordered.sort_unstable();
    let all = |node: Node| threads.iter().map(|(_, other)| other.samples(node)).sum::<f64>();
    let total: f64 = nodes.iter().copied().map(all).sum();
    let mut wishes = Vec::new();
    for (at, &(id, thread)) in threads.iter().enumerate() {
        let own: f64 = nodes.iter().map(|&node| thread.samples(node)).sum();
        for &node in nodes {
            let others = (all(node) - thread.samples(node)) / (total - own).max(1.0);
            let prefers = (thread.samples(node) - own * others) / (own + DOUBT);
            wishes.push(Wish {
                prefers: if prefers < PREFERS { 0.0 } else { prefers },
                in_order: ordered.get(at) == Some(&node),
                here: here(id) == Some(node),
                id,
                node,
            });
        }
    }
    let first = |wish: &Wish| (!wish.in_order, !wish.here);
    wishes.sort_by(|a, b| b.prefers.total_cmp(&a.prefers).then(first(a).cmp(&first(b))));
    wishes
}

/// All of them.
#[derive(Debug)]
pub(super) struct Wanderers {
    /// CPUs of each node; empty if none is kept.
    cpus: Vec<u32>,
    threads: BTreeMap<ThreadId, Wanderer>,
    /// When a thread or process was last seen to have begun.
    grew: Option<Micros>,
}

impl Wanderers {
    pub(super) fn new(cpus: &[u32]) -> Wanderers {
        Wanderers { cpus: cpus.to_vec(), threads: BTreeMap::new(), grew: None }
    }

    /// Threads or processes began.
    pub(super) fn grew(&mut self, now: Micros) {
        self.grew = Some(now);
    }

    /// A thread used a page that is at `at`.
    pub(super) fn used(&mut self, process: ProcessId, thread: ThreadId, at: Node, now: Micros) {
        let wanderer = self.threads.entry(thread).or_default();
        (wanderer.process, wanderer.used) = (Some(process), Some(now));
        if wanderer.homes.len() <= at.index() {
            wanderer.homes.resize(at.index() + 1, 0.0);
        }
        wanderer.homes[at.index()] += 1.0;
        if wanderer.homes.iter().sum::<f64>() > FADES {
            wanderer.homes.iter_mut().for_each(|samples| *samples /= 2.0);
        }
    }

    /// A thread came to another node and stayed. True if it has begun to wander by that.
    fn moved(&mut self, process: ProcessId, thread: ThreadId, now: Micros) -> bool {
        let wanderer = self.threads.entry(thread).or_default();
        wanderer.process = Some(process);
        wanderer.moved.retain(|&moved| now.since(moved) < LATELY);
        wanderer.moved.push(now);
        let wanders = wanderer.moved.len() >= MOVES;
        wanders && !std::mem::replace(&mut wanderer.wanders, true)
    }

    /// A thread came to another node, or was brought there: the threads of its process to keep from now on, and the
    /// nodes. None if nobody is to be kept, it is kept, or is to be left alone. `here`: where threads are.
    fn keep(
        &mut self,
        thread: ThreadId,
        here: impl Fn(ThreadId) -> Option<Node>,
        now: Micros,
    ) -> Vec<(ThreadId, Node)> {
        let all: u32 = self.cpus.iter().sum();
        let Some(first) = self.threads.get(&thread) else { return Vec::new() };
        let steady = self.grew.is_none_or(|grew| now.since(grew) >= STEADY);
        if all == 0 || !steady || !first.is_free(now) {
            return Vec::new();
        }
        // If one is kept, all that work are: else those that are not would crowd the node of others.
        let process = first.process;
        let free = |(id, other): &(&ThreadId, &Wanderer)| {
            **id == thread || other.process == process && other.works(now) && other.is_free(now)
        };
        let free: Vec<(ThreadId, &Wanderer)> =
            self.threads.iter().filter(free).map(|(id, other)| (*id, other)).collect();
        // Each node takes its share of the threads, by its CPUs.
        let works = self.threads.values().filter(|other| other.works(now) || other.kept.is_some()).count();
        let nodes: Vec<Node> = (0..self.cpus.len() as u16).map(Node).collect();
        let most = |node: Node| ((works as u32).max(all) * self.cpus[node.index()]).div_ceil(all);
        let mut taken = vec![0_u32; nodes.len()];
        self.threads.values().filter_map(|other| other.kept).for_each(|node| taken[node.index()] += 1);
        let mut kept = Vec::new();
        for Wish { id, node, .. } in wishes(&free, here, &nodes) {
            let wanderer = self.threads.entry(id).or_default();
            if wanderer.kept.is_none() && taken[node.index()] < most(node) {
                wanderer.kept = Some(node);
                taken[node.index()] += 1;
                kept.push((id, node));
            }
        }
        kept
    }

    /// Threads that began to work only after others of their process were kept: one of each such process.
    fn late(&self, now: Micros) -> Vec<(ProcessId, ThreadId)> {
        let of = |(id, other): (&ThreadId, &Wanderer)| Some((other.process?, *id));
        let kept = self.threads.iter().filter(|(_, other)| other.kept.is_some()).filter_map(of);
        let kept: BTreeSet<ProcessId> = kept.map(|(process, _)| process).collect();
        let late = self.threads.iter().filter(|(_, other)| other.works(now) && other.is_free(now));
        let late: BTreeMap<ProcessId, ThreadId> = late.filter_map(of).collect();
        late.into_iter().filter(|(process, _)| kept.contains(process)).collect()
    }

    /// True if a thread was seen to use memory lately.
    fn works(&self, thread: ThreadId, now: Micros) -> bool {
        self.threads.get(&thread).is_some_and(|wanderer| wanderer.works(now))
    }

    /// The node on which a thread is kept.
    pub(super) fn kept(&self, thread: ThreadId) -> Option<Node> {
        self.threads.get(&thread)?.kept
    }

    /// A thread is not to be kept for a while. True if it was.
    fn leave_alone(&mut self, thread: ThreadId, now: Micros) -> bool {
        let Some(wanderer) = self.threads.get_mut(&thread) else { return false };
        wanderer.left_alone_until = Micros(now.0 + CROWDED.0);
        wanderer.moved.clear();
        wanderer.bound &= wanderer.kept.is_none();
        wanderer.kept.take().is_some()
    }

    /// A thread came to a CPU, and may run on no other node, or on others.
    pub(super) fn came(&mut self, thread: ThreadId, bound: bool) {
        if bound {
            self.threads.entry(thread).or_default().bound = true;
        } else if let Some(wanderer) = self.threads.get_mut(&thread) {
            wanderer.bound = false;
        }
    }

    /// A thread has ended.
    pub(super) fn ended(&mut self, thread: ThreadId) {
        self.threads.remove(&thread);
    }

    /// A process has ended.
    pub(super) fn process_ended(&mut self, process: ProcessId) {
        self.threads.retain(|_, wanderer| wanderer.process != Some(process));
    }
}

impl Session<'_> {
    /// A thread came to another node and stayed there. Gives the node on which it is kept from now on, if it is. If
    /// that is another one, its pages are not to follow.
    pub(super) fn thread_wanders(&mut self, moved: &Moved) -> Option<Node> {
        self.account.wanderers += u64::from(self.wanderers.moved(moved.process, moved.id, self.t));
        let kept = self.keep(moved.process, moved.id)?;
        self.wanderers.threads.entry(moved.id).or_default().left = (kept != moved.to).then_some(*moved);
        Some(kept)
    }

    /// Keeps a thread that came to another node, and those that work with it, if threads are kept. Gives the node on
    /// which it is kept from now on.
    pub(super) fn keep(&mut self, process: ProcessId, thread: ThreadId) -> Option<Node> {
        if self.settings.dry_run {
            return None;
        }
        let here = |id| self.processes.task(process, id).and_then(|task| task.home);
        let kept = self.wanderers.keep(thread, here, self.t);
        let elsewhere = kept.iter().any(|&(id, node)| here(id) != Some(node));
        for &(thread, node) in &kept {
            self.account.kept += 1;
            self.out.push(Output::Keep { process, thread, node });
        }
        if elsewhere {
            self.users_go_elsewhere(process);
        }
        kept.into_iter().find_map(|(id, node)| (id == thread).then_some(node))
    }

    /// Keeps the threads of processes in which one that works has been displaced: the next disturbance would displace
    /// more of them, and until they are back each use counts for the wrong node.
    pub(super) fn keep_displaced(&mut self) {
        let displaced: Vec<(ProcessId, ThreadId)> = self.stays.displaced().collect();
        for (process, thread) in displaced {
            if self.wanderers.works(thread, self.t) {
                self.keep(process, thread);
            }
        }
    }

    /// Keeps threads that began to work only after others of their process were kept.
    pub(super) fn keep_late(&mut self) {
        for (process, thread) in self.wanderers.late(self.t) {
            self.keep(process, thread);
        }
    }

    /// These threads wait for CPUs where they are kept, while others are idle: they may go where they like.
    pub(super) fn crowded(&mut self, threads: &BTreeSet<ThreadId>) {
        for &thread in threads {
            if self.wanderers.leave_alone(thread, self.t) {
                self.account.let_go += 1;
                self.out.push(Output::LetGo { thread });
            }
        }
    }

    /// A thread could not be kept: its pages follow it after all.
    pub(super) fn not_kept(&mut self, thread: ThreadId) {
        let left = self.wanderers.threads.get_mut(&thread).and_then(|wanderer| wanderer.left.take());
        if self.wanderers.leave_alone(thread, self.t) {
            self.account.kept -= 1;
            self.forward(left.as_slice());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: ProcessId = ProcessId(1);

    fn ms(time: u64) -> Micros {
        Micros::from_millis(time)
    }

    /// A thread that has come to another node.
    fn comes(wanderers: &mut Wanderers, thread: i32, now: u64) {
        wanderers.moved(PROCESS, ThreadId(thread), ms(now));
    }

    /// A thread used pages at a node.
    fn uses(wanderers: &mut Wanderers, thread: i32, node: u16, times: usize, now: u64) {
        (0..times).for_each(|_| wanderers.used(PROCESS, ThreadId(thread), Node(node), ms(now)));
    }

    /// Who is kept where, as thread and node.
    fn keep(wanderers: &mut Wanderers, thread: i32, here: u16, now: u64) -> Vec<(i32, u16)> {
        let mut kept = wanderers.keep(ThreadId(thread), |_| Some(Node(here)), ms(now));
        kept.sort();
        kept.into_iter().map(|(thread, node)| (thread.0, node.0)).collect()
    }

    #[test]
    fn a_thread_that_moves_is_kept_where_its_memory_is_and_wanders_if_it_does_often() {
        let mut wanderers = Wanderers::new(&[2, 2]);
        uses(&mut wanderers, 7, 0, 10, 0);
        uses(&mut wanderers, 7, 1, 20, 0);
        let moved = |wanderers: &mut Wanderers, t| wanderers.moved(PROCESS, ThreadId(7), ms(t));
        assert!(!moved(&mut wanderers, 0) && !moved(&mut wanderers, 1000));
        assert!(!moved(&mut wanderers, 30_000), "what was long ago does not count");
        assert!(!moved(&mut wanderers, 31_000) && moved(&mut wanderers, 32_000));
        assert_eq!(keep(&mut wanderers, 7, 0, 32_000), [(7, 1)]);
        assert_eq!(keep(&mut wanderers, 7, 0, 32_000), [], "it is kept");
        assert!(!moved(&mut wanderers, 33_000), "counted once");
    }

    #[test]
    fn all_that_work_are_kept_and_nodes_take_them_by_their_cpus() {
        let mut wanderers = Wanderers::new(&[2, 1, 0]);
        for thread in 0..6 {
            uses(&mut wanderers, thread, 2, 5, 10_000);
        }
        uses(&mut wanderers, 3, 1, 6, 10_000);
        uses(&mut wanderers, 7, 1, 9, 1000);
        let kept = keep(&mut wanderers, 0, 0, 10_000);
        assert_eq!(
            kept,
            [(0, 0), (1, 0), (2, 0), (3, 1), (4, 0), (5, 1)],
            "one does not work, a node has no CPUs"
        );
        comes(&mut wanderers, 7, 10_000);
        assert_eq!(keep(&mut wanderers, 7, 0, 10_000), [], "all are full");
        wanderers.ended(ThreadId(0));
        assert_eq!(keep(&mut wanderers, 7, 0, 10_000), [(7, 0)], "one has ended");
        wanderers.process_ended(PROCESS);
        assert!(wanderers.threads.is_empty());
    }

    #[test]
    fn one_that_works_only_later_is_kept_too() {
        let mut wanderers = Wanderers::new(&[1, 1]);
        uses(&mut wanderers, 1, 0, 1, 10_000);
        assert_eq!(wanderers.late(ms(10_000)), [], "nobody is kept");
        assert_eq!(keep(&mut wanderers, 1, 0, 10_000), [(1, 0)]);
        uses(&mut wanderers, 2, 0, 1, 11_000);
        wanderers.used(ProcessId(2), ThreadId(3), Node(0), ms(11_000));
        assert_eq!(wanderers.late(ms(11_000)), [(PROCESS, ThreadId(2))]);
        assert_eq!(keep(&mut wanderers, 2, 0, 11_000), [(2, 0)], "of three threads it has room for two");
        assert_eq!(wanderers.late(ms(11_000)), []);
        wanderers.leave_alone(ThreadId(2), ms(12_000));
        assert_eq!(wanderers.late(ms(12_000)), [], "it is left alone");
    }

    #[test]
    fn threads_whose_memory_says_nothing_are_kept_in_order_as_many_on_each_node_as_are_there() {
        let mut wanderers = Wanderers::new(&[3, 3]);
        for thread in 0..5 {
            uses(&mut wanderers, thread, 0, 20 + 30 * (thread as usize % 2), 10_000);
        }
        let here = |thread: ThreadId| Some(Node([1, 0, 1, 0, 1][thread.0 as usize]));
        let mut kept = wanderers.keep(ThreadId(3), here, ms(10_000));
        kept.sort();
        let kept: Vec<(i32, u16)> = kept.into_iter().map(|(id, node)| (id.0, node.0)).collect();
        assert_eq!(kept, [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1)]);
    }

    #[test]
    fn threads_are_kept_by_what_they_use_more_than_the_others_do() {
        let mut wanderers = Wanderers::new(&[1, 1, 1]);
        // All use node 0 most, thread 1 the others least.
        uses(&mut wanderers, 1, 0, 90, 10_000);
        uses(&mut wanderers, 2, 0, 60, 10_000);
        uses(&mut wanderers, 2, 2, 30, 10_000);
        uses(&mut wanderers, 3, 0, 60, 10_000);
        uses(&mut wanderers, 3, 1, 30, 10_000);
        assert_eq!(keep(&mut wanderers, 2, 0, 10_000), [(1, 0), (2, 2), (3, 1)]);
    }

    #[test]
    fn one_that_waits_where_it_is_kept_is_let_go_and_left_alone() {
        let mut wanderers = Wanderers::new(&[1, 1]);
        comes(&mut wanderers, 3, 10_000);
        assert_eq!(keep(&mut wanderers, 3, 1, 10_000), [(3, 1)], "where it is");
        let mut leave = |t| wanderers.leave_alone(ThreadId(3), ms(t));
        assert!(leave(12_000) && !leave(12_000));
        assert_eq!(keep(&mut wanderers, 3, 0, 20_000), []);
        assert_eq!(keep(&mut wanderers, 3, 0, 80_000), [(3, 0)]);
    }

    #[test]
    fn nobody_is_kept_while_threads_begin() {
        let mut wanderers = Wanderers::new(&[1, 1]);
        comes(&mut wanderers, 3, 10_000);
        wanderers.grew(ms(9800));
        assert_eq!(keep(&mut wanderers, 3, 1, 10_000), []);
        assert_eq!(keep(&mut wanderers, 3, 1, 10_100), [(3, 1)]);
    }

    #[test]
    fn without_being_asked_to_nobody_is_kept() {
        let mut wanderers = Wanderers::new(&[]);
        comes(&mut wanderers, 3, 10_000);
        assert_eq!(keep(&mut wanderers, 3, 0, 10_000), []);
    }
}
