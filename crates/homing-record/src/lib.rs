//! Recording: starts a program under a recorder, takes what the recorder writes, and leaves a trace. The order of the
//! references is left to whoever reads it first (`TraceFile::ordered` of homing-pipeline).
//!
//! The program, its recorder and the encoder run at the same time; credits of the channel bound what lies between them.
//! Whatever ends the program (its end, a signal, a crash, a kill), the trace is completed from what arrived.
//!
//! [`RECORDERS`] is the table of recorders. A [`Request`] is prepared, which says what is missing, and then recorded.
//! The caller learns what happens meanwhile through a [`Watch`]; nothing is printed here.

mod attach;
mod clang;
mod code;
mod error;
mod family;
mod frames;
mod go;
mod limits;
mod output;
mod recorders;
mod recording;
mod region;
mod session;
pub mod sites;
mod stream;
mod symbols;
mod tsan;
mod valgrind;
mod watch;
mod windows;

pub use error::RecordError;
pub use family::{Child, MOST_AT_ONCE};
pub use output::{NameError, Names, DEFAULT, RANKS};
pub use recorders::{named, suited, Recorder, Request, RECORDERS};
pub use recording::{Claimed, Finished, NoTrace, Prepared, Recorded};
pub use region::{is_mark, NeverRan, Region};
pub use session::{Allowed, Spent};
pub use stream::Replaced;
pub use valgrind::DEFAULT_SLICE;
pub use watch::Watch;
pub use windows::Windows;
