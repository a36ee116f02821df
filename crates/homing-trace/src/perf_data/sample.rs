//! One sample: `PERF_RECORD_SAMPLE` of linux/perf_event.h, in the order of its fields.

use super::bytes::Bytes;
use super::event::{holds, Event};

/// A sample. Fields that its event does not record are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of its event.
    pub event: usize,
    /// Process.
    pub pid: i32,
    /// Thread.
    pub tid: i32,
    /// When, in ns of the event's clock.
    pub time: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// The data address. 0: the instruction had none.
    pub address: Option<u64>,
    /// Events that the sample stands for.
    pub period: Option<u64>,
    /// Latency in cycles; 0: not known.
    pub latency: Option<u64>,
    /// `union perf_mem_data_src`.
    pub data_src: Option<u64>,
    /// The physical data address. 0: not known, as where the page was not in memory.
    pub physical: Option<u64>,
    /// Bytes of the page. 0: not known.
    pub page_bytes: Option<u64>,
}

/// `PERF_FORMAT_*`.
const READ_ENABLED: u64 = 1;
const READ_RUNNING: u64 = 2;
const READ_ID: u64 = 4;
const READ_GROUP: u64 = 8;
const READ_LOST: u64 = 16;

/// `PERF_SAMPLE_BRANCH_*` with words of their own.
const BRANCH_INDEX: u64 = 1 << 17;
const BRANCH_COUNTERS: u64 = 1 << 19;

impl Sample {
    /// Decodes the body of a sample of an event. `None` if it ends too early.
    pub(super) fn decode(mut body: Bytes<'_>, number: usize, event: &Event) -> Option<Sample> {
        let has = |bit: u64| event.sample_type & bit != 0;
        let mut sample = Sample { event: number, ..Sample::default() };
        let at = &mut body;
        at.skip_words([holds::IDENTIFIER, holds::IP].iter().filter(|&&bit| has(bit)).count() as u64)?;
        if has(holds::TID) {
            let (pid, tid) = at.pair()?;
            (sample.pid, sample.tid) = (pid as i32, tid as i32);
        }
        let word = |at: &mut Bytes<'_>, bit: u64| match has(bit) {
            true => at.u64().map(Some),
            false => Some(None),
        };
        sample.time = word(at, holds::TIME)?;
        sample.address = word(at, holds::ADDR)?;
        word(at, holds::ID)?;
        word(at, holds::STREAM_ID)?;
        sample.cpu = word(at, holds::CPU)?.map(|word| word as u32);
        sample.period = word(at, holds::PERIOD)?.or(event.period);
        skip_variable(at, event)?;
        let weight = word(at, holds::WEIGHT)?;
        let parts = word(at, holds::WEIGHT_STRUCT)?;
        // The first of the three weights is the latency of the access (linux/perf_event.h, perf_sample_weight).
        sample.latency = parts.map(|word| word & 0xffff_ffff).or(weight);
        sample.data_src = word(at, holds::DATA_SRC)?;
        word(at, holds::TRANSACTION)?;
        if has(holds::REGS_INTR) {
            skip_registers(at, event.registers)?;
        }
        sample.physical = word(at, holds::PHYS_ADDR)?;
        word(at, holds::CGROUP)?;
        sample.page_bytes = word(at, holds::DATA_PAGE_SIZE)?;
        Some(sample)
    }
}

/// Fields of varying length, between the period and the weight.
fn skip_variable(at: &mut Bytes<'_>, event: &Event) -> Option<()> {
    let has = |bit: u64| event.sample_type & bit != 0;
    if has(holds::READ) {
        skip_read(at, event.read_format)?;
    }
    if has(holds::CALLCHAIN) {
        let frames = at.u64()?;
        at.skip_words(frames)?;
    }
    if has(holds::RAW) {
        let bytes = at.u32()?;
        at.skip(bytes.into())?;
    }
    if has(holds::BRANCH_STACK) {
        let branches = at.u64()?;
        at.skip_words(u64::from(event.branch_sample_type & BRANCH_INDEX != 0))?;
        at.skip_words(branches.checked_mul(3)?)?;
        at.skip_words(if event.branch_sample_type & BRANCH_COUNTERS != 0 { branches } else { 0 })?;
    }
    if has(holds::REGS_USER) {
        skip_registers(at, event.user_registers)?;
    }
    if has(holds::STACK_USER) {
        let bytes = at.u64()?;
        if bytes > 0 {
            at.skip(bytes)?;
            at.skip_words(1)?;
        }
    }
    Some(())
}

fn skip_registers(at: &mut Bytes<'_>, registers: u32) -> Option<()> {
    let abi = at.u64()?;
    at.skip_words(if abi == 0 { 0 } else { registers.into() })
}

fn skip_read(at: &mut Bytes<'_>, format: u64) -> Option<()> {
    let count = |bits: &[u64]| bits.iter().filter(|&&bit| format & bit != 0).count() as u64;
    let times = count(&[READ_ENABLED, READ_RUNNING]);
    let each = 1 + count(&[READ_ID, READ_LOST]);
    if format & READ_GROUP == 0 {
        return at.skip_words(times + each);
    }
    let events = at.u64()?;
    at.skip_words(events.checked_mul(each)?.checked_add(times)?)
}
