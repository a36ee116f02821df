//! How values look in cells, in the page and in the table.

use homing_linux::visible;
use homing_live::observe::snapshot::{OnNode, ProcessRow, Snapshot};

/// Bytes in few characters: `512K`, `1.5M`, `23G`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64 / 1024.0;
    for unit in ["K", "M", "G", "T"] {
        if value < 9.95 && unit != "K" {
            return format!("{value:.1}{unit}");
        }
        if value < 999.5 || unit == "T" {
            return format!("{value:.0}{unit}");
        }
        value /= 1024.0;
    }
    unreachable!("the last unit takes everything")
}

/// A percentage, or `-` where it is not known.
pub fn percent(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.0}"))
}

/// A rate, or `-` where it is not known.
pub fn rate(value: Option<f64>) -> String {
    match value {
        None => "-".into(),
        Some(value) if value < 9.95 && value > 0.0 => format!("{value:.1}"),
        Some(value) if value < 9999.5 => format!("{value:.0}"),
        Some(value) => format!("{:.0}k", value / 1e3),
    }
}

/// Seconds in few characters.
pub fn age(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0}s"),
        s if s < 5970.0 => format!("{:.0}m", s / 60.0),
        s => format!("{:.0}h", s / 3600.0),
    }
}

/// The share of one node in percent, `.` for nothing.
pub fn share(on: &[OnNode], node: u32) -> String {
    let all: u64 = on.iter().map(|on| on.count).sum();
    match on.iter().find(|on| on.node == node).map_or(0, |on| on.count) {
        0 => ".".into(),
        count => match 100.0 * count as f64 / all as f64 {
            percent if percent < 0.5 => "<1".into(),
            percent => format!("{percent:.0}"),
        },
    }
}

/// A name in at most `width` characters, without its middle: the end tells regions of one file apart. It can be shown.
pub fn shortened(name: &str, width: usize) -> String {
    let name = visible::name(name);
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= width {
        return name.into_owned();
    }
    let end = width / 3;
    let begin = width - end - 2;
    letters[..begin].iter().chain(&['.', '.']).chain(&letters[letters.len() - end..]).collect()
}

/// The heading of residency.
pub const RESIDENCY: &str = "RESID%";

/// A process's residency, where its pages have been looked at.
pub fn residency(row: &ProcessRow) -> Option<f64> {
    row.pages.as_ref().and_then(|pages| pages.residency_percent)
}

/// How old what is known of a process's pages is, or why nothing is.
pub fn freshness(row: &ProcessRow) -> String {
    match &row.pages {
        _ if row.denied => "denied".into(),
        None => "waits".into(),
        Some(pages) if pages.age_seconds < 0.5 => "now".into(),
        Some(pages) => age(pages.age_seconds),
    }
}

/// The first lines: moves, what waits, what looking costs.
pub fn summary(snapshot: &Snapshot) -> String {
    let moves = &snapshot.moves;
    let denied = snapshot.processes.iter().filter(|row| row.denied).count();
    let nodes = snapshot.nodes.len();
    let mut text = format!(
        "{nodes} node{}, {} processes; pages moved {}/s (by the kernel's balancing {}/s, failed {}/s)",
        if nodes == 1 { "" } else { "s" },
        snapshot.processes.len(),
        rate(moves.moved_per_second),
        rate(moves.balanced_per_second),
        rate(moves.failed_per_second)
    );
    if snapshot.waiting > 0 {
        text += &format!("; {} not looked at yet", snapshot.waiting);
    }
    if denied > 0 {
        text += &format!("; {denied} whose pages this user may not see");
    }
    text
}

/// What a machine of one node is told.
pub fn one_node() -> String {
    crate::cmd::live::one_node("homing top --once")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_short() {
        let sizes = [0, 4096, 1 << 20, 1_572_864, 10 << 20, 999 << 20, 1 << 40, u64::MAX];
        let texts = sizes.map(size);
        assert_eq!(texts[..6], ["0K", "4K", "1.0M", "1.5M", "10M", "999M"]);
        assert!(texts[6] == "1.0T" && texts[7].ends_with('T'));
        assert_eq!(
            [rate(None), rate(Some(0.0)), rate(Some(0.26)), rate(Some(123_456.0))],
            ["-", "0", "0.3", "123k"]
        );
        assert_eq!([age(3.0), age(120.0), age(90_000.0)], ["3s", "2m", "25h"]);
        assert_eq!(shortened("libLLVM.so.22.1-rust#12", 12), "libLLV..t#12");
        assert_eq!(shortened("heap#0", 6), "heap#0");
        let on = [OnNode { node: 0, count: 1 }, OnNode { node: 2, count: 999 }];
        assert_eq!([share(&on, 0), share(&on, 1), share(&on, 2)], ["<1", ".", "100"]);
    }
}
