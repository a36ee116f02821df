//! The events of a file (`struct perf_event_attr`), and which of them a record belongs to.

use super::bytes::Bytes;
use std::collections::HashMap;

/// `PERF_SAMPLE_*`: what a sample holds.
pub(super) mod holds {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const REGS_USER: u64 = 1 << 12;
    pub const STACK_USER: u64 = 1 << 13;
    pub const WEIGHT: u64 = 1 << 14;
    pub const DATA_SRC: u64 = 1 << 15;
    pub const IDENTIFIER: u64 = 1 << 16;
    pub const TRANSACTION: u64 = 1 << 17;
    pub const REGS_INTR: u64 = 1 << 18;
    pub const PHYS_ADDR: u64 = 1 << 19;
    pub const CGROUP: u64 = 1 << 21;
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
}

/// Flags of an event, in its word of bits.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// An event that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Its name, as perf had it on its command line; empty if the file does not say.
    pub name: String,
    /// The kernel's number of its PMU (1: software).
    pub kind: u32,
    /// Which event of the PMU.
    pub config: u64,
    /// Events between two samples, where that is fixed.
    pub period: Option<u64>,
    pub(super) sample_type: u64,
    pub(super) read_format: u64,
    pub(super) branch_sample_type: u64,
    pub(super) user_registers: u32,
    pub(super) registers: u32,
    pub(super) id_in_all: bool,
}

impl Event {
    /// Reads a `struct perf_event_attr` of any version.
    pub(super) fn parse(attr: &[u8]) -> Option<Event> {
        let mut at = Bytes(attr);
        let (kind, _) = at.pair()?;
        let (config, period) = (at.u64()?, at.u64()?);
        let (sample_type, read_format, flags) = (at.u64()?, at.u64()?, at.u64()?);
        // Versions before 64 bytes are not in use; later fields may be absent.
        at.skip(8 + 16)?;
        let branch_sample_type = at.u64().unwrap_or_default();
        let user_registers = at.u64().unwrap_or_default().count_ones();
        let registers = at.skip(8).and_then(|()| at.u64()).unwrap_or_default().count_ones();
        Some(Event {
            name: String::new(),
            kind,
            config,
            period: (flags & FREQUENCY == 0 && period > 0).then_some(period),
            sample_type,
            read_format,
            branch_sample_type,
            user_registers,
            registers,
            id_in_all: flags & SAMPLE_ID_ALL != 0,
        })
    }

    /// Whether its samples hold data addresses.
    pub fn has_addresses(&self) -> bool {
        self.sample_type & holds::ADDR != 0
    }

    /// Whether its samples say what served an access (`perf mem`, `perf c2c`).
    pub fn has_source(&self) -> bool {
        self.sample_type & holds::DATA_SRC != 0
    }
}

/// The events of a file, by number and by the kernel's identifiers.
#[derive(Clone, Debug, Default)]
pub(super) struct Events {
    pub(super) all: Vec<Event>,
    by_id: HashMap<u64, usize>,
    /// Identifiers that were read.
    ids: usize,
}

/// The most identifiers in a file: one for each event on each CPU.
const MOST_IDS: usize = 1 << 20;

impl Events {
    /// Adds an event with its identifiers. One whose identifiers are known is not another.
    pub(super) fn add(&mut self, event: Event, mut ids: Bytes<'_>) {
        let ids: Vec<u64> = std::iter::from_fn(|| ids.u64()).take(MOST_IDS - self.ids).collect();
        self.ids += ids.len();
        if !ids.is_empty() && ids.iter().all(|id| self.by_id.contains_key(id)) {
            return;
        }
        self.by_id.extend(ids.into_iter().map(|id| (id, self.all.len())));
        self.all.push(event);
    }

    /// Names an event by one of its identifiers, or by its number if that identifier is not known.
    pub(super) fn name(&mut self, id: Option<u64>, number: Option<usize>, name: String) {
        let number = id.and_then(|id| self.by_id.get(&id).copied()).or(number);
        if let Some(event) = number.and_then(|number| self.all.get_mut(number)) {
            event.name = name;
        }
    }

    /// The event of a sample, whose words begin here.
    pub(super) fn of_sample(&self, words: Bytes<'_>) -> Option<usize> {
        let first = self.all.first()?;
        if self.all.len() == 1 {
            return Some(0);
        }
        // Where an identifier is, all events have it at the same place (perf sees to that).
        let before = [holds::IP, holds::TID, holds::TIME, holds::ADDR];
        let place = if first.sample_type & holds::IDENTIFIER != 0 {
            0
        } else if first.sample_type & holds::ID != 0 {
            before.iter().filter(|&&bit| first.sample_type & bit != 0).count() as u64
        } else {
            return Some(0);
        };
        let mut words = words;
        words.skip_words(place)?;
        self.by_id.get(&words.u64()?).copied()
    }

    /// The time of a record that is no sample, from the fields at its end (`struct sample_id`).
    pub(super) fn time(&self, body: &[u8]) -> Option<u64> {
        let first = self.all.first()?;
        let last = || body.last_chunk::<8>().map(|word| u64::from_le_bytes(*word));
        let event = match first.sample_type & holds::IDENTIFIER != 0 {
            true => last().and_then(|id| self.by_id.get(&id)).map_or(first, |&number| &self.all[number]),
            false => first,
        };
        if !event.id_in_all || event.sample_type & holds::TIME == 0 {
            return None;
        }
        let behind = [holds::ID, holds::STREAM_ID, holds::CPU, holds::IDENTIFIER];
        let words = 1 + behind.iter().filter(|&&bit| event.sample_type & bit != 0).count();
        let at = body.len().checked_sub(8 * words)?;
        Bytes(&body[at..]).u64()
    }
}
