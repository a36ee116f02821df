//! Why a file cannot be written.

use std::path::PathBuf;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A trace would take the place of something else.
    #[error("{} exists and is not a trace: choose another name with -o", .0.display())]
    NoTrace(PathBuf),
    /// Something else would take the place of a trace.
    #[error("{} is a trace: choose another name for what is to be written", .0.display())]
    Trace(PathBuf),
    /// A file that is read is no text.
    #[error("{} is no text: expected a {what}; is the name right?", .path.display())]
    NoText {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
    },
    /// Two runs would write one file.
    #[error(
        "another run is writing {} (it is in {} until it is complete): wait until that run has ended, or choose \
         another name",
        .wanted.display(), .unfinished.display()
    )]
    InUse {
        /// The file.
        wanted: PathBuf,
        /// Where the other run has it.
        unfinished: PathBuf,
    },
    /// A path without a last part.
    #[error("{}: expected a file name", .0.display())]
    NoName(PathBuf),
    /// Names run out.
    #[error("{0} unfinished files of that name are there: recover or remove them")]
    TooMany(u32),
    /// Something failed while that was done.
    #[error("{doing}")]
    While {
        /// What could not be done.
        doing: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Adds to an error what was being done.
pub(super) trait While<T> {
    /// As an error of files, with what could not be done.
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, FileError>;
}

impl<T, E: std::error::Error + Send + Sync + 'static> While<T> for Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T, FileError> {
        self.map_err(|source| FileError::While { doing: doing(), source: source.into() })
    }
}
