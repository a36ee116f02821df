//! The exit summary for people.

use homing_live::account::Summary;
use homing_live::source::Scans;
use indicatif::HumanBytes;
use std::fmt::Write;

/// The summary as lines that begin with `homing: `.
pub fn text(summary: &Summary) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "homing: {text}");
    };
    let percent =
        |value: Option<f64>| value.map_or("nothing seen".into(), |percent| format!("{percent:.1} %"));
    let dry = if summary.dry_run { " (dry run)" } else { "" };
    line(format!(
        "{} with {}{dry}: {:.1} s, {} samples, non-local {} before the first move, {} at the end",
        summary.policy,
        summary.source,
        summary.seconds,
        summary.samples,
        percent(summary.nonlocal_percent_before),
        percent(summary.nonlocal_percent_after)
    ));
    line(format!("confidence {}", summary.confidence));
    if summary.dry_run {
        line(format!("{} pages would have moved", summary.would_move));
    } else {
        let nodes: Vec<String> =
            summary.moves.iter().map(|[from, to, pages]| format!("{from}->{to} {pages}")).collect();
        let nodes = if nodes.is_empty() { String::new() } else { format!(": {}", nodes.join(", ")) };
        line(format!("{} pages moved ({}){nodes}", summary.pages_moved, HumanBytes(summary.bytes_moved)));
    }
    for (what, counts) in [("failed", &summary.failures), ("refused", &summary.refused)] {
        let counts: Vec<String> = counts.iter().map(|(why, count)| format!("{count} {why}")).collect();
        if !counts.is_empty() {
            line(format!("moves {what}: {}", counts.join(", ")));
        }
    }
    let losses = &summary.losses;
    for (count, what) in [
        (summary.moved_by_others, "pages were moved by others (the kernel's balancing?)"),
        (summary.left_waiting, "moves were still waiting at the end: raise --time-budget or --rate-limit"),
        (summary.threads_moved, "threads moved to another node"),
        (summary.forwarded, "pages were sent after a thread that alone uses them"),
        (summary.huge_pages_split, "huge pages were split, since several nodes use them"),
        (
            summary.huge_pages_not_split,
            "huge pages that several nodes use could not be split (needs root and debugfs)",
        ),
        (losses.lost, "samples were lost: a ring was full"),
        (summary.unheard, "samples had not been heard at the end: the engine was behind"),
        (losses.throttled, "times the kernel throttled the event"),
        (losses.malformed, "records made no sense"),
        (losses.unwatched, "threads or processes could not be watched"),
        (losses.scans_missed, "scans for hint faults did not come"),
        (summary.denied, "processes were left alone: this user may not trace them"),
    ] {
        if count > 0 {
            line(format!("{count} {what}"));
        }
    }
    if let Some(why) = &summary.thread_events_refused {
        line(format!(
            "threads that move were noticed late, by looks at /proc: no software event ({why}; it needs CAP_PERFMON or \
             kernel.perf_event_paranoid at 0 or below)"
        ));
    }
    let Scans { scans, stopped_seconds, .. } = summary.scans;
    if scans > 0 {
        line(format!(
            "{scans} scans for hint faults, for which the program stood still for {stopped_seconds:.2} s"
        ));
    }
    let share = 100.0 * summary.engine_cpu_seconds / summary.seconds.max(1e-9);
    let mut phases: Vec<(&String, &f64)> = summary.engine_cpu_by_phase.iter().collect();
    phases.sort_by(|a, b| b.1.total_cmp(a.1));
    let most: Vec<String> = phases.iter().take(3).map(|(phase, used)| format!("{phase} {used:.2}")).collect();
    line(format!(
        "engine: {:.2} s CPU ({share:.1} % of a core; {}), {:.2} s moving, {:.2} s with the program stopped",
        summary.engine_cpu_seconds,
        most.join(", "),
        summary.moving_seconds,
        summary.stopped_seconds
    ));
    out
}
