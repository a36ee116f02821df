//! Sampling by protection, against programs that do what it must not disturb.
#![cfg(target_arch = "x86_64")]

use homing_linux::protect::{missing, Caught, OfEngine, Planner, Protector, Refusal};
use homing_linux::signals::Blocked;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All tests, which `cargo test` names in no list: none has threads beside it.
const TESTS: [(&str, fn()); 6] = [
    ("each page shows the threads that use it, and no store is lost", each_page_shows_its_threads),
    ("calls into protected memory do what they always do", calls_into_protected_memory),
    ("memory that goes away and comes again is never left protected", memory_that_comes_and_goes),
    ("a handler of the program's own gets its faults and no others", a_handler_of_the_programs_own),
    ("threads that block the signal prevent windows", threads_that_block_the_signal),
    ("children are free", children_are_free),
];

fn main() {
    if let Some(why) = missing() {
        return println!("SKIPPED sampling by protection: {why}");
    }
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    for (name, test) in TESTS.iter().filter(|(name, _)| name.contains(&wanted)) {
        println!("test {name}");
        test();
    }
    println!("ok");
}

const PAGE: usize = 4096;
const MOST: Duration = Duration::from_millis(5);
/// Longest time for anything here: there may be more threads than processors.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at what was seen. Looking holds the lock for which a window waits, and a thread that waits is in a
/// call, which prevents the next one.
const LOOK: Duration = Duration::from_millis(5);

/// Memory of its own that may be protected.
#[derive(Clone, Copy)]
struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: plain memory; the tests divide it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(pages: usize) -> Memory {
        let bytes = pages * PAGE;
        // SAFETY: a new mapping.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: mapped above.
        unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, bytes) };
        Memory { start: start.cast(), bytes }
    }

    fn word(&self, page: usize) -> &AtomicU64 {
        // SAFETY: within the mapping, aligned.
        unsafe { &*self.start.add(page * PAGE).cast::<AtomicU64>() }
    }

    fn range(&self) -> (u64, u64) {
        (self.start as u64, self.start as u64 + self.bytes as u64)
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
        if std::thread::panicking() {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("{} windows, {} caught, {:?}", seen.windows, seen.caught.len(), seen.refusals);
        }
    }
}

/// What windows came to.
#[derive(Default)]
struct Seen {
    windows: u64,
    caught: Vec<Caught>,
    refusals: BTreeMap<Refusal, u64>,
}

/// A thread that makes windows over some memory, as the engine's does, until it is told to end.
struct Windows {
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Windows {
    fn over(memory: &[Memory]) -> Windows {
        let areas: Vec<_> = memory.iter().map(Memory::range).collect();
        let (over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let (ends, sees) = (Arc::clone(&over), Arc::clone(&seen));
        let _blocked = Blocked::all().unwrap();
        let thread = std::thread::spawn(move || {
            let _of_engine = OfEngine::new();
            let mut protector = Protector::new().unwrap();
            let mut planner = Planner::new().unwrap();
            while !ends.load(Ordering::Relaxed) {
                let (plan, _) = planner.next(&areas).unwrap();
                let mut caught = Vec::with_capacity(4096);
                let window = protector.window(&plan, MOST, |one| caught.push(one));
                let mut seen = sees.lock().unwrap();
                match window {
                    Ok(_) => seen.windows += 1,
                    Err(why) => *seen.refusals.entry(why).or_default() += 1,
                }
                seen.caught.append(&mut caught);
                drop(seen);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Windows { over, seen, thread: Some(thread) }
    }

    /// Waits until what was seen is enough.
    fn until(&self, what: &str, enough: impl Fn(&Seen) -> bool) {
        let begin = Instant::now();
        while !enough(&self.seen.lock().unwrap()) {
            let seen = self.seen.lock().unwrap();
            let state =
                format!("{} windows, {} caught, {:?}", seen.windows, seen.caught.len(), seen.refusals);
            drop(seen);
            assert!(begin.elapsed() < PATIENCE, "{what}: {state}");
            // Without a call: who sleeps is in one.
            let looked = Instant::now();
            while looked.elapsed() < LOOK {
                std::hint::spin_loop();
            }
        }
    }

    fn end(self) {}
}

fn each_page_shows_its_threads() {
    const PAGES: usize = 256;
    let memory = Memory::new(2 * PAGES);
    let over = AtomicBool::new(false);
    let windows = Windows::over(&[memory]);
    let work = |half: usize| {
        // SAFETY: asks for a number.
        let tid = unsafe { libc::gettid() };
        let mut rounds = 0u64;
        while !over.load(Ordering::Relaxed) {
            for page in half * PAGES..(half + 1) * PAGES {
                memory.word(page).fetch_add(1, Ordering::Relaxed);
            }
            // All use this one.
            memory.word(0).fetch_add(1, Ordering::Relaxed);
            rounds += 1;
        }
        (tid, rounds)
    };
    let done: Vec<(i32, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|half| scope.spawn(move || work(half))).collect();
        windows.until("all pages are seen", |seen| {
            let pages: BTreeSet<u64> = seen.caught.iter().map(|one| one.address / PAGE as u64).collect();
            pages.len() == 2 * PAGES
        });
        over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let seen = Arc::clone(&windows.seen);
    windows.end();
    for caught in &seen.lock().unwrap().caught {
        let page = (caught.address as usize - memory.start as usize) / PAGE;
        assert!(page == 0 || caught.tid == done[page / PAGES].0, "page {page} by {}", caught.tid);
        assert!(caught.store && caught.time > 0);
    }
    let expected = |page: usize| match page {
        0 => 2 * done[0].1 + done[1].1,
        page => done[page / PAGES].1,
    };
    assert!((0..2 * PAGES).all(|page| memory.word(page).load(Ordering::Relaxed) == expected(page)));
}

fn calls_into_protected_memory() {
    let memory = Memory::new(128);
    let windows = Windows::over(&[memory]);
    let mut ends = [0; 2];
    let windows_so_far = || windows.seen.lock().unwrap().windows;
    // SAFETY: the calls are given memory that is there. They go round the C library's own functions.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let (from, to) = (memory.start, memory.start.add(64 * PAGE));
        let begin = Instant::now();
        let mut round = 0u64;
        while round < 2000 || windows_so_far() < 40 {
            assert!(begin.elapsed() < PATIENCE);
            round += 1;
            let spin = Instant::now();
            while spin.elapsed() < Duration::from_micros(300) {
                from.add(round as usize % 64 * PAGE).write_volatile(1);
            }
            // The kernel writes there, and would give EFAULT.
            let time = to.add(round as usize % 64 * PAGE);
            assert_eq!(libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, time), 0);
            assert_ne!(time.cast::<u64>().read_volatile(), 0);
        }
        // A thread that reads and writes is left alone for a second, and then asked again.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(2500) {
            round += 1;
            for page in 0..64 {
                from.add(page * PAGE).cast::<u64>().write_volatile(round + page as u64);
            }
            let bytes = 3 * PAGE;
            assert_eq!(libc::syscall(libc::SYS_write, ends[1], from, bytes), bytes as i64);
            assert_eq!(libc::syscall(libc::SYS_read, ends[0], to, bytes), bytes as i64);
            for page in 0..3 {
                assert_eq!(to.add(page * PAGE).cast::<u64>().read_volatile(), round + page as u64);
            }
        }
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
    windows.end();
}

fn memory_that_comes_and_goes() {
    // All memory: what is mapped, unmapped and remapped belongs to nobody's area.
    let windows = Windows::over(&[]);
    let begin = Instant::now();
    let mut round = 0;
    while round < 300 || windows.seen.lock().unwrap().windows < 20 {
        assert!(begin.elapsed() < PATIENCE);
        let memory = Memory::new(128);
        let spin = Instant::now();
        while spin.elapsed() < Duration::from_millis(1) {
            memory.word(round % 128).fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: its own memory, and nobody uses it any more.
        unsafe {
            let half = memory.bytes / 2;
            match round % 3 {
                0 => assert_eq!(libc::munmap(memory.start.cast(), half), 0),
                1 => {
                    let grown = libc::mremap(memory.start.cast(), half, memory.bytes, libc::MREMAP_MAYMOVE);
                    assert_ne!(grown, libc::MAP_FAILED);
                    libc::munmap(grown, memory.bytes);
                }
                _ => {
                    assert_eq!(libc::mprotect(memory.start.cast(), half, libc::PROT_READ), 0);
                    assert_eq!(memory.start.add(8).read_volatile(), 0);
                    libc::munmap(memory.start.cast(), half);
                }
            }
            libc::munmap(memory.start.add(half).cast(), half);
        }
        round += 1;
    }
    windows.end();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let strange: Vec<&str> = maps
        .lines()
        .filter(|line| line.contains("---p") && !line.contains(".so"))
        .filter(|line| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
            // Guards and reserves of arenas.
            end - start != PAGE as u64 && end - start < 32 << 20
        })
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

static HANDLED: AtomicU64 = AtomicU64::new(0);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static CODE: AtomicU64 = AtomicU64::new(0);
static MASK: AtomicU64 = AtomicU64::new(0);

extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives it; the page is the test's.
    unsafe {
        ADDRESS.store((*info).si_addr() as u64, Ordering::Relaxed);
        CODE.store((*info).si_code as u64, Ordering::Relaxed);
        let mut now = 0u64;
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0, &raw mut now, 8);
        MASK.store(now, Ordering::Relaxed);
        if (*info).si_code > 0 {
            let page = ((*info).si_addr() as usize & !(PAGE - 1)) as *mut libc::c_void;
            libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

fn a_handler_of_the_programs_own() {
    let memory = Memory::new(128);
    let guarded = Memory::new(1);
    // SAFETY: plain data, and calls that are given memory that is there.
    unsafe {
        let mut own: libc::sigaction = std::mem::zeroed();
        own.sa_sigaction = handler as *const () as usize;
        own.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        libc::sigaddset(&raw mut own.sa_mask, libc::SIGUSR2);
        let mut before: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, &raw const own, &raw mut before);
        let windows = Windows::over(&[memory]);
        let begin = Instant::now();
        let mut faults = 0;
        while faults < 200 || windows.seen.lock().unwrap().windows < 40 {
            assert!(begin.elapsed() < PATIENCE);
            let spin = Instant::now();
            while spin.elapsed() < Duration::from_micros(700) {
                memory.word(faults as usize % 128).fetch_add(1, Ordering::Relaxed);
            }
            // Another fault, a signal that is sent, or a question, whatever the windows are at.
            if faults % 3 == 0 {
                libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGSEGV);
                assert_eq!(CODE.load(Ordering::Relaxed) as i32, libc::SI_TKILL);
            } else {
                libc::mprotect(guarded.start.cast(), PAGE, libc::PROT_NONE);
                let spin = Instant::now();
                while spin.elapsed() < Duration::from_micros(700) {
                    memory.word(faults as usize % 128).fetch_add(1, Ordering::Relaxed);
                }
                guarded.start.add(17).write_volatile(1);
                assert_eq!(ADDRESS.load(Ordering::Relaxed), guarded.start as u64 + 17);
                assert_eq!(CODE.load(Ordering::Relaxed), 2);
            }
            faults += 1;
            assert_eq!(HANDLED.load(Ordering::Relaxed), faults);
            let mask = MASK.load(Ordering::Relaxed);
            assert_eq!(mask >> (libc::SIGUSR2 - 1) & 1, 1, "its mask");
            assert_eq!(mask >> (libc::SIGSEGV - 1) & 1, 0, "SA_NODEFER");
            let mut now: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut now);
            // The C library adds one of its own (SA_RESTORER).
            assert_eq!((now.sa_sigaction, now.sa_flags & own.sa_flags), (own.sa_sigaction, own.sa_flags));
        }
        windows.end();
        libc::sigaction(libc::SIGSEGV, &raw const before, std::ptr::null_mut());
    }
}

fn threads_that_block_the_signal() {
    let memory = Memory::new(128);
    let (over, blocks) = (AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: its own mask.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGSEGV);
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            }
            blocks.wait();
            while !over.load(Ordering::Relaxed) {
                memory.word(3).fetch_add(1, Ordering::Relaxed);
            }
        });
        blocks.wait();
        let windows = Windows::over(&[memory]);
        windows
            .until("refusals", |seen| seen.refusals.get(&Refusal::Blocked).is_some_and(|count| *count > 5));
        assert_eq!(windows.seen.lock().unwrap().windows, 0);
        windows.end();
        over.store(true, Ordering::Relaxed);
    });
}

/// True if this process has timers. It allocates nothing.
fn has_timers() -> bool {
    let mut byte = 0u8;
    // SAFETY: a text, and room for a byte.
    unsafe {
        let file = libc::open(c"/proc/self/timers".as_ptr(), libc::O_RDONLY);
        let bytes = libc::read(file, (&raw mut byte).cast(), 1);
        libc::close(file);
        bytes == 1
    }
}

fn children_are_free() {
    let memory = Memory::new(128);
    let windows = Windows::over(&[memory]);
    let begin = Instant::now();
    let mut round = 0;
    while round < 40 || windows.seen.lock().unwrap().windows < 10 {
        assert!(begin.elapsed() < PATIENCE);
        let spin = Instant::now();
        while spin.elapsed() < Duration::from_millis(2) {
            memory.word(round % 128).fetch_add(1, Ordering::Relaxed);
        }
        if round % 2 == 0 {
            // SAFETY: the child touches memory and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let mut sum = 256 * u64::from(has_timers());
                for page in 0..128 {
                    sum += memory.word(page).fetch_add(1, Ordering::Relaxed) & 1;
                }
                // SAFETY: ends the child.
                unsafe { libc::_exit((sum > 128) as i32) };
            }
            let mut status = -1;
            // SAFETY: its own child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        } else {
            // The C library makes it by a call that shares memory with the child.
            assert!(std::process::Command::new("true").status().unwrap().success());
        }
        round += 1;
    }
    windows.end();
    assert!(!has_timers(), "the timers that asked threads are left");
}
