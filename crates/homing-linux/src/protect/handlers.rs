//! The handlers of signals. They run in the program's threads, take no lock, allocate nothing, and make no call but
//! from the range that a window lets through. `errno` is not touched.

use super::action;
use super::asynchronous::of_this_thread;
use super::calls::{is_calm, reaches_nothing};
use super::shared::{
    self, Caught, Slot, END, IDLE, INSIDE, KEPT_OFF, OPEN, OWN_STACKS, ROUND, SHUT, STATE, WAITED, WAITS,
};
use super::stub;
use crate::hint_faults::stand::stand;
use libc::{c_int, c_void, siginfo_t, ucontext_t};
use std::sync::atomic::Ordering;

/// `SEGV_ACCERR`: the protection forbids the access. `SYS_USER_DISPATCH`: the selector stopped a call.
const FORBIDDEN: c_int = 2;
const STOPPED: c_int = 2;
/// `AUDIT_ARCH_X86_64`.
const ARCHITECTURE: u32 = 0xc000_003e;
/// A write, in the processor's word on a page fault.
const WRITE: i64 = 1 << 1;
/// Bytes of the instruction that makes a call.
const CALL: i64 = 2;
/// Nanoseconds for which a thread that reads or writes is not asked: its next call would end each window at once.
const UNREST: u64 = 1_000_000_000;
/// How long a thread sleeps before it looks again whether the window is over.
const NAP: i64 = 5_000_000;

/// What the kernel tells of a stopped call.
#[repr(C)]
struct Stopped {
    head: [i32; 4],
    address: u64,
    number: i32,
    architecture: u32,
}

fn this_thread() -> i32 {
    // SAFETY: asks for a number.
    unsafe { stub::call(libc::SYS_gettid, [0; 5]) as i32 }
}

/// Nanoseconds of the monotonic clock.
pub(super) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills `now`.
    unsafe {
        stub::call(libc::SYS_clock_gettime, [libc::CLOCK_MONOTONIC as u64, &raw mut now as u64, 0, 0, 0])
    };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Notes that the thread is outside of all calls in this round.
fn seen(tid: i32) {
    if let Some((_, slot)) = shared::slot(tid) {
        slot.seen.store(ROUND.load(Ordering::Acquire), Ordering::Release);
    }
}

/// Asks the manager to end the window.
fn end() {
    END.store(1, Ordering::Release);
    stub::wake(&END);
}

/// Asks for the end of the window, and waits for it. Then the thread goes on as if there had been none.
pub(super) fn wait_for_end() {
    let tid = this_thread();
    let begin = monotonic();
    loop {
        let state = STATE.load(Ordering::Acquire);
        if state == IDLE {
            break;
        }
        seen(tid);
        // Each time: it may be another window by now.
        end();
        stub::wait(&STATE, state, NAP);
    }
    WAITED.fetch_add(monotonic().saturating_sub(begin), Ordering::Relaxed);
    WAITS.fetch_add(1, Ordering::Relaxed);
}

/// Takes a fault on a protected page: keeps the access, and gives the page back. False if it is none.
fn take(address: u64, store: bool) -> bool {
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let unit = shared::unit_of(address).filter(|_| STATE.load(Ordering::SeqCst) == OPEN);
    let taken = unit.is_some_and(|(start, bytes, number)| {
        let tid = this_thread();
        let mut cpu = 0u32;
        // SAFETY: fills `cpu`.
        unsafe { stub::call(libc::SYS_getcpu, [&raw mut cpu as u64, 0, 0, 0, 0]) };
        shared::keep(Caught { address, tid, cpu, store, time: monotonic() });
        // The others come back until the first has done it.
        // SAFETY: what the pages could be used for before.
        !shared::give_back(number) || unsafe { stub::protect(start, start + bytes, READ_WRITE) } == 0
    });
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    taken
}

/// What may be protected could be used for this before.
pub(super) const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// SIGSEGV. What is no fault on a protected page comes again once the window is over, for whoever it belongs to.
pub(super) unsafe extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both.
    let (code, address, context) =
        unsafe { ((*info).si_code, (*info).si_addr() as u64, &*context.cast::<ucontext_t>()) };
    let store = context.uc_mcontext.gregs[libc::REG_ERR as usize] & WRITE != 0;
    let stack = context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
    if code == FORBIDDEN && take(address, store) {
        // The first time only: from the next window on it is known.
        if shared::unit_of(stack).is_some() && !OWN_STACKS.swap(true, Ordering::Relaxed) {
            // A signal that waits finds no room on that stack before.
            wait_for_end();
        }
        return;
    }
    wait_for_end();
    action::give_back();
    if code <= 0 {
        send_again(signal, info);
    }
}

/// A signal that was sent comes again with all that it came with.
fn send_again(signal: c_int, info: *mut siginfo_t) {
    // SAFETY: asks for a number; then the kernel reads `info`.
    unsafe {
        let process = stub::call(libc::SYS_getpid, [0; 5]) as u64;
        let to = [process, this_thread() as u64, signal as u64, info as u64, 0];
        stub::call(libc::SYS_rt_tgsigqueueinfo, to);
    }
}

/// SIGSYS: a call in a window. It is made once the window is over, in the same state of the thread.
pub(super) unsafe extern "C" fn on_call(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives both.
    let (code, stopped, context) =
        unsafe { ((*info).si_code, &*info.cast::<Stopped>(), &mut *context.cast::<ucontext_t>()) };
    let registers = &mut context.uc_mcontext.gregs;
    let argument = |register: c_int| registers[register as usize] as u64;
    let arguments = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8].map(argument);
    let number = i64::from(stopped.number);
    if code == STOPPED
        && stopped.architecture == ARCHITECTURE
        && reaches_nothing(number, arguments[0], arguments[1])
    {
        // SAFETY: the program's own call.
        registers[libc::REG_RAX as usize] = unsafe { stub::call(number, arguments) };
        return;
    }
    match shared::slot(this_thread()) {
        Some((_, slot)) => go_on(slot, is_calm(number)),
        None => wait_for_end(),
    }
    if number == libc::SYS_rt_sigaction {
        // What another thread's calls meet then may be no handler of ours.
        keep_off();
        shared::let_through();
        KEPT_OFF.fetch_sub(1, Ordering::SeqCst);
    }
    if code != STOPPED {
        // Somebody else's, whose program has no handler for it.
        action::set(signal, action::DEFAULT);
        if code <= 0 {
            return send_again(signal, info);
        }
    }
    // The kernel has put the number of the call back into its register.
    registers[libc::REG_RIP as usize] -= CALL;
}

/// Waits for the end of the window, and lets the thread's calls through.
fn go_on(slot: &Slot, calm: bool) {
    loop {
        wait_for_end();
        if !calm {
            slot.calm.store(monotonic() + UNREST, Ordering::Relaxed);
        }
        slot.selector.store(0, Ordering::SeqCst);
        // The manager signals a thread at once whose calls are stopped. It reads the selector after it has set STATE.
        // If it has read 1, the signal is pending before STATE is IDLE again: the thread takes it before its call.
        if STATE.load(Ordering::SeqCst) == IDLE {
            break;
        }
    }
}

/// Has no window begin until `KEPT_OFF` is lowered again, once there is none.
pub(super) fn keep_off() {
    // Whoever begins a window looks at this after it has said so, and whoever comes here looks for a window after this.
    KEPT_OFF.fetch_add(1, Ordering::SeqCst);
    if STATE.load(Ordering::SeqCst) != IDLE {
        wait_for_end();
    }
}

/// SIGURG: the manager asks where the thread is, or has it stand still for a scan. It comes from a timer or a call. The
/// thread is outside of all calls here, whatever the siginfo says.
pub(super) unsafe extern "C" fn on_urge(signal: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives it.
    let context = unsafe { &mut *context.cast::<ucontext_t>() };
    report(context);
    stand(signal);
}

/// Reports the thread, and has its calls stopped from now on, if it would take that: the kernel ends a program that
/// blocks SIGSYS then.
fn report(context: &mut ucontext_t) {
    let tid = this_thread();
    let Some((place, slot)) = shared::slot_for(tid) else { return };
    let (begin, bytes) = stub::range();
    let dispatch = [PR_SET_SYSCALL_USER_DISPATCH, 1, begin, bytes, slot.selector.as_ptr() as u64];
    // SAFETY: the selector lives as long as the process.
    let done = unsafe { stub::call(libc::SYS_prctl, dispatch) };
    slot.error.store(-done as i32, Ordering::Relaxed);
    let own = shared::own_stack(place);
    let signals = &mut context.uc_stack;
    // The kernel shows no flag where a first thread never had one.
    let none = signals.ss_flags & libc::SS_DISABLE != 0 || signals.ss_size == 0;
    if none && own != 0 {
        // It holds from the return of the handler on.
        (signals.ss_sp, signals.ss_size, signals.ss_flags) = (own as *mut c_void, shared::STACK as usize, 0);
    }
    slot.signals.store(signals.ss_sp as u64, Ordering::Relaxed);
    slot.signals_bytes.store(signals.ss_size as u64, Ordering::Relaxed);
    slot.outside.store(of_this_thread(), Ordering::Relaxed);
    slot.stack.store(context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64, Ordering::Relaxed);
    slot.pointer.store(thread_pointer(), Ordering::Relaxed);
    // SAFETY: 64 signals are the first word of the set.
    let blocked = unsafe { *(&raw const context.uc_sigmask).cast::<u64>() };
    slot.blocked.store(blocked, Ordering::Relaxed);
    INSIDE.fetch_add(1, Ordering::SeqCst);
    // The program may have taken SIGSYS by a call that nobody sees, since the manager looked.
    let takes = done == 0 && blocked & action::OURS == 0 && action::is_ours(&action::of(libc::SIGSYS));
    let are_stopped = slot.selector.load(Ordering::SeqCst) == 1;
    if !are_stopped {
        slot.stopped.store(false, Ordering::SeqCst);
    }
    // Those that are stopped stay so: another signal may be on its way.
    if takes && STATE.load(Ordering::SeqCst) == SHUT && (are_stopped || shared::stop_calls(slot)) {
        slot.stopped.store(true, Ordering::SeqCst);
    }
    INSIDE.fetch_sub(1, Ordering::SeqCst);
    slot.seen.store(ROUND.load(Ordering::Acquire), Ordering::Release);
}

pub(super) const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;

/// What the C library calls a thread by: its first word is its own address.
pub(super) fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the ABI of x86-64 has it there.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}
