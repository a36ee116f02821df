//! What the session is told: plain values, as they came, before anything is made of them.

use homing_core::ids::{Micros, Node};
use homing_core::process::{Held, Object, ProcessId, Region, ThreadId};
pub use homing_core::process::{HotArea, Own};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// One thing that happened, or that the session asked for and got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// Time has passed: the session does what is due.
    Tick {
        /// Many accesses wait that the session has not been given yet.
        behind: bool,
        /// There is a process whose pages can be scanned.
        scannable: bool,
    },
    /// The answer to [`super::Output::Look`].
    Looked(Looked),
    /// Something that makes a process scan urgent.
    Noticed(Noticed),
    /// Threads came to other CPUs, oldest first.
    Migrated(Vec<Arrival>),
    /// Accesses were seen, oldest first.
    Accesses(Vec<Access>),
    /// The answer to [`super::Output::Locate`] of that number: as many answers as there were questions, in their order.
    Located {
        /// The number of the questions.
        number: u32,
        /// The answers.
        answers: Vec<Answer>,
    },
    /// The movers have begun with all orders that they were given.
    MoversIdle,
    /// What came of orders.
    Landed {
        /// The tag of each order, and what came of it.
        results: Vec<(u32, Landed)>,
        /// Time in which pages were being moved since the session began.
        moving: Micros,
        /// Time in which threads were stopped for moves since the last such input.
        stopped: Micros,
    },
    /// The answer to [`super::Output::Split`].
    Split(Vec<SplitResult>),
    /// The answer to [`super::Output::Scan`].
    Scanned(Scanned),
    /// A thread could not be bound to a CPU, with the kernel's error number.
    NotBound {
        /// The error number.
        errno: i32,
    },
    /// Threads that are kept on nodes wait for their CPUs, while those of other nodes are idle.
    Crowded(BTreeSet<ThreadId>),
    /// A thread that was to be kept has ended, or chose its CPUs itself: it is left alone.
    NotKept(ThreadId),
    /// A program says which of its memory matters.
    Areas(Areas),
    /// A program says where its threads are.
    Constructs(Constructs),
    /// A program says where it is in its work.
    Marked(Mark),
    /// An interval is over: the session decides.
    IntervalEnd,
    /// The session is over. Nothing comes behind this.
    End,
}

/// The hot areas of a process (Nikolopoulos 2000, section 2.3): its pages outside of them are left alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Areas {
    /// The process.
    pub process: ProcessId,
    /// By address, none over another; none if all of its memory matters.
    pub areas: Vec<HotArea>,
}

impl Areas {
    /// The place of the area that the page with this address is in, the last of several. One that is partly in an area
    /// counts.
    pub fn of(&self, address: u64) -> Option<usize> {
        let page = address & !(super::PAGE - 1);
        let behind = page.saturating_add(super::PAGE);
        let before = self.areas.partition_point(|area| area.start < behind);
        let last = before.checked_sub(1)?;
        (self.areas[last].end() > page).then_some(last)
    }
}

/// Where the threads of a process were in its parallel constructs, as the process itself saw it at the beginning and
/// the end of each (Nikolopoulos 2000, section 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constructs {
    /// The process.
    pub process: ProcessId,
    /// Threads of the last construct.
    pub team: u32,
    /// Threads that are on another node than when they were last reported, or have ended more constructs there.
    pub threads: Vec<InConstructs>,
}

/// A thread in parallel constructs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InConstructs {
    /// The thread.
    pub thread: ThreadId,
    /// Its node at the beginning or end of the last construct.
    pub node: Node,
    /// Constructs in a row that it began and ended there.
    pub ended: u32,
}

/// What a program says about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// An iteration of its outer loop has ended.
    IterationEnd,
    /// A phase begins; phases that do the same have the same number.
    PhaseBegin(u32),
}

/// What a process scan found to be different from the one before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Looked {
    /// CPU time that it took.
    pub cost: Micros,
    /// Processes that ended or executed another program. They come before those that began.
    pub ended: Vec<ProcessId>,
    /// Processes that began.
    pub begun: Vec<ProcessId>,
    /// Processes whose mappings changed, and all their regions by address.
    pub remapped: Vec<(ProcessId, Vec<Region>)>,
    /// Processes that may use the memory of other nodes than before, and those nodes; none if that is not known.
    pub allowed: Vec<(ProcessId, Vec<Node>)>,
    /// Objects whose pages stay, all of them; `None` if they are the same as before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<(Object, Held)>>,
    /// Threads that are new, ran, or are on another CPU's node, in order of appearance.
    pub threads: Vec<ThreadSeen>,
    /// Threads that ended in processes that go on.
    pub threads_ended: Vec<(ProcessId, ThreadId)>,
    /// Pages of all processes that are in memory.
    pub resident_pages: u64,
    /// Bytes that each node can still take; `None` where the kernel does not say.
    pub room: Vec<Option<u64>>,
    /// The kernel may move pages by itself.
    pub kernel_moves_pages: bool,
}

/// A thread at a process scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSeen {
    /// Its process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// The node of its CPU, if that is known.
    pub node: Option<Node>,
    /// It used CPU time since the scan before.
    pub ran: bool,
}

/// What was noticed between two process scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Noticed {
    /// A process has ended.
    ProcessEnded,
    /// Threads began, or events were lost that may have said so.
    ThreadsBegan,
    /// A process with refused moves ([`super::Session::confined`]) may use the memory of other nodes now.
    CpusetChanged,
}

/// A thread that came to a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Its process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// The node of the CPU.
    pub node: Node,
    /// When it came.
    pub at: Micros,
    /// It may run on no other node: somebody has put it there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
}

/// One access that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Access {
    /// The process.
    pub process: ProcessId,
    /// The thread.
    pub thread: ThreadId,
    /// The node of the CPU that made it.
    pub node: Node,
    /// The address.
    pub address: u64,
    /// A store; false for loads, and where the source cannot tell.
    pub store: bool,
    /// What it stands for.
    pub kind: AccessKind,
}

/// What an access stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessKind {
    /// That many references, by this thread.
    References(f64),
    /// A fault without a count: [`crate::estimate`] says what it stands for.
    HintFault {
        /// Time since the scan; `None` if the fault came before it, or the source does not scan.
        after_scan: Option<Micros>,
    },
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The node; `None` if the page is in no memory, or the kernel does not say.
    pub node: Option<Node>,
    /// The question might be about a huge page, and is: the answer holds for all of it.
    pub huge: bool,
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landed {
    /// The kernel says that the page is there.
    There,
    /// It is not, and why (`errno`).
    Not(i32),
    /// A memory policy (`MPOL_BIND`) or a cpuset keeps it from that node: it was left where it is.
    NotAllowed,
    /// The time was up before its turn.
    Later,
}

/// A huge page that was to be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitResult {
    /// The process.
    pub process: ProcessId,
    /// Its first address.
    pub address: u64,
    /// It is not huge any more.
    pub done: bool,
}

/// A scan that took mappings away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scanned {
    /// When it began.
    pub began: Micros,
    /// Time in which the programs stood still for it.
    pub stopped: Micros,
    /// The kernel scanned every process. If not, the scan says nothing.
    pub everywhere: bool,
    /// CPU time that it took, that of helpers included.
    pub cost: Micros,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_hold_pages_that_are_partly_in_them() {
        let area =
            |&(start, bytes): &(u64, u64)| HotArea { start, bytes, name: String::new(), own: Own::default() };
        let areas =
            |areas: &[(u64, u64)]| Areas { process: ProcessId(1), areas: areas.iter().map(area).collect() };
        let two = areas(&[(0x1800, 0x1000), (0x8ff8, 16)]);
        let held = (0..12).map(|page| page * 0x1000).filter_map(|page| Some((page, two.of(page + 8)?)));
        assert_eq!(held.collect::<Vec<_>>(), [(0x1000, 0), (0x2000, 0), (0x8000, 1), (0x9000, 1)]);
        assert_eq!(areas(&[]).of(0x5000), None);
        assert_eq!(areas(&[(0x1000, u64::MAX)]).of(u64::MAX - 0x2000), Some(0));
        let shared = areas(&[(0x1000, 0x10), (0x1800, 0x10)]);
        assert_eq!(shared.of(0x1000), Some(1), "a page of two areas belongs to the last");
    }
}
