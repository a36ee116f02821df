//! What a placement does, in integers, and its price: c = local + r * remote + g * global + R * copies + G * global
//! copies (Bolosky & Scott 1991, equations 1 and 2).

use crate::machine::Uniform;
use std::ops::AddAssign;

/// References by where they were served, and page copies by their price. `moves + replications` is `copies +
/// global_copies`: the same copies, kept apart by whether other copies stayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Charges {
    /// References to the node's own memory.
    pub local: u64,
    /// References to another node's memory.
    pub remote: u64,
    /// References to global memory.
    pub global: u64,
    /// Page copies at R.
    pub copies: u64,
    /// Page copies at G: global memory holds the page before or after.
    pub global_copies: u64,
    /// Copies that dropped all others.
    pub moves: u64,
    /// Copies beside others.
    pub replications: u64,
}

impl Charges {
    /// All references.
    pub fn references(&self) -> u64 {
        self.local + self.remote + self.global
    }

    /// The cost on a uniform machine.
    pub fn cost(&self, costs: &Uniform) -> f64 {
        let global = costs.global.map_or(0.0, |g| g.access * self.global as f64);
        self.local as f64 + costs.remote * self.remote as f64 + global + self.copy_cost(costs)
    }

    /// The part of the cost that is page copies.
    pub fn copy_cost(&self, costs: &Uniform) -> f64 {
        let global = costs.global.map_or(0.0, |g| g.page_move * self.global_copies as f64);
        costs.page_move * self.copies as f64 + global
    }
}

impl AddAssign for Charges {
    fn add_assign(&mut self, other: Charges) {
        self.local += other.local;
        self.remote += other.remote;
        self.global += other.global;
        self.copies += other.copies;
        self.global_copies += other.global_copies;
        self.moves += other.moves;
        self.replications += other.replications;
    }
}
