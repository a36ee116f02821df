//! Which hardware can sample memory accesses, from sysfs: PEBS load latency on Intel, IBS on AMD, SPE on Arm. The root
//! of /sys is an argument.

use super::Event;
use std::fs;
use std::path::Path;

/// A way to sample memory accesses in hardware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// Intel's load latency facility: every load that takes longer than a threshold can be sampled.
    Pebs {
        /// The event.
        event: Event,
        /// True where the kernel wants the auxiliary event as leader of a group (Sapphire Rapids).
        needs_auxiliary: bool,
    },
    /// AMD's instruction-based sampling of micro-operations, all of which are tagged, loads and stores or not.
    Ibs {
        /// The event.
        event: Event,
    },
    /// Arm's statistical profiling extension: writes its own packets to an auxiliary buffer.
    Spe {
        /// `type` of the PMU.
        pmu: u32,
    },
}

impl Hardware {
    /// Name in tables.
    pub fn name(&self) -> &'static str {
        match self {
            Hardware::Pebs { .. } => "pebs",
            Hardware::Ibs { .. } => "ibs",
            Hardware::Spe { .. } => "spe",
        }
    }
}

/// Loads faster than this many cycles are cache hits near the core and not sampled.
const LATENCY_THRESHOLD: u64 = 30;

/// The best that `sys` shows.
pub fn find(sys: &Path) -> Option<Hardware> {
    let devices = sys.join("bus/event_source/devices");
    intel(&devices).or_else(|| amd(&devices)).or_else(|| arm(&devices))
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn intel(devices: &Path) -> Option<Hardware> {
    for cpu in ["cpu", "cpu_core"].map(|name| devices.join(name)) {
        let Some(loads) = text(&cpu.join("events/mem-loads")) else { continue };
        let kind = text(&cpu.join("type"))?.parse().ok()?;
        let term = |name: &str| {
            let term = loads.split(',').find_map(|term| term.trim().strip_prefix(name)?.strip_prefix('='))?;
            let digits = term.trim_start_matches("0x");
            u64::from_str_radix(digits, if digits.len() < term.len() { 16 } else { 10 }).ok()
        };
        let config = term("event")? | term("umask").unwrap_or(0) << 8;
        let event = Event { kind, config, config1: LATENCY_THRESHOLD, precise: 2 };
        let needs_auxiliary = cpu.join("events/mem-loads-aux").exists();
        return Some(Hardware::Pebs { event, needs_auxiliary });
    }
    None
}

fn amd(devices: &Path) -> Option<Hardware> {
    let pmu = devices.join("ibs_op");
    let kind = text(&pmu.join("type"))?.parse().ok()?;
    // Count dispatched micro-operations rather than cycles where the format offers it: even weights for all threads.
    let counts_operations = text(&pmu.join("format/cnt_ctl")).is_some_and(|bit| bit == "config:19");
    let config = u64::from(counts_operations) << 19;
    Some(Hardware::Ibs { event: Event { kind, config, config1: 0, precise: 0 } })
}

fn arm(devices: &Path) -> Option<Hardware> {
    let entries = fs::read_dir(devices).ok()?;
    let mut spes: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("arm_spe"))
        .collect();
    spes.sort_by_key(|entry| entry.file_name());
    let pmu = text(&spes.first()?.path().join("type"))?.parse().ok()?;
    Some(Hardware::Spe { pmu })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = sys.path().join("bus/event_source/devices").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{content}\n")).unwrap();
        }
        sys
    }

    #[test]
    fn hardware_is_found_in_sysfs() {
        let event = |kind, config, config1, precise| Event { kind, config, config1, precise };
        let sys = snapshot(&[("cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"), ("cpu/type", "4")]);
        let pebs = Hardware::Pebs { event: event(4, 0x1cd, 30, 2), needs_auxiliary: false };
        assert_eq!(find(sys.path()), Some(pebs));
        let sys = snapshot(&[
            ("cpu_core/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3"),
            ("cpu_core/events/mem-loads-aux", "event=0x03,umask=0x82"),
            ("cpu_core/type", "4"),
        ]);
        assert!(matches!(find(sys.path()), Some(Hardware::Pebs { needs_auxiliary: true, .. })));
        let sys = snapshot(&[("ibs_op/type", "11"), ("ibs_op/format/cnt_ctl", "config:19")]);
        assert_eq!(find(sys.path()), Some(Hardware::Ibs { event: event(11, 1 << 19, 0, 0) }));
        let sys = snapshot(&[("arm_spe_0/type", "9")]);
        assert_eq!(find(sys.path()), Some(Hardware::Spe { pmu: 9 }));
        let sys = snapshot(&[("software/type", "1"), ("cpu/type", "4")]);
        assert_eq!(find(sys.path()), None);
    }
}
