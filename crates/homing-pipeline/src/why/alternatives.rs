//! Other readings of a trace, each tried where the first one finds nothing and the trace itself gives a reason for it:
//! a confident "not NUMA" must hold in all of them.

use super::doubt::ends_early;
use super::small::HUGE;
use super::{diagnose, judge};
use crate::case::Case;
use crate::chosen::Choice;
use crate::error::Result;
use crate::experiment::{Experiment, Ready};
use crate::trace_file::TraceFile;
use homing_core::ids::{PageSize, Time};
use homing_core::report::why::WhyReport;
use homing_core::why::verdict::Cause;

/// The part of a recording, its last, that stands for what comes after it.
const LAST: u64 = 4;

/// A reading that differs from what was asked.
struct Reading {
    experiment: Experiment,
    /// What a verdict of it is of, in a sentence.
    words: &'static str,
}

/// Diagnoses a trace as the experiment lays it out. Where that finds nothing, other readings are tried, and the first
/// that finds something is the diagnosis. Gives `then` what was judged.
///
/// # Errors
/// If a history cannot be read back.
pub fn judge_trace<R>(
    ready: &Ready,
    file: &TraceFile,
    then: impl FnOnce(&Case<'_>, WhyReport) -> R,
) -> Result<R> {
    let case = ready.case(file, None)?;
    let report = diagnose(&case)?;
    if report.verdict == Cause::NotNuma {
        for Reading { experiment, words } in readings(&case) {
            let ready = experiment.ready(|_| Ok(Vec::new()))?;
            let other = ready.case(file, None)?;
            let mut found = judge(&other, true)?;
            if found.verdict != Cause::NotNuma {
                found.sentence += words;
                return Ok(then(&other, found));
            }
        }
    }
    Ok(then(&case, report))
}

fn readings(case: &Case<'_>) -> Vec<Reading> {
    let experiment = || case.ready.experiment.clone();
    let is_whole = experiment().choice.is_everything();
    let last = (is_whole && ends_early(case)).then(|| {
        let references = case.layout.history.duration().0;
        let since = Some(Time(references - references / LAST));
        Reading {
            experiment: Experiment { choice: Choice { since, ..Choice::default() }, ..experiment() },
            words: " This is of the last quarter of the recording, which ended before the program did; in all of \
                    it there is nothing to gain.",
        }
    });
    let small = case.ready.page_size.bytes() < HUGE;
    let huge = (small && case.layout.mappings.wants_huge_pages()).then(|| {
        let mut experiment = experiment();
        experiment.model.page_size = vec![PageSize::MIB2];
        Reading {
            experiment,
            words:
                " This is of pages of 2 MiB, for which the program asks; in smaller ones there is nothing to \
                    gain.",
        }
    });
    last.into_iter().chain(huge).collect()
}
