//! Why a file cannot be written.

use std::path::PathBuf;

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file would take the place of one of another kind.
    #[error("{} exists and is {found}: only {expected} may be replaced; choose another name", .path.display())]
    OtherKind {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What may be replaced.
        expected: &'static str,
    },
    /// Another user decides where a path leads.
    #[error(
        "{}: `{}` on the way is a link of another user, who can let it lead anywhere: name the file without that link",
        .path.display(), .link.display()
    )]
    AnothersLink {
        /// The path.
        path: PathBuf,
        /// The link's name.
        link: PathBuf,
    },
    /// A file that was read is not to be replaced.
    #[error("{}: {what} belongs to another user", .path.display())]
    Anothers {
        /// The file, or its directory.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A file that was read has lost its name to another one.
    #[error("{}: another file has taken the name while this one was read, and keeps it", .0.display())]
    Replaced(PathBuf),
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
