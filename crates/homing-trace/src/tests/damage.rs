//! Damaged, truncated and unfinished traces; a full disk; a trace of each released version.

use super::*;
use crate::format::{self, BlockKind, Placed};
use crate::info::Info;
use std::io::{Error, Write};

/// A small trace of many small blocks, with its order.
fn small() -> (Vec<u8>, Model) {
    let mut program = Program::new(11);
    for _ in 0..14 {
        program.step();
        program.writer.flush().unwrap();
    }
    let (bytes, model, ..) = program.finish(true);
    (bytes, model)
}

fn blocks(bytes: &[u8]) -> Vec<Placed> {
    format::read_index(bytes).unwrap().1
}

fn references(placed: &Placed) -> u64 {
    if placed.header.kind == BlockKind::References {
        u64::from(placed.header.b)
    } else {
        0
    }
}

#[test]
fn a_truncated_trace_keeps_its_whole_blocks() {
    let (bytes, _) = small();
    let blocks = blocks(&bytes);
    assert!(blocks.iter().filter(|p| p.header.kind == BlockKind::References).count() >= 5);
    for cut in 0..bytes.len() {
        let Ok(trace) = Trace::open(&bytes[..cut]) else {
            assert!((cut as u64) < blocks[0].offset);
            continue;
        };
        assert!(!trace.complete());
        let whole = blocks.iter().filter(|p| p.offset + p.header.length() <= cut as u64);
        let expected: u64 = whole.map(references).sum();
        assert_eq!(trace.references(), expected, "cut at {cut}");
        let read: u64 = trace
            .threads()
            .map(|(thread, _)| {
                let mut steps = trace.thread_steps(thread);
                assert!(steps.by_ref().all(|s| !matches!(s, Step::Lost { .. })));
                steps.references()
            })
            .sum();
        assert_eq!(read, expected);
    }
}

#[test]
fn a_damaged_header_is_read_from_its_copy() {
    let mut header = Header::new("test", "7");
    header.command = vec!["./prog".into(), "-n 3".into()];
    header.more.insert("seed".into(), 5.into());
    let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
    (0..1000).for_each(|i| writer.reference(Thread(0), 0, 8 * i, Kind::read(8)).unwrap());
    writer.turn(Thread(0), 1000).unwrap();
    let written = writer.finish(Summary::default()).unwrap().0;
    let trace = Trace::open(&written).unwrap();
    assert_eq!(trace.header(), &header);
    // Another order, and what was recovered, have the copy as well.
    let mut order = OrderWriter::copy(Vec::new(), &trace).unwrap();
    order.turn(Thread(0), 1000).unwrap();
    let reordered = order.finish().unwrap().0;
    let options = crate::merge::Options::default();
    let (recovered, _) = crate::recover::recover(trace, Vec::new(), options, |_| ()).unwrap();
    for bytes in [written, reordered, recovered] {
        let whole = Trace::open(&bytes).unwrap();
        for at in 12..blocks(&bytes)[0].offset as usize {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let trace = Trace::open(&damaged).unwrap();
            assert_eq!(trace.header(), whole.header(), "byte {at}");
            assert!(trace.complete() && !trace.whole());
            assert!(trace.damage()[0].reason.contains("its copy in the summary is used"));
            assert_eq!(trace.visit_all(&mut Collector::default()).unwrap().references, 1000);
        }
    }
}

/// The trace as versions before wrote it: no copy of the header in the summary.
fn without_the_copy(bytes: &[u8]) -> Vec<u8> {
    let trace = Trace::open(bytes).unwrap();
    let mut sink = format::BlockSink::new(Vec::new(), 0, Vec::new()).unwrap();
    sink.put_bytes(&trace.header().encode().unwrap()).unwrap();
    for placed in blocks(bytes) {
        if placed.header.kind == BlockKind::Summary {
            sink.put(placed.header, &serde_json::to_vec(&trace.summary()).unwrap()).unwrap();
        } else {
            sink.put_stored(placed.header, format::stored(bytes, placed.offset).unwrap().1).unwrap();
        }
    }
    sink.finish().unwrap()
}

#[test]
fn a_damaged_header_without_a_copy_costs_what_it_says_and_nothing_else() {
    let bytes = without_the_copy(&small().0);
    let whole = Trace::open(&bytes).unwrap();
    let start = blocks(&bytes)[0].offset as usize;
    for at in 12..start {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(matches!(Trace::open(&damaged), Err(TraceError::Header(_))), "byte {at}");
        let trace = Trace::salvage(&damaged).unwrap();
        assert_eq!(trace.references(), whole.references());
        assert!(trace.damage()[0].reason.contains("header"));
        let options = crate::merge::Options::default();
        let (mended, recovered) = crate::recover::recover(trace, Vec::new(), options, |_| ()).unwrap();
        assert_eq!((recovered.references, recovered.lost), (whole.references(), 0));
        let mended = Trace::open(&mended).unwrap();
        assert!(mended.complete() && mended.header().recorder == "unknown");
        assert_eq!(mended.frames(), whole.frames());
    }
}

#[test]
fn references_behind_the_end_of_the_order_are_counted() {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    let total = (1u64 << 18) + 1000;
    for i in 0..total {
        let thread = Thread((i % 2) as u32);
        writer.reference(thread, 1, 8 * (i % 4096), Kind::read(8)).unwrap();
        writer.turn(thread, 1).unwrap();
    }
    let bytes = writer.finish(Summary::default()).unwrap().0;
    let orders: Vec<_> =
        blocks(&bytes).into_iter().filter(|placed| placed.header.kind == BlockKind::Order).collect();
    let last = orders.last().unwrap();
    assert!(orders.len() > 1 && last.header.c > 0);
    let trace = Trace::open(&bytes[..last.offset as usize + 20]).unwrap();
    assert_eq!(trace.references(), total);
    let stats = trace.visit_all(&mut Collector::default()).unwrap();
    assert_eq!((stats.references, stats.lost), (last.header.c, total - last.header.c));
    assert!(stats.damage.iter().any(|damage| damage.references == stats.lost), "{:?}", stats.damage);
    let info = Info::of(&trace, |_| ());
    assert_eq!((info.lost(), info.unordered), (0, stats.lost));
}

/// Takes references and looks at none.
struct Deaf;

impl Visitor for Deaf {
    fn turn(&mut self, _turn: Turn<'_>) {}
}

#[test]
fn parts_of_a_trace_lose_each_reference_once() {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    let (total, ordered) = (14u64 << 20, 9u64 << 20);
    (0..total).for_each(|i| writer.reference(Thread(0), 0, 8 * (i % 512), Kind::read(8)).unwrap());
    writer.turn(Thread(0), ordered).unwrap();
    let mut bytes = writer.finish(Summary::default()).unwrap().0;
    let missing: Vec<Placed> =
        blocks(&bytes).into_iter().filter(|placed| placed.header.kind == BlockKind::Order).collect();
    for (hit, lost) in [(None, total - ordered), (missing.first(), total - ordered + missing[0].header.d)] {
        // Without an index the block is not there; the last byte is of the trailer.
        if let Some(hit) = hit {
            bytes[hit.offset as usize] = b'X';
            bytes.pop();
        }
        let trace = Trace::open(&bytes).unwrap();
        let whole = trace.visit_all(&mut Deaf).unwrap();
        assert_eq!((whole.references, whole.lost), (total - lost, lost));
        let parts = trace.parts(8);
        assert!(parts.len() > 1 && parts.iter().all(|part| !part.is_empty()), "{parts:?}");
        let (mut read, mut gone) = (0, 0);
        for part in parts {
            let stats = trace.visit(part, &mut Deaf).unwrap();
            (read, gone) = (read + stats.references, gone + stats.lost);
        }
        assert_eq!((read, gone), (total - lost, lost));
        let end = trace.order_blocks().len();
        assert_eq!(trace.visit(end..end, &mut Deaf).unwrap().lost, 0);
    }
}

#[test]
fn a_flipped_bit_costs_one_block() {
    let (bytes, model) = small();
    let blocks = blocks(&bytes);
    let total: u64 = model.threads.values().map(|t| t.len() as u64).sum();
    let mut damaged = bytes.clone();
    for at in 0..bytes.len() {
        damaged[at] ^= 1 << (at % 8);
        let hit = blocks.iter().find(|p| (p.offset..p.offset + p.header.length()).contains(&(at as u64)));
        match Trace::open(&damaged) {
            Ok(trace) => {
                let mut collector = Collector::default();
                let stats = trace.visit_all(&mut collector).unwrap();
                assert_eq!(stats.references + stats.lost, total, "flip at {at}");
                let expected = match hit {
                    Some(hit) if hit.header.kind == BlockKind::Order => hit.header.d,
                    Some(hit) => references(hit),
                    None => 0,
                };
                assert_eq!((stats.lost, collector.lost), (expected, expected), "flip at {at}");
                if hit.is_some_and(|p| p.header.kind != BlockKind::Summary) {
                    assert!(!stats.damage.is_empty() || !trace.damage().is_empty(), "flip at {at}");
                }
            }
            Err(error) => assert!(at < blocks[0].offset as usize, "flip at {at}: {error}"),
        }
        damaged[at] = bytes[at];
    }
}

#[test]
fn a_missing_block_without_an_index_is_a_counted_gap() {
    let (bytes, model) = small();
    let total: u64 = model.threads.values().map(|t| t.len() as u64).sum();
    for hit in blocks(&bytes).iter().filter(|p| references(p) > 0) {
        let mut damaged = bytes[..bytes.len() - 1].to_vec();
        damaged[hit.offset as usize] = b'X';
        let trace = Trace::open(&damaged).unwrap();
        let mut collector = Collector::default();
        let stats = trace.visit_all(&mut collector).unwrap();
        assert_eq!((stats.references, stats.lost), (total - references(hit), references(hit)));
        assert!(!trace.complete());
    }
}

/// Of one thread more is in the order than there is, of another less: what lacks a place gets one.
#[test]
fn a_recovery_orders_each_thread_to_its_end() {
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    for i in 0..100 {
        writer.reference(Thread(0), 0, 0x1000 + 8 * i, Kind::new(8, false, false)).unwrap();
        writer.reference(Thread(1), 0, 0x2000 + 8 * i, Kind::new(8, false, false)).unwrap();
        if i == 49 {
            writer.flush().unwrap();
        }
    }
    writer.turn(Thread(0), 100).unwrap();
    writer.turn(Thread(1), 50).unwrap();
    let (bytes, _) = writer.finish(Summary::default()).unwrap();
    let all = blocks(&bytes);
    let last = all.iter().rposition(|placed| references(placed) > 0 && placed.header.a == 0).unwrap();
    let (from, to) = (all[last].offset as usize, all[last + 1].offset as usize);
    let end = all.last().unwrap().offset as usize;
    let without = [&bytes[..from], &bytes[to..end]].concat();
    let trace = Trace::open(&without).unwrap();
    assert_eq!(trace.references(), 150);
    let options = crate::merge::Options::default();
    let (bytes, recovered) = crate::recover::recover(trace, Vec::new(), options, |_| ()).unwrap();
    assert_eq!((recovered.references, recovered.order_made), (150, 50));
    let whole = Trace::open(&bytes).unwrap();
    assert!(whole.complete() && whole.damage().is_empty());
}

#[test]
fn other_files_and_versions_are_refused() {
    assert!(matches!(Trace::open(b""), Err(TraceError::NotATrace)));
    assert!(matches!(Trace::open(b"HOMINGTS and more"), Err(TraceError::NotATrace)));
    let (mut bytes, _) = small();
    bytes[8] = 4;
    let error = Trace::open(&bytes).err();
    assert!(matches!(error, Some(TraceError::Version { found: 4, known: 3 })));
}

/// A disk that is full after some bytes.
struct Full {
    room: usize,
    bytes: Vec<u8>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + bytes.len() > self.room {
            return Err(Error::from(std::io::ErrorKind::StorageFull));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_that_stays() {
    for room in [0, 100, 1000, 3000, 10_000] {
        let mut disk = Full { room, bytes: Vec::new() };
        let error = write_to(&mut disk).unwrap_err();
        assert!(matches!(error, TraceError::Io(_)), "{error}");
        assert!(room < 200 || Trace::open(&disk.bytes).is_ok());
    }
    assert!(write_to(&mut Full { room: 1 << 20, bytes: Vec::new() }).is_ok());
}

fn write_to(disk: &mut Full) -> Result<(), TraceError> {
    let mut writer = TraceWriter::new(disk, &Header::new("test", "1"))?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(5);
    for i in 0..20_000u64 {
        writer.reference(Thread(0), 0, random.gen_range(0..1 << 24), Kind::read(8))?;
        if i % 1000 == 0 {
            writer.flush()?;
        }
    }
    writer.finish(Summary::default())?;
    Ok(())
}

#[test]
fn extreme_addresses_come_back() {
    let addresses = [0, u64::MAX, 1, 1 << 63, (1 << 63) - 1, u64::MAX - 4095, 4095, 4096, u64::MAX, 0];
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    let mut model = Model::default();
    for round in 0..3 {
        for (i, &address) in addresses.iter().cycle().skip(round).take(100).enumerate() {
            let pc = (i % (2 + round)) as u64 * (u64::MAX / 7);
            writer.reference(Thread(9), pc, address, Kind::write(1)).unwrap();
            model.reference(Thread(9), address, Kind::write(1));
        }
        let event = Event::Munmap { address: 0, length: 4096 };
        writer.event(Thread(9), &event).unwrap();
        model.event(Thread(9), event);
    }
    writer.turn(Thread(9), 300).unwrap();
    let bytes = writer.finish(Summary::default()).unwrap().0;
    let trace = Trace::open(&bytes).unwrap();
    let mut collector = Collector::default();
    trace.visit_all(&mut collector).unwrap();
    check(&trace, &model, &collector);
}

/// Every version stays readable: this file is never written anew.
#[test]
fn version_2_is_readable() {
    let trace = Trace::open(include_bytes!("../../tests/fixtures/threads.trace")).unwrap();
    assert!(trace.complete() && trace.damage().is_empty());
    let mut collector = Collector::default();
    let stats = trace.visit_all(&mut collector).unwrap();
    let mut sum = 0u64;
    let mut threads: Vec<_> = collector.threads.iter().collect();
    threads.sort_by_key(|(thread, _)| **thread);
    for (address, kind) in threads.iter().flat_map(|(_, references)| references.iter()) {
        sum = (sum.rotate_left(5) ^ address ^ u64::from(kind.0) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    assert_eq!((stats.references, stats.events, trace.frames().len(), sum), FIXTURE);
}

const FIXTURE: (u64, u64, usize, u64) = (22984, 18, 23, 0x2aab_479e_0c0d_1e1e);

#[test]
fn impossible_claims_of_missing_references_are_ignored() {
    let (bytes, _) = small();
    let trace = Trace::open(&bytes).unwrap();
    let last = blocks(&bytes).into_iter().rfind(|p| references(p) > 0).unwrap();
    for (claim, believed) in [(1 << 60, false), (1 << 30, true)] {
        let mut sink = format::BlockSink::new(Vec::new(), 0, Vec::new()).unwrap();
        sink.put_bytes(&trace.header().encode().unwrap()).unwrap();
        for placed in blocks(&bytes).iter().filter(|p| p.header.kind != BlockKind::Order) {
            let mut header = placed.header;
            if placed.offset == last.offset {
                header.c += claim;
            }
            let (_, stored) = format::stored(&bytes, placed.offset).unwrap();
            sink.put_stored(header, stored).unwrap();
        }
        let claiming = sink.finish().unwrap();
        let trace = Trace::open(&claiming).unwrap();
        assert_eq!(trace.references() > claim, believed);
        let said = trace.damage().iter().any(|d| d.reason.contains("than any recording has"));
        assert_eq!(said, !believed, "{:?}", trace.damage());
        if !believed {
            let mut turns = 0u64;
            crate::merge::merge_trace(&trace, Default::default(), None, |_, references| {
                turns += references;
                Ok::<_, std::io::Error>(())
            })
            .unwrap();
            assert_eq!(turns, trace.references());
        }
    }
}

#[test]
fn a_recovery_leaves_out_names_whose_checksum_is_right_and_that_make_no_sense() {
    let (bytes, _) = small();
    let first = blocks(&bytes)[0].offset as usize;
    let mut sink = format::BlockSink::new(Vec::new(), 0, Vec::new()).unwrap();
    sink.put_bytes(&bytes[..first]).unwrap();
    for placed in blocks(&bytes) {
        let (header, stored) = format::stored(&bytes, placed.offset).unwrap();
        sink.put_stored(header, stored).unwrap();
    }
    // Five names, of which one is there.
    let names = format::BlockHeader { kind: BlockKind::Names, stored: 0, raw: 0, a: 0, b: 5, c: 0, d: 0 };
    sink.put(names, b"\x01a").unwrap();
    let bytes = sink.finish().unwrap();
    let trace = Trace::open(&bytes).unwrap();
    assert_eq!(trace.damage().len(), 1, "{:?}", trace.damage());
    let references = trace.references();
    let options = crate::merge::Options::default();
    let (mended, recovered) = crate::recover::recover(trace, Vec::new(), options, |_| ()).unwrap();
    assert_eq!((recovered.references, recovered.lost), (references, 0));
    assert_eq!(recovered.damaged_tables, 1);
    assert!(Trace::open(&mended).unwrap().whole(), "nothing is left to recover");
}
