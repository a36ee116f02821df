//! What the kernel has counted of moves and hint faults since it was started: `/proc/vmstat`.

/// Counters; `None` where the kernel is built without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmStat {
    /// Pages that moved, whoever asked: balancing, `move_pages`, compaction, memory hot-unplug.
    pub moved: Option<u64>,
    /// Pages that did not move when somebody asked.
    pub failed: Option<u64>,
    /// Pages that the kernel's NUMA balancing moved.
    pub balanced: Option<u64>,
    /// Hint faults of the kernel's NUMA balancing.
    pub hint_faults: Option<u64>,
    /// ... those by a CPU of the page's own node.
    pub hint_faults_local: Option<u64>,
}

impl VmStat {
    /// Parses the file.
    pub fn parse(text: &str) -> VmStat {
        let mut stat = VmStat::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let counter = match name {
                "pgmigrate_success" => &mut stat.moved,
                "pgmigrate_fail" => &mut stat.failed,
                "numa_pages_migrated" => &mut stat.balanced,
                "numa_hint_faults" => &mut stat.hint_faults,
                "numa_hint_faults_local" => &mut stat.hint_faults_local,
                _ => continue,
            };
            *counter = value.trim().parse().ok();
        }
        stat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_are_not_there_are_none() {
        let stat = VmStat::parse("nr_free_pages 7\nnuma_pages_migrated 3\npgmigrate_success 12\n");
        assert_eq!((stat.moved, stat.balanced, stat.hint_faults), (Some(12), Some(3), None));
        assert_eq!(VmStat::parse(""), VmStat::default());
    }
}
