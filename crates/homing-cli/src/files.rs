//! Files that commands read and write. Outputs never destroy anything: [`roles`] says what each option does with its
//! file and refuses two that are in each other's way, an [`Output`] appears whole or not at all, and a [`Part`] is
//! what a kill leaves.

mod journal;
pub mod roles;

pub use homing_linux::files::{
    make_directory, read_text, remove, rename, write, Output, Over, Part, Target, JOURNAL,
};
pub use journal::JournalFile;

use crate::exit::{self, Code};
use anyhow::Context;
use homing_linux::files::is_trace;
use std::path::Path;

/// Says where what killed runs left of this trace is.
pub fn tell_left_behind(wanted: &Path) {
    for left in Part::left_behind(wanted).iter().filter(|left| is_trace(left) == Some(true)) {
        let (left, name) = (left.display(), wanted.display());
        errln!(
            "homing: a run that was killed left {left}: `homing trace recover {left} -o {name}` reads it, \
             or remove it"
        );
    }
}

/// The name that stands for standard output.
pub const STDOUT: &str = "-";

/// Whether the table of `--csv` goes to standard output; fails if JSON is to go there as well.
pub fn refuse_two_on_stdout(csv: Option<&Path>, json: bool) -> anyhow::Result<bool> {
    let prints = csv == Some(Path::new(STDOUT));
    if prints && json {
        let message =
            "--csv and --json would both go to standard output: expected one of them, or --csv=FILE";
        return Err(exit::error(Code::USAGE, message));
    }
    Ok(prints)
}

/// Writes a table as CSV: to a file, whole or not at all, or for `-` to standard output.
pub fn table(
    path: &Path,
    records: impl FnOnce(&mut csv::Writer<Vec<u8>>) -> csv::Result<()>,
) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Vec::new());
    records(&mut out)?;
    let text = out.into_inner()?;
    if path == Path::new(STDOUT) {
        return crate::stdout::bytes(&text);
    }
    Ok(write(path, Over::Texts, text)?)
}

/// Writes a CSV file whole, or leaves the name as it was.
pub fn write_csv(
    path: &Path,
    records: impl FnOnce(&mut csv::Writer<Output>) -> csv::Result<()>,
) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Output::create(path, Over::Texts)?);
    records(&mut out).with_context(|| writing(path))?;
    out.into_inner().map_err(csv::IntoInnerError::into_error).with_context(|| writing(path))?.commit()?;
    Ok(())
}

/// The context of an error in writing to a file.
pub fn writing(path: &Path) -> String {
    format!("writing {} failed, nothing of it was kept", path.display())
}
