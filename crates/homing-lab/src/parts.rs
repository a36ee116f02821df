//! What a lab is made of and where that is: QEMU, a kernel, busybox, and the C parts of `lab/`. `lab/setup.sh` puts the
//! first three there; `make lab` builds the others.

use crate::LabError;
use homing_linux::program;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest QEMU whose plugins can read registers and instruction bytes as ours does.
const OLDEST_QEMU: (u32, u32) = (9, 1);

/// The files that a lab is made of.
#[derive(Clone, Debug)]
pub struct Parts {
    /// QEMU's system emulator for x86-64.
    pub qemu: PathBuf,
    /// The uncompressed kernel.
    pub kernel: PathBuf,
    /// The kernel's modules that the guest needs to reach its host, in the order in which they are loaded; none where
    /// they are built in.
    pub modules: Vec<PathBuf>,
    /// A statically linked busybox: the guest's shell and tools.
    pub busybox: PathBuf,
    /// The directory of what `make lab` builds.
    pub built: PathBuf,
}

impl Parts {
    /// Finds everything.
    ///
    /// # Errors
    /// [`LabError::Missing`] for the first part that is not there.
    pub fn find() -> Result<Parts, LabError> {
        let missing = |what: String| LabError::Missing { what };
        if !cfg!(target_arch = "x86_64") {
            return Err(missing("the lab runs on x86-64 hosts only; nothing to install here".into()));
        }
        let qemu = in_path("qemu-system-x86_64").ok_or_else(|| {
            missing("qemu-system-x86_64 is not installed (the lab needs 9.1 or newer)".into())
        })?;
        check_version(&qemu)?;
        let busybox = in_path("busybox")
            .ok_or_else(|| missing("busybox is not installed (Debian: busybox-static)".into()))?;
        let kernel = cache_directory().join("vmlinux");
        check_kernel(&kernel)?;
        let modules = modules(&kernel.with_file_name("modules"))?;
        Ok(Parts { qemu, kernel, modules, busybox, built: built_directory()? })
    }
}

/// The files of a directory, by name; none if it is not there.
fn modules(directory: &Path) -> Result<Vec<PathBuf>, LabError> {
    let doing = || LabError::io(format!("reading the kernel's modules in {}", directory.display()));
    let entries = match directory.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(doing())?,
    };
    let files: Result<Vec<PathBuf>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files.map_err(doing())?;
    files.sort();
    Ok(files)
}

/// Refuses a kernel that is not there, or of which a part is missing: QEMU's own words for that help nobody.
fn check_kernel(kernel: &Path) -> Result<(), LabError> {
    let name = kernel.display();
    let missing = |what: String| LabError::Missing { what };
    let mut file = match File::open(kernel) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(missing(format!("there is no kernel for the guest at {name}")));
        }
        opened => opened.map_err(LabError::io(format!("opening the guest's kernel {name}")))?,
    };
    let doing = || LabError::io(format!("reading the guest's kernel {name}"));
    let length = file.metadata().map_err(doing())?.len();
    let mut head = [0; 64];
    match file.read_exact(&mut head) {
        Ok(()) if elf_bytes(&head).is_some_and(|bytes| length >= bytes) => Ok(()),
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(doing()(error)),
        _ => Err(missing(format!("{name} is no whole kernel (an ELF file); remove it first"))),
    }
}

/// The bytes that a 64-bit ELF file has at least, by its header: up to the end of its table of sections.
fn elf_bytes(head: &[u8; 64]) -> Option<u64> {
    let number = |at: usize, bytes: usize| {
        head[at..at + bytes].iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte))
    };
    head.starts_with(b"\x7fELF\x02").then(|| number(40, 8).saturating_add(number(58, 2) * number(60, 2)))
}

/// Where the kernel is kept: `$HOMING_LAB_CACHE`, or `homing/lab` in the user's cache directory.
pub fn cache_directory() -> PathBuf {
    let under = |variable: &str, rest: &str| {
        std::env::var_os(variable).filter(|v| !v.is_empty()).map(|v| PathBuf::from(v).join(rest))
    };
    under("HOMING_LAB_CACHE", "")
        .or_else(|| under("XDG_CACHE_HOME", "homing/lab"))
        .or_else(|| under("HOME", ".cache/homing/lab"))
        .unwrap_or_else(|| PathBuf::from("/var/cache/homing/lab"))
}

/// The directory with the guest's first process and the observer: `$HOMING_LAB_DIR`, or beside the program.
pub fn built_directory() -> Result<PathBuf, LabError> {
    beside_program("HOMING_LAB_DIR", &["../lib/homing/lab", "../../build/lab"], "init")
        .map_err(|places| LabError::Missing { what: format!("the guest's first process is missing (looked in \
        {places}): build it with `make lab`, or name its directory in HOMING_LAB_DIR; for the rest of the lab") })
}

/// The script that installs QEMU, busybox and a kernel.
pub fn setup_script() -> Result<PathBuf, LabError> {
    beside_program("HOMING_LAB_DIR", &["../lib/homing/lab", "../../lab"], "setup.sh")
        .map(|directory| directory.join("setup.sh"))
        .map_err(|places| LabError::Io {
            doing: format!("looking for setup.sh in {places}"),
            why: std::io::ErrorKind::NotFound.into(),
        })
}

/// The first of some directories that has a file; otherwise where it was looked for.
fn beside_program(variable: &str, relative: &[&str], file: &str) -> Result<PathBuf, String> {
    let exe = std::env::current_exe().and_then(|exe| exe.canonicalize()).unwrap_or_default();
    let beside = exe.parent().unwrap_or(Path::new("/"));
    let mut places: Vec<PathBuf> = std::env::var_os(variable).map(PathBuf::from).into_iter().collect();
    // Test programs are one level deeper than the program.
    places.extend(relative.iter().flat_map(|place| [beside.join(place), beside.join("..").join(place)]));
    let found = places.iter().find(|place| place.join(file).exists());
    found
        .and_then(|place| place.canonicalize().ok())
        .ok_or_else(|| places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", "))
}

/// An executable file of this name in PATH.
pub fn in_path(name: &str) -> Option<PathBuf> {
    program::find(name.as_ref(), &std::env::var_os("PATH").unwrap_or_default()).ok()
}

fn check_version(qemu: &Path) -> Result<(), LabError> {
    let output = Command::new(qemu)
        .arg("--version")
        .output()
        .map_err(LabError::io(format!("running {}", qemu.display())))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match version(&text) {
        Some(found) if found >= OLDEST_QEMU => Ok(()),
        _ => Err(LabError::Missing {
            what: format!(
                "{} says `{}`, and the lab needs version {}.{} or newer",
                qemu.display(),
                text.lines().next().unwrap_or("nothing"),
                OLDEST_QEMU.0,
                OLDEST_QEMU.1
            ),
        }),
    }
}

/// "QEMU emulator version 10.0.2 (Debian ...)" -> (10, 0).
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once("version ")?.1.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_there_and_whole() {
        let place = tempfile::tempdir().unwrap();
        let kernel = place.path().join("vmlinux");
        let error = || check_kernel(&kernel).unwrap_err().to_string();
        assert!(error().contains("there is no kernel"));
        // Any other ELF file does as well.
        let whole = std::fs::read(in_path("true").unwrap()).unwrap();
        std::fs::write(&kernel, &whole).unwrap();
        check_kernel(&kernel).unwrap();
        for part in [&whole[..whole.len() - 1], &whole[..30], b"no kernel".as_slice()] {
            std::fs::write(&kernel, part).unwrap();
            assert!(error().contains("remove it first: run `homing lab setup`"));
        }
    }

    #[test]
    fn versions_are_read() {
        let debian = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2+deb13u1~bpo12+1)\nCopyright";
        assert_eq!(version(debian), Some((10, 0)));
        assert_eq!(version("QEMU emulator version 7.2.17"), Some((7, 2)));
        assert_eq!(version("no"), None);
    }
}
