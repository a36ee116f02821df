//! `struct homing_statistics`.

use homing_live::counters::Counts;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_same_fields_in_the_same_order() {
        let header = include_str!("../../../include/homing/runtime.h");
        let body = header.split("struct homing_statistics {").nth(1).unwrap().split("};").next().unwrap();
        let field = |line: &str| Some(line.split(';').next()?.split_whitespace().nth(1)?.to_owned());
        let declared: Vec<String> =
            body.lines().filter(|line| line.contains(';')).filter_map(field).collect();
        let ours = format!("{:?}", Statistics::default());
        let ours: Vec<&str> = ours
            .trim_start_matches("Statistics { ")
            .split(", ")
            .map(|f| f.split(':').next().unwrap())
            .collect();
        assert_eq!(declared, ours);
        assert_eq!(size_of::<Statistics>(), 8 * ours.len());
    }
}
