//! Pages that may not be accessed for moments, inside of a program (`homing_linux::protect` says how, and why that
//! changes nothing that the program computes).

use super::Entry;
use crate::inside;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

#[cfg(target_arch = "x86_64")]
mod windows;
#[cfg(target_arch = "x86_64")]
pub use windows::Protect;

pub(super) const ENTRY: Entry = Entry {
    name: "protect",
    summary: "pages are protected for moments inside of the program, and the faults tell who uses them; \
              needs no right",
    confidence: "good: part after part of the memory, who used a page first in some milliseconds",
    brings_home: true,
    scans: true,
    holds: false,
    policy: "work-function",
    missing: |_| missing(),
    #[cfg(target_arch = "x86_64")]
    open: |_, _| Ok(Box::new(Protect::open()?)),
    #[cfg(not(target_arch = "x86_64"))]
    open: |_, _| Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
};

/// What is missing for it here, if anything.
fn missing() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("made for x86-64 so far".into());
    }
    if !inside::is_inside() {
        return Some("works inside of a program only: libhoming, or `homing run --runtime`".into());
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(why) = homing_linux::protect::missing() {
        return Some(why);
    }
    None
}

/// What came of the windows of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally {
    /// Windows, those of them that a call of the program's ended early, and pages that were protected in them.
    pub windows: u64,
    /// See above.
    pub early: u64,
    /// See above.
    pub pages: u64,
    /// Accesses that were caught, and those for which there was no room.
    pub caught: u64,
    /// See above.
    pub lost: u64,
    /// How often a thread of the program waited for the end of a window, and for how long in all, in nanoseconds.
    pub waits: u64,
    /// See above.
    pub waited_ns: u64,
    /// Windows that there could not be, by the reason.
    pub refused: BTreeMap<String, u64>,
}

static TALLY: Mutex<Option<Tally>> = Mutex::new(None);

/// What came of the windows so far; `None` if this source was not used.
pub fn tally() -> Option<Tally> {
    TALLY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
