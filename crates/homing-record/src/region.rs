//! Regions of interest: what part of a program is recorded.

use homing_linux::proc::symbols;
use homing_trace::{Place, Summary};
use std::path::Path;

/// Names that are shown in place of one that is not there.
const SHOWN: usize = 3;
/// Names that are less alike are not.
const ALIKE: f64 = 0.75;

/// What stands before the name of a mark, where a region does not begin or end with a function.
pub const MARK: &str = "mark:";

/// A region of interest: from the first entry of a function, or a mark, to the first such after that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Where it begins: a function, or a mark behind [`MARK`]; `None`: with the program.
    pub from: Option<String>,
    /// Where it ends; `None`: with the program.
    pub to: Option<String>,
}

/// A function that was to begin or end the region and never ran, or a mark that was never made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeverRan {
    /// Its name, as the user gave it.
    pub function: String,
    /// Whether the region was to begin with it: there is none then.
    pub begins: bool,
    /// Functions of the program with a similar name.
    pub similar: Vec<String>,
}

impl Region {
    /// Whether it is all of the program.
    pub fn is_everything(&self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    /// Where a recording is when the program begins.
    pub fn start(&self) -> Place {
        match self.from {
            Some(_) => Place::Before,
            None => Place::Inside,
        }
    }

    /// The function that never ran, given where the recording of `program` was at its end. `limit`: the recorder
    /// stopped after that number of references, so that what came later is not known.
    pub(crate) fn never_ran(
        &self,
        place: Place,
        program: &Path,
        summary: &Summary,
        limit: Option<u64>,
    ) -> Option<NeverRan> {
        let kept = summary.references - summary.first_touches.min(summary.references);
        let (function, begins) = match place {
            Place::Before => (self.from.as_ref()?, true),
            Place::Inside if limit.is_none_or(|limit| kept < limit) => (self.to.as_ref()?, false),
            _ => return None,
        };
        // A program without symbols has no names to show.
        let names = || symbols::functions(program).unwrap_or_default();
        let similar = if is_mark(function) { Vec::new() } else { similar(function, names()) };
        Some(NeverRan { function: function.clone(), begins, similar })
    }
}

/// Whether a name stands for a mark: `mark::solve` is a function.
pub fn is_mark(name: &str) -> bool {
    name.strip_prefix(MARK).is_some_and(|mark| !mark.starts_with(':'))
}

/// The names that are most like one: those that it is a part of first.
fn similar(wanted: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let score = |name: &String| match name.contains(wanted) {
        true => 1.0 + 1.0 / name.len() as f64,
        false => strsim::jaro_winkler(wanted, name),
    };
    let mut scored: Vec<(f64, String)> = names.into_iter().map(|name| (score(&name), name)).collect();
    scored.retain(|(score, _)| *score >= ALIKE);
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(SHOWN).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_come_first_that_hold_the_wanted_one() {
        let names = ["solver", "_Z5solvePdi", "resolve_all", "main", "slove", "free"].map(str::to_owned);
        assert_eq!(similar("solve", names), ["solver", "_Z5solvePdi", "resolve_all"]);
        assert_eq!(similar("slove", ["solve", "main"].map(str::to_owned)), ["solve"]);
        assert!(similar("compute", ["main".to_owned()]).is_empty());
    }

    #[test]
    fn marks_are_told_from_functions() {
        assert!(is_mark("mark:solve") && is_mark("mark:iteration"));
        assert!(!is_mark("mark::solve") && !is_mark("market") && !is_mark("a mark:b"));
    }

    #[test]
    fn what_comes_after_a_limit_is_not_known() {
        let region = Region { from: None, to: Some("end".into()) };
        let summary = Summary { references: 10, ..Summary::default() };
        let never = |limit| {
            region.never_ran(Place::Inside, Path::new("/dev/null"), &summary, limit).map(|n| n.function)
        };
        assert_eq!(
            (never(None), never(Some(10)), never(Some(11))),
            (Some("end".into()), None, Some("end".into()))
        );
        assert_eq!(region.never_ran(Place::After, Path::new("/dev/null"), &summary, None), None);
    }
}
