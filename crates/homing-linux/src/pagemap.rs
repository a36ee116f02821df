//! Which pages are there, and which are huge: `/proc/PID/pagemap`, and its request `PAGEMAP_SCAN` (Linux 6.7), which
//! passes over what is only reserved. Faults nothing in.

use crate::proc::Pid;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

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
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGE: u64 = 4096;
/// An entry of the file: the page is in memory; and the number of its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
/// The page of zeroes that all processes share: nobody's own.
const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;

/// Pages, or regions of them, that one request gives at most.
const MOST: usize = 4096;
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
    /// EACCES if the process may not be traced, ENOENT or ESRCH if it has ended or is one of the kernel's own, which
    /// have no memory.
    pub fn open(pid: Pid) -> io::Result<PageMap> {
        let map = PageMap { file: File::open(format!("/proc/{pid}/pagemap"))? };
        map.there()?;
        Ok(map)
    }

    /// ESRCH once the memory of the process is gone: its file then reads as empty. The request alone does not say so:
    /// on some kernels it reports no pages, and no error.
    fn there(&self) -> io::Result<()> {
        self.entries(0, &mut [0; 8]).map(|_| ())
    }

    /// Reads entries from that of the page at `address` on. Returns how many there were, at least one.
    fn entries(&self, address: u64, entries: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(entries, address / PAGE * 8)? / 8 {
            0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            count => Ok(count),
        }
    }

    /// True if the page at `address` is mapped as part of a huge page.
    ///
    /// # Errors
    /// ENOTTY on kernels older than 6.7; ESRCH if the process has ended.
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
            0 => self.there().map(|()| false),
            count if count > 0 => Ok(true),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The physical address of the page at `address`, if it is in memory; 0 for others than root.
    ///
    /// # Errors
    /// ESRCH if the process has ended.
    pub fn frame(&self, address: u64) -> io::Result<Option<u64>> {
        let mut entry = [0; 8];
        self.entries(address, &mut entry)?;
        let entry = u64::from_ne_bytes(entry);
        Ok((entry & PRESENT != 0).then_some((entry & FRAME) * PAGE))
    }

    /// Adds the addresses of pages that are in memory, from `start` on, in order: a few thousand at most. Returns where
    /// to go on; `end` once all are reported.
    ///
    /// # Errors
    /// ESRCH if the process has ended, and what `ioctl(2)` and `pread(2)` give.
    pub fn present(&self, start: u64, end: u64, found: &mut Vec<u64>) -> io::Result<u64> {
        match self.scan_present(start, end, found) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => self.read_present(start, end, found),
            scanned => scanned,
        }
    }

    /// By the request: takes time by what is there.
    fn scan_present(&self, start: u64, end: u64, found: &mut Vec<u64>) -> io::Result<u64> {
        let mut regions = [Region::default(); 64];
        let mut scan = Scan {
            size: std::mem::size_of::<Scan>() as u64,
            start,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_length: regions.len() as u64,
            max_pages: MOST as u64,
            category_inverted: PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_PRESENT | PAGE_IS_PFNZERO,
            return_mask: PAGE_IS_PRESENT,
            ..Scan::default()
        };
        // SAFETY: the kernel reads and writes `scan` and writes at most as many regions as there are where it points.
        let count = unsafe { libc::ioctl(self.file.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        if count == 0 {
            self.there()?;
        }
        for region in &regions[..count.min(regions.len())] {
            found.extend((region.start..region.end).step_by(PAGE as usize));
        }
        Ok(scan.walk_end.clamp(start + PAGE, end.max(start + PAGE)))
    }

    /// By the file, on older kernels: takes time by what is reserved.
    fn read_present(&self, start: u64, end: u64, found: &mut Vec<u64>) -> io::Result<u64> {
        let pages = ((end - start) / PAGE).min(MOST as u64);
        let mut entries = vec![0; pages as usize * 8];
        let count = self.entries(start, &mut entries)?;
        let entries =
            entries[..count * 8].chunks_exact(8).map(|entry| entry.try_into().map_or(0, u64::from_ne_bytes));
        let addresses = (start..end).step_by(PAGE as usize);
        found.extend(
            addresses.zip(entries).filter(|(_, entry)| entry & PRESENT != 0).map(|(address, _)| address),
        );
        Ok(start + count as u64 * PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Proc;
    use memmap2::{MmapMut, MmapOptions};

    /// All that `next` reports of a range, and the most at once.
    fn all(
        start: u64,
        end: u64,
        next: impl Fn(u64, u64, &mut Vec<u64>) -> io::Result<u64>,
    ) -> io::Result<(Vec<u64>, usize)> {
        let (mut all, mut most, mut at) = (Vec::new(), 0, start);
        while at < end {
            let mut found = Vec::new();
            let after = next(at, end, &mut found)?;
            assert!(at < after && after <= end);
            at = after;
            most = most.max(found.capacity());
            all.extend(found);
        }
        Ok((all, most))
    }

    #[test]
    fn pages_that_were_written_have_frames_of_their_own() {
        let mut memory = vec![0u8; 3 * 4096];
        let start = (memory.as_mut_ptr() as u64).next_multiple_of(4096);
        memory.iter_mut().step_by(512).for_each(|byte| *byte = 1);
        let map = PageMap::open(Pid(std::process::id() as i32)).unwrap();
        let found = [start, start + 4096, 1 << 46].map(|page| map.frame(page).unwrap());
        assert_eq!(found[2], None);
        // Others than root are shown 0.
        assert!(found[0].is_some() && (found[0] == Some(0) || found[0] != found[1]), "{found:?}");
    }

    #[test]
    fn what_is_touched_of_a_large_reservation_is_found_in_bounded_memory() {
        const RESERVED: usize = 1 << 40;
        let mut reserved = MmapOptions::new().len(RESERVED).no_reserve_swap().map_anon().unwrap();
        let mapped = reserved.as_mut_ptr();
        // SAFETY: what follows stays within the mapping.
        unsafe {
            let start = mapped as u64;
            libc::madvise(mapped.cast(), RESERVED, libc::MADV_NOHUGEPAGE);
            let far = [RESERVED as u64 / 4096 - 1, 1 << 20, (1 << 20) + 1, 77_777_777];
            let mut pages: Vec<u64> = (0..10_000).map(|page| 3 * page).chain(far).collect();
            pages.sort_unstable();
            pages.iter().for_each(|page| ((start + page * PAGE) as *mut u8).write_volatile(1));
            // Read and never written: no page of its own.
            ((start + 5_000_000 * PAGE) as *mut u8).read_volatile();
            let expected: Vec<u64> = pages.iter().map(|page| start + page * PAGE).collect();
            let map = PageMap::open(Pid(std::process::id() as i32)).unwrap();
            match all(start, start + RESERVED as u64, |start, end, found| map.scan_present(start, end, found))
            {
                Ok((found, most)) => {
                    assert_eq!(found, expected);
                    assert!(most <= 2 * MOST, "{most} addresses at once");
                }
                Err(error) => eprintln!("SKIPPED: PAGEMAP_SCAN: {error}"),
            }
            let first = start + (64 << 20);
            let (found, most) =
                all(start, first, |start, end, found| map.read_present(start, end, found)).unwrap();
            assert_eq!(found, expected.into_iter().filter(|at| *at < first).collect::<Vec<_>>());
            assert!(most <= 2 * MOST);
        }
    }

    /// True if a request found that the process has no memory.
    fn gone<T: std::fmt::Debug>(answer: io::Result<T>) -> bool {
        answer.is_err_and(|error| error.raw_os_error() == Some(libc::ESRCH))
    }

    #[test]
    fn a_process_that_has_ended_has_no_pages() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let map = PageMap::open(pid).unwrap();
        child.kill().unwrap();
        // Its memory is gone before anybody can wait for it.
        let begin = std::time::Instant::now();
        while Proc::default().process_stat(pid).unwrap().state != 'Z' {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60));
            std::thread::yield_now();
        }
        let all_gone = || {
            let mut found = Vec::new();
            assert!(gone(map.read_present(0, 1 << 30, &mut found)));
            assert!(gone(map.present(0, 1 << 30, &mut found)));
            assert!(gone(map.frame(1 << 22)));
            let huge = map.is_huge(1 << 22).unwrap_err().raw_os_error();
            assert!(matches!(huge, Some(libc::ESRCH | libc::ENOTTY)), "{huge:?}");
            assert_eq!(found, []);
        };
        all_gone();
        assert!(gone(PageMap::open(pid)), "one that has ended and that nobody waited for");
        child.wait().unwrap();
        all_gone();
    }

    #[test]
    fn the_kernels_own_processes_have_no_page_map() {
        let proc = Proc::default();
        let kthreadd = Pid(2);
        if proc.process_stat(kthreadd).is_ok() && proc.maps(kthreadd).is_ok_and(|maps| maps.is_empty()) {
            assert!(PageMap::open(kthreadd).is_err());
        } else {
            eprintln!("SKIPPED: the kernel's own processes are not seen here");
        }
    }

    #[test]
    fn huge_and_small_pages_are_told_apart() {
        const HUGE: usize = 2 << 20;
        let mut mapping = MmapMut::map_anon(2 * HUGE).unwrap();
        let mapped = mapping.as_mut_ptr();
        // SAFETY: what follows stays within the mapping.
        unsafe {
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
        }
    }
}
