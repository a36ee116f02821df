//! Numbers from outside: each has a limit, and memory goes by what there is, not by how it is numbered.

use super::*;
use crate::format::{BlockHeader, BlockKind, BlockSink};
use crate::names::MAX_NAME_GAP;
use crate::perturb::{GapParameters, Gaps, Perturb};
use crate::wire::{Flavour, MAX_LOOP};
use homing_wire::{bit, op, word as control};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

fn ingest(flavour: Flavour) -> Ingest<Vec<u8>> {
    let writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    Ingest::new(writer, flavour, IngestOptions::default())
}

/// A code block of one read whose address has a step.
fn stepping(number: u64) -> [u64; 4] {
    [control(op::DEFINE, number), 1 << 32 | 1, 0x40_1000, 8 << bit::ACCESS_SIZE | 1 << bit::ACCESS_STEPS]
}

fn loop_of(count: u64, first: u64, step: u64) -> [u64; 4] {
    [control(op::LOOP, 1), count, first, step]
}

/// Counts of a stream with these words behind the definition.
fn summary(words: &[u64]) -> Summary {
    let mut ingest = ingest(Flavour::Parallel);
    ingest.segment(0, 0, &[&stepping(1)[..], words].concat()).unwrap();
    ingest.finish().unwrap().1
}

#[test]
fn a_loop_that_no_program_has_executed_is_left_out() {
    let after = loop_of(5, 0x1000, 8);
    for wild in [
        loop_of(1 << 50, 0x1000, 1 << 61),
        loop_of(MAX_LOOP + 1, 0x1000, 0),
        loop_of(u64::MAX, 0x1000, 0),
        loop_of(3, 0x1000, (-0x1000i64) as u64),
        loop_of(2, 1 << 63, 0),
    ] {
        let summary = summary(&[wild, after].concat());
        assert_eq!((summary.references, summary.malformed), (5, 4), "{wild:x?}");
    }
    assert_eq!(summary(&loop_of(2, 0x1000, (-0x1000i64) as u64)).references, 2);
}

#[test]
fn a_loop_can_be_ended_and_what_is_left_is_counted() {
    let asked = Arc::new(AtomicU64::new(0));
    let asks = Arc::clone(&asked);
    let mut ingest = ingest(Flavour::Parallel);
    ingest.give_up(Box::new(move || asks.fetch_add(1, Ordering::Relaxed) >= 3));
    ingest.segment(0, 0, &stepping(1)).unwrap();
    ingest.segment(0, 1, &[loop_of(MAX_LOOP, 0x1000, 0), loop_of(7, 0x1000, 8)].concat()).unwrap();
    let (_, summary) = ingest.finish().unwrap();
    assert!(summary.references > 0 && summary.references < 1 << 30);
    assert_eq!(summary.references + summary.lost, MAX_LOOP + 7);
    assert!(asked.load(Ordering::Relaxed) >= 4);
}

/// Loops that fit into a references block are taken at once; many of them are as long as one.
#[test]
fn many_loops_can_be_ended_as_one() {
    let mut ingest = ingest(Flavour::Parallel);
    let mut asks = 0;
    ingest.give_up(Box::new(move || {
        asks += 1;
        asks > 4
    }));
    ingest.segment(0, 0, &stepping(1)).unwrap();
    let (each, pairs) = ((1 << 20) - 2, 1000);
    let pair = [&[control(op::BLOCK, 1), 0x1000][..], &loop_of(each, 0x1000, 8)].concat();
    ingest.segment(0, 1, &pair.repeat(pairs)).unwrap();
    let (_, summary) = ingest.finish().unwrap();
    assert!(summary.references < 10 << 20, "{}", summary.references);
    assert_eq!(summary.references + summary.lost, pairs as u64 * (each + 1));
}

#[test]
fn streams_and_code_blocks_of_any_number_cost_no_more_than_others() {
    let mut ingest = ingest(Flavour::Parallel);
    for stream in [3_000_000_000, u32::MAX, 1 << 20] {
        ingest.segment(stream, 0, &[0x1000 | 3 << 59]).unwrap();
    }
    let last = (1 << 22) - 1;
    ingest
        .segment((1 << 20) - 1, 0, &[&stepping(last)[..], &[control(op::BLOCK, last), 0x1000]].concat())
        .unwrap();
    ingest.segment(0, u32::MAX, &[0x1000 | 3 << 59]).unwrap();
    let (_, summary) = ingest.finish().unwrap();
    assert_eq!((summary.malformed, summary.references, summary.threads), (3, 2, 2));
}

#[test]
fn threads_of_any_number_are_written_read_and_disturbed() {
    let numbers = [0, u32::MAX, 1 << 31, u32::MAX - 1];
    let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
    for i in 0..40u64 {
        let thread = Thread(numbers[i as usize % 4]);
        writer.reference(thread, 0, 0x1000 * i, Kind::new(8, false, false)).unwrap();
        writer.turn(thread, 1).unwrap();
        // Each thread's block ends here.
        writer.event(Thread(0), &Event::Munmap { address: 0, length: 0x1000 * i }).unwrap();
    }
    let (bytes, summary) = writer.finish(Summary::default()).unwrap();
    assert_eq!((summary.threads, summary.references), (4, 40));
    let trace = Trace::open(&bytes).unwrap();
    assert!(trace.threads().all(|(thread, references)| numbers.contains(&thread.0) && references == 10));
    let gaps = Gaps::new(GapParameters { every: 2, length: 3, drain: (2, 3) }, trace.threads(), 1);
    let mut out = 0;
    let mut perturb = Perturb::new(Some(gaps), None, |_, count| {
        out += count;
        Ok::<_, TraceError>(())
    });
    let turns = trace.order_turns(0).unwrap();
    turns.into_iter().try_for_each(|(thread, count)| perturb.turn(thread, count)).unwrap();
    perturb.finish().unwrap();
    assert_eq!(out, 40);
}

/// Small blocks must not say that much came before them, each a little more.
#[test]
fn what_a_file_leaves_out_is_bounded_for_all_of_its_blocks() {
    let mut sink = BlockSink::new(Vec::new(), 0, Vec::new()).unwrap();
    sink.put_bytes(&Header::new("test", "1").encode().unwrap()).unwrap();
    let table = |kind, a| BlockHeader { kind, stored: 0, raw: 0, a, b: 1, c: 0, d: 0 };
    for block in 1..=9 {
        sink.put(table(BlockKind::Names, block * (MAX_NAME_GAP / 4)), &[1, b'x']).unwrap();
    }
    let bytes = sink.finish().unwrap();
    let trace = Trace::open(&bytes).unwrap();
    assert_eq!(trace.names().len(), MAX_NAME_GAP as usize + 1);
    assert_eq!(trace.damage().len(), 5, "{:?}", trace.damage());
}
