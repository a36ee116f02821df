//! Resource sets: CPUs and memories that a program is confined to (Brock et al. 2001, section 4, "RSet").
//!
//! * A [`ResourceSet`] is CPUs and memory nodes, by the kernel's numbers. Sets unite, intersect and differ.
//! * The [`Global`] set has all resources of a machine, and says which of them the caller may use.
//! * An [`Expr`] is a set in words (`node:0-1 & !cpu:3`), worked out on a machine.
//! * [`Sets`] are named sets of a TOML file, with [`Policies`], and their hierarchy.
//! * [`Threads`] and [`Memory`] are the paper's policies: which CPU each thread gets, and which memory.
#![forbid(unsafe_code)]

mod error;
mod expr;
mod global;
mod hwloc;
mod list;
mod policy;
mod sets;
#[cfg(test)]
mod tests;

pub use error::ExprError;
pub use expr::{is_name, Expr};
pub use global::{Global, GlobalNode};
pub use list::ranges;
pub use policy::{Memory, Pages, Policies, Threads, MOST_STRIPES, STRIDE_UNIT};
pub use sets::{Named, SetError, Sets};

use homing_core::ids::{Cpu, Node};
use std::collections::BTreeSet;
use std::ops::{BitAnd, BitOr, Sub};

/// CPUs and memory nodes. Either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceSet {
    /// CPUs.
    pub cpus: BTreeSet<Cpu>,
    /// Nodes whose memory is in the set.
    pub memories: BTreeSet<Node>,
}

impl ResourceSet {
    /// Whether it has neither CPUs nor memory.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty() && self.memories.is_empty()
    }

    /// Whether all of it is in `other`.
    pub fn is_inside(&self, other: &ResourceSet) -> bool {
        self.cpus.is_subset(&other.cpus) && self.memories.is_subset(&other.memories)
    }

    /// How many CPUs and memories it has.
    pub fn len(&self) -> usize {
        self.cpus.len() + self.memories.len()
    }
}

impl BitOr for &ResourceSet {
    type Output = ResourceSet;

    /// The union.
    fn bitor(self, other: &ResourceSet) -> ResourceSet {
        ResourceSet { cpus: &self.cpus | &other.cpus, memories: &self.memories | &other.memories }
    }
}

impl BitAnd for &ResourceSet {
    type Output = ResourceSet;

    /// The intersection.
    fn bitand(self, other: &ResourceSet) -> ResourceSet {
        ResourceSet { cpus: &self.cpus & &other.cpus, memories: &self.memories & &other.memories }
    }
}

impl Sub for &ResourceSet {
    type Output = ResourceSet;

    /// What the other set has not.
    fn sub(self, other: &ResourceSet) -> ResourceSet {
        ResourceSet { cpus: &self.cpus - &other.cpus, memories: &self.memories - &other.memories }
    }
}
