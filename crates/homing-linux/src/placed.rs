//! Memory of our own whose pages are where they shall be: mapped, bound by `mbind(2)` before they are touched.

use crate::policy::mask;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Where the pages of a range come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// These nodes alone.
    Only,
    /// The first of these nodes, others where that is full.
    Rather,
    /// These nodes in turn, page by page.
    Turns,
}

/// Bytes of a page.
pub fn page() -> usize {
    rustix::param::page_size()
}

/// Private memory that is unmapped when this is dropped.
#[derive(Debug)]
pub struct Placed {
    start: NonNull<libc::c_void>,
    bytes: usize,
}

// SAFETY: it is an address and a length; whoever uses the memory sees to it that this is sound.
unsafe impl Send for Placed {}

impl Placed {
    /// Maps at least this many bytes; pages come when they are touched.
    ///
    /// # Errors
    /// What `mmap(2)` gives; EINVAL for none.
    pub fn new(bytes: usize) -> io::Result<Placed> {
        let bytes = bytes.checked_next_multiple_of(page()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).expect("the kernel maps nothing at 0 by itself");
        Ok(Placed { start, bytes })
    }

    /// Its first address.
    pub fn start(&self) -> *mut libc::c_void {
        self.start.as_ptr()
    }

    /// Its length in bytes: whole pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Says where the pages of a range come from, which begins and ends with a page.
    ///
    /// # Errors
    /// What `mbind(2)` gives.
    pub fn bind(&self, range: Range<usize>, from: From, nodes: &[u32]) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {}", self.bytes);
        let mode = match from {
            From::Only => libc::MPOL_BIND,
            From::Rather => libc::MPOL_PREFERRED,
            From::Turns => libc::MPOL_INTERLEAVE,
        };
        let mask = mask(nodes);
        let start = self.start.as_ptr() as usize + range.start;
        // SAFETY: our own mapping; the kernel reads the bits that `mask` has.
        let done = unsafe {
            libc::syscall(libc::SYS_mbind, start, range.len(), mode, mask.as_ptr(), mask.len() * 64 + 1, 0)
        };
        match done {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_whole_pages_that_can_be_bound_and_used() {
        let memory = Placed::new(5000).unwrap();
        assert_eq!(memory.bytes() % page(), 0);
        for from in [From::Only, From::Rather, From::Turns] {
            // A container may forbid it, and a kernel have no nodes.
            if let Err(error) = memory.bind(0..memory.bytes(), from, &[0]) {
                assert!(matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)), "{error}");
            }
        }
        // SAFETY: within the mapping.
        unsafe { memory.start().cast::<u8>().add(4999).write(1) };
        assert!(memory.bind(0..memory.bytes(), From::Only, &[1023]).is_err());
        assert!(Placed::new(0).is_err() && Placed::new(usize::MAX).is_err());
    }
}
