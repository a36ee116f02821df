//! A window, from begin to end.

use super::parts::{self, Range, Segment};
use super::shared::{self, Caught, END, IDLE, INSIDE, KEPT_OFF, OPEN, OWN_STACKS, SEGMENTS, SHUT, STATE};
use super::sharers::Sharers;
use super::threads::{read_into, Round, Threads};
use super::{action, handlers, stub, undo, Refusal};
use crate::fail::{self, Call};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest time in which all threads say where they are before a window. It is doubled when a thread did not answer, to
/// LONGEST at most: on a busy machine threads wait long for a CPU. Without an answer from all there is no window, and
/// those that have answered have waited for nothing.
const BEGIN: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(240);
/// The same after a window.
const OVER: Duration = Duration::from_millis(300);
/// Bytes that are read of `/proc/self/maps`, and ranges that are kept of anything.
const MAPS: usize = 4 << 20;
const RANGES: usize = 8 * shared::SLOTS;

/// What a window came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When pages were protected, in nanoseconds of the monotonic clock, and for how long.
    pub opened: u64,
    /// See above.
    pub lasted: u64,
    /// Pages, or huge pages, that were protected.
    pub units: u64,
    /// Those that were planned, and could not be.
    pub left_out: u64,
    /// Accesses that were not kept.
    pub lost: u64,
    /// A thread's call, or a fault of the program's own, ended it early.
    pub early: bool,
}

/// Makes windows in its own process. All that it needs is there before the first one.
pub struct Protector {
    threads: Threads,
    sharers: Sharers,
    /// How long threads have to say where they are.
    patience: Duration,
    /// Windows so far. Threads run while pages are protected, so what comes first is seen most: each time another does.
    turn: usize,
    maps: Vec<u8>,
    allowed: Vec<Range>,
    holes: Vec<Range>,
    segments: Vec<Segment>,
}

impl Protector {
    /// Installs the handlers that stay.
    ///
    /// # Errors
    /// If the program has handlers of its own for SIGURG or SIGSYS; ENOMEM.
    pub fn new() -> io::Result<Protector> {
        stacks()?;
        action::prepare()?;
        Ok(Protector {
            threads: Threads::new(),
            sharers: Sharers::new(),
            patience: BEGIN,
            turn: 0,
            maps: vec![0; MAPS],
            allowed: Vec::with_capacity(RANGES),
            holes: Vec::with_capacity(RANGES),
            segments: Vec::with_capacity(SEGMENTS),
        })
    }

    /// Protects those of the planned pages that may be, until somebody makes a call, or for as long as `most` once all
    /// are. Then hands out the accesses that were caught.
    ///
    /// # Errors
    /// Why there was no window. Then nothing has happened to the program.
    pub fn window(
        &mut self,
        plan: &[Segment],
        most: Duration,
        take: impl FnMut(Caught),
    ) -> Result<Window, Refusal> {
        // From an earlier window, where a thread did not answer.
        action::give_back();
        self.threads.forget_ended()?;
        if !action::prepared() {
            shared::let_through();
            return Err(Refusal::Taken);
        }
        // The first of these reads the environment, for which it allocates.
        fail::point(Call::Dispatch)
            .map_err(|error| Refusal::Dispatch(error.raw_os_error().unwrap_or_default()))?;
        END.store(0, Ordering::Release);
        let shut = Shut::new();
        if KEPT_OFF.load(Ordering::SeqCst) != 0 {
            return Err(Refusal::Taken);
        }
        // Nothing is allocated from here on: one of the threads may hold the allocator's lock.
        let window = self.prepare(plan).map(|left_out| {
            let mut window = self.open(most);
            window.left_out += left_out;
            let _ = self.threads.settle(Round::End, OVER, &mut self.holes).map(|()| action::give_back());
            window
        });
        if matches!(window, Err(Refusal::Taken | Refusal::Handler(_))) {
            shared::let_through();
        }
        drop(shut);
        window.map(|window| Window { lost: shared::kept(take), ..window })
    }

    /// Finds what of the plan may be protected, once all threads are where they must be. Returns how much may not.
    fn prepare(&mut self, plan: &[Segment]) -> Result<u64, Refusal> {
        // Before calls are stopped, and once nobody can change it.
        may_handle()?;
        let settled = self.threads.settle(Round::Begin, self.patience, &mut self.holes);
        self.patience = match settled {
            Ok(()) => (self.patience * 3 / 4).max(BEGIN),
            Err(Refusal::Running) => (self.patience * 2).min(LONGEST),
            Err(_) => self.patience,
        };
        settled?;
        may_handle()?;
        let bytes = read_into(b"/proc/self/maps\0", &mut self.maps).ok_or(Refusal::Proc)?;
        self.allowed.clear();
        let allowed = &mut self.allowed;
        let own = own_memory();
        let mut full = false;
        let mut keep = |range: Range| {
            let is_own = own.iter().any(|address| (range.0..range.1).contains(address));
            full |= allowed.len() == allowed.capacity();
            if !is_own && !full {
                allowed.push(range);
            }
        };
        parts::eligible(&self.maps[..bytes], &mut keep).ok_or(Refusal::Asynchronous)?;
        if full {
            return Err(Refusal::Proc);
        }
        self.sharers.none(self.threads.tasks())?;
        if self.threads.may_have_ring()? {
            return Err(Refusal::Asynchronous);
        }
        self.look_at_stacks()?;
        self.segments.clear();
        let units = |segments: &[Segment]| segments.iter().map(Segment::units).sum::<u64>();
        let lost =
            plan.iter().map(|segment| parts::clip(*segment, &self.allowed, &self.holes, &mut self.segments));
        // What found no room comes in another window.
        let _lost: u64 = lost.sum();
        match units(&self.segments) {
            0 => Err(Refusal::Nothing),
            kept => Ok(units(plan).saturating_sub(kept)),
        }
    }

    /// The kernel ends a program, or loses a signal, for which there is no room on a stack.
    fn look_at_stacks(&self) -> Result<(), Refusal> {
        let may_be_protected =
            |stack: &u64| self.allowed.iter().any(|range| (range.0..range.1).contains(stack));
        if self.threads.stacks.iter().any(may_be_protected) {
            OWN_STACKS.store(true, Ordering::Relaxed);
        }
        match action::runs_anywhere().filter(|_| OWN_STACKS.load(Ordering::Relaxed)) {
            Some(signal) => Err(Refusal::Stack(signal)),
            None => Ok(()),
        }
    }

    /// Protects, waits, and gives back.
    fn open(&mut self, most: Duration) -> Window {
        // On the stack: this object may itself be in memory that is protected.
        let mut segments = [Segment::default(); SEGMENTS];
        let count = self.segments.len().min(SEGMENTS);
        segments[..count].copy_from_slice(&self.segments[..count]);
        segments[..count].rotate_left(self.turn % count.max(1));
        self.turn = self.turn.wrapping_add(1);
        open(&segments[..count], most)
    }
}

/// While this lives, whoever makes a call or faults waits. Also a fault of the engine ends that.
struct Shut(());

impl Shut {
    fn new() -> Shut {
        STATE.store(SHUT, Ordering::SeqCst);
        Shut(())
    }
}

impl Drop for Shut {
    fn drop(&mut self) {
        STATE.store(IDLE, Ordering::SeqCst);
        nobody_inside();
        // Calls stay stopped until each thread's next one, which lets those through that follow. So whoever makes none
        // is known to be outside of calls when the next window comes, and can be asked without disturbing one.
        stub::wake(&STATE);
    }
}

/// Whether handlers, and the limits of the program, are such that there may be a window.
fn may_handle() -> Result<(), Refusal> {
    match action::blocks_ours() {
        Some(signal) => Err(Refusal::Handler(signal)),
        None if !action::prepared() => Err(Refusal::Taken),
        None if undo::data_are_limited() => Err(Refusal::Limit),
        None => Ok(()),
    }
}

impl Drop for Protector {
    fn drop(&mut self) {
        action::give_back();
        shared::let_through();
    }
}

/// As [`Protector::open`], with nothing but its own stack and what is shared.
fn open(segments: &[Segment], most: Duration) -> Window {
    shared::set(segments);
    action::take();
    let mut window = Window { opened: handlers::monotonic(), ..Window::default() };
    STATE.store(OPEN, Ordering::SeqCst);
    for segment in segments {
        // An error that is asked for is a number: nothing is allocated.
        let refused = fail::point(Call::Protect).is_err();
        // SAFETY: private memory of the program's; whoever accesses it is let through by the handler.
        match refused || unsafe { stub::protect(segment.start, segment.end, libc::PROT_NONE) } != 0 {
            false => window.units += segment.units(),
            _ => window.left_out += segment.units(),
        }
    }
    // From when all is protected: on a busy machine that takes long, and what comes last would hardly be seen.
    let until = handlers::monotonic() + most.as_nanos() as u64;
    loop {
        let now = handlers::monotonic();
        window.early = END.load(Ordering::Acquire) != 0;
        if window.early || now >= until || shared::all_given_back() {
            window.lasted = now - window.opened;
            break;
        }
        stub::wait(&END, 0, (until - now).min(1_000_000) as i64);
    }
    STATE.store(SHUT, Ordering::SeqCst);
    nobody_inside();
    undo::give_back(segments);
    window
}

/// `sigaltstack(2)` of the calling thread, as if it had no stack for signals that a window gave it.
///
/// # Safety
/// That of the call. Gives 0, or a negative error.
pub unsafe fn stacks_for_signals(new: *const libc::stack_t, old: *mut libc::stack_t) -> i64 {
    // SAFETY: asks for a number.
    let found = shared::slot(unsafe { libc::gettid() });
    let own = found.map_or(0, |(place, _)| shared::own_stack(place));
    // SAFETY: filled by the kernel.
    let is_own = |stack: *const libc::stack_t| own != 0 && unsafe { (*stack).ss_sp } as u64 == own;
    // SAFETY: the caller's promise; what is given has been filled by the kernel.
    unsafe {
        let ours =
            libc::stack_t { ss_sp: own as *mut libc::c_void, ss_flags: 0, ss_size: shared::STACK as usize };
        let none = !new.is_null() && (*new).ss_flags & libc::SS_DISABLE != 0;
        let wanted = if none && own != 0 { &raw const ours } else { new };
        // Not from the excepted range: it must wait for the end of a window.
        let done = match libc::syscall(libc::SYS_sigaltstack, wanted, old) {
            0 => 0,
            _ => -i64::from(*libc::__errno_location()),
        };
        if done == 0 && !old.is_null() && is_own(old) {
            (*old).ss_sp = std::ptr::null_mut();
            (*old).ss_flags |= libc::SS_DISABLE;
            (*old).ss_size = 0;
        }
        if let Some((_, slot)) = found.filter(|_| done == 0 && !wanted.is_null()) {
            slot.signals.store((*wanted).ss_sp as u64, Ordering::Relaxed);
            slot.signals_bytes.store((*wanted).ss_size as u64, Ordering::Relaxed);
        }
        done
    }
}

/// Waits until nobody is in the midst of a handler.
fn nobody_inside() {
    while INSIDE.load(Ordering::SeqCst) != 0 {
        stub::wait(&END, END.load(Ordering::Relaxed), 20_000);
    }
}

/// Addresses whose mappings are never protected: what handlers and the manager use in a window.
fn own_memory() -> [u64; 3] {
    let here = 0u8;
    [&raw const STATE as u64, shared::slots().as_ptr() as u64, &raw const here as u64]
}

/// Reserves stacks for signals, for threads that have none: of each as much is used as the kernel writes there.
fn stacks() -> io::Result<()> {
    if shared::STACKS.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let bytes = shared::SLOTS * shared::STACK as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
    // SAFETY: a new mapping, at an address of the kernel's choice, that stays.
    let stacks = unsafe { libc::mmap(std::ptr::null_mut(), bytes, handlers::READ_WRITE, flags, -1, 0) };
    if stacks == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    shared::STACKS.store(stacks as u64, Ordering::Release);
    Ok(())
}
