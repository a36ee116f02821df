//! What was counted by hot area and by iteration, for people: Nikolopoulos 2000, Table 1 and Figure 3.

use crate::tables::{plain, table, things};
use comfy_table::Table;
use homing_linux::visible;
use homing_session::hot::{moved_in_two, AreaCounts, IterationCounts};
use serde::Deserialize;

/// Areas that are shown, those with most accesses first.
const AREAS: usize = 12;
/// Areas whose remote accesses are shown by iteration, and ranges of iterations.
const ARRAYS: usize = 4;
const RANGES: usize = 8;

/// The counts of a session.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Hot {
    /// Most pages that were in memory.
    pub resident_pages: u64,
    /// By area.
    pub areas: Vec<AreaCounts>,
    /// When iterations ended.
    pub by_iteration: Vec<IterationCounts>,
}

const PAGE: u64 = 4096;

fn pages_of(area: &AreaCounts) -> u64 {
    (area.start + area.bytes).div_ceil(PAGE) - area.start / PAGE
}

impl Hot {
    /// As lines; none where nothing was seen.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.areas.is_empty() {
            return lines;
        }
        lines.push(self.sums());
        lines.extend(self.table());
        lines.extend(self.ranges());
        lines
    }

    /// Table 1.
    fn sums(&self) -> String {
        let sum = |of: fn(&AreaCounts) -> u64| self.areas.iter().map(of).sum::<u64>();
        let (eligible, migrated, frozen) = (sum(|a| a.eligible), sum(|a| a.migrated), sum(|a| a.frozen));
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let named = self.areas.iter().filter(|area| area.bytes > 0).map(pages_of).sum::<u64>();
        let hot = if named > 0 { format!(", {named} in hot areas") } else { String::new() };
        let two = moved_in_two(&self.by_iteration, &self.areas).map_or(String::new(), |(moves, all)| {
            format!("; {:.0} % of all moves in the first two iterations", percent(moves, all))
        });
        format!(
            "{} in memory{hot}; {migrated} of {eligible} eligible pages moved ({:.0} %), {frozen} frozen{two}",
            things(self.resident_pages, "page"),
            percent(migrated, eligible),
        )
    }

    /// The areas with most accesses.
    fn table(&self) -> Vec<String> {
        let mut areas: Vec<&AreaCounts> = self.areas.iter().collect();
        areas.sort_by_key(|area| std::cmp::Reverse(area.local + area.remote));
        let left_out = areas.len().saturating_sub(AREAS);
        let mut table = table(&["area", "pages", "seen", "eligible", "moved", "frozen", "local", "remote"]);
        for area in areas.into_iter().take(AREAS) {
            let pages = if area.bytes > 0 { pages_of(area).to_string() } else { "-".into() };
            let counts = [area.pages, area.eligible, area.migrated, area.frozen, area.local, area.remote];
            table.add_row([name(area), pages].into_iter().chain(counts.map(|count| count.to_string())));
        }
        let mut lines = indented(&table);
        if left_out > 0 {
            lines.push(format!("  ... and {}", things(left_out as u64, "area")));
        }
        lines
    }

    /// Figure 3: remote accesses by range of iterations, of the areas with most of them and of all.
    fn ranges(&self) -> Vec<String> {
        let step = self.by_iteration.len().div_ceil(RANGES).max(1);
        let ends: Vec<&IterationCounts> = self.by_iteration.chunks(step).filter_map(<[_]>::last).collect();
        if ends.is_empty() {
            return Vec::new();
        }
        let mut header = vec!["remote by iterations".to_owned()];
        let firsts = std::iter::once(1).chain(ends.iter().map(|end| end.iteration + 1));
        header.extend(firsts.zip(&ends).map(|(first, end)| match end.iteration == first {
            true => first.to_string(),
            false => format!("{first}-{}", end.iteration),
        }));
        let mut table = plain(&header);
        let mut order: Vec<usize> = (0..self.areas.len()).collect();
        order.sort_by_key(|&area| std::cmp::Reverse(self.areas[area].remote));
        for area in order.into_iter().take(ARRAYS).filter(|_| self.areas.len() > 1) {
            let remote = |end: &IterationCounts| end.remote_by_area.get(area).copied().unwrap_or(0);
            table.add_row(grown(name(&self.areas[area]), ends.iter().map(|end| remote(end))));
        }
        table.add_row(grown("all".into(), ends.iter().map(|end| end.remote)));
        indented(&table)
    }
}

/// A row of how much a count grew from one end to the next.
fn grown(name: String, counts: impl Iterator<Item = u64>) -> Vec<String> {
    let mut before = 0;
    let grown = counts.map(|count| (count - std::mem::replace(&mut before, count)).to_string());
    std::iter::once(name).chain(grown).collect()
}

fn indented(table: &Table) -> Vec<String> {
    table.to_string().lines().map(|line| format!(" {}", line.trim_end())).collect()
}

fn name(area: &AreaCounts) -> String {
    let stays = if area.stays { " (stays)" } else { "" };
    match area.name.as_str() {
        "" if area.bytes == 0 => "all memory".into(),
        "" => format!("{:#x}{stays}", area.start),
        name => format!("{}{stays}", visible::name(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_1_and_figure_3_are_told() {
        let area = |name: &str, start, eligible, migrated| AreaCounts {
            name: name.into(),
            start,
            bytes: 8 * PAGE,
            local: 10,
            remote: eligible,
            pages: 8,
            eligible,
            migrated,
            frozen: 1,
            moves: migrated,
            ..AreaCounts::default()
        };
        let at = |iteration, remote, moves| IterationCounts {
            iteration,
            remote,
            moves,
            local: 0,
            remote_by_area: vec![remote - 1, 1],
        };
        let hot = Hot {
            resident_pages: 100,
            areas: vec![area("u", 0x1000, 4, 3), area("rhs", 0x80_0800, 6, 5)],
            by_iteration: vec![at(1, 7, 2), at(2, 9, 6), at(30, 10, 8)],
        };
        let text = hot.lines().join("\n");
        let sums =
            "100 pages in memory, 17 in hot areas; 8 of 10 eligible pages moved (80 %), 2 frozen; 75 % of all moves";
        assert!(text.starts_with(sums), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(rows.contains(&vec!["u", "8", "8", "4", "3", "1", "10", "4"]), "{text}");
        assert!(rows.contains(&vec!["rhs", "9", "8", "6", "5", "1", "10", "6"]), "{text}");
        assert!(rows.contains(&vec!["remote", "by", "iterations", "1", "2", "3-30"]), "{text}");
        assert!(
            rows.contains(&vec!["u", "6", "2", "1"]) && rows.contains(&vec!["all", "7", "2", "1"]),
            "{text}"
        );
        assert!(Hot::default().lines().is_empty());
    }
}
