//! Policies: what turns faults and samples into actions. One trait, used in simulation and live.
//!
//! A policy reads no clock, moves nothing, and cannot tell whether it is simulated: time comes in as data, actions go
//! out as values, outcomes come back. To add one: write a file beside [`ace`], headed by its source, and add a line to
//! the table in [`table`]. Its tests come with it: every policy of the table is run over random histories.
//!
//! * A **fault** is asked about before the reference is served: a node without a copy refers to the page for the first
//!   time since it was mapped there, or what the policy asked for by [`Next`] came due, or a write meets several
//!   copies.
//! * A **sample** stands for references that were served: all of them in simulation, some of them (with a weight) live.
//!   Counts of an interval or of a poll come together as a **profile** of each page where a policy wants that, since
//!   their order is lost.
//! * An **end** of an interval or of an iteration closes a profile: all samples since the one before. A policy that
//!   [`decides at ends`](Decides::AtEnds) gets one sample for each page and node, just before the end, and no faults.
//! * **Marks** are about the program and the scheduler: phases, threads that run elsewhere now.
//! * **Loads** tell how long requests queue at each memory, where somebody knows.

pub mod ace;
pub mod answer;
pub mod balancing;
pub mod competitive;
mod counters;
pub mod delay;
pub mod homing;
pub mod interval_majority;
pub mod irix;
pub mod linux;
pub mod pages;
pub mod placement;
pub mod platinum;
mod prices;
pub mod record_replay;
pub mod settings;
pub mod stay;
#[cfg(test)]
mod streams;
pub mod table;
#[cfg(test)]
mod tests;
pub mod verghese;
pub mod work_function;

use crate::action::{Action, Actions, Locations, Outcome};
use crate::ids::{Node, Page, Time};
use crate::machine::MoveExtras;
use crate::process::HotArea;
pub use crate::timeline::{ThreadMoved, ThreadsChanged};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why a policy is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The page is not mapped at this node: its first reference here since the page's locations changed.
    Unmapped,
    /// The page is mapped remotely here and what the last [`Next`] asked for is due.
    Due,
    /// A write while several copies exist.
    Write,
}

/// A reference that has to wait for a decision.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The page.
    pub page: Page,
    /// The node whose CPU refers to it.
    pub node: Node,
    /// True for a write.
    pub write: bool,
    /// When.
    pub time: Time,
    /// Why the policy is asked.
    pub cause: Cause,
    /// Where the page is.
    pub at: Locations,
}

/// When a page that stays mapped remotely at a node should fault there again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Not before its locations change.
    Never,
    /// After this many references from the node, the waiting one counted (at least 1).
    After(u64),
    /// At the first reference from the node at or after this Time (and after the waiting one).
    At(Time),
}

/// References of one node to one page that were served.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The page.
    pub page: Page,
    /// The node whose CPUs made the references.
    pub node: Node,
    /// Reads seen.
    pub reads: u64,
    /// Writes seen.
    pub writes: u64,
    /// References that each one seen stands for (1 if all are seen).
    pub weight: f64,
    /// Time of the first.
    pub time: Time,
    /// Where the page was when they were served.
    pub at: Locations,
}

/// What is reported once, before anything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// Name of the monitor that samples come from; `references` for the program's references themselves.
    pub monitor: String,
    /// References (or misses, as the monitor counts) that one seen stands for, in the mean.
    pub weight: f64,
    /// Time between interval ends, if they are regular.
    pub interval: Option<u64>,
    /// True if the program's iterations are marked.
    pub iterations: bool,
    /// True if the program's phases are marked.
    pub phases: bool,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Memories of the machine.
    pub nodes: u16,
    /// True if [`Policy::loads`] will be called.
    pub loads: bool,
    /// What page moves cost beyond the price that the policy was made with, in its unit; none where nobody knows, and
    /// where references count instead of misses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveExtras>,
}

/// The end of an interval or of an iteration: a profile is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How many ended before. Where pages are simulated one by one, ends before which nothing was seen of a page are
    /// left out for it: the number tells.
    pub number: u64,
    /// When; references with this Time come after it.
    pub time: Time,
}

/// When a policy's decisions fall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decides {
    /// At faults and at samples.
    AtOnce,
    /// At interval ends, iteration ends and marks, from profiles.
    AtEnds,
}

/// A placement policy. All methods but [`Policy::fault`] have defaults that do nothing.
pub trait Policy: Snapshot + Send + Sync {
    /// A reference waits. What the policy asks for happens before it is served; the result counts if the node then has
    /// no copy.
    fn fault(&mut self, fault: &Fault, actions: &mut Actions) -> Next;

    /// True if the policy wants [`Policy::sample`].
    fn wants_samples(&self) -> bool {
        false
    }

    /// References were served.
    fn sample(&mut self, _sample: &Sample, _actions: &mut Actions) {}

    /// True if the policy wants [`Policy::profile`] where references were counted; otherwise each count is a sample.
    fn wants_profiles(&self) -> bool {
        false
    }

    /// References to one page were counted for a while, by node: nobody knows in which order they came.
    fn profile(&mut self, _counts: &[Sample], _actions: &mut Actions) {}

    /// What there is to know before the first observation.
    fn begin(&mut self, _context: &Context) {}

    /// When decisions fall.
    fn decides(&self) -> Decides {
        Decides::AtOnce
    }

    /// A monitor's interval is over.
    fn interval_end(&mut self, _end: &End, _actions: &mut Actions) {}

    /// The program ended an iteration of its outer loop.
    fn iteration_end(&mut self, _end: &End, _actions: &mut Actions) {}

    /// True if the policy wants marks also where pages are simulated one by one: [`Policy::phase_begin`],
    /// [`Policy::thread_moved`], [`Policy::threads_changed`].
    fn wants_marks(&self) -> bool {
        false
    }

    /// The program begins a phase (a parallel construct, a region): phases that do the same have the same number.
    fn phase_begin(&mut self, _phase: u32, _time: Time, _actions: &mut Actions) {}

    /// A thread was moved to another node.
    fn thread_moved(&mut self, _moved: &ThreadMoved, _actions: &mut Actions) {}

    /// The number of threads changed.
    fn threads_changed(&mut self, _changed: &ThreadsChanged, _actions: &mut Actions) {}

    /// An interval is over: what a request from another node waited at each memory and its link, beyond the latency, in
    /// local accesses.
    fn loads(&mut self, _waits: &[f64]) {}

    /// An interval is over: how long the slowest CPU of each node took, as a share of the program's time. What faster
    /// ones wait for delays nobody.
    fn paces(&mut self, _paces: &[f64]) {}

    /// The hot areas that programs have named, all of them; none: all memory matters.
    fn areas(&mut self, _areas: &[HotArea]) {}

    /// True if the policy itself sends the pages of a thread that has moved after it.
    fn forwards(&self) -> bool {
        false
    }

    /// True if the policy must know at once that a phase begins, since it acts before the phase does.
    fn hurries(&self) -> bool {
        false
    }

    /// A page is referred to for the first time; `address` is its first byte.
    fn page_new(&mut self, _page: Page, _address: u64) {}

    /// The page's mapping went away: no sample of it will follow.
    fn page_gone(&mut self, _page: Page) {}

    /// The page lives on, but what was said of it no longer holds: the thread that used it is elsewhere, and the page
    /// is sent after it. Unless a policy knows better, it begins anew with the page.
    fn page_forget(&mut self, page: Page, address: u64) {
        self.page_gone(page);
        self.page_new(page, address);
    }

    /// What came of an action.
    fn outcome(&mut self, _action: &Action, _outcome: &Outcome) {}

    /// True if what is decided for a page depends on that page's observations only, so that pages can be simulated one
    /// after the other and in parallel.
    fn independent(&self) -> bool {
        true
    }
}

/// What every policy can do because it is plain data: be copied, and written down.
pub trait Snapshot {
    /// A copy with all state.
    fn boxed_clone(&self) -> Box<dyn Policy>;

    /// All state as JSON; [`table::Entry::restore`] reads it back.
    fn snapshot(&self) -> serde_json::Value;
}

impl<P: Policy + Clone + Serialize + DeserializeOwned + 'static> Snapshot for P {
    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }

    fn snapshot(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a policy's state is plain data with string keys")
    }
}
