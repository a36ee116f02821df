//! What the lab reads of programs: their segments (64-bit ELF files).

use std::ops::Range;

/// Kind of a segment that is loaded.
const LOAD: u32 = 1;

/// A segment that is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its place in the file.
    pub offset: u64,
    /// Where it is loaded, relative to the program; as long as its part of the file.
    pub addresses: Range<u64>,
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let field = file.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// The entry point of a program, 0 if it has none; `None` for what is no 64-bit ELF file.
pub fn entry(file: &[u8]) -> Option<u64> {
    file.starts_with(b"\x7fELF\x02").then(|| number(file, 24, 8)).flatten()
}

/// All segments, with their kind; `None` for what is no whole 64-bit ELF file.
fn all(file: &[u8]) -> Option<Vec<(u32, Segment)>> {
    entry(file)?;
    let (table, size, count) = (number(file, 32, 8)?, number(file, 54, 2)?, number(file, 56, 2)?);
    let segment = |n: u64| {
        let header = usize::try_from(table.checked_add(n * size)?).ok()?;
        let field = |at: usize| number(file, header.checked_add(at)?, 8);
        let (offset, address, length) = (field(8)?, field(16)?, field(32)?);
        let addresses = address..address.checked_add(length)?;
        Some((number(file, header, 4)? as u32, Segment { offset, addresses }))
    };
    (0..count).map(segment).collect()
}

/// The segments that are loaded.
pub fn loaded(file: &[u8]) -> Option<Vec<Segment>> {
    let all = all(file)?.into_iter();
    Some(all.filter(|(kind, _)| *kind == LOAD).map(|(_, segment)| segment).collect())
}

/// The program without what is not loaded: debug information, symbols, the table of sections. It runs as before. `None`
/// if nothing is gained, or the file is not understood.
pub fn without_debug(file: &[u8]) -> Option<Vec<u8>> {
    let end = all(file)?
        .into_iter()
        .map(|(_, segment)| segment.offset.checked_add(segment.addresses.end - segment.addresses.start));
    let end = end.collect::<Option<Vec<u64>>>()?.into_iter().max()?;
    let end = usize::try_from(end).ok().filter(|&end| end < file.len() && end >= 64)?;
    let mut bytes = file[..end].to_vec();
    bytes[40..48].fill(0); // where the table of sections begins,
    bytes[60..64].fill(0); // how many there are, and which has their names
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_program_without_debug_information_is_smaller_and_runs() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let small = without_debug(&file).unwrap();
        assert!(small.len() < file.len() && without_debug(&small).is_none());
        assert_eq!((entry(&small), loaded(&small)), (entry(&file), loaded(&file)));
        let folder = tempfile::tempdir().unwrap();
        let (content, program) = (folder.path().join("content"), folder.path().join("program"));
        std::fs::write(&content, small).unwrap();
        // Another process writes what is executed. Were it open for writing here, a process that another test starts at
        // that moment would inherit it, and it could not be executed.
        let copied =
            Command::new("install").args(["-m", "755"]).arg(&content).arg(&program).status().unwrap();
        assert!(copied.success());
        let output = Command::new(&program).args(["--list", "elf::"]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("elf::tests"), "{output:?}");
    }

    #[test]
    fn other_files_are_left_alone() {
        for file in [&b"#!/bin/sh\n"[..], b"", b"\x7fELF\x02", &[0x7f, b'E', b'L', b'F', 2, 255, 255, 255]] {
            assert!(without_debug(file).is_none() && loaded(file).is_none());
        }
        let mut cut = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        cut.truncate(100);
        assert!(without_debug(&cut).is_none());
    }
}
