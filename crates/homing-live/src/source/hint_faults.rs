//! Hint faults without kernel migration, for any process that may be traced (`homing_linux::hint_faults` says how).

mod slow;

use super::page_faults::{self, FAULTS};
use super::rings::{access, Rings};
use super::{Entry, Losses, Places, Scans, Source};
use crate::host::Host;
use crate::shared_marks::Shared;
use crate::targets::{Changes, Targets};
use homing_core::ids::Micros;
use homing_linux::clock;
use homing_linux::errln;
use homing_linux::hint_faults::own;
use homing_linux::hint_faults::scanner::{Adoption, Pass, Scanner};
use homing_linux::hint_faults::stand::Threads;
use homing_linux::hint_faults::{switch_policy, Window};
use homing_linux::perf::Event;
use homing_linux::policy;
use homing_linux::proc::{Pid, Proc, Tid};
use homing_linux::ptrace::standstill::Standstill;
use homing_session::input::{Access, AccessKind, Scanned};
use slow::Slow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

pub(super) const ENTRY: Entry = Entry {
    name: "hint-faults",
    summary: "the kernel's NUMA scanner unmaps pages, and the faults \
              tell who touches them; the kernel moves nothing",
    confidence: "good: every page in turn, who touched it first after each scan, not how often",
    brings_home: true,
    scans: true,
    holds: true,
    policy: "work-function",
    missing,
    open: |places, host| Ok(Box::new(HintFaults::open(places, host)?)),
};

/// What is missing for it here, if anything.
fn missing(places: &Places) -> Option<String> {
    let online = std::fs::read_to_string(places.sys.join("devices/system/node/online")).unwrap_or_default();
    if !online.contains(['-', ',']) {
        return Some("the machine has one node: the kernel does not scan, and nothing could move".into());
    }
    homing_linux::hint_faults::missing(&places.hint_faults).or_else(page_faults::missing)
}

/// Longest wait until the passes of all processes are ready, which takes some 20 ms of CPU time. The programs run
/// meanwhile.
const READY: Duration = Duration::from_secs(4);
/// Longest wait for passes that scan, while the programs stand still.
const PATIENCE: Duration = Duration::from_millis(400);
/// How often it is asked whether passes are ready.
const ASK: Duration = Duration::from_millis(12);
/// ... and, while the program stands still, whether they have passed.
const NAP: Duration = Duration::from_millis(1);
/// Longest wait for the helper of a program that starts it itself: its dynamic linker may have many libraries to load,
/// on a busy machine.
const LOADING: Duration = Duration::from_secs(10);
/// Helpers end by themselves when they receive nothing for ten seconds.
const BEAT: Duration = Duration::from_secs(2);

/// A process without its helper.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// It is about to start the helper itself, which is waited for until then.
    Loading(Instant),
    /// All of its threads sleep, and none is interrupted: it is asked again then.
    Asleep(Instant),
}

/// What the helpers are at.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing.
    Resting,
    /// Their passes get ready since then, and are asked whether they are.
    Preparing(Instant),
}

/// Scanning helpers, and the rings that see the faults.
#[derive(Debug)]
pub struct HintFaults {
    rings: Rings,
    scanners: BTreeMap<Pid, Scanner>,
    shared: Shared,
    awaited: BTreeMap<Pid, Awaited>,
    /// Processes with threads that slept when their policies were set.
    unset: BTreeSet<Pid>,
    slow: Slow,
    cpus: Vec<u32>,
    /// The engine's memory policy was the default one when this began.
    was_default: bool,
    stage: Stage,
    /// When pages were last marked, by the clock of samples.
    marked: Option<Duration>,
    /// How long the programs stood still for that.
    stopped: Duration,
    /// CPU time of this thread for that, and of the helpers when the last scan was over.
    cost: Duration,
    helped: Duration,
    beaten: Instant,
    /// CPU time of the helpers when last asked, and of those that have ended.
    used: BTreeMap<Pid, Duration>,
    used_before: Duration,
    refused: u64,
    /// Scans that the kernel did not make.
    missed: u64,
    scans: Scans,
    /// Pages that the kernel's balancing had moved when this began; `None` where it was on anyway.
    moved_before: Option<u64>,
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
        // What is scanned takes faults; the engine needs none. The programs that it starts inherit the policy, so that
        // nothing has to be changed in them. Under another policy than the default the kernel scans nothing of theirs
        // either.
        let was_default = policy::of_this_thread()? == policy::DEFAULT;
        if was_default {
            policy::set(policy::LOCAL, &[])?;
        }
        let moved_before = if window.was_balanced() { None } else { balanced_pages() };
        Ok(HintFaults {
            rings: Rings::new(Event::PAGE_FAULTS, FAULTS, host),
            scanners: BTreeMap::new(),
            shared: Shared::new(host),
            awaited: BTreeMap::new(),
            unset: BTreeSet::new(),
            slow: Slow::default(),
            cpus: host.cpus(),
            was_default,
            refused: 0,
            missed: 0,
            scans: Scans::default(),
            moved_before,
            stage: Stage::Resting,
            marked: None,
            stopped: Duration::ZERO,
            cost: Duration::ZERO,
            helped: Duration::ZERO,
            beaten: Instant::now(),
            used: BTreeMap::new(),
            used_before: Duration::ZERO,
            window,
        })
    }

    /// Takes the helper of a process that starts it itself, or injects one. If it is still to come, the process is
    /// awaited.
    fn begin(&mut self, targets: &Targets, pid: Pid) -> io::Result<()> {
        if own::is_this(pid) {
            // Its threads have the policy that they gave themselves: only another process could give it to them.
            return self.keep(pid, Scanner::own()?);
        }
        let adoption = Scanner::adopt(targets.proc(), pid)?;
        if matches!(adoption, Adoption::Expected) && self.may_load(pid) {
            return Ok(());
        }
        let scanner = match adoption {
            Adoption::Adopted(scanner) => scanner,
            Adoption::Expected | Adoption::None => match Scanner::inject(targets.proc(), pid) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.awaited.insert(pid, Awaited::Asleep(Instant::now() + BEAT));
                    return Ok(());
                }
                scanner => scanner?,
            },
        };
        if !targets.started_here() {
            self.set_policies(targets.proc(), pid, scanner.scratch())?;
        }
        self.keep(pid, scanner)
    }

    /// True if the process has time left to start its helper itself.
    fn may_load(&mut self, pid: Pid) -> bool {
        let awaited = self.awaited.entry(pid).or_insert_with(|| Awaited::Loading(Instant::now() + LOADING));
        matches!(awaited, Awaited::Loading(until) if *until > Instant::now())
    }

    /// Takes the threads of a process out of the kernel's balancing. Those that sleep are asked again before scans.
    fn set_policies(&mut self, proc: &Proc, pid: Pid, scratch: u64) -> io::Result<()> {
        let switched = switch_policy(proc, pid, policy::DEFAULT, policy::LOCAL, scratch)?;
        if switched.asleep > 0 {
            self.unset.insert(pid);
        } else {
            self.unset.remove(&pid);
        }
        Ok(())
    }

    fn keep(&mut self, pid: Pid, scanner: Scanner) -> io::Result<()> {
        // It inherited the CPUs of the first thread, which may be bound to one. At worst it stays there.
        let _ = scanner.spread(&self.cpus);
        scanner.prefer();
        self.scanners.insert(pid, scanner);
        Ok(())
    }

    /// As [`HintFaults::begin`]; says when that fails for a process that is still there.
    fn begin_or_refuse(&mut self, targets: &Targets, pid: Pid) {
        if matches!(self.awaited.get(&pid), Some(Awaited::Asleep(again)) if *again > Instant::now()) {
            return;
        }
        let began = self.begin(targets, pid);
        if began.is_err() || self.scanners.contains_key(&pid) {
            self.awaited.remove(&pid);
        }
        if let Err(error) = began {
            if lives(targets.proc(), pid) {
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
            if lives(targets.proc(), pid) {
                errln!("homing: process {pid}: no more hint faults: the scanning helper has ended");
                self.refused += 1;
            }
        }
        self.stage = Stage::Preparing(Instant::now());
    }

    /// The processes whose passes get ready still.
    fn unready(&self) -> Vec<Pid> {
        let unready = |(pid, scanner): (&Pid, &Scanner)| matches!(scanner.ready(), Ok(false)).then_some(*pid);
        self.scanners.iter().filter_map(unready).collect()
    }

    /// Lets the passes that are ready mark pages, while those programs' threads stand still. False if one that was
    /// waited for did not.
    fn mark(&mut self, targets: &Targets, unready: &[Pid]) -> io::Result<bool> {
        let used = clock::thread_cpu_time();
        let ready: Vec<Pid> = self.scanners.keys().copied().filter(|pid| !unready.contains(pid)).collect();
        let waited = self.slow.waited_for(self.scanners.keys().copied());
        let pids: Vec<Pid> = ready.iter().copied().filter(|pid| !own::is_this(*pid)).collect();
        let held = (!pids.is_empty()).then(|| Standstill::of(targets.proc(), &pids)).transpose()?;
        let count = held.as_ref().map(Standstill::count).unwrap_or_default();
        self.scans.threads_waiting += count.waiting as u64;
        self.scans.threads_late += count.late as u64;
        let since = held.as_ref().map_or_else(Instant::now, Standstill::since);
        let own = self.own_threads(targets);
        let shared = self.shared.admit(&self.scanners, targets.proc());
        let late = self.let_pass_apart(targets.proc(), own, &ready);
        shared.dismiss(&self.scanners, targets.proc());
        let late = late?;
        self.marked = Some(clock::monotonic());
        drop(held);
        self.stopped = since.elapsed();
        self.slow.add(&late, "mark pages");
        let mut all = true;
        for (pid, scanner) in &self.scanners {
            // One that has ended meanwhile misses nothing.
            let Ok(passed) = scanner.passed() else { continue };
            let marked = ready.contains(pid) && passed == Some(Pass::Marked);
            self.missed += u64::from(!marked);
            all &= marked || !waited.contains(pid);
            self.used.extend(scanner.cpu_time(targets.proc()).map(|used| (*pid, used)));
        }
        self.cost = clock::thread_cpu_time().saturating_sub(used);
        Ok(all)
    }

    /// As [`HintFaults::let_pass`]. Where this process is one of the programs, this thread shares their memory, and as
    /// all that have run for a while it is due to scan: it would take the pass's turn. A new thread is not due.
    fn let_pass_apart(&mut self, proc: &Proc, own: Option<Threads>, ready: &[Pid]) -> io::Result<Vec<Pid>> {
        if own.is_none() {
            return self.let_pass(proc, own, ready);
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("homing-window".into());
            let passes = thread.spawn_scoped(scope, || self.let_pass(proc, own, ready))?;
            passes.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Lets the passes of these processes go while the kernel may mark pages. Returns those that did not
    /// pass in time.
    fn let_pass(&mut self, proc: &Proc, own: Option<Threads>, ready: &[Pid]) -> io::Result<Vec<Pid>> {
        let own = own.map(Threads::stand);
        // Besides this one. A thread of the program that does not stand would take the pass's turn.
        let others =
            own.as_ref().is_none_or(|own| own.late() == 0) && proc.running().is_ok_and(|all| all > 1);
        self.window.open(others)?;
        let go = |pid: &Pid| self.scanners.get_mut(pid).is_some_and(|scanner| scanner.go().is_ok());
        let went = ready.iter().copied().filter(go);
        let waited = self.slow.waited_for(went);
        let at_work = |pid: &Pid| matches!(self.scanners[pid].passed(), Ok(None));
        wait(|| !waited.iter().any(at_work));
        let late = waited.iter().copied().filter(at_work).collect();
        self.window.close()?;
        self.scans.threads_late += own.as_ref().map_or(0, |own| u64::from(own.late()));
        Ok(late)
    }

    /// The running threads of this process, if it is one of the programs. A process cannot trace itself: they take a
    /// signal. Where that cannot be, the pass competes with them for the kernel's scan, and is counted as missed if it
    /// comes too late.
    fn own_threads(&self, targets: &Targets) -> Option<Threads> {
        self.scanners.keys().any(|pid| own::is_this(*pid)).then(|| Threads::running(targets.proc()).ok())?
    }

    /// Pages were marked, or not everywhere, by a scan that began then.
    fn marked(&mut self, began: Instant, everywhere: bool, session: Duration) -> Scanned {
        let took = began.elapsed();
        self.scans.scans += 1;
        self.scans.seconds += took.as_secs_f64();
        self.scans.stopped_seconds += self.stopped.as_secs_f64();
        self.stage = Stage::Resting;
        let began = clock::monotonic().saturating_sub(took).saturating_sub(session);
        let cost = self.cost.saturating_add(self.helpers_cpu().saturating_sub(self.helped));
        self.helped = self.helpers_cpu();
        Scanned { began: micros(began), stopped: micros(self.stopped), everywhere, cost: micros(cost) }
    }
}

/// Says which threads of a process that goes on are not as they were.
fn tell_of_sleepers(pid: Pid, threads: usize) {
    if threads > 0 {
        errln!(
            "homing: process {pid}: {threads} threads that sleep, or block signals, keep the memory policy MPOL_LOCAL, \
             under which the kernel's NUMA balancing leaves them alone: no system call is interrupted to take it back"
        );
    }
}

/// Whether a process is there and has not ended: nobody needs to know of one that could not be served any more.
fn lives(proc: &Proc, pid: Pid) -> bool {
    proc.stat(pid, Tid(pid.0)).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Pages that the kernel's balancing has moved since the machine was started.
fn balanced_pages() -> Option<u64> {
    Proc::default().vmstat().ok()?.balanced
}

fn micros(time: Duration) -> Micros {
    Micros(time.as_micros() as u64)
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
            // One that has executed another program may have been asked for its helper after that, before this was
            // noticed: then it is the new program's.
            let serves = |scanner: &Scanner| scanner.serves(targets.proc());
            if changes.begun.contains(pid) && self.scanners.get(pid).is_some_and(serves) {
                continue;
            }
            self.scanners.remove(pid);
            self.awaited.remove(pid);
            self.unset.remove(pid);
            self.slow.forget(*pid);
            self.used_before += self.used.remove(pid).unwrap_or_default();
        }
        let new = |pid: &Pid| targets.contains(*pid) && !self.scanners.contains_key(pid);
        let begun: Vec<Pid> = changes.begun.iter().copied().filter(new).collect();
        begun.into_iter().for_each(|pid| self.begin_or_refuse(targets, pid));
        // A process whose threads of its own have all ended must be able to end.
        let idle = |pid: &Pid| targets.processes().get(pid).is_none_or(|process| process.tasks.is_empty());
        self.scanners.retain(|pid, _| !idle(pid));
        self.rings.follow(targets, changes)?;
        Ok(())
    }

    fn scannable(&self) -> bool {
        !self.scanners.is_empty()
    }

    fn scan(&mut self, targets: &Targets) {
        for pid in self.unset.clone() {
            let scratch = self.scanners.get(&pid).map(Scanner::scratch);
            // One that has ended meanwhile is noticed at the next look.
            let _ = scratch.map(|scratch| self.set_policies(targets.proc(), pid, scratch));
        }
        self.shared.prepare(&self.scanners, targets);
        self.begin_passes(targets);
        self.beaten = Instant::now();
    }

    fn work(&mut self, targets: &Targets, begin: Duration) -> io::Result<Option<Scanned>> {
        for pid in self.awaited.keys().copied().collect::<Vec<Pid>>() {
            self.begin_or_refuse(targets, pid);
        }
        let mut scanned = None;
        match self.stage {
            Stage::Resting => self.scanners.values_mut().for_each(|scanner| drop(scanner.beat())),
            Stage::Preparing(since) => {
                let unready = self.unready();
                let mut waited = self.slow.waited_for(self.scanners.keys().copied());
                waited.retain(|pid| unready.contains(pid));
                if waited.is_empty() || since.elapsed() >= READY {
                    self.slow.add(&waited, "get ready");
                    let everywhere = self.mark(targets, &unready)?;
                    scanned = Some(self.marked(since, everywhere, begin));
                }
            }
        }
        self.beaten = Instant::now();
        Ok(scanned)
    }

    fn due(&self) -> Option<Instant> {
        let loads = |awaited: &Awaited| matches!(awaited, Awaited::Loading(_));
        Some(match self.stage {
            Stage::Resting if self.awaited.values().any(loads) => self.beaten + ASK,
            Stage::Resting => self.beaten + BEAT,
            Stage::Preparing(_) => self.beaten + ASK,
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
        self.rings.drain(targets, |sample| {
            let after_scan = Duration::from_nanos(sample.time).checked_sub(marked).map(micros);
            accesses.extend(access(sample, host, AccessKind::HintFault { after_scan }));
        });
    }

    fn scans(&self) -> Scans {
        // Those of the session stay: their threads take no part.
        let others_moved =
            self.moved_before.zip(balanced_pages()).map(|(before, now)| now.saturating_sub(before));
        Scans { others_moved: others_moved.unwrap_or_default(), ..self.scans }
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
            let restored = if own::is_this(pid) {
                Ok(())
            } else if self.was_default || !targets.started_here() {
                let back = switch_policy(proc, pid, policy::LOCAL, policy::DEFAULT, scanner.scratch());
                back.map(|switched| tell_of_sleepers(pid, switched.asleep))
            } else {
                Ok(())
            };
            if let Err(error) = restored.and_then(|()| scanner.end(proc)) {
                if lives(targets.proc(), pid) {
                    errln!("homing: process {pid}: memory policies could not be restored: {error}");
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
