//! Files that have no name until they are complete: whatever ends the program before that, nothing of them is left.

use rustix::fs::{linkat, openat, AtFlags, Mode, OFlags, CWD};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// Creates a file without a name in the file system of `directory`. File systems that cannot are an error
/// (`EOPNOTSUPP`, on some network file systems).
pub fn create(directory: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, directory, flags, Mode::from_raw_mode(0o666))?.into())
}

/// Gives such a file a name that nothing else has.
pub fn name(file: &File, path: &Path) -> io::Result<()> {
    let here = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, here, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_there_when_it_has_its_name() {
        let place = tempfile::tempdir().unwrap();
        let mut file = match create(place.path()) {
            Ok(file) => file,
            Err(error) => {
                eprintln!("SKIPPED: 1 test of files without a name: {error}");
                return;
            }
        };
        file.write_all(b"whole").unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let path = place.path().join("it");
        name(&file, &path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(name(&file, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
