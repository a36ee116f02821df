//! Targets of the other crates: what the kernel, the lab, external policies and users hand in.

use homing_core::ids::Page;
use homing_core::policy::{answer, placement::PlacementFile};
use homing_lab::observer::Observed;
use homing_lab::topology::Topology;
use homing_linux::perf::record::{self, fields};
use homing_live::journal::Journal;
use homing_pipeline::study::{Cell, Grid};

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

/// The plan of a study, and a line of its journal.
pub fn plan(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(grid) = toml::from_str::<Grid>(text) {
        let _ = Grid::default().with(grid);
    }
    if let Ok(cell) = serde_json::from_str::<Cell>(text) {
        assert!(serde_json::to_string(&cell).is_ok());
    }
}
