//! The exit summary for people.

use super::hot::Hot;
use crate::tables::things;
use homing_live::account::Summary;
use homing_live::counters::COUNTERS;
use homing_live::sharers::Staying;
use homing_live::source::Scans;
use homing_session::account::{AfterMoves, Placed};
use homing_session::sight::Missing;
use indicatif::HumanBytes;

/// Per cent of the samples that are of memory that cannot move from which on that is said.
const WORTH_TELLING: f64 = 2.0;

/// The summary as lines that begin with `homing: `.
pub fn text(summary: &Summary) -> String {
    lines(summary).iter().fold(String::new(), |text, line| text + "homing: " + line + "\n")
}

/// The summary in lines.
pub fn lines(summary: &Summary) -> Vec<String> {
    let counts = &summary.counts;
    let mut out = Vec::new();
    let mut line = |text: String| out.push(text);
    if let Some(Missing { what, since }) = summary.missing {
        line(format!(
            "too little was seen to decide anything: {what}, since {:.1} s of {:.1} s",
            since.seconds(),
            summary.seconds
        ));
    }
    let dry = if summary.dry_run { " (dry run)" } else { "" };
    line(format!("{} with {}{dry}: {:.1} s", summary.policy, summary.source, summary.seconds));
    line(format!("confidence {}", summary.confidence));
    let Placed { on_user, elsewhere } = summary.placed;
    if on_user + elsewhere > 0 {
        line(format!(
            "of {} seen in use, {on_user} are on the node that used them last, {elsewhere} are not (as their process \
             ended, or now)",
            things(on_user + elsewhere, "page")
        ));
    }
    let classes: Vec<String> =
        counts.by_class.iter().map(|(class, count)| format!("{class} {count}")).collect();
    if !classes.is_empty() {
        line(format!("samples by memory: {}", classes.join(", ")));
    }
    stays(summary).into_iter().for_each(&mut line);
    if summary.dry_run {
        line(format!("{} pages would have moved", counts.would_move));
    } else {
        let between = counts.moves.iter().filter(|[from, to, _]| from != to);
        let nodes: Vec<String> = between.map(|[from, to, pages]| format!("{from}->{to} {pages}")).collect();
        let nodes = if nodes.is_empty() { String::new() } else { format!(": {}", nodes.join(", ")) };
        line(format!("{} pages moved ({}){nodes}", counts.pages_moved, HumanBytes(counts.bytes_moved)));
    }
    for (what, counts) in [("failed", &counts.failures), ("refused", &counts.refused)] {
        let counts: Vec<String> = counts.iter().map(|(why, count)| format!("{count} {why}")).collect();
        if !counts.is_empty() {
            line(format!("moves {what}: {}", counts.join(", ")));
        }
    }
    for counter in COUNTERS.iter().filter(|counter| !counter.text.is_empty()) {
        let count: f64 = (counter.get)(counts).values().sum();
        if count > 0.0 {
            line(format!("{count} {}", counter.text));
        }
    }
    if counts.wanderers > 0 && !summary.keeps {
        line(format!(
            "{} took pages from node to node: --bind auto keeps such threads on the node of their memory",
            things(counts.wanderers, "wandering thread")
        ));
    }
    if let Some(why) = &summary.thread_events_refused {
        line(format!(
            "threads that move were noticed late, by looks at /proc: no software event ({why}; it needs CAP_PERFMON or \
             kernel.perf_event_paranoid at 0 or below)"
        ));
    }
    let Scans { scans, seconds, stopped_seconds, .. } = counts.scans;
    if scans > 0 {
        line(format!("{scans} scans for hint faults took {seconds:.2} s"));
    }
    if summary.areas.iter().any(|area| area.bytes > 0) {
        let hot = Hot {
            resident_pages: summary.resident_pages,
            areas: summary.areas.clone(),
            by_iteration: summary.by_iteration.clone(),
        };
        hot.lines().into_iter().for_each(&mut line);
    }
    let share = 100.0 * counts.engine_cpu_seconds / summary.seconds.max(1e-9);
    let mut phases: Vec<(&String, &f64)> = counts.engine_cpu_by_phase.iter().collect();
    phases.sort_by(|a, b| b.1.total_cmp(a.1));
    let most: Vec<String> = phases.iter().take(3).map(|(phase, used)| format!("{phase} {used:.2}")).collect();
    line(format!(
        "engine: {:.2} s CPU ({share:.1} % of a core; {}), {:.2} s moving; the program was held for {:.2} s in all",
        counts.engine_cpu_seconds,
        most.join(", "),
        counts.moving_seconds,
        counts.stopped_seconds + stopped_seconds
    ));
    line(paid(summary));
    out
}

/// What is known of whether it paid.
fn paid(summary: &Summary) -> String {
    let AfterMoves { uses, by_new, by_old } = summary.after_moves;
    let share = |part: u64| 100.0 * part as f64 / uses.max(1) as f64;
    if summary.counts.pages_moved == 0 {
        return "nothing was moved: the program had no benefit from the engine, and bore its cost".into();
    }
    let seen = match uses {
        0 => "no use of a moved page was seen after its move".into(),
        _ => format!(
            "of {} after moves, {:.0} % were by the node that has the page now, {:.0} % by the one that it left",
            things(uses, "page sample"),
            share(by_new),
            share(by_old)
        ),
    };
    format!("whether it paid is not known: {seen}; `homing try` compares run times")
}

/// What does not move whoever uses it, with its share and the reason.
fn stays(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    for (why, &count) in &summary.counts.staying {
        let share = 100.0 * count as f64 / summary.samples.max(1) as f64;
        if share >= WORTH_TELLING {
            lines.push(format!("{share:.0} % of them are of pages that stay: {why}"));
        }
    }
    for staying in &summary.staying_memory {
        let Staying { memory, bytes, why, outside, process } = staying;
        let others = match (process, outside) {
            (Some(process), 1) => format!(": {process}"),
            (Some(process), more) => format!(": {process} and {} more", more - 1),
            (None, _) => String::new(),
        };
        lines.push(format!("{} of {memory} stay where they are: {why}{others}", HumanBytes(*bytes)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::ids::Micros;
    use homing_core::process::Class;
    use homing_live::counters::Counts;
    use homing_session::sight::Sight;
    use std::collections::BTreeMap;

    #[test]
    fn all_counters_are_shown() {
        let named = |name: &str, count| BTreeMap::from([(name.to_owned(), count)]);
        let mut counts = Counts {
            moves: vec![[0, 1, 11], [2, 2, 22]],
            failures: named("EBUSY", 12),
            refused: named("full", 13),
            by_class: BTreeMap::from([("heap".to_owned(), 14), (Class::PageCache.name().to_owned(), 6)]),
            staying: named("a reason", 6),
            stopped_seconds: 0.25,
            pages_moved: 15,
            threads_moved: 16,
            unmapped: 17,
            engine_cpu_by_phase: BTreeMap::from([("scan".to_owned(), 0.18)]),
            ..Counts::default()
        };
        (counts.losses.throttled, counts.scans.scans, counts.scans.threads_late) = (19, 20, 21);
        (counts.scans.stopped_seconds, counts.scans.others_moved) = (0.5, 22);
        let summary = Summary {
            schema: 1,
            policy: "homing".into(),
            source: "none",
            confidence: "low: little".into(),
            missing: Some(Missing { what: "no scan was answered", since: Micros(4_000_000) }),
            sight: Sight::default(),
            dry_run: false,
            seconds: 1.0,
            samples: 20,
            placed: Placed { on_user: 30, elsewhere: 10 },
            after_moves: AfterMoves { uses: 8, by_new: 6, by_old: 1 },
            pages: 0,
            staying_memory: vec![Staying {
                memory: "/dev/shm/pool".into(),
                bytes: 16 << 20,
                why: "shared".into(),
                outside: 2,
                process: Some("reader (7)".into()),
            }],
            thread_events_refused: None,
            keeps: false,
            counts,
            resident_pages: 0,
            areas: Vec::new(),
            iterations: 0,
            by_iteration: Vec::new(),
            intervals: Vec::new(),
        };
        let shown_lines = lines(&summary);
        assert!(shown_lines[0]
            .contains("too little was seen to decide anything: no scan was answered, since 4.0 s"));
        let last = shown_lines.last().unwrap();
        assert!(
            last.starts_with("whether it paid is not known: of 8 page samples after moves, 75 %"),
            "{last}"
        );
        let text = text(&summary);
        for shown in [
            "of 40 pages seen in use, 30 are on the node that used them last, 10 are not",
            "0->1 11",
            "12 EBUSY",
            "13 full",
            "heap 14",
            "30 % of them are of pages that stay: a reason",
            "16.00 MiB of /dev/shm/pool stay where they are: shared: reader (7) and 1 more",
            "held for 0.75 s in all",
            "15 pages moved",
            "16 threads moved",
            "17 samples",
            "scan 0.18",
            "19 times",
            "20 scans",
            "21 times",
            "22 pages of other processes",
        ] {
            assert!(text.contains(shown), "{shown}\n{text}");
        }
        assert!(!text.contains("2->2"), "a page that is there has not moved\n{text}");
    }
}
