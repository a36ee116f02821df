//! What a command prints: `println!` and `print!` panic where nobody reads the output (`homing machines | head -1`) or
//! it cannot be written (a full disk); [`outln!`] and [`out!`] return the error, and [`crate::exit::finish`] says what
//! it means. What others chose in it cannot command the terminal ([`homing_linux::visible`]).

use anyhow::Context;
use homing_core::report::SCHEMA;
use homing_linux::{mapped, visible};
use serde_json::Value;
use std::fmt::Arguments;
use std::io::{self, Stdout, Write};

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

/// The error of a descriptor that is closed (EBADF).
const CLOSED: i32 = 9;

/// Prints to standard output.
pub fn print(words: Arguments<'_>) -> anyhow::Result<()> {
    let shown = words.to_string();
    checked(|out| out.write_all(visible::text(&shown).as_bytes()))
}

/// Writes bytes to standard output as they are: data, or what this program itself made.
pub fn bytes(bytes: &[u8]) -> anyhow::Result<()> {
    checked(|out| out.write_all(bytes))
}

/// Lets `print` write to standard output, and passes all of it on.
///
/// # Errors
/// Where it cannot be written, which the standard library hides if it is closed; if a trace was changed while it was
/// read, since nothing can be said of it then.
pub fn checked(print: impl FnOnce(&mut Stdout) -> io::Result<()>) -> anyhow::Result<()> {
    if homing_linux::closed::stdout_was() {
        return Err(io::Error::from_raw_os_error(CLOSED)).context(FAILED);
    }
    mapped::check()?;
    let mut out = io::stdout();
    print(&mut out).and_then(|()| out.flush()).context(FAILED)
}

/// Prints an object as JSON, with the version of what its fields mean in `schema`.
pub fn json(mut object: Value) -> anyhow::Result<()> {
    object["schema"] = SCHEMA.into();
    outln!("{}", serde_json::to_string_pretty(&object)?);
    Ok(())
}
