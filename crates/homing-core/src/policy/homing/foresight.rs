//! How long will it last? The one thing that the past does not say about a visit is its length, and all visits of a
//! program say something about it: those of the node to this page, to the pages around it, and wherever it was last.
//!
//! A length is known step by step, each twice as long as the one before. At each step a visit goes on or is over. Every
//! context, such as "the third last visitor comes back, and stayed for five steps then", keeps a tally of what visits
//! like this one did. What the tallies say is added up as logarithms of odds, with weights that are learnt from how
//! right each was: logistic mixing, as compressors predict their next bit with (Mahoney 2005). What is learnt counts
//! from the moment that a visit goes on, not from its end.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::LazyLock;

/// Steps that are told apart. The first is 1/64 of the references that are worth a page move, the last four times as
/// many as are.
pub(super) const STEPS: usize = 8;

/// Contexts of a length that are not of its page alone.
pub(super) const SHARED: usize = 8;

/// Tallies that a program has in all; contexts that meet in one share it.
const TALLIES: usize = 1 << 16;

/// What a tally counts before it forgets half.
const MOST: u8 = 60;

/// What is counted before anything was seen: the less, the surer a tally is after few visits.
const UNSEEN: f32 = 0.4;

/// How fast weights are learnt.
const RATE: f32 = 0.02;

/// The weight of a context before anything was learnt.
const WEIGHT: f32 = 0.2;

/// Of every count that a byte can hold, so that nothing need be checked.
static LOGARITHMS: LazyLock<[f32; 256]> =
    LazyLock::new(|| std::array::from_fn(|count| (count as f32 + UNSEEN).ln()));

/// How many visits went on beyond each step, and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Tally {
    on: [u8; STEPS],
    over: [u8; STEPS],
}

impl Tally {
    /// One that was at `step` went on, or not. What it contradicts fades: programs have phases.
    fn add(&mut self, step: usize, goes_on: bool) {
        let (on, over) = (&mut self.on[step], &mut self.over[step]);
        let (same, other) = if goes_on { (on, over) } else { (over, on) };
        *same += 1;
        *other -= other.saturating_sub(2).div_ceil(8);
        if *same + *other > MOST {
            *same /= 2;
            *other /= 2;
        }
    }

    /// Logarithm of the odds that it goes on.
    #[inline]
    fn odds(&self, step: usize, logarithms: &[f32; 256]) -> f32 {
        logarithms[usize::from(self.on[step])] - logarithms[usize::from(self.over[step])]
    }
}

/// Where the tallies of a length's contexts are.
pub(super) type Keys = [u16; SHARED];

/// The place of a context's tally.
#[inline]
pub(super) fn key(words: [u32; 4]) -> u16 {
    let mix =
        |hash: u64, word: u32| (hash ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    (words.into_iter().fold(0x5851_f42d_4c95_7f2d, mix) >> 20) as u16
}

/// How a program's visits last.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Foresight {
    #[serde(serialize_with = "write_sparse", deserialize_with = "read_sparse")]
    tallies: Vec<Tally>,
    /// By context and step; the last are those of the page's own tally.
    weights: [[f32; STEPS]; SHARED + 1],
}

impl Default for Foresight {
    fn default() -> Foresight {
        Foresight { tallies: Vec::new(), weights: [[WEIGHT; STEPS]; SHARED + 1] }
    }
}

impl Foresight {
    /// The tallies of a length's contexts; the last is the page's own.
    #[inline]
    fn seen(&self, own: &Tally, keys: &Keys) -> [Tally; SHARED + 1] {
        std::array::from_fn(|at| match keys.get(at) {
            Some(&key) => self.tallies.get(usize::from(key)).copied().unwrap_or_default(),
            None => *own,
        })
    }

    /// A length that had come to `step` goes on beyond it, or not.
    pub(super) fn learn(&mut self, own: &mut Tally, keys: &Keys, step: usize, goes_on: bool) {
        if self.tallies.is_empty() {
            self.tallies.resize(TALLIES, Tally::default());
        }
        let logarithms = &*LOGARITHMS;
        let inputs = self.seen(own, keys).map(|tally| tally.odds(step, logarithms));
        let sum: f32 = inputs.iter().zip(&self.weights).map(|(input, weights)| input * weights[step]).sum();
        let error = f32::from(u8::from(goes_on)) - logistic(sum);
        for (weights, input) in self.weights.iter_mut().zip(inputs) {
            weights[step] += RATE * error * input;
        }
        keys.iter().for_each(|&key| self.tallies[usize::from(key)].add(step, goes_on));
        own.add(step, goes_on);
    }

    /// The length after which a page that is elsewhere should come, if that costs `price`; both in first steps.
    pub(super) fn wait(&self, own: &Tally, keys: &Keys, price: f32) -> f32 {
        let (mut sums, logarithms) = ([0.0; STEPS], &*LOGARITHMS);
        for (tally, weights) in self.seen(own, keys).iter().zip(&self.weights) {
            sums.iter_mut()
                .enumerate()
                .for_each(|(at, sum)| *sum += tally.odds(at, logarithms) * weights[at]);
        }
        wait(sums.map(logistic), price)
    }
}

/// The chance that has these odds, of which this is the logarithm.
#[inline]
fn logistic(odds: f32) -> f32 {
    1.0 / (1.0 + (-odds).exp())
}

/// When to buy at `price` what else costs its length, in the mean at least, if at each step it goes on with these
/// chances (Fujiwara & Iwama 2005: ski rental, when it is known how long winters last).
fn wait(chances: [f32; STEPS], price: f32) -> f32 {
    // Beyond the last step as much again is expected.
    let last = begin(STEPS);
    let (mut wait, mut left) = (if price <= last { last } else { f32::INFINITY }, price.min(last));
    for step in (0..STEPS).rev() {
        let (from, to) = (begin(step), begin(step + 1));
        let stays = chances[step] * (to - from + left) + (1.0 - chances[step]) * (middle(step) - from);
        left = stays.min(price);
        if price <= stays {
            wait = from;
        }
    }
    wait
}

/// Where a step begins.
#[inline]
pub(super) fn begin(step: usize) -> f32 {
    (1u32 << step) as f32
}

/// The length that stands for those that end in a step.
fn middle(step: usize) -> f32 {
    begin(step) * std::f32::consts::SQRT_2
}

fn write_sparse<S: Serializer>(tallies: &[Tally], serializer: S) -> Result<S::Ok, S::Error> {
    let seen = tallies.iter().enumerate().filter(|(_, tally)| **tally != Tally::default());
    serializer.collect_seq(seen)
}

fn read_sparse<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Tally>, D::Error> {
    let seen = Vec::<(usize, Tally)>::deserialize(deserializer)?;
    let mut tallies = vec![Tally::default(); if seen.is_empty() { 0 } else { TALLIES }];
    for (at, tally) in seen {
        *tallies.get_mut(at).ok_or_else(|| serde::de::Error::custom("a tally beyond the last"))? = tally;
    }
    Ok(tallies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// No other wait is cheaper in the mean.
        #[test]
        fn waits_are_best(chances in prop::array::uniform8(0.0f32..1.0), price in 0.1f32..100.0) {
            let cost = |wait: f32| {
                let (mut alive, mut cost) = (1.0, 0.0);
                for (step, chance) in chances.into_iter().enumerate() {
                    if begin(step) >= wait {
                        return cost + alive * price;
                    }
                    let (from, to) = (begin(step), begin(step + 1));
                    cost += alive * (chance * (to - from) + (1.0 - chance) * (middle(step) - from));
                    alive *= chance;
                }
                cost + alive * if wait.is_finite() { price } else { begin(STEPS) }
            };
            let chosen = cost(wait(chances, price));
            for other in (0..=STEPS).map(begin).chain([f32::INFINITY]) {
                prop_assert!(chosen <= cost(other) * 1.0001 + 1e-4, "{} {} at {}", chosen, cost(other), other);
            }
        }
    }

    #[test]
    fn what_all_visits_do_is_foreseen_of_the_next_and_what_they_no_longer_do_is_forgotten() {
        let (mut foresight, mut own) = (Foresight::default(), Tally::default());
        let keys = std::array::from_fn(|kind| key([kind as u32, 7, 7, 7]));
        let mut visit = |foresight: &mut Foresight, length: usize| {
            (0..length.min(STEPS)).for_each(|step| foresight.learn(&mut own, &keys, step, true));
            if length < STEPS {
                foresight.learn(&mut own, &keys, length, false);
            }
            foresight.wait(&own, &keys, 16.0)
        };
        let waits: Vec<f32> = (0..20).map(|_| visit(&mut foresight, STEPS)).collect();
        assert_eq!(waits[19], 1.0, "all last: go at once, {waits:?}");
        let waits: Vec<f32> = (0..60).map(|_| visit(&mut foresight, 2)).collect();
        assert!(waits[59] > 1.0, "all end soon: {waits:?}");
        let written = serde_json::to_value(&foresight).unwrap();
        let read: Foresight = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(read.tallies, foresight.tallies);
        assert_eq!(serde_json::to_value(read).unwrap(), written);
    }
}
