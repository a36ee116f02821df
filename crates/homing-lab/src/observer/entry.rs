//! The bytes at the entry points of the guest's programs, by which the observer knows that an address space runs
//! another program now (lab/plugin/spaces.c).

use crate::{elf, LabError};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// As many bytes as the observer compares.
const ENTRY_BYTES: usize = 48;
/// The observer's table has room for no more.
const MOST: usize = 64;

/// "ENGINE:OFFSET:BYTES" for each program with an entry point; ENGINE is 1 for the live engine.
pub(super) fn all(programs: &[PathBuf]) -> Result<Vec<String>, LabError> {
    let mut texts = BTreeSet::new();
    for program in programs {
        let bytes = std::fs::read(program).map_err(LabError::io(format!("reading {}", program.display())))?;
        if let Some((offset, code)) = entry(&bytes) {
            let hex: String = code.iter().map(|byte| format!("{byte:02x}")).collect();
            texts.insert(format!("{}:{offset:x}:{hex}", u8::from(is_engine(program))));
        }
    }
    // Engines sort last.
    Ok(texts.into_iter().rev().take(MOST).collect())
}

/// The live engine is known by its name.
pub(crate) fn is_engine(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "homing")
}

/// The entry point's offset in its page and its bytes, of a 64-bit ELF file that has one.
fn entry(file: &[u8]) -> Option<(u64, &[u8])> {
    let entry = elf::entry(file).filter(|&entry| entry != 0)?;
    let segment = elf::loaded(file)?.into_iter().find(|segment| segment.addresses.contains(&entry))?;
    let at = (segment.offset + entry - segment.addresses.start) as usize;
    Some((entry & 0xfff, file.get(at..(at + ENTRY_BYTES).min(file.len()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_has_an_entry_point() {
        let exe = std::env::current_exe().unwrap();
        let file = std::fs::read(&exe).unwrap();
        let (offset, code) = entry(&file).unwrap();
        assert!(offset < 4096 && code.len() == ENTRY_BYTES);
        // _start of every C library for x86-64 clears the frame pointer: xor %ebp,%ebp.
        assert!(code.windows(2).any(|pair| pair == [0x31, 0xed]));
        assert_eq!(all(&[exe]).unwrap().len(), 1);
        assert_eq!(entry(b"#!/bin/sh"), None);
    }
}
