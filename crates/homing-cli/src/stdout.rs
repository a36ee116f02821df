//! What a command prints: `println!` and `print!` panic where nobody reads the output (`homing machines | head -1`) or it
//! cannot be written (a full disk); [`outln!`] and [`out!`] return the error, and [`crate::exit::finish`] says what it means.
//! What others chose in it cannot command the terminal ([`homing_linux::visible`]).

use anyhow::Context;
use homing_core::report::SCHEMA;
use homing_linux::visible;
use serde_json::Value;
use std::fmt::Arguments;
use std::io::Write;

/// Prints to standard output, or returns the error from the function around.
macro_rules! out {
    ($($words:tt)*) => {
        $crate::stdout::print(format_args!($($words)*))?
    };
}

/// [`out!`] with the end of a line.
macro_rules! outln {
    ($($words:tt)*) => {
        $crate::stdout::print(format_args!("{}\n", format_args!($($words)*)))?
    };
}

/// What went wrong where the output goes to standard output.
pub const FAILED: &str = "cannot write to standard output";

/// Prints to standard output.
pub fn print(words: Arguments<'_>) -> anyhow::Result<()> {
    bytes(visible::text(&words.to_string()).as_bytes())
}

/// Writes bytes to standard output as they are: data, or what this program itself made.
pub fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).context(FAILED)
}

/// Prints an object as JSON, with the version of what its fields mean in `schema`.
pub fn json(mut object: Value) -> anyhow::Result<()> {
    object["schema"] = SCHEMA.into();
    outln!("{}", serde_json::to_string_pretty(&object)?);
    Ok(())
}
