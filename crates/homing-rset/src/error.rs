//! What is wrong with an expression, and where: the text with a line of carets below the place.

use std::fmt;
use std::ops::Range;

/// Something wrong at a place of a text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub at: Range<usize>,
    pub what: String,
}

impl Wrong {
    pub fn new(at: Range<usize>, what: impl Into<String>) -> Wrong {
        Wrong { at, what: what.into() }
    }

    /// The same, where its text begins at `offset` of another one.
    pub fn shifted(self, offset: usize) -> Wrong {
        Wrong { at: self.at.start + offset..self.at.end + offset, what: self.what }
    }
}

/// An expression that cannot be read, or has no meaning on a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ExprError {
    /// The expression.
    pub text: String,
    /// The first column that is wrong, from 1, in characters.
    pub column: usize,
    /// How many characters are wrong, at least 1.
    pub width: usize,
    /// What is wrong, what was expected, and what to do.
    pub what: String,
}

impl ExprError {
    pub(super) fn new(text: &str, wrong: Wrong) -> ExprError {
        let characters = |part: Option<&str>| part.map_or(0, |part| part.chars().count());
        let column = 1 + characters(text.get(..wrong.at.start));
        let width = characters(text.get(wrong.at)).max(1);
        ExprError { text: text.to_owned(), column, width, what: wrong.what }
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExprError { text, column, width, what } = self;
        // Where the text has lines of its own, carets would stand below the wrong one.
        if text.contains(['\n', '\t']) {
            return write!(f, "{what} (column {column} of `{}`)", text.escape_debug());
        }
        write!(f, "{what}\n{text}\n{}{}", " ".repeat(column - 1), "^".repeat(*width))
    }
}
