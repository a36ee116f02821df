//! The verdict: what is wrong, in one word for programs and one line for people.

use super::area::Area;
use super::remedy::{Remedy, MOSTLY};
use serde::{Deserialize, Serialize};

/// What is wrong with an area, or with the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Cause {
    /// One node made the pages that several nodes use.
    InitialisedByOneThread,
    /// The pages were made by other nodes than those that use them.
    InitialisedByOthers,
    /// All nodes use the pages, and one memory serves them.
    SharedByAll,
    /// All nodes read the pages, which nobody writes any more.
    ReadShared,
    /// Nodes use the pages one after the other.
    UsedInTurn,
    /// Several nodes use each page, but each its own lines of it.
    FalselySharedPages,
    /// Nodes use different small pages of the same huge page.
    SharedHugePages,
    /// Nodes write different bytes of the same lines.
    FalselySharedLines,
    /// Nodes write the same few lines.
    ContendedLines,
    /// One memory serves most of the references, and all wait for it.
    OneNodeCongested,
    /// Threads run now on one node, now on another.
    ThreadsWander,
    /// A memory policy or a cpuset keeps pages away from the nodes whose CPUs the threads may use.
    BindingsWrong,
    /// Pages that cannot move are on another node than their users.
    Unmovable,
    /// The kernel's NUMA balancing takes more time than it could save.
    BalancingCosts,
    /// There is next to nothing to gain.
    NotNuma,
    /// What was recorded does not tell.
    NotKnown,
}

impl Cause {
    /// The cause in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Cause::InitialisedByOneThread => "initialised by one thread",
            Cause::InitialisedByOthers => "initialised by other threads than use it",
            Cause::SharedByAll => "shared by all: spread it",
            Cause::ReadShared => "read by all: replicate it or leave it",
            Cause::UsedInTurn => {
                "used by one node after the other: keep threads to their data, or let it follow"
            }
            Cause::FalselySharedPages => "falsely shared pages: separate the parts",
            Cause::SharedHugePages => "huge pages shared by nodes: use small pages there",
            Cause::FalselySharedLines => "falsely shared lines: pad them",
            Cause::ContendedLines => "contended lines: split them",
            Cause::OneNodeCongested => "one node is congested",
            Cause::ThreadsWander => "threads wander between nodes: bind them",
            Cause::BindingsWrong => "memory is bound away from the threads: bind both to the same nodes",
            Cause::Unmovable => "pages that cannot move are away from their users: allocate them there",
            Cause::BalancingCosts => "the kernel's balancing costs more than it could save: switch it off",
            Cause::NotNuma => "not NUMA",
            Cause::NotKnown => "not known",
        }
    }

    /// The same without what to do.
    pub fn short(self) -> &'static str {
        self.words().split(':').next().unwrap_or_default()
    }

    /// Why a remedy helps an area: what is wrong with it. Nothing if the remedy is not for areas.
    pub(super) fn of(area: &Area, remedy: Remedy) -> Option<Cause> {
        let one_maker = Area::most(&area.made_by).1 > MOSTLY;
        Some(match remedy {
            Remedy::InitialiseByUser | Remedy::Bind(_) if one_maker => Cause::InitialisedByOneThread,
            Remedy::InitialiseByUser | Remedy::Bind(_) => Cause::InitialisedByOthers,
            Remedy::Spread => Cause::SharedByAll,
            Remedy::Replicate => Cause::ReadShared,
            Remedy::Migrate | Remedy::SameThread => Cause::UsedInTurn,
            Remedy::SeparatePages => Cause::FalselySharedPages,
            Remedy::PadLines => Cause::FalselySharedLines,
            Remedy::SplitLines => Cause::ContendedLines,
            Remedy::SmallPages(_) => Cause::SharedHugePages,
            Remedy::OneNode => return None,
        })
    }
}
