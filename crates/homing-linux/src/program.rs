//! The program to start: found in PATH before anything is started, so that a wrong name has the shell's exit codes.

use object::elf::{FileHeader64, DT_NEEDED, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A name that no program can be started by.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No name at all.
    #[error("the command is empty: expected a program")]
    Empty,
    /// No such file.
    #[error("{0}: no such program")]
    Absent(String),
    /// No such file in any directory of PATH.
    #[error("{0}: no such program in PATH")]
    NotInPath(String),
    /// A directory has that name.
    #[error("{}: is a directory", .0.display())]
    Directory(PathBuf),
    /// A file has that name which may not be executed.
    #[error("{}: not executable: expected a program (chmod +x it, or name its interpreter)", .0.display())]
    NotExecutable(PathBuf),
}

impl ProgramError {
    /// The exit status that shells have for it: 127 if there is none, 126 if it cannot be executed.
    pub fn status(&self) -> u8 {
        match self {
            ProgramError::Empty | ProgramError::Absent(_) | ProgramError::NotInPath(_) => 127,
            ProgramError::Directory(_) | ProgramError::NotExecutable(_) => 126,
        }
    }
}

/// Finds the executable file that `name` stands for.
///
/// # Errors
/// If there is none, or it cannot be executed.
pub fn find(name: &OsStr, path: &OsStr) -> Result<PathBuf, ProgramError> {
    let shown = name.to_string_lossy();
    if shown.is_empty() {
        return Err(ProgramError::Empty);
    }
    let candidates: Vec<PathBuf> = if shown.contains('/') {
        vec![PathBuf::from(name)]
    } else {
        std::env::split_paths(path).map(|directory| directory.join(name)).collect()
    };
    if let Some(found) = candidates.iter().find(|file| is_executable(file)) {
        return Ok(found.clone());
    }
    Err(match candidates.into_iter().find(|file| file.exists()) {
        Some(file) if file.is_dir() => ProgramError::Directory(file),
        Some(file) => ProgramError::NotExecutable(file),
        None if shown.contains('/') => ProgramError::Absent(shown.into_owned()),
        None => ProgramError::NotInPath(shown.into_owned()),
    })
}

/// Whether a program is an ELF file that the dynamic linker takes no part in, so that nothing is preloaded into it.
/// False where that cannot be told, and for scripts.
pub fn is_static(file: &Path) -> bool {
    has_interpreter(file) == Some(false)
}

/// Whether a program gets more rights than who starts it (set-user-ID, set-group-ID, file capabilities): the dynamic
/// linker preloads nothing into it.
pub fn is_privileged(file: &Path) -> bool {
    const SET_ID: u32 = 0o6000;
    let capabilities = rustix::fs::getxattr(file, "security.capability", &mut []);
    file.metadata().is_ok_and(|facts| facts.permissions().mode() & SET_ID != 0)
        || capabilities.is_ok_and(|bytes| bytes > 0)
}

/// The libraries that the dynamic linker would load into a program, in its order; none where it cannot tell. The
/// program does not run.
pub fn libraries(file: &Path) -> Vec<PathBuf> {
    let Some(linker) = interpreter(file) else { return Vec::new() };
    // Both glibc's and musl's list, and load nothing else, when they are called like this.
    let Ok(output) = Command::new(linker).arg("--list").arg(file).stdin(Stdio::null()).output() else {
        return Vec::new();
    };
    let path = |line: &str| {
        let found = line.split_once(" => ").map_or(line, |(_, path)| path).trim();
        let (path, _) = found.rsplit_once(" (0x")?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    String::from_utf8_lossy(&output.stdout).lines().filter_map(path).collect()
}

/// The dynamic linker that an ELF file names.
fn interpreter(file: &Path) -> Option<PathBuf> {
    let data = ReadCache::new(File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    let path = segments.iter().find_map(|segment| segment.interpreter(endian, &data).ok().flatten())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

fn has_interpreter(file: &Path) -> Option<bool> {
    let data = ReadCache::new(File::open(file).ok()?);
    let header = FileHeader64::<Endianness>::parse(&data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &data).ok()?;
    Some(segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP))
}

/// Whether a program is an ELF file that is linked with one of these libraries by itself: with one whose name begins
/// so. False where that cannot be told, and for scripts.
pub fn needs(file: &Path, libraries: &[&str]) -> bool {
    needed(file)
        .unwrap_or_default()
        .iter()
        .any(|name| libraries.iter().any(|library| name.starts_with(library)))
}

/// The libraries that an ELF file names.
fn needed(file: &Path) -> Option<Vec<String>> {
    // A pipe would wait for its writer.
    file.metadata().ok().filter(|facts| facts.is_file())?;
    let cache = ReadCache::new(File::open(file).ok()?);
    let data = &cache;
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, data).ok()?;
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let names = entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_NEEDED));
    let names = names.filter_map(|entry| strings.get(entry.val32(endian)?).ok());
    Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// The exit status that passes a child's through: its own, or 128 + the signal that ended it.
pub fn status_of(status: ExitStatus) -> u8 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(result: Result<PathBuf, ProgramError>) -> Option<u8> {
        result.err().map(|error| error.status())
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

    /// The head of an ELF file with one segment of this type.
    fn elf(segment: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01\x01");
        // e_phoff, e_phentsize, e_phnum.
        put(32, &64u64.to_le_bytes());
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(64, &segment.to_le_bytes());
        bytes
    }

    #[test]
    fn static_programs_name_no_interpreter() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("it");
        let holds = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            is_static(&file)
        };
        assert!(holds(&elf(1)));
        assert!(!holds(&elf(PT_INTERP)));
        assert!(!holds(b"#!/bin/sh\n") && !holds(&elf(1)[..40]), "it cannot be told");
    }

    #[test]
    fn statuses_pass_through() {
        assert_eq!(status_of(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(status_of(ExitStatus::from_raw(11)), 139);
    }

    #[test]
    fn the_libraries_of_a_program_are_those_that_it_names() {
        let me = std::env::current_exe().unwrap();
        assert!(needs(&me, &["libc.so"]) && !needs(&me, &["libabsent.so"]));
        assert!(!needs(Path::new("/proc/self/maps"), &["libc.so"]), "no program");
        let loaded = libraries(&me);
        assert!(loaded.iter().any(|path| path.to_string_lossy().contains("/libc.so")), "{loaded:?}");
        assert!(
            loaded.iter().all(|path| path.is_file()) && libraries(Path::new("/proc/self/maps")).is_empty()
        );
    }

    #[test]
    fn programs_with_more_rights_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("it");
        std::fs::write(&file, "x").unwrap();
        for (mode, privileged) in [(0o755, false), (0o4755, true), (0o2755, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(is_privileged(&file), privileged, "{mode:o}");
        }
    }
}
