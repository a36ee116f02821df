//! Files of perf: those that perf made on a machine without a PMU (`tests/perf_data/real`), and those that were built
//! after the format's description (`tests/perf_data`), of machines that have one.

#[path = "perf_data/build.rs"]
mod build;
#[path = "perf_data/machines.rs"]
mod machines;

use homing_trace::perf_data::{read, Contents, PerfDataError, Record, Traced};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perf_data")
}

fn all(bytes: &[u8]) -> (Contents, Vec<(Option<u64>, Record)>) {
    let mut records = Vec::new();
    let contents = read(bytes, |time, record| records.push((time, record))).unwrap();
    (contents, records)
}

/// The built files are committed, since tests of other crates read them.
#[test]
fn committed_files_are_those_that_are_built() {
    let built = [
        ("pebs", machines::pebs()),
        ("ibs", machines::ibs()),
        ("spe", machines::spe()),
        ("spe-raw", machines::spe_raw()),
    ];
    for (name, bytes) in built {
        let path = folder().join(name).with_extension("data");
        if std::env::var_os("HOMING_UPDATE").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: HOMING_UPDATE=1 writes it anew");
    }
}

/// perf's own words for the samples of a file that it made: `PID/TID [CPU] SECONDS.NANOS: EVENT: ADDRESS`.
fn expected(line: &str) -> (i32, i32, u32, u64, u64) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (pid, tid) = words[0].split_once('/').unwrap();
    let cpu = words[1].trim_matches(['[', ']']).parse().unwrap();
    let nanos = words[2].trim_end_matches(':').replace('.', "").parse().unwrap();
    let address = u64::from_str_radix(words.last().unwrap(), 16).unwrap();
    (pid.parse().unwrap(), tid.parse().unwrap(), cpu, nanos, address)
}

#[test]
fn files_that_perf_made_are_read_as_perf_reads_them() {
    for name in ["faults", "packed", "piped"] {
        let path = folder().join("real").join(name);
        let (contents, records) = all(&std::fs::read(path.with_extension("data")).unwrap());
        let mut found: Vec<_> = records
            .iter()
            .filter_map(|(time, record)| match record {
                Record::Sample(s) => Some((s.pid, s.tid, s.cpu?, (*time)?, s.address?)),
                _ => None,
            })
            .collect();
        found.sort_by_key(|sample| sample.3);
        let text = std::fs::read_to_string(path.with_extension("txt")).unwrap();
        let lines: Vec<_> = text.lines().map(expected).collect();
        assert_eq!(found, lines, "{name}");
        assert!(!contents.counts.cut && contents.counts.malformed == 0, "{name}: {:?}", contents.counts);
        assert_eq!(contents.facts.host.as_deref(), Some("example"), "{name}");
        assert_eq!(contents.facts.nodes[0].cpus, [0, 1], "{name}");
        assert!(contents.events[0].name.starts_with("page-faults"), "{name}: {:?}", contents.events);
        let maps = |wanted: &str| {
            records.iter().any(|(_, record)| matches!(record, Record::Mapped(m) if m.name == wanted))
        };
        assert!(maps("//anon") && maps("[stack]") && records.len() > found.len(), "{name}");
    }
}

#[test]
fn built_files_hold_what_was_built() {
    let (contents, records) = all(&machines::pebs());
    assert_eq!((contents.counts.samples, contents.counts.lost), (64 * 6 + 4 + 5 * 2 + 3 + 1, 7));
    let names: Vec<&str> = contents.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(names, ["cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"]);
    let samples: Vec<_> = records
        .iter()
        .filter_map(|(_, record)| if let Record::Sample(sample) = record { Some(*sample) } else { None })
        .collect();
    let last = samples[64 * 6 - 1];
    assert_eq!((last.tid, last.cpu, last.period), (4245, Some(9), Some(2003)));
    assert_eq!((last.address, last.latency), (Some(machines::ARRAY + (63 << 12) + 5 * 64), Some(315)));
    assert_eq!(samples[64 * 6].event, 1, "stores are another event");
    assert!(records.iter().any(|(time, record)| {
        *time == Some(10)
            && matches!(record, Record::Mapped(m) if m.name == "[heap]" && m.inode == 0 && m.end == 0x92_1000)
    }));
    assert_eq!(contents.facts.build_ids, [("/opt/solver/bin/solver".to_owned(), vec![0xab; 20])]);

    let (contents, records) = all(&machines::ibs());
    let memory = contents.facts.memory.as_ref().unwrap();
    assert_eq!([0u64, 2, 7, 8].map(|gib| memory.node_of(gib << 30)), [Some(0), Some(1), Some(3), None]);
    assert!(records.iter().any(|(_, record)| {
        matches!(record, Record::Sample(s) if s.physical == Some(5 << 30) && s.page_bytes == Some(4096))
    }));

    let (contents, _) = all(&machines::spe());
    assert_eq!(contents.facts.nodes[1].number, 2);
    assert_eq!(contents.facts.nodes[1].cpus.len(), 64);

    let (contents, _) = all(&machines::spe_raw());
    assert_eq!((contents.traced, contents.counts.undecoded), (Some(Traced::Spe), 64));
    assert!(!contents.counts.cut);
}

/// A file whose records are compressed (`perf record -z`), in records of that many bytes.
fn packed(file: &[u8], data: &[u8], at_a_time: usize) -> Vec<u8> {
    let at = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let stream = zstd::encode_all(data, 1).unwrap();
    let records: Vec<u8> = stream.chunks(at_a_time).flat_map(|piece| build::record(81, 0, piece)).collect();
    let mut bytes = file[..at].to_vec();
    bytes[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    bytes[72..80].fill(0);
    bytes.extend(records);
    bytes
}

#[test]
fn compressed_records_lie_across_the_ends_of_what_is_compressed() {
    let whole = machines::pebs();
    let place = |from: usize| u64::from_le_bytes(whole[from..from + 8].try_into().unwrap()) as usize;
    let data = &whole[place(40)..place(40) + place(48)];
    let (_, expected) = all(&whole);
    for at_a_time in [77, 1000, 60_000] {
        let (contents, records) = all(&packed(&whole, data, at_a_time));
        assert!(records == expected && !contents.counts.cut, "{at_a_time}");
    }
    // It ends within a record, and what unpacks to more than any recording does is given up.
    assert!(all(&packed(&whole, &data[..data.len() - 4], 1000)).0.counts.cut);
    let rounds = build::record(68, 0, &[]).repeat(8 << 20);
    let (contents, records) = all(&packed(&whole, &rounds, 60_000));
    assert!(contents.counts.cut && contents.counts.malformed == 1 && records.is_empty());
}

#[test]
fn other_files_are_refused_and_cut_ones_are_said_to_be_cut() {
    let whole = machines::pebs();
    let error = |bytes: &[u8]| read(bytes, |_, _| {}).unwrap_err();
    assert_eq!(error(b"ELF"), PerfDataError::Magic);
    let swapped: Vec<u8> = b"2ELIFREP".iter().chain(&whole[8..]).copied().collect();
    assert_eq!(error(&swapped), PerfDataError::Swapped);
    assert_eq!(error(b"PERFFILE"), PerfDataError::Old);
    assert_eq!(error(&whole[..60]), PerfDataError::Cut { expected: 104, found: 60 });
    assert_eq!(error(&whole[..104]), PerfDataError::NoEvents);
    let mut samples = 0;
    for length in (600..whole.len()).step_by(97) {
        let contents = read(&whole[..length], |_, _| {}).unwrap();
        assert!(contents.counts.cut && contents.counts.samples >= samples, "{length}");
        samples = contents.counts.samples;
    }
    // Killed before it was finished: no length of the data, no features.
    let mut killed = whole.clone();
    killed[48..56].fill(0);
    let contents = read(&killed, |_, _| {}).unwrap();
    assert!(contents.counts.cut && contents.counts.samples == 402 && contents.facts.nodes.is_empty());
}
