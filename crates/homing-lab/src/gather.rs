//! Which files of the host a command needs in the guest: its program, the files that its words name, the shared
//! libraries and the interpreter of each program. They keep their names and places.

use crate::observer::entry::is_engine;
use crate::{elf, initramfs::Initramfs, LabError};
use homing_linux::program;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file named by a word is taken along up to this size; larger ones only by `--file`.
const LARGEST_NAMED: u64 = 512 << 20;

/// Puts files and what they need into the guest.
#[derive(Debug)]
pub struct Gatherer<'a> {
    guest: &'a mut Initramfs,
    /// Where relative names begin.
    directory: PathBuf,
    /// The names of busybox's applets: words that name one are not looked up in PATH.
    applets: BTreeSet<String>,
    done: BTreeSet<PathBuf>,
    /// The programs (ELF files that can be executed) that were taken along, with their names in the guest.
    pub programs: Vec<PathBuf>,
    /// Libraries and interpreters that the host lacks itself, and what names them.
    pub missing: Vec<String>,
}

impl<'a> Gatherer<'a> {
    /// Begins with busybox and a link for each of its applets.
    pub fn new(guest: &'a mut Initramfs, busybox: &Path) -> Result<Gatherer<'a>, LabError> {
        let output = Command::new(busybox)
            .arg("--list")
            .output()
            .map_err(LabError::io(format!("running {}", busybox.display())))?;
        let applets: BTreeSet<String> =
            String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
        let (directory, done) = (PathBuf::new(), BTreeSet::new());
        Ok(Gatherer { guest, directory, applets, done, programs: Vec::new(), missing: Vec::new() })
    }

    /// Relative names begin here from now on.
    pub fn enter(&mut self, directory: &Path) {
        self.directory = directory.to_owned();
    }

    fn place(&self, name: &Path) -> PathBuf {
        absolute(&self.directory.join(name))
    }

    /// The command: its first word as a program, the others as whatever they name.
    ///
    /// # Errors
    /// [`LabError::Program`] if there is no such program; [`LabError::Io`] if it could not run on the host either.
    pub fn command(&mut self, words: &[OsString]) -> Result<(), LabError> {
        let Some((program, rest)) = words.split_first() else { return Ok(()) };
        let before = self.missing.len();
        self.program(program)?;
        let missing = &self.missing[before..];
        if !missing.is_empty() {
            return Err(LabError::Io {
                doing: format!("gathering what {} needs", program.to_string_lossy()),
                why: std::io::Error::other(format!("not found: {}", missing.join("; "))),
            });
        }
        rest.iter().try_for_each(|word| self.named(word))
    }

    /// All that a line for a shell names.
    pub fn line(&mut self, line: &OsStr) -> Result<(), LabError> {
        self.named(line)
    }

    /// The program as a shell would find it; what only busybox has is there anyway.
    fn program(&mut self, name: &OsStr) -> Result<(), LabError> {
        match find_program(&self.directory, name) {
            Ok(found) => self.file(&found),
            Err(_) if name.to_str().is_some_and(|name| self.applets.contains(name)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The files that a word names, by itself or as a part of a line for a shell.
    fn named(&mut self, word: &OsStr) -> Result<(), LabError> {
        let separators = |byte: &u8| b" \t\n=,;:&|()<>'\"`$".contains(byte);
        let whole = std::iter::once(word.as_bytes());
        for part in whole.chain(word.as_bytes().split(separators)).filter(|part| !part.is_empty()) {
            let part = OsStr::from_bytes(part);
            let path = &self.place(Path::new(part));
            if ["/proc", "/sys", "/dev"].iter().any(|own| path.starts_with(own)) {
                continue;
            }
            if path.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= LARGEST_NAMED) {
                self.file(path)?;
            } else if let Some(parent) =
                path.parent().filter(|p| p.is_dir() && part.as_bytes().contains(&b'/'))
            {
                // Where a result may be written.
                self.guest.directory(&absolute(parent))?;
            } else if part.to_str().is_some_and(|name| !name.contains('/') && !self.applets.contains(name)) {
                if let Ok(found) = find_program(&self.directory, part) {
                    self.file(&found)?;
                }
            }
        }
        Ok(())
    }

    /// A file, or a directory with all below it.
    pub fn tree(&mut self, path: &Path) -> Result<(), LabError> {
        let path = &self.place(path);
        let doing = || LabError::io(format!("reading {}", path.display()));
        if !path.metadata().map_err(doing())?.is_dir() {
            return self.file(path);
        }
        self.guest.directory(&absolute(path))?;
        for entry in std::fs::read_dir(path).map_err(doing())? {
            let entry = entry.map_err(doing())?;
            let facts = entry.metadata().map_err(doing())?;
            if facts.is_symlink() {
                let target = std::fs::read_link(entry.path()).map_err(doing())?;
                self.guest.link(&absolute(&entry.path()), &target)?;
            } else if facts.is_dir() || facts.is_file() {
                self.tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// A file and, if it is a program, what it needs.
    fn file(&mut self, path: &Path) -> Result<(), LabError> {
        let path = absolute(path);
        if !self.done.insert(path.clone()) {
            return Ok(());
        }
        let doing = || LabError::io(format!("reading {}", path.display()));
        let engine = is_engine(&path).then(|| std::fs::read(&path)).transpose().map_err(doing())?;
        match engine.as_deref().and_then(elf::without_debug) {
            // The guest keeps its files in memory, and the engine's debug information is most of it.
            Some(bytes) => {
                let mode = path.metadata().map_err(doing())?.permissions().mode() & 0o777;
                self.guest.file(&path, mode, &bytes)?;
            }
            None => self.guest.copy(&path, &path)?,
        }
        let mut head = [0; 256];
        let mut file = std::fs::File::open(&path).map_err(doing())?;
        let length = file.read(&mut head).map_err(doing())?;
        let head = &head[..length];
        if head.starts_with(b"\x7fELF") {
            self.programs.push(path.clone());
            let (libraries, missing) = libraries(&path)?;
            libraries.iter().try_for_each(|library| self.file(library))?;
            self.lacks(&path, missing);
        }
        for interpreter in interpreters(head) {
            match self.program(&interpreter) {
                Err(LabError::Program { name, .. }) => self.lacks(&path, vec![name]),
                other => other?,
            }
        }
        Ok(())
    }

    fn lacks(&mut self, path: &Path, missing: Vec<String>) {
        self.missing
            .extend(missing.into_iter().map(|what| format!("{what}, which {} names", path.display())));
    }

    /// Last, so that the host's programs come before busybox's: a link for each applet. Gives the programs and what is
    /// missing.
    pub fn finish(self, busybox: &Path) -> Result<(Vec<PathBuf>, Vec<String>), LabError> {
        self.guest.copy(busybox, Path::new("/bin/busybox"))?;
        for name in &self.applets {
            let taken = ["/bin", "/usr/bin", "/sbin", "/usr/sbin"].map(|place| Path::new(place).join(name));
            if !taken.iter().any(|path| self.guest.contains(path)) {
                self.guest.link(&taken[0], Path::new("/bin/busybox"))?;
            }
        }
        Ok((self.programs, self.missing))
    }
}

/// The absolute name of a file, with `.` and `..` of the beginning resolved but links kept.
pub fn absolute(path: &Path) -> PathBuf {
    let from_here = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for part in from_here.components() {
        match part {
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// Finds the executable file that `name` stands for in a directory, as a shell does.
fn find_program(directory: &Path, name: &OsStr) -> Result<PathBuf, LabError> {
    let place = absolute(&directory.join(name));
    let wanted = if name.as_bytes().contains(&b'/') { place.as_os_str() } else { name };
    program::find(wanted, &std::env::var_os("PATH").unwrap_or_default())
        .map_err(|why| LabError::Program { name: name.to_string_lossy().into_owned(), why })
}

/// The interpreter that the first line of a script names, and the one that `env` is told to find.
fn interpreters(head: &[u8]) -> Vec<OsString> {
    let line =
        head.strip_prefix(b"#!").and_then(|rest| rest.split(|&byte| byte == b'\n').next()).unwrap_or(b"");
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let first = words.next();
    let by_env = first.is_some_and(|word| word.ends_with(b"/env"));
    let found = words.find(|word| by_env && !word.starts_with(b"-") && !word.contains(&b'='));
    first.into_iter().chain(found).map(|word| OsStr::from_bytes(word).to_owned()).collect()
}

/// The shared libraries and the loader of a program, as `ldd` names them; none for a static one. Then the libraries
/// that it does not find.
fn libraries(program: &Path) -> Result<(Vec<PathBuf>, Vec<String>), LabError> {
    let output = Command::new("ldd")
        .arg(program)
        .env("LC_ALL", "C")
        .output()
        .map_err(LabError::io(format!("running ldd {}", program.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let missing = text.lines().filter_map(|line| line.trim().strip_suffix("=> not found"));
    let missing = missing.map(|name| name.trim_end().to_owned()).collect();
    Ok((text.lines().filter_map(library).collect(), missing))
}

/// "libm.so.6 => /lib/libm.so.6 (0x...)" or "/lib64/ld-linux-x86-64.so.2 (0x...)".
fn library(line: &str) -> Option<PathBuf> {
    let line = line.trim();
    let name = line.split_once("=> ").map_or(line, |(_, right)| right);
    let name = name.rsplit_once(" (0x").map_or(name, |(left, _)| left);
    Some(PathBuf::from(name)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ldd_says() {
        assert_eq!(library("\tlibm.so.6 => /lib/libm.so.6 (0x00007f)"), Some("/lib/libm.so.6".into()));
        assert_eq!(
            library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"),
            Some("/lib64/ld-linux-x86-64.so.2".into())
        );
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007f)"), None);
        assert_eq!(library("\tstatically linked"), None);
    }

    #[test]
    fn interpreters_of_scripts() {
        let env = ["/usr/bin/env", "python3"].map(OsString::from);
        assert_eq!(interpreters(b"#!/bin/sh -e\necho"), [OsString::from("/bin/sh")]);
        assert_eq!(interpreters(b"#! /usr/bin/env -S A=1 python3 -u\n"), env);
        assert!(interpreters(b"plain").is_empty());
    }

    #[test]
    fn names_become_absolute_without_dots() {
        assert_eq!(absolute(Path::new("/a/./b/../c")), Path::new("/a/c"));
    }

    #[test]
    fn a_program_comes_with_its_libraries() {
        let mut guest = Initramfs::new().unwrap();
        let mut gatherer = Gatherer {
            guest: &mut guest,
            directory: PathBuf::new(),
            applets: BTreeSet::new(),
            done: BTreeSet::new(),
            programs: Vec::new(),
            missing: Vec::new(),
        };
        gatherer.command(&["sh".into(), "-c".into(), "cat /etc/passwd; ls >/tmp/x".into()]).unwrap();
        let programs = gatherer.programs.clone();
        assert!(programs.iter().any(|p| p.ends_with("sh")) && programs.iter().any(|p| p.ends_with("cat")));
        assert!(programs.iter().any(|p| p.to_string_lossy().contains("libc.so")));
        assert!(
            guest.contains(Path::new("/etc/passwd"))
                && guest.contains(Path::new("/lib64/ld-linux-x86-64.so.2"))
        );
    }

    #[test]
    fn what_the_host_lacks_is_reported_but_for_the_command_an_error() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let busybox = crate::parts::in_path("true").unwrap();
        let mut guest = Initramfs::new().unwrap();
        let mut gatherer = Gatherer::new(&mut guest, &busybox).unwrap();
        gatherer.tree(place.path()).unwrap();
        let expected = format!("/no/such/interpreter, which {} names", script.display());
        assert_eq!(gatherer.missing, std::slice::from_ref(&expected));
        let mut guest = Initramfs::new().unwrap();
        let mut gatherer = Gatherer::new(&mut guest, &busybox).unwrap();
        let error = gatherer.command(&[script.into()]).unwrap_err();
        assert!(error.to_string().contains(&expected), "{error}");
    }
}
