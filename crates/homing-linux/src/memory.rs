//! Memory of our own in whole pages.

use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};
use std::io;
use std::ops::{Deref, DerefMut};

/// Anonymous memory that begins at a page and is zero; unmapped on drop.
#[derive(Debug)]
pub struct Pages {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: plain private memory that belongs to this value alone.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps at least `bytes` bytes (more than 0), rounded up to whole pages; nothing is touched yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(bytes: usize) -> io::Result<Pages> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }?;
        Ok(Pages { address: address.cast(), bytes })
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is `bytes` long, initialised by the kernel, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the range that `new` mapped; no reference into it outlives `self`. It does not fail for a valid
        // range.
        let _ = unsafe { munmap(self.address.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_zero() {
        let mut pages = Pages::new(5000).unwrap();
        assert_eq!((pages.len(), pages.as_ptr() as usize % 4096, pages[8191]), (8192, 0, 0));
        pages[8191] = 7;
        assert_eq!(pages[8191], 7);
    }
}
