//! The side of `allocation.rs` that OpenMP runtimes see: `preload/gomp.c` asks before a region of GNU's runtime; of
//! LLVM's the number of threads is changed while a region begins, and put back when it has ended, so that the program
//! finds in `omp_get_max_threads` what it expects.

use crate::{allocation, regions};
use std::cell::Cell;
use std::ffi::{c_int, c_uint, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;

type Ask = unsafe extern "C" fn() -> c_int;
type Set = unsafe extern "C" fn(c_int);

/// Functions of LLVM's runtime.
struct Runtime {
    max_threads: Ask,
    level: Ask,
    set_threads: Set,
}

/// Fewest threads of a region: at the end of one with a single thread the runtime is still in that region, so that what
/// the program had set could not be put back.
const LEAST: c_int = 2;

static RUNTIME: OnceLock<Option<Runtime>> = OnceLock::new();

thread_local! {
    /// What `omp_get_max_threads` gave before the region; 0: it was not changed.
    static BEFORE: Cell<c_int> = const { Cell::new(0) };
}

/// Finds the functions of the runtime that has the code at `within`.
pub fn runtime_of(within: *const c_void) {
    if allocation::wanted() {
        RUNTIME.get_or_init(|| find(within));
    }
}

fn find(within: *const c_void) -> Option<Runtime> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: `dladdr` fills `info` where it gives something; the library is loaded, and only found again.
    let library = unsafe {
        if libc::dladdr(within, info.as_mut_ptr()) == 0 {
            return None;
        }
        libc::dlopen(info.assume_init().dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD)
    };
    let symbol = |name: &CStr| {
        // SAFETY: a constant text, and a library that stays loaded: its reference is kept.
        let address = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!library.is_null() && !address.is_null()).then_some(address)
    };
    let (max, level, set) =
        (symbol(c"omp_get_max_threads")?, symbol(c"omp_get_level")?, symbol(c"omp_set_num_threads")?);
    // SAFETY: the standard gives the functions of these names these types.
    unsafe {
        Some(Runtime {
            max_threads: std::mem::transmute::<*mut c_void, Ask>(max),
            level: std::mem::transmute::<*mut c_void, Ask>(level),
            set_threads: std::mem::transmute::<*mut c_void, Set>(set),
        })
    }
}

fn runtime() -> Option<&'static Runtime> {
    RUNTIME.get()?.as_ref()
}

/// A region of LLVM's runtime begins, for which `requested` threads were asked.
pub fn region_begins(requested: c_uint) {
    let Some(runtime) = runtime().filter(|_| regions::depth() == 1) else { return };
    // SAFETY: functions without arguments, in a thread of the runtime.
    let (most, level) = unsafe { ((runtime.max_threads)(), (runtime.level)()) };
    if level > 0 || most <= 0 {
        return;
    }
    let fixed = if requested == most as c_uint { 0 } else { requested };
    let threads = (homing_threads(fixed, most as c_uint) as c_int).max(LEAST.min(most));
    if fixed == 0 && threads != most && BEFORE.try_with(|before| before.set(most)).is_ok() {
        // SAFETY: as above.
        unsafe { (runtime.set_threads)(threads) };
    }
}

/// A region has ended.
pub fn region_ends() {
    let before = BEFORE.try_with(|before| if regions::depth() == 0 { before.take() } else { 0 });
    if let (Some(runtime), Ok(most @ 1..)) = (runtime(), before) {
        // SAFETY: as above.
        unsafe { (runtime.set_threads)(most) };
    }
}

/// The calling thread begins its part of a region of LLVM's runtime.
pub fn part_begins(index: c_uint, team: c_uint) {
    // SAFETY: as above.
    if runtime().is_some_and(|runtime| unsafe { (runtime.level)() } == 1) {
        homing_part(index, team);
    }
}

/// How many threads a region that is in no other is to have: see `allocation::threads`.
#[no_mangle]
pub extern "C" fn homing_threads(fixed: c_uint, most: c_uint) -> c_uint {
    catch_unwind(AssertUnwindSafe(|| allocation::threads(fixed, most))).unwrap_or(fixed)
}

/// The calling thread begins its part of such a region.
#[no_mangle]
pub extern "C" fn homing_part(index: c_uint, team: c_uint) {
    // A fault of homing leaves the thread where it is.
    let _ = catch_unwind(AssertUnwindSafe(|| allocation::part_begins(index, team)));
}
