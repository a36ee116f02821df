//! Samples of `perf mem record` and other recordings with data addresses, as references: each sample is one, in the
//! order of time. They are a part of the program's references, and what a sample stands for is not told from it; how
//! large an access was is not recorded.
//!
//! Of several processes, whose addresses mean different memory, the one with most samples is taken.

use super::{ImportError, Imported, Importer, Report};
use crate::ids::Thread;
use crate::perf_data::{self, Counts, Record, Sample, KERNEL};
use std::collections::HashMap;
use std::io::BufRead;

pub(super) const ENTRY: Importer = Importer {
    name: "perf",
    summary: "the samples of a perf.data file (perf mem record, perf c2c record, perf record -d)",
    expected: "a file of perf mem record",
    looks_so: perf_data::looks_so,
    read: |input, _, sink| read(input, sink),
};

/// How large accesses are taken to be.
const BYTES: u32 = 8;
/// A store, in `union perf_mem_data_src`.
const STORE: u64 = 4;

/// Reads references and hands them to `sink`, in order.
pub fn read<E>(
    mut input: impl BufRead,
    mut sink: impl FnMut(Imported) -> Result<(), E>,
) -> Result<Report, ImportError<E>> {
    let mut file = Vec::new();
    input.read_to_end(&mut file).map_err(|source| ImportError::Read { line: 0, source })?;
    let mut samples: Vec<Sample> = Vec::new();
    let (mut all, mut kernel, mut nobody) = (0u64, 0, 0);
    let contents = perf_data::read(&file, |_, record| {
        if let Record::Sample(sample) = record {
            all += 1;
            match sample.address {
                Some(at) if at >= KERNEL => kernel += 1,
                Some(1..) if sample.tid < 0 => nobody += 1,
                Some(1..) => samples.push(sample),
                _ => {}
            }
        }
    })?;
    let mut processes: HashMap<i32, u64> = HashMap::new();
    samples.iter().for_each(|sample| *processes.entry(sample.pid).or_default() += 1);
    let most = processes.into_iter().max_by_key(|&(pid, count)| (count, std::cmp::Reverse(pid)));
    let of_all = samples.len() as u64;
    samples.retain(|sample| most.is_some_and(|(pid, _)| pid == sample.pid));
    samples.sort_by_key(|sample| sample.time);
    let mut report = Report {
        skipped: all - samples.len() as u64,
        malformed: contents.counts.malformed + u64::from(contents.counts.cut),
        left_out: left_out(
            &contents.counts,
            [
                (all - of_all - kernel - nobody, "samples without a data address"),
                (nobody, "samples of no thread"),
                (kernel, "samples of the kernel's memory"),
                (of_all - samples.len() as u64, "samples of other processes"),
            ],
        ),
        ..Report::default()
    };
    for sample in samples {
        report.references += 1;
        sink(Imported {
            thread: Thread(sample.tid as u32),
            address: sample.address.unwrap_or_default(),
            bytes: BYTES,
            write: sample.data_src.is_some_and(|bits| bits & STORE != 0),
        })
        .map_err(ImportError::Sink)?;
    }
    Ok(report)
}

/// What is not among the references, in words, where there is any.
fn left_out(counts: &Counts, samples: [(u64, &str); 4]) -> Vec<String> {
    let lost = [
        (counts.lost, "records that were lost, a ring being full"),
        (counts.lost_samples, "samples that were lost"),
        (counts.undecoded, "bytes of a trace of the processor (perf inject --itrace=M decodes it)"),
    ];
    let all = samples.into_iter().chain(lost).filter(|(count, _)| *count > 0);
    let cut = counts.cut.then(|| "what is behind the end: the file is cut, or perf was killed".to_owned());
    all.map(|(count, what)| format!("{what}: {count}")).chain(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_threads_number_may_be_any_that_threads_have() {
        let file = include_bytes!("../../tests/perf_data/pebs.data");
        let (pid, known) = (4242u32.to_le_bytes(), 4245u32.to_le_bytes());
        for (tid, of_nobody) in [(u32::MAX, true), (i32::MAX as u32, false)] {
            let mut bytes = file.to_vec();
            // Behind its process, as in samples.
            let pairs =
                (0..bytes.len() - 8).filter(|&at| file[at..at + 4] == pid && file[at + 4..at + 8] == known);
            let pairs: Vec<usize> = pairs.collect();
            assert!(!pairs.is_empty());
            pairs.into_iter().for_each(|at| bytes[at + 4..at + 8].copy_from_slice(&tid.to_le_bytes()));
            let mut out = Vec::new();
            let importer = crate::import::named("perf").unwrap();
            let report =
                crate::import::to_trace(importer, &bytes[..], Default::default(), &mut out, "1").unwrap();
            let trace = crate::Trace::open(&out).unwrap();
            assert_eq!(trace.references(), report.references);
            assert_eq!(
                report.left_out.iter().any(|what| what.starts_with("samples of no thread: ")),
                of_nobody
            );
            assert_eq!(trace.threads().any(|(thread, _)| thread.0 == tid), !of_nobody);
        }
    }

    #[test]
    fn samples_of_the_process_with_most_are_references_in_order() {
        let file = include_bytes!("../../tests/perf_data/pebs.data");
        let mut references = Vec::new();
        let report = read(&file[..], |reference| {
            references.push(reference);
            Ok::<_, Infallible>(())
        })
        .unwrap();
        // The array's, four stores and five hits; five have no address, three are the kernel's, one is another's.
        assert_eq!((report.references, report.skipped, report.malformed), (64 * 6 + 9, 9, 0));
        let left_out = [
            "samples without a data address: 5",
            "samples of the kernel's memory: 3",
            "samples of other processes: 1",
            "records that were lost, a ring being full: 7",
        ];
        assert_eq!(report.left_out, left_out);
        let cut = read(&file[..file.len() / 2], |_| Ok::<_, Infallible>(())).unwrap();
        assert!(cut.malformed > 0 && cut.left_out.last().unwrap().contains("the file is cut"), "{cut:?}");
        assert_eq!(references.iter().filter(|reference| reference.write).count(), 4);
        let last = references.last().unwrap();
        assert_eq!((last.thread, last.address), (Thread(4245), 0x7f10_0000_0000 + (63 << 12) + 5 * 64));
        let bad = read(&b"PERFILE2"[..], |_| Ok::<_, Infallible>(()));
        assert!(matches!(bad, Err(ImportError::PerfData(_))));
    }
}
