//! What the seccomp filters of this process leave of the system calls that somebody is about to make.
//!
//! A filter cannot be asked. So a child tries the calls, with arguments that do nothing: it shares no memory with the
//! program, tells nobody of its end, and may be killed.

use crate::signals::Blocked;
use libc::c_long;
use std::io;
use std::path::Path;

/// A system call to try: its name, its number, and arguments that change nothing outside of a child.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    name: &'static str,
    number: c_long,
    arguments: [c_long; 3],
}

/// What an engine calls on its own process beyond what any program with threads calls.
pub const CALLS: [Call; 22] = [
    call("prctl", libc::SYS_prctl, [libc::PR_SET_DUMPABLE as c_long, 0, 0]),
    call("sched_getaffinity", libc::SYS_sched_getaffinity, [0; 3]),
    call("sched_setaffinity", libc::SYS_sched_setaffinity, [0; 3]),
    call("get_mempolicy", libc::SYS_get_mempolicy, [0; 3]),
    call("set_mempolicy", libc::SYS_set_mempolicy, [libc::MPOL_DEFAULT as c_long, 0, 0]),
    call("move_pages", libc::SYS_move_pages, [0; 3]),
    call("perf_event_open", libc::SYS_perf_event_open, [0, 0, -1]),
    call("ioctl", libc::SYS_ioctl, [-1, 0, 0]),
    call("pidfd_open", libc::SYS_pidfd_open, [-1, 0, 0]),
    call("tgkill", libc::SYS_tgkill, [-1, -1, 0]),
    call("flock", libc::SYS_flock, [-1, 0, 0]),
    call("getdents64", libc::SYS_getdents64, [-1, 0, 0]),
    call("pread64", libc::SYS_pread64, [-1, 0, 0]),
    call("pwrite64", libc::SYS_pwrite64, [-1, 0, 0]),
    call("chdir", libc::SYS_chdir, [0; 3]),
    // Those of the source `protect`, some of which threads of the program make in handlers of signals.
    call("mprotect", libc::SYS_mprotect, [1, 0, 0]),
    call("close_range", libc::SYS_close_range, [1, 0, 0]),
    call("rt_tgsigqueueinfo", libc::SYS_rt_tgsigqueueinfo, [-1, -1, 0]),
    call("clock_gettime", libc::SYS_clock_gettime, [-1, 0, 0]),
    call("timer_create", libc::SYS_timer_create, [-1, 0, 0]),
    call("timer_settime", libc::SYS_timer_settime, [-1, 0, 0]),
    call("timer_delete", libc::SYS_timer_delete, [-1, 0, 0]),
];

/// What lays memory and threads out.
pub const PLACEMENT: [Call; 3] = [
    call("mbind", libc::SYS_mbind, [0; 3]),
    call("set_mempolicy", libc::SYS_set_mempolicy, [libc::MPOL_DEFAULT as c_long, 0, 0]),
    call("sched_setaffinity", libc::SYS_sched_setaffinity, [0; 3]),
];

const fn call(name: &'static str, number: c_long, arguments: [c_long; 3]) -> Call {
    Call { name, number, arguments }
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// The call that kills the caller; those after it were not tried.
    pub kills: Option<&'static str>,
    /// Calls that fail.
    pub refused: Vec<&'static str>,
}

/// The number of filters that the calling thread has; of a kernel before 5.9, its mode of seccomp.
pub fn filters() -> u32 {
    read_filters(Path::new("/proc/thread-self/status"))
}

fn read_filters(status: &Path) -> u32 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    field("Seccomp_filters:").or_else(|| field("Seccomp:")).unwrap_or(0)
}

/// Tries the calls; nothing is refused where there is no filter.
///
/// # Errors
/// If there can be no child.
pub fn probe(calls: &[Call]) -> io::Result<Refusals> {
    match filters() {
        0 => Ok(Refusals::default()),
        _ => try_all(calls),
    }
}

/// What the child leaves for each call. The memory is zero at first.
const ALLOWED: u8 = 1;
const REFUSED: u8 = 2;

fn try_all(calls: &[Call]) -> io::Result<Refusals> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let shared = unsafe { libc::mmap(std::ptr::null_mut(), calls.len(), protection, flags, -1, 0) };
    if shared == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let found = shared.cast::<u8>();
    let ended = in_child(|| {
        for (at, call) in calls.iter().enumerate() {
            // SAFETY: a call of the table, in a process of its own; the mapping has a byte for each.
            unsafe { found.add(at).write_volatile(attempt(call)) };
        }
    });
    // SAFETY: as above; the child has ended.
    let came: Vec<u8> = (0..calls.len()).map(|at| unsafe { found.add(at).read_volatile() }).collect();
    // SAFETY: the mapping made above, which nobody uses any more.
    unsafe { libc::munmap(shared, calls.len()) };
    ended.map(|()| Refusals {
        kills: came.iter().position(|&one| one == 0).map(|at| calls[at].name),
        refused: calls
            .iter()
            .zip(&came)
            .filter(|(_, &one)| one == REFUSED)
            .map(|(call, _)| call.name)
            .collect(),
    })
}

/// # Safety
/// The calling process is a child of its own: some calls change it.
unsafe fn attempt(call: &Call) -> u8 {
    let [a, b, c] = call.arguments;
    // SAFETY: the arguments are no addresses but null; numbers of descriptors and processes are of none.
    let done = unsafe { libc::syscall(call.number, a, b, c, -1 as c_long, 0 as c_long) };
    // SAFETY: the calling thread's own.
    let error = unsafe { *libc::__errno_location() };
    match done < 0 && matches!(error, libc::EPERM | libc::ENOSYS | libc::EACCES) {
        true => REFUSED,
        false => ALLOWED,
    }
}

/// Does `work`, which allocates nothing and takes no lock, in a child whose end nobody else notices, and waits for it.
fn in_child(work: impl FnOnce()) -> io::Result<()> {
    // In the child no handler of the program's runs, and the filter's own signal ends it.
    let _blocked = Blocked::all()?;
    // SAFETY: as fork, without what the C library does for it: the child makes system calls alone. A child that was
    // made without a signal is waited for by this thread only, with __WCLONE.
    let child = unsafe {
        libc::syscall(libc::SYS_clone, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long, 0 as c_long)
    };
    match child {
        0 => {
            work();
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child if child < 0 => Err(io::Error::last_os_error()),
        child => {
            // SAFETY: the child made above.
            while unsafe { libc::waitpid(child as i32, std::ptr::null_mut(), libc::__WCLONE) } < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_filters_is_the_kernels() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (text, filters) in
            [("Seccomp:\t2\nSeccomp_filters:\t3\n", 3), ("Seccomp:\t2\n", 2), ("Name:\tx\n", 0)]
        {
            std::fs::write(file.path(), text).unwrap();
            assert_eq!(read_filters(file.path()), filters, "{text}");
        }
        assert_eq!(read_filters(Path::new("/nowhere")), 0);
    }

    /// A filter of one call, for the calling thread.
    fn refuse(number: c_long, action: u32) {
        let load = libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
        let is = libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number as u32 };
        let give = |k| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k };
        let mut code = [load, is, give(action), give(libc::SECCOMP_RET_ALLOW)];
        let program = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        // SAFETY: confines the calling thread alone; the kernel copies the program.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        assert!(done, "{}", io::Error::last_os_error());
    }

    /// In a thread of its own, which ends with its filter.
    fn under(number: c_long, action: u32) -> Refusals {
        std::thread::spawn(move || {
            refuse(number, action);
            probe(&CALLS).unwrap()
        })
        .join()
        .unwrap()
    }

    #[test]
    fn calls_that_fail_and_calls_that_kill_are_found_and_the_program_goes_on() {
        for calls in [&CALLS[..], &PLACEMENT] {
            assert_eq!(try_all(calls).unwrap().kills, None);
        }
        let errno = |number: i32| libc::SECCOMP_RET_ERRNO | number as u32;
        for number in [libc::EPERM, libc::ENOSYS] {
            let refusals = under(libc::SYS_move_pages, errno(number));
            assert!(refusals.refused.contains(&"move_pages") && refusals.kills.is_none(), "{refusals:?}");
        }
        for action in [libc::SECCOMP_RET_KILL_PROCESS, libc::SECCOMP_RET_KILL_THREAD, libc::SECCOMP_RET_TRAP]
        {
            assert_eq!(under(libc::SYS_set_mempolicy, action).kills, Some("set_mempolicy"));
        }
    }
}
