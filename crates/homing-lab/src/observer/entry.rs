//! The bytes at the entry points of the guest's programs, by which the observer knows that an address space runs
//! another program now (lab/plugin/spaces.c).

use crate::LabError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// As many bytes as the observer compares.
const ENTRY_BYTES: usize = 48;
/// The observer's table has room for no more.
const MOST: usize = 64;
const LOAD: u32 = 1;

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

fn is_engine(program: &Path) -> bool {
    program.file_name().is_some_and(|name| name == "homing")
}

/// The entry point's offset in its page and its bytes, of a 64-bit ELF file that has one.
fn entry(file: &[u8]) -> Option<(u64, &[u8])> {
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at + bytes)?;
        Some(field.iter().rev().fold(0u64, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    (file.starts_with(b"\x7fELF\x02")).then_some(())?;
    let (entry, table, size, count) = (number(24, 8)?, number(32, 8)?, number(54, 2)?, number(56, 2)?);
    (entry != 0).then_some(())?;
    for header in (0..count).map(|n| (table + n * size) as usize) {
        let (kind, offset, address, length) = (
            number(header, 4)? as u32,
            number(header + 8, 8)?,
            number(header + 16, 8)?,
            number(header + 32, 8)?,
        );
        if kind == LOAD && (address..address + length).contains(&entry) {
            let at = (offset + entry - address) as usize;
            return Some((entry & 0xfff, file.get(at..(at + ENTRY_BYTES).min(file.len()))?));
        }
    }
    None
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
