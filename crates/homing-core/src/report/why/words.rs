//! What the diagnosis says in sentences.

use super::super::advice::Target;
use super::super::process;
use super::{Basis, Working};
use crate::why::area::{Area, OTHER};
use crate::why::remedy::{Prediction, Remedy};
use crate::why::verdict::Cause;
use crate::why::{Diagnosis, Finding, NOTHING};
use crate::windows::Still;

/// The answer: who did what to which data, the fix, the gain.
pub(super) fn sentence(found: &Diagnosis, basis: &Basis, target: &Target) -> String {
    let reach = basis.busy.filter(|busy| busy.reached < busy.nodes && !busy.alone).map(|busy| {
        let threads = things(busy.threads, "thread");
        format!("{threads} of this program work, on {} of {} nodes. ", busy.reached, busy.nodes)
    });
    format!("{}{}", reach.unwrap_or_default(), answer(found, basis, target))
}

fn answer(found: &Diagnosis, basis: &Basis, target: &Target) -> String {
    if let Some(doubt) = &basis.doubt {
        return format!("Not known: {}. {}.", doubt.words(), doubt.advice());
    }
    let (at_most, of) = (percent(found.at_most), of(found.timed));
    let main = main_finding(found);
    let (Some((finding, prediction)), false) = (main, found.cause == Cause::NotNuma) else {
        let why = match (basis.busy, basis.nodes_in_use) {
            (Some(Working { alone: true, .. }), _) => ", since one thread does nearly all the work",
            (_, 1) => ", since all threads that were seen run on one node",
            _ => "",
        };
        return match found.at_most < NOTHING {
            true => format!("Not NUMA: placing memory saves at most {at_most} {of}{why}."),
            false => format!(
                "Not NUMA: no change that was tried saves {} {of}{why} (all pages at the best place at each moment: \
                 {at_most}).",
                percent(NOTHING)
            ),
        };
    };
    let others = found.findings.iter().filter(|finding| finding.remedy.is_some()).count() - 1;
    let same = |other: &Finding| other.remedy.is_none_or(|other| other.remedy == prediction.remedy);
    let fix = match found.findings.iter().all(same) {
        true => fix(prediction.remedy, others > 0, target),
        false => "The changes below".into(),
    };
    let source = if basis.sampled.is_some() { "estimated from samples" } else { "modelled" };
    let saves = format!("{fix} saves {} {of} ({source})", range(found.gain.low, found.gain.high));
    let saves = if fix.starts_with("The changes") || fix.starts_with("Small pages") {
        saves.replacen(" saves ", " save ", 1)
    } else {
        saves
    };
    let alone = found.for_all.iter().find(|all| all.remedy == Remedy::OneNode).and_then(|all| all.time);
    let alone =
        alone.map(|time| 1.0 - time).filter(|saves| *saves > found.at_most && percent(*saves) != at_most);
    let most = match percent(found.at_most) == percent(found.gain.high) {
        true => "no placement saves more".to_owned(),
        false => format!("no placement saves more than {at_most}"),
    };
    let most = match alone {
        Some(saves) => format!(
            "{most} with threads on these nodes; all threads on CPUs {} with their memory: {}",
            target.cpus_of_node_0,
            percent(saves)
        ),
        None => most,
    };
    format!("{}. {saves}; {most}.", capital(&cause(found.cause, &finding.area, others, basis, target)))
}

/// The area that is most to blame for the verdict, with its remedy: of those with its cause, if any has it.
fn main_finding(found: &Diagnosis) -> Option<(&Finding, Prediction)> {
    let all = || found.findings.iter().filter_map(|finding| Some((finding, finding.remedy?)));
    all().find(|(finding, _)| finding.cause == Some(found.cause)).or_else(|| all().next())
}

/// What is wrong with an area, and as many others.
fn cause(cause: Cause, area: &Area, others: usize, basis: &Basis, target: &Target) -> String {
    let data = match others {
        0 => label(area),
        others => format!("{} and {}", label(area), things(others as u64, "other data structure")),
    };
    let (node, share) = Area::most(&area.homes);
    let node = target.id(node as u16);
    let part = match share > 0.995 {
        true => "all".to_owned(),
        false => percent(share),
    };
    let them = if others == 0 { "it" } else { "them" };
    match cause {
        // Samples do not tell who filled it.
        Cause::InitialisedByOneThread if basis.sampled.is_some() => {
            format!("{part} of {data} is on node {node}, and other nodes use {them}")
        }
        Cause::InitialisedByOthers if basis.sampled.is_some() => {
            format!("{data} is on other nodes than those that use {them}")
        }
        Cause::InitialisedByOneThread => {
            format!("one thread filled {data}, so {part} of {them} is on node {node}")
        }
        Cause::InitialisedByOthers => format!("other threads filled {data} than use {them}"),
        Cause::SharedByAll => format!("all nodes use {data}, and {part} of {them} is on node {node}"),
        Cause::OneNodeCongested => {
            format!("all nodes use {data}, and wait for node {node}, which has {part} of {them}")
        }
        Cause::ReadShared => format!("all nodes read {data}, and {part} of {them} is on node {node}"),
        Cause::UsedInTurn => format!("nodes use {data} one after the other"),
        Cause::FalselySharedPages => format!("nodes use different parts of the same pages of {data}"),
        Cause::SharedHugePages => {
            format!("nodes use different small pages of the same huge pages of {data}")
        }
        Cause::FalselySharedLines => {
            format!("nodes write different bytes of the same cache lines of {data}")
        }
        Cause::ContendedLines => format!("nodes write the same few cache lines of {data}"),
        _ => format!("{}: {data}", cause.short()),
    }
}

/// What a remedy does, as the subject of a sentence.
fn fix(remedy: Remedy, several: bool, target: &Target) -> String {
    let it = if several { "them" } else { "it" };
    match remedy {
        Remedy::InitialiseByUser => format!("Filling {it} by the threads that use {it}"),
        Remedy::Bind(node) => format!("Keeping {it} on node {}", target.id(node)),
        Remedy::Spread => format!("Interleaving {it} over the nodes"),
        Remedy::Replicate => "A copy on each node".into(),
        Remedy::Migrate => "Moving the pages to the nodes that use them".into(),
        Remedy::SameThread => format!("Letting each thread go on with its own part of {it}"),
        Remedy::SmallPages(_) => "Small pages there".into(),
        Remedy::SeparatePages => "Giving each thread's part pages of its own, filled by that thread".into(),
        Remedy::PadLines => "Giving each thread's part cache lines of its own".into(),
        Remedy::SplitLines => "Splitting what is in these lines".into(),
        Remedy::OneNode => "Running on one node".into(),
    }
}

/// An area with its size: `table` (88 MiB), or the memory that `new_grid` allocates (heat.c:18, 88 MiB).
fn label(area: &Area) -> String {
    let size = match (area.bytes >> 20, area.bytes >> 10) {
        (0, kibibytes) => format!("{kibibytes} KiB"),
        (mebibytes, _) => format!("{mebibytes} MiB"),
    };
    let Some(name) = &area.name else { return format!("unnamed memory ({size})") };
    let innermost = name.split(" < ").next().unwrap_or(name);
    let (name, place) = match innermost.strip_suffix(')').and_then(|name| name.rsplit_once(" (")) {
        Some((name, place)) => (name, format!("({place}, {size})")),
        None => (innermost, format!("({size})")),
    };
    match area.stack.is_empty() {
        true => format!("`{name}` {place}"),
        false => format!("the memory that `{name}` allocates {place}"),
    }
}

/// What gains are shares of.
pub(super) fn of(timed: bool) -> &'static str {
    match timed {
        true => "of the run time",
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
