//! The directory where the engines of one user keep what must outlive them, and their locks: `/run/homing` for root.
//! Nobody else can enter it, so that nobody else can plant a file there or hold a lock. Files are reached through the
//! open directory, never by a path that somebody could turn elsewhere.

mod lock;

use crate::environment::variable;
pub use lock::{abandoned, Holder, PrivateLock};

use rustix::fs::{
    fchmod, fstat, mkdirat, openat, renameat, stat, statat, unlinkat, AtFlags, FileType, Mode, OFlags, Stat,
    CWD,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Longer files are not ours.
const LONGEST: u64 = 1 << 28;

/// Files of one name that can be aside.
const MOST_ASIDE: u32 = 100;

/// Bits of others and of the group.
const NOT_OURS: u32 = 0o077;
/// ... with which they could change something.
const WRITABLE: u32 = 0o022;

/// Where the directory of this user's engines is: `/run/homing` for root; for others `homing` in `XDG_RUNTIME_DIR` or
/// `/run/user/UID`, the first that is a directory of theirs; without one `homing-UID` in the directory for temporary
/// files. All users share that one: [`Private::open`] refuses what somebody else has put there.
pub fn standard() -> PathBuf {
    let user = geteuid();
    if user.is_root() {
        return "/run/homing".into();
    }
    let named = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    let temporary = variable("TMPDIR").map_or_else(|| "/tmp".into(), PathBuf::from);
    standard_of(user.as_raw(), named, temporary)
}

fn standard_of(user: u32, named: Option<PathBuf>, temporary: PathBuf) -> PathBuf {
    let own = |path: &PathBuf| {
        let facts = stat(path).ok().filter(|_| path.is_absolute());
        facts
            .is_some_and(|it| it.st_uid == user && FileType::from_raw_mode(it.st_mode) == FileType::Directory)
    };
    let runtime = named.into_iter().chain([format!("/run/user/{user}").into()]).find(own);
    let temporary = if temporary.is_absolute() { temporary } else { "/tmp".into() };
    runtime.map_or_else(|| temporary.join(format!("homing-{user}")), |path| path.join("homing"))
}

/// What came of putting back what killed engines left.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// How much was put back.
    pub count: u64,
    /// What was not: a sentence each. The rest was put back all the same.
    pub troubles: Vec<String>,
}

impl Restored {
    /// Adds what one of them left, or why that cannot be put back.
    pub fn add(&mut self, one: io::Result<u64>) {
        match one {
            Ok(count) => self.count += count,
            Err(error) => self.troubles.push(error.to_string()),
        }
    }
}

/// What a file of state holds.
#[derive(Debug)]
pub enum Left<T> {
    /// It is not there.
    Nothing,
    /// What was written.
    Whole(T),
    /// Something else. It was moved aside, so that it is in nobody's way; the sentence says so.
    Aside(String),
}

/// An open directory that only this user can enter.
#[derive(Debug)]
pub struct Private {
    path: PathBuf,
    directory: OwnedFd,
}

impl Private {
    /// Opens the directory, and makes it where it is missing.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if it is a link, is somebody else's, or others may write to it; if it cannot
    /// be made.
    pub fn open(path: &Path) -> io::Result<Private> {
        match mkdirat(CWD, path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => {
                let message = format!(
                    "{}, where homing keeps its state and its locks, cannot be made: {errno}. Root needs a /run that \
                     can be written to, others XDG_RUNTIME_DIR or TMPDIR set to a directory of theirs",
                    path.display()
                );
                return Err(io::Error::new(io::Error::from(errno).kind(), message));
            }
        }
        Private::there(path)?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens the directory if it is there.
    ///
    /// # Errors
    /// As for [`Private::open`].
    pub fn there(path: &Path) -> io::Result<Option<Private>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let directory = match openat(CWD, path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno @ (Errno::NOTDIR | Errno::LOOP)) => {
                return Err(refused(path, &format!("not a directory ({errno})")));
            }
            Err(errno) => {
                return Err(refused(path, &format!("not open to this user ({errno})")));
            }
        };
        let facts = fstat(&directory)?;
        check_owner(path, &facts)?;
        if facts.st_mode & NOT_OURS != 0 {
            // Nobody can have planted anything: it was only too easy to look into.
            fchmod(&directory, Mode::RWXU)?;
        }
        Ok(Some(Private { path: path.to_owned(), directory }))
    }

    /// The path of a file in it, for messages.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What a file says; `None` if it is not there.
    ///
    /// # Errors
    /// If it is anything but a file of this user's that nobody else may write to, or no text.
    pub fn read(&self, name: &str) -> io::Result<Option<String>> {
        let Some(file) = self.existing(name, OFlags::RDONLY)? else { return Ok(None) };
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(Some(text))
    }

    /// A file, open for reading and writing; `None` if it is not there.
    ///
    /// # Errors
    /// As for [`Private::read`].
    pub fn file(&self, name: &str) -> io::Result<Option<File>> {
        self.existing(name, OFlags::RDWR)
    }

    fn existing(&self, name: &str, access: OFlags) -> io::Result<Option<File>> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.directory, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno @ (Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::ACCESS)) => {
                return Err(refused(&self.path(name), &format!("not a file of its own ({errno})")));
            }
            Err(errno) => return Err(errno.into()),
        };
        self.check(name, &fstat(&file)?)?;
        Ok(Some(file.into()))
    }

    /// What `parse` makes of a file's text. A file that is not this user's own, or of which `parse` says why it is not
    /// what was written there, is moved aside.
    ///
    /// # Errors
    /// What reading gives.
    pub fn left<T>(&self, name: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> io::Result<Left<T>> {
        let aside = |why: String| Left::Aside(self.set_aside(name, &why));
        match self.read(name) {
            Ok(None) => Ok(Left::Nothing),
            Ok(Some(text)) => Ok(parse(&text).map_or_else(aside, Left::Whole)),
            Err(error) => match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => {
                    Ok(aside("not a file that homing wrote".into()))
                }
                _ => Err(error),
            },
        }
    }

    /// Gives a file that is not what was written there another name. Returns a sentence with `why`, and where it is.
    pub fn set_aside(&self, name: &str, why: &str) -> String {
        let path = self.path(name);
        let names = (1..=MOST_ASIDE).map(|number| format!("{name}.broken-{number}"));
        let free = |name: &String| {
            statat(&self.directory, &**name, AtFlags::SYMLINK_NOFOLLOW)
                .is_err_and(|errno| errno == Errno::NOENT)
        };
        let moved = names.into_iter().find(free).ok_or(Errno::EXIST).and_then(|aside| {
            renameat(&self.directory, name, &self.directory, &*aside)?;
            Ok(self.path(&aside))
        });
        let fate = match moved {
            Ok(aside) => format!("it is now {}, for you to look at and remove", aside.display()),
            Err(errno) => format!("it cannot be moved aside ({errno}): remove it"),
        };
        format!("{}: {why}; {fate}", path.display())
    }

    /// Writes a file whole, or leaves what was there.
    ///
    /// # Errors
    /// What making, writing and renaming it gives.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let unfinished = format!("{name}.new");
        if self.remove(&unfinished).is_err() {
            crate::errln!("homing: {}", self.set_aside(&unfinished, "not a file that homing wrote"));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.directory, &*unfinished, flags, Mode::RUSR | Mode::WUSR)?;
        File::from(file).write_all(text.as_bytes())?;
        Ok(renameat(&self.directory, &*unfinished, &self.directory, name)?)
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// What `unlink(2)` gives.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn check(&self, name: &str, facts: &Stat) -> io::Result<()> {
        let path = self.path(name);
        if FileType::from_raw_mode(facts.st_mode) != FileType::RegularFile {
            return Err(refused(&path, "not a regular file"));
        }
        check_owner(&path, facts)
    }
}

fn check_owner(path: &Path, facts: &Stat) -> io::Result<()> {
    let us = geteuid().as_raw();
    if facts.st_uid != us {
        return Err(refused(path, &format!("user {}'s, not user {us}'s", facts.st_uid)));
    }
    if facts.st_mode & WRITABLE != 0 {
        return Err(refused(path, &format!("open for others to write (mode {:o})", facts.st_mode & 0o7777)));
    }
    Ok(())
}

/// Something is there that this user's engine has not put there.
fn refused(path: &Path, why: &str) -> io::Error {
    let message = format!(
        "{} is {why}: homing uses only what it made itself and nobody else may write to; look at it, \
         and remove it if it is not needed",
        path.display()
    );
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests;
