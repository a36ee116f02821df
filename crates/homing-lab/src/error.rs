//! What can go wrong in the lab.

use homing_linux::files::FileError;
use homing_linux::program::ProgramError;
use std::path::PathBuf;

/// A lab that cannot be, or that failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A part is not installed.
    #[error("{what}: run `homing lab setup`")]
    Missing {
        /// The part and where it was looked for.
        what: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// What was asked for cannot be had.
    #[error("{0}")]
    Failed(String),
    /// The command of a measurement failed: its figures would mean nothing.
    #[error("{name}: the program ended with status {status}; `homing lab run` shows its output")]
    Command {
        /// Who ran it.
        name: String,
        /// Its exit status.
        status: u8,
    },
    /// A topology that makes no sense.
    #[error("{name}: {reason}")]
    Topology {
        /// The file or the option.
        name: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// A program that cannot be found or executed.
    #[error("{why}")]
    Program {
        /// As it was given.
        name: String,
        /// Why.
        why: ProgramError,
    },
    /// A file or a process of the host.
    #[error("{doing}: {why}")]
    Io {
        /// What was attempted.
        doing: String,
        /// Why it failed.
        why: std::io::Error,
    },
    /// A file that is written whole or not at all.
    #[error("{doing}")]
    File {
        /// What was attempted.
        doing: String,
        /// Why it failed.
        #[source]
        why: FileError,
    },
    /// The machine ended before the command did.
    #[error(
        "the virtual machine {} ({how}); {}:\n{console}",
        if *refused { "cannot be started" } else { "ended before the command did" },
        if *refused { "QEMU says" } else { "the last lines of its console" }
    )]
    Died {
        /// How QEMU ended.
        how: String,
        /// Whether QEMU refused to start at all: its options or a file, which another try does not change.
        refused: bool,
        /// Its last messages.
        console: String,
    },
    /// A file of the guest cannot be brought back.
    #[error("cannot bring back {path}: {reason}")]
    Result {
        /// Its name in the guest.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl LabError {
    /// An error of the host's system: `.map_err(LabError::io("starting QEMU"))`.
    pub fn io<E: Into<std::io::Error>>(doing: impl Into<String>) -> impl FnOnce(E) -> LabError {
        let doing = doing.into();
        |why| LabError::Io { doing, why: why.into() }
    }

    /// An error of a file that is written whole or not at all.
    pub fn file(doing: impl Into<String>) -> impl FnOnce(FileError) -> LabError {
        let doing = doing.into();
        |why| LabError::File { doing, why }
    }
}
