//! `struct homing_statistics`.

use homing_live::counters::Counts;
use homing_session::hot::{AreaCounts, IterationCounts};
use std::collections::BTreeMap;

/// What the manager has seen and done: the fields of the header, in its order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub size: usize,
    pub samples_local: u64,
    pub samples_remote: u64,
    pub samples_outside: u64,
    pub samples_lost: u64,
    pub pages: u64,
    pub pages_moved: u64,
    pub bytes_moved: u64,
    pub moves_failed: u64,
    pub scans: u64,
    pub scans_missed: u64,
    pub iterations: u64,
    pub phases: u64,
    pub marks_lost: u64,
    pub areas: u64,
    pub manager_ns: u64,
}

impl Statistics {
    /// Takes what the engine counts, with its `pages`. What the program says is counted elsewhere.
    pub fn take(&mut self, counts: &Counts, pages: usize) {
        self.samples_local = counts.samples_local;
        self.samples_remote = counts.samples_remote;
        self.samples_outside = counts.outside_areas;
        self.samples_lost = counts.losses.lost;
        self.pages = pages as u64;
        self.pages_moved = counts.pages_moved;
        self.bytes_moved = counts.bytes_moved;
        self.moves_failed = counts.failures.values().sum();
        self.scans = counts.scans.scans;
        self.scans_missed = counts.losses.scans_missed;
        self.manager_ns = (counts.engine_cpu_seconds * 1e9) as u64;
    }
}

/// What the manager has counted by area and by iteration.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    /// Most pages of the process that were in memory.
    pub resident_pages: u64,
    /// Threads that moved and stayed, and pages that were sent after them whatever the policy.
    pub threads_moved: u64,
    pub forwarded: u64,
    pub areas: Vec<AreaCounts>,
    /// Filled when the manager ends: seconds of its CPU time by what they were used for.
    pub by_phase: BTreeMap<String, f64>,
    /// Filled when the manager ends.
    pub by_iteration: Vec<IterationCounts>,
}

/// `struct homing_area_statistics`: the fields of the header, in its order.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaStatistics {
    pub size: usize,
    pub samples_local: u64,
    pub samples_remote: u64,
    pub pages: u64,
    pub pages_eligible: u64,
    pub pages_migrated: u64,
    pub pages_frozen: u64,
    pub moves: u64,
}

impl From<&AreaCounts> for AreaStatistics {
    fn from(counts: &AreaCounts) -> AreaStatistics {
        AreaStatistics {
            size: size_of::<AreaStatistics>(),
            samples_local: counts.local,
            samples_remote: counts.remote,
            pages: counts.pages,
            pages_eligible: counts.eligible,
            pages_migrated: counts.migrated,
            pages_frozen: counts.frozen,
            moves: counts.moves,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields that the header declares for a structure.
    fn declared(name: &str) -> Vec<String> {
        let header = include_str!("../../../include/homing/runtime.h");
        let body = header.split(&format!("struct {name} {{")).nth(1).unwrap().split("};").next().unwrap();
        let field = |line: &str| Some(line.split(';').next()?.split_whitespace().nth(1)?.to_owned());
        body.lines().filter(|line| line.contains(';')).filter_map(field).collect()
    }

    /// The fields of ours, of which each has eight bytes.
    fn ours<T: std::fmt::Debug>(value: &T) -> Vec<String> {
        let text = format!("{value:?}");
        let fields = text.split_once(" { ").unwrap().1.split(", ");
        let fields: Vec<String> = fields.map(|f| f.split(':').next().unwrap().to_owned()).collect();
        assert_eq!(size_of::<T>(), 8 * fields.len());
        fields
    }

    #[test]
    fn the_header_has_the_same_fields_in_the_same_order() {
        assert_eq!(declared("homing_statistics"), ours(&Statistics::default()));
        assert_eq!(declared("homing_area_statistics"), ours(&AreaStatistics::default()));
    }
}
