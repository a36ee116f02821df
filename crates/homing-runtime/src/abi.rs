//! The functions of `include/homing/runtime.h`. No panic leaves them, and what they are given is checked as far as C
//! allows: a pointer may be null, a text need not be UTF-8.

use crate::library;
use crate::regions;
use crate::statistics::{AreaStatistics, Statistics};
use crate::status::{self, Status, Verdict};
use homing_linux::environment::{is_foreign, variable};
use homing_live::hot;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// Bytes of a mark's name that count.
const NAME: usize = 200;

/// Does the work of a function that gives a status, and keeps the reason of an error.
pub(crate) fn call(work: impl FnOnce() -> Result<(), Verdict>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work));
    let fault = || Err(Verdict::new(Status::Failed, "a fault of homing"));
    match done.unwrap_or_else(|_| fault()) {
        Ok(()) => Status::Ok as c_int,
        Err(verdict) => {
            let status = verdict.status;
            if status != Status::Forked {
                library::with(|shared| shared.reason = verdict.reason);
            }
            status as c_int
        }
    }
}

/// A text of the program's.
///
/// # Safety
/// As for `CStr::from_ptr`, but it may be null.
pub(crate) unsafe fn text<'t>(pointer: *const c_char) -> Option<std::borrow::Cow<'t, str>> {
    // SAFETY: the caller's promise.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy())
}

/// What must be done once in a process, before the manager is started.
fn prepare() {
    extern "C" fn end() {
        // A child of the program: what its locks guard may be left as it was in the midst of a change.
        if library::in_parent().is_err() {
            return;
        }
        // At exit: nobody is left who could be told why there is none.
        library::with(|shared| shared.ended = Some((shared.status, shared.reason.clone())));
        call(library::stop);
        call(|| {
            regions::finish();
            Ok(())
        });
    }
    extern "C" fn child() {
        library::forked();
    }
    static ONCE: Once = Once::new();
    // SAFETY: both functions stay where they are: the library is never unloaded (build.rs).
    ONCE.call_once(|| unsafe {
        libc::atexit(end);
        libc::pthread_atfork(None, None, Some(child));
    });
}

/// The file that an address belongs to, by where it was loaded.
fn loaded(address: *const c_void) -> Option<*mut c_void> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: fills `info` where it gives something.
    let found = unsafe { libc::dladdr(address, info.as_mut_ptr()) } != 0;
    // SAFETY: filled.
    found.then(|| unsafe { info.assume_init() }.dli_fbase)
}

/// True if marks go to somebody else: a recorder.
fn is_recorded() -> bool {
    // SAFETY: a constant text.
    let marks = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"homing_mark".as_ptr()) };
    let recorder = !marks.is_null() && loaded(marks) != loaded(prepare as *const c_void);
    // Valgrind ends a program that makes processes as the scanning helper is one.
    let preloaded = variable("LD_PRELOAD").unwrap_or_default();
    recorder || preloaded.to_string_lossy().contains("/vgpreload_")
}

/// # Safety
/// `settings` is null or a text.
#[no_mangle]
pub unsafe extern "C" fn homing_start(settings: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    call(|| start(&unsafe { text(settings) }.unwrap_or_default()))
}

fn start(settings: &str) -> Result<(), Verdict> {
    library::in_parent()?;
    if is_foreign() {
        return library::refuse(Status::Secure);
    }
    if is_recorded() {
        return library::refuse(Status::Recorded);
    }
    prepare();
    library::start(settings)
}

/// The library is loaded. What a start comes to is told at exit.
#[cfg(target_arch = "x86_64")]
pub(crate) fn loaded_into_program() {
    call(|| {
        regions::at_load(|settings| {
            prepare();
            call(|| start(settings));
        });
        Ok(())
    });
}

/// A parallel region of the program begins. What a start comes to is told at exit.
pub(crate) fn region_begins(code: u64) {
    call(|| {
        prepare();
        regions::begins(code, |settings| {
            call(|| start(settings));
        });
        Ok(())
    });
}

/// A parallel region of the program ends.
pub(crate) fn region_ends() {
    call(|| {
        regions::ends();
        Ok(())
    });
}

/// Ends the manager.
#[no_mangle]
pub extern "C" fn homing_stop() -> c_int {
    call(library::stop)
}

/// What the last start, or the manager, came to.
#[no_mangle]
pub extern "C" fn homing_status() -> c_int {
    if library::in_parent().is_err() {
        return Status::Forked as c_int;
    }
    library::with(|shared| shared.status as c_int)
}

/// # Safety
/// `name` is null or a text. The memory at `address` is not touched.
#[no_mangle]
pub unsafe extern "C" fn homing_area(address: *const c_void, bytes: usize, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { homing_area_with(address, bytes, name, std::ptr::null()) }
}

/// # Safety
/// `name` and `own` are null or texts. The memory at `address` is not touched.
#[no_mangle]
pub unsafe extern "C" fn homing_area_with(
    address: *const c_void,
    bytes: usize,
    name: *const c_char,
    own: *const c_char,
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (name, own) = unsafe { (text(name).map(|name| name.into_owned()), text(own)) };
        library::change_areas(|areas| {
            let own = hot::own(&own.unwrap_or_default());
            let own =
                own.map_err(|why| format!("area {}: {why}", name.as_deref().unwrap_or("without a name")))?;
            areas.add(address as u64, bytes as u64, name, own)
        })
    })
}

/// # Safety
/// `statistics` is null, or points to as many bytes as its first word says.
#[no_mangle]
pub unsafe extern "C" fn homing_area_statistics(
    address: *const c_void,
    statistics: *mut AreaStatistics,
) -> c_int {
    call(|| {
        library::in_parent()?;
        let none = || Verdict::new(Status::BadArgument, format!("no area begins at {address:p}"));
        library::with(|shared| shared.areas.has(address as u64).then_some(())).ok_or_else(none)?;
        let counted = library::with(|shared| {
            let area = shared.hot.areas.iter().rev().find(|area| area.start == address as u64);
            area.map_or_else(AreaStatistics::default, AreaStatistics::from)
        });
        // SAFETY: the caller's promise.
        unsafe { fill(statistics, |size| AreaStatistics { size, ..counted }) }
    })
}

/// Fills as much of a structure as its first word, its size, has room for.
///
/// # Safety
/// `place` is null, or points to as many bytes as its first word says. The first field of a `T` is its size.
unsafe fn fill<T>(place: *mut T, ours: impl FnOnce(usize) -> T) -> Result<(), Verdict> {
    let bad =
        || Verdict::new(Status::BadArgument, "statistics: expected a structure with its size in `size`");
    if place.is_null() {
        return Err(bad());
    }
    // SAFETY: the caller's promise: at least the size is there.
    let room = unsafe { place.cast::<usize>().read() };
    if room < size_of::<usize>() {
        return Err(bad());
    }
    let ours = ours(room);
    // SAFETY: both have that many bytes.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const ours).cast::<u8>(), place.cast(), room.min(size_of::<T>()));
    }
    Ok(())
}

/// Forgets an area by its address.
#[no_mangle]
pub extern "C" fn homing_area_forget(address: *const c_void) -> c_int {
    let none = || format!("no area begins at {address:p}");
    call(|| library::change_areas(|areas| areas.forget(address as u64).then_some(()).ok_or_else(none)))
}

/// # Safety
/// `name` is null or a text.
#[no_mangle]
pub unsafe extern "C" fn homing_area_forget_name(name: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }.unwrap_or_default();
        let none = || format!("no area has the name `{name}`");
        library::change_areas(|areas| areas.forget_named(&name).then_some(()).ok_or_else(none))
    })
}

/// What `include/homing.h` calls, unless a recorder has a function of that name.
///
/// # Safety
/// `name` is null or a text.
#[no_mangle]
pub unsafe extern "C" fn homing_mark(name: *const c_char) {
    call(|| {
        // SAFETY: the caller's promise.
        if let Some(name) = unsafe { text(name) } {
            let end =
                name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= NAME).last();
            library::mark(&name[..end.unwrap_or(0)]);
        }
        Ok(())
    });
}

/// # Safety
/// `statistics` is null, or points to as many bytes as its first word says.
#[no_mangle]
pub unsafe extern "C" fn homing_statistics(statistics: *mut Statistics) -> c_int {
    call(|| {
        library::in_parent()?;
        let counted = library::with(|shared| shared.statistics);
        // SAFETY: the caller's promise.
        unsafe { fill(statistics, |size| Statistics { size, ..counted }) }
    })
}

/// A sentence for a status.
#[no_mangle]
pub extern "C" fn homing_status_text(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// Writes a text as snprintf does.
///
/// # Safety
/// `room` has `bytes` bytes.
unsafe fn write(words: &str, room: *mut c_char, bytes: usize) -> usize {
    let most = words.len().min(bytes.saturating_sub(1));
    if !room.is_null() && bytes > 0 {
        // SAFETY: at most `bytes` bytes are written.
        unsafe {
            std::ptr::copy_nonoverlapping(words.as_ptr(), room.cast(), most);
            room.add(most).write(0);
        }
    }
    words.len()
}

/// # Safety
/// `room` is null or has `bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn homing_reason(room: *mut c_char, bytes: usize) -> usize {
    let forked = || status::text(Status::Forked as c_int).to_string_lossy().into_owned();
    let reason = match library::in_parent() {
        Ok(()) => library::with(|shared| shared.reason.clone()),
        Err(_) => forked(),
    };
    // SAFETY: the caller's promise.
    unsafe { write(&reason, room, bytes) }
}

/// # Safety
/// `room` is null or has `bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn homing_source(room: *mut c_char, bytes: usize) -> usize {
    let source = library::in_parent().map_or("", |()| library::with(|shared| shared.source));
    // SAFETY: the caller's promise.
    unsafe { write(source, room, bytes) }
}
