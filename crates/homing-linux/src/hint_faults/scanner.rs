//! A helper process that shares a process's memory and makes the kernel's NUMA scanner unmap its pages.
//!
//! The kernel scans in the context of whichever thread with that memory the scheduler's tick finds, looks at the memory
//! policy of *that* thread (`vma_policy_mof`), and marks pages so that the next access faults. At the fault it looks at
//! the policy of the *faulting* thread (`mpol_misplaced`). So with one thread of default policy that does nothing but
//! take ticks, and `MPOL_LOCAL` (which allocates as the default does) for all others, pages get marked, every access to a
//! marked page is a fault that perf can sample, and the kernel moves nothing.
//!
//! More rules of kernel/sched/fair.c (6.12) shape it:
//! * all threads with one memory share one time before which nobody scans it (`numa_next_scan`). Whoever scans sets it
//!   forward by its own period, and so does who takes faults on pages of other nodes only (`update_task_scan_period`). So
//!   periods are a few ticks for all ([`super::Window`]), and the program's threads are held while the scan that matters
//!   is made, or they would come first;
//! * a mapping is scanned again by a thread that took no fault in it only when the count of scans has grown by more
//!   than the threads of its process (`vma_is_accessed`): so the helper is a process of its own with one thread, and
//!   before the scan that marks it makes one that does not (with policy `MPOL_LOCAL`), which only counts;
//! * after a scan a thread must run 32 times as long as the scan took before it may scan again, so each pair of scans is
//!   made by a fresh process, a *pass*. It may scan after 9 ms of CPU time (two ticks and its period), and then at ticks.
//!   It sees by a fault of its own that the kernel has marked pages: on the page where it keeps its data.
//!
//! The helper ends when told, when the program is gone, and by itself when the engine's heartbeat stops for ten seconds,
//! so that a killed engine leaves nothing behind but two pages of memory. Its parent is init, which reaps it.

use super::SCANNER_NAME;
use crate::clock;
use crate::guard::{guarded, Values};
use crate::policy;
use crate::proc::sharing::same_memory;
use crate::proc::{Pid, Proc, Tid};
use crate::ptrace::{self, call::Caller};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

// The code is position-independent and reaches its data through r12 alone, at the offsets of `control`. Labels that are made
// of 0 and 1 alone would be taken for binary numbers.
std::arch::global_asm!(
    ".pushsection .rodata",
    ".global homing_scanner_begin",
    ".global homing_scanner_end",
    "homing_scanner_begin:",
    "syscall", // clone: the go-between, whose end gives the helper to init
    "test rax, rax",
    "jz 2f",
    "ud2",            // the caller is stopped at the end of its clone and does not come here
    "2: mov eax, 56", // clone: the helper
    "mov edi, 0x700",
    "lea rsi, [r12 + 3072]",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 3f",
    "mov [r12 + 104], rax",
    "mov eax, 60", // exit
    "xor edi, edi",
    "syscall",
    "3: mov eax, 14", // rt_sigprocmask(SIG_SETMASK, all, NULL, 8)
    "mov edi, 2",
    "lea rsi, [r12 + 32]",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "mov eax, 157", // prctl(PR_SET_NAME, name)
    "mov edi, 15",
    "lea rsi, [r12 + 80]",
    "syscall",
    "mov eax, 238", // set_mempolicy(MPOL_LOCAL, NULL, 0)
    "mov edi, 4",
    "xor esi, esi",
    "xor edx, edx",
    "syscall",
    "xor ebx, ebx", // rounds without a heartbeat
    "mov r14, [r12 + 16]",
    "xor r15d, r15d", // the last grant
    "4: cmp qword ptr [r12], 0",
    "jne 9f",
    "mov rax, [r12 + 72]",
    "cmp rax, r15",
    "je 6f",
    "mov r15, rax",
    "mov eax, 56", // clone: a pass
    "mov edi, 0x700",
    "lea rsi, [r12 + 2048]",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "syscall",
    "test rax, rax",
    "jz 7f",
    "mov rdi, rax", // wait4(it, NULL, __WALL, NULL)
    "mov eax, 61",
    "xor esi, esi",
    "mov edx, 0x40000000",
    "xor r10d, r10d",
    "syscall",
    "mov [r12 + 112], r15",
    "jmp 4b",
    "6: mov eax, 35", // nanosleep(5 ms, NULL)
    "lea rdi, [r12 + 40]",
    "xor esi, esi",
    "syscall",
    "mov eax, 62", // kill(program, 0): is it there?
    "mov rdi, [r12 + 96]",
    "xor esi, esi",
    "syscall",
    "test rax, rax",
    "js 9f",
    "mov rax, [r12 + 16]",
    "cmp rax, r14",
    "mov r14, rax",
    "mov eax, 0",
    "cmovne ebx, eax",
    "inc ebx",
    "cmp ebx, 2000",
    "jb 4b",
    "9: mov qword ptr [r12 + 24], 1",
    "mov eax, 60", // exit
    "xor edi, edi",
    "syscall",
    "7: call 40f", // a pass: the scan that counts
    "cmp rax, [r12 + 8]",
    "jb 7b",
    "mov [r12 + 136], r15",
    "xor ebx, ebx",
    "5: cmp [r12 + 120], r15", // waits for its go, ten seconds at most
    "je 30f",
    "cmp qword ptr [r12], 0",
    "jne 8f",
    "inc ebx",
    "cmp ebx, 10000",
    "ja 8f",
    "mov eax, 35", // nanosleep(1 ms, NULL)
    "lea rdi, [r12 + 144]",
    "xor esi, esi",
    "syscall",
    "jmp 5b",
    "30:",
    "mov eax, 238", // set_mempolicy(MPOL_DEFAULT, NULL, 0)
    "xor edi, edi",
    "xor esi, esi",
    "xor edx, edx",
    "syscall",
    "31: call 40f", // the scan that marks
    "mov r13, rax",
    "mov eax, 98", // getrusage(RUSAGE_THREAD, usage)
    "mov edi, 1",
    "lea rsi, [r12 + 256]",
    "syscall",
    "cmp qword ptr [r12 + 320], 0", // minor faults
    "jne 32f",
    "cmp r13, [r12 + 160]",
    "jb 31b",
    "jmp 8f",
    "32: mov [r12 + 168], r15", // marked
    "8: mov eax, 60",           // exit
    "xor edi, edi",
    "syscall",
    "40: mov ecx, 2000", // a while later: clock_gettime(CLOCK_THREAD_CPUTIME_ID, now), in nanoseconds in rax
    "41: pause",
    "dec ecx",
    "jnz 41b",
    "mov eax, 228",
    "mov edi, 3",
    "lea rsi, [r12 + 56]",
    "syscall",
    "imul rax, qword ptr [r12 + 56], 1000000000",
    "add rax, [r12 + 64]",
    "ret",
    "homing_scanner_end:",
    ".popsection",
);

extern "C" {
    static homing_scanner_begin: u8;
    static homing_scanner_end: u8;
}

fn code() -> &'static [u8] {
    // SAFETY: both labels bound one stretch of read-only bytes of this program.
    unsafe {
        let (begin, end) = (&raw const homing_scanner_begin, &raw const homing_scanner_end);
        std::slice::from_raw_parts(begin, end.offset_from(begin) as usize)
    }
}

/// Offsets in the control page. Stacks end at 1536 (go-between), 2048 (pass) and 3072 (helper); from 256 on is a
/// `struct rusage`.
mod control {
    pub const STOP: u64 = 0;
    pub const COUNT_NS: u64 = 8;
    pub const BEAT: u64 = 16;
    pub const ENDED: u64 = 24;
    pub const SIGNALS: u64 = 32;
    pub const SLEEP: u64 = 40;
    pub const GRANT: u64 = 72;
    pub const NAME: u64 = 80;
    pub const PROGRAM: u64 = 96;
    pub const HELPER: u64 = 104;
    pub const USED: u64 = 112;
    pub const GO: u64 = 120;
    pub const SCRATCH: u64 = 128;
    pub const READY: u64 = 136;
    pub const SHORT_SLEEP: u64 = 144;
    pub const PASS_NS: u64 = 160;
    pub const MARKED: u64 = 168;
    pub const STACK: u64 = 1536;
}

/// What came of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The kernel has marked pages.
    Marked,
    /// It did not within the pass's CPU time: balancing is off, or another thread was let in.
    Nothing,
}

const PAGE: u64 = 4096;
/// What the helper shares with the program.
const SHARED: libc::c_int = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES;

/// CPU time of the scan that counts: 9 ms until a pass may scan, and a tick of 250 Hz.
const COUNT_NS: u64 = 13_500_000;

/// CPU time after which a pass gives up.
const PASS_NS: u64 = 60_000_000;

/// The helper of one process. Dropping it lets the helper end; [`Scanner::end`] also takes its memory away.
#[derive(Debug)]
pub struct Scanner {
    pid: Pid,
    helper: Pid,
    memory: File,
    /// Address of the control page; the code is on the page before it.
    control: u64,
    beat: u64,
    grants: u64,
}

impl Scanner {
    /// Starts the helper. What memory policy the program's threads have is the caller's to set.
    ///
    /// # Errors
    /// EPERM if the process may not be traced, ESRCH if it has ended, what `mmap`, `mprotect` and `clone` give inside it
    /// (a seccomp filter may forbid them).
    pub fn start(proc: &Proc, pid: Pid) -> io::Result<Scanner> {
        let memory = ptrace::memory(pid)?;
        let [helper, control] = guarded(|| Scanner::inject(proc, pid, &memory))?;
        let helper = find_helper(proc, pid, Pid(helper as i32))?;
        Ok(Scanner { pid, helper, memory, control, beat: 0, grants: 0 })
    }

    /// Makes memory and helper; gives the helper, and the address of the control page.
    fn inject(proc: &Proc, pid: Pid, memory: &File) -> io::Result<Values> {
        let mut caller = Caller::of_any(proc, pid, memory)?;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let base = caller.call(libc::SYS_mmap, &[0, 2 * PAGE, writable, flags, u64::MAX, 0])?;
        match Scanner::launch(&mut caller, base) {
            Ok(helper) => Ok([helper.0 as u64, base + PAGE]),
            Err(error) => {
                // Best effort: the process keeps two unused pages at worst.
                let _ = caller.call(libc::SYS_munmap, &[base, 2 * PAGE]);
                Err(error)
            }
        }
    }

    fn launch(caller: &mut Caller<'_>, base: u64) -> io::Result<Pid> {
        let (control, memory) = (base + PAGE, caller.memory());
        memory.write_all_at(code(), base)?;
        let put = |offset: u64, value: u64| memory.write_all_at(&value.to_ne_bytes(), control + offset);
        put(control::COUNT_NS, COUNT_NS)?;
        put(control::PASS_NS, PASS_NS)?;
        put(control::SHORT_SLEEP + 8, 1_000_000)?;
        put(control::SIGNALS, u64::MAX)?;
        put(control::SLEEP + 8, 5_000_000)?;
        memory.write_all_at(format!("{SCANNER_NAME}\0").as_bytes(), control + control::NAME)?;
        // Its own number as the program sees it, which in a container is another than ours.
        put(control::PROGRAM, caller.call(libc::SYS_getpid, &[])?)?;
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        caller.call(libc::SYS_mprotect, &[base, PAGE, executable])?;
        let stack = control + control::STACK;
        let between = caller.clone_into(base, &[SHARED as u64, stack], control)?;
        caller.call(libc::SYS_wait4, &[between, 0, libc::__WALL as u64, 0])?;
        let mut helper = [0; 8];
        memory.read_exact_at(&mut helper, control + control::HELPER)?;
        match i64::from_ne_bytes(helper) {
            error if error <= 0 => Err(io::Error::from_raw_os_error(-error as i32)),
            helper => Ok(Pid(helper as i32)),
        }
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
        self.control + control::SCRATCH
    }

    /// Tells the helper that the engine lives. Must be called more often than every ten seconds.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn beat(&mut self) -> io::Result<()> {
        self.beat += 1;
        self.put(control::BEAT, self.beat)
    }

    /// Lets the helper begin a pass, if it has none.
    ///
    /// # Errors
    /// As for [`Scanner::beat`]; ESRCH if the helper has ended.
    pub fn begin_pass(&mut self, proc: &Proc) -> io::Result<()> {
        if !is_helper(proc, self.pid, self.helper) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        if self.get(control::USED)? == self.grants {
            self.grants += 1;
            self.put(control::GRANT, self.grants)?;
        }
        self.beat()
    }

    /// True once the pass has counted and waits for its go, or has ended.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn ready(&self) -> io::Result<bool> {
        Ok(self.get(control::READY)? == self.grants || self.get(control::USED)? == self.grants)
    }

    /// Lets the pass mark pages.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn go(&mut self) -> io::Result<()> {
        self.put(control::GO, self.grants)
    }

    /// What came of the last pass; `None` while it is at work.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn passed(&self) -> io::Result<Option<Pass>> {
        let ended = self.get(control::USED)? == self.grants;
        let marked = self.get(control::MARKED)? == self.grants;
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

    /// Ends the helper, waits for that, and gives its memory back.
    ///
    /// # Errors
    /// If the process has ended meanwhile, which is as good, or the helper does not end within two seconds; then its
    /// memory is left, because unmapping it under a running helper would end the program.
    pub fn end(self, proc: &Proc) -> io::Result<()> {
        self.put(control::STOP, 1)?;
        for _ in 0..400 {
            let state = proc.stat(self.helper, Tid(self.helper.0)).map(|stat| stat.state);
            if self.get(control::ENDED)? == 1 && !matches!(state, Ok(running) if running != 'Z') {
                return guarded(|| self.unmap(proc)).map(drop);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the scanning helper did not end within two seconds"))
    }
}

impl Scanner {
    fn unmap(&self, proc: &Proc) -> io::Result<Values> {
        let mut caller = Caller::of_any(proc, self.pid, &self.memory)?;
        caller.call(libc::SYS_munmap, &[self.control - PAGE, 2 * PAGE])?;
        Ok([0; 2])
    }
}

/// True if a process is another one with the memory of `pid`. What the program's memory says of its helper is not to be trusted: the
/// program can write there.
fn is_helper(proc: &Proc, pid: Pid, helper: Pid) -> bool {
    let alive = proc.stat(helper, Tid(helper.0)).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'));
    helper != pid && alive && same_memory(pid, helper) == Some(true)
}

/// The helper of `pid`, which knows it by the number `inside`. In a container that is another one than ours.
fn find_helper(proc: &Proc, pid: Pid, inside: Pid) -> io::Result<Pid> {
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
        // A process that has ended needs no telling.
        let _ = self.put(control::STOP, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::super::settled_child;
    use super::*;
    use std::time::{Duration, Instant};

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_helper_scans_in_another_process_and_leaves_no_trace() {
        let mut child = settled_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let maps = proc.maps(pid).unwrap();
        let mut scanner = Scanner::start(&proc, pid).unwrap();
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
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_helper_ends_with_its_program() {
        let mut child = settled_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let scanner = Scanner::start(&proc, pid).unwrap();
        let helper = scanner.helper();
        child.kill().unwrap();
        child.wait().unwrap();
        until("gone", || proc.stat(helper, Tid(helper.0)).map_or(true, |stat| stat.state == 'Z'));
        drop(scanner);
    }

    #[test]
    fn processes_that_ended_give_errors() {
        assert!(Scanner::start(&Proc::default(), Pid(i32::MAX)).is_err());
    }
}
