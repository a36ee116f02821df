//! What a command prints beside its output: `eprintln!` panics where standard error cannot be written (a log on a full
//! disk), which would cost a recording or stop a service; [`crate::errln!`] goes on. What others chose in it cannot
//! command the terminal.

use crate::visible;
use std::fmt::Arguments;
use std::io::Write;

/// Tells the user a line.
#[macro_export]
macro_rules! errln {
    ($($words:tt)*) => {
        $crate::stderr::print(format_args!($($words)*))
    };
}

/// Tells the user a line, in one piece.
pub fn print(words: Arguments<'_>) {
    // There is no place left where this could be reported.
    let _ = std::io::stderr().write_all(visible::text(&format!("{words}\n")).as_bytes());
}
