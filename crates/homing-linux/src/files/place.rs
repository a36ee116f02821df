//! Where names lead: what stands behind links, which names are one file, and names beside another.

use super::FileError;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Most links that are followed, as in the kernel.
const LINKS: u32 = 40;
/// Most bytes of a file's name.
pub const NAME_MAX: usize = 255;

/// A file as the file system knows it; one that is not there yet by where it would be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Device and inode.
    Existing(u64, u64),
    /// Its name in a directory without links.
    Absent(PathBuf),
}

impl Place {
    /// The place that a name leads to.
    pub fn of(path: &Path) -> Place {
        if let Ok(facts) = path.metadata() {
            return Place::Existing(facts.dev(), facts.ino());
        }
        let target = behind_links(path);
        let folder = folder(&target);
        let folder = folder.canonicalize().or_else(|_| std::path::absolute(&folder)).unwrap_or(folder);
        Place::Absent(folder.join(target.file_name().unwrap_or_default()))
    }
}

/// The file that a name leads to through symbolic links, also where the last of them leads to nothing yet.
pub fn behind_links(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(next) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    path
}

/// Whether a name is written to as it is: a pipe, a device, or one of the program's own descriptors (`/dev/stdout`),
/// which may be a file that others write to as well.
pub fn is_written_through(path: &Path) -> bool {
    path.metadata().is_ok_and(|facts| !facts.is_file()) || is_descriptor(path)
}

fn is_descriptor(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(next) = path.read_link() else { return false };
        if folder(&path).canonicalize().is_ok_and(|folder| folder.starts_with("/proc")) {
            return true;
        }
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    false
}

/// The directory that a file is in.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A name beside a file: its own between `before` and `after`. Of a name that would become too long, the end is given
/// up for a digest of all of it.
///
/// # Errors
/// If the path names no file.
pub fn beside(path: &Path, before: &str, after: &str) -> Result<PathBuf, FileError> {
    let name = path.file_name().ok_or_else(|| FileError::NoName(path.to_owned()))?;
    let mut middle = name.as_bytes().to_vec();
    let room = NAME_MAX - before.len() - after.len();
    if middle.len() > room {
        let digest = format!("~{:016x}", xxh3_64(&middle));
        middle.truncate(room - digest.len());
        middle.extend(digest.bytes());
    }
    let name = [before.as_bytes(), &middle, after.as_bytes()].concat();
    Ok(path.with_file_name(OsString::from_vec(name)))
}

/// Whether a file is another user's, so that one of ours in its place would not be: only root may give files away.
pub fn is_anothers(path: &Path) -> bool {
    let us = geteuid();
    path.metadata().is_ok_and(|facts| !us.is_root() && facts.uid() != us.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_of_one_file_have_one_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir(path("inner")).unwrap();
        std::fs::write(path("file"), "").unwrap();
        std::fs::hard_link(path("file"), path("hard")).unwrap();
        symlink("file", path("soft")).unwrap();
        symlink("inner", path("folder")).unwrap();
        symlink("folder/absent", path("dangling")).unwrap();
        for (one, other) in [
            ("file", "hard"),
            ("file", "soft"),
            ("file", "inner/../file"),
            ("inner/absent", "folder/absent"),
            ("inner/absent", "dangling"),
            ("absent", "./absent"),
        ] {
            assert_eq!(Place::of(&path(one)), Place::of(&path(other)), "{one} {other}");
        }
        assert_ne!(Place::of(&path("file")), Place::of(&path("absent")));
        assert_ne!(Place::of(&path("absent")), Place::of(&path("inner/absent")));
        assert_eq!(behind_links(&path("dangling")), path("folder/absent"));
        assert!(!is_written_through(&path("file")) && is_written_through(Path::new("/dev/null")));
        assert!(is_written_through(Path::new("/dev/stdout")) && is_written_through(Path::new("/dev/fd/1")));
    }

    #[test]
    fn a_name_that_becomes_too_long_is_cut_and_stays_its_own() {
        let long = "n".repeat(NAME_MAX - 1);
        let of = |last: &str| beside(Path::new(&format!("d/{long}{last}")), "", ".part").unwrap();
        assert_eq!(of("a").file_name().unwrap().len(), NAME_MAX);
        assert_ne!(of("a"), of("b"));
        assert_eq!(beside(Path::new("d/x"), ".", ".7.part").unwrap(), Path::new("d/.x.7.part"));
        assert!(beside(Path::new("/"), "", ".part").is_err());
    }
}
