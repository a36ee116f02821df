//! Other processes that use this memory: `clone(2)` with CLONE_VM and without CLONE_THREAD makes them (helpers of
//! sanitizers, for instance). They are not among the threads, and have their own actions of signals: a protected page
//! would end them.
//!
//! No file names the memory of a process, but each shows its size. So a process shares this memory if its size is the
//! same, and changes with it. Nothing here allocates.

use super::threads::{entries, number, read_into};
use super::Refusal;
use std::io::Write;
use std::time::{Duration, Instant};

/// New processes have the numbers from the last one known on, unless so much time has passed that the numbers may have
/// gone round.
const ROUND: Duration = Duration::from_secs(1);

/// At most this many are known at a time.
const KNOWN: usize = 64;

/// Finds them.
pub struct Sharers {
    /// The last number of a process, and when all up to that were looked at.
    looked: Option<(i32, Instant)>,
    known: Vec<i32>,
    names: Vec<u8>,
}

impl Sharers {
    pub fn new() -> Sharers {
        Sharers { looked: None, known: Vec::with_capacity(KNOWN), names: vec![0; 16 << 10] }
    }

    /// Looks for them, while no thread of this process can make one: `tasks` are its threads.
    ///
    /// # Errors
    /// [`Refusal::Shared`] if there is one; [`Refusal::Proc`] if that cannot be told.
    pub fn none(&mut self, tasks: &[i32]) -> Result<(), Refusal> {
        let now = Instant::now();
        let last = last_number().ok_or(Refusal::Proc)?;
        let Sharers { known, names, looked } = self;
        let mut look = |number: i32| {
            if !tasks.contains(&number) && !known.contains(&number) && shares(number)? {
                if known.len() == known.capacity() {
                    return Err(Refusal::Shared);
                }
                known.push(number);
            }
            Ok(())
        };
        match *looked {
            Some((before, at)) if before <= last && now.duration_since(at) < ROUND => {
                (before + 1..=last).try_for_each(look)?;
            }
            _ => entries(c"/proc", names, |_, name| number(name).map_or(Ok(()), &mut look))
                .ok_or(Refusal::Proc)??,
        }
        *looked = Some((last, now));
        // One of the engine's threads may have begun while it was looked for. What cannot be told stays.
        known.retain(|number| !tasks.contains(number) && shares(*number) != Ok(false));
        known.is_empty().then_some(()).ok_or(Refusal::Shared)
    }
}

/// The number that a process or thread got last.
fn last_number() -> Option<i32> {
    let mut text = [0u8; 128];
    let bytes = read_into(b"/proc/loadavg\0", &mut text)?;
    std::str::from_utf8(&text[..bytes]).ok()?.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Pages of a process's addresses; `None` if it has ended, or is hidden.
fn size(process: std::fmt::Arguments) -> Option<u64> {
    let mut path = [0u8; 64];
    write!(&mut path[..63], "/proc/{process}/statm").ok()?;
    let mut text = [0u8; 192];
    let bytes = read_into(&path, &mut text)?;
    std::str::from_utf8(&text[..bytes]).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

fn own_size() -> Result<u64, Refusal> {
    size(format_args!("self")).ok_or(Refusal::Proc)
}

/// True if a process has the memory of this one.
///
/// # Errors
/// [`Refusal::Shared`] if the memory of this one changes, though its threads change nothing.
fn shares(number: i32) -> Result<bool, Refusal> {
    let before = own_size()?;
    let same = size(format_args!("{number}")) == Some(before);
    if own_size()? != before {
        return Err(Refusal::Shared);
    }
    if !same {
        return Ok(false);
    }
    // A child that has a copy has the same size, until this one changes.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new page, at an address of the kernel's choice.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(Refusal::Proc);
    }
    let (with, theirs) = (own_size(), size(format_args!("{number}")));
    // SAFETY: mapped above.
    unsafe { libc::munmap(page, 4096) };
    match with? == before + 1 && own_size()? == before {
        true => Ok(theirs == Some(before + 1)),
        false => Err(Refusal::Shared),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_read() {
        assert!(last_number().is_some_and(|number| number > 0));
        assert!(own_size().is_ok_and(|pages| pages > 100));
        assert_eq!(size(format_args!("0")), None);
    }
}
