//! Threads held still, and system calls made in their name: `ptrace(2)`.
//!
//! A [`Held`] thread runs on when it is dropped, and also when this process is killed: the kernel detaches the tracees of
//! a dead tracer. That is why threads are stopped this way and never by SIGSTOP. All requests for a thread must come
//! from the thread that seized it.

use crate::fail::{self, Call};
use crate::proc::{Pid, Proc, ProcError, Tid};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// A thread that stands still until this is dropped.
#[derive(Debug)]
pub struct Held {
    tid: Tid,
    /// A signal that came in between, to be delivered when it runs on.
    signal: i32,
    /// A requests-from-one-thread-only value must not wander.
    _here: std::marker::PhantomData<*const ()>,
}

fn request(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    fail::point(Call::Ptrace)?;
    raw(request, tid, address, data)
}

fn raw(request: libc::c_uint, tid: Tid, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests used here take integers, or point to a structure that the caller owns.
    match unsafe { libc::ptrace(request, tid.0, address, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Held {
    /// Stops a thread.
    ///
    /// # Errors
    /// EPERM if it may not be traced, or somebody else traces it; ESRCH if it has ended.
    pub fn hold(tid: Tid) -> io::Result<Held> {
        let mut held = Held::ask(tid)?;
        held.stand()?;
        Ok(held)
    }

    /// Asks a thread to stop, which it does when it next runs.
    fn ask(tid: Tid) -> io::Result<Held> {
        request(libc::PTRACE_SEIZE, tid, 0, 0)?;
        let held = Held { tid, signal: 0, _here: std::marker::PhantomData };
        raw(libc::PTRACE_INTERRUPT, tid, 0, 0)?;
        Ok(held)
    }

    /// Waits until it has.
    fn stand(&mut self) -> io::Result<()> {
        if let Stop::Signal(signal) = self.wait()? {
            self.signal = signal;
        }
        Ok(())
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Waits for the next stop.
    fn wait(&mut self) -> io::Result<Stop> {
        loop {
            let mut status = 0;
            // SAFETY: the kernel writes one integer.
            let result = unsafe { libc::waitpid(self.tid.0, &mut status, libc::__WALL) };
            if result < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            if !libc::WIFSTOPPED(status) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            let event = status >> 16;
            return Ok(if event != 0 { Stop::Event } else { Stop::Signal(libc::WSTOPSIG(status)) });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A thread that has died in between needs no detaching.
        let _ = raw(libc::PTRACE_DETACH, self.tid, 0, self.signal as usize);
    }
}

enum Stop {
    Event,
    Signal(i32),
}

/// All threads of a process, standing still until this is dropped; those that begin meanwhile are held too, those that
/// end are left out.
///
/// # Errors
/// EPERM if the process may not be traced.
pub fn hold_all(proc: &Proc, pid: Pid) -> io::Result<Vec<Held>> {
    let mut held: Vec<Held> = Vec::new();
    loop {
        let tasks = match proc.tasks(pid) {
            Ok(tasks) => tasks,
            Err(error) if error.is_gone() => return Ok(held),
            Err(error) => return Err(io::Error::other(error)),
        };
        let new: Vec<Tid> =
            tasks.into_iter().filter(|tid| held.iter().all(|held| held.tid != *tid)).collect();
        // All are asked before the first is waited for: they stop at the same time.
        let mut asked = Vec::new();
        for tid in new {
            match Held::ask(tid) {
                Ok(thread) => asked.push(thread),
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                // A zombie thread, or the first one after pthread_exit, cannot be seized.
                Err(error) if ended(proc, pid, tid) => drop(error),
                Err(error) => return Err(error),
            }
        }
        if asked.is_empty() {
            return Ok(held);
        }
        for mut thread in asked {
            match thread.stand() {
                Ok(()) => held.push(thread),
                Err(error) if ended(proc, pid, thread.tid) => drop(error),
                Err(error) => return Err(error),
            }
        }
    }
}

fn ended(proc: &Proc, pid: Pid, tid: Tid) -> bool {
    proc.stat(pid, tid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

/// True if this user may trace the process: what decides whether the engine acts on it.
///
/// # Errors
/// If the process has ended, or cannot be asked about: it is then neither ours nor denied.
pub fn may_trace(pid: Pid) -> io::Result<bool> {
    // The kernel checks PTRACE_MODE_ATTACH when a process's memory is opened for writing.
    match memory(pid) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(error),
    }
}

/// The memory of a process, for reading and writing.
pub fn memory(pid: Pid) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))
}

/// Where the process has a `syscall` instruction: in its vdso.
///
/// # Errors
/// If it has no vdso, or has ended.
#[cfg(target_arch = "x86_64")]
pub fn syscall_instruction(proc: &Proc, pid: Pid, memory: &File) -> io::Result<u64> {
    let maps = proc.maps(pid).map_err(to_io)?;
    let none =
        || io::Error::new(io::ErrorKind::Unsupported, "the process has no vdso to make system calls from");
    let vdso = maps.iter().find(|mapping| mapping.name == "[vdso]").ok_or_else(none)?;
    let mut bytes = vec![0; (vdso.end - vdso.start) as usize];
    memory.read_exact_at(&mut bytes, vdso.start)?;
    let at = bytes.windows(2).position(|pair| pair == [0x0f, 0x05]).ok_or_else(none)?;
    Ok(vdso.start + at as u64)
}

/// A `/proc` error as an I/O error, with its kind.
pub fn to_io(error: ProcError) -> io::Error {
    let kind = match &error {
        ProcError::Gone { .. } => return io::Error::from_raw_os_error(libc::ESRCH),
        ProcError::Denied { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(target_arch = "x86_64")]
impl Held {
    fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: all-zero registers are a valid value of the plain structure, which the kernel fills.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        raw(libc::PTRACE_GETREGS, self.tid, 0, &raw mut registers as usize)?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &libc::user_regs_struct) -> io::Result<()> {
        raw(libc::PTRACE_SETREGS, self.tid, 0, std::ptr::from_ref(registers) as usize)
    }

    /// Makes a system call in the thread's name and puts the thread back as it was, a call that it was blocked in
    /// included (the kernel restarts it). `instruction` is the address of a `syscall` instruction in the process.
    ///
    /// # Errors
    /// The error of the call, or of ptrace.
    pub fn call(&mut self, instruction: u64, number: i64, arguments: &[u64]) -> io::Result<u64> {
        let step = |held: &mut Held| {
            raw(libc::PTRACE_SINGLESTEP, held.tid, 0, 0)?;
            held.wait_trap()
        };
        self.run_at(instruction, number, arguments, &[], step)
    }

    /// As [`Held::call`], for code of our own that begins with a `syscall` and ends, in the calling thread, with a
    /// breakpoint. `more` are further registers to set (r12, r13, ...).
    pub fn call_code(&mut self, code: u64, number: i64, arguments: &[u64], more: &[u64]) -> io::Result<u64> {
        let run = |held: &mut Held| {
            raw(libc::PTRACE_CONT, held.tid, 0, 0)?;
            held.wait_trap()
        };
        self.run_at(code, number, arguments, more, run)
    }

    fn run_at(
        &mut self,
        at: u64,
        number: i64,
        arguments: &[u64],
        more: &[u64],
        run: impl Fn(&mut Held) -> io::Result<()>,
    ) -> io::Result<u64> {
        fail::point(Call::Ptrace)?;
        let before = self.registers()?;
        let mut registers = before;
        let argument = |index: usize| arguments.get(index).copied().unwrap_or_default();
        registers.rip = at;
        registers.rax = number as u64;
        // Not in a system call, so the kernel does not restart one here.
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx] = [0, 1, 2].map(argument);
        [registers.r10, registers.r8, registers.r9] = [3, 4, 5].map(argument);
        registers.r12 = more.first().copied().unwrap_or(registers.r12);
        self.set_registers(&registers)?;
        let ran = run(self).and_then(|()| self.registers());
        // Whatever happened, the thread must go on as it was.
        self.set_registers(&before)?;
        let result = ran?.rax as i64;
        if (-4095..0).contains(&result) {
            return Err(io::Error::from_raw_os_error(-result as i32));
        }
        Ok(result as u64)
    }

    /// Waits for the trap that ends code of ours; signals that come in between are kept for later.
    fn wait_trap(&mut self) -> io::Result<()> {
        loop {
            match self.wait()? {
                Stop::Signal(libc::SIGTRAP) => return Ok(()),
                Stop::Signal(signal) if is_fault(signal) => {
                    let message = format!("code in the process was stopped by signal {signal}");
                    return Err(io::Error::other(message));
                }
                Stop::Signal(signal) => {
                    self.signal = signal;
                    raw(libc::PTRACE_CONT, self.tid, 0, 0)?;
                }
                Stop::Event => raw(libc::PTRACE_CONT, self.tid, 0, 0)?,
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn is_fault(signal: i32) -> bool {
    matches!(signal, libc::SIGSEGV | libc::SIGILL | libc::SIGBUS | libc::SIGSYS)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    /// A shell that answers each line, so that it can be told whether it still works.
    struct Shell(Child, BufReader<std::process::ChildStdout>);

    impl Shell {
        fn new() -> Shell {
            let mut command = Command::new("sh");
            command.args(["-c", "while read line; do echo $line; done"]);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let out = BufReader::new(child.stdout.take().unwrap());
            let mut shell = Shell(child, out);
            shell.echo("begin");
            shell
        }

        fn pid(&self) -> Pid {
            Pid(self.0.id() as i32)
        }

        fn echo(&mut self, word: &str) {
            writeln!(self.0.stdin.as_mut().unwrap(), "{word}").unwrap();
            let mut line = String::new();
            self.1.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), word);
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            drop(self.0.stdin.take());
            self.0.wait().unwrap();
        }
    }

    #[test]
    fn calls_are_made_in_another_process_which_goes_on() {
        let mut shell = Shell::new();
        let (proc, pid) = (Proc::default(), shell.pid());
        assert!(may_trace(pid).unwrap());
        let memory = memory(pid).unwrap();
        let instruction = syscall_instruction(&proc, pid, &memory).unwrap();
        for round in 0..20 {
            // The shell is blocked in read(2): the call must be restarted when it runs on.
            let mut held = Held::hold(Tid(pid.0)).unwrap();
            assert_eq!(held.call(instruction, libc::SYS_getpid, &[]).unwrap(), pid.0 as u64);
            let error = held.call(instruction, libc::SYS_close, &[9999]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
            drop(held);
            shell.echo(&format!("round {round}"));
        }
    }

    #[test]
    fn a_held_process_stands_still_and_runs_on() {
        let mut shell = Shell::new();
        let held = hold_all(&Proc::default(), shell.pid()).unwrap();
        assert_eq!(held.len(), 1);
        let stat = Proc::default().stat(shell.pid(), held[0].tid()).unwrap();
        assert_eq!(stat.state, 't');
        drop(held);
        shell.echo("again");
    }

    #[test]
    fn what_has_ended_cannot_be_held() {
        assert!(may_trace(Pid(i32::MAX)).is_err());
        assert_eq!(Held::hold(Tid(i32::MAX)).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert!(hold_all(&Proc::default(), Pid(i32::MAX)).unwrap().is_empty());
    }
}
