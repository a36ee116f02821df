//! How the guest's kernel is set.

use std::fmt;
use std::str::FromStr;

/// Where the kernel's settings of its NUMA balancing are.
const SCANS: &str = "/sys/kernel/debug/sched/numa_balancing";

/// The kernel's own NUMA balancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balancing {
    /// Off.
    Off,
    /// On, with its defaults.
    #[default]
    On,
    /// On, scanning ten times as fast.
    Fast,
}

/// Transparent huge pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Wherever they fit.
    #[default]
    Always,
    /// Where a program asks for them.
    Madvise,
    /// Nowhere.
    Never,
}

impl Balancing {
    /// All, with their names.
    pub const NAMES: [(&str, Balancing); 3] =
        [("off", Balancing::Off), ("on", Balancing::On), ("fast", Balancing::Fast)];
}

impl HugePages {
    /// All, as the kernel calls them.
    pub const NAMES: [(&str, HugePages); 3] =
        [("always", HugePages::Always), ("madvise", HugePages::Madvise), ("never", HugePages::Never)];

    /// As the kernel calls it.
    pub fn word(self) -> &'static str {
        HugePages::NAMES[self as usize].0
    }
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a name stands for.
fn named<T: Copy>(names: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    let all = || names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| format!("`{text}`: expected one of {}", all()))
}

impl FromStr for Balancing {
    type Err = String;

    fn from_str(text: &str) -> Result<Balancing, String> {
        named(&Balancing::NAMES, text)
    }
}

impl FromStr for HugePages {
    type Err = String;

    fn from_str(text: &str) -> Result<HugePages, String> {
        named(&HugePages::NAMES, text)
    }
}

/// How the guest's kernel is set.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    /// Its NUMA balancing.
    pub balancing: Balancing,
    /// Transparent huge pages.
    pub huge_pages: HugePages,
    /// Kernel variables, such as `vm.zone_reclaim_mode`, and their values.
    pub variables: Vec<(String, String)>,
    /// Further files of the guest's /proc or /sys, and what is written to them.
    pub files: Vec<(String, String)>,
}

impl Kernel {
    /// Files of the guest and what is written to them before the command starts.
    pub fn tunes(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> = Vec::new();
        let mut put = |file: &str, value: &str| all.push((file.to_owned(), value.to_owned()));
        // Whoever measures in the lab is root there and may see all.
        put("/proc/sys/kernel/perf_event_paranoid", "-1");
        put("/proc/sys/kernel/kptr_restrict", "0");
        put("/proc/sys/kernel/numa_balancing", if self.balancing == Balancing::Off { "0" } else { "1" });
        if self.balancing == Balancing::Fast {
            put(&format!("{SCANS}/scan_delay_ms"), "100");
            put(&format!("{SCANS}/scan_period_min_ms"), "100");
        }
        put("/sys/kernel/mm/transparent_hugepage/enabled", self.huge_pages.word());
        for (name, value) in &self.variables {
            put(&format!("/proc/sys/{}", name.replace('.', "/")), value);
        }
        all.extend(self.files.iter().cloned());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files() {
        for (name, pages) in HugePages::NAMES {
            assert_eq!((pages.word(), name.parse()), (name, Ok(pages)));
        }
        assert_eq!("fast".parse(), Ok(Balancing::Fast));
        assert!("slow".parse::<Balancing>().unwrap_err().contains("off, on, fast"));
        let kernel = Kernel {
            balancing: Balancing::Off,
            huge_pages: HugePages::Never,
            variables: vec![("vm.swappiness".into(), "7".into())],
            ..Kernel::default()
        };
        let tunes = kernel.tunes();
        let has = |file: &str, value: &str| tunes.contains(&(file.to_owned(), value.to_owned()));
        assert!(has("/proc/sys/kernel/numa_balancing", "0") && has("/proc/sys/vm/swappiness", "7"));
        assert!(has("/sys/kernel/mm/transparent_hugepage/enabled", "never"));
        assert!(!tunes.iter().any(|(file, _)| file.starts_with(SCANS)), "only `fast` sets how it scans");
    }
}
