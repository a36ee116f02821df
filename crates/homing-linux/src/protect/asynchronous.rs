//! What the kernel writes to a program's memory by itself, not in a call: completions of io_uring, and areas for
//! restartable sequences (rseq). The kernel tells a thread about itself alone, so the handlers ask; descriptors can be
//! looked at from outside. Nothing here allocates.

use super::handlers::thread_pointer;
use super::threads::entries;
use super::{stub, Refusal};
use std::ffi::CStr;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// The thread has made an io_uring, or has submitted to one.
pub const RING: u8 = 1;
/// The thread has an area for restartable sequences that is not the C library's.
pub const RSEQ: u8 = 2;

/// `IORING_ENTER_REGISTERED_RING` (Linux 5.18).
const REGISTERED: u64 = 1 << 4;
/// The signature that the C library registers areas with (`RSEQ_SIG`).
const SIGNATURE: u64 = 0x5305_3053;
/// Bytes of an area, and what it is aligned to, at least.
const AREA: u64 = 32;
/// Aligned, and no program's memory.
const NOWHERE: u64 = 0xffff_8000_0000_0000;
/// `AT_RSEQ_FEATURE_SIZE`.
const FEATURE_SIZE: libc::c_ulong = 27;

/// False where filters of system calls (seccomp) may end a thread for a call that it does not make itself.
static ASKS_FOR_RINGS: AtomicBool = AtomicBool::new(false);
/// Bytes of the C library's areas, and where they are from the thread pointer on; 0 bytes where it has none.
static BYTES: AtomicU64 = AtomicU64::new(0);
static OFFSET: AtomicI64 = AtomicI64::new(0);

/// Looks up what [`of_this_thread`] needs. `filtered`: there are filters of system calls.
pub fn prepare(filtered: bool) {
    ASKS_FOR_RINGS.store(!filtered, Ordering::Relaxed);
    // SAFETY: constant texts; the words are the C library's, and constant.
    unsafe {
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>();
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<i64>();
        if !size.is_null() && !offset.is_null() && *size != 0 {
            OFFSET.store(*offset, Ordering::Relaxed);
            let features = libc::getauxval(FEATURE_SIZE);
            BYTES.store(features.max(AREA).next_multiple_of(AREA), Ordering::Relaxed);
        }
    }
}

/// Where the C library's area of a thread is, by its thread pointer.
pub fn area(pointer: u64) -> Option<u64> {
    (BYTES.load(Ordering::Relaxed) != 0).then(|| pointer.wrapping_add_signed(OFFSET.load(Ordering::Relaxed)))
}

/// Whether threads are asked for rings. If not, all descriptors are looked at.
pub fn asks_for_rings() -> bool {
    ASKS_FOR_RINGS.load(Ordering::Relaxed)
}

/// [`RING`] and [`RSEQ`], as they hold for the calling thread. Changes nothing. Safe in handlers of signals.
pub fn of_this_thread() -> u8 {
    let ring = if asks_for_rings() && has_ring() { RING } else { 0 };
    ring | if has_other_area() { RSEQ } else { 0 }
}

/// The kernel knows registered rings by the thread. One without the means for it has never used any.
fn has_ring() -> bool {
    // SAFETY: submits nothing, and waits for nothing.
    let answer = unsafe { stub::call(libc::SYS_io_uring_enter, [0, 0, 0, REGISTERED, 0]) };
    ![libc::EINVAL, libc::ENOSYS, libc::EPERM].iter().any(|error| answer == -i64::from(*error))
}

fn has_other_area() -> bool {
    // SAFETY: the kernel refuses in each case: to register a second area, or one that is there, or at no address.
    let register = |address, bytes| unsafe { stub::call(libc::SYS_rseq, [address, bytes, 0, SIGNATURE, 0]) };
    // Without an area the address is looked at (EFAULT).
    if register(NOWHERE, AREA) != -i64::from(libc::EINVAL) {
        return false;
    }
    // The C library may have given it the least length, or that of the kernel's.
    let own = |address| {
        [AREA, BYTES.load(Ordering::Relaxed)].into_iter().any(|bytes| {
            let answer = register(address, bytes);
            answer == -i64::from(libc::EBUSY) || answer == -i64::from(libc::EPERM)
        })
    };
    !area(thread_pointer()).is_some_and(own)
}

/// Most descriptors that are looked at.
const DESCRIPTORS: usize = 1024;

/// True if one of a thread's descriptors is an io_uring. Lists them into `room`.
///
/// # Errors
/// [`Refusal::Proc`] if there are more than are looked at.
pub fn has_ring_among(tid: i32, room: &mut [u8]) -> Result<bool, Refusal> {
    let mut path = [0u8; 64];
    write!(&mut path[..63], "/proc/self/task/{tid}/fd").map_err(|_| Refusal::Proc)?;
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Refusal::Proc)?;
    let (mut seen, mut found) = (0, false);
    let all = entries(path, room, |folder, name| {
        let mut target = [0u8; 32];
        // SAFETY: a text; the kernel writes at most as much as there is room.
        let bytes =
            unsafe { libc::readlinkat(folder, name.as_ptr(), target.as_mut_ptr().cast(), target.len()) };
        found |= target[..usize::try_from(bytes).unwrap_or(0)].starts_with(b"anon_inode:[io_uring]");
        seen += 1;
        match seen > DESCRIPTORS {
            true => Err(Refusal::Proc),
            false => Ok(()),
        }
    });
    // A thread that has ended has none.
    all.unwrap_or(Ok(())).map(|()| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_says_whether_the_kernel_writes_to_an_area_of_its_own() {
        prepare(false);
        // The harness uses none.
        assert_eq!(of_this_thread() & RSEQ, 0);
        let at = area(thread_pointer());
        // As if the area of the C library were elsewhere: then this one is another.
        OFFSET.fetch_add(4096, Ordering::Relaxed);
        let other = of_this_thread() & RSEQ;
        OFFSET.fetch_sub(4096, Ordering::Relaxed);
        assert_eq!(other, if at.is_some() { RSEQ } else { 0 });
    }
}
