//! Takes the segments of a recording and writes the trace.

use super::code::{Access, CodeBlockId};
use super::encode::Known;
use super::event::{Event, SyncOp};
use super::format::MAX_ACCESSES;
use super::names::{NameId, Symbol};
use super::runs;
use super::selection::Selection;
use super::summary::Summary;
use super::wire::{self, Calls, Control, Flavour, PAYLOAD};
use super::writer::TraceWriter;
use super::TraceError;
use crate::ids::Thread;
use std::collections::HashMap;
use std::io::Write;

/// Recorder's block numbers up to this are looked up in an array.
const MAX_DIRECT: u64 = 1 << 22;

/// References of the parallel flavour that are filtered at a time; virtual time is late by less than this.
const FEW: usize = 256;

/// What part of a recording is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestOptions {
    /// Drops references that hit in a per-thread filter of 512 lines of 64 bytes.
    pub line_filter: bool,
    /// Drops this many references at the begin.
    pub skip: u64,
    /// Drops all references after this many were kept.
    pub limit: Option<u64>,
}

/// A recorder's code block.
#[derive(Clone, Debug)]
struct Block {
    id: CodeBlockId,
    /// Words of a full execution.
    words: usize,
    def: Box<[Access]>,
    /// Some of its accesses are atomic.
    atomic: bool,
}

/// What is known of a stream.
#[derive(Debug, Default)]
struct Stream {
    next_index: u32,
    /// The begin of something that goes on in the next segment.
    tail: Vec<u64>,
}

/// Writes a trace from the segments that recorders fill.
pub struct Ingest<W: Write> {
    state: State<W>,
    flavour: Flavour,
    streams: HashMap<u32, Stream>,
    lost_segments: u64,
}

struct State<W: Write> {
    writer: TraceWriter<W>,
    selection: Selection,
    thread: Thread,
    blocks: Vec<Option<Block>>,
    /// For the same, what the writer needs to take executions from where they lie.
    known: Vec<Known>,
    far_blocks: HashMap<u64, Block>,
    names: HashMap<u64, NameId>,
    /// Scratch: the addresses of an execution.
    addresses: Vec<u64>,
    /// Whether nothing is skipped, limited or filtered, so that executions go straight to the writer.
    plain: bool,
    /// In the serial flavour, whose one stream is in execution order: the last stamp given to a synchronisation.
    stamp: Option<u64>,
    malformed: u64,
}

impl<W: Write> Ingest<W> {
    /// Takes segments of this flavour into `writer`.
    pub fn new(writer: TraceWriter<W>, flavour: Flavour, options: IngestOptions) -> Self {
        let state = State {
            writer,
            selection: Selection::new(options),
            thread: Thread(0),
            blocks: Vec::new(),
            known: Vec::new(),
            far_blocks: HashMap::new(),
            names: HashMap::new(),
            addresses: Vec::new(),
            plain: options == IngestOptions::default(),
            stamp: (flavour == Flavour::Serial).then_some(0),
            malformed: 0,
        };
        Ingest { state, flavour, streams: HashMap::new(), lost_segments: 0 }
    }

    /// A filled segment: number `index` (from 0) of `stream`. Segments of one stream come in order; one that is missing
    /// is counted and marked with an event.
    pub fn segment(&mut self, stream: u32, index: u32, words: &[u64]) -> Result<(), TraceError> {
        if self.flavour == Flavour::Parallel {
            self.state.thread = Thread(stream);
        }
        let known = self.streams.entry(stream).or_default();
        if index < known.next_index {
            self.state.malformed += words.len() as u64;
            return Ok(());
        }
        let lost = index - known.next_index;
        known.next_index = index + 1;
        let mut tail = std::mem::take(&mut known.tail);
        if lost > 0 {
            self.lost_segments += u64::from(lost);
            wire::parse(&tail, self.flavour, true, &mut self.state)?;
            tail.clear();
            let reason = self.state.writer.name("segments of the recorder never arrived");
            self.state.writer.event(self.state.thread, &Event::Lost { references: 0, reason })?;
        }
        let mut words = words;
        if !tail.is_empty() {
            tail.extend_from_slice(words);
            words = &tail;
        }
        let taken = wire::parse(words, self.flavour, false, &mut self.state)?;
        let left = words[taken..].to_vec();
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.tail = left;
        }
        Ok(())
    }

    /// Whether the limit is reached: the recorder may stop.
    pub fn reached_limit(&self) -> bool {
        self.state.selection.reached_limit()
    }

    /// The writer, to add what the recorder does not know.
    pub fn writer(&mut self) -> &mut TraceWriter<W> {
        &mut self.state.writer
    }

    /// References kept so far.
    pub fn references(&self) -> u64 {
        self.state.writer.references()
    }

    /// Ends the trace.
    pub fn finish(mut self) -> Result<(W, Summary), TraceError> {
        let mut streams: Vec<_> = self.streams.drain().collect();
        streams.sort_by_key(|(number, _)| *number);
        for (number, stream) in streams {
            if self.flavour == Flavour::Parallel {
                self.state.thread = Thread(number);
            }
            wire::parse(&stream.tail, self.flavour, true, &mut self.state)?;
        }
        let state = self.state;
        state.writer.finish(state.selection.count(Summary {
            lost_segments: self.lost_segments,
            malformed: state.malformed,
            ..Summary::default()
        }))
    }
}

impl<W: Write> State<W> {
    fn define(&mut self, number: u64, def: &super::BlockDef) {
        let id = self.writer.define(def);
        let words = def.words();
        let atomic = def.accesses.iter().any(|access| access.atomic);
        let block = Block { id, words, def: def.accesses.clone().into(), atomic };
        if number < MAX_DIRECT {
            let number = number as usize;
            if self.blocks.len() <= number {
                let room = (number + 1).next_power_of_two();
                self.blocks.resize(room, None);
                self.known.resize(room, Known::default());
            }
            if self.blocks[number].replace(block).is_some() {
                self.writer.forget_block(number);
            }
            self.known[number] = Known {
                id: (def.accesses.len() <= MAX_ACCESSES && !atomic).then_some(id),
                guarded: def.accesses.iter().any(|access| access.guarded),
                idle: def.instructions,
            };
        } else {
            self.far_blocks.insert(number, block);
        }
    }

    /// An execution that the writer cannot take as it is.
    fn block_slowly(&mut self, number: u64, rest: &[u64]) -> Result<usize, TraceError> {
        let near = usize::try_from(number).ok().and_then(|number| self.blocks.get(number));
        let Some(block) = near.map_or_else(|| self.far_blocks.get(&number), Option::as_ref) else {
            let count = wire::data_words(rest);
            self.malformed(1 + count as u64);
            return Ok(count);
        };
        let (id, words) = (block.id, &rest[..block.words.min(rest.len())]);
        let words = &words[..wire::data_words(words)];
        let State { writer, selection, thread, addresses, stamp, .. } = self;
        if block.atomic {
            order_atomics(writer, *thread, stamp, block, words)?;
        }
        if self.plain {
            writer.execute(*thread, id, words)?;
        } else {
            addresses.clear();
            writer.addresses(id, words, addresses);
            selection.apply(*thread, addresses, &block.def);
            writer.execute_addresses(*thread, id, addresses)?;
        }
        Ok(words.len())
    }

    /// Replaces the recorder's name ids by the trace's.
    fn rename(&self, event: Event) -> Event {
        let name = |id: NameId| self.names.get(&u64::from(id.0)).copied().unwrap_or(NameId::NONE);
        match event {
            Event::Mmap { protection, flags, address, length, offset, name: id } => {
                Event::Mmap { protection, flags, address, length, offset, name: name(id) }
            }
            Event::Alloc { function, address, size, site } => {
                Event::Alloc { function, address, size, site: name(site) }
            }
            Event::Mark { number, name: id } => Event::Mark { number, name: name(id) },
            Event::Lost { references, reason } => Event::Lost { references, reason: name(reason) },
            other => other,
        }
    }
}

/// Atomic accesses of an execution keep their recorded order: each is a synchronisation on its address. Their stamps
/// and those of the recorder's own synchronisations are drawn from one counter, in the order of the stream.
#[cold]
fn order_atomics<W: Write>(
    writer: &mut TraceWriter<W>,
    thread: Thread,
    last: &mut Option<u64>,
    block: &Block,
    words: &[u64],
) -> Result<(), TraceError> {
    let mut addresses = Vec::new();
    writer.addresses(block.id, words, &mut addresses);
    for (_, object) in block.def.iter().zip(addresses).filter(|&(access, at)| access.atomic && at != 0) {
        let stamp = last.map_or(0, |last| last + 1);
        *last = Some(stamp);
        writer.event(thread, &Event::Sync { op: SyncOp::Both, object, stamp })?;
    }
    Ok(())
}

impl<W: Write> Calls for State<W> {
    type Error = TraceError;

    fn executions(&mut self, words: &[u64]) -> Result<usize, TraceError> {
        let taken = if self.plain {
            Some(self.writer.take(self.thread, &self.known, words)?)
        } else if let Some(filter) = self.selection.only_filter(self.thread) {
            Some(self.writer.take_filtered(self.thread, &self.known, words, filter)?)
        } else {
            None
        };
        if let Some(taken) = taken {
            self.malformed += taken.wrong;
            self.selection.count_filtered(taken.filtered);
            if taken.words > 0 {
                return Ok(taken.words);
            }
        }
        Ok(1 + self.block_slowly(words[0] & PAYLOAD, &words[1..])?)
    }

    fn references(&mut self, words: &[u64]) -> Result<(), TraceError> {
        if self.plain {
            return self.writer.reference_words(self.thread, words);
        }
        let mut kept = std::mem::take(&mut self.addresses);
        for few in words.chunks(FEW) {
            kept.clear();
            let selection = &mut self.selection;
            if let Some(filter) = selection.only_filter(self.thread) {
                let mut count = 0;
                kept.resize(few.len(), 0);
                for &word in few {
                    kept[count] = word;
                    count += usize::from(filter.passes(runs::address(word), runs::is_write(word)));
                }
                kept.truncate(count);
                selection.count_filtered((few.len() - count) as u64);
            } else {
                let mut passes = |w: u64| selection.passes(self.thread, runs::address(w), runs::is_write(w));
                kept.extend(few.iter().copied().filter(|&w| passes(w)));
            }
            self.writer.reference_words(self.thread, &kept)?;
            self.writer.advance(self.thread, (few.len() - kept.len()) as u64)?;
        }
        self.addresses = kept;
        Ok(())
    }

    fn control(&mut self, control: Control<'_>) -> Result<(), TraceError> {
        match control {
            Control::Define { number, def, .. } => self.define(number, &def),
            Control::Thread(thread) => self.thread = thread,
            Control::Event(event) => {
                let mut event = self.rename(event);
                if let (Event::Sync { stamp, .. }, Some(last)) = (&mut event, &mut self.stamp) {
                    *last += 1;
                    *stamp = *last;
                }
                self.writer.event(self.thread, &event)?;
            }
            Control::Name { id, words, length } => {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take(length).collect();
                let name = self.writer.name(&String::from_utf8_lossy(&bytes));
                self.names.insert(id, name);
            }
            Control::Symbol([name, address, size, object]) => {
                let id = |id: u64| self.names.get(&id).copied().unwrap_or(NameId::NONE);
                let symbol = Symbol { name: id(name), address, size, object: id(object) };
                self.writer.symbol(symbol);
            }
            Control::Advance(units) => self.writer.advance(self.thread, units)?,
        }
        Ok(())
    }

    fn malformed(&mut self, words: u64) {
        self.malformed += words;
    }
}
