//! The threads of a simulated process, as a kernel tells of them.

use super::PROCESS;
use crate::input::{Arrival, ThreadSeen};
use homing_core::ids::{Micros, Node, Thread};
use homing_core::process::ThreadId;
use homing_core::timeline::ThreadMoved;
use homing_core::trace::ByThread;

/// A thread that has begun.
#[derive(Clone, Copy, Debug)]
struct Task {
    node: Node,
    /// It ran since the last look.
    ran: bool,
    /// No look has seen it, or not on this node.
    news: bool,
}

/// Threads by number; those that have made no reference have not begun.
#[derive(Debug, Default)]
pub(super) struct Threads {
    tasks: ByThread<Task>,
    count: usize,
    began: bool,
    arrivals: Vec<Arrival>,
}

impl Threads {
    /// A thread makes references on a node.
    pub(super) fn runs(&mut self, thread: Thread, node: Node) {
        let (began, count) = (&mut self.began, &mut self.count);
        let task = self.tasks.get_or_insert_with(thread, || {
            (*began, *count) = (true, *count + 1);
            Task { node, ran: true, news: true }
        });
        task.news |= task.node != node;
        (task.ran, task.node) = (true, node);
    }

    /// The scheduler takes a thread to another node.
    pub(super) fn moved(&mut self, moved: &ThreadMoved, at: Micros) {
        let Some(task) = self.tasks.get_mut(moved.thread) else { return };
        (task.node, task.news) = (moved.to, true);
        self.arrivals.push(Arrival {
            process: PROCESS,
            thread: id(moved.thread),
            node: moved.to,
            at,
            bound: false,
        });
    }

    /// Threads so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Whether threads began since the last time.
    pub(super) fn take_began(&mut self) -> bool {
        std::mem::take(&mut self.began)
    }

    /// Threads that came to other nodes since the last time.
    pub(super) fn take_arrivals(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// What a look tells: threads that are new, ran, or are on other nodes.
    pub(super) fn look(&mut self) -> Vec<ThreadSeen> {
        let tasks = self.tasks.iter_mut().filter_map(|(thread, task)| {
            let (ran, news) = (std::mem::take(&mut task.ran), std::mem::take(&mut task.news));
            let thread = id(thread);
            (ran || news).then_some(ThreadSeen { process: PROCESS, thread, node: Some(task.node), ran })
        });
        tasks.collect()
    }
}

/// The kernel's number of a thread.
pub(super) fn id(thread: Thread) -> ThreadId {
    ThreadId(PROCESS.0.wrapping_add(thread.0.cast_signed()))
}
