//! Why an experiment cannot be done.

use homing_core::compare::CompareError;
use homing_core::history::SpillError;
use homing_core::optimal::curve::CurveError;
use homing_core::optimal::OptimalError;
use homing_core::page_sizes::PageSizesError;
use homing_linux::files::FileError;
use homing_trace::TraceError;
use std::error::Error;

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, PipelineError>;

/// Why an experiment cannot be done.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// What was asked for makes no sense, or a file that users write does not: says what, where, and what was expected.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something.
    #[error("{0}")]
    Unsupported(String),
    /// It failed.
    #[error("{0}")]
    Failed(String),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A trace cannot be used.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The page histories cannot be kept.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// There is no bound.
    #[error(transparent)]
    Optimal(#[from] OptimalError),
    /// A comparison cannot be done.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// Page sizes cannot be compared.
    #[error(transparent)]
    PageSizes(#[from] PageSizesError),
    /// There is no curve of the bound.
    #[error(transparent)]
    Curve(#[from] CurveError),
    /// There is no diagnosis.
    #[error(transparent)]
    Why(#[from] homing_core::why::WhyError),
    /// Something failed while that was done.
    #[error("{doing}")]
    While {
        /// What could not be done.
        doing: String,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

impl PipelineError {
    /// A usage error with the words of another.
    pub(crate) fn usage(error: impl ToString) -> PipelineError {
        PipelineError::Usage(error.to_string())
    }
}

/// Adds to an error what was being done.
pub(crate) trait While<T> {
    /// As an error of experiments, with what could not be done.
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Error + Send + Sync + 'static> While<T> for std::result::Result<T, E> {
    fn doing(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| PipelineError::While { doing: doing(), source: source.into() })
    }
}
