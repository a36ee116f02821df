//! Whole files as read-only memory.

pub use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// Maps a file. The bytes are those that it had when it was opened, as long as nobody else cuts it.
pub fn open(path: &Path) -> io::Result<Mmap> {
    of(&File::open(path)?)
}

/// Maps an open file, as [`open`] does.
pub fn of(file: &File) -> io::Result<Mmap> {
    // SAFETY: private and read-only. A file that somebody cuts meanwhile ends the program (SIGBUS).
    unsafe { Mmap::map(file) }
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
            assert_eq!(&*open(&path).unwrap(), content);
        }
        assert!(open(directory.path()).is_err() && open(Path::new("/absent")).is_err());
    }
}
