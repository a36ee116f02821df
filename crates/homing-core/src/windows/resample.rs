//! How much chance there is in sums over windows: the bootstrap (Efron 1979).

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::ops::Add;

/// Sums over as many windows as there are, drawn again and again.
const RESAMPLES: usize = 1000;
/// How many of them may be beyond each end: 2.5 per cent.
const BEYOND: usize = RESAMPLES / 40;
const SEED: u64 = 0x77_69_6e_64_6f_77;

/// The sums of windows drawn with replacement.
pub(crate) struct Resampled<T>(Vec<T>);

impl<T: Copy + Default + Add<Output = T>> Resampled<T> {
    /// `windows`: what each adds to the sums.
    pub fn of(windows: &[T]) -> Resampled<T> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut draw = || {
            let windows = windows.iter().map(|_| windows[random.gen_range(0..windows.len())]);
            windows.fold(T::default(), Add::add)
        };
        Resampled((0..RESAMPLES).map(|_| draw()).collect())
    }

    /// The lower end of the lower and the upper end of the upper of two figures of sums.
    pub fn ends(&self, of: &dyn Fn(&T) -> (f64, f64)) -> (f64, f64) {
        let sorted = |figure: fn((f64, f64)) -> f64| {
            let mut all: Vec<f64> = self.0.iter().map(|sums| figure(of(sums))).collect();
            all.sort_unstable_by(f64::total_cmp);
            all
        };
        (sorted(|(low, _)| low)[BEYOND - 1], sorted(|(_, high)| high)[RESAMPLES - BEYOND])
    }
}
