//! Reading references from other tools' files. The order of the lines is the total order. A new format is one file and
//! one line in [`IMPORTERS`].
//!
//! A malformed line is left out, counted, and the first few are kept with what was expected, so that one bad line does
//! not cost a file of millions and none goes unseen.

pub mod csv;
pub mod lackey;
pub mod perf;
mod write;

pub use write::{to_trace, ToTraceError};

use crate::ids::Thread;
use crate::perf_data::PerfDataError;
use crate::TraceError;
use std::io::BufRead;

/// The formats there are. What no other recognises is read as the first.
pub static IMPORTERS: [Importer; 3] = [csv::ENTRY, lackey::ENTRY, perf::ENTRY];

/// A format of another tool.
#[derive(Debug)]
pub struct Importer {
    /// As on the command line and in traces.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// What a file of it holds, for messages: `expected ...`.
    pub expected: &'static str,
    /// Whether a file that begins so looks like it.
    pub(crate) looks_so: fn(&[u8]) -> bool,
    /// Reads references and hands them on, in order.
    pub(crate) read: Read,
}

/// Who takes references.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(Imported) -> Result<(), TraceError>;

type Read = fn(&mut dyn BufRead, Options, Sink<'_>) -> Result<Report, ImportError<TraceError>>;

/// How a file is imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Number the threads from 0 in order of their first reference instead of keeping their numbers, where a format
    /// has them.
    pub renumber: bool,
}

/// The format of that name.
pub fn named(name: &str) -> Option<&'static Importer> {
    IMPORTERS.iter().find(|importer| importer.name == name)
}

/// The format that a file seems to have, by its first bytes.
pub fn guess(start: &[u8]) -> &'static Importer {
    IMPORTERS.iter().find(|importer| (importer.looks_so)(start)).unwrap_or(&IMPORTERS[0])
}

/// What messages say was expected where the format is not known.
pub fn expected() -> String {
    IMPORTERS.iter().map(|importer| importer.expected).collect::<Vec<_>>().join(", or ")
}

/// A data reference as another tool saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Who made it.
    pub thread: Thread,
    /// Virtual address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
}

/// What an import took in and what it left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// References taken in.
    pub references: u64,
    /// Lines that hold no data reference by the format: instructions, comments, the tool's own messages.
    pub skipped: u64,
    /// Lines that could not be understood.
    pub malformed: u64,
    /// The first of them.
    pub examples: Vec<Malformed>,
    /// What else was left out or lost, in words.
    pub left_out: Vec<String>,
}

/// A line that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Number of the line, from 1.
    pub line: u64,
    /// What was found and what was expected.
    pub reason: String,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// Why an import cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ImportError<E> {
    /// Reading failed.
    #[error("reading at line {line}")]
    Read {
        /// Number of the line.
        line: u64,
        /// Why.
        source: std::io::Error,
    },
    /// A CSV header without a column that is needed.
    #[error(
        "the header line `{found}` has no column `{column}`; expected the columns thread,addr,size,kind"
    )]
    Header {
        /// The header.
        found: String,
        /// The column.
        column: &'static str,
    },
    /// A CSV header that names a column that is needed more than once.
    #[error("the header line names the column `{column}` twice; expected the columns thread,addr,size,kind once each")]
    Twice {
        /// The column.
        column: &'static str,
    },
    /// A file of perf that cannot be read.
    #[error(transparent)]
    PerfData(#[from] PerfDataError),
    /// The receiver of the references failed.
    #[error(transparent)]
    Sink(E),
}

/// Examples of malformed lines that a report keeps.
const EXAMPLES: usize = 10;
/// The most of a line that a message quotes.
const QUOTED: usize = 60;

impl Report {
    fn malformed(&mut self, line: u64, reason: String) {
        self.malformed += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(Malformed { line, reason });
        }
    }
}

/// A piece of input as a message may quote it: short, printable.
fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED)]);
    let dots = if bytes.len() > QUOTED { "..." } else { "" };
    format!("`{}{dots}`", text.escape_debug())
}

/// Reads digits of a base (10 or 16) as a number that fits into 64 bits.
fn digits(text: &[u8], base: u64) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, &byte| {
        let digit = (byte as char).to_digit(base as u32)?;
        number.checked_mul(base)?.checked_add(u64::from(digit))
    })
}

/// Reads a decimal number or one in hexadecimal behind `0x`.
fn number(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', b'x' | b'X', hex @ ..] => digits(hex, 16),
        decimal => digits(decimal, 10),
    }
}

/// The largest access that an import takes: no instruction accesses more, and a trace rounds sizes up to at most this.
const MAX_BYTES: u64 = 1 << 15;

/// A size in bytes, if it is one that an access may have.
fn size(text: &[u8]) -> Option<u32> {
    number(text).filter(|n| (1..=MAX_BYTES).contains(n)).map(|n| n as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_a_name_and_recognises_its_own() {
        for (index, importer) in IMPORTERS.iter().enumerate() {
            assert!(!importer.summary.is_empty() && !importer.expected.is_empty(), "{}", importer.name);
            assert_eq!(IMPORTERS.iter().position(|other| other.name == importer.name), Some(index));
            assert!(std::ptr::eq(named(importer.name).unwrap(), importer));
        }
        assert!(named("din").is_none());
        assert_eq!((guess(b"==12== Lackey").name, guess(b"0,0x10,8,r").name), ("lackey", "csv"));
    }

    #[test]
    fn each_file_of_a_format_is_in_the_table() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/import")).unwrap();
        let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
        for name in names.filter(|name| name != "mod" && name != "write") {
            assert!(named(&name).is_some(), "import/{name}.rs: expected a line in IMPORTERS");
        }
    }
}
