//! Locks with names, in a directory that no other user can enter: nobody else can hold one.

use super::Private;
use crate::lock::Lock;
use crate::proc::{Pid, Proc, Tid};
use rustix::fs::{fstat, openat, statat, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a killed session had begun in a program is ended by a process of its own ([`crate::guard`]), which has the
/// session's locks until then: the longest wait for that.
const PATIENCE: Duration = Duration::from_secs(10);
const NAP: Duration = Duration::from_millis(10);

/// An exclusive lock, released on drop and when its holder is killed.
#[derive(Debug)]
pub struct PrivateLock {
    directory: Private,
    name: String,
    _lock: Lock,
}

impl Private {
    /// Takes the lock of that name. If its holder was killed, waits for what that had begun.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`] with what `busy` says if a holder is at work; what `open(2)` gives.
    pub fn lock(self, name: &str, busy: impl Fn(&Holder) -> String) -> io::Result<PrivateLock> {
        let begin = Instant::now();
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = openat(&self.directory, name, flags, Mode::RUSR | Mode::WUSR);
            let file = File::from(opened.map_err(|errno| {
                let error = io::Error::from(errno);
                io::Error::new(error.kind(), format!("{}: {error}", self.path(name).display()))
            })?);
            self.check(name, &fstat(&file)?)?;
            let said = file.try_clone()?;
            if let Some(lock) = Lock::take(file)? {
                if self.is_named(name, &said)? {
                    said.set_len(0)?;
                    said.write_all_at(Holder::us()?.text().as_bytes(), 0)?;
                    return Ok(PrivateLock { directory: self, name: name.to_owned(), _lock: lock });
                }
            } else {
                let holder = Holder::read(&said);
                if holder.at_work() || begin.elapsed() >= PATIENCE {
                    return Err(io::Error::new(io::ErrorKind::ResourceBusy, busy(&holder)));
                }
            }
            std::thread::sleep(NAP);
        }
    }

    /// True unless the file lost its name between opening and locking it: who held the lock has taken it away.
    fn is_named(&self, name: &str, file: &File) -> io::Result<bool> {
        let ours = fstat(file)?;
        match statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) => Ok((named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The locks and names of those who wrote a file PREFIX...ENDING beside a lock PREFIX....lock and do not hold that any
/// more: they were killed. They are ours now. One whose lock cannot be taken is an error in the list.
///
/// # Errors
/// As for [`Private::there`].
pub fn abandoned(
    folder: &Path,
    prefix: &str,
    ending: &str,
) -> io::Result<Vec<io::Result<(PrivateLock, String)>>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let file = entry.file_name();
        let name = file.to_str().and_then(|file| file.strip_suffix(ending)).filter(|n| n.starts_with(prefix));
        let (Some(name), Some(private)) = (name, Private::there(folder)?) else { continue };
        match private.lock(&format!("{name}.lock"), |holder| holder.to_string()) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            lock => found.push(lock.map(|lock| (lock, name.to_owned()))),
        }
    }
    Ok(found)
}

impl PrivateLock {
    /// The directory that it is in.
    pub fn directory(&self) -> &Private {
        &self.directory
    }
}

impl Drop for PrivateLock {
    fn drop(&mut self) {
        // While it is still held: whoever waits for it makes it anew. A name that stays does no harm.
        let _ = self.directory.remove(&self.name);
    }
}

/// Who holds a lock, as far as its file tells.
#[derive(Debug)]
pub struct Holder {
    /// The process and when it started.
    who: Option<(Pid, u64)>,
}

impl Holder {
    fn us() -> io::Result<Holder> {
        let pid = Pid(std::process::id() as i32);
        let stat = Proc::default().stat(pid, Tid(pid.0)).map_err(io::Error::other)?;
        Ok(Holder { who: Some((pid, stat.start_ticks)) })
    }

    fn read(file: &File) -> Holder {
        let mut bytes = [0; 64];
        let count = file.read_at(&mut bytes, 0).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]);
        let who = text.trim().split_once(' ');
        Holder { who: who.and_then(|(pid, start)| Some((Pid(pid.parse().ok()?), start.parse().ok()?))) }
    }

    fn text(&self) -> String {
        self.who.map(|(pid, start)| format!("{pid} {start}\n")).unwrap_or_default()
    }

    /// False if it was killed; or if it has not said yet who it is, which is a matter of a moment.
    fn at_work(&self) -> bool {
        self.who.is_some_and(|(pid, start)| {
            let stat = Proc::default().stat(pid, Tid(pid.0));
            stat.is_ok_and(|stat| stat.start_ticks == start && !matches!(stat.state, 'Z' | 'X'))
        })
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.who {
            Some((pid, _)) => write!(f, "process {pid}"),
            None => f.write_str("a process that has not said which"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn lock(directory: &tempfile::TempDir) -> io::Result<PrivateLock> {
        Private::open(directory.path())?.lock("it", |holder| format!("{holder} has it"))
    }

    #[test]
    fn one_holder_at_a_time_who_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let held = lock(&directory).unwrap();
        let refused = lock(&directory).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(refused.to_string(), format!("process {} has it", std::process::id()));
        drop(held);
        assert!(!directory.path().join("it").exists());
        assert!(lock(&directory).is_ok());
    }

    #[test]
    fn many_who_take_and_leave_it_never_hold_it_together() {
        let directory = tempfile::tempdir().unwrap();
        let held = AtomicBool::new(false);
        let work = || {
            for _ in 0..300 {
                if let Ok(lock) = lock(&directory) {
                    assert!(!held.swap(true, Ordering::SeqCst), "two hold it");
                    held.store(false, Ordering::SeqCst);
                    drop(lock);
                }
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
    }

    #[test]
    fn what_a_killed_holder_had_begun_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let guard = lock(&directory).unwrap();
        // A process that has ended and that nobody has waited for yet, as one that was killed a moment ago.
        let mut killed = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid(killed.id() as i32);
        let start = Proc::default().stat(pid, Tid(pid.0)).unwrap().start_ticks;
        let file = directory.path().join("it");
        fs::write(&file, format!("{pid} {start}\n")).unwrap();
        assert!(lock(&directory).is_err(), "it is at work");
        killed.kill().unwrap();
        let killed_one = Holder { who: Some((pid, start)) };
        assert!((0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            !killed_one.at_work()
        }));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&directory));
            std::thread::sleep(5 * NAP);
            assert!(!waiting.is_finished(), "its guard is still at work");
            drop(guard);
            assert!(waiting.join().unwrap().is_ok());
        });
        killed.wait().unwrap();
    }

    #[test]
    fn a_number_that_is_used_again_is_nobody() {
        let us = Holder::us().unwrap();
        let (pid, start) = us.who.unwrap();
        assert!(us.at_work());
        assert!(!Holder { who: Some((pid, start + 1)) }.at_work());
        assert!(!Holder { who: None }.at_work());
    }
}
