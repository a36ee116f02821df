//! Where physical memory is. Only root is told.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Addresses of the machine's memory, from `proc/iomem` (`proc` is `/proc`).
///
/// # Errors
/// What reading gives; `PermissionDenied` for others than root, who are shown zeros.
pub fn memory(proc: &Path) -> io::Result<Vec<Range<u64>>> {
    let text = fs::read_to_string(proc.join("iomem"))?;
    let memory: Vec<Range<u64>> = text.lines().filter_map(range).collect();
    match memory.iter().any(|range| range.end > 1) {
        true => Ok(memory),
        false => Err(io::Error::new(io::ErrorKind::PermissionDenied, "only root may see physical addresses")),
    }
}

/// "00100000-3fffffff : System RAM", if it is that. Parts of it (the kernel) are indented.
fn range(line: &str) -> Option<Range<u64>> {
    let (range, name) = line.split_once(" : ")?;
    let (first, last) = range.split_once('-').filter(|_| name.trim() == "System RAM")?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(first)?..number(last)?.checked_add(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_is_called_so() {
        let folder = tempfile::tempdir().unwrap();
        let with = |text: &str| {
            fs::write(folder.path().join("iomem"), text).unwrap();
            memory(folder.path())
        };
        let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n00100000-3fffffff : System RAM\n  \
                    01000000-01ffffff : Kernel code\nfd000000-fdffffff : PCI\n";
        assert_eq!(with(text).unwrap(), [0x1000..0x9fc00, 0x10_0000..0x4000_0000]);
        let hidden = with("00000000-00000000 : Reserved\n00000000-00000000 : System RAM\n").unwrap_err();
        assert_eq!(hidden.kind(), io::ErrorKind::PermissionDenied);
    }
}
