//! Hint faults without kernel migration, for any process that may be traced (`homing_linux::hint_faults` says how).

use super::rings::Rings;
use super::{Access, Losses, Places, Source, FAULTS};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_linux::hint_faults::scanner::Scanner;
use homing_linux::hint_faults::{prepare, switch_policy};
use homing_linux::perf::Event;
use homing_linux::policy;
use homing_linux::proc::Pid;
use homing_linux::tunables::Tunables;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Time between scans while something changes, and the longest when nothing does: a scan costs 38 ms of CPU time.
const BUSY: Duration = Duration::from_millis(250);
const CALM: Duration = Duration::from_secs(4);

/// Memory that one scan covers, in MiB. Scans of the other threads, which mark nothing, begin anew at the first mapping,
/// so one scan should reach the end.
const SCAN_MB: u64 = 4096;

/// Scanning threads, and the rings that see the faults.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    scanners: BTreeMap<Pid, Scanner>,
    cpus: Vec<u32>,
    refused: u64,
    pace: Duration,
    scanned: Instant,
    /// Last, so that the kernel is back as it was after everything else is gone.
    _tunables: Tunables,
}

impl HintFaults {
    /// Changes the tunables.
    ///
    /// # Errors
    /// If one may not be changed.
    pub fn open(places: &Places, host: &Host) -> io::Result<HintFaults> {
        let tunables = prepare(&places.hint_faults, &places.state, SCAN_MB)?;
        let rings = Rings::new(Event::PAGE_FAULTS, FAULTS, host);
        Ok(HintFaults {
            rings,
            scanners: BTreeMap::new(),
            cpus: host.cpus(),
            refused: 0,
            pace: BUSY,
            scanned: Instant::now(),
            _tunables: tunables,
        })
    }

    fn begin(&mut self, targets: &Targets, pid: Pid) -> io::Result<()> {
        let scanner = Scanner::start(targets.proc(), pid)?;
        switch_policy(targets.proc(), pid, policy::DEFAULT, policy::LOCAL, scanner.scratch())?;
        // It inherited the CPUs of the first thread, which may be bound to one.
        if let Err(error) = scanner.spread(&self.cpus) {
            drop(error);
        }
        self.scanners.insert(pid, scanner);
        Ok(())
    }
}

impl Source for HintFaults {
    fn follow(&mut self, targets: &Targets, changes: &Changes) -> io::Result<()> {
        for pid in &changes.ended {
            self.scanners.remove(pid);
        }
        for &pid in changes.begun.iter().filter(|pid| targets.contains(**pid)) {
            match self.begin(targets, pid) {
                Ok(()) => {}
                Err(error) => {
                    eprintln!("homing: process {pid}: no hint faults: {error}");
                    self.refused += 1;
                }
            }
        }
        // A process whose threads of its own have all ended must be able to end.
        let idle = |pid: &Pid| targets.processes().get(pid).is_none_or(|process| process.tasks.is_empty());
        self.scanners.retain(|pid, _| !idle(pid));
        let due = self.scanned.elapsed() >= self.pace;
        if due {
            self.scanned = Instant::now();
        }
        for scanner in self.scanners.values_mut() {
            // A process that ended is noticed at the next look.
            let result = if due { scanner.scan() } else { scanner.beat() };
            if let Err(error) = result {
                drop(error);
            }
        }
        self.rings.follow(targets, changes)
    }

    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>) {
        self.rings.poll(targets, host, accesses);
    }

    fn pace(&mut self, calm: bool) {
        self.pace = if calm { (self.pace * 2).min(CALM) } else { BUSY };
    }

    fn losses(&self) -> Losses {
        let mut losses = self.rings.losses();
        losses.unwatched += self.refused;
        losses
    }

    fn end(&mut self, targets: &Targets) {
        for (pid, scanner) in std::mem::take(&mut self.scanners) {
            // A process that has ended meanwhile has nothing to be undone.
            let proc = targets.proc();
            let restored = switch_policy(proc, pid, policy::LOCAL, policy::DEFAULT, scanner.scratch());
            if let Err(error) = restored.and_then(|_| scanner.end(proc)) {
                if error.raw_os_error() != Some(3) {
                    eprintln!("homing: process {pid}: memory policies could not be restored: {error}");
                }
            }
        }
    }
}
