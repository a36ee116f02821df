//! What windows add to the estimate of the bound.

use std::ops::Add;

/// What a window adds, with its weight.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    /// Cost that no placement is below.
    pub low: f64,
    /// Cost of a placement.
    pub high: f64,
    /// References.
    pub references: f64,
    /// How long what it stands for is.
    pub length: f64,
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, more: Sums) -> Sums {
        Sums {
            low: self.low + more.low,
            high: self.high + more.high,
            references: self.references + more.references,
            length: self.length + more.length,
        }
    }
}
