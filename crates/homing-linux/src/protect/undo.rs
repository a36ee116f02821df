//! Giving pages back at the end of a window, whatever the kernel says to that.

use super::parts::Segment;
use super::shared::{END, SEGMENTS};
use super::{handlers, stub};
use crate::fail::{self, Call};
use std::sync::atomic::Ordering;

/// How long it is tried: the kernel may be short of memory for a moment.
const MOST: u64 = 10_000_000_000;
/// Between two tries, in nanoseconds.
const NAP: i64 = 1_000_000;

/// True if the limit of a process's data (RLIMIT_DATA) is set. The kernel counts pages that cannot be written as none,
/// and asks the limit when they can be again.
pub fn data_are_limited() -> bool {
    limit(None).is_none_or(|now| now.rlim_cur != libc::RLIM_INFINITY)
}

/// Sets the limit of data. Returns what it was, unless the kernel refuses.
fn limit(new: Option<libc::rlimit>) -> Option<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    let new = new.as_ref().map_or(0, |new| std::ptr::from_ref(new) as u64);
    // SAFETY: reads one structure, and fills another.
    let done = unsafe {
        stub::call(libc::SYS_prlimit64, [0, libc::RLIMIT_DATA as u64, new, &raw mut before as u64, 0])
    };
    (done == 0).then_some(before)
}

/// Gives back all pages of the segments. Where the kernel refuses for as long as is tried, no thread of the program
/// could go on: the program ends, with the reason.
pub fn give_back(segments: &[Segment]) {
    let until = handlers::monotonic() + MOST;
    let mut given = 0;
    let mut refused = rest(segments, &mut given);
    while refused != 0 {
        // Somebody may have set a limit meanwhile.
        refused = beyond_limit(segments, &mut given);
        if refused != 0 && handlers::monotonic() >= until {
            end(-refused);
        }
        if refused != 0 {
            stub::wait(&END, END.load(Ordering::Relaxed), NAP);
        }
    }
}

/// Tries each that is not given back: one may need room that another one gives. The last error, or 0; `given` has a bit
/// for each segment, of which there are no more.
fn rest(segments: &[Segment], given: &mut u64) -> i64 {
    const { assert!(SEGMENTS <= u64::BITS as usize) };
    let mut refused = 0;
    let before = *given;
    for (place, segment) in segments.iter().enumerate().filter(|(place, _)| before >> place & 1 == 0) {
        let failed = fail::point(Call::Unprotect).err().and_then(|error| error.raw_os_error());
        let answer = match failed {
            Some(errno) => -i64::from(errno),
            // SAFETY: what the pages could be used for before.
            None => unsafe { stub::protect(segment.start, segment.end, handlers::READ_WRITE) },
        };
        match answer {
            0 => *given |= 1 << place,
            _ => refused = answer,
        }
    }
    refused
}

/// As [`rest`], with the limit of data as high as this process may set it.
fn beyond_limit(segments: &[Segment], given: &mut u64) -> i64 {
    let Some(before) = limit(None) else { return rest(segments, given) };
    let most = [libc::RLIM_INFINITY, before.rlim_max];
    let raised =
        most.into_iter().any(|most| limit(Some(libc::rlimit { rlim_cur: most, rlim_max: most })).is_some());
    let refused = rest(segments, given);
    if raised {
        limit(Some(before));
    }
    refused
}

fn end(errno: i64) -> ! {
    let mut line = [0u8; 200];
    let room = line.len();
    let mut rest = &mut line[..];
    // What has no room is cut.
    let _ = std::io::Write::write_fmt(
        &mut rest,
        format_args!(
            "homing: the kernel does not give back pages that were protected (error {errno}): the program ends; \
             run it without --source protect\n"
        ),
    );
    let bytes = room - rest.len();
    // SAFETY: writes a text, and ends the process.
    unsafe {
        stub::call(libc::SYS_write, [2, line.as_ptr() as u64, bytes as u64, 0, 0]);
        let process = stub::call(libc::SYS_getpid, [0; 5]) as u64;
        stub::call(libc::SYS_kill, [process, libc::SIGKILL as u64, 0, 0, 0]);
    }
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::super::parts::PAGE;
    use super::*;

    /// Runs `work` in a child; its status.
    fn in_child(work: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child makes calls alone, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let code = work();
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) };
        }
        let mut status = -1;
        // SAFETY: its own child.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status
    }

    /// Memory that is protected, with a limit of data below what is used.
    fn limited() -> Option<Segment> {
        let bytes = 256 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes as usize, handlers::READ_WRITE, flags, -1, 0) as u64
        };
        let segment = Segment { start, end: start + bytes, unit: PAGE };
        // SAFETY: its own memory.
        unsafe {
            *(start as *mut u8) = 7;
            stub::protect(start, segment.end, libc::PROT_NONE);
        }
        limit(Some(libc::rlimit { rlim_cur: PAGE, rlim_max: libc::RLIM_INFINITY })).map(|_| segment)
    }

    #[test]
    fn pages_come_back_below_a_limit_which_stays() {
        // It reads the environment once, which a child of several threads may not.
        let _ = fail::point(Call::Unprotect);
        let status = in_child(|| {
            let Some(segment) = limited() else { return 2 };
            if rest(&[segment], &mut 0) != -i64::from(libc::ENOMEM) {
                return 3;
            }
            give_back(&[segment]);
            // SAFETY: given back.
            let kept = unsafe { *(segment.start as *const u8) } == 7;
            i32::from(!kept || limit(None).is_none_or(|limit| limit.rlim_cur != PAGE))
        });
        assert_eq!(status, 0);
    }
}
