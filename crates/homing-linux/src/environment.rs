//! What the environment says. It is the caller's: a program that runs with the rights of another (set-user-ID, file
//! capabilities) takes nothing from it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// True for a program that has more rights than who started it (`AT_SECURE`).
pub fn is_foreign() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// A variable. `None` if it is not set, or the environment [is foreign](is_foreign).
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|_| !is_foreign())
}

/// Opens a regular file that the environment names. `flags` are added to what is opened with; opening waits for nobody.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if it is no regular file (a FIFO, a device, a directory); those of `open(2)`.
pub fn open_regular(options: &mut OpenOptions, flags: i32, path: &Path) -> io::Result<File> {
    let file =
        options.custom_flags(flags | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_nobody_waits() {
        let root = tempfile::tempdir().unwrap();
        let (file, fifo) = (root.path().join("file"), root.path().join("fifo"));
        std::fs::write(&file, "x").unwrap();
        let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: a text.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let open = |path: &Path| open_regular(OpenOptions::new().read(true), 0, path);
        assert!(open(&file).is_ok());
        for other in [fifo.as_path(), root.path()] {
            assert_eq!(open(other).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(open(&root.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
