//! The data caches of a CPU as the kernel shows them under `/sys/devices/system/cpu`. The root of /sys is an argument,
//! so tests run on snapshots.

use crate::topology::parse_list;
use std::fs;
use std::path::Path;

/// A data or unified cache of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its level, from 1.
    pub level: u32,
    /// Bytes.
    pub bytes: u64,
    /// Ways; 0: not said.
    pub ways: u32,
    /// Bytes of a line.
    pub line: u64,
    /// CPUs that share it.
    pub cpus: u32,
}

/// The data caches of a CPU, the first level first; none where the kernel does not show them, as in some virtual
/// machines.
pub fn of_cpu(sys: &Path, cpu: u32) -> Vec<Cache> {
    let folder = sys.join(format!("devices/system/cpu/cpu{cpu}/cache"));
    let of = |index: u32| cache(&folder.join(format!("index{index}")));
    let mut found: Vec<Cache> = (0..8).filter_map(of).collect();
    found.sort_by_key(|cache| cache.level);
    found
}

fn cache(folder: &Path) -> Option<Cache> {
    let text = |name: &str| Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned());
    if text("type")? == "Instruction" {
        return None;
    }
    Some(Cache {
        level: text("level")?.parse().ok()?,
        bytes: kibibytes(&text("size")?)?,
        ways: text("ways_of_associativity").and_then(|ways| ways.parse().ok()).unwrap_or(0),
        line: text("coherency_line_size").and_then(|line| line.parse().ok()).unwrap_or(64),
        cpus: text("shared_cpu_list").and_then(|list| parse_list(&list)).map_or(1, |cpus| cpus.len() as u32),
    })
}

/// `32K` or `8M` in bytes.
fn kibibytes(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = digits.parse().ok()?;
    match unit {
        "K" => number.checked_mul(1 << 10),
        "M" => number.checked_mul(1 << 20),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_what_the_kernel_shows() {
        let sys = tempfile::tempdir().unwrap();
        let write = |index: u32, files: &[(&str, &str)]| {
            let folder = sys.path().join(format!("devices/system/cpu/cpu4/cache/index{index}"));
            fs::create_dir_all(&folder).unwrap();
            files.iter().for_each(|(name, text)| fs::write(folder.join(name), format!("{text}\n")).unwrap());
        };
        write(0, &[("level", "1"), ("type", "Data"), ("size", "48K"), ("ways_of_associativity", "12")]);
        write(1, &[("level", "1"), ("type", "Instruction"), ("size", "32K")]);
        let l3 = [("level", "3"), ("type", "Unified"), ("size", "36864K"), ("shared_cpu_list", "0-15,32-47")];
        write(2, &l3);
        write(3, &[("level", "9"), ("type", "Unified"), ("size", "much")]);
        let (l1, l3) = (of_cpu(sys.path(), 4)[0], of_cpu(sys.path(), 4)[1]);
        assert_eq!(l1, Cache { level: 1, bytes: 48 << 10, ways: 12, line: 64, cpus: 1 });
        assert_eq!(l3, Cache { level: 3, bytes: 36 << 20, ways: 0, line: 64, cpus: 32 });
        assert_eq!((of_cpu(sys.path(), 4).len(), of_cpu(sys.path(), 5)), (2, Vec::new()));
    }
}
