//! What the session asks for, and what it records: plain values, to be carried out by whoever drives it.

use super::plan::Place;
use homing_core::action::{Kind, Outcome};
use homing_core::ids::{Micros, Node};
use homing_core::process::{ProcessId, ThreadId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One thing to do, or to write down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Look at processes, threads and mappings. The answer is [`super::Input::Looked`].
    Look,
    /// Scan for hint faults. The answer is [`super::Input::Scanned`], once pages are marked.
    Scan,
    /// Ask the kernel where pages are. The answer is [`super::Input::Located`].
    Locate {
        /// Names the questions in the answer.
        number: u32,
        /// The questions.
        questions: Vec<Question>,
    },
    /// Move pages. The answers come in [`super::Input::Landed`], in any order and parts.
    Move {
        /// The orders; none if only the time is prolonged.
        orders: Vec<Order>,
        /// No order is begun after that, whenever it was given.
        until: Micros,
    },
    /// Split huge pages. The answer is [`super::Input::Split`].
    Split(Vec<HugePage>),
    /// Bind a thread to a CPU. Only a failure is answered, by [`super::Input::NotBound`].
    Bind {
        /// The thread.
        thread: ThreadId,
        /// The CPU.
        cpu: u32,
    },
    /// Let a thread run on the CPUs of this node only, of those that it had. Only a failure is answered, by
    /// [`super::Input::NotBound`].
    Keep {
        /// Its process.
        process: ProcessId,
        /// The thread.
        thread: ThreadId,
        /// The node.
        node: Node,
    },
    /// Give a thread that is kept the CPUs that it had.
    LetGo {
        /// The thread.
        thread: ThreadId,
    },
    /// Let a thread run on the CPUs of this node only, of those that it had, and give it the others back at once:
    /// the engine displaced it. Only a failure is answered, by [`super::Input::NotBound`].
    SendBack {
        /// Its process.
        process: ProcessId,
        /// The thread.
        thread: ThreadId,
        /// The node.
        node: Node,
    },
    /// To be written down: an action, and what came of it at once.
    Decided(Decided),
    /// To be written down: what came of an action that was pending.
    Settled(Settlement),
    /// To be written down: a huge page was split.
    WasSplit(WasSplit),
}

/// Where is the page at this address?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Question {
    /// The process.
    pub process: ProcessId,
    /// First address of the page.
    pub address: u64,
    /// Nobody knows yet whether it is part of a huge page, and it might be. If it is, the question is about that.
    pub maybe_huge: bool,
}

/// A page to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Names the order in the answer.
    pub tag: u32,
    /// The process.
    pub process: ProcessId,
    /// First address of the page.
    pub address: u64,
    /// The node to move it to.
    pub to: Node,
    /// Several processes may map it: it is moved for all of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A huge page to be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HugePage {
    /// The process.
    pub process: ProcessId,
    /// Its first address.
    pub address: u64,
}

/// An outcome as a value of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedOutcome {
    /// Carried out; in a dry run: counted as carried out.
    Done,
    /// Known later.
    Pending,
    /// It was so already.
    Already,
    /// By a rule.
    Refused(Cow<'static, str>),
    /// By the kernel.
    Failed(i32),
}

impl From<Outcome> for RecordedOutcome {
    fn from(outcome: Outcome) -> RecordedOutcome {
        match outcome {
            Outcome::Done => RecordedOutcome::Done,
            Outcome::Pending => RecordedOutcome::Pending,
            Outcome::Already => RecordedOutcome::Already,
            Outcome::Refused(why) => RecordedOutcome::Refused(why.into()),
            Outcome::Failed(errno) => RecordedOutcome::Failed(errno),
        }
    }
}

/// An action of the policy, of a plan, or of the session itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// When.
    pub t: Micros,
    /// The page.
    pub page: u32,
    /// What.
    pub action: Kind,
    /// Where the page was.
    pub from: Option<u16>,
    /// Why.
    pub reason: Cow<'static, str>,
    /// Accesses of the page by node since it was first seen.
    pub profile: Vec<u32>,
    /// Which page.
    pub place: Place,
    /// What came of it at once.
    pub outcome: RecordedOutcome,
}

/// What came of an action that was pending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settlement {
    /// When.
    pub t: Micros,
    /// The page.
    pub page: u32,
    /// What.
    pub action: Kind,
    /// What came of it.
    pub outcome: RecordedOutcome,
}

/// A huge page that was split, since several nodes use it: it is gone, its parts are new pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WasSplit {
    /// When.
    pub t: Micros,
    /// The page.
    pub page: u32,
    /// Which page.
    pub place: Place,
}
