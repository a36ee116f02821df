//! Intervals for the centre of values that are as likely to be above it by some amount as below it by that amount: the
//! order statistics of Walsh averages that Wilcoxon's signed-rank test gives (Hollander, Wolfe and Chicken 2014,
//! "Nonparametric Statistical Methods", section 3.3; Tukey 1949). They are exact for any number of values. Where values
//! are equal they are wider than they need be, never narrower (Randles and Wolfe 1979, section 6.2).

use serde::Serialize;

/// Where a ratio is, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether it holds a value.
    pub fn holds(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The chances of each sum of signed ranks of `count` values, where each sign is a fair coin: of index `t` that the
/// ranks of the positive ones add up to `t`.
#[derive(Clone, Debug)]
pub struct SignedRanks {
    count: usize,
    chances: Vec<f64>,
}

impl Default for SignedRanks {
    fn default() -> Self {
        SignedRanks { count: 0, chances: vec![1.0] }
    }
}

impl SignedRanks {
    /// Those of `count` values, from those of fewer; begins anew for more.
    pub fn advance(&mut self, count: usize) {
        if count < self.count {
            *self = SignedRanks::default();
        }
        for rank in self.count + 1..=count {
            let old = self.chances.len();
            self.chances.resize(old + rank, 0.0);
            for sum in (0..self.chances.len()).rev() {
                let with = if sum >= rank { self.chances[sum - rank] } else { 0.0 };
                self.chances[sum] = (self.chances[sum] + with) / 2.0;
            }
        }
        self.count = count;
    }

    /// How many Walsh averages may be cut off at each end so that what is left misses the centre with a chance of
    /// `error` at most; none if that is impossible even with none cut off.
    pub fn cut(&self, error: f64) -> Option<usize> {
        let mut below = 0.0;
        let mut sums = 0usize;
        for chance in &self.chances {
            below += chance;
            // Room for rounding: 2^-n has none.
            if 2.0 * below > error * (1.0 + 1e-12) {
                break;
            }
            sums += 1;
        }
        // With c + 1 sums in the tail, c averages are cut off.
        sums.checked_sub(1)
    }
}

/// The means of all pairs of values, each with itself too, in no order.
pub fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (place, one) in values.iter().enumerate() {
        averages.extend(values[..=place].iter().map(|other| (one + other) / 2.0));
    }
    averages
}

/// The value that would stand at `place` were they in order.
fn nth(values: &mut [f64], place: usize) -> f64 {
    *values.select_nth_unstable_by(place, f64::total_cmp).1
}

/// The median of values; not of none.
pub fn median(values: &mut [f64]) -> f64 {
    quantile(values, 0.5)
}

/// A quantile of values, between order statistics in proportion (R's type 7); not of none.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    let at = share * (values.len() - 1) as f64;
    let (place, part) = (at.floor() as usize, at.fract());
    let low = nth(values, place);
    if part == 0.0 {
        return low;
    }
    low + part * (nth(values, place + 1) - low)
}

/// The centre of values: the median of their Walsh averages; none of no values.
pub fn centre(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(&mut walsh_averages(values)))
}

/// The interval of the centre with `cut` averages cut off at each end ([`SignedRanks::cut`]).
pub fn of_centre(values: &[f64], cut: usize) -> Option<Interval> {
    let mut averages = walsh_averages(values);
    let last = averages.len().checked_sub(1 + cut).filter(|last| *last >= cut)?;
    Some(Interval { low: nth(&mut averages, cut), high: nth(&mut averages, last) })
}
