//! The recording wire, from words to references.

use super::*;
use crate::wire::{self, Cut, Flavour, PAYLOAD};
use homing_wire::{op, word as control};
use rand::{RngCore, SeedableRng};
use rand_xoshiro::SplitMix64;

fn ingest(flavour: Flavour, options: IngestOptions) -> Ingest<Vec<u8>> {
    Ingest::new(TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap(), flavour, options)
}

/// The trace ordered thread after thread.
fn one_after_another(trace: &Trace<'_>) -> Vec<u8> {
    let mut writer = OrderWriter::copy(Vec::new(), trace).unwrap();
    for (thread, references) in trace.threads() {
        writer.turn(thread, references).unwrap();
    }
    writer.finish().unwrap().0
}

/// Finishes, orders thread after thread, and collects.
fn collect(ingest: Ingest<Vec<u8>>) -> (Collector, Summary, Vec<u64>) {
    let (bytes, summary) = ingest.finish().unwrap();
    let trace = Trace::open(&bytes).unwrap();
    let bytes = one_after_another(&trace);
    let trace = Trace::open(&bytes).unwrap();
    let mut collector = Collector::default();
    let stats = trace.visit_all(&mut collector).unwrap();
    assert_eq!((stats.references, stats.lost), (summary.references, 0));
    (collector, summary, trace.frames().to_vec())
}

/// The virtual addresses of a thread.
fn addresses(collector: &Collector, frames: &[u64], thread: u32) -> Vec<u64> {
    let references = &collector.threads[&Thread(thread)];
    references.iter().map(|(a, _)| frames[(a >> 12) as usize] << 12 | a & 4095).collect()
}

/// A read, a write derived from it (+8), an exit, a read, a guarded write.
fn definition() -> Vec<u64> {
    vec![
        control(op::DEFINE, 77),
        4 << 32 | 10,
        0x40_0000,
        1 | 8 << 16,
        2 | 8 << 16 | 1 << 32 | 1 << 34 | 8 << 48,
        4 | 4 << 16 | 1 << 35,
        6 | 4 << 16 | 1 << 32 | 1 << 36,
    ]
}

#[test]
fn a_serial_stream_becomes_references() {
    let mut words = definition();
    words.extend([control(op::NAME, 5 << 24 | 3), u64::from_le_bytes(*b"abc\0\0\0\0\0")]);
    words.extend([control(op::THREAD, 1), control(op::BLOCK, 77), 0x1000, 0x2000, 0x3000]);
    words.extend([control(op::BLOCK, 77), 0x1ff8]); // a side exit; the derived access lies in the next page
    words.extend([control(op::MARK, 3), 5]);
    words.extend([control(op::THREAD, 0), control(op::BLOCK, 77), 0x1008, 0x2004, 0]);
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    // The mark's operand comes with the next segment.
    let split = words.iter().position(|&w| w == control(op::MARK, 3)).unwrap() + 1;
    ingest.segment(0, 0, &words[..split]).unwrap();
    ingest.segment(0, 1, &words[split..]).unwrap();
    let (collector, summary, frames) = collect(ingest);
    assert_eq!(addresses(&collector, &frames, 1), [0x1000, 0x1008, 0x2000, 0x3000, 0x1ff8, 0x2000]);
    assert_eq!(addresses(&collector, &frames, 0), [0x1008, 0x1010, 0x2004]);
    assert_eq!(collector.events[&Thread(1)], [(6, Event::Mark { number: 3, name: NameId(1) })]);
    assert_eq!((summary.malformed, summary.reads, summary.writes), (0, 5, 4));
}

#[test]
fn a_number_may_become_another_code_blocks() {
    let one_read = [control(op::DEFINE, 77), 1 << 32 | 3, 0x50_0000, 1 | 8 << 16];
    let mut words = definition();
    words.extend([control(op::BLOCK, 77), 0x1000, 0x2000, 0x3000]);
    words.extend(one_read);
    words.extend([control(op::BLOCK, 77), 0x4000, control(op::BLOCK, 77), 0x4008]);
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.segment(0, 0, &words).unwrap();
    let (collector, summary, frames) = collect(ingest);
    assert_eq!(addresses(&collector, &frames, 0), [0x1000, 0x1008, 0x2000, 0x3000, 0x4000, 0x4008]);
    assert_eq!((summary.malformed, summary.reads, summary.writes), (0, 4, 2));
}

#[test]
fn a_parallel_stream_becomes_references() {
    let word = |address: u64, pc: u64, log2: u64, write: u64| address | pc << 48 | log2 << 59 | write << 62;
    let mut ingest = ingest(Flavour::Parallel, IngestOptions::default());
    let mut expected = Vec::new();
    for index in 0..3 {
        let mut words = Vec::new();
        for i in 0..1000u64 {
            let at = 0x7fff_0000_0000 + (index * 1000 + i) * 8;
            words.extend([word(at, 5, 3, 0), word(at, 9, 3, 1), word(0x6000_0000_0000, 2, 2, 0)]);
            expected.extend([at, at, 0x6000_0000_0000]);
        }
        words.push(control(op::ADVANCE, 50));
        ingest.segment(3, index as u32, &words).unwrap();
    }
    let (collector, summary, frames) = collect(ingest);
    assert_eq!(addresses(&collector, &frames, 3), expected);
    assert_eq!((summary.reads, summary.writes, summary.bytes_accessed), (6000, 3000, 9000 * 8 - 3000 * 4));
}

/// A reference word of the parallel flavour.
fn reads(address: u64) -> u64 {
    address | 5 << 48 | 3 << 59
}

/// The numbers of the frames that a thread refers to, in order.
fn frames_of(collector: &Collector, thread: u32) -> Vec<u64> {
    collector.threads[&Thread(thread)].iter().map(|(address, _)| address >> 12).collect()
}

#[test]
fn what_others_wrote_before_a_mapping_went_away_means_the_old_frames() {
    let page = 0x7000_0000_0000;
    let unmap = [control(op::MUNMAP, 0), page, 4096];
    // Thread 2 has taken room for 4 words of its segment 5 and written 2 when thread 1 removes the page.
    let segment = [reads(page), reads(page + 8), reads(page + 16), reads(page + 24), reads(page + 32)];
    let written = |cut: Cut, from: u32| -> Vec<u64> {
        assert_eq!((cut.stream, cut.index, cut.segment, cut.words), (2, 0, 5, 4));
        [segment[0], segment[1], 0, 0][from as usize..].to_vec()
    };
    let cut = [control(op::CUT, 2 << 32 | 4), 5 << 32];
    let first = [&[reads(page)], &cut[..], &cut[..], &unmap[..]].concat();
    let mut parallel = ingest(Flavour::Parallel, IngestOptions::default());
    parallel.segment_among(1, 0, &first, &written).unwrap();
    assert!(parallel.expects(2, 0) && !parallel.expects(1, 0));
    parallel.segment_among(1, 1, &[reads(page)], &written).unwrap();
    parallel.segment_among(2, 0, &segment, &written).unwrap();
    // What has arrived in whole is before the cut, too.
    let late = [&cut[..], &unmap[..], &[reads(page)]].concat();
    parallel.segment_among(1, 2, &late, &written).unwrap();
    let (collector, summary, frames) = collect(parallel);
    assert_eq!((frames_of(&collector, 1), frames_of(&collector, 2)), (vec![0, 1, 2], vec![0, 0, 1, 1, 1]));
    assert_eq!((summary.references, summary.malformed), (8, 0));
    assert_eq!(frames, [page >> 12; 3]);
}

#[test]
fn room_that_was_never_written_is_no_reference() {
    let mut words = vec![0; 40];
    words.extend([reads(0x1000), 0, 0, reads(0x1008), control(op::ADVANCE, 3), 0]);
    words.extend((0..100).map(|i| reads(0x2000 + i)).chain([0]));
    let mut ingest = ingest(Flavour::Parallel, IngestOptions::default());
    ingest.segment(0, 0, &words).unwrap();
    let (collector, summary, frames) = collect(ingest);
    let expected: Vec<u64> = [0x1000, 0x1008].into_iter().chain(0x2000..0x2064).collect();
    assert_eq!(addresses(&collector, &frames, 0), expected);
    assert_eq!((summary.references, summary.malformed), (102, 0));
}

#[test]
fn an_event_that_is_being_written_is_taken_later() {
    let words = [reads(0x1000), control(op::MUNMAP, 0), 0x1000, 4096, reads(0x1000)];
    for there in 0..=words.len() {
        let so_far = |cut: Cut, from: u32| words[from as usize..cut.words as usize].to_vec();
        let mut ingest = ingest(Flavour::Parallel, IngestOptions::default());
        let cut = [control(op::CUT, 2 << 32 | there as u64), 0, reads(0x9000)];
        ingest.segment_among(1, 0, &cut, &so_far).unwrap();
        ingest.segment_among(2, 0, &words, &so_far).unwrap();
        let (collector, summary, frames) = collect(ingest);
        assert_eq!(addresses(&collector, &frames, 2), [0x1000, 0x1000]);
        assert_eq!((collector.events[&Thread(2)].len(), summary.malformed, frames.len()), (1, 0, 3));
    }
}

#[test]
fn a_missing_segment_is_counted_and_marked() {
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.segment(0, 0, &definition()).unwrap();
    ingest.segment(0, 1, &[control(op::BLOCK, 77), 0x1000, 0x2000, 0x3000, control(op::MARK, 1)]).unwrap();
    ingest.segment(0, 4, &[control(op::BLOCK, 77), 0x1000, 0x2000, 0x3000]).unwrap();
    ingest.segment(0, 2, &[1, 2, 3]).unwrap();
    let (collector, summary, _) = collect(ingest);
    assert_eq!((summary.references, summary.lost_segments, summary.malformed), (8, 2, 1 + 3));
    assert!(matches!(collector.events[&Thread(0)][..], [(4, Event::Lost { references: 0, .. })]));
}

#[test]
fn atomics_keep_their_recorded_order() {
    let mut words = vec![control(op::DEFINE, 9), 1 << 32 | 2, 0x40_0000, 8 << 16 | 1 << 32 | 1 << 33];
    let turns = [(0, 5), (1, 3), (0, 2), (1, 1), (0, 4)];
    for (thread, executions) in turns {
        words.push(control(op::THREAD, thread));
        (0..executions).for_each(|_| words.extend([control(op::BLOCK, 9), 0x1000]));
    }
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.segment(0, 0, &words).unwrap();
    let (bytes, _) = ingest.finish().unwrap();
    let mut merged = Vec::new();
    let options = crate::merge::Options { quantum: 4, seed: 1, ..Default::default() };
    let report = crate::merge::merge_trace(&Trace::open(&bytes).unwrap(), options, None, |thread, count| {
        merged.push((u64::from(thread.0), count));
        Ok::<_, std::io::Error>(())
    });
    assert_eq!((merged, report.unwrap().broken_acquires), (turns.to_vec(), 0));
}

#[test]
fn filter_skip_and_limit_account_for_every_reference() {
    let mut words = definition();
    for i in 0..500 {
        words.extend([control(op::BLOCK, 77), 0x10000 + i * 8, 0x20000 + i * 64, 0x30000]);
    }
    for line_filter in [false, true] {
        for (skip, limit) in [(0, None), (100, None), (0, Some(700)), (333, Some(50)), (5000, None)] {
            let mut ingest = ingest(
                Flavour::Serial,
                IngestOptions { line_filter, skip, limit, ..IngestOptions::default() },
            );
            ingest.segment(0, 0, &words).unwrap();
            let reached = ingest.is_complete();
            let (_, s, _) = collect(ingest);
            assert_eq!(s.references + s.filtered + s.skipped + s.beyond_limit, 2000);
            assert_eq!(s.skipped + s.first_touches, skip.min(2000));
            assert_eq!(s.first_touches > 0, skip > 0);
            let counted = s.references - s.first_touches;
            assert_eq!((reached, s.beyond_limit > 0), (limit == Some(counted), reached));
            assert!(reached || limit.is_none() || line_filter);
            if line_filter && (skip, limit) == (0, None) {
                let mut filter = crate::filter::LineFilter::default();
                let passed = (0..500)
                    .flat_map(|i| {
                        let at = 0x10000 + i * 8;
                        [(at, false), (at + 8, true), (0x20000 + i * 64, false), (0x30000, true)]
                    })
                    .filter(|&(address, write)| filter.passes(address, write));
                assert_eq!(s.references, passed.count() as u64);
                assert!(s.references < 700);
            } else if !line_filter {
                assert_eq!(s.filtered, 0);
            }
        }
    }
}

#[test]
fn outside_of_the_region_only_the_first_reference_to_each_page_stays() {
    let region = |begins: u64| control(op::REGION, begins);
    let mut words = definition();
    let run = |words: &mut Vec<u64>, from: u64| {
        (0..10)
            .for_each(|i| words.extend([control(op::BLOCK, 77), from + i * 16, from + 0x1000 + i * 16, 0]));
    };
    // 10 executions of 3 references to two pages each, of which one is then mapped anew.
    run(&mut words, 0x10000);
    words.extend([control(op::MUNMAP, 0), 0x10000, 0x1000]);
    run(&mut words, 0x10000);
    words.push(region(1));
    run(&mut words, 0x10000);
    run(&mut words, 0x20000);
    words.push(region(0));
    run(&mut words, 0x30000);
    words.push(region(1));
    run(&mut words, 0x30000);
    for line_filter in [false, true] {
        let options = IngestOptions { place: Place::Before, line_filter, ..IngestOptions::default() };
        let mut ingest = ingest(Flavour::Serial, options);
        assert!(!ingest.is_complete());
        ingest.segment(0, 0, &words).unwrap();
        assert_eq!((ingest.place(), ingest.is_complete()), (Place::After, true));
        let (collector, summary, frames) = collect(ingest);
        assert_eq!((summary.first_touches, summary.outside), (3, 120 - 3));
        assert_eq!(summary.references + summary.filtered, 3 + 60);
        let kept = addresses(&collector, &frames, 0);
        assert_eq!(&kept[..3], [0x10000, 0x11000, 0x10000]);
        assert!(kept.iter().all(|address| *address < 0x30000));
    }
    // Without a region to wait for, its end alone counts.
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.segment(0, 0, &words).unwrap();
    let (_, summary, _) = collect(ingest);
    assert_eq!((summary.references, summary.first_touches, summary.outside), (120, 0, 60));
}

#[test]
fn of_skipped_references_the_first_to_each_page_stays() {
    // 10 executions of 3 references to two pages each, of which one is then mapped anew.
    let mut words = definition();
    let run = |words: &mut Vec<u64>| {
        (0..10).for_each(|i| words.extend([control(op::BLOCK, 77), 0x10000 + i * 16, 0x11000 + i * 16, 0]));
    };
    run(&mut words);
    words.extend([control(op::MUNMAP, 0), 0x10000, 0x1000]);
    run(&mut words);
    run(&mut words);
    let waited = IngestOptions { skip: 60, ..IngestOptions::default() };
    let behind_a_region = {
        let mut behind = definition();
        run(&mut behind);
        behind.extend([control(op::MUNMAP, 0), 0x10000, 0x1000, control(op::REGION, 1)]);
        run(&mut behind);
        run(&mut behind);
        (behind, IngestOptions { skip: 30, place: Place::Before, ..IngestOptions::default() })
    };
    for (words, options) in [(words, waited), behind_a_region] {
        let mut ingest = ingest(Flavour::Serial, options);
        ingest.segment(0, 0, &words).unwrap();
        let (collector, summary, frames) = collect(ingest);
        assert_eq!((summary.first_touches, summary.skipped + summary.outside), (3, 60 - 3));
        assert_eq!(summary.references, 3 + 30);
        assert_eq!(addresses(&collector, &frames, 0)[..4], [0x10000, 0x11000, 0x10000, 0x10000]);
    }
}

#[test]
fn each_threads_first_reference_to_a_page_stays_where_their_order_is_not_known_yet() {
    // The second thread's segment comes first, as one does that is full before the first thread's.
    let options = IngestOptions { skip: 20, ..IngestOptions::default() };
    let mut ingest = ingest(Flavour::Parallel, options);
    let words = [reads(0x5000); 10];
    ingest.segment(1, 0, &words).unwrap();
    ingest.segment(0, 0, &words).unwrap();
    let (collector, summary, frames) = collect(ingest);
    assert_eq!((summary.references, summary.first_touches, summary.skipped), (2, 2, 18));
    for thread in [0, 1] {
        assert_eq!(addresses(&collector, &frames, thread), [0x5000]);
    }
}

#[test]
fn the_program_that_was_executed_is_named_by_the_first_word_of_a_stream() {
    let text = |bytes: &[u8]| -> Vec<u64> {
        let words = bytes.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        std::iter::once(control(op::EXEC, bytes.len() as u64)).chain(words).collect()
    };
    let named = |bytes: &[u8]| wire::executed(&text(bytes)).unwrap();
    assert_eq!(named(b"./app\0-n\0\0"), ["./app", "-n", ""]);
    assert_eq!(named(b"./app\0cut o"), ["./app", "cut o"]);
    assert_eq!(wire::executed(&[control(op::MUNMAP, 0), 0, 0]), None);
    assert_eq!((wire::executed(&[]), wire::executed(&[5])), (None, None));
    // To whoever reads the references it is nothing.
    let mut words = text(b"./app\0");
    words.extend(definition());
    words.extend([control(op::BLOCK, 77), 0x1000]);
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.segment(0, 0, &words).unwrap();
    let (_, summary, _) = collect(ingest);
    assert_eq!((summary.references, summary.malformed), (2, 0));
}

fn any_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0u64..1 << 20,
        (0u8..24, 0u64..4).prop_map(|(operation, payload)| control(operation, payload)),
        (0u8..128, any::<u64>()).prop_map(|(operation, payload)| control(operation, payload & PAYLOAD)),
        Just(control(op::BLOCK, 1)),
        (0u64..6, 0u64..9).prop_map(|(accesses, instructions)| accesses << 32 | instructions),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_words_panic(
        segments in proptest::collection::vec(proptest::collection::vec(any_word(), 0..200), 1..4),
        parallel: bool,
        line_filter: bool,
        from: bool,
    ) {
        let flavour = if parallel { Flavour::Parallel } else { Flavour::Serial };
        let place = if from { Place::Before } else { Place::Inside };
        let mut ingest = ingest(flavour, IngestOptions { line_filter, place, ..IngestOptions::default() });
        for (index, words) in segments.iter().enumerate() {
            ingest.segment(0, index as u32, words).unwrap();
        }
        collect(ingest);
    }
}

#[test]
fn words_that_end_before_an_exit_are_damage() {
    // Found by `no_words_panic`: a code block whose first exit is two words on, and a segment that ends before.
    let segments: [&[u64]; 2] =
        [&[9367487224930631681, 8589934592, 0, 0, 9233255856114499584], &[9295429630892703745]];
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    for (index, words) in segments.into_iter().enumerate() {
        ingest.segment(0, index as u32, words).unwrap();
    }
    collect(ingest);
}

/// The references of a thread, and its virtual time.
type Left = (Vec<(u64, Kind)>, u64);

/// What is left of a stream, by thread; and how many references were dropped.
fn left_of(words: &[u64], flavour: Flavour, options: IngestOptions) -> (Vec<Left>, u64) {
    let mut ingest = ingest(flavour, options);
    ingest.segment(0, 0, words).unwrap();
    let (bytes, summary) = ingest.finish().unwrap();
    let trace = Trace::open(&bytes).unwrap();
    let times = trace.threads().map(|(thread, _)| {
        let mut steps = trace.thread_steps(thread);
        steps.by_ref().for_each(drop);
        steps.time()
    });
    let times: Vec<u64> = times.collect();
    let bytes = one_after_another(&trace);
    let trace = Trace::open(&bytes).unwrap();
    let mut collector = Collector::default();
    trace.visit_all(&mut collector).unwrap();
    let frames = trace.frames();
    let threads = trace.threads().zip(times).map(|((thread, _), time)| {
        let own = collector.threads.get(&thread).into_iter().flatten();
        (own.map(|&(a, kind)| (frames[(a >> 12) as usize] << 12 | a & 4095, kind)).collect(), time)
    });
    (threads.collect(), summary.filtered)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Executions are filtered a batch at a time, or reference by reference where something else is dropped, too.
    #[test]
    fn both_ways_to_filter_leave_the_same(
        executions in proptest::collection::vec((0u64..2, 0u64..64, 0u64..64, 0u64..64, 0usize..8), 1..400),
        parallel: bool,
    ) {
        let flavour = if parallel { Flavour::Parallel } else { Flavour::Serial };
        let mut words = if parallel { Vec::new() } else { definition() };
        for (thread, first, second, third, form) in executions {
            let [first, second, third] = [0x1ff8 + first * 24, 0x20000 + second * 512, 0x9000 + third * 64];
            if parallel {
                words.extend([first | 5 << 48, second | 9 << 48 | 1 << 62 | 3 << 59, third | 2 << 48]);
                continue;
            }
            words.extend([control(op::THREAD, thread), control(op::BLOCK, 77), first]);
            match form {
                0 => {} // a side exit
                1 => words.extend([second, 0]),
                _ => words.extend([second, third]),
            }
        }
        let filter = IngestOptions { line_filter: true, ..IngestOptions::default() };
        let batches = left_of(&words, flavour, filter);
        let singly = left_of(&words, flavour, IngestOptions { limit: Some(u64::MAX), ..filter });
        prop_assert_eq!(batches, singly);
    }
}

#[test]
fn names_and_call_sites_are_reworded() {
    let mut words = vec![control(op::NAME, 1 << 24 | 3), u64::from_le_bytes(*b"abc\0\0\0\0\0")];
    words.extend([control(op::SITE, 2 << 24 | 3), u64::from_le_bytes(*b"abc\0\0\0\0\0")]);
    words.extend([control(op::ALLOC, 0), 0x1000, 8, 2]);
    let mut ingest = ingest(Flavour::Serial, IngestOptions::default());
    ingest.reword(Box::new(|kind, text| (kind == NameKind::Site).then(|| format!("{text} (a.c:1)"))));
    ingest.segment(0, 0, &words).unwrap();
    let names: Vec<String> = ingest.writer().names().iter().map(|(_, name)| name.to_owned()).collect();
    assert_eq!(names, ["abc", "abc (a.c:1)"]);
    let bytes = ingest.finish().unwrap().0;
    let trace = Trace::open(&bytes).unwrap();
    let sites: Vec<&str> = trace
        .thread_events(Thread(0))
        .filter_map(
            |event| if let Event::Alloc { site, .. } = event { Some(trace.names().get(site)) } else { None },
        )
        .collect();
    assert_eq!(sites, ["abc (a.c:1)"]);
}

/// A block of a read with a step, a write derived from it (+8), and a read with a word in each execution.
fn loop_definition() -> Vec<u64> {
    let derived = 1 << 34 | 8 << 48;
    vec![
        control(op::DEFINE, 5),
        3 << 32 | 4,
        0,
        8 << 16 | 1 << 37,
        1 | 8 << 16 | 1 << 32 | derived,
        2 | 4 << 16,
    ]
}

#[test]
fn loops_of_executions_become_references_also_where_others_cut_them_off() {
    let mut first = loop_definition();
    first.extend([control(op::BLOCK, 5), 0x5000, 0x6000]);
    // Of another thread: a loop that is whole, a reference of its own, and a loop that it is at.
    let second = vec![
        control(op::LOOP, 5),
        8 * 7,
        0x1000,
        16,
        0x9000,
        0x9100,
        0x9200,
        reads(0x7000),
        control(op::LOOP, 5),
        0,
        0x2000,
        0,
        0x9300,
    ];
    for options in [IngestOptions::default(), IngestOptions { limit: Some(100), ..IngestOptions::default() }]
    {
        let mut parallel = ingest(Flavour::Parallel, options);
        parallel.segment(0, 0, &first).unwrap();
        parallel.segment(1, 0, &second).unwrap();
        let (collector, summary, frames) = collect(parallel);
        let expected = [0x1000, 0x1008, 0x9000, 0x1010, 0x1018, 0x9100, 0x1020, 0x1028, 0x9200];
        let expected = [&expected[..], &[0x7000, 0x2000, 0x2008, 0x9300]].concat();
        assert_eq!(addresses(&collector, &frames, 1), expected);
        assert_eq!(addresses(&collector, &frames, 0), [0x5000, 0x5008, 0x6000]);
        assert_eq!((summary.references, summary.writes, summary.malformed), (16, 5, 0));
    }
}

#[test]
fn loops_that_make_no_sense_are_counted() {
    for words in [
        vec![control(op::LOOP, 99), 3],
        [&loop_definition()[..], &[control(op::LOOP, 5), 8 * 9, 0x1000, 16, 0x9000]].concat(),
        [&loop_definition()[..], &[control(op::LOOP, 5), 8]].concat(),
    ] {
        let mut parallel = ingest(Flavour::Parallel, IngestOptions::default());
        parallel.segment(0, 0, &words).unwrap();
        let (_, summary, _) = collect(parallel);
        assert_eq!(summary.references, 0);
        assert!(summary.malformed > 0);
    }
}

/// The trace of a stream of the parallel flavour.
fn trace_of(words: &[u64]) -> Vec<u8> {
    let mut ingest = ingest(Flavour::Parallel, IngestOptions::default());
    ingest.segment(0, 0, words).unwrap();
    ingest.finish().unwrap().0
}

/// A loop of block 5: how many executions, where the word with a step begins, its step, and where the others lie: 0,
/// one page; 1, any page; 2, one after the other.
fn any_loop() -> impl Strategy<Value = (u64, u64, u64, u8)> {
    let step = prop_oneof![Just(16u64), Just(8), Just(0), Just(4096), Just((-8i64) as u64), Just(24)];
    (0u64..700, 0u64..1 << 16, step, 0u8..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Loops that are taken at once leave the same trace, byte for byte, as their executions one by one.
    #[test]
    fn loops_are_what_their_executions_are(loops in proptest::collection::vec(any_loop(), 1..40), seed: u64) {
        let (mut as_loops, mut one_by_one) = (loop_definition(), loop_definition());
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut start = 0x10_0000;
        for (count, jump, step, others) in loops {
            // Half of the loops go on where the one before ended.
            start = if jump % 2 == 0 { start } else { 0x10_0000 + jump * 8 };
            as_loops.extend([control(op::LOOP, 5), 8 * (4 + count), start, step]);
            for i in 0..count {
                let other = 0x800_0000 + match others {
                    0 => random.next_u64() % 512 * 8,
                    1 => random.next_u64() % (1 << 20) * 8,
                    _ => i * 8,
                };
                as_loops.push(other);
                one_by_one.extend([control(op::BLOCK, 5), start, other]);
                start = start.wrapping_add(step);
            }
        }
        prop_assert!(trace_of(&as_loops) == trace_of(&one_by_one));
    }
}

#[test]
fn long_loops_fill_blocks_as_their_executions_do() {
    let (mut as_loops, mut one_by_one) = (loop_definition(), loop_definition());
    let mut random = SplitMix64::seed_from_u64(7);
    for round in 0..30u64 {
        let (count, start) = (40_000 + round, 0x10_0000 + round * 4);
        as_loops.extend([control(op::LOOP, 5), 8 * (4 + count), start, 16]);
        for i in 0..count {
            let other = 0x800_0000 + random.next_u64() % (1 << 24) * 8;
            as_loops.push(other);
            one_by_one.extend([control(op::BLOCK, 5), start + 16 * i, other]);
        }
    }
    assert!(trace_of(&as_loops) == trace_of(&one_by_one));
}

#[test]
fn loops_with_several_words_of_their_own_are_what_their_executions_are() {
    // Two reads with a word in each execution, and a write with a step between them.
    let definition =
        [control(op::DEFINE, 6), 3 << 32 | 4, 0, 8 << 16, 1 | 8 << 16 | 1 << 32 | 1 << 37, 2 | 4 << 16];
    let (mut as_loops, mut one_by_one) = (definition.to_vec(), definition.to_vec());
    let mut random = SplitMix64::seed_from_u64(8);
    for round in 0..300u64 {
        let (count, start) = (random.next_u64() % 700, 0x10_0000 + round * 4096);
        as_loops.extend([control(op::LOOP, 6), 8 * (4 + 2 * count), start, 8]);
        for i in 0..count {
            let [one, other] = [0x800_0000, 0x900_0000].map(|base| base + random.next_u64() % (1 << 18) * 8);
            as_loops.extend([one, other]);
            one_by_one.extend([control(op::BLOCK, 6), one, start + 8 * i, other]);
        }
    }
    assert!(trace_of(&as_loops) == trace_of(&one_by_one));
}

#[test]
fn of_long_loops_nothing_is_lost_where_references_are_looked_at_one_by_one() {
    let mut words = loop_definition();
    let count = 200_000;
    words.extend([control(op::LOOP, 5), 8 * (4 + count), 0x10_0000, 16]);
    words.extend((0..count).map(|i| 0x800_0000 + i * 8));
    for limit in [None, Some(u64::MAX)] {
        let mut ingest = ingest(Flavour::Parallel, IngestOptions { limit, ..IngestOptions::default() });
        ingest.segment(0, 0, &words).unwrap();
        assert_eq!(ingest.finish().unwrap().1.references, 3 * count);
    }
}
