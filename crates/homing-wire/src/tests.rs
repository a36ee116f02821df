//! The header against what its own compiler makes of it.

use super::*;
use std::process::Command;

/// Every number that the header names, as `named` reads it.
fn read_here() -> Vec<(String, u64)> {
    let names = HEADER.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut found: Vec<(String, u64)> = names
        .filter(|name| name.starts_with("HOMING_"))
        .filter_map(|name| Some((name.to_string(), std::panic::catch_unwind(|| named(HEADER, name)).ok()?)))
        .collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn the_c_compiler_reads_the_same_numbers() {
    let found = read_here();
    assert!(found.len() > 60, "{found:?}");
    let asserts: String = found
        .iter()
        .map(|(name, number)| format!("_Static_assert({name} == {number}ULL, \"{name} is not {number}\");\n"))
        .collect();
    let folder = std::env::temp_dir().join(format!("homing-wire-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("numbers.c");
    let header = concat!(env!("CARGO_MANIFEST_DIR"), "/../../recorders/include/homing_wire.h");
    std::fs::write(&file, format!("#include {header:?}\n{asserts}")).unwrap();
    let output = Command::new("cc").args(["-std=gnu11", "-fsyntax-only"]).arg(&file).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn words_come_apart_as_they_are_put_together() {
    let word = word(op::CUT, 77);
    assert_eq!((operation(word), word & PAYLOAD, word & CONTROL), (op::CUT, 77, CONTROL));
}
