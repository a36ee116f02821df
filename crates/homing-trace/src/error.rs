//! What can be wrong with a trace.

use crate::ids::Thread;

/// Why a trace cannot be read or written at all.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is something else.
    #[error(
        "not a Homing trace: expected the magic `HOMINGTR` at its start, as \
        `homing record` and `homing trace import` write it"
    )]
    NotATrace,
    /// A version that this program does not know.
    #[error(
        "trace format version {found}, but this program reads version {known}: use the Homing that wrote the \
        trace"
    )]
    Version {
        /// The version of the file.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// The header is cut off or damaged. What follows may be whole ([`super::Trace::salvage`]).
    #[error(
        "the trace's header is damaged: {0}, and there is no copy of it; `homing trace recover` goes on \
        without it"
    )]
    Header(String),
    /// The references have no total order yet.
    #[error(
        "the trace has no total order: make one with `homing trace merge`, or, if its recorder was killed, with \
         `homing trace recover`"
    )]
    NoOrder,
    /// The total order cannot be read, at least in part.
    #[error(
        "the order of the references is damaged ({0}): `homing trace merge` makes another, \
        `homing trace recover` a whole trace of \
         what is there"
    )]
    DamagedOrder(Damage),
    /// There is no reference in it.
    #[error("the trace has no references: `homing trace info` says what was recorded")]
    NoReferences,
    /// There is none of its region of interest.
    #[error(
        "the trace has no references of a region: what was to begin it (--from {0}) never came; the trace \
         has only the first reference to each page"
    )]
    NoRegion(String),
    /// All of it was skipped.
    #[error(
        "the trace has only the first reference to each page: the program made no more than the {0} references that \
         were left out at its start; record it with a smaller --skip"
    )]
    AllSkipped(u64),
    /// No reference can be read.
    #[error("nothing of the trace can be read: of {lost} references all are lost ({reason}); {advice}")]
    NothingLeft {
        /// References that are known to be lost.
        lost: u64,
        /// Why the first of them are.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// Its references have the addresses of pages alone.
    #[error(
        "the trace has the addresses of pages alone (it was recorded with --grain page), but {needs} \
        addresses within pages: {advice}"
    )]
    Coarse {
        /// What needs more, with its verb.
        needs: String,
        /// What to do.
        advice: &'static str,
    },
    /// The program refers to more memory than a trace can tell of.
    #[error(
        "the program refers to more than 1 TiB of its address space, the most that a trace can hold: record a part of \
         it (--from, --to, --limit)"
    )]
    TooManyPages,
    /// Reading or writing failed.
    #[error("reading or writing the trace failed")]
    Io(#[from] std::io::Error),
}

/// A part of a trace that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the file in bytes; the file's length if a block is missing at its end.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
    /// The thread whose references are lost, if it is one thread.
    pub thread: Option<Thread>,
    /// References lost by it.
    pub references: u64,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.reason)?;
        if let Some(thread) = self.thread {
            write!(f, " (thread {thread}, {} references lost)", self.references)?;
        }
        Ok(())
    }
}
