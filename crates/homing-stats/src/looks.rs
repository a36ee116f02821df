//! When to look, and how wide intervals have to be so that all of them hold together.
//!
//! An interval of 95 % that is computed again and again until it is narrow enough holds the true value less often than
//! that. So each look has a share of the errors that are allowed at all (alpha spending: Lan and DeMets 1983), and the
//! shares of all looks of all ways add up to that (Bonferroni). That assumes nothing about how looks depend on each
//! other. Looks are at numbers of pairs that grow by half each time; the last comes when the experiment ends, whatever
//! the number is, provided that what ended it knew nothing of the times since the look before.

use super::interval::SignedRanks;

/// Most looks of a way.
pub const LOOKS: usize = 13;

/// By how much the number of pairs grows from look to look.
const GROWTH: f64 = 1.5;

/// The looks of each of several ways.
#[derive(Clone, Debug)]
pub struct Looks {
    /// The share of errors of one way.
    error: f64,
    /// Pairs at the first look.
    first: usize,
}

impl Looks {
    /// Of this many ways that are compared with way 0 (at least 1), whose intervals all hold together with the chance
    /// `confidence`.
    pub fn new(ways: usize, confidence: f64) -> Looks {
        let mut looks = Looks { error: (1.0 - confidence) / ways.max(1) as f64, first: 1 };
        // All values on one side have a chance of 2 in 2^pairs.
        while 2f64.powi(1 - looks.first as i32) > looks.error(0) {
            looks.first += 1;
        }
        looks
    }

    /// Pairs at a look, which count from 0.
    pub fn pairs(&self, look: usize) -> usize {
        (self.first as f64 * GROWTH.powi(look as i32)).ceil() as usize
    }

    /// The chance that the interval of a look misses: falls as 1 over its number.
    pub fn error(&self, look: usize) -> f64 {
        if look >= LOOKS {
            return 0.0;
        }
        let all: f64 = (1..=LOOKS).map(|number| 1.0 / number as f64).sum();
        self.error / all / (look + 1) as f64
    }

    /// What is cut off at a look with this many pairs ([`SignedRanks::cut`]).
    pub fn cut(&self, look: usize, pairs: usize, ranks: &mut SignedRanks) -> Option<usize> {
        ranks.advance(pairs);
        ranks.cut(self.error(look))
    }
}
