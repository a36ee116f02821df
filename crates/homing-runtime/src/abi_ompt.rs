//! What OpenMP runtimes look for and call: an OMPT tool (OpenMP 5.2, chapter 19), and what `preload/gomp.c` calls for
//! runtimes that have no tools. A program that is only linked with the library is left alone: see `regions::wanted`.

use crate::{abi, abi_allocation, places, regions};
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `ompt_callback_parallel_begin` and `_end` of `ompt_callbacks_t`.
const PARALLEL_BEGIN: c_int = 3;
const PARALLEL_END: c_int = 4;
const IMPLICIT_TASK: c_int = 7;

/// `ompt_scope_begin`, and the flag of a task that is no thread's part of a region.
const BEGIN: c_int = 1;
const INITIAL: c_int = 1;

/// `ompt_data_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub union Data {
    value: u64,
    pointer: *mut c_void,
}

/// `ompt_interface_fn_t`, of which each has a type of its own.
type Function = unsafe extern "C" fn();
type Lookup = unsafe extern "C" fn(*const c_char) -> Option<Function>;
type SetCallback = unsafe extern "C" fn(c_int, Option<Function>) -> c_int;
type ParallelBegin = unsafe extern "C" fn(*mut Data, *const c_void, *mut Data, c_uint, c_int, *const c_void);
type ParallelEnd = unsafe extern "C" fn(*mut Data, *mut Data, c_int, *const c_void);
type ImplicitTask = unsafe extern "C" fn(c_int, *mut Data, *mut Data, c_uint, c_uint, c_int);

/// `ompt_start_tool_result_t`.
#[repr(C)]
pub struct Tool {
    initialize: unsafe extern "C" fn(Lookup, c_int, *mut Data) -> c_int,
    finalize: unsafe extern "C" fn(*mut Data),
    data: Data,
}

struct Static(UnsafeCell<Tool>);
// SAFETY: nothing here reads it; the runtime, whose it is once it was given, guards it.
unsafe impl Sync for Static {}

static TOOL: Static = Static(UnsafeCell::new(Tool { initialize, finalize, data: Data { value: 0 } }));

/// Gives a runtime the tool, if somebody wants it.
#[no_mangle]
pub extern "C" fn ompt_start_tool(_version: c_uint, _runtime: *const c_char) -> *mut Tool {
    match regions::wanted() {
        true => TOOL.0.get(),
        false => std::ptr::null_mut(),
    }
}

/// 0: the runtime shall forget the tool.
unsafe extern "C" fn initialize(lookup: Lookup, _device: c_int, _data: *mut Data) -> c_int {
    // SAFETY: the runtime gives the function, and a constant text.
    let Some(set) = (unsafe { lookup(c"ompt_set_callback".as_ptr()) }) else { return 0 };
    abi_allocation::runtime_of(lookup as *const c_void);
    // SAFETY: the standard gives the function of that name this type.
    let set: SetCallback = unsafe { std::mem::transmute::<Function, SetCallback>(set) };
    // SAFETY: the standard gives the callbacks these types.
    let (begin, end, task) = unsafe {
        (
            std::mem::transmute::<ParallelBegin, Function>(parallel_begin),
            std::mem::transmute::<ParallelEnd, Function>(parallel_end),
            std::mem::transmute::<ImplicitTask, Function>(implicit_task),
        )
    };
    // SAFETY: as above. Without callbacks there are no regions, and nothing happens.
    unsafe {
        set(PARALLEL_BEGIN, Some(begin));
        set(PARALLEL_END, Some(end));
        set(IMPLICIT_TASK, Some(task));
    }
    1
}

/// The end of the process ends all.
unsafe extern "C" fn finalize(_data: *mut Data) {}

unsafe extern "C" fn parallel_begin(
    _task: *mut Data,
    _frame: *const c_void,
    _parallel: *mut Data,
    threads: c_uint,
    _flags: c_int,
    code: *const c_void,
) {
    abi::region_begins(code as u64);
    abi_allocation::region_begins(threads);
}

unsafe extern "C" fn parallel_end(
    _parallel: *mut Data,
    _task: *mut Data,
    _flags: c_int,
    _code: *const c_void,
) {
    abi::region_ends();
    abi_allocation::region_ends();
}

/// A thread begins its part of a region, or has ended it, which it may say no sooner than the next region begins.
unsafe extern "C" fn implicit_task(
    endpoint: c_int,
    _parallel: *mut Data,
    _task: *mut Data,
    threads: c_uint,
    index: c_uint,
    flags: c_int,
) {
    if flags & INITIAL != 0 {
        return;
    }
    match endpoint {
        BEGIN => {
            places::begins();
            abi_allocation::part_begins(index, threads);
        }
        _ => places::ends(),
    }
}

/// The calling thread begins its part of a parallel region.
#[no_mangle]
pub extern "C" fn homing_construct_begin() {
    places::begins();
}

/// The calling thread has ended its part.
#[no_mangle]
pub extern "C" fn homing_construct_end() {
    places::ends();
}

/// A parallel region begins, called after the address of its code.
#[no_mangle]
pub extern "C" fn homing_region_begin(code: *const c_void) {
    if regions::wanted() {
        abi::region_begins(code as u64);
    }
}

/// A parallel region ends.
#[no_mangle]
pub extern "C" fn homing_region_end() {
    if regions::wanted() {
        abi::region_ends();
    }
}
