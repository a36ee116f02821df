//! Why a recording cannot be made or completed.

use crate::output::NameError;
use homing_linux::attach::AttachError;
use homing_linux::causes::with_causes;
use homing_linux::channel::{self, ChannelError};
use homing_linux::files::FileError;
use homing_linux::libraries::Missing;
use homing_linux::program::ProgramError;
use std::error::Error;
use std::path::PathBuf;

/// Why a recording cannot be made or completed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A recorder's file is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The recorder does not work on this machine.
    #[error("{0}")]
    Unsupported(String),
    /// The program brings a recorder that this one would record.
    #[error(
        "{}: linked with the homing runtime, whose calls would be recorded as the program's: record it with \
         --recorder tsan or clang, or build it without the flags of `homing cflags` and `homing ldflags`",
        .0.display()
    )]
    CarriesRuntime(PathBuf),
    /// The recorder follows no child processes.
    #[error("--follow: only --recorder {able} follows child processes, and {name} does not")]
    CannotFollow {
        /// The recorder that was asked for.
        name: &'static str,
        /// What those are called that do.
        able: String,
    },
    /// The recorder records all or nothing.
    #[error("--windows: only --recorder {able} records in windows, and {name} does not")]
    NoWindows {
        /// The recorder that was asked for.
        name: &'static str,
        /// What those are called that do.
        able: String,
    },
    /// A process that runs already cannot be told which mark windows go by.
    #[error(
        "--windows mark:NAME does not go with --pid: give times or numbers of references, such as 5ms/200ms"
    )]
    NoMarksOfProcess,
    /// The program cannot be found.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The trace would take the place of a device, a pipe or a directory.
    #[error("{} exists and is not a regular file: choose another name with -o", .0.display())]
    NoRegularFile(PathBuf),
    /// No name of a trace comes of what was given.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The trace cannot be written under its name.
    #[error(transparent)]
    File(#[from] FileError),
    /// The channel to the recorder failed.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The recorder is of another version.
    #[error(
        "the recorder in the program speaks version {0} of the wire, but this homing version {ours}: link the program \
         anew with `homing ldflags`, or run `make recorders`",
        ours = channel::VERSION
    )]
    Version(u32),
    /// Something failed while that was done.
    #[error("{doing}")]
    While {
        /// What could not be done.
        doing: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// No recorder attached.
    #[error("nothing was recorded: {why}; the command ended with status {status}")]
    Nothing {
        /// What this recorder wants.
        why: &'static str,
        /// The command's exit status.
        status: u8,
    },
    /// A process cannot be waited for.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// It holds nothing that could record it.
    #[error(
        "process {0} holds no recording runtime that can be attached to: build its program with `homing cc` or \
         `homing cflags` and `homing ldflags` of this version; others are recorded from their start \
         (`homing record -- COMMAND`)"
    )]
    NoRuntime(u32),
    /// It has not come to its recorder.
    #[error(
        "nothing was recorded: process {0} {1} before one of its threads had executed enough compiled code to look \
         for a recorder (some 8,000 references; HOMING_ATTACH=0 in its environment turns that off)"
    )]
    NeverCame(u32, &'static str),
    /// A child ended too soon.
    #[error("it ended before it could be recorded")]
    TooShort,
    /// Something is left of a trace that cannot be completed.
    #[error("{}{left}", with_causes(&**error))]
    Unfinished {
        /// Why it cannot be completed.
        error: Box<RecordError>,
        /// What to do with what is left.
        left: String,
    },
}

/// Adds to an error what was being done.
pub(crate) trait While<T> {
    /// As an error of recordings, with what could not be done.
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, RecordError>;
}

impl<T, E: Error + Send + Sync + 'static> While<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, RecordError> {
        self.map_err(|source| RecordError::While { doing: doing(), source: source.into() })
    }
}
