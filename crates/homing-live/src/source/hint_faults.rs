//! Hint faults without kernel migration, for any process that may be traced (`homing_linux::hint_faults` says how).

use super::rings::Rings;
use super::{Access, Losses, Places, Source, FAULTS};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_linux::hint_faults::scanner::{Pass, Scanner};
use homing_linux::hint_faults::{switch_policy, Window};
use homing_linux::perf::Event;
use homing_linux::policy;
use homing_linux::proc::{Pid, Tid};
use homing_linux::ptrace::{hold_all, Held};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Time between scans while something changes, and the longest when nothing does.
const BUSY: Duration = Duration::from_millis(400);
const CALM: Duration = Duration::from_secs(8);
/// ... and at least this many times as long as the last one took.
const REST: u32 = 3;

/// Longest wait for the passes of all processes, made or at work. They take 20 to 40 ms of CPU time.
const PATIENCE: Duration = Duration::from_millis(400);
const NAP: Duration = Duration::from_millis(1);

/// Scanning helpers, and the rings that see the faults.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    scanners: BTreeMap<Pid, Scanner>,
    cpus: Vec<u32>,
    pace: Duration,
    scanned: Instant,
    rest: Duration,
    refused: u64,
    /// Scans that the kernel did not make.
    missed: u64,
    /// Last, so that the kernel is back as it was after everything else is gone.
    window: Window,
}

impl HintFaults {
    /// Changes the tunables.
    ///
    /// # Errors
    /// If one may not be changed.
    pub fn open(places: &Places, host: &Host) -> io::Result<HintFaults> {
        let window = Window::new(&places.hint_faults, &places.state)?;
        // What is scanned takes faults; the engine needs none. A kernel that balances knows the policy.
        policy::set(policy::LOCAL, &[])?;
        Ok(HintFaults {
            rings: Rings::new(Event::PAGE_FAULTS, FAULTS, host),
            scanners: BTreeMap::new(),
            cpus: host.cpus(),
            refused: 0,
            missed: 0,
            pace: BUSY,
            scanned: Instant::now(),
            rest: Duration::ZERO,
            window,
        })
    }

    fn begin(&mut self, targets: &Targets, pid: Pid) -> io::Result<()> {
        let scanner = Scanner::start(targets.proc(), pid)?;
        switch_policy(targets.proc(), pid, policy::DEFAULT, policy::LOCAL, scanner.scratch())?;
        // It inherited the CPUs of the first thread, which may be bound to one. At worst it stays there.
        let _ = scanner.spread(&self.cpus);
        self.scanners.insert(pid, scanner);
        Ok(())
    }

    /// One scan of all processes, whose threads stand still while pages are marked. A process that ended meanwhile is noticed at
    /// the next look.
    fn scan(&mut self, targets: &Targets) -> io::Result<()> {
        let mut at_work: Vec<(&Pid, &mut Scanner)> = self
            .scanners
            .iter_mut()
            .filter_map(|(pid, scanner)| scanner.begin_pass().is_ok().then_some((pid, scanner)))
            .collect();
        wait(|| at_work.iter().all(|(_, scanner)| !matches!(scanner.ready(), Ok(false))));
        let held: Vec<Held> =
            at_work.iter().flat_map(|(&pid, _)| hold_all(targets.proc(), pid).unwrap_or_default()).collect();
        self.window.open()?;
        at_work.retain_mut(|(_, scanner)| scanner.go().is_ok());
        wait(|| at_work.iter().all(|(_, scanner)| !matches!(scanner.passed(), Ok(None))));
        self.window.close()?;
        drop(held);
        let marked = at_work.iter().filter(|(_, scanner)| matches!(scanner.passed(), Ok(Some(Pass::Marked))));
        self.missed += (at_work.len() - marked.count()) as u64;
        Ok(())
    }
}

/// Waits until `done`, or for [`PATIENCE`].
fn wait(mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() && begin.elapsed() < PATIENCE {
        std::thread::sleep(NAP);
    }
}

impl Source for HintFaults {
    fn follow(&mut self, targets: &Targets, changes: &Changes) -> io::Result<()> {
        for pid in &changes.ended {
            self.scanners.remove(pid);
        }
        for &pid in changes.begun.iter().filter(|pid| targets.contains(**pid)) {
            if let Err(error) = self.begin(targets, pid) {
                if targets.proc().stat(pid, Tid(pid.0)).is_ok() {
                    eprintln!("homing: process {pid}: no hint faults: {error}");
                    self.refused += 1;
                }
            }
        }
        // A process whose threads of its own have all ended must be able to end.
        let idle = |pid: &Pid| targets.processes().get(pid).is_none_or(|process| process.tasks.is_empty());
        self.scanners.retain(|pid, _| !idle(pid));
        self.rings.follow(targets, changes)?;
        if self.scanned.elapsed() < self.pace.max(self.rest) {
            // A process that ended is noticed at the next look.
            self.scanners.values_mut().for_each(|scanner| drop(scanner.beat()));
            return Ok(());
        }
        let begin = Instant::now();
        if !self.scanners.is_empty() {
            self.scan(targets)?;
        }
        self.scanned = Instant::now();
        self.rest = begin.elapsed() * REST;
        Ok(())
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
        losses.scans_missed = self.missed;
        losses
    }

    fn end(&mut self, targets: &Targets) {
        for (pid, scanner) in std::mem::take(&mut self.scanners) {
            // A process that has ended meanwhile has nothing to be undone.
            let proc = targets.proc();
            let restored = switch_policy(proc, pid, policy::LOCAL, policy::DEFAULT, scanner.scratch());
            if let Err(error) = restored.and_then(|_| scanner.end(proc)) {
                if targets.proc().stat(pid, Tid(pid.0)).is_ok() {
                    eprintln!("homing: process {pid}: memory policies could not be restored: {error}");
                }
            }
        }
    }
}
