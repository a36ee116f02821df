//! Writes a trace.

mod finish;
mod threads;

use super::code::{BlockDef, CodeBlockId, CodeBlocks};
use super::encode::{Known, Sealed, Taken};
use super::event::Event;
use super::format::{BlockSink, Header, MAX_ACCESSES};
use super::frames::{Change, FrameTable};
use super::kind::Kind;
use super::names::{NameId, Names, Symbol};
use super::order::OrderEncoder;
use super::rounds::Rounds;
use super::runs::{self, Runs};
use super::TraceError;
use crate::ids::Thread;
use std::collections::HashMap;
use std::io::Write;
use threads::{ThreadWriter, Threads};

/// The longest run of references that becomes one discovered code block.
const MAX_RUN: usize = 32;

/// Writes a trace to `W`: executions of code blocks or single references by thread, events, and (for imports and
/// transforms) the total order. Its memory does not grow with the length of the trace, but for the index and the frame
/// table.
///
/// After an error (a full disk) nothing more is written; what was written before is a readable trace.
pub struct TraceWriter<W: Write> {
    sink: BlockSink<W>,
    header: Header,
    frames: FrameTable,
    frames_written: u32,
    names: Names,
    names_written: usize,
    symbols: Vec<Symbol>,
    /// How many of them are in the file.
    symbols_written: usize,
    blocks: CodeBlocks,
    runs: Runs,
    threads: Threads,
    order: OrderEncoder,
    counts: Counts,
    /// The code blocks of single references, by kind.
    lone: Box<[Option<CodeBlockId>; 256]>,
    /// Scratch: the raw bytes of a references block. Kept, since new memory for each costs as much as the compression.
    sealed: Sealed,
    /// Scratch: the addresses of an execution.
    addresses: Vec<u64>,
    /// Scratch: those of them that are not 0.
    present: Vec<u64>,
}

/// What the writer counts by itself.
#[derive(Debug, Default)]
struct Counts {
    events: u64,
    lost: u64,
}

impl<W: Write> TraceWriter<W> {
    /// Begins a trace.
    pub fn new(out: W, header: &Header) -> Result<Self, TraceError> {
        let mut sink = BlockSink::new(out, 0, Vec::new())?;
        sink.put_bytes(&header.encode()?)?;
        sink.flush()?;
        Ok(TraceWriter {
            sink,
            header: header.clone(),
            frames: FrameTable::default(),
            frames_written: 0,
            names: Names::default(),
            names_written: 0,
            symbols: Vec::new(),
            symbols_written: 0,
            blocks: CodeBlocks::default(),
            runs: Runs::default(),
            threads: Threads::new(header.grain),
            order: OrderEncoder::default(),
            counts: Counts::default(),
            lone: Box::new([None; 256]),
            sealed: Sealed::default(),
            addresses: Vec::new(),
            present: Vec::new(),
        })
    }

    /// Makes a code block known.
    pub fn define(&mut self, def: &BlockDef) -> CodeBlockId {
        self.blocks.define(def)
    }

    /// One execution of a code block by `thread`: the virtual addresses of those accesses that are not derived. Fewer
    /// words than such accesses are a side exit; word 0 is an access that did not happen. Words beyond are ignored.
    pub fn execute(&mut self, thread: Thread, block: CodeBlockId, words: &[u64]) -> Result<(), TraceError> {
        if !self.thread(thread).run.is_empty() {
            self.end_run(thread)?;
        }
        let code = self.blocks.get(block);
        let words = &words[..words.len().min(code.words)];
        let guarded = words.contains(&0);
        if code.next.is_none() && !guarded {
            return self.encode(thread, block, words);
        }
        let mut addresses = std::mem::take(&mut self.addresses);
        addresses.clear();
        self.addresses(block, words, &mut addresses);
        let result = self.execute_addresses(thread, block, &addresses);
        self.addresses = addresses;
        result
    }

    /// The addresses of an execution with these words, 0 for accesses that did not happen.
    pub(super) fn addresses(&self, block: CodeBlockId, words: &[u64], out: &mut Vec<u64>) {
        match &self.blocks.get(block).expansion {
            Some(expansion) => expansion.expand(words, out),
            None => out.extend_from_slice(words),
        }
    }

    /// One execution with these addresses, 0 for accesses that did not happen.
    pub(super) fn execute_addresses(
        &mut self,
        thread: Thread,
        block: CodeBlockId,
        addresses: &[u64],
    ) -> Result<(), TraceError> {
        let mut block = block;
        let mut left = addresses;
        loop {
            let code = self.blocks.get(block);
            let (n, next) = (code.kinds.len(), code.next);
            let (now, later) = left.split_at(left.len().min(n));
            self.execute_piece(thread, block, now)?;
            match next {
                Some(next) if now.len() == n => (block, left) = (next, later),
                _ => return Ok(()),
            }
        }
    }

    /// Takes executions in a recorder's words from the start of `words`, as far as they are simple; none if the first
    /// is not: [`TraceWriter::execute`] does it then. `known` is by the recorder's numbers of code blocks.
    pub(super) fn take(
        &mut self,
        thread: Thread,
        known: &[Known],
        words: &[u64],
    ) -> Result<Taken, TraceError> {
        self.make_room(thread)?;
        let TraceWriter { threads, blocks, .. } = self;
        let words = threads.of(thread).encoder.take(known, words, blocks);
        Ok(Taken { words, left_out: 0 })
    }

    /// Takes the next executions of a loop of a recorder's code block at once, as far as they are as predicted. Returns
    /// how many; what is not taken is to be rolled out for [`TraceWriter::take`].
    pub(super) fn take_loop(
        &mut self,
        thread: Thread,
        number: usize,
        rounds: &mut Rounds<'_>,
    ) -> Result<u64, TraceError> {
        self.make_room(thread)?;
        Ok(self.threads.of(thread).encoder.take_loop(number, rounds))
    }

    /// Words of recorders in sealed blocks and before changes of mappings that should have been addresses and are not.
    pub(super) fn wrong(&self) -> u64 {
        self.threads.wrong()
    }

    /// Says that a recorder's number of a code block is now another one's.
    pub(super) fn forget_block(&mut self, number: usize) {
        self.threads.running_mut().for_each(|writer| writer.encoder.forget_block(number));
    }

    /// The same as [`TraceWriter::take`] with only those references, by address and whether they write, that `passes`
    /// keeps.
    pub(super) fn take_some(
        &mut self,
        thread: Thread,
        known: &[Known],
        words: &[u64],
        passes: impl FnMut(u64, bool) -> bool,
    ) -> Result<Taken, TraceError> {
        self.make_room(thread)?;
        let TraceWriter { threads, blocks, .. } = self;
        Ok(threads.of(thread).encoder.take_some(known, words, blocks, passes))
    }

    fn execute_piece(
        &mut self,
        thread: Thread,
        block: CodeBlockId,
        addresses: &[u64],
    ) -> Result<(), TraceError> {
        if addresses.contains(&0) {
            return self.execute_guarded(thread, block, addresses);
        }
        let layout = &self.blocks.get(block).layout;
        if layout.is_plain() {
            return self.encode(thread, block, addresses);
        }
        let words: Vec<u64> = layout.access[..layout.words]
            .iter()
            .filter_map(|&j| addresses.get(usize::from(j)).copied())
            .collect();
        self.encode(thread, block, &words)
    }

    /// One execution of a code block by itself.
    fn encode(&mut self, thread: Thread, block: CodeBlockId, words: &[u64]) -> Result<(), TraceError> {
        self.make_room(thread)?;
        let TraceWriter { threads, blocks, .. } = self;
        threads.of(thread).encoder.execute(block, words, blocks);
        Ok(())
    }

    /// An execution in which some accesses did not happen: of the code block that has only the others.
    fn execute_guarded(
        &mut self,
        thread: Thread,
        block: CodeBlockId,
        addresses: &[u64],
    ) -> Result<(), TraceError> {
        let mask = addresses.iter().enumerate().fold(0, |mask, (j, &a)| mask | u64::from(a != 0) << j);
        let code = self.blocks.get(block);
        let instructions = u64::from(code.instructions(addresses.len()));
        if mask == 0 {
            return self.advance(thread, instructions);
        }
        if addresses.len() == code.kinds.len() {
            if let Some(derived) = self.blocks.with_accesses(block, mask) {
                let mut present = std::mem::take(&mut self.present);
                present.clear();
                present.extend(addresses.iter().filter(|&&a| a != 0));
                let result = self.encode(thread, derived, &present);
                self.present = present;
                return result;
            }
        }
        for (j, &address) in addresses.iter().enumerate().filter(|(_, &a)| a != 0) {
            self.access(thread, block, j, address)?;
        }
        self.advance(thread, instructions)
    }

    /// One access of a code block by itself; its instructions are not counted ([`TraceWriter::advance`] does).
    pub fn access(
        &mut self,
        thread: Thread,
        block: CodeBlockId,
        access: usize,
        address: u64,
    ) -> Result<(), TraceError> {
        let (mut block, mut access) = (block, access);
        while let Some(next) = self.blocks.get(block).next.filter(|_| access >= MAX_ACCESSES) {
            (block, access) = (next, access - MAX_ACCESSES);
        }
        let single = self.blocks.single(block, access);
        self.encode(thread, single, &[address])
    }

    /// One reference of a stream without code blocks: `pc` is the instruction's address, or 0 if it is not known.
    /// Counts as one unit of virtual time.
    pub fn reference(&mut self, thread: Thread, pc: u64, address: u64, kind: Kind) -> Result<(), TraceError> {
        if pc == 0 {
            return self.lone_reference(thread, address, kind);
        }
        let writer = self.thread(thread);
        if writer.run.len() >= MAX_RUN || writer.run.last().is_some_and(|&(last, _)| pc <= last) {
            self.end_run(thread)?;
        }
        let writer = self.thread(thread);
        writer.run.push((pc, kind));
        writer.run_addresses.push(address);
        Ok(())
    }

    /// A reference by an instruction that is not known: a code block of its own, one for each kind.
    fn lone_reference(&mut self, thread: Thread, address: u64, kind: Kind) -> Result<(), TraceError> {
        if !self.thread(thread).run.is_empty() {
            self.end_run(thread)?;
        }
        let block = match self.lone[usize::from(kind.0)] {
            Some(block) => block,
            None => *self.lone[usize::from(kind.0)].insert(self.blocks.discover_single((0, kind))),
        };
        self.encode(thread, block, &[address])
    }

    /// References in words of the parallel flavour ([`super::wire`]), each of which counts as one unit of virtual time.
    /// A run ends at the end of `words`.
    pub(super) fn reference_words(&mut self, thread: Thread, words: &[u64]) -> Result<(), TraceError> {
        let mut left = words;
        while !left.is_empty() {
            self.make_room(thread)?;
            let TraceWriter { threads, blocks, runs, .. } = self;
            let ThreadWriter { encoder, last_run, .. } = threads.of(thread);
            let taken = encoder.take_runs(left, runs::ADDRESS, blocks, |words, blocks| {
                let found = runs.find(words, *last_run, blocks);
                *last_run = found.number;
                (found.id, found.len)
            });
            left = &left[taken..];
        }
        Ok(())
    }

    /// Turns the references collected so far into an execution of a discovered code block.
    fn end_run(&mut self, thread: Thread) -> Result<(), TraceError> {
        let writer = self.thread(thread);
        if writer.run.is_empty() {
            return Ok(());
        }
        let (mut run, mut addresses) =
            (std::mem::take(&mut writer.run), std::mem::take(&mut writer.run_addresses));
        if let Some(block) = self.blocks.discover(&run) {
            self.encode(thread, block, &addresses)?;
        } else {
            for (&(_, kind), address) in run.iter().zip(&addresses) {
                let block = self.blocks.discover_single((0, kind));
                self.encode(thread, block, std::slice::from_ref(address))?;
            }
        }
        run.clear();
        addresses.clear();
        let writer = self.thread(thread);
        (writer.run, writer.run_addresses) = (run, addresses);
        Ok(())
    }

    /// Adds to the thread's virtual time.
    pub fn advance(&mut self, thread: Thread, units: u64) -> Result<(), TraceError> {
        self.thread(thread).encoder.advance(units);
        self.make_room(thread)
    }

    /// An event of the thread, before its next reference. Frames whose mapping goes away are retired.
    pub fn event(&mut self, thread: Thread, event: &Event) -> Result<(), TraceError> {
        self.end_run(thread)?;
        self.counts.events += 1;
        if let Event::Lost { references, .. } = event {
            self.counts.lost = self.counts.lost.saturating_add(*references);
        }
        self.apply(event)?;
        self.thread(thread).encoder.event(event);
        self.make_room(thread)?;
        if *event == Event::ThreadEnd {
            self.seal(thread)?;
            self.threads.end(thread);
        }
        Ok(())
    }

    /// Lets an event change what addresses mean.
    fn apply(&mut self, event: &Event) -> Result<(), TraceError> {
        let Some(change) = Change::of(event) else { return Ok(()) };
        // Earlier references of any thread mean the frames as they were.
        self.end_runs()?;
        let TraceWriter { threads, frames, .. } = self;
        threads.running_mut().for_each(|writer| writer.encoder.translate(frames));
        if !self.frames.change(change) {
            return Ok(());
        }
        match change {
            Change::Retired { address, length } => {
                self.threads.running_mut().for_each(|writer| writer.encoder.forget(address, length));
                Ok(())
            }
            // The same frames have other addresses then. A new block knows none of the old ones.
            Change::Moved { .. } => self.seal_all(),
        }
    }

    /// Turns the references that all threads have collected into executions.
    fn end_runs(&mut self) -> Result<(), TraceError> {
        self.threads.running_numbers().into_iter().try_for_each(|thread| self.end_run(thread))
    }

    /// Makes room for the next execution of a thread.
    #[inline]
    fn make_room(&mut self, thread: Thread) -> Result<(), TraceError> {
        if self.thread(thread).encoder.is_full() {
            self.seal(thread)?;
        }
        Ok(())
    }

    /// Writes the blocks in progress of all threads.
    fn seal_all(&mut self) -> Result<(), TraceError> {
        for thread in self.threads.running_numbers() {
            self.end_run(thread)?;
            self.seal(thread)?;
        }
        Ok(())
    }

    /// The id of a name, which is entered if it is new.
    pub fn name(&mut self, name: &str) -> NameId {
        self.names.intern(name)
    }

    /// The names so far.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The data symbols so far.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Adds a data symbol of the program.
    pub fn symbol(&mut self, symbol: Symbol) {
        self.symbols.push(symbol);
    }

    /// Appends a turn to the total order: the next `references` references of `thread`. Turns may run ahead of the
    /// references or behind them.
    pub fn turn(&mut self, thread: Thread, references: u64) -> Result<(), TraceError> {
        let mut left = references;
        while left > 0 {
            left = self.order.push(thread, left);
            if self.order.is_full() {
                self.seal_order()?;
            }
        }
        Ok(())
    }

    /// Several turns in order.
    pub fn order(&mut self, turns: impl IntoIterator<Item = (Thread, u64)>) -> Result<(), TraceError> {
        turns.into_iter().try_for_each(|(thread, references)| self.turn(thread, references))
    }

    /// The references so far, but for blocks in progress, of each code block that was defined.
    pub(super) fn by_block(&self) -> HashMap<CodeBlockId, u64> {
        let mut all = HashMap::new();
        for (block, count) in self.threads.by_block() {
            *all.entry(self.blocks.defined(block)).or_default() += count;
        }
        all
    }

    /// References written so far by all threads.
    pub fn references(&self) -> u64 {
        self.threads.references()
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.sink.offset()
    }

    #[inline]
    fn thread(&mut self, thread: Thread) -> &mut ThreadWriter {
        self.threads.of(thread)
    }

    /// Writes the block in progress of a thread, and before it whatever it refers to.
    fn seal(&mut self, thread: Thread) -> Result<(), TraceError> {
        let TraceWriter { threads, frames, .. } = self;
        threads.of(thread).encoder.translate(frames);
        if frames.is_full() {
            return Err(TraceError::TooManyPages);
        }
        self.write_tables()?;
        let TraceWriter { threads, blocks, sink, sealed, .. } = self;
        let Some(header) = threads.of(thread).encoder.seal(sealed, blocks) else { return Ok(()) };
        sink.put_parts(header, &sealed.steps, &sealed.values)?;
        Ok(())
    }
}
