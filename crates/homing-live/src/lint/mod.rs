//! What is wrong with how a machine or a process is set up for several memories (`homing doctor`). Each rule is a
//! function of what the kernel's files say; [`machine`] and [`process`] hold the tables. Roots of /proc and /sys are
//! arguments, so that tests run on trees of their own. Files that are not there make no finding.

mod machine;
mod process;
#[cfg(test)]
mod tests;

pub use machine::machine;
pub use process::process;

use serde::Serialize;
use std::path::{Path, PathBuf};

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The files say so.
    Certain,
    /// Usually it means that.
    Likely,
    /// It may be so; whoever knows the program can tell.
    Possible,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, which stays.
    pub name: &'static str,
    /// What it is.
    pub what: String,
    /// What the kernel's files say.
    pub evidence: String,
    /// What to do.
    pub advice: &'static str,
    /// How sure it is.
    pub sure: Sure,
}

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Roots { sys: "/sys".into(), proc: "/proc".into() }
    }
}

/// A file without the blanks around its text; none if it cannot be read.
fn text(path: &Path) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A file with a number.
fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// The word in brackets of a file such as `always [madvise] never`.
fn chosen(path: &Path) -> Option<String> {
    let text = text(path)?;
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Numbers as a list: `0-3,5`.
fn list(numbers: impl IntoIterator<Item = u32>) -> String {
    homing_rset::ranges(numbers.into_iter().map(|number| number as u16))
}

/// Bytes for people.
fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
