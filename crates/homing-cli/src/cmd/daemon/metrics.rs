//! The text of `/metrics`, in Prometheus's exposition format.

use super::scope::{State, Status};
use homing_linux::clock;
use homing_live::counters::{Kind, COUNTERS};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A gauge of a scope: its name, what it is, and its value.
type Gauge = (&'static str, &'static str, fn(&Status) -> u64);

/// What the daemon itself counts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Own {
    /// Reloads that took effect.
    pub reloads: u64,
    /// Reloads that were refused.
    pub refused_reloads: u64,
    /// Connections to `/metrics` that were closed because they took too long.
    pub late_connections: u64,
    /// ... because there were too many.
    pub crowding_connections: u64,
}

/// The page.
pub fn page(scopes: &BTreeMap<String, Status>, own: Own) -> String {
    let mut page = Page(String::new());
    page.family("homing_build_info", "gauge", "The version of homing.");
    page.value("homing_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.family("homing_reloads_total", "counter", "Reloads of the configuration.");
    page.value("homing_reloads_total", &[("result", "done")], own.reloads as f64);
    page.value("homing_reloads_total", &[("result", "refused")], own.refused_reloads as f64);
    page.family(
        "homing_metrics_closed_total",
        "counter",
        "Connections to /metrics closed without an answer.",
    );
    page.value("homing_metrics_closed_total", &[("reason", "late")], own.late_connections as f64);
    page.value("homing_metrics_closed_total", &[("reason", "crowded")], own.crowding_connections as f64);
    page.family("homing_cpu_seconds_total", "counter", "CPU time of the daemon.");
    page.value("homing_cpu_seconds_total", &[], clock::cpu_time().as_secs_f64());
    gauges(&mut page, scopes);
    counters(&mut page, scopes);
    page.0
}

fn gauges(page: &mut Page, scopes: &BTreeMap<String, Status>) {
    page.family(
        "homing_scope_running",
        "gauge",
        "1 while the scope's session runs, 0 while it waits or has failed.",
    );
    for (scope, status) in scopes {
        let (running, source) = match status.state {
            State::Running(source) => (1.0, source),
            _ => (0.0, ""),
        };
        page.value("homing_scope_running", &[("scope", scope), ("source", source)], running);
    }
    let gauges: [Gauge; 3] = [
        ("homing_processes", "Processes of the scope.", |status| status.processes),
        ("homing_threads", "Threads of the scope's processes.", |status| status.threads),
        ("homing_pages", "Pages that the scope's session knows.", |status| status.pages),
    ];
    for (name, help, value) in gauges {
        page.family(name, "gauge", help);
        for (scope, status) in scopes {
            page.value(name, &[("scope", scope)], value(status) as f64);
        }
    }
}

fn counters(page: &mut Page, scopes: &BTreeMap<String, Status>) {
    page.family("homing_sessions_total", "counter", "Sessions begun.");
    for (scope, status) in scopes {
        page.value("homing_sessions_total", &[("scope", scope)], status.sessions as f64);
    }
    for (index, counter) in COUNTERS.iter().enumerate() {
        let kind = match counter.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        page.family(counter.metric, kind, counter.help);
        for (scope, status) in scopes {
            for (label, value) in status.totals.of(index) {
                match counter.label {
                    "" => page.value(counter.metric, &[("scope", scope)], *value),
                    name => page.value(counter.metric, &[("scope", scope), (name, label)], *value),
                }
            }
        }
    }
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail, here and below.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn value(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", escaped(text))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_live::counters::{Counts, Totals};
    use std::time::Instant;

    #[test]
    fn families_are_described_once_and_labels_escaped() {
        let counts = Counts {
            samples_local: 3,
            pages_moved: 7,
            failures: BTreeMap::from([("EBUSY".to_owned(), 2)]),
            ..Counts::default()
        };
        let status = Status {
            state: State::Running("none"),
            sessions: 2,
            totals: Totals::default().plus(&counts),
            processes: 4,
            threads: 9,
            pages: 1,
            alive: Instant::now(),
        };
        let scopes = BTreeMap::from([("a\"b".to_owned(), status.clone()), ("web".to_owned(), status)]);
        let page = page(
            &scopes,
            Own { reloads: 2, refused_reloads: 1, late_connections: 5, crowding_connections: 6 },
        );
        for line in [
            "homing_pages_moved_total{scope=\"web\"} 7",
            "homing_accesses_total{scope=\"a\\\"b\",to=\"local\"} 3",
            "homing_moves_failed_total{scope=\"web\",error=\"EBUSY\"} 2",
            "homing_scope_running{scope=\"web\",source=\"none\"} 1",
            "homing_sessions_total{scope=\"web\"} 2",
            "homing_threads_late_total{scope=\"web\"} 0",
            "homing_reloads_total{result=\"refused\"} 1",
            "homing_metrics_closed_total{reason=\"late\"} 5",
            "homing_metrics_closed_total{reason=\"crowded\"} 6",
            "homing_threads{scope=\"web\"} 9",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        let mut families: Vec<&str> = page.lines().filter(|line| line.starts_with("# TYPE")).collect();
        let all = families.len();
        families.dedup();
        assert_eq!(families.len(), all);
        assert!(page.ends_with('\n'));
    }
}
