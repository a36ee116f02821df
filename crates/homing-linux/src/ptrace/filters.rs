//! Filters for system calls (seccomp). One may end the process at a call that it does not expect, so that calls are
//! made in a filtered process only where that cannot be: with the filter suspended, or with one that this program is
//! under as well.

use super::{request, unsupported};
use crate::proc::{Pid, Proc, Tid};
use std::collections::BTreeSet;
use std::io;

/// Sees to it that no filter ends the process of a held thread.
///
/// # Errors
/// Unsupported if that cannot be said.
pub(super) fn suspend(proc: &Proc, pid: Pid, tid: Tid) -> io::Result<()> {
    let status = proc.thread_status(pid, tid).map_err(super::to_io)?;
    if !status.seccomp {
        return Ok(());
    }
    let Err(error) = request::suspend_seccomp(tid) else { return Ok(()) };
    let us = Pid(std::process::id() as i32);
    if status.filters.is_some() && same_filters(proc, pid, status.filters, us) {
        return Ok(());
    }
    Err(unsupported(&format!(
        "the process filters its system calls (seccomp), and the filter cannot be suspended ({error}): homing needs \
        CAP_SYS_ADMIN, a \
         kernel with CONFIG_CHECKPOINT_RESTORE, and not to be filtered itself, as it is in most containers and under \
         systemd's \
         SystemCallFilter"
    )))
}

/// True if both processes are under the very same filters. Filters are inherited and never taken away, so they are if
/// an ancestor of both has as many as each of them.
fn same_filters(proc: &Proc, one: Pid, filters: Option<u32>, other: Pid) -> bool {
    let count = |pid: Pid| proc.thread_status(pid, Tid(pid.0)).ok().and_then(|status| status.filters);
    let others: BTreeSet<Pid> = ancestors(proc, other).into_iter().collect();
    let common = ancestors(proc, one).into_iter().find(|ancestor| others.contains(ancestor));
    count(other) == filters && common.is_some_and(|common| count(common) == filters)
}

/// A process, its parent, and so on, as far as they can be seen.
fn ancestors(proc: &Proc, pid: Pid) -> Vec<Pid> {
    /// More is a loop: processes change their parents while they are looked at.
    const MOST: usize = 1000;
    let parent = |pid: &Pid| proc.status(*pid).ok().map(|status| status.parent).filter(|parent| parent.0 > 0);
    std::iter::successors(Some(pid), parent).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn filters_are_the_same_where_an_ancestor_of_both_has_as_many() {
        let root = tempfile::tempdir().unwrap();
        let process = |pid: i32, parent: i32, filters: u32| {
            let directory = root.path().join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&directory).unwrap();
            let text = format!(
                "Name:\tx\nTgid:\t{pid}\nPPid:\t{parent}\nUid:\t0\t0\t0\t0\n\
                 SigBlk:\t0\nSigCgt:\t0\nSeccomp:\t2\nSeccomp_filters:\t{filters}\n"
            );
            fs::write(directory.join("status"), &text).unwrap();
            fs::write(root.path().join(format!("{pid}/status")), text).unwrap();
        };
        // 1 has one filter; 2, and so its children 3 to 5, two; 5 has added one.
        let tree = [(1, 0, 1), (2, 1, 2), (3, 2, 2), (4, 2, 2), (5, 2, 3), (6, 1, 2)];
        tree.into_iter().for_each(|(pid, parent, filters)| process(pid, parent, filters));
        let proc = Proc::at(root.path());
        let same = |one: i32, filters, other: i32| same_filters(&proc, Pid(one), Some(filters), Pid(other));
        assert!(same(3, 2, 4) && same(3, 2, 2));
        assert!(!same(5, 3, 4), "it has one of its own");
        assert!(!same(6, 2, 4), "as many, but from elsewhere");
        assert!(!same(7, 2, 4), "it has ended");
    }
}
