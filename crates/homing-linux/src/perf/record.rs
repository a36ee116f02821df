//! Records of a perf ring, decoded: perf_event_open(2), "MMAP layout". Works on bytes, so it is tested on recorded
//! ones.

use perf_event_open_sys::bindings::{
    PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES, PERF_RECORD_MISC_SWITCH_OUT,
    PERF_RECORD_SAMPLE, PERF_RECORD_SWITCH, PERF_RECORD_THROTTLE,
};

/// What a sample holds, in the order in which the kernel writes it (`PERF_SAMPLE_*`).
pub mod fields {
    use perf_event_open_sys::bindings::*;

    /// Process and thread.
    pub const TID: u64 = PERF_SAMPLE_TID as u64;
    /// Time in ns of the event's clock.
    pub const TIME: u64 = PERF_SAMPLE_TIME as u64;
    /// The data address.
    pub const ADDR: u64 = PERF_SAMPLE_ADDR as u64;
    /// The CPU.
    pub const CPU: u64 = PERF_SAMPLE_CPU as u64;
    /// Events that the sample stands for.
    pub const PERIOD: u64 = PERF_SAMPLE_PERIOD as u64;
    /// Cost, for memory events the latency in cycles.
    pub const WEIGHT: u64 = PERF_SAMPLE_WEIGHT as u64;
    /// What the memory system did.
    pub const DATA_SRC: u64 = PERF_SAMPLE_DATA_SRC as u64;
    /// All that the decoder knows.
    pub const KNOWN: u64 = TID | TIME | ADDR | CPU | PERIOD | WEIGHT | DATA_SRC;
}

/// A sample. Fields that were not asked for are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// When, in ns of the event's clock.
    pub time: u64,
    /// The data address.
    pub address: u64,
    /// The CPU.
    pub cpu: u32,
    /// Events that it stands for.
    pub period: u64,
    /// Latency in cycles.
    pub weight: u64,
    /// `union perf_mem_data_src`.
    pub data_src: u64,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// This many records were lost because the ring was full.
    Lost(u64),
    /// The kernel throttled the event: it came too often.
    Throttle,
    /// The thread was put on the CPU (true) or taken off.
    Switch(bool),
    /// A thread began.
    Began {
        /// Its process: a new one, or that of the thread that made it.
        pid: i32,
        /// The process of the thread that made it.
        parent: i32,
    },
    /// A kind that is not used here.
    Other(u32),
}

/// A record that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before the record does.
    #[error("perf record of type {kind}: {size} bytes, expected at least {expected}")]
    Short {
        /// Type.
        kind: u32,
        /// Bytes there are.
        size: usize,
        /// Bytes there should be.
        expected: usize,
    },
    /// The size field makes no sense.
    #[error("perf record of {0} bytes: expected a multiple of 8 of at least 8")]
    Size(usize),
}

const MISC_SWITCH_OUT: u16 = PERF_RECORD_MISC_SWITCH_OUT as u16;

/// Bytes of the record that begins here, if the bytes hold a header that makes sense.
pub fn size(bytes: &[u8]) -> Result<usize, RecordError> {
    let header = bytes.first_chunk::<8>().ok_or(RecordError::Size(bytes.len()))?;
    let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
    if size < 8 || !size.is_multiple_of(8) {
        Err(RecordError::Size(size))
    } else {
        Ok(size)
    }
}

/// Decodes one record. `sample_type` says what samples hold; only [`fields::KNOWN`] may be in it.
pub fn decode(bytes: &[u8], sample_type: u64) -> Result<Record, RecordError> {
    debug_assert_eq!(sample_type & !fields::KNOWN, 0);
    let size = size(bytes)?;
    let kind = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let misc = u16::from_ne_bytes([bytes[4], bytes[5]]);
    let short = |expected| RecordError::Short { kind, size: bytes.len(), expected };
    let body = bytes.get(8..size).ok_or(short(size))?;
    let mut words = body.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
    match kind {
        PERF_RECORD_SAMPLE => {
            sample(&mut words, sample_type).ok_or(short(8 + 8 * sample_type.count_ones() as usize))
        }
        PERF_RECORD_LOST => words.nth(1).map(Record::Lost).ok_or(short(24)),
        PERF_RECORD_LOST_SAMPLES => words.next().map(Record::Lost).ok_or(short(16)),
        PERF_RECORD_THROTTLE => Ok(Record::Throttle),
        PERF_RECORD_FORK => {
            let [pid, parent] = halves(words.next().ok_or(short(16))?).map(|half| half as i32);
            Ok(Record::Began { pid, parent })
        }
        PERF_RECORD_SWITCH => Ok(Record::Switch(misc & MISC_SWITCH_OUT == 0)),
        other => Ok(Record::Other(other)),
    }
}

fn sample(words: &mut impl Iterator<Item = u64>, sample_type: u64) -> Option<Record> {
    let mut sample = Sample::default();
    let mut field = |bit| if sample_type & bit != 0 { words.next().map(Some) } else { Some(None) };
    if let Some(ids) = field(fields::TID)? {
        [sample.pid, sample.tid] = halves(ids).map(|half| half as i32);
    }
    sample.time = field(fields::TIME)?.unwrap_or_default();
    sample.address = field(fields::ADDR)?.unwrap_or_default();
    sample.cpu = field(fields::CPU)?.map_or(0, |cpu| halves(cpu)[0]);
    sample.period = field(fields::PERIOD)?.unwrap_or_default();
    sample.weight = field(fields::WEIGHT)?.unwrap_or_default();
    sample.data_src = field(fields::DATA_SRC)?.unwrap_or_default();
    Some(Record::Sample(sample))
}

/// The two 32-bit fields of a word in memory order.
fn halves(word: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fields::*;

    /// A page-fault sample as a kernel 6.12 wrote it: pid and tid, time, address, CPU.
    const FAULT: [u8; 40] = [
        9, 0, 0, 0, 2, 0, 40, 0, 0x0f, 0x10, 0, 0, 0x11, 0x10, 0, 0, 0x15, 0xcd, 0x5b, 7, 0, 0, 0, 0, 0x00,
        0x30, 0x40, 0x5a, 0xf7, 0x7f, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
    ];

    fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(misc.to_ne_bytes());
        bytes.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes
    }

    #[test]
    fn a_recorded_page_fault_decodes() {
        let expected = Sample {
            pid: 0x100f,
            tid: 0x1011,
            time: 123_456_789,
            address: 0x7ff7_5a40_3000,
            cpu: 5,
            ..Sample::default()
        };
        assert_eq!(decode(&FAULT, TID | TIME | ADDR | CPU), Ok(Record::Sample(expected)));
    }

    #[test]
    fn memory_samples_have_latency_and_source() {
        let bytes = record(PERF_RECORD_SAMPLE, 0, &[7 | 8 << 32, 100, 0xabc, 3, 4000, 312, 0x68100142]);
        let Ok(Record::Sample(sample)) = decode(&bytes, KNOWN) else { panic!() };
        assert_eq!((sample.pid, sample.tid, sample.cpu, sample.period), (7, 8, 3, 4000));
        assert_eq!((sample.weight, sample.data_src), (312, 0x68100142));
    }

    #[test]
    fn losses_and_switches_are_reported() {
        assert_eq!(decode(&record(PERF_RECORD_LOST, 0, &[1, 17]), TID), Ok(Record::Lost(17)));
        assert_eq!(decode(&record(PERF_RECORD_LOST_SAMPLES, 0, &[4]), TID), Ok(Record::Lost(4)));
        assert_eq!(decode(&record(PERF_RECORD_SWITCH, MISC_SWITCH_OUT, &[]), TID), Ok(Record::Switch(false)));
        assert_eq!(decode(&record(PERF_RECORD_SWITCH, 0, &[]), TID), Ok(Record::Switch(true)));
        assert_eq!(decode(&record(PERF_RECORD_THROTTLE, 0, &[1, 2, 3]), TID), Ok(Record::Throttle));
        assert_eq!(decode(&record(4, 0, &[1]), TID), Ok(Record::Other(4)));
        let began = record(PERF_RECORD_FORK, 0, &[7 | 5 << 32, 8 | 5 << 32, 100]);
        assert_eq!(decode(&began, TID), Ok(Record::Began { pid: 7, parent: 5 }));
        assert!(decode(&record(PERF_RECORD_FORK, 0, &[]), TID).is_err());
    }

    #[test]
    fn cut_records_are_refused() {
        for length in 0..FAULT.len() {
            assert!(decode(&FAULT[..length], TID | TIME | ADDR | CPU).is_err(), "{length}");
        }
        assert!(decode(&record(PERF_RECORD_SAMPLE, 0, &[1]), TID | TIME).is_err());
        assert_eq!(decode(&[0; 8], TID), Err(RecordError::Size(0)));
    }
}
