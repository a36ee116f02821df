//! A thread of ours inside a process, which makes the kernel's NUMA scanner unmap the process's pages.
//!
//! The scanner runs in the context of whichever thread of the process the scheduler's tick finds, looks at the memory
//! policy of *that* thread (`vma_policy_mof`), and marks pages so that the next access faults. At the fault the kernel
//! looks at the policy of the *faulting* thread (`mpol_misplaced`). So with one thread of default policy that does
//! nothing but take ticks, and `MPOL_LOCAL` (which allocates as the default does) for all others, pages get marked, every
//! access to a marked page is a fault that perf can sample, and the kernel moves nothing.
//!
//! The thread needs some CPU time to be found by a tick: it spins until its CPU time reaches a goal that the engine sets
//! (4 ms or so a scan), and sleeps otherwise. It ends when told, and by itself when the engine's heartbeat stops for ten
//! seconds, so that a killed engine leaves nothing behind but two pages of memory.

use super::SCANNER_NAME;
use crate::policy;
use crate::proc::{Pid, Proc, Tid};
use crate::ptrace::{self, Held};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

// The code is position-independent and reaches its data through r12 alone. Offsets are those of `control`.
std::arch::global_asm!(
    ".pushsection .rodata",
    ".global homing_scanner_begin",
    ".global homing_scanner_end",
    "homing_scanner_begin:",
    "syscall", // clone
    "test rax, rax",
    "jz 2f",
    "int3",
    "2: mov eax, 14", // rt_sigprocmask(SIG_SETMASK, all, NULL, 8)
    "mov edi, 2",
    "lea rsi, [r12 + 32]",
    "xor edx, edx",
    "mov r10d, 8",
    "syscall",
    "mov eax, 238", // set_mempolicy(MPOL_DEFAULT, NULL, 0)
    "xor edi, edi",
    "xor esi, esi",
    "xor edx, edx",
    "syscall",
    "mov eax, 157", // prctl(PR_SET_NAME, name)
    "mov edi, 15",
    "lea rsi, [r12 + 80]",
    "syscall",
    "xor r13d, r13d", // rounds without a heartbeat
    "mov r14, [r12 + 16]",
    "3: cmp qword ptr [r12], 0",
    "jne 9f",
    "mov eax, 228", // clock_gettime(CLOCK_THREAD_CPUTIME_ID, now)
    "mov edi, 3",
    "lea rsi, [r12 + 56]",
    "syscall",
    "imul rax, qword ptr [r12 + 56], 1000000000",
    "add rax, [r12 + 64]",
    "mov [r12 + 72], rax",
    "cmp rax, [r12 + 8]",
    "jae 5f",
    "mov ecx, 2000",
    "4: pause",
    "dec ecx",
    "jnz 4b",
    "jmp 3b",
    "5: mov eax, 35", // nanosleep(10 ms, NULL)
    "lea rdi, [r12 + 40]",
    "xor esi, esi",
    "syscall",
    "mov rax, [r12 + 16]",
    "cmp rax, r14",
    "jne 6f",
    "inc r13",
    "cmp r13, 1000",
    "jae 9f",
    "jmp 3b",
    "6: mov r14, rax",
    "xor r13d, r13d",
    "jmp 3b",
    "9: mov qword ptr [r12 + 24], 1",
    "mov eax, 60", // exit(0): this thread alone
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

/// Offsets in the control page.
mod control {
    pub const STOP: u64 = 0;
    pub const GOAL: u64 = 8;
    pub const BEAT: u64 = 16;
    pub const ENDED: u64 = 24;
    pub const SIGNALS: u64 = 32;
    pub const SLEEP: u64 = 40;
    pub const USED: u64 = 72;
    pub const NAME: u64 = 80;
    pub const SCRATCH: u64 = 128;
}

const PAGE: u64 = 4096;
/// What threads of one process share, without a new process: clone(2).
const THREAD: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// The scanning thread of one process. Dropping it lets the thread end; [`Scanner::end`] also takes its memory away.
#[derive(Debug)]
pub struct Scanner {
    pid: Pid,
    tid: Tid,
    memory: File,
    /// Address of the control page; the code is on the page before it, the stack is its end.
    control: u64,
    beat: u64,
    goal: u64,
}

impl Scanner {
    /// Starts the thread inside a process. What memory policy its other threads have is the caller's to set.
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
        let control = base + PAGE;
        let tid = Scanner::launch(&mut held, instruction, &memory, base);
        let tid = match tid {
            Ok(tid) => tid,
            Err(error) => {
                // Best effort: the process keeps two unused pages at worst.
                let _ = held.call(instruction, libc::SYS_munmap, &[base, 2 * PAGE]);
                return Err(error);
            }
        };
        drop(held);
        Ok(Scanner { pid, tid, memory, control, beat: 0, goal: 0 })
    }

    fn launch(held: &mut Held, instruction: u64, memory: &File, base: u64) -> io::Result<Tid> {
        let control = base + PAGE;
        memory.write_all_at(code(), base)?;
        let put = |offset: u64, value: u64| memory.write_all_at(&value.to_ne_bytes(), control + offset);
        put(control::SIGNALS, u64::MAX)?;
        put(control::SLEEP, 0)?;
        put(control::SLEEP + 8, 10_000_000)?;
        memory.write_all_at(format!("{SCANNER_NAME}\0").as_bytes(), control + control::NAME)?;
        let executable = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        held.call(instruction, libc::SYS_mprotect, &[base, PAGE, executable])?;
        let stack = control + PAGE - 16;
        let tid = held.call_code(base, libc::SYS_clone, &[THREAD as u64, stack], &[control])?;
        Ok(Tid(tid as i32))
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The process.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Address of eight bytes in the process that are free for use.
    pub fn scratch(&self) -> u64 {
        self.control + control::SCRATCH
    }

    /// Tells the thread that the engine lives. Must be called more often than every ten seconds.
    ///
    /// # Errors
    /// If the process has ended or executed another program.
    pub fn beat(&mut self) -> io::Result<()> {
        self.beat += 1;
        self.put(control::BEAT, self.beat)
    }

    /// Lets the thread use `nanoseconds` more of CPU time, in which ticks find it and the kernel scans. What it has not
    /// used yet of an earlier grant is forgotten.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn scan(&mut self, nanoseconds: u64) -> io::Result<()> {
        self.goal = self.used()? + nanoseconds;
        self.put(control::GOAL, self.goal)?;
        self.beat()
    }

    /// CPU time that the thread has used, in ns.
    ///
    /// # Errors
    /// As for [`Scanner::beat`].
    pub fn used(&self) -> io::Result<u64> {
        self.get(control::USED)
    }

    /// True if the CPU time granted is used up.
    pub fn idle(&self) -> io::Result<bool> {
        Ok(self.used()? >= self.goal)
    }

    fn get(&self, offset: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, self.control + offset)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    fn put(&self, offset: u64, value: u64) -> io::Result<()> {
        self.memory.write_all_at(&value.to_ne_bytes(), self.control + offset)
    }

    /// Lets the thread run on any of these CPUs, whatever it inherited.
    ///
    /// # Errors
    /// What `sched_setaffinity(2)` gives.
    pub fn spread(&self, cpus: &[u32]) -> io::Result<()> {
        policy::set_affinity(self.tid, cpus)
    }

    /// Ends the thread, waits for that, and gives its memory back.
    ///
    /// # Errors
    /// If the process has ended meanwhile, which is as good, or the thread does not end within a second.
    pub fn end(self, proc: &Proc) -> io::Result<()> {
        self.put(control::STOP, 1)?;
        for _ in 0..100 {
            let over = self.get(control::ENDED)? == 1 && proc.stat(self.pid, self.tid).is_err();
            if over {
                let instruction = ptrace::syscall_instruction(proc, self.pid, &self.memory)?;
                let mut held = Held::hold(Tid(self.pid.0))?;
                held.call(instruction, libc::SYS_munmap, &[self.control - PAGE, 2 * PAGE])?;
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the scanning thread did not end within a second"))
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
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn until(what: &str, mut done: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !done() {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_thread_scans_in_another_process_and_leaves_no_trace() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        // Once it echoes it has made its last mapping.
        let (mut input, mut echo) = (child.stdin.take().unwrap(), [0; 1]);
        input.write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut echo).unwrap();
        let maps = proc.maps(pid).unwrap();
        let mut scanner = Scanner::start(&proc, pid).unwrap();
        until("named", || proc.stat(pid, scanner.tid()).is_ok_and(|stat| stat.name == SCANNER_NAME));
        assert_eq!(proc.tasks(pid).unwrap().len(), 2);
        scanner.scan(20_000_000).unwrap();
        until("uses what it is granted", || scanner.idle().unwrap());
        let used = scanner.used().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(scanner.used().unwrap() < used + 20_000_000, "and then sleeps");
        scanner.end(&proc).unwrap();
        assert_eq!(proc.tasks(pid).unwrap().len(), 1);
        assert_eq!(proc.maps(pid).unwrap(), maps);
        drop(input);
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn processes_that_ended_give_errors() {
        assert!(Scanner::start(&Proc::default(), Pid(i32::MAX)).is_err());
    }
}
