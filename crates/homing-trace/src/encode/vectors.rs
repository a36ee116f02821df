//! The predictor state of a code block's words, in vectors: one execution is compared with it all at once.
//!
//! A word is as predicted if it lies at `last + stride` and in the same page. The state of a block is rows of as many
//! vectors as its words need; lanes beyond the words compare nothing.

use super::super::format::{FRAME_SHIFT, MAX_ACCESSES};

/// Words of a vector.
pub(super) const LANES: usize = 4;
/// Some words.
pub(super) type Vector = [u64; LANES];

/// The bits of an address that are its page.
pub(super) const PAGE: u64 = !0 << FRAME_SHIFT;
/// A stride that no access within a page can have: the prediction fails, and teaches nothing.
pub(super) const NEVER: u64 = 1 << 40;
/// Set in control words and in no address of a recorder.
const CONTROL: u64 = 1 << 63;

/// Rows of the state of a block: the last words, their strides, what of the comparison with the stride counts (all bits
/// or none) and what of that with the last page; where addresses are derived from words, also the smallest and the
/// largest distance to one.
const ROWS: usize = 4;
const ROWS_WITH_SPANS: usize = 6;

/// Where the state of a block lies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    at: u32,
    /// Vectors of a row.
    pub vectors: u8,
    /// Some addresses are derived at a distance.
    pub spans: bool,
}

/// The state of all blocks.
#[derive(Debug)]
pub(super) struct Vectors {
    rows: Vec<Vector>,
    /// The bits of addresses that count: all, or those of pages. Only whether derived addresses lie in the page of
    /// their word is asked of whole words.
    pub kept: u64,
}

/// Words of an execution, and what lies behind them, after one that does not count.
pub(crate) type Window = [u64; 1 + MAX_ACCESSES];

/// Compares an execution with its block's state (rows of `V` vectors), and puts its words into it if all are as
/// predicted or expected to miss. False: nothing is done.
#[inline(always)]
fn check<const V: usize, const SPANS: bool>(rows: &mut [Vector], at: u32, kept: u64, words: &Window) -> bool {
    let at = at as usize;
    let rows = &mut rows[at..at + if SPANS { ROWS_WITH_SPANS } else { ROWS } * V];
    let mut wrong = [0; LANES];
    for v in 0..V {
        for lane in 0..LANES {
            let (whole, last, stride) = (words[1 + LANES * v + lane], rows[v][lane], rows[V + v][lane]);
            let word = whole & kept;
            let differs = word.wrapping_sub(last) ^ stride;
            wrong[lane] |= differs & rows[2 * V + v][lane] | (word ^ last) & rows[3 * V + v][lane];
            if SPANS {
                let (low, high) = (rows[4 * V + v][lane], rows[5 * V + v][lane]);
                wrong[lane] |= (whole.wrapping_add(low) ^ whole.wrapping_add(high)) & PAGE;
            }
        }
    }
    if wrong[0] | wrong[1] | wrong[2] | wrong[3] != 0 {
        return false;
    }
    rows[..V].as_flattened_mut().iter_mut().zip(&words[1..]).for_each(|(last, word)| *last = word & kept);
    true
}

impl Vectors {
    pub(super) fn new(kept: u64) -> Vectors {
        Vectors { rows: Vec::new(), kept }
    }

    /// Whether addresses count to the byte.
    pub(super) fn is_exact(&self) -> bool {
        self.kept == !0
    }

    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Makes room for a block with these spans of its words, all of which are new.
    pub(super) fn add(&mut self, spans: &[(i64, i64)]) -> Place {
        let vectors = spans.len().div_ceil(LANES);
        let has_spans = spans.iter().any(|&span| span != (0, 0));
        let place = Place { at: self.rows.len() as u32, vectors: vectors as u8, spans: has_spans };
        let rows = if has_spans { ROWS_WITH_SPANS } else { ROWS };
        self.rows.resize(self.rows.len() + rows * vectors, [0; LANES]);
        for (word, &(low, high)) in spans.iter().enumerate() {
            self.expect(place, word, false);
            if has_spans {
                *self.cell(place, 4, word) = low as u64;
                *self.cell(place, 5, word) = high as u64;
            }
        }
        place
    }

    /// Whether an execution, whose words `words` begins with, is as predicted; its words are in the state then.
    #[inline(always)]
    pub(super) fn check(&mut self, place: Place, words: &Window) -> bool {
        let (rows, kept) = (&mut self.rows, self.kept);
        match (place.vectors, place.spans) {
            (1, false) => check::<1, false>(rows, place.at, kept, words),
            (2, false) => check::<2, false>(rows, place.at, kept, words),
            (3, false) => check::<3, false>(rows, place.at, kept, words),
            (1, true) => check::<1, true>(rows, place.at, kept, words),
            (2, true) => check::<2, true>(rows, place.at, kept, words),
            (3, true) => check::<3, true>(rows, place.at, kept, words),
            (vectors, _) => self.check_some(place, &words[1..1 + LANES * usize::from(vectors)]),
        }
    }

    /// The same for the first words of a block's execution.
    #[inline(always)]
    pub(super) fn check_some(&mut self, place: Place, words: &[u64]) -> bool {
        let (v, kept) = (usize::from(place.vectors), self.kept);
        let rows = &mut self.rows[place.at as usize..];
        let (last, rest) = rows.split_at_mut(v);
        let row = |number: usize| rest[number * v..][..v].as_flattened()[..words.len()].iter();
        let last = &mut last.as_flattened_mut()[..words.len()];
        let mut wrong = 0;
        let lanes = words.iter().zip(last.iter()).zip(row(0).zip(row(1)).zip(row(2)));
        for ((word, last), ((stride, compared), page)) in lanes {
            let word = word & kept;
            wrong |= (word.wrapping_sub(*last) ^ stride) & compared | (word ^ last) & page;
        }
        if place.spans {
            for (word, (low, high)) in words.iter().zip(row(3).zip(row(4))) {
                wrong |= (word.wrapping_add(*low) ^ word.wrapping_add(*high)) & PAGE;
            }
        }
        if wrong == 0 {
            last.iter_mut().zip(words).for_each(|(last, word)| *last = word & kept);
        }
        wrong == 0
    }

    #[inline]
    fn cell(&mut self, place: Place, row: usize, word: usize) -> &mut u64 {
        let at = place.at as usize + row * usize::from(place.vectors);
        &mut self.rows[at + word / LANES][word % LANES]
    }

    #[inline]
    pub(super) fn last(&mut self, place: Place, word: usize) -> &mut u64 {
        self.cell(place, 0, word)
    }

    #[inline]
    pub(super) fn stride(&mut self, place: Place, word: usize) -> &mut u64 {
        self.cell(place, 1, word)
    }

    /// The smallest and the largest distance of an address that is derived from a word.
    #[inline]
    pub(super) fn span(&mut self, place: Place, word: usize) -> (i64, i64) {
        if !place.spans {
            return (0, 0);
        }
        (*self.cell(place, 4, word) as i64, *self.cell(place, 5, word) as i64)
    }

    /// Says whether a word is expected to miss, so that nothing of it is compared but that it is an address. It is new
    /// after that.
    pub(super) fn expect(&mut self, place: Place, word: usize, misses: bool) {
        *self.cell(place, 1, word) = NEVER;
        *self.cell(place, 2, word) = if misses { 0 } else { !0 };
        *self.cell(place, 3, word) = if misses { CONTROL } else { PAGE };
    }
}
