//! Which pages are huge: the `PAGEMAP_SCAN` request of `/proc/PID/pagemap` (Linux 6.7). Faults nothing in.

use crate::proc::Pid;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_any: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGE_IS_HUGE: u64 = 1 << 6;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong =
    3 << 30 | (std::mem::size_of::<Scan>() as libc::c_ulong) << 16 | (b'f' as libc::c_ulong) << 8 | 16;

/// The page map of a process.
#[derive(Debug)]
pub struct PageMap {
    file: File,
}

impl PageMap {
    /// Opens it.
    ///
    /// # Errors
    /// EACCES if the process may not be traced, ENOENT if it has ended.
    pub fn open(pid: Pid) -> io::Result<PageMap> {
        Ok(PageMap { file: File::open(format!("/proc/{pid}/pagemap"))? })
    }

    /// True if the page at `address` is mapped as part of a huge page.
    ///
    /// # Errors
    /// ENOTTY on kernels older than 6.7.
    pub fn is_huge(&self, address: u64) -> io::Result<bool> {
        let start = address & !4095;
        let mut region = Region::default();
        let mut scan = Scan {
            size: std::mem::size_of::<Scan>() as u64,
            start,
            end: start + 4096,
            regions: &raw mut region as u64,
            regions_length: 1,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..Scan::default()
        };
        // SAFETY: the kernel reads and writes `scan` and writes at most one region where it points.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) } {
            count if count >= 0 => Ok(count > 0),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

    #[test]
    fn huge_and_small_pages_are_told_apart() {
        const HUGE: usize = 2 << 20;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping touches nothing that exists; what follows stays within it until it is unmapped.
        unsafe {
            let mapped =
                mmap_anonymous(std::ptr::null_mut(), 2 * HUGE, protection, MapFlags::PRIVATE).unwrap();
            let huge = (mapped as usize).next_multiple_of(HUGE);
            let advised = libc::madvise(huge as *mut _, HUGE, libc::MADV_HUGEPAGE) == 0;
            (huge as *mut u8).write_volatile(1);
            let pages = PageMap::open(Pid(std::process::id() as i32)).unwrap();
            let small = Box::new(1u8);
            match pages.is_huge(&raw const *small as u64) {
                Err(error) => eprintln!("skipped 1 test: PAGEMAP_SCAN: {error}"),
                Ok(is) => {
                    assert!(!is || !advised);
                    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
                    let header = format!("{:x}-", mapped as usize);
                    let ours = smaps.split('\n').skip_while(|line| !line.starts_with(&header));
                    let line =
                        ours.clone().find(|line| line.starts_with("AnonHugePages:")).unwrap_or_default();
                    let kernel_says = line.split_whitespace().nth(1).is_none_or(|kb| kb != "0");
                    if !line.is_empty() {
                        assert_eq!(pages.is_huge(huge as u64 + 8192).unwrap(), kernel_says, "{line}");
                    }
                }
            }
            munmap(mapped, 2 * HUGE).unwrap();
        }
    }
}
