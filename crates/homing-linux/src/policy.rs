//! Memory policies and CPU affinity of threads: `set_mempolicy(2)`, `sched_setaffinity(2)`.

use crate::fail::{self, Call};
use crate::proc::Tid;
use std::io;

/// `MPOL_DEFAULT`: local allocation, and kernel NUMA balancing may move what the thread touches.
pub const DEFAULT: i32 = 0;
/// `MPOL_PREFERRED`: allocate from one node, from others where that is full.
pub const PREFERRED: i32 = 1;
/// `MPOL_BIND`: allocate from a set of nodes only.
pub const BIND: i32 = 2;
/// `MPOL_INTERLEAVE`: pages of a set of nodes in turn.
pub const INTERLEAVE: i32 = 3;
/// `MPOL_F_NUMA_BALANCING`, a flag beside [`BIND`]: kernel balancing may move pages within the nodes (Linux 5.12).
pub const BALANCED: i32 = 1 << 13;
/// `MPOL_LOCAL`: local allocation as by default, but said explicitly, which takes the thread's accesses out of kernel
/// balancing (mm/mempolicy.c, `mpol_misplaced`: no `MPOL_F_MOF`).
pub const LOCAL: i32 = 4;

/// Sets the memory policy of the calling thread. Inherited by threads and processes made from it, and over `execve`.
///
/// # Errors
/// ENOSYS on a kernel without NUMA, EINVAL if it does not know the mode.
pub fn set(mode: i32, nodes: &[u32]) -> io::Result<()> {
    let mask = mask(nodes);
    let (pointer, bits) = match nodes {
        [] => (std::ptr::null(), 0),
        _ => (mask.as_ptr(), mask.len() * 64 + 1),
    };
    // SAFETY: the kernel reads `bits - 1` bits, which `mask` has; with no nodes it reads nothing.
    match unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, pointer, bits) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The memory policy of the calling thread, without its nodes and flags.
///
/// # Errors
/// ENOSYS on a kernel without NUMA.
pub fn of_this_thread() -> io::Result<i32> {
    // MPOL_F_STATIC_NODES, MPOL_F_RELATIVE_NODES, MPOL_F_NUMA_BALANCING of linux/mempolicy.h.
    const FLAGS: i32 = 0b111 << 13;
    let mut mode: i32 = 0;
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the kernel writes the mode, and no nodes.
    match unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, nothing, 0, nothing, 0) } {
        0 => Ok(mode & !FLAGS),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The policy that `numa_maps` names so.
pub fn mode(name: &str) -> Option<i32> {
    // `enum` of linux/mempolicy.h.
    const NAMES: [&str; 5] = ["default", "prefer", "bind", "interleave", "local"];
    let name = name.split([':', '=']).next();
    NAMES.iter().position(|known| Some(*known) == name).map(|place| place as i32)
}

/// Binds memory of our own to nodes, moving what is there. It should be whole pages: the kernel rounds outwards.
///
/// # Errors
/// What `mbind(2)` gives.
pub fn bind_range(memory: &mut [u8], nodes: &[u32]) -> io::Result<()> {
    const MPOL_MF_MOVE: u32 = 1 << 1;
    mbind(memory, BIND, &mask(nodes), MPOL_MF_MOVE)
}

/// Takes away the policy of a part of this process's memory; its pages stay where they are.
///
/// # Errors
/// Those of `mbind(2)`.
pub fn unbind_range(memory: &mut [u8]) -> io::Result<()> {
    mbind(memory, DEFAULT, &[0], 0)
}

fn mbind(memory: &mut [u8], mode: i32, mask: &[u64], flags: u32) -> io::Result<()> {
    let start = memory.as_ptr() as usize & !4095;
    let bytes = memory.as_ptr() as usize + memory.len() - start;
    // SAFETY: changes where pages are, not what they hold; the kernel reads the bits that `mask` has.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, start, bytes, mode, mask.as_ptr(), mask.len() * 64 + 1, flags)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Nodes as the kernel's bit mask.
pub(crate) fn mask(nodes: &[u32]) -> Vec<u64> {
    let words = nodes.iter().max().map_or(1, |&most| most as usize / 64 + 1);
    let mut mask = vec![0; words];
    nodes.iter().for_each(|&node| mask[node as usize / 64] |= 1 << (node % 64));
    mask
}

/// Most CPUs that an affinity mask holds here.
const MAX_CPUS: u32 = 4096;

/// The CPUs that a thread may run on.
///
/// # Errors
/// ESRCH if it has ended.
pub fn affinity(tid: Tid) -> io::Result<Vec<u32>> {
    let mut mask = [0u64; MAX_CPUS as usize / 64];
    // SAFETY: the kernel writes at most the given number of bytes.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getaffinity, tid.0, std::mem::size_of_val(&mask), mask.as_mut_ptr())
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..MAX_CPUS).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// The CPU that the calling thread runs on at the moment.
pub fn this_cpu() -> Option<u32> {
    // SAFETY: reads nothing of ours.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// The calling thread.
pub fn this_thread() -> Tid {
    // SAFETY: asks for a number.
    Tid(unsafe { libc::gettid() })
}

/// The nice value of what runs before all others.
const FIRST: i32 = -20;

/// Lets a thread (0: the calling one) run before others where CPUs are busy: at the nice value -20.
///
/// # Errors
/// ESRCH if it has ended, EACCES without CAP_SYS_NICE.
pub fn prefer(tid: Tid) -> io::Result<()> {
    set_nice(tid, FIRST)
}

fn set_nice(tid: Tid, nice: i32) -> io::Result<()> {
    // SAFETY: the call takes numbers alone.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, tid.0 as libc::id_t, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread runs before others until this is dropped, by the same thread.
#[derive(Debug)]
pub struct Preferred {
    usual: i32,
}

impl Preferred {
    /// From now on.
    ///
    /// # Errors
    /// EACCES without CAP_SYS_NICE.
    pub fn begin() -> io::Result<Preferred> {
        // SAFETY: asks for a number: 20 less the nice value, so that none is taken for an error.
        let usual = 20 - unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) } as i32;
        prefer(Tid(0))?;
        Ok(Preferred { usual })
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        // Everybody may run after others.
        let _ = set_nice(Tid(0), self.usual);
    }
}

/// Lets a thread (0: the calling one) run on these CPUs only.
///
/// # Errors
/// ESRCH if it has ended, EPERM, EINVAL if none of the CPUs is online and in its cpuset.
pub fn set_affinity(tid: Tid, cpus: &[u32]) -> io::Result<()> {
    fail::point(Call::Affinity)?;
    let mut mask = [0u64; MAX_CPUS as usize / 64];
    for &cpu in cpus.iter().filter(|cpu| **cpu < MAX_CPUS) {
        mask[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    // SAFETY: the kernel reads the given number of bytes.
    match unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, tid.0, std::mem::size_of_val(&mask), mask.as_ptr())
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The calling thread, and those that it starts from now on, leave a CPU to the engine (Nikolopoulos 2000, section 4:
/// "the runtime system sacrifices one processor"). False if they may run nowhere else, or that is not permitted: then
/// they share it.
pub fn give_up_cpu(cpu: u32) -> bool {
    let Ok(mut cpus) = affinity(Tid(0)) else { return false };
    cpus.retain(|&other| other != cpu);
    !cpus.is_empty() && set_affinity(Tid(0), &cpus).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{Pid, Proc};

    #[test]
    fn masks_have_the_bits_of_their_nodes() {
        assert_eq!(mask(&[]), [0]);
        assert_eq!(mask(&[0, 2, 63]), [1 << 63 | 0b101]);
        assert_eq!(mask(&[1, 64]), [0b10, 1]);
    }

    #[test]
    fn a_thread_is_preferred_for_a_while() {
        std::thread::spawn(|| {
            let stat = || std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // The 19th field, 16 after the name.
            let nice = || stat().rsplit(')').next().unwrap().split(' ').nth(17).unwrap().to_owned();
            let _ = set_nice(Tid(0), 3);
            let usual = nice();
            match Preferred::begin() {
                Ok(_preferred) => assert_eq!(nice(), FIRST.to_string()),
                Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EACCES)),
            }
            assert_eq!(nice(), usual);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_are_bound_and_freed() {
        std::thread::spawn(|| {
            let before = affinity(Tid(0)).unwrap();
            set_affinity(Tid(0), &before[..1]).unwrap();
            assert_eq!(this_cpu(), Some(before[0]));
            assert_eq!(affinity(Tid(0)).unwrap(), before[..1]);
            set_affinity(Tid(0), &before).unwrap();
            assert_eq!(affinity(Tid(0)).unwrap(), before);
            assert!(set_affinity(Tid(0), &[4095]).is_err());
            assert!(set_affinity(Tid(i32::MAX), &before).is_err());
            let others = &before[1..];
            assert_eq!(give_up_cpu(before[0]), !others.is_empty());
            assert_eq!(affinity(Tid(0)).unwrap(), if others.is_empty() { &before } else { others });
            set_affinity(Tid(0), &before[..1]).unwrap();
            assert!(!give_up_cpu(before[0]), "it has no other");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_local_policy_can_be_set_and_taken_back() {
        std::thread::spawn(|| {
            assert_eq!(of_this_thread().unwrap(), DEFAULT);
            set(LOCAL, &[]).unwrap();
            assert_eq!(of_this_thread().unwrap(), LOCAL);
            // SAFETY: asks for a number.
            let (proc, me) = (Proc::default(), Tid(unsafe { libc::gettid() }));
            let told = proc.thread_policy(Pid(std::process::id() as i32), me).unwrap();
            assert_eq!((mode(&told), mode("bind:0-1"), mode("weighted")), (Some(LOCAL), Some(BIND), None));
            set(DEFAULT, &[]).unwrap();
            assert!(set(999, &[]).is_err());
        })
        .join()
        .unwrap();
    }
}
