//! Targets of `homing-linux`: what the kernel and the files of programs say.

use homing_linux::proc::maps::Mapping;
use homing_linux::proc::numa_maps::Range;
use homing_linux::proc::symbols::{functions, Identity, Table};
use homing_linux::proc::task::{Confinement, Stat, Status, ThreadStatus};
use homing_linux::proc::vmstat::VmStat;
use homing_linux::topology::parse_list;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// A file of /proc, as each of those that are read.
pub fn proc_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = (Stat::parse(text), ThreadStatus::parse(text), Confinement::parse(text), VmStat::parse(text));
    let _ = Status::parse(text);
    for line in text.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            assert!(mapping.start < mapping.end && mapping.holds(mapping.start), "{line}");
            let _ = (mapping.class(), mapping.short_name());
        }
        if let Some(range) = Range::parse(line) {
            assert!(range.bytes().count() <= line.len());
            let _ = range.bound_to();
        }
        assert!(parse_list(line).is_none_or(|all| all.len() <= 1 << 17), "{line}");
    }
}

/// An ELF file: its names of data and functions.
pub fn elf(data: &[u8]) {
    let Ok(mut file) = tempfile::tempfile() else { return };
    if file.write_all(data).is_err() {
        return;
    }
    let inode = file.metadata().map_or(0, |facts| facts.ino());
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = std::path::Path::new(&path);
    if let Ok(table) = Table::read(path, Identity::Inode(inode), 1) {
        let _ = table.at(&[], "fuzz");
    }
    if let Ok(names) = functions(path) {
        assert!(names.iter().map(String::len).sum::<usize>() <= data.len() * data.len());
    }
}
