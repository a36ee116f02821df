//! The program to record: found in PATH before anything is started, so that a wrong name has the shell's exit codes.

use crate::exit::{self, Code};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Finds the executable file that `name` stands for.
///
/// # Errors
/// Exit code 127 if there is none, 126 if it cannot be executed, as shells have it.
pub fn find(name: &OsStr, path: &OsStr) -> anyhow::Result<PathBuf> {
    let shown = name.to_string_lossy();
    if shown.is_empty() {
        return Err(exit::error(Code(127), "the command is empty: expected a program"));
    }
    let candidates: Vec<PathBuf> = if shown.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(path).map(|directory| directory.join(name)).collect()
    };
    if let Some(found) = candidates.iter().find(|file| is_executable(file)) {
        return Ok(found.clone());
    }
    Err(match candidates.iter().find(|file| file.exists()) {
        Some(file) if file.is_dir() => exit::error(Code(126), format!("{}: is a directory", file.display())),
        Some(file) => exit::error(
            Code(126),
            format!(
                "{}: not executable: expected a program (chmod +x it, or name its interpreter)",
                file.display()
            ),
        ),
        None if shown.contains('/') => exit::error(Code(127), format!("{shown}: no such program")),
        None => exit::error(Code(127), format!("{shown}: no such program in PATH")),
    })
}

/// Whether the program is linked with the runtime of `--recorder tsan`, which says so in a message of its own.
pub fn carries_runtime(program: &Path) -> bool {
    let marker = b"homing: this program is linked with the homing runtime";
    std::fs::read(program).is_ok_and(|bytes| bytes.windows(marker.len()).any(|at| at == marker))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The exit code that passes a child's status through: its own, or 128 + the signal that ended it.
pub fn code_of(status: ExitStatus) -> Code {
    Code(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: anyhow::Result<PathBuf>) -> Option<u8> {
        result.err().and_then(|e| e.downcast_ref::<exit::Coded>().map(|c| c.code.0))
    }

    #[test]
    fn names_are_looked_up_as_a_shell_does() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().as_os_str();
        let file = directory.path().join("plain");
        std::fs::write(&file, "x").unwrap();
        assert_eq!(code(find(OsStr::new("plain"), path)), Some(126));
        assert_eq!(code(find(directory.path().as_os_str(), path)), Some(126));
        assert_eq!(code(find(OsStr::new("absent"), path)), Some(127));
        assert_eq!(code(find(OsStr::new("./absent/x"), path)), Some(127));
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(OsStr::new("plain"), path).unwrap(), file);
    }

    #[test]
    fn statuses_pass_through() {
        assert_eq!(code_of(ExitStatus::from_raw(3 << 8)), Code(3));
        assert_eq!(code_of(ExitStatus::from_raw(11)), Code(139));
    }
}
