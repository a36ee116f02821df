//! What policies ask for and what comes of it: actions go out as values, outcomes come back as results. Also where a
//! page is: its home and its replicas.

use crate::ids::{Node, Page, Time};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A set of nodes, at most [`NodeSet::CAPACITY`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeSet(u128);

impl NodeSet {
    /// Nodes from 0 to 127 fit.
    pub const CAPACITY: u16 = 128;

    /// The set of one node.
    #[inline]
    pub fn single(node: Node) -> NodeSet {
        debug_assert!(node.0 < Self::CAPACITY);
        NodeSet(1 << node.0)
    }

    /// True if `node` is in the set.
    #[inline]
    pub fn contains(self, node: Node) -> bool {
        self.0 >> node.0 & 1 == 1
    }

    /// The set with `node` in it.
    #[inline]
    #[must_use]
    pub fn with(self, node: Node) -> NodeSet {
        NodeSet(self.0 | NodeSet::single(node).0)
    }

    /// What is in this set and not in `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }

    /// Number of nodes.
    #[inline]
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// True if there is none.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes, by rising number.
    pub fn iter(self) -> impl Iterator<Item = Node> {
        (0..Self::CAPACITY).map(Node).filter(move |&node| self.contains(node))
    }
}

/// Where a page is: its home, and the home with all replicas as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locations {
    home: Node,
    all: NodeSet,
}

impl Locations {
    /// One copy, at `home`.
    #[inline]
    pub fn single(home: Node) -> Locations {
        Locations { home, all: NodeSet::single(home) }
    }

    /// The node that holds the page's frame.
    #[inline]
    pub fn home(self) -> Node {
        self.home
    }

    /// Home and replicas.
    #[inline]
    pub fn all(self) -> NodeSet {
        self.all
    }

    /// True if `node` holds a copy.
    #[inline]
    pub fn holds(self, node: Node) -> bool {
        self.all.contains(node)
    }

    /// Number of copies, the home counted.
    #[inline]
    pub fn copies(self) -> u32 {
        self.all.len()
    }

    /// The locations with one more replica.
    #[must_use]
    pub fn with_replica(self, node: Node) -> Locations {
        Locations { home: self.home, all: self.all.with(node) }
    }
}

/// What can be done with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Make `to` the only copy, drop all others.
    Move {
        /// The new home.
        to: Node,
    },
    /// Put a copy beside those that exist.
    Replicate {
        /// The node that gets a copy.
        to: Node,
    },
    /// Drop all copies but the one at `keep`, which becomes (or stays) the home.
    Collapse {
        /// A node that holds a copy.
        keep: Node,
    },
    /// Leave the page where it is and map it remotely for all others until it is defrosted.
    Freeze,
    /// Reconsider the page at its next reference from a node without a copy.
    Defrost,
}

impl Kind {
    /// Name and node, as action logs show it.
    pub fn describe(self) -> (&'static str, Option<Node>) {
        match self {
            Kind::Move { to } => ("move", Some(to)),
            Kind::Replicate { to } => ("replicate", Some(to)),
            Kind::Collapse { keep } => ("collapse", Some(keep)),
            Kind::Freeze => ("freeze", None),
            Kind::Defrost => ("defrost", None),
        }
    }

    /// Where a page that is `at` some nodes is afterwards.
    #[inline]
    pub fn applied(self, at: Locations) -> Locations {
        match self {
            Kind::Move { to } | Kind::Collapse { keep: to } => Locations::single(to),
            Kind::Replicate { to } => at.with_replica(to),
            Kind::Freeze | Kind::Defrost => at,
        }
    }
}

/// One thing a policy asks for, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// The page.
    pub page: Page,
    /// What to do with it.
    pub kind: Kind,
    /// Why, in a few words.
    pub reason: &'static str,
}

/// What came of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Carried out.
    Done,
    /// Accepted; the result is reported later ([`crate::engine::Engine::settle`]). Until then the page counts as
    /// moved.
    Pending,
    /// Nothing to do: the page was already as asked.
    Already,
    /// Not carried out, because of a rule.
    Refused(&'static str),
    /// The kernel refused this page, with this error number.
    Failed(i32),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("done"),
            Outcome::Pending => f.write_str("pending"),
            Outcome::Already => f.write_str("already"),
            Outcome::Refused(why) => write!(f, "refused: {why}"),
            Outcome::Failed(errno) => write!(f, "failed: errno {errno}"),
        }
    }
}

/// An action as it happened: one line of an action log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub time: Time,
    /// What and why.
    pub action: Action,
    /// What came of it.
    pub outcome: Outcome,
}

/// Where policies put the actions they ask for.
#[derive(Debug, Default)]
pub struct Actions(Vec<Action>);

impl Actions {
    /// Asks for an action.
    #[inline]
    pub fn push(&mut self, page: Page, kind: Kind, reason: &'static str) {
        self.0.push(Action { page, kind, reason });
    }

    /// True if nothing was asked for.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes what was asked for, oldest first, into `into` and is empty again.
    pub fn take(&mut self, into: &mut Vec<Action>) {
        into.append(&mut self.0);
    }
}
