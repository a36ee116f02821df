//! Who is shown how far something is. The crate itself shows nothing.

use std::fmt;
use std::sync::Arc;

/// Shows how far one thing is, until it is dropped.
pub trait Bar: Send + Sync {
    /// That much more is done.
    fn advance(&self, done: u64);

    /// It begins again.
    fn restart(&self);
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// References of a trace.
    References,
    /// Traces on machines, in a study.
    Cases,
}

/// Begins to show how far something is: how much there is to do, of what, and what is done with it.
type Begin = dyn Fn(u64, Unit, &'static str) -> Box<dyn Bar> + Send + Sync;

/// Tells something that the user should know, though all goes on.
type Tell = dyn Fn(&str) + Send + Sync;

/// Who is shown how far things are, and told what happens meanwhile; nobody, unless somebody is named.
#[derive(Clone, Default)]
pub struct Progress(Option<(Arc<Begin>, Arc<Tell>)>);

impl Progress {
    /// Shows by bars that `begin` makes: of how much there is to do, of what, and what is done with it. `tell` tells
    /// what happens meanwhile, in a line.
    pub fn new(
        begin: impl Fn(u64, Unit, &'static str) -> Box<dyn Bar> + Send + Sync + 'static,
        tell: impl Fn(&str) + Send + Sync + 'static,
    ) -> Progress {
        Progress(Some((Arc::new(begin), Arc::new(tell))))
    }

    /// Tells something in a line.
    pub(crate) fn tell(&self, line: &str) {
        if let Some((_, tell)) = &self.0 {
            tell(line);
        }
    }

    /// Shows how far one more thing is.
    pub(crate) fn begin(&self, total: u64, unit: Unit, doing: &'static str) -> Box<dyn Bar> {
        match &self.0 {
            Some((begin, _)) => begin(total, unit, doing),
            None => Box::new(Hidden),
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "shown" } else { "hidden" })
    }
}

/// A bar that nobody sees.
struct Hidden;

impl Bar for Hidden {
    fn advance(&self, _done: u64) {}
    fn restart(&self) {}
}
