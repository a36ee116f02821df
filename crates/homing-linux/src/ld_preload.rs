//! What the environment of a program says so that the dynamic linker loads a library into it before its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The variable of the dynamic linker.
pub const PRELOAD_ENV: &str = "LD_PRELOAD";
const ASAN_ENV: &str = "ASAN_OPTIONS";

/// Variables and their values, which extend those that `inherited` has. None if the path cannot stand there.
pub fn variables(
    library: &Path,
    inherited: impl Fn(&str) -> Option<OsString>,
) -> Option<[(&'static str, OsString); 2]> {
    // The dynamic linker separates paths by these, and replaces words that begin with a dollar sign.
    let bad = |byte: &u8| b" :$".contains(byte);
    if !library.is_absolute() || library.as_os_str().as_bytes().iter().any(bad) {
        return None;
    }
    let extend = |name: &str, value: &OsStr| match inherited(name) {
        Some(before) if !before.is_empty() => {
            let mut both = before;
            both.push(":");
            both.push(value);
            both
        }
        _ => value.to_owned(),
    };
    Some([
        (PRELOAD_ENV, extend(PRELOAD_ENV, library.as_os_str())),
        // It would refuse to run because another library comes before it.
        (ASAN_ENV, extend(ASAN_ENV, OsStr::new("verify_asan_link_order=0"))),
    ])
}
