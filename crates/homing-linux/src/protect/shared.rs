//! What the manager and the handlers of signals share: words that are read and written without a lock. They are in the
//! data of the library, which is never protected.

use super::parts::Segment;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// No window: nothing of the program's is changed.
pub const IDLE: u32 = 0;
/// A window opens or closes: whoever makes a call, or faults, waits.
pub const SHUT: u32 = 1;
/// Pages are protected.
pub const OPEN: u32 = 2;

/// One of the three above.
pub static STATE: AtomicU32 = AtomicU32::new(IDLE);
/// The number of the present check of all threads.
pub static ROUND: AtomicU32 = AtomicU32::new(0);
/// A thread wants the window to be over. The manager sleeps on it.
pub static END: AtomicU32 = AtomicU32::new(0);
/// Threads in a handler that may change a page's protection, or have their own calls stopped.
pub static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Threads that are about to handle signals in a way that windows do not bear: none begins, and no call is stopped.
pub static KEPT_OFF: AtomicU32 = AtomicU32::new(0);
/// A thread was on a stack in memory that may be protected: one of the program's own making.
pub static OWN_STACKS: AtomicBool = AtomicBool::new(false);
/// Time that threads waited for a window to be over, in nanoseconds, and how often they did.
pub static WAITED: AtomicU64 = AtomicU64::new(0);
pub static WAITS: AtomicU64 = AtomicU64::new(0);

/// Most segments, and units of them, in a window.
pub const SEGMENTS: usize = 64;
pub const UNITS: usize = 1024;
/// Accesses that a window keeps. Several threads may fault on a page before it is there again.
pub const LOG: usize = 2 * UNITS;

struct Part {
    start: AtomicU64,
    end: AtomicU64,
    unit: AtomicU64,
    /// Units of the segments before it.
    before: AtomicU64,
}

static PARTS: [Part; SEGMENTS] = [const {
    Part {
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        unit: AtomicU64::new(1),
        before: AtomicU64::new(0),
    }
}; SEGMENTS];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Units that have been given back.
static GIVEN_BACK: [AtomicU64; UNITS / 64] = [const { AtomicU64::new(0) }; UNITS / 64];

/// Sets the segments of the next window. They have [`UNITS`] units at most.
pub fn set(segments: &[Segment]) {
    let mut before = 0;
    for (part, segment) in PARTS.iter().zip(segments) {
        part.start.store(segment.start, Ordering::Relaxed);
        part.end.store(segment.end, Ordering::Relaxed);
        part.unit.store(segment.unit, Ordering::Relaxed);
        part.before.store(before, Ordering::Relaxed);
        before += segment.units();
    }
    GIVEN_BACK.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    NEXT.store(0, Ordering::Relaxed);
    COUNT.store(segments.len().min(SEGMENTS) as u32, Ordering::Release);
}

/// The unit that holds an address: its first address, its bytes, its number.
pub fn unit_of(address: u64) -> Option<(u64, u64, u64)> {
    let count = COUNT.load(Ordering::Acquire) as usize;
    PARTS.iter().take(count).find_map(|part| {
        let start = part.start.load(Ordering::Relaxed);
        let unit = part.unit.load(Ordering::Relaxed);
        if address < start || address >= part.end.load(Ordering::Relaxed) {
            return None;
        }
        let number = (address - start) / unit;
        Some((start + number * unit, unit, part.before.load(Ordering::Relaxed) + number))
    })
}

/// Notes that a unit is given back; true for whoever does it first.
pub fn give_back(number: u64) -> bool {
    let word = GIVEN_BACK.get(number as usize / 64);
    word.is_some_and(|word| word.fetch_or(1 << (number % 64), Ordering::AcqRel) >> (number % 64) & 1 == 0)
}

/// True once every unit of the window was given back.
pub fn all_given_back() -> bool {
    let units: u64 = PARTS
        .iter()
        .take(COUNT.load(Ordering::Acquire) as usize)
        .map(|part| {
            let bytes = part.end.load(Ordering::Relaxed) - part.start.load(Ordering::Relaxed);
            bytes / part.unit.load(Ordering::Relaxed)
        })
        .sum();
    GIVEN_BACK.iter().map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum::<u64>() >= units
}

/// A caught access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caught {
    /// The address.
    pub address: u64,
    /// The thread, and the CPU on which it was.
    pub tid: i32,
    /// See above.
    pub cpu: u32,
    /// A store.
    pub store: bool,
    /// Nanoseconds of the monotonic clock.
    pub time: u64,
}

struct Entry {
    address: AtomicU64,
    tid: AtomicI32,
    cpu: AtomicU32,
    store: AtomicU8,
    time: AtomicU64,
}

static ENTRIES: [Entry; LOG] = [const {
    Entry {
        address: AtomicU64::new(0),
        tid: AtomicI32::new(0),
        cpu: AtomicU32::new(0),
        store: AtomicU8::new(0),
        time: AtomicU64::new(0),
    }
}; LOG];
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Keeps an access, if there is room.
pub fn keep(caught: Caught) {
    let place = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
    if let Some(entry) = ENTRIES.get(place) {
        entry.address.store(caught.address, Ordering::Relaxed);
        entry.tid.store(caught.tid, Ordering::Relaxed);
        entry.cpu.store(caught.cpu, Ordering::Relaxed);
        entry.store.store(u8::from(caught.store), Ordering::Relaxed);
        entry.time.store(caught.time, Ordering::Relaxed);
    }
}

/// Hands out what the last window kept, once nobody is [`INSIDE`]. Returns how many had no room.
pub fn kept(mut take: impl FnMut(Caught)) -> u64 {
    let count = NEXT.load(Ordering::Acquire) as usize;
    for entry in ENTRIES.iter().take(count) {
        take(Caught {
            address: entry.address.load(Ordering::Relaxed),
            tid: entry.tid.load(Ordering::Relaxed),
            cpu: entry.cpu.load(Ordering::Relaxed),
            store: entry.store.load(Ordering::Relaxed) == 1,
            time: entry.time.load(Ordering::Relaxed),
        });
    }
    count.saturating_sub(LOG) as u64
}

/// What is known of a thread of the program.
pub struct Slot {
    /// The thread; 0 for a free slot.
    pub tid: AtomicI32,
    /// When it began, in clock ticks, which the manager notes; 0 until then.
    pub began: AtomicU64,
    /// Whether the kernel lets its calls through (0) or stops them (1: `SYSCALL_DISPATCH_FILTER_BLOCK`).
    pub selector: AtomicU8,
    /// The thread has been outside of all calls since its calls are stopped.
    pub stopped: AtomicBool,
    /// Not before then, in nanoseconds of the monotonic clock, it is asked where it is, unless it is outside of all
    /// calls.
    pub calm: AtomicU64,
    /// The last round in which a handler saw it: it was outside of all calls then.
    pub seen: AtomicU32,
    /// Its stack pointer then, and the signals that it blocked.
    pub stack: AtomicU64,
    pub blocked: AtomicU64,
    /// Its thread pointer, below which the C library has what the kernel writes to.
    pub pointer: AtomicU64,
    /// Its stack for signals.
    pub signals: AtomicU64,
    pub signals_bytes: AtomicU64,
    /// Why its calls cannot be stopped; 0 if they can.
    pub error: AtomicI32,
    /// What the kernel writes to by itself, when it was last asked (`asynchronous::of_this_thread`).
    pub outside: AtomicU8,
}

impl Slot {
    /// True if the thread that began then is outside of all calls, and stays so until the manager lets it go on: a
    /// signal ends no call of its.
    pub fn is_outside(&self, began: u64) -> bool {
        // In this order: the manager clears the second before it stops a thread inside a call.
        self.selector.load(Ordering::SeqCst) == 1
            && self.stopped.load(Ordering::SeqCst)
            && self.began.load(Ordering::SeqCst) == began
    }
}

/// Most threads of a program.
pub const SLOTS: usize = 1024;
/// Bytes of the stack that a thread gets for signals if it has none. What the processor's registers take is below
/// 16 KiB.
pub const STACK: u64 = 64 << 10;

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        tid: AtomicI32::new(0),
        began: AtomicU64::new(0),
        selector: AtomicU8::new(0),
        stopped: AtomicBool::new(false),
        calm: AtomicU64::new(0),
        seen: AtomicU32::new(0),
        stack: AtomicU64::new(0),
        blocked: AtomicU64::new(0),
        pointer: AtomicU64::new(0),
        signals: AtomicU64::new(0),
        signals_bytes: AtomicU64::new(0),
        error: AtomicI32::new(0),
        outside: AtomicU8::new(0),
    }
}; SLOTS];
/// Where the stacks for signals are, one for each slot; 0 for not yet.
pub static STACKS: AtomicU64 = AtomicU64::new(0);

/// All slots.
pub fn slots() -> &'static [Slot] {
    &TABLE
}

/// The slot of a thread, with its number.
pub fn slot(tid: i32) -> Option<(usize, &'static Slot)> {
    let begin = tid as usize % SLOTS;
    (0..SLOTS)
        .map(|step| (begin + step) % SLOTS)
        .find(|place| TABLE[*place].tid.load(Ordering::Acquire) == tid)
        .map(|place| (place, &TABLE[place]))
}

/// As [`slot`], or a free one.
pub fn slot_for(tid: i32) -> Option<(usize, &'static Slot)> {
    slot(tid).or_else(|| {
        let begin = tid as usize % SLOTS;
        (0..SLOTS).map(|step| (begin + step) % SLOTS).find_map(|place| {
            let slot = &TABLE[place];
            let free = slot.tid.compare_exchange(0, tid, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            free.then_some((place, slot))
        })
    })
}

/// Has a thread's calls stopped from now on, unless that is to be kept off. True if they are.
pub fn stop_calls(slot: &Slot) -> bool {
    slot.selector.store(1, Ordering::SeqCst);
    let kept_off = KEPT_OFF.load(Ordering::SeqCst) != 0;
    if kept_off {
        slot.selector.store(0, Ordering::SeqCst);
    }
    !kept_off
}

/// Lets all calls through.
pub fn let_through() {
    TABLE.iter().for_each(|slot| slot.selector.store(0, Ordering::SeqCst));
}

/// The stack for signals that belongs to a slot.
pub fn own_stack(place: usize) -> u64 {
    match STACKS.load(Ordering::Acquire) {
        0 => 0,
        stacks => stacks + place as u64 * STACK,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Held by tests that use the shared words.
    pub static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn units_are_found_and_given_back_once() {
        let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let segments = [
            Segment { start: 0x10000, end: 0x13000, unit: 4096 },
            Segment { start: 0x40_0000, end: 0x80_0000, unit: 2 << 20 },
        ];
        set(&segments);
        assert_eq!(unit_of(0x12fff), Some((0x12000, 4096, 2)));
        assert_eq!(unit_of(0x60_0001), Some((0x60_0000, 2 << 20, 4)));
        assert_eq!((unit_of(0xffff), unit_of(0x13000), unit_of(0x80_0000)), (None, None, None));
        assert!(give_back(4) && !give_back(4) && give_back(3) && !give_back(UNITS as u64));
        for place in 0..LOG as i32 + 3 {
            keep(Caught { tid: place, ..Caught::default() });
        }
        let mut tids = Vec::new();
        assert_eq!(kept(|caught| tids.push(caught.tid)), 3, "what has no room is counted");
        assert!(tids.into_iter().eq(0..LOG as i32));
        set(&[]);
        assert_eq!((unit_of(0x12fff), kept(|_| panic!("none"))), (None, 0));
    }

    #[test]
    fn a_thread_is_outside_of_calls_if_it_was_so_when_they_were_stopped() {
        let (_, slot) = slot_for(i32::MAX).unwrap();
        slot.began.store(7, Ordering::Relaxed);
        slot.selector.store(1, Ordering::Relaxed);
        assert!(!slot.is_outside(7), "stopped while it slept in a call");
        slot.stopped.store(true, Ordering::Relaxed);
        assert!(slot.is_outside(7) && !slot.is_outside(8), "another thread of the same number");
        slot.selector.store(0, Ordering::Relaxed);
        assert!(!slot.is_outside(7));
        slot.stopped.store(false, Ordering::Relaxed);
        slot.began.store(0, Ordering::Relaxed);
        slot.tid.store(0, Ordering::Relaxed);
    }
}
