//! Whole files as read-only memory.

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::Path;

/// A file mapped into memory; the bytes are those that it had when it was opened, as long as nobody else cuts it.
#[derive(Debug)]
pub struct MappedFile {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping is private and read-only: plain memory that any thread may read.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the file. An empty one gives no bytes.
    pub fn open(path: &Path) -> io::Result<MappedFile> {
        let file = File::open(path)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(MappedFile { address: std::ptr::dangling_mut(), bytes });
        }
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let address = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, &file, 0)
        }?;
        Ok(MappedFile { address: address.cast(), bytes })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `address` is valid for `bytes` bytes as long as `self` lives (or dangling and aligned, for none).
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the range is the one that `open` mapped, and no reference into it outlives `self`.
            // munmap of a valid range does not fail.
            let _ = unsafe { rustix::mm::munmap(self.address.cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_empty_files_read_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        for content in [&b""[..], b"some bytes"] {
            let path = directory.path().join("file");
            std::fs::write(&path, content).unwrap();
            assert_eq!(&*MappedFile::open(&path).unwrap(), content);
        }
        assert!(
            MappedFile::open(directory.path()).is_err() && MappedFile::open(Path::new("/absent")).is_err()
        );
    }
}
