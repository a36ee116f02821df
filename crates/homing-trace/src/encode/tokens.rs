//! Writes what happened in a block as tokens. Each code block predicts its successor; executions that come as predicted
//! are only counted.

use super::super::mask;
use super::super::varint;

/// What comes behind the executions that a token counts (`docs/trace-format.md`).
pub(crate) const NOTHING: u64 = 0;
pub(crate) const SECOND: u64 = 1;
pub(crate) const NAMED: u64 = 2;
pub(crate) const MASKED: u64 = 3;
pub(crate) const SECOND_MASKED: u64 = 4;
pub(crate) const NAMED_MASKED: u64 = 5;
pub(crate) const EVENT: u64 = 6;
pub(crate) const OTHER: u64 = 7;
/// The byte behind [`OTHER`].
pub(crate) const ADVANCE: u8 = 0;
pub(crate) const EXPECT: u8 = 1;
pub(crate) const SWAP: u8 = 2;

/// The tokens of a block in progress.
#[derive(Debug, Default)]
pub(super) struct TokenWriter {
    bytes: Vec<u8>,
    /// Executions as predicted that come before the next token.
    run: u64,
}

impl TokenWriter {
    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing happened.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.run == 0
    }

    /// What follows comes behind so many executions as predicted.
    #[inline]
    pub(super) fn behind(&mut self, predicted: u32) {
        self.run += u64::from(predicted);
    }

    #[inline]
    fn token(&mut self, form: u64) {
        varint::put(&mut self.bytes, self.run << 3 | form);
        self.run = 0;
    }

    fn other(&mut self, what: u8) {
        self.token(OTHER);
        self.bytes.push(what);
    }

    /// An execution of the predicted code block with explicit accesses.
    pub(super) fn masked(&mut self, explicit: u64) {
        self.token(MASKED);
        mask::put(&mut self.bytes, explicit);
    }

    /// An execution of the second successor.
    pub(super) fn second(&mut self, explicit: u64) {
        if explicit == 0 {
            return self.token(SECOND);
        }
        self.token(SECOND_MASKED);
        mask::put(&mut self.bytes, explicit);
    }

    /// An execution of any other entry of the dictionary.
    pub(super) fn named(&mut self, entry: u32, explicit: u64) {
        self.token(if explicit == 0 { NAMED } else { NAMED_MASKED });
        varint::put(&mut self.bytes, u64::from(entry));
        if explicit != 0 {
            mask::put(&mut self.bytes, explicit);
        }
    }

    /// The two successors of the code block that was executed last change places.
    pub(super) fn swap(&mut self) {
        self.other(SWAP);
    }

    /// Other accesses of a code block are expected to miss.
    pub(super) fn expect(&mut self, entry: u32, misses: u64) {
        self.other(EXPECT);
        varint::put(&mut self.bytes, u64::from(entry));
        mask::put(&mut self.bytes, misses);
    }

    /// An event.
    pub(super) fn event(&mut self) {
        self.token(EVENT);
    }

    /// Virtual time without references.
    pub(super) fn advance(&mut self, units: u64) {
        self.other(ADVANCE);
        varint::put(&mut self.bytes, units);
    }

    /// All tokens, at the end of a block.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        if self.run > 0 {
            self.token(NOTHING);
        }
        &mut self.bytes
    }
}
