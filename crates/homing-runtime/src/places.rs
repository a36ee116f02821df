//! Where the program's threads are at the begin and the end of each parallel construct, as they say themselves: "a
//! thread migrates and stays on the same node for the execution of two consecutive parallel OpenMP constructs"
//! (Nikolopoulos 2000, section 4). Each thread writes to a slot of its own; the manager reads all of them.

use homing_core::ids::Node;
use homing_core::process::ThreadId;
use homing_session::input::InConstructs;
use std::cell::Cell;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// Threads that are followed at most; those beyond are noticed by the kernel's events and process scans alone.
const SLOTS: usize = 1024;

/// A thread in constructs.
struct Slot {
    /// The thread; 0 if the slot is free.
    thread: AtomicI32,
    /// Its node, and how many constructs in a row it has begun and ended there.
    place: AtomicU64,
}

static ALL: [Slot; SLOTS] = [const { Slot { thread: AtomicI32::new(0), place: AtomicU64::new(0) } }; SLOTS];
/// Slots from here on were never used.
static USED: AtomicU32 = AtomicU32::new(0);
/// The node of each CPU, once the manager has begun.
static NODES: OnceLock<Vec<Option<Node>>> = OnceLock::new();
/// Threads that have begun the present construct; most of a construct since the manager has asked.
static NOW: AtomicU32 = AtomicU32::new(0);
static TEAM: AtomicU32 = AtomicU32::new(0);

/// What a thread knows of itself.
struct Own {
    slot: Cell<Option<usize>>,
    depth: Cell<u32>,
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.get() {
            ALL[slot].thread.store(0, Relaxed);
        }
    }
}

thread_local! {
    static OWN: Own = const { Own { slot: Cell::new(None), depth: Cell::new(0) } };
}

const fn place(node: Node, ended: u32) -> u64 {
    (node.0 as u64) << 32 | ended as u64
}

const fn node_of(place: u64) -> Node {
    Node((place >> 32) as u16)
}

/// From now on constructs are followed. `nodes`: of each CPU.
pub fn follow(nodes: Vec<Option<Node>>) {
    NODES.get_or_init(|| nodes);
}

fn here() -> Option<Node> {
    let nodes = NODES.get()?;
    *nodes.get(homing_linux::policy::this_cpu()? as usize)?
}

impl Own {
    /// The thread's slot, taken at its first construct.
    fn slot(&self) -> Option<&'static Slot> {
        if self.slot.get().is_none() {
            let mine = homing_linux::policy::this_thread().0;
            let free = |slot: &Slot| slot.thread.compare_exchange(0, mine, Relaxed, Relaxed).is_ok();
            let taken = ALL.iter().position(free);
            self.slot.set(taken);
            USED.fetch_max(taken.map_or(0, |slot| slot as u32 + 1), Relaxed);
        }
        Some(&ALL[self.slot.get()?])
    }
}

/// The calling thread begins a construct.
pub fn begins() {
    // A thread that ends has no construct.
    let _ = OWN.try_with(|own| {
        let depth = own.depth.replace(own.depth.get() + 1);
        let Some(node) = here().filter(|_| depth == 0) else { return };
        NOW.fetch_add(1, Relaxed);
        if let Some(slot) = own.slot() {
            if node_of(slot.place.load(Relaxed)) != node {
                slot.place.store(place(node, 0), Relaxed);
            }
        }
    });
}

/// The calling thread ends a construct.
pub fn ends() {
    // As above.
    let _ = OWN.try_with(|own| {
        let depth = own.depth.get().saturating_sub(1);
        own.depth.set(depth);
        let Some(node) = here().filter(|_| depth == 0) else { return };
        if let Some(slot) = own.slot() {
            let before = slot.place.load(Relaxed);
            let ended = if node_of(before) == node { (before as u32).saturating_add(1) } else { 0 };
            slot.place.store(place(node, ended), Relaxed);
        }
    });
}

/// All threads of the construct have ended it.
pub fn construct_ended() {
    TEAM.fetch_max(NOW.swap(0, Relaxed), Relaxed);
}

/// Threads of the greatest construct since the last time; 0 if there was none.
pub fn team() -> u32 {
    TEAM.swap(0, Relaxed)
}

/// What was reported of the threads.
#[derive(Debug, Default)]
pub struct Reported(Vec<(i32, u64)>);

/// Beyond these, more constructs in a row say nothing new.
const ENOUGH: u32 = 2;

impl Reported {
    /// Threads that are on another node than the last time, or have ended more constructs there, as far as that
    /// matters.
    pub fn news(&mut self) -> Vec<InConstructs> {
        let used = USED.load(Relaxed) as usize;
        let now = ALL[..used].iter().map(|slot| (slot.thread.load(Relaxed), slot.place.load(Relaxed)));
        self.compare(now)
    }

    fn compare(&mut self, now: impl Iterator<Item = (i32, u64)>) -> Vec<InConstructs> {
        let mut news = Vec::new();
        for (slot, (thread, at)) in now.enumerate() {
            let (node, ended) = (node_of(at), (at as u32).min(ENOUGH));
            let what = (thread, place(node, ended));
            if self.0.len() <= slot {
                self.0.push((0, 0));
            }
            if thread != 0 && self.0[slot] != what {
                news.push(InConstructs { thread: ThreadId(thread), node, ended });
            }
            self.0[slot] = what;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_new_of_a_thread_is_reported_once() {
        let mut reported = Reported::default();
        let mut news = |slots: &[(i32, u16, u32)]| -> Vec<(i32, u16, u32)> {
            let now = slots.iter().map(|&(thread, node, ended)| (thread, place(Node(node), ended)));
            let news = reported.compare(now);
            news.into_iter().map(|news| (news.thread.0, news.node.0, news.ended)).collect()
        };
        assert_eq!(news(&[(7, 0, 1), (0, 0, 0)]), [(7, 0, 1)]);
        assert_eq!(news(&[(7, 0, 5), (8, 1, 0)]), [(7, 0, 2), (8, 1, 0)]);
        assert_eq!(news(&[(7, 0, 6), (8, 1, 0)]), [], "more constructs say nothing");
        assert_eq!(news(&[(7, 1, 0), (9, 1, 0)]), [(7, 1, 0), (9, 1, 0)], "it moved; another has the slot");
        assert_eq!(news(&[(7, 0, 1), (0, 1, 0)]), [(7, 0, 1)], "the end of a thread says nothing");
    }

    #[test]
    fn threads_count_the_constructs_that_they_begin_and_end_on_a_node() {
        let cpus = homing_linux::policy::affinity(homing_linux::proc::Tid(0)).unwrap();
        follow(vec![Some(Node(3)); *cpus.iter().max().unwrap() as usize + 1]);
        let mine = || {
            let thread = homing_linux::policy::this_thread().0;
            let slot = ALL.iter().find(|slot| slot.thread.load(Relaxed) == thread)?;
            let at = slot.place.load(Relaxed);
            Some((node_of(at), at as u32))
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(mine(), None);
                for _ in 0..3 {
                    begins();
                    // One within it is a part of it.
                    begins();
                    ends();
                    ends();
                }
                assert_eq!(mine(), Some((Node(3), 3)));
            });
        });
        construct_ended();
        assert_eq!((team(), team()), (3, 0), "three times one thread, in what was called one construct");
    }
}
