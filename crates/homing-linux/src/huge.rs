//! Splitting huge pages, for good. The kernel splits those of a process on a word in debugfs (mm/huge_memory.c,
//! `split_huge_pages_write`; Linux
//! 5.12, root). The process's data stay as they are; the pages are then 4 KiB each, and move one by one.

use crate::fail::{self, Call};
use crate::proc::Pid;
use crate::proc::Proc;
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

    /// Asks for the huge pages in `bytes` from `start` on to be split. The kernel leaves those that are busy and does
    /// not say so.
    ///
    /// # Errors
    /// ENOENT or EACCES without debugfs or root, ESRCH if the process has ended.
    pub fn split(&self, pid: Pid, start: u64, bytes: u64) -> io::Result<()> {
        fail::point(Call::Split)?;
        let word = format!("{pid},{start:#x},{:#x}", start.saturating_add(bytes));
        OpenOptions::new().write(true).open(&self.path)?.write_all(word.as_bytes())
    }
}

/// Bytes of a transparent huge page; none if the kernel has none.
pub fn size() -> Option<u64> {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").ok()?.trim().parse().ok()
}

/// While this lives, this process has no transparent huge pages, and programs that it starts have none for good
/// (`prctl(2)`, `PR_SET_THP_DISABLE`). It is of the whole process: at most one should live at a time.
#[derive(Debug)]
pub struct WithoutHugePages {
    before: bool,
}

impl WithoutHugePages {
    /// Begins.
    ///
    /// # Errors
    /// EINVAL where the kernel has no huge pages.
    pub fn begin() -> io::Result<WithoutHugePages> {
        // SAFETY: asks for a flag of this process.
        let before = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
        if before < 0 {
            return Err(io::Error::last_os_error());
        }
        disable(true)?;
        Ok(WithoutHugePages { before: before == 1 })
    }
}

impl Drop for WithoutHugePages {
    fn drop(&mut self) {
        // What could be set can be taken back.
        let _ = disable(self.before);
    }
}

fn disable(whether: bool) -> io::Result<()> {
    // SAFETY: sets a flag of this process, which changes how its memory is backed and not what it holds.
    match unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(whether), 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Tells the kernel, in the process's name, not to join the pages of these ranges (address, bytes) into huge ones
/// again. A thread of the process is stopped for that moment. It holds as long as the mappings do: the kernel knows no
/// way back to the default.
///
/// # Errors
/// EAGAIN if no thread of the process runs, EPERM if it may not be traced, ESRCH if it has ended, EINVAL where the
/// kernel has no huge pages, ENOMEM where nothing is mapped.
pub fn keep_small(proc: &Proc, pid: Pid, ranges: &[(u64, u64)]) -> io::Result<()> {
    use crate::ptrace::{self, call::Caller};
    let advise = || {
        let memory = ptrace::memory(pid)?;
        let mut caller = Caller::of_any(proc, pid, &memory)?;
        for &(start, bytes) in ranges {
            caller.call(libc::SYS_madvise, &[start, bytes, libc::MADV_NOHUGEPAGE as u64])?;
        }
        Ok([0; 2])
    };
    crate::guard::guarded(advise).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_range_of_another_process_is_kept_small() {
        let mut child = crate::hint_faults::busy_child();
        let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
        let maps = proc.maps(pid).unwrap();
        let heap = maps.iter().find(|mapping| mapping.name == "[heap]").unwrap();
        let advised = loop {
            match keep_small(&proc, pid, &[(heap.start, 4096)]) {
                // A busy machine may not give it a CPU at once.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => break result,
            }
        };
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        match advised {
            Ok(()) => assert!(smaps.lines().any(|line| line.starts_with("VmFlags:") && line.contains(" nh"))),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "a kernel without huge pages"),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(keep_small(&proc, pid, &[(heap.start, 4096)]).is_err());
    }

    #[test]
    fn the_kernel_is_told_the_process_and_the_range() {
        let file = tempfile::NamedTempFile::new().unwrap();
        Splitter::at(file.path()).split(Pid(7), 0x20_0000, 2 << 20).unwrap();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "7,0x200000,0x400000");
        assert!(Splitter::at(Path::new("/absent/file")).split(Pid(7), 0, 1).is_err());
    }
}
