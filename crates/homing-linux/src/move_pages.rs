//! `move_pages(2)`: asking where pages are, and moving them.
//!
//! Neither faults a page in: the kernel looks pages up in the page tables and reports what is not there. A call that
//! moves goes through the list in runs of one target node and **stops at the first run that did not fully move**,
//! leaving the status of what comes behind unwritten; and what it reports as done is where a page was sent, not where
//! it is. So statuses begin as [`UNTOUCHED`], and whoever moves asks afterwards (`Mover` in homing-live does both).

use crate::fail::{self, Call};
use crate::proc::Pid;
use std::io;

/// Status of a page that the kernel did not get to.
pub const UNTOUCHED: i32 = i32::MIN;

/// Pages in one call. Below 512 the rate falls by a factor of five; above, calls only get longer.
pub const BATCH: usize = 1024;

/// What the kernel says of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageStatus {
    /// It is on this node (the kernel's number).
    On(u32),
    /// Why it is on none or did not move: a positive error number.
    Error(i32),
    /// The kernel did not get to it.
    Untouched,
}

impl From<i32> for PageStatus {
    fn from(status: i32) -> PageStatus {
        match status {
            UNTOUCHED => PageStatus::Untouched,
            node if node >= 0 => PageStatus::On(node as u32),
            error => PageStatus::Error(-error),
        }
    }
}

/// Where pages are. `statuses` afterwards has one entry an address.
///
/// # Errors
/// ESRCH if the process has ended, EPERM if it may not be traced. Statuses say what is wrong with single pages: ENOENT
/// and EFAULT where no page is.
pub fn query(pid: Pid, addresses: &[u64], statuses: &mut Vec<i32>) -> io::Result<()> {
    statuses.clear();
    statuses.resize(addresses.len(), UNTOUCHED);
    for (addresses, statuses) in addresses.chunks(BATCH).zip(statuses.chunks_mut(BATCH)) {
        fail::point(Call::QueryPages)?;
        call(pid, addresses, None, statuses, Whose::Own)?;
    }
    Ok(())
}

/// Moves pages, each to the node (the kernel's number) at the same place in `nodes`, in one call. Returns the number of
/// pages that the kernel says did not move; then an unknown part of those marked [`UNTOUCHED`] did.
///
/// Pages that are mapped more than once are left alone (EACCES), unless they are moved for `all` who map them, which
/// needs CAP_SYS_NICE.
///
/// # Errors
/// ESRCH, EPERM as for [`query`]; ENODEV for a node without memory, EACCES for one outside the process's cpuset,
/// ENOMEM.
///
/// # Panics
/// If the two lists differ in length.
pub fn move_to(pid: Pid, addresses: &[u64], nodes: &[i32], statuses: &mut Vec<i32>) -> io::Result<u64> {
    move_as(pid, addresses, nodes, statuses, Whose::Own)
}

/// Whose pages are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those that one mapping has.
    Own,
    /// Others too, for all who map them.
    All,
}

/// As [`move_to`], and says whose pages may move.
///
/// # Errors
/// As for [`move_to`]; EPERM also where `All` is asked for without CAP_SYS_NICE.
///
/// # Panics
/// If the two lists differ in length.
pub fn move_as(
    pid: Pid,
    addresses: &[u64],
    nodes: &[i32],
    statuses: &mut Vec<i32>,
    whose: Whose,
) -> io::Result<u64> {
    assert_eq!(addresses.len(), nodes.len(), "one node for each page");
    statuses.clear();
    statuses.resize(addresses.len(), UNTOUCHED);
    fail::point(Call::MovePages)?;
    call(pid, addresses, Some(nodes), statuses, whose)
}

fn call(
    pid: Pid,
    addresses: &[u64],
    nodes: Option<&[i32]>,
    statuses: &mut [i32],
    whose: Whose,
) -> io::Result<u64> {
    const MPOL_MF_MOVE: libc::c_int = 1 << 1;
    const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;
    let flags = if whose == Whose::All { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE };
    debug_assert_eq!(addresses.len(), statuses.len());
    // SAFETY: the kernel reads `addresses.len()` pointers and as many nodes, and writes as many statuses; all three
    // slices are that long. It never dereferences the addresses.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid.0,
            addresses.len(),
            addresses.as_ptr(),
            nodes.map_or(std::ptr::null(), <[i32]>::as_ptr),
            statuses.as_mut_ptr(),
            flags,
        )
    };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// What an error of `move_pages(2)` means and what can be done about it.
pub fn explain(errno: i32) -> (&'static str, &'static str) {
    match errno {
        libc::EACCES => {
            ("EACCES", "shared with other processes, or the node is outside the process's cpuset")
        }
        libc::EBUSY => ("EBUSY", "busy: under I/O or pinned; tried again a few times"),
        libc::EAGAIN => ("EAGAIN", "did not move within the tries: pinned, or locked by somebody"),
        libc::EFAULT => {
            ("EFAULT", "not mapped, the zero page, or part of a huge page that moved in the same call")
        }
        libc::EIO => ("EIO", "dirty page of a file system that cannot move it"),
        libc::EINVAL => ("EINVAL", "cannot move: a page of a device or of the kernel"),
        libc::ENOENT => ("ENOENT", "no page there now: swapped out or not yet touched"),
        libc::ENOMEM => ("ENOMEM", "no free memory on the target node"),
        libc::ENODEV => ("ENODEV", "the target node has no memory"),
        libc::EPERM => ("EPERM", "the process may not be traced by this user"),
        libc::ESRCH => ("ESRCH", "the process has ended"),
        libc::ENOSYS => ("ENOSYS", "this kernel has no move_pages: it is built without NUMA and MIGRATION"),
        _ => ("errno", "see errno(3)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memmap2::{MmapMut, MmapRaw};

    struct Pages(MmapRaw);

    impl Pages {
        fn new(pages: usize) -> Pages {
            let pages = Pages(MmapMut::map_anon(pages * 4096).unwrap().into());
            // Each page is touched for itself, also where the kernel makes huge ones of all that fits.
            // SAFETY: of this mapping alone, whose contents stay.
            unsafe { libc::madvise(pages.0.as_mut_ptr().cast(), pages.0.len(), libc::MADV_NOHUGEPAGE) };
            pages
        }

        fn addresses(&self) -> Vec<u64> {
            (0..self.0.len() as u64).step_by(4096).map(|at| self.0.as_ptr() as u64 + at).collect()
        }

        fn touch(&self, page: usize) {
            assert!(page * 4096 < self.0.len());
            // SAFETY: within the mapping.
            unsafe { self.0.as_mut_ptr().add(page * 4096).write_volatile(1) };
        }
    }

    fn me() -> Pid {
        Pid(std::process::id() as i32)
    }

    #[test]
    fn asking_never_faults_a_page_in() {
        let pages = Pages::new(1500);
        (0..1500).step_by(2).for_each(|page| pages.touch(page));
        let mut statuses = Vec::new();
        for _ in 0..2 {
            query(me(), &pages.addresses(), &mut statuses).unwrap();
            for (page, &status) in statuses.iter().enumerate() {
                match PageStatus::from(status) {
                    PageStatus::On(node) => assert!(page % 2 == 0 && node < 1024),
                    PageStatus::Error(errno) => {
                        assert!(
                            page % 2 == 1 && [libc::ENOENT, libc::EFAULT].contains(&errno),
                            "{page} {errno}"
                        )
                    }
                    PageStatus::Untouched => panic!("page {page} has no status"),
                }
            }
        }
    }

    #[test]
    fn moving_to_where_pages_are_moves_nothing_and_faults_nothing_in() {
        let pages = Pages::new(8);
        [0, 1, 5].into_iter().for_each(|page| pages.touch(page));
        let mut statuses = Vec::new();
        query(me(), &pages.addresses()[..1], &mut statuses).unwrap();
        let node = statuses[0];
        let not_moved = move_to(me(), &pages.addresses(), &[node; 8], &mut statuses).unwrap();
        assert_eq!(not_moved, 0);
        let on: Vec<usize> = (0..8).filter(|&page| statuses[page] == node).collect();
        assert_eq!(on, [0, 1, 5]);
        query(me(), &pages.addresses(), &mut statuses).unwrap();
        assert_eq!((0..8).filter(|&page| statuses[page] >= 0).collect::<Vec<_>>(), [0, 1, 5]);
    }

    #[test]
    fn nodes_and_processes_that_do_not_exist_are_errors() {
        let pages = Pages::new(1);
        pages.touch(0);
        let mut statuses = Vec::new();
        let error = move_to(me(), &pages.addresses(), &[1023], &mut statuses).unwrap_err();
        assert!([libc::ENODEV, libc::EACCES].contains(&error.raw_os_error().unwrap()), "{error}");
        let error = query(Pid(i32::MAX), &pages.addresses(), &mut statuses).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
