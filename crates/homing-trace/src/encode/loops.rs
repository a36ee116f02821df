//! Loops of executions of one code block taken at once, as long as each is as predicted or expected: then an execution
//! costs no more than its words that are expected to miss. What comes of it is what comes of one by one.

use super::super::code::CodeBlocks;
use super::super::rounds::Rounds;
use super::super::wide::{wide, Work};
use super::vectors::PAGE;
use super::{Known, ThreadEncoder, MAX_EXPLICIT, MAX_REFERENCES};

/// Executions that are sooner taken one by one than as a loop.
const SHORT: u64 = 4;

struct Loop<'a, 'w> {
    encoder: &'a mut ThreadEncoder,
    number: usize,
    rounds: &'a mut Rounds<'w>,
}

impl Work for Loop<'_, '_> {
    type Result = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        match self.encoder.lines.get(self.number) {
            Some(line) if line.generation == self.encoder.generation => {
                self.encoder.take_rounds(line.fast, self.rounds)
            }
            _ => 0,
        }
    }
}

/// A whole loop, from where its words lie.
pub(super) struct LoopAt<'a> {
    pub encoder: &'a mut ThreadEncoder,
    pub known: &'a Known,
    pub root: u32,
    pub words: &'a [u64],
    pub blocks: &'a CodeBlocks,
}

impl Work for LoopAt<'_> {
    type Result = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let LoopAt { encoder, known, root, words, blocks } = self;
        encoder.take_loop_from(known, root, words, blocks)
    }
}

/// How many addresses from `first` on, each `step` further than the one before, have all that lies from `low` to `high`
/// beside them in the page of `last`.
#[inline]
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

/// The same, `count` at most, of addresses that do not wrap around.
#[inline(always)]
fn most_within_page(count: u64, first: u64, step: u64, last: u64, (low, high): (i64, i64)) -> u64 {
    // Nearly always all of them: no division.
    let end = first.wrapping_add(step.wrapping_mul(count.wrapping_sub(1)));
    let beside = |address: u64| [low, high].map(|by| (address.wrapping_add(by as u64) ^ last) & PAGE);
    let [a, b] = beside(first);
    let [c, d] = beside(end);
    if a | b | c | d == 0 {
        return count;
    }
    within_page(first, step, last, (low, high)).min(count)
}

/// How many of at most `count` executions begin before `used` has grown to `most`, by `each` with each of them.
#[inline(always)]
fn until_full(count: u64, most: u32, used: u32, each: u32) -> u64 {
    let (room, each) = (u64::from(most - used), u64::from(each.max(1)));
    if count * each < room {
        return count;
    }
    count.min(room.div_ceil(each))
}

/// Whether an address has all that lies from `low` to `high` beside it in one page.
#[inline(always)]
fn is_in_one_page(word: u64, (low, high): (i64, i64)) -> bool {
    (word.wrapping_add(low as u64) ^ word.wrapping_add(high as u64)) & PAGE == 0
}

/// How many of every `each`th of the words fit before the first that does not, of `count`.
#[inline(always)]
fn how_many(words: &[u64], each: usize, count: usize, fits: impl Fn(u64) -> bool) -> usize {
    // Nearly always all of them fit: that is one pass without a branch.
    let all = words.chunks(each).take(count).fold(true, |all, words| all & fits(words[0]));
    match all {
        true => count,
        false => words.iter().step_by(each).take(count).take_while(|&&word| fits(word)).count(),
    }
}

impl ThreadEncoder {
    /// Takes the next executions of a loop of a recorder's code block as long as they are as predicted, up to the next
    /// page or the end of the block at most. Returns how many.
    pub(crate) fn take_loop(&mut self, number: usize, rounds: &mut Rounds<'_>) -> u64 {
        wide(Loop { encoder: self, number, rounds })
    }

    /// Takes a whole loop, with which `words` begins, of the code block with the entry `root`. `None`, and nothing is
    /// done: it may not fit into the block in progress, or something about it is odd.
    #[inline(always)]
    fn take_loop_from(
        &mut self,
        known: &Known,
        root: u32,
        words: &[u64],
        blocks: &CodeBlocks,
    ) -> Option<usize> {
        let entry = self.entries.get(root as usize)?;
        let (accesses, count) = (u64::from(entry.accesses), u64::from(entry.words));
        let steps = (0..known.words).map(|word| known.steps >> word & 1 == 1);
        let mut rounds = Rounds::new(words, steps, std::mem::take(&mut self.places))?;
        let fits = |used: u32, each: u64, most: u32| {
            rounds.left.checked_mul(each).is_some_and(|more| u64::from(used) + more < u64::from(most))
        };
        let takes = rounds.plain
            && fits(self.hot.references, accesses, MAX_REFERENCES)
            && fits(self.hot.explicit, count, MAX_EXPLICIT);
        if takes {
            // Where executions are not as predicted, more and more are taken one by one; those of short loops all are.
            let mut few = if rounds.left <= SHORT { rounds.left } else { 1 };
            let mut room = self.room.take().unwrap_or_else(|| Box::new(super::NOTHING_YET));
            while rounds.left > 0 {
                if rounds.left > few && self.take_rounds(root, &mut rounds) > 0 {
                    few = 1;
                    continue;
                }
                for _ in 0..few.min(rounds.left) {
                    rounds.one(&mut room);
                    self.whole(root, &room, blocks);
                }
                few = few.saturating_mul(2);
            }
            self.room = Some(room);
        }
        let taken = takes.then_some(rounds.words);
        self.places = rounds.places;
        taken
    }

    /// Takes the next executions of a loop of the code block with the entry `root`, as [`ThreadEncoder::take_loop`].
    #[inline(always)]
    fn take_rounds(&mut self, root: u32, rounds: &mut Rounds<'_>) -> u64 {
        let mut hot = self.hot;
        let Some(entry) = self.entries.get(root as usize).copied() else { return 0 };
        if rounds.left == 0 || hot.is_full() {
            return 0;
        }
        // A block that another one is predicted after is taken one by one.
        let mut count = if entry.next[0] == root { rounds.left } else { 1 };
        count = until_full(count, MAX_REFERENCES, hot.references, entry.accesses.into());
        if entry.expected > 0 {
            count = until_full(count, MAX_EXPLICIT, hot.explicit, entry.expected.into());
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
            // Where addresses are those of pages, any step within one is as predicted.
            let most = if step == stride || !exact { count } else { 1 };
            count = most_within_page(most, first, step, last, self.vectors.span(entry.place, word));
            if count == 0 {
                return 0;
            }
        }
        let mut own = 0;
        for (word, place) in rounds.places.iter().enumerate() {
            let expected = entry.expect >> word & 1 == 1;
            let span = self.vectors.span(entry.place, word);
            let fits = match *place {
                Some(_) if !expected => continue,
                Some(_) if span == (0, 0) => continue,
                Some((first, step)) if most_within_page(count, first, step, first, span) == count => continue,
                Some((first, step)) => {
                    let addresses = (0..count).map(|i| first.wrapping_add(step.wrapping_mul(i)));
                    addresses.take_while(|&address| is_in_one_page(address, span)).count()
                }
                None if expected && span == (0, 0) => {
                    own += 1;
                    continue;
                }
                None => {
                    let words = &rounds.own[own..];
                    own += 1;
                    let last = *self.vectors.last(entry.place, word);
                    let stride = *self.vectors.stride(entry.place, word);
                    let as_wanted = |word: u64| expected || (word & kept).wrapping_sub(last) == stride;
                    let fits = |word: u64| is_in_one_page(word, span) & as_wanted(word);
                    how_many(words, rounds.each, count as usize, fits)
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
                        match each {
                            1 => slot.push_words(&words[..count as usize], &mut self.spare),
                            each => slot.push_all(count as usize, &mut self.spare, |i| words[i * each]),
                        }
                    }
                    own += 1;
                    words[(count as usize - 1) * each]
                }
            };
            *self.vectors.last(entry.place, word) = last & kept;
        }
        rounds.own = &rounds.own[rounds.each * count as usize..];
        rounds.left -= count;
        hot.explicit += count as u32 * u32::from(entry.expected);
        // What comes before a loop may predict something else.
        self.count(&mut hot, root, 0);
        let others = count as u32 - 1;
        self.entries[root as usize].executions += others;
        hot.time = hot.time.wrapping_add(u64::from(others).wrapping_mul(entry.instructions.into()));
        hot.references += others * u32::from(entry.accesses);
        hot.predicted += others;
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
