//! Loops of executions of one code block taken at once, as long as each is as predicted or expected: then an execution
//! costs no more than its words that are expected to miss. What comes of it is what comes of one by one.

use super::super::rounds::Rounds;
use super::super::wide::{wide, Work};
use super::super::wire::CONTROL;
use super::vectors::PAGE;
use super::{ThreadEncoder, MAX_EXPLICIT, MAX_REFERENCES};

struct Loop<'a, 'w> {
    encoder: &'a mut ThreadEncoder,
    number: usize,
    rounds: &'a mut Rounds<'w>,
}

impl Work for Loop<'_, '_> {
    type Result = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        self.encoder.take_rounds(self.number, self.rounds)
    }
}

/// How many addresses from `first` on, each `step` further than the one before, have all that lies from `low` to `high`
/// beside them in the page of `last`.
#[inline(always)]
fn within_page(first: u64, step: u64, last: u64, (low, high): (i64, i64)) -> u64 {
    let (begin, end) = (i128::from(last & PAGE), i128::from(last | !PAGE));
    let (from, to) = (i128::from(first) + i128::from(low), i128::from(first) + i128::from(high));
    if from < begin || to > end {
        return 0;
    }
    match step as i64 {
        0 => u64::MAX,
        up @ 1.. => ((end - to) as u64) / up.unsigned_abs() + 1,
        down => ((from - begin) as u64) / down.unsigned_abs() + 1,
    }
}

/// Whether an address has all that lies from `low` to `high` beside it in one page, and is no control word.
#[inline(always)]
fn is_in_one_page(word: u64, (low, high): (i64, i64)) -> bool {
    let ends = word.wrapping_add(low as u64) ^ word.wrapping_add(high as u64);
    ends & PAGE == 0 && word & CONTROL == 0
}

impl ThreadEncoder {
    /// Takes the next executions of a loop of a recorder's code block as long as they are as predicted, up to the next
    /// page or the end of the block at most. Returns how many.
    pub(crate) fn take_loop(&mut self, number: usize, rounds: &mut Rounds<'_>) -> u64 {
        wide(Loop { encoder: self, number, rounds })
    }

    #[inline(always)]
    fn take_rounds(&mut self, number: usize, rounds: &mut Rounds<'_>) -> u64 {
        let line = match self.lines.get(number) {
            Some(line) if line.generation == self.generation => *line,
            _ => return 0,
        };
        let (root, mut hot) = (line.fast, self.hot);
        let Some(entry) = self.entries.get(root as usize).copied() else { return 0 };
        // The first accesses of a loop, and a block that another one comes after, are taken one by one.
        if rounds.left == 0 || hot.current != root || hot.next != root || self.is_full() {
            return 0;
        }
        let mut count = rounds.left;
        let room = |most: u32, used: u32, each: u32| u64::from((most - used).div_ceil(each.max(1)));
        count = count.min(room(MAX_REFERENCES, hot.references, entry.accesses.into()));
        if entry.expected > 0 {
            count = count.min(room(MAX_EXPLICIT, hot.explicit, entry.expected.into()));
        }
        let (kept, exact) = (self.vectors.kept, self.vectors.is_exact());
        // As predicted? First what costs the same for any number of executions.
        for (word, place) in
            rounds.places.iter().enumerate().filter(|(word, _)| entry.expect >> word & 1 == 0)
        {
            let Some((first, step)) = *place else {
                // Looked at below: it may stay in its page.
                if exact {
                    return 0;
                }
                continue;
            };
            let last = *self.vectors.last(entry.place, word);
            let stride = *self.vectors.stride(entry.place, word);
            if (first & kept).wrapping_sub(last) != stride {
                return 0;
            }
            let fits = within_page(first, step, last, self.vectors.span(entry.place, word));
            // Where addresses are those of pages, any step within one is as predicted.
            count = count.min(if step == stride || !exact { fits } else { fits.min(1) });
        }
        let mut own = 0;
        for (word, place) in rounds.places.iter().enumerate() {
            let expected = entry.expect >> word & 1 == 1;
            let span = self.vectors.span(entry.place, word);
            let fits = match *place {
                Some(_) if !expected => continue,
                Some((first, step)) => {
                    let addresses = (0..count).map(|i| first.wrapping_add(step.wrapping_mul(i)));
                    addresses.take_while(|&address| is_in_one_page(address, span)).count()
                }
                None => {
                    let words = rounds.own[own..].iter().step_by(rounds.each).take(count as usize);
                    own += 1;
                    let last = *self.vectors.last(entry.place, word);
                    let stride = *self.vectors.stride(entry.place, word);
                    let as_wanted = |word: u64| expected || (word & kept).wrapping_sub(last) == stride;
                    let fits = |word: u64| is_in_one_page(word, span) & as_wanted(word);
                    // Nearly always all of them fit: that is one pass without a branch.
                    match words.clone().fold(true, |all, &word| all & fits(word)) {
                        true => words.count(),
                        false => words.take_while(|&&word| fits(word)).count(),
                    }
                }
            };
            count = fits as u64;
        }
        if count == 0 {
            return 0;
        }
        // Then all at once.
        let mut own = 0;
        for (word, place) in rounds.places.iter_mut().enumerate() {
            let slot = &mut self.slots[entry.slot as usize + word];
            let last = match place {
                Some((next, step)) => {
                    let first = *next;
                    if entry.expect >> word & 1 == 1 {
                        slot.push_all(count as usize, &mut self.spare, |i| {
                            first.wrapping_add(step.wrapping_mul(i as u64))
                        });
                    }
                    *next = first.wrapping_add(step.wrapping_mul(count));
                    next.wrapping_sub(*step)
                }
                None => {
                    let words = &rounds.own[own..];
                    let each = rounds.each;
                    if entry.expect >> word & 1 == 1 {
                        slot.push_all(count as usize, &mut self.spare, |i| words[i * each]);
                    }
                    own += 1;
                    words[(count as usize - 1) * each]
                }
            };
            *self.vectors.last(entry.place, word) = last & kept;
        }
        rounds.own = &rounds.own[rounds.each * count as usize..];
        rounds.left -= count;
        let executions = count as u32;
        self.entries[root as usize].executions += executions;
        hot.time = hot.time.wrapping_add(count.wrapping_mul(entry.instructions.into()));
        hot.references += executions * u32::from(entry.accesses);
        hot.explicit += executions * u32::from(entry.expected);
        hot.predicted += executions;
        self.hot = hot;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_a_page_are_counted() {
        let obvious = |first: u64, step: u64, last: u64, (low, high): (i64, i64)| {
            let fits = |address: u64| {
                [low, high].iter().all(|&by| address.wrapping_add(by as u64) & PAGE == last & PAGE)
            };
            (0..5000).take_while(|&i| fits(first.wrapping_add(step.wrapping_mul(i)))).count() as u64
        };
        for step in [8, 4, 1, 24, 4096, (-8i64) as u64, (-1i64) as u64, (-5000i64) as u64] {
            for first in [0x7000_1000u64, 0x7000_1008, 0x7000_1ff8, 0x7000_1fff, 0x7000_2000, 0x7000_0fff] {
                for span in [(0, 0), (-8, 0), (0, 16), (-8, 8)] {
                    let counted = within_page(first, step, 0x7000_1800, span);
                    assert_eq!(
                        counted,
                        obvious(first, step, 0x7000_1800, span),
                        "{first:x} {step:x} {span:?}"
                    );
                }
            }
        }
        assert_eq!(within_page(0x7000_1000, 0, 0x7000_1800, (0, 0)), u64::MAX);
    }
}
