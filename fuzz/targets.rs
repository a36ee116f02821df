//! What the fuzz targets do with their input: every parser of foreign bytes, and what follows it. None may panic, hang,
//! or take memory without bound, whatever the bytes are.
//!
//! `crates/homing-cli/tests/fuzz_smoke.rs` runs the same functions on the corpus and on random mutations of it.

use homing_core::ids::{Page, Thread};
use homing_core::machine::Machine;
use homing_core::policy::{answer, placement::PlacementFile};
use homing_core::trace::import::{csv as csv_import, lackey as lackey_import, Imported};
use homing_core::trace::info::Info;
use homing_core::trace::merge::{merge_trace, Options};
use homing_core::trace::recover::recover;
use homing_core::trace::wire::Flavour;
use homing_core::trace::{Header, Ingest, IngestOptions, Trace, TraceWriter, Turn, Visitor};
use homing_lab::observer::Observed;
use homing_lab::topology::Topology;
use homing_linux::perf::record::{self, fields};
use homing_live::journal::Journal;
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
    if let Ok(stats) = trace.visit_all(&mut count) {
        assert_eq!(stats.references, count.0);
    }
    let mut merged = 0;
    let report = merge_trace(&trace, Options::default(), |_: Thread, references| {
        merged += references;
        Ok::<_, Infallible>(())
    });
    assert_eq!(report.map(|report| report.references), Ok(merged));
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
    let options = IngestOptions { line_filter: first & 2 != 0, ..IngestOptions::default() };
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
        let report = csv_import::read(data, csv_import::Options { renumber }, |_: Imported| {
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

/// A machine file.
pub fn machine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(machine) = Machine::from_toml(text, "fuzz") {
        let _ = machine.costs(machine.page_size());
    }
}

/// A ring of perf records, after a byte that chooses the fields of samples.
pub fn perf(data: &[u8]) {
    const KNOWN: [u64; 7] = [
        fields::TID,
        fields::TIME,
        fields::ADDR,
        fields::CPU,
        fields::PERIOD,
        fields::WEIGHT,
        fields::DATA_SRC,
    ];
    let Some((&first, mut rest)) = data.split_first() else { return };
    let chosen = KNOWN.iter().enumerate().filter(|(bit, _)| first >> bit & 1 == 1);
    let sample_type = chosen.fold(0, |all, (_, field)| all | field);
    while let Ok(size) = record::size(rest) {
        assert!(size >= 8);
        let decoded = record::decode(rest, sample_type);
        let Some(next) = rest.get(size..) else {
            assert!(decoded.is_err(), "a record that is not all there");
            return;
        };
        rest = next;
    }
}

/// The journal of a live session.
pub fn journal(data: &[u8]) {
    let Ok(journal) = Journal::read(data) else { return };
    assert!(journal.lines.len() <= data.iter().filter(|&&byte| byte == b'\n').count());
}

/// A placement file: its text is read as the same placement.
pub fn placement(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(file) = PlacementFile::parse(text) else { return };
    let again = PlacementFile::parse(&file.text());
    assert_eq!(again.expect("a written placement is read"), file);
}

/// The observer's report of a machine of the lab.
pub fn observer(data: &[u8]) {
    let Some(topology) = Topology::built_in().into_iter().next() else { return };
    if let Ok(observed) = Observed::from_report(data, &topology, true) {
        assert!(observed.intervals.len() <= data.len());
    }
}

/// The answer of a policy in another process.
pub fn answer(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let known = |page: Page| page.0 < 100;
    match answer::parse(text, known) {
        Ok(actions) => assert!(actions.iter().all(|&(page, _)| known(page))),
        Err(message) => assert!(!message.is_empty()),
    }
}
