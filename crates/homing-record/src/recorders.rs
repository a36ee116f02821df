//! The recorders there are. A new one is one file and one line in [`RECORDERS`].

use crate::error::RecordError;
use crate::region::Region;
use crate::watch::Watch;
use crate::windows::Windows;
use crate::{clang, tsan, valgrind};
use homing_linux::channel::Channel;
use homing_linux::follow::Door;
use homing_linux::program;
use homing_trace::{merge, Grain, IngestOptions};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The recorders; the first one is for programs that no other one suits.
pub static RECORDERS: [Recorder; 3] = [valgrind::ENTRY, tsan::ENTRY, clang::ENTRY];

/// One way to record.
#[derive(Debug)]
pub struct Recorder {
    /// As on the command line and in traces.
    pub name: &'static str,
    /// What it records.
    pub summary: &'static str,
    /// Whether it can follow child processes.
    pub follows: bool,
    /// Whether it can record in windows.
    pub has_windows: bool,
    /// What the matter is where it recorded nothing.
    pub nothing: &'static str,
    /// Whether a program was built for it; `None`: it takes any.
    pub(crate) suits: Option<fn(&Path) -> bool>,
    /// Fails with what is missing to record a program on this machine.
    pub lacks: fn(&Path) -> Result<(), RecordError>,
    /// Makes the command that runs a program under it.
    pub(crate) start: Start,
}

type Start = fn(&Request, &Path, Option<&Door>, &Arc<dyn Watch>) -> Result<Started, RecordError>;

/// The recorder of that name.
pub fn named(name: &str) -> Option<&'static Recorder> {
    RECORDERS.iter().find(|recorder| recorder.name == name)
}

/// The recorder for a command: the one that its program was built for, else the one for any program.
pub fn suited(command: &[OsString]) -> &'static Recorder {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let suits = |recorder: &&Recorder, program: &Path| recorder.suits.is_some_and(|suits| suits(program));
    let program = command.first().and_then(|name| program::find(name, &path).ok());
    let built_for = program.and_then(|program| RECORDERS.iter().find(|recorder| suits(recorder, &program)));
    built_for.unwrap_or(&RECORDERS[0])
}

/// What to record and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// With what.
    pub recorder: &'static Recorder,
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// The trace.
    pub output: PathBuf,
    /// Which references are kept.
    pub options: IngestOptions,
    /// How fine their addresses are.
    pub grain: Grain,
    /// Whether references of libraries of the system are left out.
    pub only_program: bool,
    /// How they are ordered.
    pub merge: merge::Options,
    /// Blocks of code that a thread runs under Valgrind before another gets its turn.
    pub slice: u32,
    /// Whether child processes are recorded, too.
    pub follow: bool,
    /// What part of the program is of interest.
    pub region: Region,
    /// When it is recorded; `None`: always.
    pub windows: Option<Windows>,
}

/// A command that runs a program under a recorder.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) command: Command,
    pub(crate) channel: Channel,
    pub(crate) messages: Option<valgrind::Messages>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_all_is_said() {
        for (index, recorder) in RECORDERS.iter().enumerate() {
            assert!(!recorder.summary.is_empty() && !recorder.nothing.is_empty(), "{}", recorder.name);
            assert_eq!(RECORDERS.iter().position(|other| other.name == recorder.name), Some(index));
            assert!(std::ptr::eq(named(recorder.name).unwrap(), recorder));
        }
        assert!(named("lackey").is_none());
        assert!(RECORDERS.iter().any(|recorder| recorder.follows), "--follow needs one");
    }
}
