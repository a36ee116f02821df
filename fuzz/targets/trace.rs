//! Targets of `homing-trace`: trace files, words of recorders, imports.

use homing_trace::ids::Thread;
use homing_trace::import::{csv as csv_import, lackey as lackey_import, perf as perf_import};
use homing_trace::import::{to_trace, Imported, Options as Import, IMPORTERS};
use homing_trace::info::Info;
use homing_trace::merge::{merge_trace, Options};
use homing_trace::perf_data::{self, Record};
use homing_trace::recover::recover;
use homing_trace::wire::{Cut, Flavour};
use homing_trace::{Header, Ingest, IngestOptions, Place, Trace, TraceWriter, Turn, Visitor};
use std::convert::Infallible;

/// Counts references.
#[derive(Default)]
struct Count(u64);

impl Visitor for Count {
    fn turn(&mut self, turn: Turn<'_>) {
        self.0 += turn.addresses.len() as u64;
    }
}

/// A trace file: opened, counted, visited, merged and recovered. What is recovered is whole.
pub fn trace(data: &[u8]) {
    let Ok(trace) = Trace::open(data) else { return };
    if trace.references() > 1 << 24 {
        return;
    }
    let info = Info::of(&trace, |_| {});
    let mut count = Count::default();
    let visited = trace.visit_all(&mut count);
    if let Ok(stats) = &visited {
        assert_eq!(stats.references, count.0);
    }
    let mut merged = 0;
    let report = merge_trace(&trace, Options::default(), None, |_: Thread, references| {
        merged += references;
        Ok::<_, std::io::Error>(())
    });
    assert_eq!(report.ok().map(|report| report.references), Some(merged));
    let Ok((bytes, recovered)) = recover(trace, Vec::new(), Options::default(), |_| {}) else { return };
    assert!(recovered.references <= info.summary.references.max(info.counts.references));
    let whole = Trace::open(&bytes).expect("a recovered trace opens");
    assert!(whole.complete() && whole.damage().is_empty(), "{recovered:?} {:?}", whole.damage());
    let mut count = Count::default();
    let stats = whole.visit_all(&mut count).expect("a recovered trace has an order");
    assert_eq!((count.0, stats.lost), (recovered.references, 0));
}

/// The words of a recorder, after a byte that chooses the flavour; the trace of them is whole.
pub fn ingest(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else { return };
    let flavour = if first & 1 == 0 { Flavour::Serial } else { Flavour::Parallel };
    let place = if first & 4 == 0 { Place::Inside } else { Place::Before };
    let options = IngestOptions { line_filter: first & 2 != 0, place, ..IngestOptions::default() };
    let words: Vec<u64> =
        rest.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default())).collect();
    let Ok(writer) = TraceWriter::new(Vec::new(), &Header::new("fuzz", "0")) else { return };
    let mut ingest = Ingest::new(writer, flavour, options);
    for (index, segment) in words.chunks(61).enumerate() {
        ingest.segment(0, index as u32, segment).expect("writing to memory works");
    }
    let (bytes, _) = ingest.finish().expect("writing to memory works");
    let trace = Trace::open(&bytes).expect("a written trace opens");
    assert!(trace.damage().is_empty(), "{:?}", trace.damage());
}

/// A CSV file.
pub fn csv(data: &[u8]) {
    for renumber in [false, true] {
        let mut references = 0;
        let report = csv_import::read(data, Import { renumber }, |_: Imported| {
            references += 1;
            Ok::<_, Infallible>(())
        });
        if let Ok(report) = report {
            assert_eq!(report.references, references);
        }
    }
}

/// The output of Valgrind's lackey.
pub fn lackey(data: &[u8]) {
    let mut references = 0;
    let report = lackey_import::read(data, |_: Imported| {
        references += 1;
        Ok::<_, Infallible>(())
    });
    assert_eq!(report.expect("memory can be read").references, references);
}

/// A file of `perf record`. Each sample is of an event that is there, and the lists of CPUs have a bound.
pub fn perf_data(data: &[u8]) {
    let (mut samples, mut events) = (0, 0);
    let contents = perf_data::read(data, |_, record| {
        if let Record::Sample(sample) = record {
            samples += 1;
            events = events.max(sample.event + 1);
        }
    });
    let imported = perf_import::read(data, |_: Imported| Ok::<_, Infallible>(()));
    let Ok(contents) = contents else { return assert!(imported.is_err()) };
    assert_eq!(samples, contents.counts.samples);
    let imported = imported.expect("what can be read can be imported");
    assert_eq!(imported.references + imported.skipped, samples);
    assert!(events <= contents.events.len());
    assert!(contents.facts.nodes.iter().map(|node| node.cpus.len()).sum::<usize>() <= 1 << 16);
    let of_last = |memory: homing_trace::perf_data::Memory| memory.node_of(u64::MAX);
    let _ = contents.facts.memory.and_then(of_last);
}

/// What recorders send over a whole channel: segments of several streams, in any order, with gaps and twice; cuts that
/// look into segments that have not come. After a byte of choices each segment has three bytes before its words:
/// stream, index, length. The trace is whole, and says how much it lacks.
pub fn channel(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else { return };
    let flavour = if first & 1 == 0 { Flavour::Serial } else { Flavour::Parallel };
    let place = if first & 4 == 0 { Place::Inside } else { Place::Before };
    let options = IngestOptions {
        line_filter: first & 2 != 0,
        place,
        skip: u64::from(first >> 3 & 3),
        ..IngestOptions::default()
    };
    let mut segments = Vec::new();
    while let Some((&[stream, index, length], words)) = rest.split_first_chunk() {
        let (words, behind) = words.split_at(words.len().min(8 * usize::from(length)));
        rest = behind;
        // A few streams that are there, and a few that are far from them.
        let stream = if stream < 8 { u32::from(stream) } else { u32::from(stream) << 13 | 0x1fff };
        let words = words.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
        segments.push((stream, u32::from(index), words.collect::<Vec<u64>>()));
    }
    let others = |cut: Cut, from: u32| {
        let segment = segments.get(cut.segment as usize).map_or(&[][..], |(_, _, words)| words);
        segment.get(from as usize..cut.words as usize).map_or(Vec::new(), <[u64]>::to_vec)
    };
    let Ok(writer) = TraceWriter::new(Vec::new(), &Header::new("fuzz", "0")) else { return };
    let mut ingest = Ingest::new(writer, flavour, options);
    let mut patience = 256;
    ingest.give_up(Box::new(move || {
        patience -= i32::from(patience > 0);
        patience == 0
    }));
    for (stream, index, words) in &segments {
        if ingest.expects(*stream, *index) || first & 32 != 0 {
            ingest.segment_among(*stream, *index, words, &others).expect("writing to memory works");
        }
    }
    let (bytes, summary) = ingest.finish().expect("writing to memory works");
    let trace = Trace::open(&bytes).expect("a written trace opens");
    assert!(trace.damage().is_empty(), "{:?}", trace.damage());
    assert_eq!(trace.references(), summary.references);
}

/// A file of any format that can be imported, after a byte that chooses which, through to the trace: that is whole.
pub fn import(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let importer = &IMPORTERS[usize::from(first) % IMPORTERS.len()];
    let mut bytes = Vec::new();
    let options = Import { renumber: first & 128 != 0 };
    let Ok(report) = to_trace(importer, data, options, &mut bytes, "0") else { return };
    let trace = Trace::open(&bytes).expect("a written trace opens");
    assert!(trace.damage().is_empty() && trace.complete(), "{:?}", trace.damage());
    assert_eq!(trace.references(), report.references);
}
