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
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Time between scans while something changes, and the longest when nothing does.
const BUSY: Duration = Duration::from_millis(400);
const CALM: Duration = Duration::from_secs(8);
/// ... and at least this many times as long as the last one took.
const REST: u32 = 3;

/// Longest wait for the passes of all processes, made or at work. They take 20 to 40 ms of CPU time.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often it is asked whether passes are ready.
const ASK: Duration = Duration::from_millis(12);
/// ... and, while the program stands still, whether they have passed.
const NAP: Duration = Duration::from_millis(1);
/// Helpers end by themselves when they hear nothing for ten seconds.
const BEAT: Duration = Duration::from_secs(2);

/// What the helpers are at.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing, until then.
    Resting(Instant),
    /// Their passes count since then, and are asked whether they are ready.
    Counting(Instant),
}

/// Scanning helpers, and the rings that see the faults.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    scanners: BTreeMap<Pid, Scanner>,
    cpus: Vec<u32>,
    pace: Duration,
    stage: Stage,
    beaten: Instant,
    /// CPU time of the helpers when last asked, those that have ended among them.
    used: BTreeMap<Pid, Duration>,
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
            stage: Stage::Resting(Instant::now() + BUSY),
            beaten: Instant::now(),
            used: BTreeMap::new(),
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

    /// Begins a pass in each process. One that ended meanwhile is noticed at the next look.
    fn begin_passes(&mut self) {
        self.scanners.values_mut().for_each(|scanner| drop(scanner.begin_pass()));
        self.stage = Stage::Counting(Instant::now());
    }

    /// Lets the passes mark pages, while the programs' threads stand still.
    fn mark(&mut self, targets: &Targets) -> io::Result<()> {
        let hold = |&pid: &Pid| hold_all(targets.proc(), pid).unwrap_or_default();
        let held: Vec<Held> = self.scanners.keys().flat_map(hold).collect();
        self.window.open()?;
        let mut at_work: Vec<(&Pid, &mut Scanner)> = self.scanners.iter_mut().collect();
        at_work.retain_mut(|(_, scanner)| scanner.go().is_ok());
        wait(|| at_work.iter().all(|(_, scanner)| !matches!(scanner.passed(), Ok(None))));
        self.window.close()?;
        drop(held);
        for (pid, scanner) in at_work {
            self.missed += u64::from(!matches!(scanner.passed(), Ok(Some(Pass::Marked))));
            self.used.extend(scanner.cpu_time(targets.proc()).map(|used| (*pid, used)));
        }
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
        Ok(())
    }

    fn work(&mut self, targets: &Targets) -> io::Result<()> {
        match self.stage {
            Stage::Resting(until) if self.scanners.is_empty() => {
                self.stage = Stage::Resting(until.max(Instant::now() + BUSY));
            }
            Stage::Resting(until) if Instant::now() >= until => self.begin_passes(),
            Stage::Resting(_) => self.scanners.values_mut().for_each(|scanner| drop(scanner.beat())),
            Stage::Counting(since) => {
                let waits = self.scanners.values().any(|scanner| matches!(scanner.ready(), Ok(false)));
                if !waits || since.elapsed() >= PATIENCE {
                    self.mark(targets)?;
                    let rest = self.pace.max(since.elapsed() * REST);
                    self.stage = Stage::Resting(Instant::now() + rest);
                }
            }
        }
        self.beaten = Instant::now();
        Ok(())
    }

    fn due(&self) -> Option<Instant> {
        Some(match self.stage {
            Stage::Resting(until) => until.min(self.beaten + BEAT),
            Stage::Counting(_) => self.beaten + ASK,
        })
    }

    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        self.rings.wakers()
    }

    fn helpers_cpu(&self) -> Duration {
        self.used.values().sum()
    }

    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>) {
        self.rings.poll(targets, host, accesses);
    }

    fn pace(&mut self, calm: bool) {
        self.pace = if calm { (self.pace * 2).min(CALM) } else { BUSY };
        if let Stage::Resting(until) = &mut self.stage {
            *until = (*until).min(Instant::now() + self.pace);
        }
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
