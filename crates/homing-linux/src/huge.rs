//! Splitting huge pages. The kernel splits those of a process on a word in debugfs (mm/huge_memory.c, `split_huge_pages_write`; Linux
//! 5.12, root). The process's data stay as they are; the pages are then 4 KiB each, and move one by one.

use crate::fail::{self, Call};
use crate::proc::Pid;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that takes the word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitter {
    path: PathBuf,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter::at(Path::new("/sys/kernel/debug/split_huge_pages"))
    }
}

impl Splitter {
    /// With another file.
    pub fn at(path: &Path) -> Splitter {
        Splitter { path: path.to_owned() }
    }

    /// Asks for the huge pages in `bytes` from `start` on to be split. The kernel leaves those that are busy and does not say so.
    ///
    /// # Errors
    /// ENOENT or EACCES without debugfs or root, ESRCH if the process has ended.
    pub fn split(&self, pid: Pid, start: u64, bytes: u64) -> io::Result<()> {
        fail::point(Call::Split)?;
        let word = format!("{pid},{start:#x},{:#x}", start.saturating_add(bytes));
        OpenOptions::new().write(true).open(&self.path)?.write_all(word.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_the_process_and_the_range() {
        let file = tempfile::NamedTempFile::new().unwrap();
        Splitter::at(file.path()).split(Pid(7), 0x20_0000, 2 << 20).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "7,0x200000,0x400000");
        assert!(Splitter::at(Path::new("/absent/file")).split(Pid(7), 0, 1).is_err());
    }
}
