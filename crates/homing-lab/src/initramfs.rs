//! The guest's root file system: an uncompressed cpio archive ("newc",
//! Documentation/driver-api/early-userspace/buffer-format.rst of the kernel), in memory without a name, so that nothing
//! is left behind however the lab ends.

use crate::LabError;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const SYMLINK: u32 = 0o120_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

/// An archive being written.
#[derive(Debug)]
pub struct Initramfs {
    out: io::BufWriter<File>,
    names: BTreeSet<PathBuf>,
    inode: u32,
}

impl Initramfs {
    /// Begins an archive; `/dev/console` is in it, which the kernel opens before anything is mounted.
    pub fn new() -> Result<Initramfs, LabError> {
        let memory = rustix::fs::memfd_create("homing-lab-initramfs", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(LabError::io("making memory for the guest's files"))?;
        let out = io::BufWriter::with_capacity(1 << 20, File::from(memory));
        let mut archive = Initramfs { out, names: BTreeSet::new(), inode: 0 };
        for directory in ["dev/pts", "dev/shm", "proc", "sys", "tmp", "run", "root", "lab", "bin", "var/tmp"]
        {
            archive.directory(Path::new("/").join(directory).as_path())?;
        }
        archive.entry("dev/console".as_ref(), CHARACTER_DEVICE | 0o600, 0, (5, 1))?;
        Ok(archive)
    }

    /// Whether there is a file of this name already.
    pub fn contains(&self, path: &Path) -> bool {
        self.names.contains(&relative(path))
    }

    /// A directory and those above it; existing ones are left as they are.
    pub fn directory(&mut self, path: &Path) -> Result<(), LabError> {
        let path = relative(path);
        let above: Vec<&Path> = path.ancestors().filter(|p| !p.as_os_str().is_empty()).collect();
        for directory in above.into_iter().rev() {
            if !self.names.contains(directory) {
                self.entry(directory, DIRECTORY | 0o755, 0, (0, 0))?;
            }
        }
        Ok(())
    }

    /// A file with these bytes. The first file of a name stays.
    pub fn file(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> Result<(), LabError> {
        self.write(path, REGULAR | mode, bytes)
    }

    /// A copy of a file of the host, under another name or its own.
    pub fn copy(&mut self, from: &Path, to: &Path) -> Result<(), LabError> {
        if self.contains(to) {
            return Ok(());
        }
        let doing = || LabError::io(format!("reading {}", from.display()));
        let bytes = std::fs::read(from).map_err(doing())?;
        let mode = from.metadata().map_err(doing())?.permissions().mode() & 0o777;
        self.file(to, mode, &bytes)
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &Path, target: &Path) -> Result<(), LabError> {
        self.write(path, SYMLINK | 0o777, target.as_os_str().as_bytes())
    }

    fn write(&mut self, path: &Path, mode: u32, bytes: &[u8]) -> Result<(), LabError> {
        if self.contains(path) {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.directory(parent)?;
        }
        self.entry(&relative(path), mode, bytes.len(), (0, 0))?;
        self.put(bytes)?;
        self.pad(bytes.len())
    }

    /// Ends the archive; gives its descriptor, at the beginning.
    pub fn finish(mut self) -> Result<OwnedFd, LabError> {
        self.entry("TRAILER!!!".as_ref(), 0, 0, (0, 0))?;
        let doing = || LabError::io("writing the guest's files");
        let mut file = self.out.into_inner().map_err(|e| doing()(e.into_error()))?;
        file.rewind().map_err(doing())?;
        Ok(file.into())
    }

    fn entry(&mut self, name: &Path, mode: u32, bytes: usize, device: (u32, u32)) -> Result<(), LabError> {
        let size = u32::try_from(bytes).ok().filter(|&size| size < 1 << 31).ok_or_else(|| LabError::Io {
            doing: format!("putting {} into the guest", name.display()),
            why: io::Error::other("larger than 2 GiB"),
        })?;
        self.inode += 1;
        self.names.insert(name.to_owned());
        let text: &OsStr = name.as_os_str();
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, device.0, device.1, text.len() as u32 + 1, 0];
        let mut header = String::from("070701");
        fields.iter().for_each(|field| header.push_str(&format!("{field:08x}")));
        self.put(header.as_bytes())?;
        self.put(text.as_bytes())?;
        self.put(&[0])?;
        self.pad(header.len() + text.len() + 1)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        self.out.write_all(bytes).map_err(LabError::io("writing the guest's files"))
    }

    /// Headers and contents are padded to four bytes.
    fn pad(&mut self, length: usize) -> Result<(), LabError> {
        self.put(&[0; 3][..length.wrapping_neg() % 4])
    }
}

fn relative(path: &Path) -> PathBuf {
    path.strip_prefix("/").unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn an_archive_has_the_kernels_form() {
        let mut archive = Initramfs::new().unwrap();
        archive.file(Path::new("/a/b/hello"), 0o755, b"12345").unwrap();
        archive.file(Path::new("/a/b/hello"), 0o644, b"again").unwrap();
        let mut bytes = Vec::new();
        File::from(archive.finish().unwrap()).read_to_end(&mut bytes).unwrap();
        let (mut at, mut seen) = (0, Vec::new());
        loop {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |n: usize| {
                let text = &bytes[at + 6 + 8 * n..at + 14 + 8 * n];
                usize::from_str_radix(std::str::from_utf8(text).unwrap(), 16).unwrap()
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = String::from_utf8(bytes[at + 110..at + 109 + name_size].to_vec()).unwrap();
            let content = at + (110 + name_size).next_multiple_of(4);
            if name == "a/b/hello" {
                assert_eq!((mode, &bytes[content..content + size]), (0o100_755, &b"12345"[..]));
            }
            at = content + size.next_multiple_of(4);
            if name == "TRAILER!!!" {
                break;
            }
            seen.push(name);
        }
        assert_eq!(at, bytes.len());
        assert!(seen.iter().position(|n| n == "a") < seen.iter().position(|n| n == "a/b"));
        assert_eq!(seen.iter().filter(|n| *n == "a/b/hello").count(), 1);
    }
}
