//! What a page fault takes.

use crate::clock::thread_cpu_time;
use std::io;
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: usize = 256;
/// The quickest of these counts: whatever disturbs, slows.
const ROUNDS: usize = 5;

/// The CPU time of a minor fault of the calling thread: the first write to a page of private memory, with the kernel's
/// clearing of the page. CPU time, so that what else runs on the machine does not raise it.
///
/// # Errors
/// If there is no memory.
pub fn minor() -> io::Result<Duration> {
    (0..ROUNDS).map(|_| round()).try_fold(Duration::MAX, |least, time| time.map(|time| least.min(time)))
}

fn round() -> io::Result<Duration> {
    let bytes = PAGES * PAGE;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, of nobody else.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // One fault a page. A kernel without huge pages refuses, and needs no asking.
    // SAFETY: the memory from above.
    unsafe { libc::madvise(memory, bytes, libc::MADV_NOHUGEPAGE) };
    let begin = thread_cpu_time();
    for page in 0..PAGES {
        // SAFETY: within the memory from above.
        unsafe { memory.cast::<u8>().add(page * PAGE).write_volatile(1) };
    }
    let time = thread_cpu_time().saturating_sub(begin);
    // SAFETY: the memory from above, which nobody uses any more.
    unsafe { libc::munmap(memory, bytes) };
    Ok(time / PAGES as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_takes_some_time() {
        assert!(minor().unwrap() > Duration::ZERO);
    }
}
