//! The scanning helper of a program that tunes itself: started by a plain call of its code, without a tracer.

use super::code::{at, begin, words};
use super::scanner::Origin;
use super::{scanner::Scanner, PAGE};
use crate::proc::Pid;
use crate::ptrace;
use crate::signals::Blocked;
use std::io;

/// True for this process.
pub fn is_this(pid: Pid) -> bool {
    u32::try_from(pid.0) == Ok(std::process::id())
}

/// A page of zeros that belongs to nobody.
///
/// # Errors
/// ENOMEM.
fn page() -> io::Result<*mut u64> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE as usize, protection, flags, -1, 0) };
    match page == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(page.cast()),
    }
}

/// Takes a page of [`page`] back.
pub(super) fn unmap(page: u64) -> io::Result<()> {
    // SAFETY: the page was mapped here, and the helper that used it has ended.
    match unsafe { libc::munmap(page as *mut libc::c_void, PAGE as usize) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Scanner {
    /// Starts the helper of this process.
    ///
    /// # Errors
    /// What `mmap` and `clone` give: a seccomp filter may forbid them.
    pub fn own() -> io::Result<Scanner> {
        let pid = Pid(std::process::id() as i32);
        let memory = ptrace::memory(pid)?;
        let page = page()?;
        for [offset, word] in words() {
            // SAFETY: the offsets are multiples of eight within the page (a test of `code.rs`).
            unsafe { page.add((offset / 8) as usize).write(*word) };
        }
        let helper = launch(page).inspect_err(|_| drop(unmap(page as u64)))?;
        Ok(Scanner::new(pid, helper, Origin::Own, memory, page as u64))
    }
}

/// Starts the helper whose page this is.
fn launch(page: *mut u64) -> io::Result<Pid> {
    let _blocked = Blocked::all()?;
    let between = begin(page);
    if between < 0 {
        return Err(io::Error::from_raw_os_error(-between as i32));
    }
    // SAFETY: the go-between is a child of ours that nobody else knows.
    while unsafe { libc::waitpid(between as i32, std::ptr::null_mut(), libc::__WALL) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
    // SAFETY: the go-between, which wrote there, has ended.
    match unsafe { page.add((at::HELPER / 8) as usize).read_volatile() } as i64 {
        error if error <= 0 => Err(io::Error::from_raw_os_error(-error as i32)),
        helper => Ok(Pid(helper as i32)),
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::hint_faults::SCANNER_NAME;
    use crate::proc::sharing::same_memory;
    use crate::proc::{Proc, Tid};

    #[test]
    fn a_process_has_a_helper_of_its_own_and_is_rid_of_it() {
        let proc = Proc::default();
        let mut scanner = Scanner::own().unwrap();
        let (helper, me) = (scanner.helper(), Pid(std::process::id() as i32));
        assert!(is_this(me) && !is_this(helper));
        assert_ne!(same_memory(me, helper), Some(false));
        assert_eq!(scanner.origin(), Origin::Own);
        scanner.beat().unwrap();
        scanner.begin_pass(&proc).unwrap();
        scanner.end(&proc).unwrap();
        let gone = proc
            .stat(helper, Tid(helper.0))
            .map_or(true, |stat| stat.name != SCANNER_NAME || stat.state == 'Z');
        assert!(gone);
    }
}
