//! The table of CPU managers. `homing sched managers`, `--managers`, the documents and the registry tests derive from
//! it.

use super::{batch, equipartition, gang, homing, irix, pdpa, Manager};

/// What all managers are told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Jobs that may run at the same time; where the level follows the load, the number that may always.
    pub level: usize,
    /// Efficiency that PDPA wants of a job's processors.
    pub target_efficiency: f64,
}

impl Default for Settings {
    /// Those of Corbalan 2003, sections 5 and 6.1.
    fn default() -> Settings {
        Settings { level: 4, target_efficiency: 0.7 }
    }
}

/// One manager.
pub struct Entry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// Paper and section, or what else it follows.
    pub source: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// The operating system moves its jobs' threads over all CPUs.
    pub time_shares: bool,
    /// Makes one.
    pub build: fn(Settings) -> Box<dyn Manager>,
}

/// All managers, in the order in which tables show them.
pub const MANAGERS: &[Entry] =
    &[irix::ENTRY, equipartition::ENTRY, pdpa::ENTRY, gang::ENTRY, batch::ENTRY, homing::ENTRY];

/// The manager of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    MANAGERS.iter().find(|entry| entry.name == name)
}
