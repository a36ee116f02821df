//! Files that have no name until they are complete: whatever ends the program before that, nothing of them is left.

use rustix::fs::{linkat, openat, AtFlags, Mode, OFlags, CWD};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Creates a file without a name in the file system of an open directory, to be read and written. File systems that
/// cannot are an error (`EOPNOTSUPP`, on some network file systems).
pub fn create(directory: impl AsFd) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(openat(directory, ".", flags, Mode::from_raw_mode(0o666))?.into())
}

/// Gives such a file a name in a directory, which nothing else has there.
pub fn name(file: &File, directory: impl AsFd, name: &OsStr) -> io::Result<()> {
    let here = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, here, directory, name, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_there_when_it_has_its_name() {
        let place = tempfile::tempdir().unwrap();
        let directory = File::open(place.path()).unwrap();
        let mut file = match create(&directory) {
            Ok(file) => file,
            Err(error) => {
                eprintln!("SKIPPED: 1 test of files without a name: {error}");
                return;
            }
        };
        file.write_all(b"whole").unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        let it = OsStr::new("it");
        name(&file, &directory, it).unwrap();
        assert_eq!(std::fs::read(place.path().join(it)).unwrap(), b"whole");
        assert_eq!(name(&file, &directory, it).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
