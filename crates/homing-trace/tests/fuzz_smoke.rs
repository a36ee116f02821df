//! Runs the fuzz targets on their corpus and on random mutations of it, with the stable toolchain.

#[path = "../../../fuzz/smoke.rs"]
mod smoke;
#[path = "../../../fuzz/targets/trace.rs"]
mod targets;

use homing_trace::ids::Thread;
use homing_trace::{Access, AddressSource, BlockDef, Event, Header, Kind, Summary, SyncOp, TraceWriter};
use homing_wire::{bit, op, word as control};
use smoke::{corpus, smoke};

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
    blocks(&mut writer, finished);
    writer.event(a, &Event::ThreadJoin { thread: b }).unwrap();
    let (mut bytes, _) = writer.finish(Summary::default()).unwrap();
    if !finished {
        bytes.truncate(bytes.len() - 400);
    }
    bytes
}

/// Executions of a code block with all that the format has: strides, misses, derived addresses, side exits.
fn blocks(writer: &mut TraceWriter<Vec<u8>>, ordered: bool) {
    let mut accesses: Vec<Access> = (0..6).map(|i| Access::new(i, 8, i % 2 == 1)).collect();
    accesses[3].exit = true;
    accesses[4].source = AddressSource::Derived { word: 1, offset: 24 };
    let block = writer.define(&BlockDef { accesses, instructions: 9 });
    for i in 0..3000u64 {
        let words = [0x1000 + i * 8, 0x20_0000 + i * 16, 0x40_0000 + i * i % 8191 * 8, 0x50_0000, 0x60_0000];
        let (words, references) = if i % 7 == 0 { (&words[..3], 3) } else { (&words[..], 6) };
        writer.execute(Thread(1), block, words).unwrap();
        if ordered {
            writer.turn(Thread(1), references).unwrap();
        }
    }
}

#[test]
fn trace() {
    let mut seeds = vec![sample(true), sample(false)];
    seeds.extend(["threads", "blocks", "parallel"].map(|name| {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        std::fs::read(folder.join(name).with_extension("trace")).unwrap()
    }));
    smoke(targets::trace, corpus("trace", seeds));
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

/// Loops, threads, cuts into what has not come, and a segment that is missing.
#[test]
fn channel() {
    let steps = 8 << bit::ACCESS_SIZE | 1 << bit::ACCESS_STEPS;
    let own = 1 << 16 | steps & !(1 << bit::ACCESS_STEPS);
    let define = |number, accesses: &[u64]| {
        [&[control(op::DEFINE, number), (accesses.len() as u64) << 32 | 1, 0x40_1000], accesses].concat()
    };
    let reads = |first: u64| (0..20).map(move |i| (first + 8 * i) | 3 << 59);
    let all: [(u8, u8, Vec<u64>); 6] = [
        (0, 0, [define(1, &[steps]), define(2, &[own, steps])].concat()),
        (1, 0, [control(op::THREAD_START, 2), 1].into_iter().chain(reads(0x1000)).collect()),
        (2, 0, vec![control(op::LOOP, 1), 100, 0x1000, 8, control(op::LOOP, 2), 56, 0x2000, 16, 1, 2, 3]),
        (0, 1, vec![control(op::CUT, 1 << 32 | 10), 3 << 32 | 1, control(op::MUNMAP, 0), 0x1000, 4096]),
        (1, 1, reads(0x2000).collect()),
        (2, 2, vec![control(op::LOOP, 1), 1 << 39, 0x1000, 0, control(op::THREAD_END, 2)]),
    ];
    let segment = |(stream, index, words): &(u8, u8, Vec<u64>)| {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        [*stream, *index, words.len() as u8].into_iter().chain(bytes).collect::<Vec<u8>>()
    };
    let bytes: Vec<u8> = all.iter().flat_map(segment).collect();
    let seeds = [0u8, 1, 3, 5, 9, 33].map(|choices| [&[choices], &bytes[..]].concat());
    smoke(targets::channel, corpus("channel", seeds.to_vec()));
}

#[test]
fn import() {
    let csv = b"\0thread,addr,size,kind\n0,0x1000,8,r\n65535,0x2000,4,w\n".to_vec();
    let lackey = b"\x01==1== Lackey\n L 1ffe,8\n S 2000,4\n M 3000,8\n".to_vec();
    let perf = include_bytes!("perf_data/pebs.data");
    smoke(targets::import, corpus("import", vec![csv, lackey, [&[2], &perf[..]].concat()]));
}

#[test]
fn csv() {
    smoke(targets::csv, corpus("csv", Vec::new()));
}

#[test]
fn lackey() {
    smoke(targets::lackey, corpus("lackey", Vec::new()));
}

/// Files that perf made and files that were built; also with their headers and features mutated, which are small parts
/// of them.
#[test]
fn perf_data() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perf_data");
    let names = ["pebs", "ibs", "spe", "spe-raw", "real/faults", "real/packed", "real/piped"];
    let files: Vec<Vec<u8>> =
        names.iter().map(|name| std::fs::read(folder.join(name).with_extension("data")).unwrap()).collect();
    for file in &files {
        let numbers = [0u64, 1, 0xff, 1 << 31, 1 << 62, u64::MAX];
        for at in (8..420).chain(file.len() - 2000..file.len()) {
            for number in numbers {
                let mut bytes = file.clone();
                let number = number.to_le_bytes();
                bytes[at..].iter_mut().zip(number).for_each(|(byte, new)| *byte = new);
                targets::perf_data(&bytes);
            }
        }
    }
    smoke(targets::perf_data, corpus("perf_data", files));
}
