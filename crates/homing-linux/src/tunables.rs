//! Kernel tunables that are changed for a while: written on [`Tunables::set`], put back on drop. What they were is also
//! kept in a state file, so that after a kill -9 the next run (or `homing doctor --restore`) can put them back.

use crate::fail::{self, Call};
use crate::lock::Lock;
use crate::proc::{Pid, Proc, Tid};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a killed session had begun in a program is ended by a process of its own ([`crate::guard`]), which has the session's lock until
/// then: the longest wait for that.
const PATIENCE: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(10);

/// Tunables that were changed.
#[derive(Debug)]
pub struct Tunables {
    state: PathBuf,
    /// Path and what it was, oldest change first.
    before: Vec<(PathBuf, String)>,
    /// Held as long as this lives: two sessions would take each other's values for the original ones.
    _lock: Lock,
}

impl Tunables {
    /// Begins to change tunables, `state` being the file that remembers what they were. What an earlier, killed run left
    /// there is put back first.
    ///
    /// # Errors
    /// If another session has changed tunables and still runs, or the state file cannot be written.
    pub fn begin(state: &Path) -> io::Result<Tunables> {
        let lock = lock(state)?;
        put_back(state)?;
        Ok(Tunables { state: state.to_owned(), before: Vec::new(), _lock: lock })
    }

    /// Writes `value`. Writing what is there already changes nothing and need not be permitted.
    ///
    /// # Errors
    /// If the file is missing or may not be written.
    pub fn set(&mut self, path: &Path, value: &str) -> io::Result<()> {
        let old = fs::read_to_string(path)?.trim().to_owned();
        if old == value {
            return Ok(());
        }
        fail::point(Call::Tunable)?;
        if self.before.iter().all(|(known, _)| known != path) {
            self.before.push((path.to_owned(), old));
            self.remember()?;
        }
        fs::write(path, value)
    }

    fn remember(&self) -> io::Result<()> {
        let line = |(path, value): &(PathBuf, String)| format!("{}={value}\n", path.display());
        fs::write(&self.state, self.before.iter().map(line).collect::<String>())
    }
}

impl Drop for Tunables {
    fn drop(&mut self) {
        if self.before.is_empty() {
            return;
        }
        if let Err(error) = put_back(&self.state) {
            crate::errln!(
                "homing: kernel tunables could not be put back ({error}); see {}",
                self.state.display()
            );
        }
    }
}

/// Takes the lock that a session holds while tunables are changed.
fn lock(state: &Path) -> io::Result<Lock> {
    let path = state.with_extension("lock");
    let begin = Instant::now();
    loop {
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path)?;
        if let Some(lock) = Lock::take(file)? {
            fs::write(&path, std::process::id().to_string())?;
            return Ok(lock);
        }
        if is_held(&path) || begin.elapsed() >= PATIENCE {
            let message = format!(
                "another session of homing uses the kernel's tunables, and only one can at a time (it holds {}): wait for its end, \
                 or use one session for all processes",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        std::thread::sleep(NAP);
    }
}

/// True unless the session that took the lock was killed.
fn is_held(path: &Path) -> bool {
    let holder = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    let stat = |pid| Proc::default().stat(Pid(pid), Tid(pid));
    holder.is_none_or(|pid| stat(pid).is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X')))
}

/// Puts back what a killed session left changed: what the state file says, newest change first; then removes the file.
/// Returns how many tunables it named.
///
/// # Errors
/// If a session still runs and needs them as they are; if the file cannot be read, or a tunable cannot be written, and
/// then the file stays.
pub fn restore(state: &Path) -> io::Result<usize> {
    if !state.exists() {
        return Ok(0);
    }
    let _lock = lock(state)?;
    put_back(state)
}

fn put_back(state: &Path) -> io::Result<usize> {
    let text = match fs::read_to_string(state) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
    for (path, value) in lines.iter().rev() {
        fs::write(path, value)?;
    }
    fs::remove_file(state)?;
    Ok(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunables_come_back_also_after_a_kill() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let (a, b, state) = (file("a"), file("b"), file("state"));
        fs::write(&a, "0\n").unwrap();
        fs::write(&b, "1000\n").unwrap();
        let mut tunables = Tunables::begin(&state).unwrap();
        tunables.set(&a, "1").unwrap();
        tunables.set(&b, "7").unwrap();
        tunables.set(&b, "8").unwrap();
        assert_eq!(
            (fs::read_to_string(&a).unwrap(), fs::read_to_string(&b).unwrap()),
            ("1".into(), "8".into())
        );
        drop(tunables);
        assert_eq!(
            (fs::read_to_string(&a).unwrap(), fs::read_to_string(&b).unwrap()),
            ("0".into(), "1000".into())
        );
        assert!(!state.exists());

        let mut killed = Tunables::begin(&state).unwrap();
        killed.set(&a, "1").unwrap();
        assert!(Tunables::begin(&state).unwrap_err().to_string().contains("another session"));
        assert!(
            restore(&state).unwrap_err().to_string().contains("another session"),
            "it needs them as they are"
        );
        let left = fs::read_to_string(&state).unwrap();
        drop(killed);
        assert_eq!(restore(&state).unwrap(), 0);
        fs::write(&state, &left).unwrap();
        fs::write(&a, "1").unwrap();
        assert_eq!(restore(&state).unwrap(), 1);
        assert_eq!(fs::read_to_string(&a).unwrap(), "0");
        fs::write(&state, left).unwrap();
        fs::write(&a, "1").unwrap();
        let next = Tunables::begin(&state).unwrap();
        assert_eq!(fs::read_to_string(&a).unwrap(), "0");
        drop(next);
        assert!(Tunables::begin(&state).unwrap().set(&file("absent"), "1").is_err());
    }

    #[test]
    fn a_session_waits_for_what_a_killed_one_had_begun() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let guard = lock(&state).unwrap();
        // A process that has ended and that nobody has waited for yet, as one that was killed a moment ago.
        let mut session = std::process::Command::new("true").spawn().unwrap();
        fs::write(state.with_extension("lock"), session.id().to_string()).unwrap();
        let end = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(guard);
        });
        let ended = || {
            std::thread::sleep(Duration::from_millis(1));
            !is_held(&state.with_extension("lock"))
        };
        assert!((0..10_000).any(|_| ended()));
        let begun = Tunables::begin(&state);
        assert!(begun.is_ok(), "{begun:?}");
        end.join().unwrap();
        session.wait().unwrap();
    }

    #[test]
    fn writing_what_is_there_needs_no_right() {
        let directory = tempfile::tempdir().unwrap();
        let (path, state) = (directory.path().join("a"), directory.path().join("state"));
        fs::write(&path, "1\n").unwrap();
        let mut tunables = Tunables::begin(&state).unwrap();
        tunables.set(&path, "1").unwrap();
        assert!(!state.exists());
    }
}
