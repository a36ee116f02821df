//! Runs the fuzz targets on their corpus and on random mutations of it, with the stable toolchain.

#[path = "../../../fuzz/targets.rs"]
mod targets;

use homing_core::ids::Thread;
use homing_core::machine::Machine;
use homing_core::trace::{Event, Header, Kind, Summary, SyncOp, TraceWriter};
use homing_live::journal::{self, Line};
use homing_wire::{op, word as control};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::path::Path;

const MUTATIONS: u32 = 150;

/// The corpus of a target, and the seeds that are made here.
fn corpus(target: &str, made: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
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

fn smoke(target: fn(&[u8]), seeds: Vec<Vec<u8>>) {
    assert!(!seeds.is_empty());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    for seed in &seeds {
        target(seed);
        (0..MUTATIONS).for_each(|_| target(&mutated(seed, &mut random)));
    }
}

/// A trace of two threads with events; `finished` or cut off before its index.
fn sample(finished: bool) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("smoke", "1")).unwrap();
    let (a, b) = (Thread(0), Thread(1));
    writer.event(a, &Event::ThreadStart { thread: b, creator: a }).unwrap();
    for i in 0..4000u64 {
        let thread = Thread((i / 50 % 2) as u32);
        if i % 100 == 0 {
            let op = [SyncOp::Acquire, SyncOp::Release, SyncOp::Both][i as usize / 100 % 3];
            writer.event(thread, &Event::Sync { op, object: 64, stamp: i }).unwrap();
        }
        writer.reference(thread, i % 7, i * i % 50_000, Kind::new(8, i % 3 == 0, false)).unwrap();
        if i == 2000 {
            writer.flush().unwrap();
        }
        if finished {
            writer.turn(thread, 1).unwrap();
        }
    }
    writer.event(a, &Event::ThreadJoin { thread: b }).unwrap();
    let (mut bytes, _) = writer.finish(Summary::default()).unwrap();
    if !finished {
        bytes.truncate(bytes.len() - 400);
    }
    bytes
}

#[test]
fn trace() {
    smoke(targets::trace, corpus("trace", vec![sample(true), sample(false)]));
}

#[test]
fn ingest() {
    let mut words = vec![control(op::DEFINE, 1), 2 << 32 | 5, 0x400000, 8 << 16, 1 << 32 | 8 << 16 | 1];
    words.extend((0..200).flat_map(|i| [control(op::BLOCK, 1), 0x1000 + 8 * i, 0x9000 + 16 * i]));
    words.extend([
        control(op::THREAD, 1),
        control(op::SYNC, 0),
        0x40,
        1,
        control(op::MUNMAP, 0),
        0x1000,
        4096,
        control(op::BLOCK, 1),
        0x1000,
    ]);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let seeds = (0..4).map(|flavour| [&[flavour], &bytes[..]].concat()).collect();
    smoke(targets::ingest, corpus("ingest", seeds));
}

#[test]
fn csv() {
    smoke(targets::csv, corpus("csv", Vec::new()));
}

#[test]
fn lackey() {
    smoke(targets::lackey, corpus("lackey", Vec::new()));
}

#[test]
fn machine() {
    smoke(targets::machine, corpus("machine", Vec::new()));
}

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
    let machine = Machine::builtin("ace").unwrap();
    let mut header = journal::Header::new("homing", "fuzz", &machine.costs(machine.page_size()).unwrap());
    header.teed = true;
    let mut bytes = Vec::new();
    let mut log = journal::Writer::new(&mut bytes, &header).unwrap();
    for line in [Line::Interval { t: 5 }, Line::Gone { page: 3 }] {
        log.put(&line).unwrap();
    }
    log.flush().unwrap();
    drop(log);
    smoke(targets::journal, corpus("journal", vec![bytes]));
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
