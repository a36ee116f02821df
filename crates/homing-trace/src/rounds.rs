//! Loops of executions of one code block, which a recorder writes as one. Where they go on as the encoder predicts they
//! are taken as they are (`encode/loops.rs`); else they are rolled out again, some at a time.

use super::encode::Window;
use super::wire::{CONTROL, MAX_LOOP};

/// Words before the starts and steps.
const HEAD: usize = 2;
/// Words that are rolled out at a time: they fit into a core's own caches.
const WORDS: usize = 1 << 12;

/// Words that come once in each execution: with a step, the address in the next execution and the step; `None`: the
/// next of the loop's own.
pub(super) type Places = Vec<Option<(u64, u64)>>;

/// The executions of a loop ([`homing_wire::op::LOOP`]).
pub(super) struct Rounds<'a> {
    /// The words of all of it.
    pub words: usize,
    /// Executions that are left.
    pub left: u64,
    pub places: Places,
    /// The words without a step of the executions that are left, and how many one execution has.
    pub own: &'a [u64],
    pub each: usize,
    /// Whether no address of any execution is a control word, and none wraps around.
    pub plain: bool,
    /// Whether that is so of the addresses with a step, and there are not more than [`MAX_LOOP`] executions: else no
    /// program has executed the loop.
    pub sound: bool,
}

impl<'a> Rounds<'a> {
    /// Those that `words` begin with; `steps` says which words of an execution have a step. `None`: words are missing.
    /// `places` gives its memory.
    #[inline(always)]
    pub fn new(
        words: &'a [u64],
        steps: impl ExactSizeIterator<Item = bool> + Clone,
        mut places: Places,
    ) -> Option<Rounds<'a>> {
        let regular = steps.clone().filter(|&steps| steps).count();
        let first = HEAD + 2 * regular;
        let (own, count) = (steps.len() - regular, *words.get(1)?);
        let mut pairs = words.get(HEAD..first)?.chunks_exact(2).map(|pair| (pair[0], pair[1]));
        places.clear();
        places.extend(steps.map(|steps| if steps { pairs.next() } else { None }));
        let (left, end) = match (own, count) {
            (0, count) => (count, first),
            // The thread has not come to the end of the loop. No address is 0.
            (_, 0) => {
                let end =
                    words[first..].iter().position(|&word| word == 0).map_or(words.len(), |at| first + at);
                (((end - first) / own) as u64, end)
            }
            (_, bytes) => {
                let end =
                    usize::try_from(bytes / 8).ok().filter(|end| (first..=words.len()).contains(end))?;
                (((end - first) / own) as u64, end)
            }
        };
        let own_words = &words[first..end];
        let further = i64::try_from(left.saturating_sub(1)).ok();
        let stays = |&(from, step): &(u64, u64)| {
            let moved = further.and_then(|further| (step as i64).checked_mul(further));
            moved.and_then(|moved| (from as i64).checked_add(moved)).is_some_and(|to| to | from as i64 >= 0)
        };
        let sound = left <= MAX_LOOP && places.iter().flatten().all(stays);
        let plain = sound && own_words.iter().fold(0, |any, word| any | word) & CONTROL == 0;
        Some(Rounds { words: end, left, places, own: own_words, each: own, plain, sound })
    }

    /// Puts the words of the next execution, of which there is one, behind the first word of `out`.
    #[inline(always)]
    pub fn one(&mut self, out: &mut Window) {
        self.left -= 1;
        for (place, out) in self.places.iter_mut().zip(&mut out[1..]) {
            *out = match place {
                Some((address, step)) => std::mem::replace(address, address.wrapping_add(*step)),
                None => {
                    let (&word, rest) = self.own.split_first().expect("there are words for all executions");
                    self.own = rest;
                    word
                }
            };
        }
    }

    /// Replaces `out` by the next executions, `most` at most, each of which begins with `head`; false if there are
    /// none.
    pub fn next(&mut self, head: u64, most: u64, out: &mut Vec<u64>) -> bool {
        out.clear();
        let fit = (WORDS / (1 + self.places.len())).max(1) as u64;
        let now = fit.min(most).min(self.left);
        self.left -= now;
        for _ in 0..now {
            out.push(head);
            for place in &mut self.places {
                match place {
                    Some((address, step)) => {
                        out.push(*address);
                        *address = address.wrapping_add(*step);
                    }
                    None => {
                        let (&word, rest) =
                            self.own.split_first().expect("there are words for all executions");
                        out.push(word);
                        self.own = rest;
                    }
                }
            }
        }
        now > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(words: &[u64], steps: &[bool]) -> Option<(Vec<u64>, usize)> {
        let mut rounds = Rounds::new(words, steps.iter().copied(), Vec::new())?;
        let (mut some, mut all) = (Vec::new(), Vec::new());
        while rounds.next(7, u64::MAX, &mut some) {
            all.extend_from_slice(&some);
        }
        Some((all, rounds.words))
    }

    #[test]
    fn starts_go_on_by_their_steps_and_other_words_come_one_by_one() {
        let regular = [0, 3, 100, 8, 50, u64::MAX];
        assert_eq!(all(&regular, &[true, true]), Some((vec![7, 100, 50, 7, 108, 49, 7, 116, 48], 6)));
        let mixed = [0, 8 * 7, 100, 8, 1, 2, 3, 99];
        let rolled = vec![7, 1, 100, 7, 2, 108, 7, 3, 116];
        assert_eq!(all(&mixed, &[false, true]), Some((rolled.clone(), 7)));
        // Not at its end: all that there is, in whole executions.
        let open = [0, 0, 100, 8, 1, 2, 3, 0, 9];
        assert_eq!(all(&open, &[false, true]), Some((rolled, 7)));
        assert_eq!(all(&[0, 0, 1, 2, 3], &[false, false]), Some((vec![7, 1, 2], 5)));
        assert_eq!(all(&[0, 0, 100, 8], &[true]), Some((vec![], 4)));
        for cut in [&[0][..], &[0, 3, 100], &[0, 8 * 9, 100, 8, 1], &[0, 8, 100, 8, 1]] {
            assert_eq!(all(cut, &[false, true]), None, "{cut:?}");
        }
    }

    #[test]
    fn long_loops_are_rolled_out_in_parts() {
        let (words, _) = all(&[0, 100_000, 0x1000, 8], &[true]).unwrap();
        assert_eq!(words.len(), 200_000);
        assert!(words.chunks_exact(2).enumerate().all(|(i, pair)| pair == [7, 0x1000 + 8 * i as u64]));
    }
}
