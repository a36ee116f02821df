//! Which processes share their memory: `kcmp(2)`.

use crate::proc::Pid;
use std::io;

/// True if two processes have one memory, as after `clone` with `CLONE_VM`.
///
/// # Errors
/// ESRCH if one has ended, EPERM if this user may not look at one, ENOSYS on a kernel without CONFIG_KCMP.
pub fn share_memory(one: Pid, other: Pid) -> io::Result<bool> {
    /// `enum kcmp_type` of linux/kcmp.h.
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: compares two tasks; the last two arguments are not used for memory.
    match unsafe { libc::syscall(libc::SYS_kcmp, one.0, other.0, KCMP_VM, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        order => Ok(order == 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_own_memory_and_no_other_ones() {
        let me = Pid(std::process::id() as i32);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        assert!(share_memory(me, me).unwrap());
        assert!(!share_memory(me, Pid(child.id() as i32)).unwrap());
        assert_eq!(share_memory(me, Pid(i32::MAX)).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
