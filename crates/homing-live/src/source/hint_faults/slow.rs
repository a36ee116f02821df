//! Processes whose helpers kept scans waiting until the time was over: their programs can stop them.

use homing_linux::errln;
use homing_linux::proc::Pid;
use std::collections::BTreeMap;

/// How often each did.
#[derive(Debug, Default)]
pub(super) struct Slow(BTreeMap<Pid, u32>);

impl Slow {
    /// Those of these processes that a scan waits for: not those that made one time out, as long as there are
    /// others. Who is not waited for takes part in the scans for which it is ready.
    pub(super) fn waited_for(&self, pids: impl IntoIterator<Item = Pid>) -> Vec<Pid> {
        let (slow, others): (Vec<Pid>, Vec<Pid>) = pids.into_iter().partition(|pid| self.0.contains_key(pid));
        if others.is_empty() {
            slow
        } else {
            others
        }
    }

    /// A scan timed out waiting for these to do that.
    pub(super) fn add(&mut self, pids: &[Pid], what: &str) {
        for pid in pids {
            let times = self.0.entry(*pid).or_default();
            *times += 1;
            if *times == 1 {
                errln!("homing: process {pid}: the scanning helper does not {what}: scans of others go on without");
            }
        }
    }

    /// A process has ended.
    pub(super) fn forget(&mut self, pid: Pid) {
        self.0.remove(&pid);
    }

    /// How often a process kept scans waiting.
    #[cfg(test)]
    pub(super) fn times(&self, pid: Pid) -> u32 {
        self.0.get(&pid).copied().unwrap_or_default()
    }
}
