//! What a session counts: one struct, and one table from which the summary for people and `/metrics` derive. To add a
//! counter: a field of [`Counts`], which `session/summary.rs` fills, and a line in [`COUNTERS`]. A field that a line
//! leaves out fails the tests.

use crate::source::{Losses, Scans};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a session has counted so far. The names are those of the exit summary's JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Accesses that were seen, by CPUs of the node that holds the page.
    pub samples_local: u64,
    /// ... and by others.
    pub samples_remote: u64,
    /// Pages moved.
    pub pages_moved: u64,
    /// Bytes moved.
    pub bytes_moved: u64,
    /// Decisions to move that a dry run did not carry out.
    pub would_move: u64,
    /// Pages moved for each pair of nodes (the kernel's numbers), as [from, to, pages].
    pub moves: Vec<[u64; 3]>,
    /// Failed moves by name of the error.
    pub failures: BTreeMap<String, u64>,
    /// Refused actions by rule.
    pub refused: BTreeMap<String, u64>,
    /// Pages that somebody else moved.
    pub moved_by_others: u64,
    /// Orders that wait now; in the exit summary: those that were still waiting.
    pub left_waiting: u64,
    /// Accesses whose page was in no memory or in no mapping any more.
    pub unmapped: u64,
    /// Accesses outside of the hot areas that their program has named (docs/runtime.md).
    pub outside_areas: u64,
    /// Accesses that wait for the engine; in the exit summary: those that it had no time to process.
    pub unheard: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Times that a thread was sent back to its node, which the engine had displaced.
    pub sent_back: u64,
    /// Threads that wander from node to node.
    pub wanderers: u64,
    /// Times that a thread was kept on one node.
    pub kept: u64,
    /// Times that one was let go, since it waited for a CPU there while others were idle.
    pub let_go: u64,
    /// Pages that were sent after a thread that moved.
    pub forwarded: u64,
    /// Pages that were spread over the nodes that use them.
    pub spread: u64,
    /// Pages that were sent back to where they were, since moves made it worse.
    pub undone: u64,
    /// Times that the pages of a process were left where they are for a while, since moves did not pay.
    pub pauses: u64,
    /// Huge pages that were split, since several nodes use them.
    pub huge_pages_split: u64,
    /// Huge pages that the kernel would not split.
    pub huge_pages_not_split: u64,
    /// Accesses by class of mapping.
    pub by_class: BTreeMap<String, u64>,
    /// Accesses to pages that stay whoever uses them, by the reason.
    pub staying: BTreeMap<String, u64>,
    /// What the source did not see.
    pub losses: Losses,
    /// What the source did to the processes.
    pub scans: Scans,
    /// Processes left alone because this user may not trace them.
    pub denied: u64,
    /// CPU time of the engine, its helpers in the processes included.
    pub engine_cpu_seconds: f64,
    /// ... by what it was used for: wait, look (at processes), scan (for hint faults), take (accesses), locate
    /// (pages), decide, move, end, helpers.
    pub engine_cpu_by_phase: BTreeMap<String, f64>,
    /// Time spent moving.
    pub moving_seconds: f64,
    /// Time in which the program was stopped for moves.
    pub stopped_seconds: f64,
}

/// How a number behaves over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It grows, over all sessions of a scope.
    Counter,
    /// It is what is so now.
    Gauge,
}

/// Numbers by the values of a label; one without a value where there is no label.
pub type Values = BTreeMap<String, f64>;

/// One line of the table.
pub struct Counter {
    /// Name in `/metrics`.
    pub metric: &'static str,
    /// The label that tells its numbers apart; none if there is only one.
    pub label: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What the exit summary says after the number, if that is not zero. Empty for those that have lines of their own.
    pub text: &'static str,
    /// The numbers.
    pub get: fn(&Counts) -> Values,
}

const fn counter(
    metric: &'static str,
    help: &'static str,
    text: &'static str,
    get: fn(&Counts) -> Values,
) -> Counter {
    Counter { metric, label: "", help, kind: Kind::Counter, text, get }
}

const fn by(
    label: &'static str,
    metric: &'static str,
    help: &'static str,
    get: fn(&Counts) -> Values,
) -> Counter {
    Counter { metric, label, help, kind: Kind::Counter, text: "", get }
}

const fn gauge(
    metric: &'static str,
    help: &'static str,
    text: &'static str,
    get: fn(&Counts) -> Values,
) -> Counter {
    Counter { metric, label: "", help, kind: Kind::Gauge, text, get }
}

fn one(value: impl Into<f64>) -> Values {
    BTreeMap::from([(String::new(), value.into())])
}

fn count(count: u64) -> Values {
    one(count as f64)
}

fn counts<'c>(counts: impl IntoIterator<Item = (&'c String, &'c u64)>) -> Values {
    counts.into_iter().map(|(name, &count)| (name.clone(), count as f64)).collect()
}

/// All counters.
pub const COUNTERS: &[Counter] = &[
    by(
        "to",
        "homing_accesses_total",
        "Accesses that the source saw, to pages on the CPU's own node or not.",
        |c| {
            let sides = [("local", c.samples_local), ("remote", c.samples_remote)];
            sides.into_iter().map(|(side, count)| (side.to_owned(), count as f64)).collect()
        },
    ),
    by("class", "homing_accesses_by_class_total", "Accesses by what their mapping holds.", |c| {
        counts(&c.by_class)
    }),
    by(
        "why",
        "homing_accesses_staying_total",
        "Accesses to pages that stay whoever uses them, by the reason.",
        |c| counts(&c.staying),
    ),
    counter("homing_pages_moved_total", "Pages moved, verified by asking the kernel.", "", |c| {
        count(c.pages_moved)
    }),
    counter("homing_moved_bytes_total", "Bytes moved.", "", |c| count(c.bytes_moved)),
    by("between", "homing_moves_total", "Pages moved from one node to another.", |c| {
        c.moves.iter().map(|[from, to, pages]| (format!("{from}-{to}"), *pages as f64)).collect()
    }),
    counter("homing_would_move_total", "Moves that a dry run did not make.", "", |c| count(c.would_move)),
    by("error", "homing_moves_failed_total", "Moves that failed, by error.", |c| counts(&c.failures)),
    by("rule", "homing_actions_refused_total", "Actions that a rule refused.", |c| counts(&c.refused)),
    counter(
        "homing_pages_moved_by_others_total",
        "Pages that somebody else moved.",
        "pages were moved by others (the kernel's balancing?)",
        |c| count(c.moved_by_others),
    ),
    gauge(
        "homing_moves_waiting",
        "Moves that wait for their turn.",
        "moves were still waiting at the end: raise --time-budget or --rate-limit",
        |c| count(c.left_waiting),
    ),
    counter(
        "homing_threads_moved_total",
        "Threads that moved to another node and stayed.",
        "threads moved to another node",
        |c| count(c.threads_moved),
    ),
    counter(
        "homing_threads_sent_back_total",
        "Times that a thread was sent back to its node, which the engine had displaced.",
        "times a thread was sent back to its node, which the engine had displaced",
        |c| count(c.sent_back),
    ),
    counter("homing_threads_wandering_total", "Threads that wander from node to node.", "", |c| {
        count(c.wanderers)
    }),
    counter(
        "homing_threads_kept_total",
        "Times that a thread was kept on one node.",
        "times a thread was kept on one node (--bind none leaves threads alone)",
        |c| count(c.kept),
    ),
    counter(
        "homing_threads_let_go_total",
        "Times that a thread was let go that waited where it was kept.",
        "times one was let go, since it waited for a CPU there",
        |c| count(c.let_go),
    ),
    counter(
        "homing_pages_forwarded_total",
        "Pages sent after a thread that moved.",
        "pages were sent after a thread that alone uses them",
        |c| count(c.forwarded),
    ),
    counter(
        "homing_pages_spread_total",
        "Pages spread over the nodes that use them.",
        "pages that no node alone uses were spread over the nodes that use them",
        |c| count(c.spread),
    ),
    counter(
        "homing_pages_undone_total",
        "Pages sent back to where they were, since moves made it worse.",
        "pages were sent back to where they were: moves made it worse",
        |c| count(c.undone),
    ),
    counter(
        "homing_pauses_total",
        "Times that the pages of a process were left for a while, since moves did not pay.",
        "times the pages of a process were left where they are for a while: moves did not pay",
        |c| count(c.pauses),
    ),
    counter(
        "homing_huge_pages_split_total",
        "Huge pages split, since several nodes use them.",
        "huge pages were split, since several nodes use them",
        |c| count(c.huge_pages_split),
    ),
    counter(
        "homing_huge_pages_not_split_total",
        "Huge pages that the kernel would not split.",
        "huge pages that several nodes use could not be split (needs root and debugfs)",
        |c| count(c.huge_pages_not_split),
    ),
    counter(
        "homing_accesses_unmapped_total",
        "Accesses whose page was in no memory or in no mapping any more.",
        "samples were of pages that had gone",
        |c| count(c.unmapped),
    ),
    counter(
        "homing_accesses_outside_areas_total",
        "Accesses outside of the hot areas that their program has named.",
        "samples were outside of the hot areas that the program has named",
        |c| count(c.outside_areas),
    ),
    gauge(
        "homing_accesses_waiting",
        "Accesses that wait for the engine.",
        "samples were not processed: the engine was behind at the end",
        |c| count(c.unheard),
    ),
    counter(
        "homing_samples_lost_total",
        "Samples that the kernel dropped because a ring was full.",
        "samples were lost: a ring was full",
        |c| count(c.losses.lost),
    ),
    counter(
        "homing_throttled_total",
        "Times that the kernel throttled the event.",
        "times the kernel throttled the event",
        |c| count(c.losses.throttled),
    ),
    counter("homing_samples_malformed_total", "Records that made no sense.", "records made no sense", |c| {
        count(c.losses.malformed)
    }),
    counter(
        "homing_unwatched_total",
        "Threads and processes that could not be watched: no descriptors or no right.",
        "threads or processes could not be watched",
        |c| count(c.losses.unwatched),
    ),
    counter(
        "homing_scans_missed_total",
        "Scans for hint faults that the kernel did not make.",
        "scans for hint faults did not come",
        |c| count(c.losses.scans_missed),
    ),
    counter("homing_scans_total", "Scans for hint faults.", "", |c| count(c.scans.scans)),
    counter("homing_scan_seconds_total", "From the start of a scan until pages were marked.", "", |c| {
        one(c.scans.seconds)
    }),
    counter("homing_scan_stopped_seconds_total", "Time in which threads stood still for scans.", "", |c| {
        one(c.scans.stopped_seconds)
    }),
    counter(
        "homing_faults_before_scans_total",
        "Page faults before the first scan, which say who makes a page and are not processed.",
        "page faults came before the first scan and were not processed",
        |c| count(c.scans.faults_before),
    ),
    counter(
        "homing_threads_waiting_total",
        "Threads that slept at a scan and were left alone: no system call is interrupted.",
        "",
        |c| count(c.scans.threads_waiting),
    ),
    counter(
        "homing_pages_of_others_moved_total",
        "Pages of other processes that the kernel moved, since scans need its balancing on for moments.",
        "pages of other processes were moved by the kernel: scans turn its balancing on for moments",
        |c| count(c.scans.others_moved),
    ),
    counter(
        "homing_threads_late_total",
        "Threads that did not stop for a scan in time, or block the signals for that.",
        "times a thread did not stop for a scan in time, or blocked the signals for that",
        |c| count(c.scans.threads_late),
    ),
    gauge(
        "homing_processes_denied",
        "Processes left alone because this user may not trace them.",
        "processes were left alone: this user may not trace them",
        |c| count(c.denied),
    ),
    counter("homing_engine_cpu_seconds_total", "CPU time of the session and its helpers.", "", |c| {
        one(c.engine_cpu_seconds)
    }),
    by("phase", "homing_engine_cpu_by_phase_seconds_total", "That time by what it was used for.", |c| {
        c.engine_cpu_by_phase.clone()
    }),
    counter("homing_moving_seconds_total", "Time spent moving pages.", "", |c| one(c.moving_seconds)),
    counter("homing_stopped_seconds_total", "Time in which threads stood for moves.", "", |c| {
        one(c.stopped_seconds)
    }),
];

/// The numbers of the table over several sessions, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals(Vec<Values>);

impl Default for Totals {
    fn default() -> Totals {
        Totals(vec![Values::new(); COUNTERS.len()])
    }
}

impl Totals {
    /// These, and those of a session that runs or has ended.
    pub fn plus(&self, session: &Counts) -> Totals {
        let mut sum = self.clone();
        for (counter, values) in COUNTERS.iter().zip(&mut sum.0) {
            if counter.kind == Kind::Gauge {
                values.clear();
            }
            for (label, value) in (counter.get)(session) {
                *values.entry(label).or_default() += value;
            }
        }
        sum
    }

    /// These without what was so while a session ran.
    pub fn ended(&self) -> Totals {
        let keep = |(counter, values): (&Counter, &Values)| match counter.kind {
            Kind::Counter => values.clone(),
            Kind::Gauge => Values::new(),
        };
        Totals(COUNTERS.iter().zip(&self.0).map(keep).collect())
    }

    /// The numbers of that line of the table.
    pub fn of(&self, line: usize) -> &Values {
        &self.0[line]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// A value for each number in the JSON of `Counts`, one at a time.
    fn each_alone() -> Vec<(String, Counts)> {
        fn leaves(at: &str, value: &Value, found: &mut Vec<(String, Value)>) {
            match value {
                Value::Object(fields) if !fields.is_empty() => {
                    fields.iter().for_each(|(name, value)| leaves(&format!("{at}/{name}"), value, found));
                }
                Value::Object(_) => found.push((at.to_owned(), serde_json::json!({"what": 7}))),
                Value::Array(_) => found.push((at.to_owned(), serde_json::json!([[0, 1, 7]]))),
                _ => found.push((at.to_owned(), 7.into())),
            }
        }
        let empty = serde_json::to_value(Counts::default()).unwrap();
        let mut found = Vec::new();
        leaves("", &empty, &mut found);
        let put = |(at, value): (String, Value)| {
            let mut counts = empty.clone();
            *counts.pointer_mut(&at).unwrap() = value;
            (at, serde_json::from_value(counts).unwrap())
        };
        found.into_iter().map(put).collect()
    }

    #[test]
    fn every_field_has_a_line_in_the_table_of_its_own() {
        let all = each_alone();
        assert!(all.len() > 25, "{}", all.len());
        for (at, counts) in &all {
            let seven = |counter: &&Counter| (counter.get)(counts).values().sum::<f64>() == 7.0;
            let lines: Vec<&str> = COUNTERS.iter().filter(seven).map(|counter| counter.metric).collect();
            assert_eq!(lines.len(), 1, "{at}: {lines:?}");
        }
    }

    #[test]
    fn metrics_have_names_of_their_own_as_prometheus_wants_them_and_are_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/daemon.md");
        let page = std::fs::read_to_string(page).unwrap();
        let names: std::collections::BTreeSet<_> = COUNTERS.iter().map(|counter| counter.metric).collect();
        assert_eq!(names.len(), COUNTERS.len());
        for counter in COUNTERS {
            let name = counter.metric;
            assert_eq!(name.ends_with("_total"), counter.kind == Kind::Counter, "{name}");
            let label =
                if counter.label.is_empty() { String::new() } else { format!("{{{}}}", counter.label) };
            let row = format!("| `{name}{label}` | {} |\n", counter.help);
            assert!(page.contains(&row), "expected in docs/daemon.md, \"/metrics\":\n{row}");
        }
    }

    #[test]
    fn counters_grow_over_sessions_and_gauges_end_with_them() {
        let session = Counts {
            pages_moved: 5,
            left_waiting: 2,
            failures: BTreeMap::from([("EBUSY".to_owned(), 1)]),
            ..Counts::default()
        };
        let totals = Totals::default().plus(&session).plus(&session);
        let values = |totals: &Totals, metric: &str| {
            totals.of(COUNTERS.iter().position(|counter| counter.metric == metric).unwrap()).clone()
        };
        assert_eq!(values(&totals, "homing_pages_moved_total"), one(10.0));
        assert_eq!(values(&totals, "homing_moves_failed_total"), BTreeMap::from([("EBUSY".into(), 2.0)]));
        assert_eq!(values(&totals, "homing_moves_waiting"), one(2.0));
        assert_eq!(values(&totals.ended(), "homing_moves_waiting"), Values::new());
        assert_eq!(values(&totals.ended(), "homing_pages_moved_total"), one(10.0));
    }
}
