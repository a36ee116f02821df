//! Memory that is mapped from a file whose bytes go away: who cuts the file, or a disk that fails, would end the
//! program that reads it (SIGBUS). In a guarded range the bytes that are gone read as zero instead, and
//! [`Guarded::is_lost`] says so.
//!
//! For programs of our own: a signal handler is the whole process', so a library in other people's programs reads
//! files by `pread(2)`.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::OnceLock;

/// A range that is, or was, guarded. The handler may look at it at any time: it is never freed, and only its flags
/// change.
struct Range {
    start: usize,
    end: usize,
    live: AtomicBool,
    lost: AtomicBool,
    next: *mut Range,
}

static RANGES: AtomicPtr<Range> = AtomicPtr::new(null_mut());
/// The disposition of SIGBUS before ours, or why ours cannot be set.
static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

/// A mapping that is guarded until [`Guarded::end`], or while this lives.
#[derive(Debug)]
pub struct Guarded(&'static Range);

impl Guarded {
    /// Guards a mapping.
    ///
    /// # Errors
    /// What `sigaction(2)` gives.
    ///
    /// # Safety
    /// From `start` on there are `bytes` of memory that are mapped from one file. They stay so until its end, and
    /// nothing relies on what is in the file once a byte is lost.
    pub unsafe fn new(start: *const u8, bytes: usize) -> io::Result<Guarded> {
        if let Err(error) = BEFORE.get_or_init(install) {
            return Err(io::Error::from_raw_os_error(*error));
        }
        let page = rustix::param::page_size();
        let (start, end) = (start as usize, (start as usize + bytes).next_multiple_of(page));
        let (live, lost) = (AtomicBool::new(true), AtomicBool::new(false));
        let range = Box::into_raw(Box::new(Range { start, end, live, lost, next: null_mut() }));
        let mut next = RANGES.load(Ordering::Acquire);
        loop {
            // SAFETY: nobody else knows the range before it is in the list.
            unsafe { (*range).next = next };
            match RANGES.compare_exchange_weak(next, range, Ordering::Release, Ordering::Acquire) {
                // SAFETY: it is never freed, and from now on only read.
                Ok(_) => return Ok(Guarded(unsafe { &*range })),
                Err(newer) => next = newer,
            }
        }
    }

    /// Whether bytes of it were gone when they were read.
    pub fn is_lost(&self) -> bool {
        self.0.lost.load(Ordering::Acquire)
    }

    /// Ends it, before the memory becomes another mapping's.
    pub fn end(&self) {
        self.0.live.store(false, Ordering::Release);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.end();
    }
}

// SAFETY: `next` is not written once the range is in the list.
unsafe impl Sync for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:#x}..{:#x}", self.start, self.end)
    }
}

fn install() -> Result<libc::sigaction, i32> {
    let (mut ours, mut before) = (MaybeUninit::<libc::sigaction>::zeroed(), MaybeUninit::uninit());
    // SAFETY: all of `ours` may be zero, and its other fields are set; `before` is filled where the call succeeds.
    unsafe {
        let action = ours.assume_init_mut();
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        match libc::sigaction(libc::SIGBUS, ours.as_ptr(), before.as_mut_ptr()) {
            0 => Ok(before.assume_init()),
            _ => Err(*libc::__errno_location()),
        }
    }
}

/// Puts zeros in the place of what is gone, so that the read that met it goes on. A fault elsewhere is left to who had
/// the signal before.
extern "C" fn on_bus(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel hands in a siginfo. Of a signal that somebody sent the address is none of a range of ours.
    let (address, sent) = unsafe { ((*info).si_addr() as usize, (*info).si_code <= 0) };
    let mut at = RANGES.load(Ordering::Acquire);
    // SAFETY: ranges are never freed.
    while let Some(range) = unsafe { at.as_ref() } {
        let inside = range.live.load(Ordering::Acquire) && (range.start..range.end).contains(&address);
        if inside && !sent && fill(address, range.end) {
            range.lost.store(true, Ordering::Release);
            return;
        }
        at = range.next;
    }
    if let Some(Ok(before)) = BEFORE.get() {
        // SAFETY: what was there before takes the signal: at once if it was sent, else when the access is repeated.
        unsafe {
            libc::sigaction(signal, before, null_mut());
            if sent {
                libc::raise(signal);
            }
        }
    }
}

/// Maps zeros from the page of `address` to `end`; false if that fails.
fn fill(address: usize, end: usize) -> bool {
    let from = address & !(rustix::param::page_size() - 1);
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: the pages lie in a mapping whose owner has agreed (`Guarded::new`).
    unsafe { libc::mmap(from as *mut libc::c_void, end - from, protection, flags, -1, 0) != libc::MAP_FAILED }
}
