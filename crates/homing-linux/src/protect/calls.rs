//! What is known of system calls: which of them reach no memory of the program's, and what memory a thread's reaches
//! that sleeps in one. Everything else ends a window, or prevents it.

/// Calls that a window lets through at once, with their first two arguments: they reach no memory and wait for nothing.
pub fn reaches_nothing(number: i64, _first: u64, second: u64) -> bool {
    match number {
        libc::SYS_sched_yield | libc::SYS_getpid | libc::SYS_gettid => true,
        // With private words the kernel goes by the address alone.
        libc::SYS_futex => second == (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as u64,
        _ => false,
    }
}

/// Calls of allocators, locks and clocks, after which a thread is soon outside of calls again.
pub fn is_calm(number: i64) -> bool {
    [
        libc::SYS_futex,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_mprotect,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_clock_gettime,
        libc::SYS_gettimeofday,
        libc::SYS_getcpu,
        libc::SYS_getppid,
        libc::SYS_tgkill,
        libc::SYS_sigaltstack,
        libc::SYS_move_pages,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigreturn,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_getaffinity,
        libc::SYS_clone,
        libc::SYS_clone3,
    ]
    .contains(&number)
}

/// A thread that sleeps, as `/proc/PID/task/TID/syscall` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// The call and its arguments.
    pub number: i64,
    pub arguments: [u64; 6],
    /// The stack pointer.
    pub stack: u64,
}

impl Sleeper {
    /// Parses the file. `None` for a thread that runs, or sleeps in no call: in a page fault.
    pub fn parse(text: &[u8]) -> Option<Sleeper> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
        let mut hex = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = hex()?;
        }
        Some(Sleeper { number, arguments, stack: hex()? })
    }

    /// The memory that the kernel reaches when the call goes on: addresses and lengths, those of length 0 aside. `None`
    /// for a call that is not known.
    pub fn reaches(&self) -> Option<[(u64, u64); 5]> {
        let [a, b, c, d, e, f] = self.arguments;
        let none = (0, 0);
        // Structures are taken larger than they are.
        const SMALL: u64 = 256;
        Some(match self.number {
            libc::SYS_futex => [(a, 8), (d, 16), (e, 8), none, none],
            libc::SYS_nanosleep => [(a, 16), (b, 16), none, none, none],
            libc::SYS_clock_nanosleep => [(c, 16), (d, 16), none, none, none],
            libc::SYS_pause => [none; 5],
            libc::SYS_rt_sigsuspend => [(a, 16), none, none, none, none],
            libc::SYS_rt_sigtimedwait => [(a, 16), (b, SMALL), (c, 16), none, none],
            libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => {
                [(b, c), none, none, none, none]
            }
            libc::SYS_recvfrom | libc::SYS_sendto => [(b, c), (e, SMALL), (f, SMALL), none, none],
            libc::SYS_poll => [(a, b.saturating_mul(8)), none, none, none, none],
            libc::SYS_ppoll => [(a, b.saturating_mul(8)), (c, 16), (d, 16), none, none],
            libc::SYS_select => [(b, a), (c, a), (d, a), (e, 16), none],
            libc::SYS_pselect6 => [(b, a), (c, a), (d, a), (e, 16), (f, 16)],
            libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
                [(b, c.saturating_mul(16)), (e, 16), none, none, none]
            }
            libc::SYS_wait4 => [(b, 8), (d, SMALL), none, none, none],
            libc::SYS_waitid => [(c, SMALL), (e, SMALL), none, none, none],
            libc::SYS_accept | libc::SYS_accept4 => [(b, SMALL), (c, 8), none, none, none],
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleepers_are_read_and_what_is_not_known_is_said() {
        let read = |text: &str| Sleeper::parse(text.as_bytes());
        let sleeper = read("202 0x7f00 0x189 0x1 0x0 0x0 0xffffffff 0x7ffc00 0x7fd8\n").unwrap();
        assert_eq!((sleeper.number, sleeper.stack, sleeper.arguments[1]), (202, 0x7ffc00, 0x189));
        assert_eq!(sleeper.reaches().unwrap()[0], (0x7f00, 8));
        let reads = read("0 0x3 0x5000 0x2000 0 0 0 0 0");
        assert_eq!(reads, None, "numbers without 0x");
        let reads = read("0 0x3 0x5000 0x2000 0x0 0x0 0x0 0x1 0x1").unwrap();
        assert_eq!(reads.reaches().unwrap()[0], (0x5000, 0x2000));
        let ioctl = read("16 0x3 0x5000 0x2000 0x0 0x0 0x0 0x1 0x1").unwrap();
        assert_eq!(ioctl.reaches(), None);
        assert_eq!((read("running\n"), read("-1 0x7ffc00 0x7fd8\n"), read("")), (None, None, None));
    }

    #[test]
    fn reading_and_writing_is_not_calm() {
        assert!([libc::SYS_futex, libc::SYS_brk].into_iter().all(is_calm));
        assert!(![libc::SYS_read, libc::SYS_write, libc::SYS_sendto, libc::SYS_poll]
            .into_iter()
            .any(is_calm));
    }

    #[test]
    fn only_calls_without_memory_are_let_through() {
        assert!(reaches_nothing(libc::SYS_gettid, 0, 0) && reaches_nothing(libc::SYS_futex, 0x5000, 129));
        for (number, second) in [(libc::SYS_futex, 1), (libc::SYS_futex, 128), (libc::SYS_read, 129)] {
            assert!(!reaches_nothing(number, 0, second), "{number} {second}");
        }
    }
}
