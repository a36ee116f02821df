//! Windows of a program in a trace (`homing record --windows`): where in Time they are, and what a simulation of them,
//! one after the other, says of the whole program. The bound is estimated in [`crate::optimal::windows`].
//!
//! Each word of the recording is as likely to be in a window as any other, so each window stands for the same multiple
//! of itself: sums over windows, times that, estimate sums over the program. How far chance has brought them from
//! their means is told by the bootstrap. `docs/recording.md`, "Windows", and `docs/policies.md`, "From windows".

mod resample;
mod still;
#[cfg(test)]
mod tests;

pub use still::{best_static, still, Still};

use crate::account::Account;
use crate::ids::Time;
use crate::machine::Costs;
use resample::Resampled;
use serde::{Deserialize, Serialize};
use std::ops::{Add, Range};

/// Fewer windows than this say nothing about how much they differ.
pub const FEWEST: usize = 8;

/// An estimate that the truth lies around.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Figure {
    /// Between the two bounds.
    pub value: f64,
    /// The mean that it cannot be below, as far as the windows go.
    pub lower_bound: f64,
    /// The mean that it cannot be above.
    pub upper_bound: f64,
    /// Lower end of the interval that is made to hold the truth in 95 of 100 recordings; none with too few windows.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
}

impl Figure {
    /// The value with its interval, as `12.3 (11.0 to 13.5)`, or why it has none.
    pub fn in_words(&self, digits: usize) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                format!("{:.digits$} ({low:.digits$} to {high:.digits$})", self.value)
            }
            _ if self.lower_bound == self.upper_bound => format!("{:.digits$} (no interval)", self.value),
            _ => format!(
                "{:.digits$} (no interval; in the mean from {:.digits$} to {:.digits$})",
                self.value, self.lower_bound, self.upper_bound
            ),
        }
    }

    /// How much of the interval is what windows cannot tell however many there are, from 0 to 1; the rest is chance. If
    /// it has a width.
    pub fn between(&self) -> Option<f64> {
        let width = self.high? - self.low?;
        (width > 1e-12 * self.value.abs())
            .then(|| ((self.upper_bound - self.lower_bound) / width).clamp(0.0, 1.0))
    }
}

/// Where the windows of a program are in its trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Windows {
    /// The first Time of each window, and the first behind it.
    cuts: Vec<Time>,
    /// How long each is, in what such lengths are counted in.
    lengths: Vec<f64>,
    /// How many times as long the program is as all of them together.
    weight: f64,
}

/// No windows: the trace is of all of a program.
pub static NO_WINDOWS: Windows = Windows { cuts: Vec::new(), lengths: Vec::new(), weight: 1.0 };

impl Windows {
    /// `spans`: the Times of each window and how long it is, in order of Time and apart. `weight`: how many times as
    /// long the program is as all of them together; at least 1.
    pub fn new(spans: impl IntoIterator<Item = (Range<Time>, f64)>, weight: f64) -> Windows {
        let (mut cuts, mut lengths) = (Vec::new(), Vec::new());
        for (span, length) in spans {
            let from = span.start.max(cuts.last().copied().unwrap_or_default());
            cuts.extend([from, span.end.max(from)]);
            lengths.push(length);
        }
        Windows { cuts, lengths, weight }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether the trace is of all of a program.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// How much of the program they hold, from 0 to 1.
    pub fn share(&self) -> f64 {
        1.0 / self.weight.max(1.0)
    }

    /// The window that a Time is in, if it is in one.
    #[inline]
    fn at(&self, time: Time) -> Option<usize> {
        let cuts = self.cuts.partition_point(|&cut| cut <= time);
        (cuts % 2 == 1).then_some(cuts / 2)
    }

    /// Where the next window begins or ends after a Time.
    #[inline]
    pub(crate) fn next_cut(&self, time: Time) -> Option<Time> {
        self.cuts.get(self.cuts.partition_point(|&cut| cut <= time)).copied()
    }

    /// What a simulation of the windows says of the program; nothing without a reference in a window.
    pub fn estimate(&self, tallies: &[Tally], costs: &Costs) -> Option<Estimate> {
        let sums = |(tally, &length): (&Tally, &f64)| self.sums(tally, length, costs);
        let each: Vec<Sums> = tallies.iter().zip(&self.lengths).map(sums).collect();
        let seen = each.iter().filter(|sums| sums.references > 0.0).count();
        let total = Total::of(&each, seen);
        let percent = |part: f64, of: f64| 100.0 * part / of.max(f64::MIN_POSITIVE);
        (seen > 0).then(|| Estimate {
            windows: seen,
            references: total.sums.references,
            mcpr: total.mcpr(),
            cost: total.cost(),
            nonlocal_percent: Some(total.figure(&|s| {
                (percent(s.nonlocal.low, s.references), percent(s.nonlocal.high, s.references))
            })),
        })
    }

    fn sums(&self, tally: &Tally, length: f64, costs: &Costs) -> Sums {
        let ends = |of: &dyn Fn(&Account) -> f64, least: f64| {
            let all = self.weight * of(&tally.all);
            Ends { low: all - (self.weight - 1.0) * (of(&tally.settling) - least).max(0.0), high: all }
        };
        Sums {
            cost: ends(&|account| account.cost(costs), tally.settling.references() as f64),
            nonlocal: ends(&|account| (account.remote + account.global) as f64, 0.0),
            references: self.weight * tally.all.references() as f64,
            length: self.weight * length,
        }
    }
}

/// What was charged in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// All of it.
    pub all: Account,
    /// What pages paid up to their first move in the window, and for that move. Between windows a policy would have
    /// gone on moving them, so it may be that they pay this once and not in each stretch of the program.
    pub settling: Account,
}

impl Tally {
    /// Adds another tally of the same window.
    pub fn add(&mut self, other: &Tally) {
        self.all.add(&other.all);
        self.settling.add(&other.settling);
    }
}

/// Tallies of windows in the making, of some pages.
pub(crate) struct Ledger<'a> {
    windows: &'a Windows,
    tallies: Vec<Tally>,
    pages: Vec<InWindow>,
}

/// One page in the window that it was last referred to in.
#[derive(Clone, Copy, Default)]
struct InWindow {
    window: usize,
    /// What it has paid there so far, until it moves there.
    settling: Option<Account>,
}

impl<'a> Ledger<'a> {
    /// The ledger of `pages` pages; `None` if there are no windows.
    pub fn new(windows: &'a Windows, pages: usize) -> Option<Ledger<'a>> {
        (!windows.is_empty()).then(|| Ledger {
            windows,
            tallies: vec![Tally::default(); windows.len()],
            pages: vec![InWindow { window: usize::MAX, settling: None }; pages],
        })
    }

    /// Charges what a page pays at a Time, for copies and then for references.
    pub fn charge(&mut self, page: usize, time: Time, charged: &Account) {
        let Some(window) = self.windows.at(time) else { return };
        let (page, tally) = (&mut self.pages[page], &mut self.tallies[window]);
        if page.window != window {
            *page = InWindow { window, settling: Some(Account::default()) };
        }
        tally.all.add(charged);
        if let Some(settling) = &mut page.settling {
            if charged.moves + charged.replications > 0 {
                settling.add(&charged.of_copies());
                tally.settling.add(settling);
                page.settling = None;
            } else {
                settling.add(charged);
            }
        }
    }

    /// The tallies, a window each.
    pub fn finish(self) -> Vec<Tally> {
        self.tallies
    }
}

/// What a policy does to the whole program, estimated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Estimate {
    /// Windows that have references.
    pub windows: usize,
    /// References of the whole program.
    pub references: f64,
    /// Cost of a reference.
    pub mcpr: Figure,
    /// Cost of the whole program in local references.
    pub cost: Figure,
    /// 100 * references to other nodes' memory / references; absent for the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonlocal_percent: Option<Figure>,
}

/// Sums over all windows.
pub(crate) struct Total<T> {
    /// Windows that have references.
    pub seen: usize,
    /// The sums.
    pub sums: T,
    chance: Option<Resampled<T>>,
}

impl<T: Copy + Default + Add<Output = T>> Total<T> {
    /// Of what each window adds; `seen` of them have references.
    pub fn of(each: &[T], seen: usize) -> Total<T> {
        let sums = each.iter().fold(T::default(), |sum, more| sum + *more);
        Total { seen, sums, chance: (seen >= FEWEST).then(|| Resampled::of(each)) }
    }

    /// A figure of the sums, from its two bounds.
    pub fn figure(&self, of: &dyn Fn(&T) -> (f64, f64)) -> Figure {
        let (lower_bound, upper_bound) = of(&self.sums);
        let ends = self.chance.as_ref().map(|chance| chance.ends(of));
        Figure {
            value: (lower_bound + upper_bound) / 2.0,
            lower_bound,
            upper_bound,
            low: ends.map(|(low, _)| low.min(lower_bound)),
            high: ends.map(|(_, high)| high.max(upper_bound)),
        }
    }
}

impl Total<Sums> {
    /// Cost of a reference.
    pub fn mcpr(&self) -> Figure {
        self.figure(&|s| (s.cost.low / s.references, s.cost.high / s.references))
    }

    /// Cost of the program, whose length is known.
    pub fn cost(&self) -> Figure {
        let length = self.sums.length;
        self.figure(&|s| (s.cost.low / s.length * length, s.cost.high / s.length * length))
    }
}

/// The two ends of a sum.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub low: f64,
    pub high: f64,
}

impl Add for Ends {
    type Output = Ends;

    fn add(self, more: Ends) -> Ends {
        Ends { low: self.low + more.low, high: self.high + more.high }
    }
}

/// What a window adds to an estimate, with its weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub cost: Ends,
    pub nonlocal: Ends,
    pub references: f64,
    /// How long what it stands for is.
    pub length: f64,
}

impl Add for Sums {
    type Output = Sums;

    fn add(self, more: Sums) -> Sums {
        Sums {
            cost: self.cost + more.cost,
            nonlocal: self.nonlocal + more.nonlocal,
            references: self.references + more.references,
            length: self.length + more.length,
        }
    }
}
