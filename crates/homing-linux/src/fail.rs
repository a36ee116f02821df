//! System calls that fail on demand, so that tests can show what the engine does when the kernel refuses. The variable
//! `HOMING_FAIL` names calls, errors and how often: `move_pages=ENOMEM/3,perf_open=EMFILE/1` lets every third
//! `move_pages` and every `perf_event_open` fail without reaching the kernel. Unset, it costs one load per call.

use crate::environment::variable;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// The environment variable.
pub const FAIL_ENV: &str = "HOMING_FAIL";

/// The calls that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `move_pages(2)` that moves.
    MovePages,
    /// `move_pages(2)` that asks where pages are.
    QueryPages,
    /// `perf_event_open(2)`.
    PerfOpen,
    /// `mmap(2)` of a perf ring.
    PerfMap,
    /// `ptrace(2)`.
    Ptrace,
    /// Reading below `/proc`.
    Proc,
    /// Writing a tunable below `/proc/sys` or debugfs.
    Tunable,
    /// `sched_setaffinity(2)`.
    Affinity,
    /// Splitting huge pages.
    Split,
    /// `mprotect(2)` that takes pages away for a window.
    Protect,
    /// ... and that gives them back.
    Unprotect,
    /// Asking the program's threads for a window.
    Dispatch,
    /// `timer_create(2)` for one of these threads.
    Timer,
}

/// Names, in the order of [`Call`].
const NAMES: [&str; 13] = [
    "move_pages",
    "query_pages",
    "perf_open",
    "perf_map",
    "ptrace",
    "proc",
    "tunable",
    "affinity",
    "split",
    "protect",
    "unprotect",
    "dispatch",
    "timer",
];

/// Errors that can be asked for.
const ERRORS: &[(&str, i32)] = &[
    ("EPERM", libc::EPERM),
    ("ESRCH", libc::ESRCH),
    ("EIO", libc::EIO),
    ("EAGAIN", libc::EAGAIN),
    ("ENOMEM", libc::ENOMEM),
    ("EACCES", libc::EACCES),
    ("EBUSY", libc::EBUSY),
    ("EINVAL", libc::EINVAL),
    ("EMFILE", libc::EMFILE),
    ("ENOSYS", libc::ENOSYS),
];

#[derive(Debug)]
struct Rule {
    call: usize,
    errno: i32,
    every: u64,
    count: AtomicU64,
}

fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let rule = |part: &str| {
        let (name, rest) = part.split_once('=')?;
        let (error, every) = rest.split_once('/').unwrap_or((rest, "1"));
        let call = NAMES.iter().position(|known| *known == name)?;
        let &(_, errno) = ERRORS.iter().find(|(known, _)| *known == error)?;
        let every = every.parse().ok().filter(|every| *every > 0)?;
        Some(Rule { call, errno, every, count: AtomicU64::new(0) })
    };
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            rule(part).ok_or_else(|| {
                format!(
                    "{FAIL_ENV}: `{part}`: expected CALL=ERROR/EVERY with CALL one of {}",
                    NAMES.join(", ")
                )
            })
        })
        .collect()
}

fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| {
        let text = variable(FAIL_ENV).unwrap_or_default().to_string_lossy().into_owned();
        parse(&text).unwrap_or_else(|why| {
            crate::errln!("homing: {why}; no call is made to fail");
            Vec::new()
        })
    })
}

/// Fails if it is this call's turn.
///
/// # Errors
/// The error that `HOMING_FAIL` asks for.
pub fn point(call: Call) -> io::Result<()> {
    decide(rules(), call)
}

fn decide(rules: &[Rule], call: Call) -> io::Result<()> {
    for rule in rules.iter().filter(|rule| rule.call == call as usize) {
        if (rule.count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(rule.every) {
            return Err(io::Error::from_raw_os_error(rule.errno));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_call_fails_with_the_error_asked_for() {
        let rules = parse("move_pages=ENOMEM/3,proc=ESRCH").unwrap();
        let errors: Vec<Option<i32>> = (0..6)
            .map(|_| decide(&rules, Call::MovePages).err().and_then(|error| error.raw_os_error()))
            .collect();
        assert_eq!(errors, [None, None, Some(libc::ENOMEM), None, None, Some(libc::ENOMEM)]);
        assert!(decide(&rules, Call::Proc).is_err());
        assert!(decide(&rules, Call::PerfOpen).is_ok());
    }

    #[test]
    fn bad_rules_are_named() {
        for bad in ["move=ENOMEM", "move_pages=EFOO", "move_pages=ENOMEM/0", "move_pages"] {
            assert!(parse(bad).unwrap_err().contains(bad), "{bad}");
        }
    }
}
