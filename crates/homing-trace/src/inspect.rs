//! Counts what a trace holds, block by block and in parallel, without the total order.

use super::decode::{Chunk, Decoder, Filled, Token, Tokens};
use super::format::{self, Placed};
use super::{Event, Kind, NameId, Trace};
use std::collections::HashMap;

/// What some references blocks hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References.
    pub references: u64,
    /// References that read, if addresses were decoded.
    pub reads: u64,
    /// References that write, if addresses were decoded.
    pub writes: u64,
    /// Atomic references, if addresses were decoded.
    pub atomics: u64,
    /// Bytes accessed, if addresses were decoded.
    pub bytes_accessed: u64,
    /// Events by kind.
    pub events: HashMap<&'static str, u64>,
    /// Allocations by call site: how many, and how many bytes.
    pub sites: HashMap<NameId, (u64, u64)>,
    /// References that the recorder reported as dropped.
    pub lost: u64,
}

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Events and numbers of references.
    Steps,
    /// Everything: kinds are counted, and every address is checked.
    References,
}

impl Counts {
    /// These counts and those of other blocks.
    pub fn with(mut self, other: Counts) -> Counts {
        self.references += other.references;
        self.reads += other.reads;
        self.writes += other.writes;
        self.atomics += other.atomics;
        self.bytes_accessed = self.bytes_accessed.saturating_add(other.bytes_accessed);
        self.lost = self.lost.saturating_add(other.lost);
        for (kind, count) in other.events {
            *self.events.entry(kind).or_default() += count;
        }
        for (site, (count, bytes)) in other.sites {
            let all = self.sites.entry(site).or_default();
            *all = (all.0 + count, all.1.saturating_add(bytes));
        }
        self
    }

    /// Events of all kinds.
    pub fn all_events(&self) -> u64 {
        self.events.values().sum()
    }

    fn event(&mut self, event: &Event) {
        *self.events.entry(name(event)).or_default() += 1;
        match *event {
            Event::Alloc { size, site, .. } => {
                let all = self.sites.entry(site).or_default();
                *all = (all.0 + 1, all.1.saturating_add(size));
            }
            Event::Lost { references, .. } => self.lost = self.lost.saturating_add(references),
            _ => {}
        }
    }

    fn kinds(&mut self, kinds: &[Kind]) {
        let writes = kinds.iter().filter(|kind| kind.is_write()).count() as u64;
        self.references += kinds.len() as u64;
        self.writes += writes;
        self.reads += kinds.len() as u64 - writes;
        self.atomics += kinds.iter().filter(|kind| kind.is_atomic()).count() as u64;
        self.bytes_accessed += kinds.iter().map(|kind| u64::from(kind.bytes())).sum::<u64>();
    }
}

/// The name of the kind of an event.
fn name(event: &Event) -> &'static str {
    match event {
        Event::ThreadStart { .. } => "thread-start",
        Event::ThreadEnd => "thread-end",
        Event::ThreadJoin { .. } => "thread-join",
        Event::Sync { .. } => "sync",
        Event::Mmap { .. } => "mmap",
        Event::Munmap { .. } => "munmap",
        Event::Brk { .. } => "brk",
        Event::Mremap { .. } => "mremap",
        Event::Alloc { .. } => "alloc",
        Event::Free { .. } => "free",
        Event::Mark { .. } => "mark",
        Event::Lost { .. } => "lost",
        Event::Fork { .. } => "fork",
        Event::KernelAccess { .. } => "kernel-access",
        Event::Huge { .. } => "huge-pages",
        Event::Window { .. } => "window",
    }
}

/// Counts one references block, which must be undamaged from end to end.
pub(super) fn inspect(trace: &Trace<'_>, placed: &Placed, depth: Depth) -> Result<Counts, String> {
    let (header, stored) = format::stored(trace.bytes, placed.offset)?;
    if header != placed.header {
        return Err("not the block that the index names".to_owned());
    }
    let mut counts = Counts::default();
    if depth == Depth::Steps {
        let mut tokens = Tokens::open(&header, stored)?;
        while let Some(token) = tokens.next()? {
            match token {
                Token::Event(event) => counts.event(&event),
                Token::Run(run) => counts.references += run.count * u64::from(tokens.entry(&run).accesses),
                Token::Advance(_) | Token::Nothing => {}
            }
        }
        return Ok(counts);
    }
    let mut decoder = Decoder::open(&header, stored, trace.frames().len() as u32)?;
    let mut chunk = Chunk::default();
    loop {
        chunk.clear();
        let filled = decoder.fill(&mut chunk)?;
        counts.kinds(chunk.range(0, chunk.len()).1);
        match filled {
            Filled::Full => {}
            Filled::Event(event) => counts.event(&event),
            Filled::End => return Ok(counts),
        }
    }
}
