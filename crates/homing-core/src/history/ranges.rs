//! A map from numbers to values that holds for ranges of numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// Values by number. Memory: an entry a range.
#[derive(Clone, Debug)]
pub struct Ranges<T> {
    /// Ranges that do not overlap: by the first number, the end (exclusive) and the value.
    ranges: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for Ranges<T> {
    fn default() -> Ranges<T> {
        Ranges { ranges: BTreeMap::new() }
    }
}

impl<T: Copy> Ranges<T> {
    /// The value of a number, if it has one.
    pub fn get(&self, number: u64) -> Option<T> {
        let (_, &(end, value)) = self.ranges.range(..=number).next_back()?;
        (number < end).then_some(value)
    }

    /// All ranges with their values, by rising numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, T)> + '_ {
        self.ranges.iter().map(|(&first, &(end, value))| (first..end, value))
    }

    /// Gives those numbers a value that have none; whether there are any.
    pub fn fill(&mut self, numbers: Range<u64>, value: T) -> bool {
        let (mut at, mut any) = (numbers.start, false);
        while at < numbers.end {
            let known =
                self.ranges.range(..=at).next_back().map(|(_, &(end, _))| end).filter(|&end| end > at);
            at = known.unwrap_or_else(|| {
                let next = self.ranges.range(at..numbers.end).next().map_or(numbers.end, |(&first, _)| first);
                self.ranges.insert(at, (next, value));
                any = true;
                next
            });
        }
        any
    }

    /// Gives numbers a value, whatever they had.
    pub fn set(&mut self, numbers: Range<u64>, value: T) {
        self.remove(numbers.clone());
        self.fill(numbers, value);
    }

    /// Takes the values of numbers away, and returns them.
    pub fn remove(&mut self, numbers: Range<u64>) -> Vec<(Range<u64>, T)> {
        if numbers.is_empty() {
            return Vec::new();
        }
        let before = self.ranges.range(..numbers.start).next_back().map(|(&first, &(end, _))| (first, end));
        let from = before.filter(|&(_, end)| end > numbers.start).map_or(numbers.start, |(first, _)| first);
        let overlapping: Vec<u64> = self.ranges.range(from..numbers.end).map(|(&first, _)| first).collect();
        let take = |first: u64| {
            let (end, value) = self.ranges.remove(&first)?;
            if first < numbers.start {
                self.ranges.insert(first, (numbers.start, value));
            }
            if end > numbers.end {
                self.ranges.insert(numbers.end, (end, value));
            }
            Some((first.max(numbers.start)..end.min(numbers.end), value))
        };
        overlapping.into_iter().filter_map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_as_number_by_number(
            changes in prop::collection::vec((0..3u8, 0..40u64, 0..12u64), 1..60),
        ) {
            let mut ranges = Ranges::default();
            let mut model = [None; 60];
            for (value, (what, first, length)) in (0..).zip(changes) {
                let numbers = first..first + length;
                let modelled = &mut model[first as usize..(first + length) as usize];
                match what {
                    0 => {
                        let any = modelled.iter().any(Option::is_none);
                        modelled.iter_mut().for_each(|had| *had = had.or(Some(value)));
                        prop_assert_eq!(ranges.fill(numbers, value), any);
                    }
                    1 => {
                        modelled.fill(Some(value));
                        ranges.set(numbers, value);
                    }
                    _ => {
                        let had: Vec<Option<i32>> = modelled.to_vec();
                        modelled.fill(None);
                        let mut removed = vec![None; length as usize];
                        for (numbers, value) in ranges.remove(numbers) {
                            removed[(numbers.start - first) as usize..(numbers.end - first) as usize].fill(Some(value));
                        }
                        prop_assert_eq!(removed, had);
                    }
                }
                let all: Vec<Option<i32>> = (0..60).map(|number| ranges.get(number)).collect();
                prop_assert_eq!(&all[..], &model[..]);
            }
        }
    }
}
