//! The outer iteration of a program, found from the sequence of its parallel regions, so that a program needs no source
//! change to say where its iterations end (Nikolopoulos et al. 2000, section 4; the way is that of dynamic periodicity
//! detectors, Freitag et al. 2001: compare the sequence with itself, moved by each possible period).

use std::collections::VecDeque;

/// The longest period that is found, in regions of which repeats count once.
pub const LONGEST: usize = 256;
/// A region that runs this often in a row is an iteration by itself, where no longer period is known.
const ROW: u64 = 3;
/// With a longer period known: the row is then longer than twice the longest before and this.
const NEW_ROW: u64 = 64;
/// After a break the first region of the period stands for it, for this number of periods.
const COASTING: usize = 4;

/// Finds the outer iteration in a sequence of regions. What a region is called does not matter: equal numbers are equal
/// regions. Rows of the same region count once, so that inner loops may take any number of rounds. Memory and the time
/// for each region are bounded: [`LONGEST`] comparisons.
#[derive(Clone, Debug, Default)]
pub struct Periods {
    /// The last regions, the newest first.
    last: VecDeque<u64>,
    /// By period, less one: how many of the newest regions equal that one period before.
    equal: Vec<u64>,
    /// Rounds of the newest region, and most of one before.
    row: u64,
    longest_row: u64,
    known: Option<Known>,
}

/// A period that is known.
#[derive(Clone, Copy, Debug)]
struct Known {
    length: usize,
    /// Regions since an iteration began.
    since: usize,
    /// The region that an iteration begins with, if the period has it once.
    first: Option<u64>,
    /// Regions since the period was broken; 0: it holds.
    broken: usize,
}

impl Periods {
    /// Takes the next region; whether an iteration begins with it, and the one before has ended.
    pub fn begins_iteration(&mut self, region: u64) -> bool {
        if self.last.front() == Some(&region) {
            return self.again();
        }
        self.longest_row = self.longest_row.max(self.row);
        self.row = 1;
        self.push(region);
        self.follow(region)
    }

    /// The period that holds, in regions of which repeats count once; 1 is a row of one region.
    pub fn period(&self) -> Option<usize> {
        match self.known {
            Some(known) if known.broken == 0 => Some(known.length),
            Some(_) => None,
            None => (self.row >= ROW).then_some(1),
        }
    }

    /// The same region once more.
    fn again(&mut self) -> bool {
        self.row += 1;
        if self.known.is_some() && self.row > 2 * self.longest_row + NEW_ROW {
            self.known = None;
        }
        self.known.is_none() && self.row >= ROW
    }

    fn push(&mut self, region: u64) {
        self.equal.resize(LONGEST, 0);
        for (equal, before) in self.equal.iter_mut().zip(&self.last) {
            *equal = if *before == region { *equal + 1 } else { 0 };
        }
        self.last.push_front(region);
        self.last.truncate(LONGEST);
    }

    /// The period that explains most of the newest regions: the shortest of several. Two rounds of it have come.
    fn best(&self) -> Option<usize> {
        let twice = |&(length, &equal): &(usize, &u64)| equal >= length as u64;
        let explained = |(length, equal): (usize, &u64)| (equal + length as u64, std::cmp::Reverse(length));
        (1..).zip(&self.equal).filter(twice).map(explained).max().map(|(_, length)| length.0)
    }

    /// Follows the period that is known through a new region, or finds one.
    fn follow(&mut self, region: u64) -> bool {
        let holds = |known: &Known| known.broken == 0 && self.equal[known.length - 1] >= known.length as u64;
        if let Some(known) = self.known.filter(holds) {
            let since = (known.since + 1) % known.length;
            self.known = Some(Known { since, ..known });
            return since == 0;
        }
        // An outer loop has come twice when the inner one is over, which held until then.
        match (self.best(), self.known) {
            (Some(length), _) => {
                // The first of the regions that it explains began an iteration.
                let since = ((self.equal[length - 1] + length as u64 - 1) % length as u64) as usize;
                let first = self.last.get(since).copied();
                let once = |first: &u64| self.last.iter().take(length).filter(|r| *r == first).count() == 1;
                self.known = Some(Known { length, since, first: first.filter(once), broken: 0 });
                since == 0
            }
            (None, Some(known)) if known.broken < COASTING * known.length => {
                self.known = Some(Known { broken: known.broken + 1, ..known });
                known.first == Some(region)
            }
            (None, _) => {
                self.known = None;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Where iterations begin.
    fn begins(sequence: &[u64]) -> Vec<usize> {
        let mut periods = Periods::default();
        (0..sequence.len()).filter(|&at| periods.begins_iteration(sequence[at])).collect()
    }

    /// What is known after a sequence.
    fn after(sequence: &[u64]) -> Periods {
        let mut periods = Periods::default();
        for &region in sequence {
            periods.begins_iteration(region);
        }
        periods
    }

    /// Letters are regions.
    fn text(text: &str) -> Vec<u64> {
        text.bytes().map(u64::from).collect()
    }

    #[test]
    fn a_region_alone_is_an_iteration() {
        assert_eq!(begins(&text("aaaaaa")), [2, 3, 4, 5]);
    }

    #[test]
    fn iterations_begin_with_the_first_region_of_the_loop_whatever_came_before_it() {
        let found = begins(&text(&format!("xyz{}", "abc".repeat(5))));
        assert_eq!(found, [9, 12, 15]);
        assert_eq!(after(&text("xyzabcabcab")).period(), Some(3));
    }

    #[test]
    fn the_outer_loop_wins_over_inner_ones() {
        let round = "a".to_owned() + &"bc".repeat(6) + "d";
        let found = begins(&text(&round.repeat(6)));
        let outer: Vec<usize> = found.iter().copied().filter(|at| at % round.len() == 0).collect();
        assert_eq!(outer, [2 * round.len(), 3 * round.len(), 4 * round.len(), 5 * round.len()]);
        // Rounds of the inner loop are taken for iterations in the first round of the outer one alone.
        assert!(found.iter().all(|&at| at < 2 * round.len() || at % round.len() == 0), "{found:?}");
    }

    #[test]
    fn inner_loops_of_one_region_may_take_any_number_of_rounds() {
        let rounds = [3, 9, 4, 7, 12, 5, 8].map(|count| "a".to_owned() + &"b".repeat(count) + "c");
        let starts: Vec<usize> = (0..rounds.len()).map(|i| rounds[..i].concat().len()).collect();
        let found = begins(&text(&rounds.concat()));
        assert_eq!(found.iter().filter(|at| starts.contains(at)).count(), rounds.len() - 2);
        assert!(found.iter().all(|at| *at < starts[2] || starts.contains(at)), "{found:?}");
    }

    #[test]
    fn output_now_and_then_hides_few_iterations_and_makes_none() {
        let loud = [10, 13, 8, 17].map(|count| "abcde".repeat(count) + "!");
        let sequence = text(&loud.concat());
        let found = begins(&sequence);
        let expected = sequence.iter().filter(|&&region| region == u64::from(b'a')).count();
        assert!(found.iter().all(|&at| sequence[at] == u64::from(b'a')), "{found:?}");
        assert!(found.len() * 4 >= expected * 3, "{} of {expected}", found.len());
    }

    #[test]
    fn another_loop_is_found_after_the_first() {
        let (first, second) = ("abc".repeat(20), "defg".repeat(20));
        let found = begins(&text(&(first.clone() + &second)));
        let late: Vec<usize> = found.into_iter().filter(|&at| at >= first.len()).collect();
        assert_eq!(late.len(), 18);
        assert!(late.iter().all(|at| (at - first.len()) % 4 == 0), "{late:?}");
        let found = begins(&text(&(first.clone() + &"x".repeat(200))));
        assert!(found.contains(&(first.len() + 199)), "a loop of one region: {found:?}");
    }

    #[test]
    fn without_a_period_there_are_no_iterations() {
        // Each number once: nothing comes again.
        assert!(begins(&(0..2000).collect::<Vec<u64>>()).is_empty());
        let morse: Vec<u64> = (0..4096_u64).map(|i| u64::from(i.count_ones() % 2)).collect();
        assert_eq!(after(&morse).last.len(), LONGEST, "memory is bounded");
    }

    /// Whether a word is a shorter one several times.
    fn repeats(word: &[u64]) -> bool {
        (1..word.len()).any(|n| word.len().is_multiple_of(n) && word.chunks(n).all(|part| part == &word[..n]))
    }

    /// The obvious model of [`Periods::best`]: all regions are kept, and compared one by one.
    fn model(sequence: &[u64]) -> Option<usize> {
        let mut rows = sequence.to_vec();
        rows.dedup();
        let equal = |length: usize| {
            (length..rows.len()).rev().take_while(|&at| rows[at] == rows[at - length]).count()
        };
        let explained = (1..=LONGEST).map(|length| (length, equal(length)));
        let twice = explained.filter(|(length, equal)| equal >= length);
        twice
            .max_by_key(|&(length, equal)| (equal + length, std::cmp::Reverse(length)))
            .map(|(length, _)| length)
    }

    #[test]
    fn words_that_never_come_twice_in_a_row_have_no_iterations() {
        assert!(begins(&square_free(5000)).is_empty());
    }

    /// A word of three letters in which no word comes twice in a row (Thue 1912): each letter becomes a word, again and
    /// again.
    fn square_free(length: usize) -> Vec<u64> {
        let mut word = vec![0_u64];
        while word.len() < length {
            let image = |letter: &u64| match letter {
                0 => vec![0, 1, 2],
                1 => vec![0, 2],
                _ => vec![1],
            };
            word = word.iter().flat_map(image).collect();
        }
        word
    }

    #[test]
    fn random_sequences_have_iterations_by_chance_alone() {
        let mut state = 1_u64;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % 32
        });
        let random: Vec<u64> = random.take(20_000).collect();
        // Two letters come again at once with a chance of 1/31^2, longer words hardly ever; each may be followed by
        // four rounds in which the first letter is taken for it, of which one in four comes.
        let (found, chance) = (begins(&random).len(), random.len() as f64 / (31.0 * 31.0));
        assert!((found as f64) < 3.0 * chance, "{found} in {}, by chance {chance:.0}", random.len());
    }

    proptest! {
        #[test]
        fn the_period_is_that_of_the_obvious_model(
            pieces in proptest::collection::vec(
                (proptest::collection::vec(0..4_u64, 1..8), 1..6_usize), 1..12),
        ) {
            let mut periods = Periods::default();
            let mut sequence = Vec::new();
            for region in pieces.iter().flat_map(|(word, times)| word.repeat(*times)) {
                sequence.push(region);
                periods.begins_iteration(region);
                prop_assert_eq!(periods.best(), model(&sequence), "{:?}", sequence);
            }
        }

        #[test]
        fn nothing_is_found_before_something_came_twice(sequence in proptest::collection::vec(0..9_u64, 0..80)) {
            let mut periods = Periods::default();
            let mut twice = false;
            for at in 0..sequence.len() {
                let found = periods.begins_iteration(sequence[at]);
                let row = sequence[..=at].iter().rev().take_while(|region| **region == sequence[at]).count();
                twice |= model(&sequence[..=at]).is_some();
                prop_assert!(!found || twice || row as u64 >= ROW, "{:?}", &sequence[..=at]);
            }
        }

        #[test]
        fn a_loop_is_found_whatever_came_before_it(
            word in proptest::collection::vec(0..5_u64, 2..20),
            start in proptest::collection::vec(0..5_u64, 0..40),
        ) {
            let mut word = word;
            word.dedup();
            if word.len() > 1 && word.first() == word.last() { word.pop(); }
            prop_assume!(word.len() > 1 && !repeats(&word));
            let mut start = start;
            start.dedup();
            if start.last() == word.first() { start.pop(); }
            let sequence = [start.clone(), word.repeat(10)].concat();
            let found = begins(&sequence);
            // What came before may look like a part of the loop: then the loop seems to begin elsewhere in the word.
            let from = start.len() + 5 * word.len();
            let late: Vec<usize> = found.into_iter().filter(|&at| at >= from).collect();
            prop_assert_eq!(late.len(), 5);
            prop_assert!(late.windows(2).all(|pair| pair[1] - pair[0] == word.len()), "{:?}", late);
        }

        #[test]
        fn a_loop_is_found_within_three_rounds_and_kept(
            word in proptest::collection::vec(0..5_u64, 2..20),
            start in proptest::collection::vec(5..9_u64, 0..20),
            rounds in 5..9_usize,
        ) {
            // The obvious model: the sequence is the word over and over, without rows of the same region.
            let mut word = word;
            word.dedup();
            if word.len() > 1 && word.first() == word.last() { word.pop(); }
            prop_assume!(word.len() > 1 && !repeats(&word));
            let mut start = start;
            start.dedup();
            let sequence = [start.clone(), word.repeat(rounds)].concat();
            let found = begins(&sequence);
            // From the fourth round on: where the word begins, and nowhere else. Two rounds are enough unless the word
            // begins within a loop of its own.
            let from = start.len() + 3 * word.len();
            let expected: Vec<usize> = (from..sequence.len()).step_by(word.len()).collect();
            let late: Vec<usize> = found.into_iter().filter(|&at| at >= from).collect();
            prop_assert_eq!(late, expected);
        }
    }
}
