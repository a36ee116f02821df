//! A helper process that shares a process's memory and makes the kernel's NUMA scanner unmap its pages.
//!
//! The kernel scans in the context of whichever thread with that memory the scheduler's tick finds, looks at the memory
//! policy of *that* thread (`vma_policy_mof`), and marks pages so that the next access faults. At the fault it looks at
//! the policy of the *faulting* thread (`mpol_misplaced`). So with one thread of default policy that does nothing but
//! take ticks, and `MPOL_LOCAL` (which allocates as the default does) for all others, pages get marked, every access to a
//! marked page is a fault that perf can sample, and the kernel moves nothing.
//!
//! Three more rules of mm/kernel/sched/fair.c (6.12, `task_numa_work`) shape it:
//! * a mapping is scanned again by a thread that took no fault in it only when the count of passes has grown by more
//!   than the threads of its process: so the helper is a process of its own with one thread, not a thread of the
//!   program's, and before each pass that marks it makes one that does not (with policy `MPOL_LOCAL`), which only counts;
//! * after a pass a thread must run 32 times as long as the pass took before it may scan again: so each pass is made by
//!   a fresh process;
//! * a fresh process may scan after 13 ms of CPU time and a tick: that is what a pass costs.
//!
//! The helper ends when told, when the program is gone, and by itself when the engine's heartbeat stops for ten seconds,
//! so that a killed engine leaves nothing behind but two pages of memory. Its parent is init, which reaps it.

use super::SCANNER_NAME;
use crate::policy;
use crate::proc::{Pid, Proc, Tid};
use crate::ptrace::{self, Held};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

// The code is position-independent, uses no stack, and reaches its data through r12 alone, at the offsets of `control`.
std::arch::global_asm!(
    ".pushsection .rodata",
    ".global homing_scanner_begin",
    ".global homing_scanner_end",
    "homing_scanner_begin:",
    "syscall", // clone: the go-between, whose end gives the helper to init
    "test rax, rax",
    "jz 2f",
    "int3",
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
    "xor ebx, ebx", // rounds without a heartbeat
    "mov r14, [r12 + 16]",
    "xor r15d, r15d", // grants used up
    "4: cmp qword ptr [r12], 0",
    "jne 9f",
    "mov rax, [r12 + 72]",
    "cmp rax, r15",
    "je 6f",
    "mov r15, rax",
    "mov edi, 4", // the first pass with MPOL_LOCAL, the second with MPOL_DEFAULT
    "mov r13d, 2",
    "5: mov eax, 238", // set_mempolicy(edi, NULL, 0)
    "xor esi, esi",
    "xor edx, edx",
    "syscall",
    "mov eax, 56", // clone: a process for one pass
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
    "xor edi, edi",
    "dec r13d",
    "jnz 5b",
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
    "7: mov eax, 228", // one pass: clock_gettime(CLOCK_THREAD_CPUTIME_ID, now) until the time is used
    "mov edi, 3",
    "lea rsi, [r12 + 56]",
    "syscall",
    "imul rax, qword ptr [r12 + 56], 1000000000",
    "add rax, [r12 + 64]",
    "cmp rax, [r12 + 8]",
    "jae 8f",
    "mov ecx, 2000",
    "10: pause",
    "dec ecx",
    "jnz 10b",
    "jmp 7b",
    "8: mov eax, 60", // exit
    "xor edi, edi",
    "syscall",
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

/// Offsets in the control page. Stacks, of which nothing is used, end at 1536 (go-between), 2048 and 3072.
mod control {
    pub const STOP: u64 = 0;
    pub const PASS_NS: u64 = 8;
    pub const BEAT: u64 = 16;
    pub const ENDED: u64 = 24;
    pub const SIGNALS: u64 = 32;
    pub const SLEEP: u64 = 40;
    pub const GRANT: u64 = 72;
    pub const NAME: u64 = 80;
    pub const PROGRAM: u64 = 96;
    pub const HELPER: u64 = 104;
    pub const USED: u64 = 112;
    pub const SCRATCH: u64 = 128;
    pub const STACK: u64 = 1536;
}

const PAGE: u64 = 4096;
/// What the helper shares with the program.
const SHARED: libc::c_int = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES;

/// CPU time of one pass: 13 ms until a fresh process may scan, and a tick of 250 Hz or more after that.
const PASS_NS: u64 = 19_000_000;

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
        let instruction = ptrace::syscall_instruction(proc, pid, &memory)?;
        let mut held = Held::hold(Tid(pid.0))?;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let base = held.call(instruction, libc::SYS_mmap, &[0, 2 * PAGE, writable, flags, u64::MAX, 0])?;
        match Scanner::launch(&mut held, instruction, &memory, base) {
            Ok(helper) => Ok(Scanner { pid, helper, memory, control: base + PAGE, beat: 0, grants: 0 }),
            Err(error) => {
                // Best effort: the process keeps two unused pages at worst.
                let _ = held.call(instruction, libc::SYS_munmap, &[base, 2 * PAGE]);
                Err(error)
            }
        }
    }

    fn launch(held: &mut Held, instruction: u64, memory: &File, base: u64) -> io::Result<Pid> {
        let control = base + PAGE;
        memory.write_all_at(code(), base)?;
        let put = |offset: u64, value: u64| memory.write_all_at(&value.to_ne_bytes(), control + offset);
        put(control::PASS_NS, PASS_NS)?;
        put(control::SIGNALS, u64::MAX)?;
        put(control::SLEEP + 8, 5_000_000)?;
        memory.write_all_at(format!("{SCANNER_NAME}\0").as_bytes(), control + control::NAME)?;
        // Its own number as the program sees it, which in a container is another than ours.
        put(control::PROGRAM, held.call(instruction, libc::SYS_getpid, &[])?)?;
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        held.call(instruction, libc::SYS_mprotect, &[base, PAGE, executable])?;
        let stack = control + control::STACK;
        let between = held.call_code(base, libc::SYS_clone, &[SHARED as u64, stack], &[control])?;
        held.call(instruction, libc::SYS_wait4, &[between, 0, libc::__WALL as u64, 0])?;
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

    /// Lets the helper make one scan, if it is not at one.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn scan(&mut self) -> io::Result<()> {
        if self.scans()? == self.grants {
            self.grants += 1;
            self.put(control::GRANT, self.grants)?;
        }
        self.beat()
    }

    /// Scans made so far.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn scans(&self) -> io::Result<u64> {
        self.get(control::USED)
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
                let instruction = ptrace::syscall_instruction(proc, self.pid, &self.memory)?;
                let mut held = Held::hold(Tid(self.pid.0))?;
                held.call(instruction, libc::SYS_munmap, &[self.control - PAGE, 2 * PAGE])?;
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the scanning helper did not end within two seconds"))
    }
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
        for scan in 1..=2 {
            scanner.scan().unwrap();
            until("scans", || scanner.scans().unwrap() == scan);
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
