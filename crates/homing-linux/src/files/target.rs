//! Where a file will be written: a name in a directory that is held open from the first look to the last. Whoever
//! exchanges a part of the path meanwhile does not lead the file elsewhere.

use super::error::While;
use super::place::{name_beside, LINKS};
use super::FileError;
use crate::unnamed;
use rustix::fs::{
    fstat, fstatfs, mkdirat, openat, readlinkat, renameat, renameat_with, statat, unlinkat, AtFlags,
    FileType, Mode, OFlags, RenameFlags, Stat, CWD, PROC_SUPER_MAGIC,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{fchown, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A name in a directory that is held open.
#[derive(Clone, Debug)]
pub struct Target {
    directory: Arc<OwnedFd>,
    name: OsString,
    /// As messages call it.
    path: PathBuf,
    /// It is one of a process' descriptors: a link in /proc that the kernel alone can follow.
    descriptor: bool,
}

impl Target {
    /// The file that a path names, behind links. Another user's link is not followed: it may lead anywhere at any
    /// time.
    ///
    /// # Errors
    /// If a link on the way is another user's, a directory on the way cannot be entered, or the path names no file.
    pub fn of(path: &Path) -> Result<Target, FileError> {
        Target::find(path, backwards(path), false)
    }

    /// The file that is found by the names in `left`, last first, from where `path` begins. `makes` directories on the
    /// way that are missing.
    fn find(path: &Path, mut left: Vec<OsString>, makes: bool) -> Result<Target, FileError> {
        let context = || format!("cannot write {}", path.display());
        let no_name = || FileError::NoName(path.to_owned());
        path.file_name().ok_or_else(no_name)?;
        let ((mut at, mut shown), mut links) = (begin(path).doing(context)?, 0);
        while let Some(name) = left.pop() {
            let found = match left.is_empty() {
                true => look(&at, &name).doing(context)?,
                false => Some(look_on_the_way(&at, &name, makes).doing(context)?),
            };
            let facts = found.as_ref().map(fstat).transpose().doing(context)?;
            let is_link = facts.is_some_and(|facts| kind(&facts) == FileType::Symlink);
            let descriptor =
                is_link && left.is_empty() && fstatfs(&at).doing(context)?.f_type == PROC_SUPER_MAGIC;
            match (found, facts) {
                (Some(link), Some(facts)) if is_link && !descriptor => {
                    links += 1;
                    if !is_trusted(facts.st_uid).doing(context)? {
                        return Err(FileError::AnothersLink { path: path.to_owned(), link: name.into() });
                    }
                    if links > LINKS {
                        return Err(Errno::LOOP).doing(context);
                    }
                    let to = readlinkat(&link, "", Vec::new()).doing(context)?;
                    let to = PathBuf::from(OsString::from_vec(to.into_bytes()));
                    if to.is_absolute() {
                        (at, shown) = begin(&to).doing(context)?;
                    }
                    left.extend(backwards(&to));
                }
                (Some(directory), _) if !left.is_empty() => {
                    at = directory;
                    shown.push(name);
                }
                _ if name == ".." => break,
                _ => {
                    let (directory, path) = (Arc::new(at), shown.join(&name));
                    return Ok(Target { directory, name, path, descriptor });
                }
            }
        }
        Err(no_name())
    }

    /// Makes a directory, and those on the way to it, where they are missing.
    ///
    /// # Errors
    /// As for [`Target::of`].
    pub(super) fn make_directory(path: &Path) -> Result<(), FileError> {
        // One that is there in any case has no name: the root directory, or the one that relative paths begin in.
        if path.file_name().is_none() {
            return Ok(());
        }
        let mut left = backwards(path);
        left.insert(0, ".".into());
        Target::find(path, left, true).map(drop)
    }

    /// As messages call it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory.
    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// Its name in the directory.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// The name in the same directory that has this one's own between `before` and `after`.
    pub fn beside(&self, before: &str, after: &str) -> Target {
        let name = name_beside(&self.name, before, after);
        Target { path: self.path.with_file_name(&name), name, ..self.clone() }
    }

    /// What has the name; nothing if nothing has.
    pub fn facts(&self) -> Option<Stat> {
        statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).ok()
    }

    /// Bytes of the regular file that has the name; nothing if none has.
    pub fn size(&self) -> Option<u64> {
        let facts = self.facts().filter(|facts| kind(facts) == FileType::RegularFile)?;
        u64::try_from(facts.st_size).ok()
    }

    /// Whether this open file has the name.
    pub fn is(&self, file: impl AsFd) -> bool {
        let open = fstat(file).map(|facts| (facts.st_dev, facts.st_ino));
        self.facts().is_some_and(|facts| open == Ok((facts.st_dev, facts.st_ino)))
    }

    /// Whether the name is written to as it is: a pipe, a device, or a descriptor (`/dev/stdout`), which may be of a
    /// file that others write to as well.
    pub fn is_written_through(&self) -> bool {
        self.descriptor || self.facts().is_some_and(|facts| kind(&facts) != FileType::RegularFile)
    }

    /// Opens what is [written through](Target::is_written_through). Standard output and error go on where they are.
    ///
    /// # Errors
    /// What `open(2)` gives; if a file has taken the name meanwhile.
    pub fn open_through(&self) -> io::Result<File> {
        if !self.descriptor {
            let file = self.open(OFlags::WRONLY)?;
            return match file.metadata()?.is_file() {
                true => Err(io::Error::other("a file has taken the name meanwhile")),
                false => Ok(file),
            };
        }
        let theirs = statat(&self.directory, &self.name, AtFlags::empty())?;
        let regular = kind(&theirs) == FileType::RegularFile;
        for ours in [io::stdout().as_fd().try_clone_to_owned(), io::stderr().as_fd().try_clone_to_owned()] {
            let ours = File::from(ours?);
            let facts = ours.metadata()?;
            if regular && (facts.dev(), facts.ino()) == (theirs.st_dev, theirs.st_ino) {
                return Ok(ours);
            }
        }
        let append = if regular { OFlags::APPEND } else { OFlags::empty() };
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | append;
        Ok(openat(&self.directory, &self.name, flags, Mode::empty())?.into())
    }

    /// Opens what has the name, unless that is a link, to be read.
    pub fn open_to_read(&self) -> io::Result<File> {
        // A pipe would wait for its writer.
        self.open(OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Opens what has the name, unless that is a link, to be read and written behind its end; makes the file if nothing
    /// has the name.
    pub fn open_to_append(&self) -> io::Result<File> {
        self.open(OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK)
    }

    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY;
        Ok(openat(&self.directory, &self.name, flags, Mode::from_raw_mode(0o666))?.into())
    }

    /// Makes a file that has the name, to be read and written.
    ///
    /// # Errors
    /// If something has the name, be it a link; what `open(2)` gives.
    pub fn create_new(&self) -> io::Result<File> {
        self.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)
    }

    /// Makes a file without a name in the directory ([`unnamed`]).
    pub fn create_unnamed(&self) -> io::Result<File> {
        unnamed::create(&self.directory)
    }

    /// Renames what has this name to another one, whatever had that.
    pub fn rename(&self, to: &Target) -> io::Result<()> {
        Ok(renameat(&self.directory, &self.name, &to.directory, &to.name)?)
    }

    /// Lets what has this name and what has another one change places.
    pub fn exchange(&self, with: &Target) -> rustix::io::Result<()> {
        renameat_with(&self.directory, &self.name, &with.directory, &with.name, RenameFlags::EXCHANGE)
    }

    /// Takes the name away.
    pub fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(&self.directory, &self.name, AtFlags::empty())?)
    }

    /// Fails unless the file that was opened for reading under this name, and the directory, are this user's: root
    /// writes nothing where another user is at home. A directory may also be root's, as the one for temporary files.
    pub fn check_ours(&self, read: &File) -> Result<(), FileError> {
        let context = || format!("cannot write {}", self.path.display());
        if read.metadata().doing(context)?.uid() != geteuid().as_raw() {
            return Err(FileError::Anothers { what: "it", path: self.path.clone() });
        }
        match is_trusted(fstat(&self.directory).doing(context)?.st_uid).doing(context)? {
            true => Ok(()),
            false => Err(FileError::Anothers { what: "its directory", path: self.path.clone() }),
        }
    }

    /// Gives a new file the access rights of the one of ours in whose place it will be. Another user's say nothing of
    /// what is to become of our file, and nothing is given to others.
    pub fn keep_access(&self, file: &File) {
        let Some(before) = self.facts().filter(|facts| facts.st_uid == geteuid().as_raw()) else { return };
        // Some file systems know no groups and rights: then there is nothing to keep.
        let _ = fchown(file, None, Some(before.st_gid));
        let same_group = file.metadata().is_ok_and(|now| now.gid() == before.st_gid);
        let kept = if same_group { 0o777 } else { 0o707 };
        let _ = file.set_permissions(Permissions::from_mode(before.st_mode & kept));
    }
}

/// Opens what has a name, be it a link; nothing if nothing has.
fn look(at: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<OwnedFd>> {
    match openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

/// Opens a directory, or a link to one; `makes` it if it is missing.
fn look_on_the_way(at: &OwnedFd, name: &OsStr, makes: bool) -> rustix::io::Result<OwnedFd> {
    let made = if makes { mkdirat(at, name, Mode::from_raw_mode(0o777)) } else { Ok(()) };
    // What is mounted on demand is mounted for a directory alone.
    match openat(
        at,
        name,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        Err(Errno::NOENT) => Err(made.err().unwrap_or(Errno::NOENT)),
        Err(Errno::NOTDIR | Errno::LOOP) => look(at, name)?.ok_or(Errno::NOENT),
        found => found,
    }
}

/// The directory that a path begins in.
fn begin(path: &Path) -> io::Result<(OwnedFd, PathBuf)> {
    let (name, shown) = if path.is_absolute() { ("/", "/") } else { (".", "") };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((openat(CWD, name, flags, Mode::empty())?, shown.into()))
}

/// The names of a path, last first.
fn backwards(path: &Path) -> Vec<OsString> {
    let names =
        path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn kind(facts: &Stat) -> FileType {
    FileType::from_raw_mode(facts.st_mode)
}

/// Whether this user's paths depend on that one anyway: it is this one, or has the root directory.
fn is_trusted(uid: u32) -> io::Result<bool> {
    Ok(uid == geteuid().as_raw() || uid == Path::new("/").metadata()?.uid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Output, Over, Part};
    use std::fs::{create_dir, read, rename, write};
    use std::io::Write;
    use std::os::unix::fs::{chown, lchown, symlink};

    /// A user that is not this one.
    const ANOTHER: u32 = 65534;

    /// Gives a file to another user; false if only root may.
    fn give(path: &Path) -> bool {
        let given = lchown(path, Some(ANOTHER), None).is_ok();
        if !given {
            eprintln!("SKIPPED: a part of a test of files: only root gives files away");
        }
        given
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = directory.read_dir().unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_path_that_is_led_elsewhere_meanwhile_leads_no_file_there() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        create_dir(path("elsewhere")).unwrap();
        create_dir(path("d")).unwrap();
        write(path("d/read"), "HOMINGTR").unwrap();
        let read_file = File::open(path("d/read")).unwrap();
        let mut table = Output::create(&path("d/table"), Over::Texts).unwrap();
        let mut order = Output::instead_of(&path("d/read"), &read_file).unwrap();
        let (trace, mut unfinished) = Part::create(&path("d/trace"), Over::Traces).unwrap();
        let (log, mut lines) = Part::create(&path("d/log"), Over::Journals).unwrap();
        rename(path("d"), path("was-d")).unwrap();
        symlink("elsewhere", path("d")).unwrap();
        table.write_all(b"a,b").unwrap();
        order.write_all(b"HOMINGTR in order").unwrap();
        unfinished.write_all(b"HOMINGTR new").unwrap();
        lines.write_all(crate::files::JOURNAL).unwrap();
        table.commit().unwrap();
        order.commit().unwrap();
        trace.complete().unwrap();
        log.publish().unwrap();
        log.discard();
        assert!(names(&path("elsewhere")).is_empty());
        assert_eq!(names(&path("was-d")), ["log", "read", "table", "trace"]);
        assert_eq!(read(path("was-d/read")).unwrap(), b"HOMINGTR in order");
    }

    #[test]
    fn another_users_link_is_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        create_dir(path("secret")).unwrap();
        write(path("secret/file"), "a thesis").unwrap();
        crate::files::make_directory(&path("new/inner")).unwrap();
        assert!(path("new/inner").is_dir());
        symlink("secret", path("directory")).unwrap();
        symlink("secret/file", path("file")).unwrap();
        for name in ["directory/file", "file"] {
            assert!(Target::of(&path(name)).unwrap().is(File::open(path("secret/file")).unwrap()));
        }
        if !give(&path("directory")) || !give(&path("file")) {
            return;
        }
        for name in ["directory/file", "directory/new", "file"] {
            let error = Target::of(&path(name)).unwrap_err().to_string();
            assert!(error.contains("is a link of another user"), "{error}");
            assert!(
                Output::create(&path(name), Over::Texts).is_err()
                    && Part::create(&path(name), Over::Anything).is_err()
            );
        }
        assert!(crate::files::make_directory(&path("directory/new")).is_err());
        assert_eq!(
            (names(&path("secret")), read(path("file")).unwrap()),
            (vec!["file".into()], b"a thesis".to_vec())
        );
    }

    #[test]
    fn what_others_have_is_not_replaced_unasked_and_nothing_is_given_to_them() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let refused = |path: &Path| {
            Output::instead_of(path, &File::open(path).unwrap()).map(drop).unwrap_err().to_string()
        };
        create_dir(path("theirs")).unwrap();
        for name in ["file", "theirs/file"] {
            write(path(name), "HOMINGTR").unwrap();
        }
        if !give(&path("file")) || !give(&path("theirs")) {
            return;
        }
        assert!(refused(&path("file")).ends_with("it belongs to another user"));
        assert!(refused(&path("theirs/file")).ends_with("its directory belongs to another user"));
        // Asked for by name it is replaced, by a file of ours.
        let mut output = Output::create(&path("file"), Over::Traces).unwrap();
        output.write_all(b"HOMINGTR ours").unwrap();
        output.commit().unwrap();
        assert_eq!(path("file").metadata().unwrap().uid(), geteuid().as_raw());
        let (part, _file) = Part::create(&path("theirs/part"), Over::Traces).unwrap();
        assert_eq!(part.path().metadata().unwrap().uid(), geteuid().as_raw());
        chown(path("theirs"), Some(geteuid().as_raw()), None).unwrap();
    }

    #[test]
    fn a_file_that_took_the_name_of_one_that_was_read_keeps_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("x.trace");
        write(&path, "HOMINGTR old").unwrap();
        let old = File::open(&path).unwrap();
        let mut order = Output::instead_of(&path, &old).unwrap();
        order.write_all(b"HOMINGTR old in order").unwrap();
        let newer = place.path().join("y.trace");
        write(&newer, "HOMINGTR new").unwrap();
        rename(&newer, &path).unwrap();
        assert!(matches!(order.commit(), Err(FileError::Replaced(_))));
        assert!(matches!(Output::instead_of(&path, &old), Err(FileError::Replaced(_))));
        assert_eq!(
            (names(place.path()), read(&path).unwrap()),
            (vec!["x.trace".into()], b"HOMINGTR new".to_vec())
        );
    }
}
