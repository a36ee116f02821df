//! The memory that both ends share.

use super::ChannelError;
use memmap2::{MmapOptions, MmapRaw};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A shared mapping of the whole memfd. Every access to its header is atomic; the segments are handed over through the
/// pipes, which order the recorder's writes before our reads.
pub(super) struct Mapping(MmapRaw);

impl Mapping {
    pub fn new(file: BorrowedFd<'_>, bytes: usize) -> Result<Mapping, ChannelError> {
        let mapped = MmapOptions::new().len(bytes).map_raw(&file);
        mapped.map(Mapping).map_err(|source| ChannelError::System { call: "mmap", source })
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn u32_at(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.0.len());
        // SAFETY: in bounds and aligned (checked above; the mapping is page-aligned) and lives as long as `self`.
        unsafe { &*self.0.as_mut_ptr().add(at).cast::<AtomicU32>() }
    }

    pub fn u64_at(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.0.len());
        // SAFETY: as for `u32_at`.
        unsafe { &*self.0.as_mut_ptr().add(at).cast::<AtomicU64>() }
    }

    pub fn words(&self, at: usize, words: usize) -> &[u64] {
        assert!(at.is_multiple_of(8) && at + words * 8 <= self.0.len());
        // SAFETY: in bounds and aligned; a posted segment is not written again until its credit goes back.
        unsafe { std::slice::from_raw_parts(self.0.as_mut_ptr().add(at).cast::<u64>(), words) }
    }

    pub fn clear(&mut self, at: usize, words: usize) {
        assert!(at.is_multiple_of(8) && at + words * 8 <= self.0.len());
        // SAFETY: in bounds and aligned; no slice of `words` outlives the exclusive borrow, and a posted segment is not
        // written by its recorder until its credit goes back.
        unsafe { std::ptr::write_bytes(self.0.as_mut_ptr().add(at).cast::<u64>(), 0, words) }
    }
}
