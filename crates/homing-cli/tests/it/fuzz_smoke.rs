//! Runs the fuzz targets of what the kernel, the lab, external policies and users hand in on their corpus and on random
//! mutations of it, with the stable toolchain.

#[path = "../../../../fuzz/targets/parsers.rs"]
mod targets;

use crate::smoke::{corpus, smoke};

#[test]
fn perf() {
    // Process and thread, time, address, CPU; then a loss and a thread that began.
    let words: [&[u64]; 3] = [
        &[9 | 2 << 32 | 40 << 48, 7 | 8 << 32, 100, 0x7ff7_5a40_3000, 5],
        &[2 | 24 << 48, 1, 17],
        &[7 | 16 << 48, 7],
    ];
    let bytes: Vec<u8> = words.iter().copied().flatten().flat_map(|word| word.to_ne_bytes()).collect();
    let seeds = [0b1111, 0b111_1111, 0].map(|fields| [&[fields], &bytes[..]].concat());
    smoke(targets::perf, corpus("perf", seeds.to_vec()));
}

#[test]
fn journal() {
    smoke(targets::journal, corpus("journal", Vec::new()));
}

#[test]
fn placement() {
    smoke(targets::placement, corpus("placement", Vec::new()));
}

#[test]
fn observer() {
    smoke(targets::observer, corpus("observer", Vec::new()));
}

#[test]
fn answer() {
    smoke(targets::answer, corpus("answer", Vec::new()));
}

#[test]
fn plan() {
    smoke(targets::plan, corpus("plan", Vec::new()));
}
