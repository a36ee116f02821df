//! A helper process that shares a process's memory and makes the kernel's NUMA scanner unmap its pages.
//!
//! The kernel scans in the context of whichever thread with that memory the scheduler's tick finds, looks at the memory
//! policy of *that* thread (`vma_policy_mof`), and marks pages so that the next access faults. At the fault it looks at
//! the policy of the *faulting* thread (`mpol_misplaced`). So with one thread of default policy that does nothing but
//! take ticks, and `MPOL_LOCAL` (which allocates as the default does) for all others, pages get marked, every access to
//! a marked page is a fault that perf can sample, and the kernel moves nothing.
//!
//! More rules of kernel/sched/fair.c (6.12) shape it:
//! * all threads with one memory share one time before which nobody scans it (`numa_next_scan`). Whoever scans sets it
//!   forward by its own period, which is what the tunables said when the thread began: a second, for one that is older
//!   than the session. So balancing is on only while the program's threads are held, and nobody but the helper scans;
//! * a mapping is scanned again by a thread that took no fault in it only when the count of scans has grown by more
//!   than the threads of its process (`vma_is_accessed`): so the helper is a process of its own with one thread, and
//!   before the scan that marks it makes one that does not (with policy `MPOL_LOCAL`), which only counts;
//! * after a scan a thread must run 32 times as long as the scan took before it may scan again, and on a virtual CPU a
//!   scan takes as long as that CPU was away. So each of the two scans is made by a fresh process: the one that marks
//!   by a *pass*, the one that only counts by its child, the *counter*. Before their scans both use as much CPU time as
//!   the kernel wants to see ([`Times`]), while the program runs; then a tick for each is enough. The pass sees by a
//!   fault of its own that the kernel has marked pages: on the page where it keeps its data.
//!
//! The helper ends when told, when the program has ended or executes another one, and by itself when the engine's
//! heartbeat stops for ten seconds, so that a killed engine leaves nothing behind but two pages of memory. Its parent
//! is init, which reaps it. It has no descriptor of the program's, so that pipes end with the program, and a directory
//! of its own.
//!
//! Between passes it sleeps until the engine wakes it by a signal (SIGURG, which it blocks and reads) or the program
//! ends, and looks each 0.2 s whether the program has executed another one and the engine lives.
//!
//! The program starts it itself if [`super::preload`] is at work or the engine is a part of it ([`super::own`]), else
//! it is injected.

use super::code::at;
use super::own;
use super::preload::{self, Preloaded};
use super::SCANNER_NAME;
use crate::clock;
use crate::follow::Process;
use crate::guard::guarded;
use crate::policy;
use crate::proc::sharing::same_memory;
use crate::proc::{Pid, Proc, Tid};
use crate::ptrace;
use crate::wait::end_of;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// What came of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The kernel has marked pages.
    Marked,
    /// It did not within the pass's CPU time: balancing is off, or another thread was let in.
    Nothing,
}

/// CPU times of a pass, which follow from the time between two ticks (`init_numa_balancing` and `task_tick_numa` of
/// kernel/sched/fair.c): a new thread may scan after two ticks and its period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    /// Until it is ready, and its counter: the kernel lets each scan at the first tick after that.
    ready: Duration,
    /// Of the scan that counts: one tick comes in it.
    count: Duration,
    /// From the end of the scan that counts until it gives up: some ticks, since one scan of memory that is new to the
    /// kernel marks nothing. The programs stand still meanwhile.
    most: Duration,
}

impl Times {
    fn of(tick: Duration) -> Times {
        // The period is 1 ms.
        let ready = 2 * tick + Duration::from_millis(2);
        Times { ready, count: tick + tick / 16, most: 8 * tick }
    }
}

/// Who started a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program itself, by the preloaded library.
    Preloaded,
    /// The engine, by system calls in the name of a thread.
    Injected,
    /// This process, for itself.
    Own,
}

/// What there is of a preloaded helper.
#[derive(Debug)]
pub enum Adoption {
    /// It is ours now.
    Adopted(Scanner),
    /// It is not there yet: worth another look soon.
    Expected,
    /// There is none.
    None,
}

/// The helper of one process. Dropping it lets the helper end; [`Scanner::end`] also takes the memory away that was
/// injected.
#[derive(Debug)]
pub struct Scanner {
    pid: Pid,
    helper: Pid,
    /// The helper, to be woken. Without it, it sees what is asked of it when it looks next.
    process: Option<Process>,
    origin: Origin,
    memory: File,
    /// Address of the control page; injected code is on the page before it.
    control: u64,
    beat: u64,
    grants: u64,
    /// The control page is the program's again.
    freed: bool,
}

impl Scanner {
    /// A helper that has just been started.
    pub(super) fn new(pid: Pid, helper: Pid, origin: Origin, memory: File, control: u64) -> Scanner {
        let process = end_of(helper).ok().map(Process::of);
        Scanner { pid, helper, process, origin, memory, control, beat: 0, grants: 0, freed: false }
    }

    /// Takes the helper that the program has by its preloaded library, or else injects one. What memory policy the
    /// program's threads have is the caller's to set.
    ///
    /// # Errors
    /// As for [`Scanner::inject`].
    pub fn start(proc: &Proc, pid: Pid) -> io::Result<Scanner> {
        match Scanner::adopt(proc, pid)? {
            Adoption::Adopted(scanner) => Ok(scanner),
            Adoption::Expected | Adoption::None => Scanner::inject(proc, pid),
        }
    }

    /// Takes the helper that the program has by its preloaded library, without a stop.
    ///
    /// # Errors
    /// EPERM if the process may not be traced, ESRCH if it has ended.
    pub fn adopt(proc: &Proc, pid: Pid) -> io::Result<Adoption> {
        let memory = ptrace::memory(pid)?;
        let (control, helper) = match preload::look(proc, pid, &memory)? {
            Preloaded::Started { control, helper } => (control, helper),
            Preloaded::Expected => return Ok(Adoption::Expected),
            Preloaded::None => return Ok(Adoption::None),
        };
        // It has ended, or the process executes another program just now, which will start its own: another look tells.
        let Ok(helper) = find_helper(proc, pid, helper) else { return Ok(Adoption::Expected) };
        let mut scanner = Scanner::new(pid, helper, Origin::Preloaded, memory, control);
        // Another session may have used it.
        (scanner.beat, scanner.grants) = (scanner.get(at::BEAT)?, scanner.get(at::GRANT)?);
        scanner.beat()?;
        Ok(Adoption::Adopted(scanner))
    }

    /// Who started the helper.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Address of the control page.
    pub(super) fn control(&self) -> u64 {
        self.control
    }

    /// The memory of the process.
    pub(super) fn memory(&self) -> &File {
        &self.memory
    }

    /// The helper.
    pub fn helper(&self) -> Pid {
        self.helper
    }

    /// CPU time that the helper and its passes have used. None once it has ended.
    pub fn cpu_time(&self, proc: &Proc) -> Option<std::time::Duration> {
        let stat = proc.stat(self.helper, Tid(self.helper.0)).ok()?;
        Some(clock::ticks(stat.cpu_ticks + stat.waited_ticks))
    }

    /// Address of eight bytes in the process that are free for use.
    pub fn scratch(&self) -> u64 {
        self.control + at::SCRATCH
    }

    /// Tells the helper that the engine lives. Must be called more often than every ten seconds.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn beat(&mut self) -> io::Result<()> {
        self.beat += 1;
        self.put(at::BEAT, self.beat)
    }

    /// True while the helper has the memory of the program that the process runs now.
    pub fn serves(&self, proc: &Proc) -> bool {
        is_helper(proc, self.pid, self.helper)
    }

    /// Lets the helper begin a pass, if it has none.
    ///
    /// # Errors
    /// As for [`Scanner::beat`]; ESRCH if the helper has ended.
    pub fn begin_pass(&mut self, proc: &Proc) -> io::Result<()> {
        if !self.serves(proc) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if self.get(at::USED)? == self.grants {
            self.grant(Times::of(clock::tick()))?;
        }
        self.beat()?;
        self.wake();
        Ok(())
    }

    fn grant(&mut self, times: Times) -> io::Result<()> {
        for (at, time) in [(at::COUNT_NS, times.ready), (at::TICK_NS, times.count), (at::PASS_NS, times.most)]
        {
            self.put(at, time.as_nanos() as u64)?;
        }
        self.grants += 1;
        self.put(at::GRANT, self.grants)
    }

    /// Lets the helper look at its page now. Best effort: it looks there now and then.
    fn wake(&self) {
        let _ = self.process.as_ref().map(|process| process.signal(libc::SIGURG));
    }

    /// True once the pass waits for its go, or has ended.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn ready(&self) -> io::Result<bool> {
        Ok(self.get(at::READY)? == self.grants || self.get(at::USED)? == self.grants)
    }

    /// Lets the pass count and mark pages.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn go(&mut self) -> io::Result<()> {
        self.put(at::GO, self.grants)
    }

    /// What came of the last pass; `None` while it is at work.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn passed(&self) -> io::Result<Option<Pass>> {
        let ended = self.get(at::USED)? == self.grants;
        let marked = self.get(at::MARKED)? == self.grants;
        Ok(ended.then_some(if marked { Pass::Marked } else { Pass::Nothing }))
    }

    fn get(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, self.control + offset)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn put(&self, offset: u64, value: u64) -> io::Result<()> {
        self.memory.write_all_at(&value.to_ne_bytes(), self.control + offset)
    }

    /// Lets the helper run on any of these CPUs, whatever it inherited.
    ///
    /// # Errors
    /// What `sched_setaffinity(2)` gives.
    pub fn spread(&self, cpus: &[u32]) -> io::Result<()> {
        policy::set_affinity(Tid(self.helper.0), cpus)
    }

    /// Lets its passes, which need some milliseconds each, come at once where the CPUs are busy. Best effort.
    pub fn prefer(&self) {
        let _ = policy::prefer(Tid(self.helper.0));
    }

    /// Ends the helper, waits for that, and gives its memory back if it was injected. That of a preloaded library stays
    /// with it.
    ///
    /// # Errors
    /// If the process has ended meanwhile, which is as good, or the helper does not end within two seconds; then its
    /// memory is left, because unmapping it under a running helper would end the program.
    pub fn end(mut self, proc: &Proc) -> io::Result<()> {
        let injected = self.origin == Origin::Injected;
        // A pass that waits for its go would not end by itself.
        self.put(if injected { at::GO } else { at::STOP }, if injected { self.grants } else { 1 })?;
        self.wake();
        for _ in 0..400 {
            if injected && !self.freed && self.get(at::USED)? == self.grants {
                self.freed = true;
                guarded(|| self.take_back(proc))?;
            }
            let ended = if injected { self.freed } else { self.get(at::ENDED)? == 1 };
            let state = proc.stat(self.helper, Tid(self.helper.0)).map(|stat| stat.state);
            if ended && !matches!(state, Ok(running) if running != 'Z') {
                self.freed |= self.origin == Origin::Own;
                return if self.origin == Origin::Own { own::unmap(self.control) } else { Ok(()) };
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the scanning helper did not end within two seconds"))
    }
}

/// True if a process is another one with the memory of `pid`. What the program's memory says of its helper is not to be
/// trusted: the program can write there.
fn is_helper(proc: &Proc, pid: Pid, helper: Pid) -> bool {
    let alive = proc.stat(helper, Tid(helper.0)).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    helper != pid && alive && same_memory(pid, helper) == Some(true)
}

/// The helper of `pid`, which knows it by the number `inside`. In a container that is another one than ours.
pub(super) fn find_helper(proc: &Proc, pid: Pid, inside: Pid) -> io::Result<Pid> {
    if is_helper(proc, pid, inside) {
        return Ok(inside);
    }
    let processes = proc.processes().map_err(ptrace::to_io)?;
    let named = |helper: &Pid| {
        proc.stat(*helper, Tid(helper.0)).is_ok_and(|stat| stat.name == SCANNER_NAME)
            && is_helper(proc, pid, *helper)
    };
    let none = || io::Error::new(io::ErrorKind::NotFound, "the scanning helper was made and is not there");
    processes.into_iter().find(named).ok_or_else(none)
}

impl Drop for Scanner {
    fn drop(&mut self) {
        if self.freed {
            return;
        }
        // A process that has ended needs no telling.
        let _ = self.put(at::STOP, 1);
        self.wake();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{busy_child, end_busy};
    use super::*;
    use std::time::Instant;

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A helper in a process that runs, which a busy machine may not give a CPU at once.
    pub(in super::super) fn started(proc: &Proc, pid: Pid) -> Scanner {
        let begin = Instant::now();
        loop {
            match Scanner::start(proc, pid) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(begin.elapsed() < Duration::from_secs(60), "no thread of {pid} runs");
                }
                result => return result.unwrap(),
            }
        }
    }

    #[test]
    fn a_helper_scans_in_another_process_and_leaves_no_trace() {
        let child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let maps = proc.maps(pid).unwrap();
        let mut scanner = started(&proc, pid);
        let helper = scanner.helper();
        let name = || proc.stat(helper, Tid(helper.0)).map(|stat| stat.name);
        until("named", || name().is_ok_and(|name| name == SCANNER_NAME));
        assert_eq!(proc.children(pid), [], "it is nobody's child to wait for");
        for _ in 0..2 {
            scanner.begin_pass(&proc).unwrap();
            until("ready", || scanner.ready().unwrap());
            assert_eq!(scanner.passed().unwrap(), None, "it waits for its go");
            scanner.go().unwrap();
            until("passed", || scanner.passed().unwrap().is_some());
        }
        scanner.end(&proc).unwrap();
        assert!(name().is_err() || proc.stat(helper, Tid(helper.0)).unwrap().state == 'Z');
        assert_eq!(proc.maps(pid).unwrap(), maps);
        end_busy(child);
    }

    /// When the kernel lets a new thread scan, by its rules.
    #[test]
    fn times_allow_a_scan_at_the_first_tick() {
        for milliseconds in [1, 4, 10] {
            let (tick, period) = (Duration::from_millis(milliseconds), Duration::from_millis(1));
            let times = Times::of(tick);
            assert!(times.count > tick && times.count < 2 * tick, "one tick comes in it");
            assert!(times.ready > 2 * tick + period);
        }
    }

    /// Nothing is balanced here, so that it gives up.
    #[test]
    fn what_a_pass_used_before_its_go_does_not_count() {
        let child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let mut scanner = started(&proc, pid);
        let before = scanner.cpu_time(&proc).unwrap();
        let time = Duration::from_millis(300);
        scanner.grant(Times { ready: time, count: Duration::ZERO, most: time }).unwrap();
        scanner.wake();
        until("ready", || scanner.ready().unwrap());
        scanner.go().unwrap();
        until("passed", || scanner.passed().unwrap().is_some());
        let used = scanner.cpu_time(&proc).unwrap() - before;
        assert!(used > time * 5 / 2, "it gave up after {used:?}");
        scanner.end(&proc).unwrap();
        end_busy(child);
    }

    #[test]
    fn a_helper_ends_with_its_program() {
        let mut child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let scanner = started(&proc, pid);
        let helper = scanner.helper();
        child.kill().unwrap();
        child.wait().unwrap();
        until("gone", || proc.stat(helper, Tid(helper.0)).map_or(true, |stat| stat.state == 'Z'));
        drop(scanner);
    }

    #[test]
    fn a_helper_without_work_sleeps() {
        let child = busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let scanner = started(&proc, pid);
        let sleeps = || {
            let status = std::fs::read_to_string(proc.path(scanner.helper(), "status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.unwrap().trim().parse::<u64>().unwrap()
        };
        let before = sleeps();
        std::thread::sleep(Duration::from_secs(1));
        // Each 5 ms it would be 200.
        let slept = sleeps() - before;
        assert!(slept < 40, "it has slept {slept} times in a second");
        scanner.end(&proc).unwrap();
        end_busy(child);
    }

    #[test]
    fn processes_that_ended_give_errors() {
        assert!(Scanner::start(&Proc::default(), Pid(i32::MAX)).is_err());
    }
}
