//! The functions of `include/homing/runtime.h` for resource sets.

use crate::abi::{call, text};
use crate::library;
use crate::rset::{free, Rset};
use crate::status::{Status, Verdict};
use homing_rset::{Memory, Threads};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct homing_rset_facts`.
#[repr(C)]
pub struct Facts {
    size: usize,
    cpus: u64,
    nodes: u64,
    bytes: u64,
    free_bytes: u64,
}

/// `enum homing_memory`.
const MEMORIES: [Memory; 4] = [Memory::Float, Memory::Local, Memory::Remote, Memory::Striped];
/// `enum homing_layout`.
const LAYOUTS: [Threads; 3] = [Threads::Fill, Threads::RoundRobin, Threads::OnePerNode];

fn bad(what: &str) -> Verdict {
    Verdict::new(Status::BadArgument, what)
}

/// # Safety
/// `set` is null or of `homing_rset_open`, and not closed.
unsafe fn opened<'s>(set: *const Rset) -> Result<&'s Rset, Verdict> {
    // SAFETY: the caller's promise.
    unsafe { set.as_ref() }.ok_or_else(|| bad("set: expected one of homing_rset_open"))
}

/// # Safety
/// `expression` is null or a text, `set` is null or a place for a pointer.
#[no_mangle]
pub unsafe extern "C" fn homing_rset_open(expression: *const c_char, set: *mut *mut Rset) -> c_int {
    call(|| {
        library::in_parent()?;
        if set.is_null() {
            return Err(bad("set: expected a place for a pointer"));
        }
        // SAFETY: the caller's promise.
        unsafe { set.write(std::ptr::null_mut()) };
        // SAFETY: the caller's promise.
        let expression = unsafe { text(expression) }.ok_or_else(|| bad("expression: expected a text"))?;
        let opened = Box::into_raw(Box::new(Rset::open(&expression)?));
        // SAFETY: the caller's promise.
        unsafe { set.write(opened) };
        Ok(())
    })
}

/// # Safety
/// `set` is null or of `homing_rset_open`, and nobody uses it any more.
#[no_mangle]
pub unsafe extern "C" fn homing_rset_close(set: *mut Rset) {
    if !set.is_null() {
        // SAFETY: made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(set) });
    }
}

/// # Safety
/// As for [`opened`]; `facts` is null, or points to as many bytes as its first word says.
#[no_mangle]
pub unsafe extern "C" fn homing_rset_query(set: *const Rset, facts: *mut Facts) -> c_int {
    call(|| {
        library::in_parent()?;
        // SAFETY: the caller's promise.
        let set = unsafe { opened(set) }?;
        // SAFETY: the caller's promise: at least the size is there.
        let room = if facts.is_null() { 0 } else { unsafe { (&raw const (*facts).size).read() } };
        if room < size_of::<usize>() {
            return Err(bad("facts: expected a structure with its size in `size`"));
        }
        let (free_bytes, bytes) = set.memory();
        let (cpus, nodes) = (set.set.cpus.len() as u64, set.set.memories.len() as u64);
        let ours = Facts { size: room, cpus, nodes, bytes, free_bytes };
        let count = room.min(size_of::<Facts>());
        // SAFETY: both have that many bytes.
        unsafe { std::ptr::copy_nonoverlapping((&raw const ours).cast::<u8>(), facts.cast(), count) };
        Ok(())
    })
}

/// Writes numbers as far as there is room; gives how many there are.
///
/// # Safety
/// `place` is null or has room for `room` numbers.
unsafe fn write(numbers: impl ExactSizeIterator<Item = u16>, place: *mut c_uint, room: usize) -> usize {
    let count = numbers.len();
    if !place.is_null() {
        // SAFETY: at most `room` numbers are written.
        numbers.take(room).enumerate().for_each(|(at, number)| unsafe { place.add(at).write(number.into()) });
    }
    count
}

/// # Safety
/// As for [`opened`] and [`write`].
#[no_mangle]
pub unsafe extern "C" fn homing_rset_cpus(set: *const Rset, numbers: *mut c_uint, room: usize) -> usize {
    // SAFETY: the caller's promises.
    unsafe { set.as_ref().map_or(0, |set| write(set.set.cpus.iter().map(|cpu| cpu.0), numbers, room)) }
}

/// # Safety
/// As for [`opened`] and [`write`].
#[no_mangle]
pub unsafe extern "C" fn homing_rset_nodes(set: *const Rset, numbers: *mut c_uint, room: usize) -> usize {
    // SAFETY: the caller's promises.
    unsafe { set.as_ref().map_or(0, |set| write(set.set.memories.iter().map(|node| node.0), numbers, room)) }
}

/// # Safety
/// As for [`opened`].
#[no_mangle]
pub unsafe extern "C" fn homing_rset_bind_thread(set: *const Rset) -> c_int {
    call(|| {
        library::in_parent()?;
        // SAFETY: the caller's promise.
        unsafe { opened(set) }?.bind_thread()
    })
}

/// # Safety
/// As for [`opened`].
#[no_mangle]
pub unsafe extern "C" fn homing_rset_alloc(
    set: *const Rset,
    bytes: usize,
    memory: c_int,
    stride: usize,
) -> *mut c_void {
    let mut start = std::ptr::null_mut();
    call(|| {
        library::in_parent()?;
        let known = usize::try_from(memory).ok().and_then(|at| MEMORIES.get(at));
        let memory = *known.ok_or_else(|| bad("memory: expected one of enum homing_memory"))?;
        // SAFETY: the caller's promise.
        start = unsafe { opened(set) }?.allocate(bytes, memory, stride)?;
        Ok(())
    });
    start
}

/// # Safety
/// `memory` is null or of `homing_rset_alloc`, and nobody uses it any more.
#[no_mangle]
pub unsafe extern "C" fn homing_rset_free(memory: *mut c_void) -> c_int {
    call(|| {
        library::in_parent()?;
        if memory.is_null() {
            return Ok(());
        }
        free(memory)
    })
}

/// What the program hands to its own function; that it may be used by several threads is the program's promise.
#[derive(Clone, Copy)]
struct Argument(*mut c_void);

// SAFETY: it is only handed on.
unsafe impl Sync for Argument {}

impl Argument {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// As for [`opened`]; `work` may be called with `argument` by several threads at once. An exception that leaves it ends
/// the program.
#[no_mangle]
pub unsafe extern "C" fn homing_team_run(
    set: *const Rset,
    layout: c_int,
    threads: c_uint,
    work: Option<unsafe extern "C-unwind" fn(c_uint, *mut c_void)>,
    argument: *mut c_void,
) -> c_int {
    let argument = Argument(argument);
    call(|| {
        library::in_parent()?;
        let known = usize::try_from(layout).ok().and_then(|at| LAYOUTS.get(at));
        let layout = *known.ok_or_else(|| bad("layout: expected one of enum homing_layout"))?;
        let work = work.ok_or_else(|| bad("work: expected a function"))?;
        // SAFETY: the caller's promise.
        let set = unsafe { opened(set) }?;
        // SAFETY: the caller's promise.
        set.team(layout, threads as usize, |thread| unsafe { work(thread, argument.get()) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and numbers of an enum of the header, in order, without what they begin with.
    fn declared(name: &str) -> Vec<(String, usize)> {
        let header = include_str!("../../../include/homing/runtime.h");
        let body = header.split_once(&format!("enum {name} {{")).unwrap().1.split_once("};").unwrap().0;
        let lines = body.lines().filter_map(|line| line.trim().strip_prefix("HOMING_")?.split_once(" = "));
        let number = |text: &str| text.split([',', ' ', '/']).next().unwrap().parse().unwrap();
        lines.map(|(name, text)| (name.to_lowercase().replace('_', "-"), number(text))).collect()
    }

    #[test]
    fn the_header_has_the_same_policies() {
        let numbered = |names: &[String]| names.iter().cloned().zip(0..).collect::<Vec<_>>();
        assert_eq!(declared("homing_memory"), numbered(&MEMORIES.map(|memory| memory.to_string())));
        assert_eq!(declared("homing_layout"), numbered(&LAYOUTS.map(|layout| layout.to_string())));
    }

    #[test]
    fn the_fortran_module_has_the_same_numbers_and_functions() {
        let header = include_str!("../../../include/homing/runtime.h");
        let module = include_str!("../../../include/homing/homing.f90");
        let number = |line: &str| line.split([',', ' ', '\n']).next().unwrap().parse::<i32>().unwrap();
        let enums =
            header.lines().filter(|line| line.trim_start().starts_with("HOMING_") && line.contains(" = "));
        for (name, value) in enums.map(|line| line.trim().split_once(" = ").unwrap()) {
            let theirs = module.split_once(&format!("{name} = ")).map(|(_, rest)| number(rest));
            assert_eq!(theirs, Some(number(value)), "{name}");
        }
        for name in ["open", "close", "query", "cpus", "nodes", "bind_thread", "alloc", "free"] {
            let name = format!("homing_rset_{name}(");
            assert!(header.contains(&name) && module.contains(&name), "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let none: *mut c_void = std::ptr::null_mut();
        let bad = Status::BadArgument as c_int;
        let mut set = std::ptr::null_mut();
        // SAFETY: null is allowed everywhere.
        unsafe {
            assert_eq!(homing_rset_open(c"all".as_ptr(), none.cast()), bad);
            assert_eq!(homing_rset_open(std::ptr::null(), &raw mut set), bad);
            assert_eq!(homing_rset_open(c"cpu:x".as_ptr(), &raw mut set), bad);
            assert!(set.is_null());
            assert_eq!(homing_rset_query(set, std::ptr::null_mut()), bad);
            assert_eq!(homing_rset_bind_thread(set), bad);
            assert_eq!(homing_rset_cpus(set, std::ptr::null_mut(), 0), 0);
            assert!(homing_rset_alloc(set, 1, 4, 0).is_null());
            assert_eq!(homing_rset_free(none), Status::Ok as c_int);
            assert_eq!(homing_rset_free(std::ptr::dangling_mut()), bad);
            assert_eq!(homing_team_run(set, 0, 1, None, none), bad);
            homing_rset_close(set);
        }
    }

    #[test]
    fn a_set_says_what_it_has() {
        let mut set = std::ptr::null_mut();
        // SAFETY: the places are there, and the set is closed last.
        unsafe {
            if homing_rset_open(c"all".as_ptr(), &raw mut set) != Status::Ok as c_int {
                eprintln!("SKIPPED a test of resource sets: this kernel has no memory nodes in /sys");
                return;
            }
            let mut facts = Facts { size: size_of::<Facts>(), cpus: 0, nodes: 0, bytes: 0, free_bytes: 0 };
            assert_eq!(homing_rset_query(set, &raw mut facts), Status::Ok as c_int);
            assert!(facts.cpus > 0 && facts.free_bytes <= facts.bytes);
            let mut numbers = [c_uint::MAX; 2];
            assert_eq!(homing_rset_cpus(set, numbers.as_mut_ptr(), 1), facts.cpus as usize);
            assert!(numbers[0] != c_uint::MAX && numbers[1] == c_uint::MAX, "{numbers:?}");
            let mut small = Facts { size: 16, cpus: 7, nodes: 7, bytes: 7, free_bytes: 7 };
            assert_eq!(homing_rset_query(set, &raw mut small), Status::Ok as c_int);
            assert_eq!((small.cpus, small.nodes), (facts.cpus, 7), "no more than there is room for");
            homing_rset_close(set);
        }
    }
}
