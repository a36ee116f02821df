//! System calls made in the name of a thread that stands still.
//!
//! No signal of the program's own plays a part: the thread is followed into the call and out of it by system-call
//! stops, never by single steps or breakpoints. Its registers come back at a stop like the one they were taken at, so
//! that the kernel begins a call again that the thread was waiting in. All signals that the kernel can hold back are
//! blocked meanwhile, stay pending with their siginfo, and are delivered afterwards. One that cannot be blocked is
//! delivered at once, with the thread's own registers and mask, and the call is made after that.

use super::filters;
use super::held::Held;
use super::request::{self, Resume};
use super::stop::{self, Stop};
use super::unsupported;
use crate::fail::{self, Call};
use crate::proc::{Pid, Proc, Tid};
use libc::user_regs_struct as Registers;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long a call may take. A thread whose call is under way cannot be let go: it would run on with registers that are
/// ours.
const PATIENCE: Duration = Duration::from_secs(600);

/// How long a thread of a process is given to leave the kernel before another one is asked, and how long it is looked
/// for one that runs.
const LEAVES: Duration = Duration::from_millis(500);
const AWAKE: Duration = Duration::from_millis(20);

/// How often a call is made again that a signal came before.
const ATTEMPTS: u32 = 1000;

/// Signals that a fault in the called code would raise. If they were blocked, a fault would take their handlers away.
const FAULTS: [i32; 4] = [libc::SIGSEGV, libc::SIGILL, libc::SIGBUS, libc::SIGSYS];

/// All signals but those of [`FAULTS`]: signal n is bit n - 1. The kernel leaves out SIGKILL and SIGSTOP itself.
fn all_but_faults() -> u64 {
    FAULTS.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)))
}

/// What a thread has while it is not calling for us.
#[derive(Clone, Copy, Debug)]
struct Saved {
    registers: Registers,
    mask: u64,
    /// A call such as `sigsuspend` has put another mask in the place of `mask` for the time it waits.
    another_mask: bool,
}

/// A thread that stands still and makes system calls for us. Dropping it lets the thread go on as it was, and deliver
/// the signals that came meanwhile.
#[derive(Debug)]
pub struct Caller<'a> {
    held: Held,
    proc: &'a Proc,
    pid: Pid,
    memory: &'a File,
    /// Address of a `syscall` instruction in the process.
    instruction: u64,
    saved: Saved,
}

/// Why a call gave no result.
enum Failure {
    /// This signal came before the call was made.
    Signal(i32),
    Error(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Error(error)
    }
}

impl<'a> Caller<'a> {
    /// Stops a thread, to make calls in its name. `memory` is the memory of its process, opened before: should the
    /// process go on to another program meanwhile, that one's memory is out of reach.
    ///
    /// # Errors
    /// As for [`Held::hold`]; Unsupported if it is no 64-bit program, has no vdso, or has filters for system calls that
    /// cannot be suspended.
    pub fn of(
        proc: &'a Proc,
        pid: Pid,
        tid: Tid,
        memory: &'a File,
        deadline: Instant,
    ) -> io::Result<Caller<'a>> {
        Caller::new(proc, pid, Held::hold(proc, pid, tid, deadline)?, memory)
    }

    /// As [`Caller::of`], with whichever thread of the process can be stopped, the first one if possible.
    ///
    /// # Errors
    /// EAGAIN if none runs outside of the kernel; ESRCH if the process has ended; else those of [`Caller::of`].
    pub fn of_any(proc: &'a Proc, pid: Pid, memory: &'a File) -> io::Result<Caller<'a>> {
        let begin = Instant::now();
        let mut late = BTreeSet::new();
        loop {
            let tasks = proc.tasks(pid).map_err(super::to_io)?;
            for tid in tasks.into_iter().filter(|tid| !late.contains(tid)).collect::<Vec<Tid>>() {
                match Caller::of(proc, pid, tid, memory, Instant::now() + LEAVES) {
                    Ok(caller) => return Ok(caller),
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => drop(late.insert(tid)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if super::ended(proc, pid, tid) => drop(error),
                    Err(error) => return Err(error),
                }
            }
            if begin.elapsed() >= AWAKE {
                proc.process_stat(pid).map_err(super::to_io)?;
                return Err(io::Error::from_raw_os_error(libc::EAGAIN));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops a helper of ours that has one thread, whatever it waits in.
    ///
    /// # Errors
    /// As for [`Caller::of`].
    pub fn of_helper(proc: &'a Proc, helper: Pid, memory: &'a File) -> io::Result<Caller<'a>> {
        Caller::new(proc, helper, Held::interrupt(Tid(helper.0))?, memory)
    }

    fn new(proc: &'a Proc, pid: Pid, held: Held, memory: &'a File) -> io::Result<Caller<'a>> {
        filters::suspend(proc, pid, held.tid())?;
        let instruction = syscall_instruction(proc, pid, memory)?;
        let saved = save(proc, pid, held.tid(), memory)?;
        Ok(Caller { held, proc, pid, memory, instruction, saved })
    }

    /// Lets the thread end by `exit(2)` instead of going on.
    ///
    /// # Errors
    /// Those of ptrace.
    pub fn exit(mut self) -> io::Result<()> {
        let registers = &mut self.saved.registers;
        (registers.rip, registers.orig_rax) = (self.instruction, u64::MAX);
        (registers.rax, registers.rdi) = (libc::SYS_exit as u64, 0);
        request::set_registers(self.held.tid(), &self.saved.registers)
    }

    /// The memory of the process.
    pub fn memory(&self) -> &'a File {
        self.memory
    }

    /// Makes a system call.
    ///
    /// # Errors
    /// The error of the call, or of ptrace.
    pub fn call(&mut self, number: i64, arguments: &[u64]) -> io::Result<u64> {
        self.call_at(self.instruction, number, arguments, None, all_but_faults())
    }

    /// Runs code of our own up to the end of its first system call, a `clone`, whose child goes on with the code. The
    /// child blocks all signals and has `r12` in that register.
    ///
    /// # Errors
    /// As for [`Caller::call`].
    pub fn call_code(&mut self, code: u64, r12: u64) -> io::Result<u64> {
        self.call_at(code, libc::SYS_clone, &[], Some(r12), u64::MAX)
    }

    fn call_at(
        &mut self,
        at: u64,
        number: i64,
        arguments: &[u64],
        r12: Option<u64>,
        blocked: u64,
    ) -> io::Result<u64> {
        fail::point(Call::Ptrace)?;
        let argument = |index: usize| arguments.get(index).copied().unwrap_or_default();
        for _ in 0..ATTEMPTS {
            let mut registers = self.saved.registers;
            registers.rip = at;
            registers.rax = number as u64;
            // Not in a system call, so the kernel does not begin one again here.
            registers.orig_rax = u64::MAX;
            [registers.rdi, registers.rsi, registers.rdx] = [0, 1, 2].map(argument);
            [registers.r10, registers.r8, registers.r9] = [3, 4, 5].map(argument);
            registers.r12 = r12.unwrap_or(registers.r12);
            match self.attempt(&registers, blocked) {
                Ok(result) if (-4095..0).contains(&(result as i64)) => match -(result as i64) as i32 {
                    // Interrupted by something that was pending: the kernel would make the call again.
                    512..=516 => {}
                    errno => return Err(io::Error::from_raw_os_error(errno)),
                },
                Ok(result) => return Ok(result),
                Err(Failure::Signal(signal)) => self.deliver(signal)?,
                Err(Failure::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other(format!("signals kept {ATTEMPTS} attempts at a system call from being made")))
    }

    /// Makes a call with these registers and gives what is in rax after it. The thread has its own registers then,
    /// whatever happened; its signals are blocked still, unless one has come.
    fn attempt(&self, registers: &Registers, blocked: u64) -> Result<u64, Failure> {
        let tid = self.held.tid();
        request::set_signal_mask(tid, blocked)?;
        request::set_registers(tid, registers)?;
        let result = self.follow_call().and_then(|()| Ok(request::registers(tid)?.rax));
        match &result {
            // It is about to take the signal, with the registers and the mask that its handler is to come back to.
            Err(Failure::Signal(_)) => self.restore()?,
            _ => {
                // Where the thread stands after a call, the kernel does not look whether one is to be begun again.
                request::interrupt(tid)?;
                request::resume(tid, Resume::Run, 0)?;
                self.held.wait(deadline())?;
                request::set_registers(tid, &self.saved.registers)?;
            }
        }
        result
    }

    fn follow_call(&self) -> Result<(), Failure> {
        self.next_system_call_stop()?;
        self.next_system_call_stop()
    }

    fn next_system_call_stop(&self) -> Result<(), Failure> {
        let tid = self.held.tid();
        request::resume(tid, Resume::ToSystemCall, 0)?;
        loop {
            match stop::wait(tid, deadline())? {
                Stop::SystemCall => return Ok(()),
                // The process is stopped by a signal, or no longer: this thread takes part in that once it is let go.
                Stop::Event => request::resume(tid, Resume::ToSystemCall, 0)?,
                Stop::Signal(signal) if FAULTS.contains(&signal) && self.is_of_the_call(signal)? => {
                    let message = format!("a system call in the process was refused with signal {signal}");
                    return Err(io::Error::other(message).into());
                }
                Stop::Signal(signal) => return Err(Failure::Signal(signal)),
            }
        }
    }

    /// Whether a fault comes from our call. One of the program's own instruction may have been pending when the thread
    /// was stopped, as at a safepoint of a Java machine: it is the program's, like any other signal.
    fn is_of_the_call(&self, signal: i32) -> io::Result<bool> {
        let info = request::signal_info(self.held.tid())?;
        // A filter of system calls gives SIGSYS, and the fetch of an instruction faults at its own address.
        // SAFETY: the kernel fills in the address for faults.
        let address = unsafe { info.si_addr() } as u64;
        let fetched = || Ok::<_, io::Error>(request::registers(self.held.tid())?.rip == address);
        Ok(info.si_code > 0 && (signal == libc::SIGSYS || fetched()?))
    }

    /// Delivers a signal that the thread is about to take, and stops it at the first instruction of its handler.
    fn deliver(&mut self, signal: i32) -> io::Result<()> {
        let tid = self.held.tid();
        request::interrupt(tid)?;
        request::resume(tid, Resume::Run, signal)?;
        self.held.wait(deadline())?;
        self.saved = save(self.proc, self.pid, tid, self.memory)?;
        Ok(())
    }

    fn restore(&self) -> io::Result<()> {
        let tid = self.held.tid();
        request::set_registers(tid, &self.saved.registers)?;
        request::set_signal_mask(tid, self.saved.mask)
    }

    /// Gives the thread its mask back. Within a call such as `sigsuspend` that is the mask from before it, under which
    /// other signals might be delivered than those that the call waits for: so the call is begun again first.
    fn unblock(&self) -> io::Result<()> {
        let tid = self.held.tid();
        if self.saved.another_mask && restarts(&self.saved.registers) {
            request::set_signal_mask(tid, u64::MAX)?;
            request::resume(tid, Resume::ToSystemCall, 0)?;
            loop {
                match stop::wait(tid, deadline())? {
                    Stop::SystemCall => break,
                    Stop::Event => request::resume(tid, Resume::ToSystemCall, 0)?,
                    // SIGSTOP, which cannot be blocked.
                    Stop::Signal(signal) => request::resume(tid, Resume::ToSystemCall, signal)?,
                }
            }
        }
        request::set_signal_mask(tid, self.saved.mask)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // A thread that has ended has nothing to get back.
        let _ = self.unblock();
    }
}

fn deadline() -> Instant {
    Instant::now() + PATIENCE
}

/// True if the thread runs 64-bit code: other code has other numbers for system calls.
fn is_long_mode(registers: &Registers) -> bool {
    const USER_CS: u64 = 0x33;
    const X32: u64 = 0x4000_0000;
    registers.cs == USER_CS && (registers.orig_rax == u64::MAX || registers.orig_rax & X32 == 0)
}

/// True if the kernel will begin this thread's system call again.
fn restarts(registers: &Registers) -> bool {
    // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK of linux/errno.h.
    registers.orig_rax != u64::MAX && [-512, -513, -514, -516].contains(&(registers.rax as i64))
}

/// What a held thread is to get back.
fn save(proc: &Proc, pid: Pid, tid: Tid, memory: &File) -> io::Result<Saved> {
    let mut registers = request::registers(tid)?;
    if !is_long_mode(&registers) {
        return Err(unsupported("the thread does not run 64-bit code"));
    }
    if registers.orig_rax == u64::MAX {
        registers.rip = restartable_sequence(tid, memory, registers.rip)?.unwrap_or(registers.rip);
    }
    let mask = request::signal_mask(tid)?;
    let another_mask = proc.thread_status(pid, tid).map_err(super::to_io)?.blocked != mask;
    Ok(Saved { registers, mask, another_mask })
}

/// Where a thread goes on that was stopped within a restartable sequence (rseq(2)): at the address that the sequence
/// gives for that, as after every preemption. The kernel would see to it, did it not find the thread at another place,
/// in the middle of our call.
fn restartable_sequence(tid: Tid, memory: &File, at: u64) -> io::Result<Option<u64>> {
    let area = match request::rseq_area(tid) {
        Ok(0) => return Ok(None),
        Ok(area) => area,
        Err(error) if error.raw_os_error() == Some(libc::EIO) => {
            return if kernel_has_rseq() {
                Err(unsupported("the kernel does not report restartable sequences: needs Linux 5.13"))
            } else {
                Ok(None)
            };
        }
        Err(error) => return Err(error),
    };
    let words = |address: u64, words: &mut [u64]| -> io::Result<()> {
        words.iter_mut().zip((address..).step_by(8)).try_for_each(|(word, address)| {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, address)?;
            *word = u64::from_ne_bytes(bytes);
            Ok(())
        })
    };
    // struct rseq and struct rseq_cs of linux/rseq.h.
    let mut sequence = [0];
    words(area + 8, &mut sequence)?;
    if sequence[0] == 0 {
        return Ok(None);
    }
    let mut description = [0; 4];
    words(sequence[0], &mut description)?;
    let [_, start, length, abort] = description;
    Ok((at.wrapping_sub(start) < length).then_some(abort))
}

/// Whether this kernel has restartable sequences at all.
fn kernel_has_rseq() -> bool {
    // SAFETY: with no area the call changes nothing and gives EINVAL, or ENOSYS.
    unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) };
    io::Error::last_os_error().raw_os_error() != Some(libc::ENOSYS)
}

/// Where the process has a `syscall` instruction: in its vdso.
fn syscall_instruction(proc: &Proc, pid: Pid, memory: &File) -> io::Result<u64> {
    let maps = proc.maps(pid).map_err(super::to_io)?;
    let none = || unsupported("the process has no vdso to make system calls from");
    let vdso = maps.iter().find(|mapping| mapping.name == "[vdso]").ok_or_else(none)?;
    let mut bytes = vec![0; (vdso.end - vdso.start) as usize];
    memory.read_exact_at(&mut bytes, vdso.start)?;
    let at = bytes.windows(2).position(|pair| pair == [0x0f, 0x05]).ok_or_else(none)?;
    Ok(vdso.start + at as u64)
}
