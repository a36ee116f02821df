//! Which names are one file, which are written to as they are, and names beside another.

use super::target::Target;
use rustix::fs::fstat;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Most links that are followed, as in the kernel.
pub(super) const LINKS: u32 = 40;
/// Most bytes of a file's name.
pub const NAME_MAX: usize = 255;

/// A file as the file system knows it; one that is not there yet by where it would be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Device and inode.
    Existing(u64, u64),
    /// Device and inode of its directory, and its name.
    Absent(u64, u64, OsString),
    /// A path that leads nowhere yet.
    Nowhere(PathBuf),
}

impl Place {
    /// The place that a name leads to.
    pub fn of(path: &Path) -> Place {
        if let Ok(facts) = path.metadata() {
            return Place::Existing(facts.dev(), facts.ino());
        }
        let in_directory = |target: &Target| {
            let facts = fstat(target.directory()).ok()?;
            Some(Place::Absent(facts.st_dev, facts.st_ino, target.name().to_owned()))
        };
        let place = Target::of(path).ok().as_ref().and_then(in_directory);
        place.unwrap_or_else(|| Place::Nowhere(std::path::absolute(path).unwrap_or_else(|_| path.to_owned())))
    }
}

/// Whether a name is written to as it is: a pipe, a device, or one of the program's own descriptors (`/dev/stdout`),
/// which may be a file that others write to as well.
pub fn is_written_through(path: &Path) -> bool {
    Target::of(path).is_ok_and(|target| target.is_written_through())
}

/// A file's name between `before` and `after`. Of one that would become too long, the end is given up for a digest of
/// all of it.
pub(super) fn name_beside(name: &OsStr, before: &str, after: &str) -> OsString {
    let mut middle = name.as_bytes().to_vec();
    let room = NAME_MAX - before.len() - after.len();
    if middle.len() > room {
        let digest = format!("~{:016x}", xxh3_64(&middle));
        middle.truncate(room - digest.len());
        middle.extend(digest.bytes());
    }
    OsString::from_vec([before.as_bytes(), &middle, after.as_bytes()].concat())
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
        assert!(!is_written_through(&path("file")) && is_written_through(Path::new("/dev/null")));
        assert!(is_written_through(Path::new("/dev/stdout")) && is_written_through(Path::new("/dev/fd/1")));
    }

    #[test]
    fn a_name_that_becomes_too_long_is_cut_and_stays_its_own() {
        let long = "n".repeat(NAME_MAX - 1);
        let of = |last: &str| name_beside(OsStr::new(&format!("{long}{last}")), "", ".part");
        assert_eq!(of("a").len(), NAME_MAX);
        assert_ne!(of("a"), of("b"));
        assert_eq!(name_beside(OsStr::new("x"), ".", ".7.part"), ".x.7.part");
    }
}
