//! Threads that wander. A thread that the kernel moves from node to node drags its pages along, which never pays. It
//! is counted, so that whoever looks on can be told.
//!
//! Whoever asks for that has threads kept, from the first time on that one stays on another node or the engine displaces
//! it: on the node that has most of what it was seen to use, as long as that node has room, on any of its CPUs.

use super::output::Output;
use super::processes::Moved;
use super::Session;
use crate::ids::{Micros, Node};
use crate::process::{ProcessId, ThreadId};
use std::collections::{BTreeMap, BTreeSet};

/// A thread wanders if it came to other nodes and stayed this often ...
const MOVES: usize = 3;
/// ... within this time.
const LATELY: Micros = Micros::from_millis(20_000);
/// Samples of a thread after which older ones count half.
const FADES: f64 = 128.0;
/// Nobody is kept before this time after a thread or process began: what kept threads start inherits their CPUs.
const STEADY: Micros = Micros::from_millis(1000);
/// What one that waited for a CPU where it was kept, or could not be kept, is left alone for.
const CROWDED: Micros = Micros::from_millis(60_000);

/// What is known of a thread.
#[derive(Clone, Debug, Default)]
struct Wanderer {
    process: Option<ProcessId>,
    /// When it last came to other nodes, oldest first.
    moved: Vec<Micros>,
    wanders: bool,
    /// Samples by the node that had the page.
    homes: Vec<f64>,
    kept: Option<Node>,
    /// Its last move, if it is kept on another node than that to which it went.
    left: Option<Moved>,
    left_alone_until: Micros,
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
    pub(super) fn used(&mut self, process: ProcessId, thread: ThreadId, at: Node) {
        let wanderer = self.threads.entry(thread).or_default();
        wanderer.process = Some(process);
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

    /// The node to keep a thread on that came to another one, out of `threads` in all and now at `here`. `None` if
    /// nobody is kept, it is kept, or is to be left alone.
    fn keep(&mut self, thread: ThreadId, here: Node, threads: u32, now: Micros) -> Option<Node> {
        let all: u32 = self.cpus.iter().sum();
        let wanderer = self.threads.get(&thread)?;
        let steady = self.grew.is_none_or(|grew| now.since(grew) >= STEADY);
        if all == 0 || !steady || wanderer.kept.is_some() || now < wanderer.left_alone_until {
            return None;
        }
        // Each node takes its share of the threads, by its CPUs.
        let room = |node: Node| {
            let most = (threads.max(all) * self.cpus[node.index()]).div_ceil(all);
            let kept = self.threads.values().filter(|other| other.kept == Some(node)).count();
            (kept as u32) < most
        };
        let samples = |node: Node| wanderer.homes.get(node.index()).copied().unwrap_or(0.0);
        let nodes = (0..self.cpus.len() as u16).map(Node).filter(|&node| room(node));
        let node = nodes.max_by(|a, b| {
            let by_samples = samples(*a).total_cmp(&samples(*b));
            by_samples.then((*a == here).cmp(&(*b == here))).then(b.cmp(a))
        })?;
        self.threads.get_mut(&thread)?.kept = Some(node);
        Some(node)
    }

    /// A thread is not to be kept for a while. True if it was.
    fn leave_alone(&mut self, thread: ThreadId, now: Micros) -> bool {
        let Some(wanderer) = self.threads.get_mut(&thread) else { return false };
        wanderer.left_alone_until = Micros(now.0 + CROWDED.0);
        wanderer.moved.clear();
        wanderer.kept.take().is_some()
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
    /// A thread came to another node and stayed there. Gives the node on which it is kept from now on, if it is. If that
    /// is another one, its pages are not to follow.
    pub(super) fn thread_wanders(&mut self, moved: &Moved) -> Option<Node> {
        self.account.wanderers += u64::from(self.wanderers.moved(moved.process, moved.id, self.t));
        let kept = self.keep(moved.process, moved.id, moved.to)?;
        self.wanderers.threads.entry(moved.id).or_default().left = (kept != moved.to).then_some(*moved);
        Some(kept)
    }

    /// Keeps a thread that came to another node, if threads are kept; `here`: where it is, or was before. Gives the
    /// node on which it is kept from now on.
    pub(super) fn keep(&mut self, process: ProcessId, thread: ThreadId, here: Node) -> Option<Node> {
        if self.settings.dry_run {
            return None;
        }
        let node = self.wanderers.keep(thread, here, self.threads, self.t)?;
        self.account.kept += 1;
        self.out.push(Output::Keep { process, thread, node });
        Some(node)
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

    #[test]
    fn a_thread_that_moves_is_kept_where_its_memory_is_and_wanders_if_it_does_often() {
        let mut wanderers = Wanderers::new(&[2, 2]);
        let thread = ThreadId(7);
        (0..10).for_each(|_| wanderers.used(PROCESS, thread, Node(0)));
        (0..20).for_each(|_| wanderers.used(PROCESS, thread, Node(1)));
        assert!(!wanderers.moved(PROCESS, thread, ms(0)) && !wanderers.moved(PROCESS, thread, ms(1000)));
        assert!(!wanderers.moved(PROCESS, thread, ms(30_000)), "what was long ago does not count");
        assert!(
            !wanderers.moved(PROCESS, thread, ms(31_000)) && wanderers.moved(PROCESS, thread, ms(32_000))
        );
        assert_eq!(wanderers.keep(thread, Node(0), 4, ms(32_000)), Some(Node(1)));
        assert_eq!(wanderers.keep(thread, Node(0), 4, ms(32_000)), None, "it is kept");
        assert!(!wanderers.moved(PROCESS, thread, ms(33_000)), "counted once");
    }

    #[test]
    fn nodes_take_threads_by_their_cpus() {
        let mut wanderers = Wanderers::new(&[2, 1, 0]);
        let mut kept = vec![0; 3];
        for thread in 0..6 {
            (0..5).for_each(|_| wanderers.used(PROCESS, ThreadId(thread), Node(2)));
            comes(&mut wanderers, thread, 10_000);
            kept[wanderers.keep(ThreadId(thread), Node(0), 6, ms(10_000)).unwrap().index()] += 1;
        }
        assert_eq!(kept, [4, 2, 0], "a node without CPUs takes none");
        comes(&mut wanderers, 6, 10_000);
        assert_eq!(wanderers.keep(ThreadId(6), Node(0), 6, ms(10_000)), None, "all are full");
        wanderers.ended(ThreadId(0));
        assert!(wanderers.keep(ThreadId(6), Node(0), 6, ms(10_000)).is_some(), "one has ended");
        wanderers.process_ended(PROCESS);
        assert!(wanderers.threads.is_empty());
    }

    #[test]
    fn one_that_waits_where_it_is_kept_is_let_go_and_left_alone() {
        let mut wanderers = Wanderers::new(&[1, 1]);
        comes(&mut wanderers, 3, 10_000);
        assert_eq!(wanderers.keep(ThreadId(3), Node(1), 2, ms(10_000)), Some(Node(1)), "where it is");
        assert!(
            wanderers.leave_alone(ThreadId(3), ms(12_000)) && !wanderers.leave_alone(ThreadId(3), ms(12_000))
        );
        comes(&mut wanderers, 3, 20_000);
        assert_eq!(wanderers.keep(ThreadId(3), Node(0), 2, ms(20_000)), None);
        comes(&mut wanderers, 3, 80_000);
        assert!(wanderers.keep(ThreadId(3), Node(0), 2, ms(80_000)).is_some());
    }

    #[test]
    fn nobody_is_kept_while_threads_begin() {
        let mut wanderers = Wanderers::new(&[1, 1]);
        comes(&mut wanderers, 3, 10_000);
        wanderers.grew(ms(9500));
        assert_eq!(wanderers.keep(ThreadId(3), Node(1), 2, ms(10_000)), None);
        assert_eq!(wanderers.keep(ThreadId(3), Node(1), 2, ms(10_500)), Some(Node(1)));
    }

    #[test]
    fn without_being_asked_to_nobody_is_kept() {
        let mut wanderers = Wanderers::new(&[]);
        comes(&mut wanderers, 3, 10_000);
        assert_eq!(wanderers.keep(ThreadId(3), Node(0), 2, ms(10_000)), None);
    }
}
