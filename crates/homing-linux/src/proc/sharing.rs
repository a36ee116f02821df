//! Processes that share their memory, as the scanning helper of hint faults does with its program: `kcmp(2)`. A name
//! can be taken by anybody; this only the kernel says.

use super::Pid;

/// Whether two processes have one memory; true also where neither has any ([`super::task::Stat::may_share_memory`]).
/// `None` if the kernel does not tell: it is built without `kcmp(2)`, or this user may not trace both, or one has
/// ended.
pub fn same_memory(a: Pid, b: Pid) -> Option<bool> {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: takes numbers only.
    match unsafe { libc::syscall(libc::SYS_kcmp, a.0, b.0, KCMP_VM, 0, 0) } {
        0 => Some(true),
        order if order > 0 => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_shares_its_memory_with_itself_alone() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (us, other) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        let (same, different) = (same_memory(us, us), same_memory(us, other));
        drop(child.stdin.take());
        child.wait().unwrap();
        if same.is_none() {
            eprintln!("SKIPPED: the kernel has no kcmp");
            return;
        }
        assert_eq!((same, different), (Some(true), Some(false)));
        assert_eq!(same_memory(us, Pid(i32::MAX)), None);
    }
}
