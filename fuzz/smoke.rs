//! For the crates' `tests/fuzz_smoke.rs`: runs a fuzz target on its corpus and on random mutations of it, with the
//! stable toolchain.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;

const MUTATIONS: u32 = 150;

/// The corpus of a target, and the seeds that are made here.
pub fn corpus(target: &str, made: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    paths.sort();
    let files = paths.iter().map(|path| std::fs::read(path).unwrap());
    files.chain(made).collect()
}

fn mutated(seed: &[u8], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.gen_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        let (at, other) = (random.gen_range(0..bytes.len()), random.gen_range(0..bytes.len()));
        match random.gen_range(0..6) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.gen_range(0..8),
            2 => bytes[at] = random.gen(),
            3 => drop(bytes.drain(at.min(other)..at.max(other))),
            4 => bytes.insert(at, random.gen()),
            _ => {
                let piece = bytes[at.min(other)..at.max(other)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Runs a target on all seeds and on mutations of each.
pub fn smoke(target: fn(&[u8]), seeds: Vec<Vec<u8>>) {
    assert!(!seeds.is_empty());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for seed in &seeds {
        target(seed);
        (0..MUTATIONS).for_each(|_| target(&mutated(seed, &mut random)));
    }
}
