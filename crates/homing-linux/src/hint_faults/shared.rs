//! Shared memory and hint faults. The kernel asks such memory itself, not the thread, whether it may be marked
//! (`vma_policy_mof`): where nobody gave it a memory policy it never is. So for the moment of a scan it gets one,
//! `MPOL_BIND` to all nodes with `MPOL_F_NUMA_BALANCING`, under which pages are allocated as by default, and loses it
//! before the program goes on: at the faults the policy of the thread counts again.
//!
//! The helper makes the calls, which has the program's memory and none of its threads. Memory with a policy that
//! somebody chose is left alone.

use super::scanner::Scanner;
use crate::guard::guarded;
use crate::policy::{BALANCED, BIND, DEFAULT};
use crate::proc::Proc;
use crate::ptrace::call::Caller;
use std::io;
use std::os::unix::fs::FileExt;

/// A range of a process: first address and bytes.
pub type Range = (u64, u64);

/// Ranges of one call: as many as a word has bits.
pub const AT_ONCE: usize = 64;

/// Most places of a range that are asked for a policy of their own when it is new, and later.
const PLACES: [u64; 2] = [64, 3];

impl Scanner {
    /// Those of these ranges (address, bytes) of shared memory that have no memory policy, one bit each; at most
    /// [`AT_ONCE`]. New ranges are looked at more closely.
    ///
    /// # Errors
    /// If the helper has ended, or cannot be stopped for a moment.
    pub fn without_policy(&self, proc: &Proc, ranges: &[Range], new: bool) -> io::Result<u64> {
        let look = || {
            let mut caller = self.caller(proc)?;
            let mut free =
                |&(start, bytes)| !self.has_policy(&mut caller, start, bytes, PLACES[usize::from(!new)]);
            let ranges = ranges.iter().take(AT_ONCE).enumerate();
            Ok([ranges.fold(0, |bits, (place, range)| bits | u64::from(free(range)) << place), 0])
        };
        guarded(look).map(|[bits, _]| bits)
    }

    /// Lets the kernel mark these ranges, on nodes of that mask. Returns those for which it does, one bit each; at most
    /// [`AT_ONCE`].
    ///
    /// # Errors
    /// As for [`Scanner::without_policy`].
    pub fn admit(&self, proc: &Proc, ranges: &[Range], nodes: u64) -> io::Result<u64> {
        let admit = || {
            let mut caller = self.caller(proc)?;
            self.memory().write_all_at(&nodes.to_ne_bytes(), self.scratch())?;
            let mode = (BIND | BALANCED) as u64;
            let mut bind = |&(start, bytes)| {
                caller.call(libc::SYS_mbind, &[start, bytes, mode, self.scratch(), 65, 0]).is_ok()
            };
            let ranges = ranges.iter().take(AT_ONCE).enumerate();
            Ok([ranges.fold(0, |bits, (place, range)| bits | u64::from(bind(range)) << place), 0])
        };
        guarded(admit).map(|[admitted, _]| admitted)
    }

    /// Takes the policies of [`Scanner::admit`] away.
    ///
    /// # Errors
    /// As for [`Scanner::admit`].
    pub fn dismiss(&self, proc: &Proc, ranges: &[Range]) -> io::Result<()> {
        let dismiss = || {
            let mut caller = self.caller(proc)?;
            for &(start, bytes) in ranges {
                // What was unmapped meanwhile has none.
                let _ = caller.call(libc::SYS_mbind, &[start, bytes, DEFAULT as u64, 0, 0, 0]);
            }
            Ok([0; 2])
        };
        guarded(dismiss).map(drop)
    }

    fn caller<'a>(&'a self, proc: &'a Proc) -> io::Result<Caller<'a>> {
        Caller::of_helper(proc, self.helper(), self.memory())
    }

    /// True if a part of the range has a memory policy, or that cannot be told. Asks at some places.
    fn has_policy(&self, caller: &mut Caller<'_>, start: u64, bytes: u64, places: u64) -> bool {
        const MPOL_F_ADDR: u64 = 2;
        let pages = bytes / super::PAGE;
        let places = places.min(pages).max(1);
        (0..places).any(|place| {
            let address = start + (pages.saturating_sub(1) * place / (places - 1).max(1)) * super::PAGE;
            let asked = caller.call(libc::SYS_get_mempolicy, &[self.scratch(), 0, 0, address, MPOL_F_ADDR]);
            let mut mode = [0; 4];
            let told = asked.and_then(|_| self.memory().read_exact_at(&mut mode, self.scratch()));
            told.is_err() || i32::from_ne_bytes(mode) != DEFAULT
        })
    }
}
