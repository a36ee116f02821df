//! Recording: starts a program under a recorder, takes what the recorder writes, and leaves a trace in one total order.
//!
//! The program, its recorder and the encoder run at the same time; credits of the channel bound what lies between them.
//! Whatever ends the program (its end, a signal, a crash, a kill), the trace is completed from what arrived.

pub mod family;
pub mod libraries;
pub mod order;
pub mod program;
mod session;
mod stream;
mod symbols;
pub mod valgrind;

pub use session::{Ended, Session};
pub use stream::Settings;
