//! Hint faults without kernel migration, for any process that may be traced (`homing_linux::hint_faults` says how).

use super::rings::{access, Rings};
use super::{Access, Losses, Places, Scans, Source, Weight, FAULTS, VISITS};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_linux::clock;
use homing_linux::errln;
use homing_linux::hint_faults::scanner::{Adoption, Pass, Scanner};
use homing_linux::hint_faults::{switch_policy, Window};
use homing_linux::perf::Event;
use homing_linux::policy;
use homing_linux::proc::{Pid, Tid};
use homing_linux::ptrace::standstill::Standstill;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A scan is worth the next one soon if one in so many of its sightings is news.
const NEWS: u64 = 20;

/// Scans that follow a change, whatever they tell. The first only makes mappings known that are new to the kernel: what it has not seen
/// before it leaves for `scan_delay_ms` (`task_numa_work`, Linux 6.4 and later).
const OWED: u32 = 2;

/// Time between scans while something changes, and the longest when nothing does.
const BUSY: Duration = Duration::from_millis(400);
const CALM: Duration = Duration::from_secs(8);
/// ... and before a scan that a change asked for, as long as the programs have not stood still for more than so long, and one part in
/// so many of all time. A program that changes all the time has scans at the common pace.
const SOON: Duration = Duration::from_millis(20);
const BURST: Duration = Duration::from_secs(1);
const PART: u32 = 50;
/// ... and at least this many times as long as the programs stood still for the last one.
const REST: u32 = 3;

/// Longest wait until the passes of all processes are ready, which takes some 14 ms of CPU time. The programs run meanwhile.
const READY: Duration = Duration::from_secs(4);
/// Longest wait for passes that mark pages, while the programs stand still.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often it is asked whether passes are ready.
const ASK: Duration = Duration::from_millis(12);
/// ... and, while the program stands still, whether they have passed.
const NAP: Duration = Duration::from_millis(1);
/// Longest wait for the helper of a program that starts it itself: its dynamic linker may have many libraries to load.
const LOADING: Duration = Duration::from_secs(2);
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

/// How often to scan: by what the last scan told.
#[derive(Debug)]
struct Rhythm {
    pace: Duration,
    /// Since the last scan.
    sightings: u64,
    news: u64,
    /// Scans to come whatever the last one told.
    owed: u32,
}

impl Default for Rhythm {
    fn default() -> Self {
        Rhythm { pace: BUSY, sightings: 0, news: 0, owed: OWED }
    }
}

impl Rhythm {
    /// The rest is over: how much longer it is to be, since the last scan told little that was new.
    fn rest_on(&mut self) -> Option<Duration> {
        let (sightings, news) = (std::mem::take(&mut self.sightings), std::mem::take(&mut self.news));
        if self.owed > 0 {
            self.owed -= 1;
            return None;
        }
        if news * NEWS > sightings {
            self.pace = BUSY;
            return None;
        }
        let before = self.pace;
        self.pace = (before * 2).min(CALM);
        Some(self.pace - before).filter(|more| !more.is_zero())
    }
}

/// Scanning helpers, and the rings that see the faults.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    scanners: BTreeMap<Pid, Scanner>,
    /// Processes that are about to start their helper themselves, and until when that is waited for.
    awaited: BTreeMap<Pid, Instant>,
    cpus: Vec<u32>,
    /// The engine's memory policy was the default one when this began.
    was_default: bool,
    rhythm: Rhythm,
    stage: Stage,
    /// When pages were last marked, by the clock of samples, and when they may be again after that.
    marked: Option<Duration>,
    period: Duration,
    /// How long the programs stood still for that, and until when they must not again.
    stopped: Duration,
    not_before: Instant,
    opened: Instant,
    beaten: Instant,
    /// CPU time of the helpers when last asked, and of those that have ended.
    used: BTreeMap<Pid, Duration>,
    used_before: Duration,
    refused: u64,
    /// Scans that the kernel did not make.
    missed: u64,
    scans: Scans,
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
        // What is scanned takes faults; the engine needs none. The programs that it starts inherit the policy, so that nothing has to
        // be changed in them. Under another policy than the default the kernel scans nothing of theirs either.
        let was_default = policy::of_this_thread()? == policy::DEFAULT;
        if was_default {
            policy::set(policy::LOCAL, &[])?;
        }
        Ok(HintFaults {
            rings: Rings::new(Event::PAGE_FAULTS, FAULTS, host),
            scanners: BTreeMap::new(),
            awaited: BTreeMap::new(),
            cpus: host.cpus(),
            was_default,
            refused: 0,
            missed: 0,
            scans: Scans::default(),
            rhythm: Rhythm::default(),
            stage: Stage::Resting(Instant::now()),
            marked: None,
            period: BUSY,
            stopped: Duration::ZERO,
            not_before: Instant::now(),
            opened: Instant::now(),
            beaten: Instant::now(),
            used: BTreeMap::new(),
            used_before: Duration::ZERO,
            window,
        })
    }

    /// Takes the helper of a process that starts it itself, or injects one. If it is still to come, the process is awaited.
    fn begin(&mut self, targets: &Targets, pid: Pid) -> io::Result<()> {
        let scanner = match Scanner::adopt(targets.proc(), pid)? {
            Adoption::Adopted(scanner) => scanner,
            Adoption::Expected
                if *self.awaited.entry(pid).or_insert_with(|| Instant::now() + LOADING) > Instant::now() =>
            {
                return Ok(());
            }
            Adoption::Expected | Adoption::None => Scanner::inject(targets.proc(), pid)?,
        };
        if !targets.started_here() {
            switch_policy(targets.proc(), pid, policy::DEFAULT, policy::LOCAL, scanner.scratch())?;
        }
        // It inherited the CPUs of the first thread, which may be bound to one. At worst it stays there.
        let _ = scanner.spread(&self.cpus);
        self.scanners.insert(pid, scanner);
        Ok(())
    }

    /// As [`HintFaults::begin`]; says when that fails for a process that is still there.
    fn begin_or_refuse(&mut self, targets: &Targets, pid: Pid) {
        let began = self.begin(targets, pid);
        let over = began.is_err() || self.scanners.contains_key(&pid);
        if over && self.awaited.remove(&pid).is_some() {
            // What asked for a scan did so when there was no helper yet.
            self.hurry();
        }
        if let Err(error) = began {
            if targets.proc().stat(pid, Tid(pid.0)).is_ok() {
                errln!("homing: process {pid}: no hint faults: {error}");
                self.refused += 1;
            }
        }
    }

    /// Begins a pass in each process. One that ended meanwhile is noticed at the next look.
    fn begin_passes(&mut self, targets: &Targets) {
        let lost: Vec<Pid> = self
            .scanners
            .iter_mut()
            .filter_map(|(pid, scanner)| scanner.begin_pass(targets.proc()).is_err().then_some(*pid))
            .collect();
        for pid in lost {
            self.scanners.remove(&pid);
            self.used_before += self.used.remove(&pid).unwrap_or_default();
            if targets.proc().stat(pid, Tid(pid.0)).is_ok() {
                errln!("homing: process {pid}: no more hint faults: the scanning helper has ended");
                self.refused += 1;
            }
        }
        self.stage = Stage::Counting(Instant::now());
    }

    /// Lets the passes mark pages, while the programs' threads stand still. False if one did not.
    fn mark(&mut self, targets: &Targets) -> io::Result<bool> {
        let begin = Instant::now();
        let pids: Vec<Pid> = self.scanners.keys().copied().collect();
        let held = Standstill::of(targets.proc(), &pids)?;
        self.scans.threads_waiting += held.count().waiting as u64;
        self.scans.threads_late += held.count().late as u64;
        self.window.open()?;
        let mut at_work: Vec<(&Pid, &mut Scanner)> = self.scanners.iter_mut().collect();
        at_work.retain_mut(|(_, scanner)| scanner.go().is_ok());
        wait(|| at_work.iter().all(|(_, scanner)| !matches!(scanner.passed(), Ok(None))));
        self.window.close()?;
        self.marked = Some(clock::monotonic());
        drop(held);
        self.stopped = begin.elapsed();
        let mut all = true;
        for (pid, scanner) in at_work {
            let marked = matches!(scanner.passed(), Ok(Some(Pass::Marked)));
            self.missed += u64::from(!marked);
            all &= marked;
            self.used.extend(scanner.cpu_time(targets.proc()).map(|used| (*pid, used)));
        }
        Ok(all)
    }

    /// Time before a scan that a change asks for.
    fn soon(&self) -> Duration {
        let allowed = BURST + self.opened.elapsed() / PART;
        if self.scans.stopped_seconds <= allowed.as_secs_f64() {
            SOON
        } else {
            BUSY
        }
    }

    /// Pages were marked, or not everywhere, by a scan that began then: rests until the next.
    fn marked(&mut self, began: Instant, everywhere: bool) {
        self.scans.scans += 1;
        self.scans.seconds += began.elapsed().as_secs_f64();
        self.scans.stopped_seconds += self.stopped.as_secs_f64();
        let rest = if everywhere && self.rhythm.owed > 0 { self.soon() } else { self.rhythm.pace };
        if !everywhere {
            // A scan that the kernel did not make says nothing.
            self.rhythm.owed = self.rhythm.owed.max(1);
        }
        let rest_of_program = self.stopped * REST;
        self.not_before = Instant::now() + rest_of_program;
        self.period = began.elapsed() + rest_of_program.max(self.rhythm.pace);
        self.stage = Stage::Resting(Instant::now() + rest.max(rest_of_program));
    }
}

/// Visits that a sighting stands for: as many as fit, at the rate of the first, into the time between two scans.
fn visits(period: Duration, marked: Duration, seen: Duration) -> f64 {
    match seen.checked_sub(marked) {
        Some(after) => (period.as_secs_f64() / after.as_secs_f64().max(1e-6)).clamp(1.0, VISITS),
        None => 1.0,
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
            self.awaited.remove(pid);
            self.used_before += self.used.remove(pid).unwrap_or_default();
        }
        for &pid in changes.begun.iter().filter(|pid| targets.contains(**pid)) {
            self.begin_or_refuse(targets, pid);
        }
        // A process whose threads of its own have all ended must be able to end.
        let idle = |pid: &Pid| targets.processes().get(pid).is_none_or(|process| process.tasks.is_empty());
        self.scanners.retain(|pid, _| !idle(pid));
        self.rings.follow(targets, changes)?;
        Ok(())
    }

    fn work(&mut self, targets: &Targets, behind: bool) -> io::Result<()> {
        for pid in self.awaited.keys().copied().collect::<Vec<Pid>>() {
            self.begin_or_refuse(targets, pid);
        }
        match self.stage {
            Stage::Resting(until) if self.scanners.is_empty() => {
                self.stage = Stage::Resting(until.max(Instant::now() + BUSY));
            }
            Stage::Resting(until) if Instant::now() >= until && !behind => match self.rhythm.rest_on() {
                Some(more) => self.stage = Stage::Resting(until + more),
                None => self.begin_passes(targets),
            },
            Stage::Resting(_) => self.scanners.values_mut().for_each(|scanner| drop(scanner.beat())),
            Stage::Counting(since) => {
                let waits = self.scanners.values().any(|scanner| matches!(scanner.ready(), Ok(false)));
                if !waits || since.elapsed() >= READY {
                    let everywhere = self.mark(targets)?;
                    self.marked(since, everywhere);
                }
            }
        }
        self.beaten = Instant::now();
        Ok(())
    }

    fn due(&self) -> Option<Instant> {
        Some(match self.stage {
            Stage::Resting(_) if !self.awaited.is_empty() => self.beaten + ASK,
            Stage::Resting(until) => until.max(self.beaten + ASK).min(self.beaten + BEAT),
            Stage::Counting(_) => self.beaten + ASK,
        })
    }

    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        self.rings.wakers()
    }

    fn helpers(&self) -> Vec<(Pid, Pid)> {
        self.scanners.iter().map(|(&pid, scanner)| (scanner.helper(), pid)).collect()
    }

    fn helpers_cpu(&self) -> Duration {
        self.used_before + self.used.values().sum::<Duration>()
    }

    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>) {
        let Some(marked) = self.marked else {
            // A program with much memory makes so many pages at its start that the first scan would wait for them.
            return self.rings.drain(targets, |_| self.scans.faults_before += 1);
        };
        let period = self.period;
        self.rings.drain(targets, |sample| {
            let visits = visits(period, marked, Duration::from_nanos(sample.time));
            accesses.extend(access(sample, host, Weight::Visits(visits)));
        });
    }

    fn learnt(&mut self, sightings: u64, news: u64) {
        self.rhythm.sightings += sightings;
        self.rhythm.news += news;
    }

    fn hurry(&mut self) {
        (self.rhythm.pace, self.rhythm.owed) = (BUSY, OWED);
        let soon = self.soon();
        if let Stage::Resting(until) = &mut self.stage {
            *until = (*until).min((Instant::now() + soon).max(self.not_before));
        }
    }

    fn scans(&self) -> Scans {
        self.scans
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
            let restored = if self.was_default || !targets.started_here() {
                switch_policy(proc, pid, policy::LOCAL, policy::DEFAULT, scanner.scratch()).map(drop)
            } else {
                Ok(())
            };
            if let Err(error) = restored.and_then(|()| scanner.end(proc)) {
                if targets.proc().stat(pid, Tid(pid.0)).is_ok() {
                    errln!("homing: process {pid}: memory policies could not be restored: {error}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_come_soon_while_they_tell_news_and_seldom_when_not() {
        let mut rhythm = Rhythm::default();
        let mut rests = |sightings, news, owed: Option<u32>| {
            rhythm.owed = owed.unwrap_or(rhythm.owed);
            (rhythm.sightings, rhythm.news) = (sightings, news);
            rhythm.rest_on()
        };
        assert_eq!(rests(0, 0, None), None, "nothing was scanned yet");
        assert_eq!(rests(100, 0, None), None, "and new mappings need a second scan");
        assert_eq!(rests(1000, 51, None), None);
        assert_eq!(rests(1000, 50, None), Some(BUSY), "twice as long");
        assert_eq!(rests(0, 0, Some(1)), None, "a missed scan is no calm");
        let more: Vec<_> = (0..6).map(|_| rests(1000, 0, None)).collect();
        assert_eq!((more[0], more[4], more[5]), (Some(2 * BUSY), None, None), "{more:?}");
        assert_eq!((rests(10, 10, None), rests(1000, 0, None)), (None, Some(BUSY)));
    }

    #[test]
    fn a_page_that_is_touched_soon_is_visited_often() {
        let seen =
            |ms| visits(BUSY, Duration::from_secs(5), Duration::from_secs(5) + Duration::from_millis(ms));
        assert_eq!(
            (seen(1), seen(100), seen(200), seen(399), seen(10_000)),
            (VISITS, VISITS, 2.0, 400.0 / 399.0, 1.0)
        );
        assert_eq!(visits(BUSY, BUSY, Duration::ZERO), 1.0, "a first touch before the scan");
    }
}
