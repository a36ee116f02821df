//! What the diagnosis says in sentences.

use super::super::process;
use super::Basis;
use crate::why::area::OTHER;
use crate::why::verdict::Cause;
use crate::why::Diagnosis;
use crate::windows::Still;

/// The answer in a sentence. `nodes`: those that threads run on.
pub(super) fn sentence(found: &Diagnosis, nodes: u64) -> String {
    let (at_most, of) = (percent(found.at_most), of(found.timed));
    if found.cause == Cause::NotNuma {
        let why = if nodes == 1 { ", as all threads that were seen run on one node" } else { "" };
        return format!("Not NUMA: at most {at_most} {of} to gain by placing memory{why}.");
    }
    let areas = found.findings.iter().filter(|finding| finding.remedy.is_some());
    let (count, share) =
        areas.fold((0, 0.0), |(count, share), finding| (count + 1, share + finding.avoidable_percent));
    format!(
        "{}: {} with {share:.0} % of what can be avoided. The remedies take off {} {of}; at most {at_most} could \
         be.",
        capital(found.cause.words()),
        things(count, "area"),
        range(found.gain.low, found.gain.high),
    )
}

/// What gains are shares of.
pub(super) fn of(timed: bool) -> &'static str {
    match timed {
        true => "of the time",
        false => "of the cost of memory references",
    }
}

/// What windows say of the whole program, in a sentence that follows the basis.
pub(super) fn of_program(program: &Still) -> String {
    format!(
        " Of the whole program, every reference, without caches, estimated from {} that hold {:.2} % of it: {} % \
         non-local; each page at its best node saves {} % of what they cost.",
        things(program.windows as u64, "window"),
        100.0 * program.share,
        program.nonlocal_percent.in_words(2),
        program.avoidable_percent.in_words(1),
    )
}

/// What the numbers rest on. Names of traces are as the user gave them: whoever prints them makes them visible.
pub(super) fn rests_on(found: &Diagnosis, basis: &Basis) -> String {
    if let Some(sampled) = &basis.sampled {
        return process::rests_on(sampled, basis, found.before.nonlocal_percent());
    }
    let caches = if basis.behind_caches { "behind caches" } else { "every reference, no caches" };
    let copies = if basis.replication { "several copies a page" } else { "one copy a page" };
    format!(
        "Modelled on {} ({caches}, {copies}): {} of {} on {} ({}), {:.1} % of what reaches memory is non-local.",
        basis.machine.name,
        things(basis.trace.threads, "thread"),
        basis.trace.name,
        things(basis.nodes_in_use, "node"),
        basis.threads_on,
        found.before.nonlocal_percent(),
    )
}

/// Which areas no remedy was tried for.
pub(super) fn untried(found: &Diagnosis) -> Option<String> {
    let last = match found.untried {
        0 => None,
        count => Some(format!("the {} with least to avoid", things(count as u64, "area"))),
    };
    let folded = match found.folded {
        0 => None,
        count => {
            Some(format!("the {} of libraries that come together in `{OTHER}`", things(count as u64, "area")))
        }
    };
    let areas: Vec<String> = last.into_iter().chain(folded).collect();
    (!areas.is_empty()).then(|| format!("no remedy was tried for {}", areas.join(" and ")))
}

/// A share in percent, in few digits.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// A range of shares, in percent.
pub fn range(low: f64, high: f64) -> String {
    match percent(low) == percent(high) {
        true => percent(high),
        false => format!("{} to {}", percent(low).trim_end_matches(" %"), percent(high)),
    }
}

pub(in crate::report) fn things(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

pub(in crate::report) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_in_few_digits() {
        assert_eq!((percent(0.0312), percent(0.41)), ("3.1 %".into(), "41 %".into()));
        assert_eq!((range(0.2, 0.31), range(0.2, 0.2)), ("20 to 31 %".into(), "20 %".into()));
    }
}
