//! Takes the segments of a recording and writes the trace.

use super::code::CodeBlockId;
use super::defined::{Block, Defined};
use super::event::{Event, SyncOp};
use super::names::{NameId, Symbol};
use super::region::Place;
use super::rounds::{Places, Rounds};
use super::runs;
use super::selection::{IngestOptions, Selection};
use super::summary::{Ending, Summary};
use super::wire::{self, Behind, Calls, Control, Cut, Flavour, BLOCK, PAYLOAD};
use super::writer::TraceWriter;
use super::TraceError;
use crate::ids::Thread;
use homing_wire::{op, operation};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

/// mmap(2): may be executed.
const PROT_EXEC: u32 = 4;

/// References of the parallel flavour that are filtered at a time; virtual time is late by less than this.
const FEW: usize = 256;

/// A file that a program has mapped to execute it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeMapping {
    /// The file's path.
    pub file: String,
    /// Address of the mapping.
    pub address: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Where it begins in the file.
    pub offset: u64,
}

/// What is known of a stream.
#[derive(Debug, Default)]
struct Stream {
    next_index: u32,
    /// Words of that segment that were taken before it arrived: they come before an event of another stream.
    taken: u32,
    /// The start of something that goes on in the next segment.
    tail: Vec<u64>,
}

/// Gives the words of a cut's segment from a number on, up to the cut.
type Peek<'a> = &'a dyn Fn(Cut, u32) -> Vec<u64>;

/// Rewords a name that a recorder sends, or a call site, so that people can read it. `None`: it stays as it is.
pub type Reword = Box<dyn FnMut(NameKind, &str) -> Option<String> + Send>;

/// Asked again and again during work whose length only the recorder's words give. True: it is to end now.
pub type GiveUp = Box<dyn FnMut() -> bool + Send>;

/// What a recorder names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A variable, a file, a mark.
    Plain,
    /// The frames of a call site.
    Site,
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
    defined: Defined,
    names: HashMap<u64, NameId>,
    reword: Reword,
    give_up: GiveUp,
    /// Mappings of code, as name, address, length and offset.
    code: BTreeSet<(NameId, u64, u64, u64)>,
    /// Where code blocks lie, as far as the recorder says it.
    places: HashMap<CodeBlockId, u64>,
    /// Scratch: the addresses of an execution.
    addresses: Vec<u64>,
    /// Scratch: some executions of a loop.
    loop_words: Vec<u64>,
    loop_places: Places,
    /// Whether everything is kept now, so that executions go straight to the writer.
    plain: bool,
    /// In the serial flavour, whose one stream is in execution order: the last stamp given to a synchronisation.
    stamp: Option<u64>,
    malformed: u64,
    /// Counts of windows, and how the program ended.
    counted: Summary,
}

impl<W: Write> Ingest<W> {
    /// Takes segments of this flavour into `writer`.
    pub fn new(writer: TraceWriter<W>, flavour: Flavour, options: IngestOptions) -> Self {
        let state = State {
            writer,
            selection: Selection::new(options, flavour),
            thread: Thread(0),
            defined: Defined::default(),
            names: HashMap::new(),
            reword: Box::new(|_, _| None),
            give_up: Box::new(|| false),
            code: BTreeSet::new(),
            places: HashMap::new(),
            addresses: Vec::new(),
            loop_words: Vec::new(),
            loop_places: Vec::new(),
            plain: Selection::new(options, flavour).is_everything(),
            stamp: (flavour == Flavour::Serial).then_some(0),
            malformed: 0,
            counted: Summary::default(),
        };
        Ingest { state, flavour, streams: HashMap::new(), lost_segments: 0 }
    }

    /// Lets names be reworded from now on.
    pub fn reword(&mut self, reword: Reword) {
        self.state.reword = reword;
    }

    /// Lets long work be ended. What is left of it then is counted as lost.
    pub fn give_up(&mut self, give_up: GiveUp) {
        self.state.give_up = give_up;
    }

    /// A filled segment: number `index` (from 0) of `stream`. Segments of one stream come in order; one that is missing
    /// is counted and marked with an event.
    pub fn segment(&mut self, stream: u32, index: u32, words: &[u64]) -> Result<(), TraceError> {
        self.segment_among(stream, index, words, &|_, _| Vec::new())
    }

    /// The same in the parallel flavour. What other streams had written when this one removed a mapping is taken first:
    /// `others` gives the words of a cut's segment from a number on, up to the cut; those not written yet are 0.
    pub fn segment_among(
        &mut self,
        stream: u32,
        index: u32,
        words: &[u64],
        others: Peek<'_>,
    ) -> Result<(), TraceError> {
        let Some(thread) = wire::thread(stream.into()) else {
            self.state.malformed += words.len() as u64;
            return Ok(());
        };
        if self.flavour == Flavour::Parallel {
            self.state.thread = thread;
        }
        let known = self.streams.entry(stream).or_default();
        if index < known.next_index {
            self.state.malformed += words.len() as u64;
            return Ok(());
        }
        let lost = index - known.next_index;
        known.next_index = index.saturating_add(1);
        let mut tail = std::mem::take(&mut known.tail);
        let mut words = words;
        let before = std::mem::take(&mut known.taken) as usize;
        if lost > 0 {
            self.lost_segments += u64::from(lost);
            self.parse(&tail, Behind::End, others)?;
            tail.clear();
            self.state.lose(0, "segments of the recorder never arrived")?;
        } else {
            words = &words[before.min(words.len())..];
        }
        if !tail.is_empty() {
            tail.extend_from_slice(words);
            words = &tail;
        }
        let taken = self.parse(words, Behind::Segment, others)?;
        let left = words[taken..].to_vec();
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.tail = left;
        }
        Ok(())
    }

    /// Whether segment `index` of a stream has not come yet.
    pub fn expects(&self, stream: u32, index: u32) -> bool {
        self.streams.get(&stream).is_none_or(|known| index >= known.next_index)
    }

    fn parse(&mut self, words: &[u64], behind: Behind, others: Peek<'_>) -> Result<usize, TraceError> {
        let Ingest { state, streams, flavour, .. } = self;
        let mut taking = Taking { state, streams, others };
        wire::parse(words, *flavour, behind, &mut taking)
    }

    /// Whether nothing more will be kept: the limit is reached, or the region of interest has ended. The recorder may
    /// stop.
    pub fn is_complete(&self) -> bool {
        self.state.selection.is_complete()
    }

    /// Whether the recording is before its region of interest, in it, or behind it.
    pub fn place(&self) -> Place {
        self.state.selection.place()
    }

    /// The writer, to add what the recorder does not know.
    pub fn writer(&mut self) -> &mut TraceWriter<W> {
        &mut self.state.writer
    }

    /// The files that the program has mapped to execute them.
    pub fn code_mappings(&self) -> Vec<CodeMapping> {
        let file = |name| self.state.writer.names().get(name).to_owned();
        let mapping = |&(name, address, length, offset): &(NameId, u64, u64, u64)| CodeMapping {
            file: file(name),
            address,
            length,
            offset,
        };
        self.state.code.iter().map(mapping).collect()
    }

    /// References kept so far.
    pub fn references(&self) -> u64 {
        self.state.writer.references()
    }

    /// Words of the windows that have ended (`homing record --windows`).
    pub fn window_words(&self) -> u64 {
        self.state.counted.window_words
    }

    /// Ends the trace.
    pub fn finish(mut self) -> Result<(W, Summary), TraceError> {
        self.take_rest()?;
        let mut state = self.state;
        state.writer.flush()?;
        if self.flavour == Flavour::Serial {
            state.malformed += state.writer.wrong();
        }
        let by_file = state.by_file();
        state.writer.finish(state.selection.count(Summary {
            by_file,
            lost_segments: self.lost_segments,
            malformed: state.malformed,
            ..state.counted
        }))
    }

    /// Says how the program has ended.
    pub fn ended(&mut self, ending: Option<Ending>) {
        self.state.counted.ending = ending;
    }

    /// Takes what of the words has waited for more: nothing follows. Until then the last things that the recorder has
    /// sent are not in the writer.
    pub fn take_rest(&mut self) -> Result<(), TraceError> {
        let mut streams: Vec<_> = self.streams.drain().collect();
        streams.sort_by_key(|(number, _)| *number);
        for (number, stream) in streams {
            if self.flavour == Flavour::Parallel {
                self.state.thread = Thread(number);
            }
            self.parse(&stream.tail, Behind::End, &|_, _| Vec::new())?;
        }
        Ok(())
    }
}

impl<W: Write> State<W> {
    /// The references of code of each file.
    fn by_file(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        if self.places.is_empty() {
            return all;
        }
        for (block, count) in self.writer.by_block() {
            let place = self.places.get(&block).copied().unwrap_or(0);
            let holds = |&&(_, address, length, _): &&(NameId, u64, u64, u64)| {
                place.checked_sub(address).is_some_and(|offset| offset < length)
            };
            let file = self.code.iter().find(holds).map_or("", |&(name, ..)| self.writer.names().get(name));
            *all.entry(file.to_owned()).or_default() += count;
        }
        all.retain(|_, &mut count| count > 0);
        all
    }

    fn define(&mut self, number: u64, address: u64, def: &super::BlockDef, steps: &[bool]) {
        let id = self.writer.define(def);
        if address != 0 {
            self.places.insert(id, address);
        }
        // Loops are of the parallel flavour.
        if self.defined.add(number, id, def, steps, self.stamp.is_none()) {
            self.writer.forget_block(number as usize);
        }
    }

    /// A loop of executions ([`op::LOOP`]), with which `words` begins. Returns how many words it took.
    fn loop_of_executions(&mut self, words: &[u64]) -> Result<usize, TraceError> {
        let number = words[0] & PAYLOAD;
        let Some(block) = self.defined.get(number) else {
            let count = 1 + wire::data_words(&words[1..]);
            self.malformed(count as u64);
            return Ok(count);
        };
        let Some(mut rounds) =
            Rounds::new(words, block.steps.iter().copied(), std::mem::take(&mut self.loop_places))
        else {
            self.malformed(words.len() as u64);
            return Ok(words.len());
        };
        if !rounds.sound {
            self.malformed(rounds.words as u64);
            self.loop_places = rounds.places;
            return Ok(rounds.words);
        }
        let references = block.def.len() as u64;
        let mut executions = std::mem::take(&mut self.loop_words);
        // Where executions are not as predicted, more and more are rolled out at a time.
        let mut few = 1u64;
        loop {
            if (self.give_up)() {
                self.lose(rounds.left.saturating_mul(references), "the recording was ended within a loop")?;
                break;
            }
            let taken = if self.plain && rounds.plain {
                self.writer.take_loop(self.thread, number as usize, &mut rounds)?
            } else {
                0
            };
            few = if taken > 0 { 1 } else { few.saturating_mul(2) };
            if !rounds.next(BLOCK | number, few, &mut executions) {
                break;
            }
            let mut at = 0;
            while at < executions.len() {
                at += self.executions(&executions[at..])?;
            }
        }
        self.loop_words = executions;
        self.loop_places = rounds.places;
        Ok(rounds.words)
    }

    /// Counts references that are lost, for a reason, and says so in the trace.
    fn lose(&mut self, references: u64, reason: &str) -> Result<(), TraceError> {
        let reason = self.writer.name(reason);
        self.writer.event(self.thread, &Event::Lost { references, reason })
    }

    /// What `words` begin with: an execution, or a loop of them.
    fn one_by_one(&mut self, words: &[u64]) -> Result<usize, TraceError> {
        match operation(words[0]) {
            op::LOOP => self.loop_of_executions(words),
            _ => Ok(1 + self.block_slowly(words[0] & PAYLOAD, &words[1..])?),
        }
    }

    /// An execution that the writer cannot take as it is.
    fn block_slowly(&mut self, number: u64, rest: &[u64]) -> Result<usize, TraceError> {
        let Some(block) = self.defined.get(number) else {
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

/// Replaces `kept` by those of the words whose references pass.
fn keep(words: &[u64], kept: &mut Vec<u64>, mut passes: impl FnMut(u64, bool) -> bool) {
    kept.clear();
    kept.resize(words.len(), 0);
    let mut count = 0;
    for &word in words {
        // No branch: whether one passes is hard to foretell.
        kept[count] = word;
        count += usize::from(passes(runs::address(word), runs::is_write(word)));
    }
    kept.truncate(count);
}

/// Takes what the words of a stream say.
struct Taking<'a, W: Write> {
    state: &'a mut State<W>,
    streams: &'a mut HashMap<u32, Stream>,
    others: Peek<'a>,
}

impl<W: Write> Taking<'_, W> {
    /// Takes what another stream had written by the moment of a cut, as far as it has not arrived. Such words hold no
    /// cuts: the stream that makes one posts it before there is another.
    fn catch_up(&mut self, cut: Cut) -> Result<(), TraceError> {
        let Taking { state, streams, others } = self;
        let stream = streams.entry(cut.stream).or_default();
        if cut.index != stream.next_index || cut.words <= stream.taken || !stream.tail.is_empty() {
            return Ok(());
        }
        let words = others(cut, stream.taken);
        let own = std::mem::replace(&mut state.thread, Thread(cut.stream));
        let taken = wire::parse(&words, Flavour::Parallel, Behind::Unwritten, *state)?;
        state.thread = own;
        stream.taken += taken as u32;
        Ok(())
    }
}

impl<W: Write> Calls for Taking<'_, W> {
    type Error = TraceError;

    fn executions(&mut self, words: &[u64]) -> Result<usize, TraceError> {
        self.state.executions(words)
    }

    fn references(&mut self, words: &[u64]) -> Result<(), TraceError> {
        self.state.references(words)
    }

    fn control(&mut self, control: Control<'_>) -> Result<(), TraceError> {
        match control {
            Control::Cut(cut) => self.catch_up(cut),
            other => self.state.control(other),
        }
    }

    fn malformed(&mut self, words: u64) {
        self.state.malformed(words);
    }
}

impl<W: Write> Calls for State<W> {
    type Error = TraceError;

    fn executions(&mut self, words: &[u64]) -> Result<usize, TraceError> {
        // Else the writer takes many at once, loops among them, up to the end of a references block.
        if (self.give_up)() {
            return self.one_by_one(words);
        }
        let State { writer, selection, thread, defined: Defined { known, .. }, plain, .. } = self;
        let taken = if *plain {
            writer.take(*thread, known, words)?
        } else if let Some(filter) = selection.only_filter(*thread) {
            let taken = writer.take_some(*thread, known, words, |a, write| filter.passes(a, write))?;
            selection.count_filtered(taken.left_out);
            taken
        } else {
            writer.take_some(*thread, known, words, |a, write| selection.keeps(*thread, a, write))?
        };
        if taken.words > 0 {
            return Ok(taken.words);
        }
        self.one_by_one(words)
    }

    fn references(&mut self, words: &[u64]) -> Result<(), TraceError> {
        if self.plain {
            return self.writer.reference_words(self.thread, words);
        }
        let mut kept = std::mem::take(&mut self.addresses);
        for few in words.chunks(FEW) {
            let State { selection, thread, .. } = self;
            if let Some(filter) = selection.only_filter(*thread) {
                keep(few, &mut kept, |address, write| filter.passes(address, write));
                selection.count_filtered((few.len() - kept.len()) as u64);
            } else {
                keep(few, &mut kept, |address, write| selection.keeps(*thread, address, write));
            }
            self.writer.reference_words(self.thread, &kept)?;
            self.writer.advance(self.thread, (few.len() - kept.len()) as u64)?;
        }
        self.addresses = kept;
        Ok(())
    }

    fn control(&mut self, control: Control<'_>) -> Result<(), TraceError> {
        match control {
            Control::Define { number, address, def, steps } => self.define(number, address, &def, &steps),
            Control::Thread(thread) => self.thread = thread,
            Control::Event(event) => {
                let mut event = self.rename(event);
                if let (Event::Sync { stamp, .. }, Some(last)) = (&mut event, &mut self.stamp) {
                    *last += 1;
                    *stamp = *last;
                }
                if let Event::Mmap { protection, address, length, offset, name, .. } = &event {
                    if protection & PROT_EXEC != 0 && *name != NameId::NONE {
                        self.code.insert((*name, *address, *length, *offset));
                    }
                }
                self.selection.event(&event);
                self.counted.window(&event);
                self.writer.event(self.thread, &event)?;
            }
            Control::Name { id, words, length, site } => {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).take(length).collect();
                let text = String::from_utf8_lossy(&bytes);
                let kind = if site { NameKind::Site } else { NameKind::Plain };
                let name = self.writer.name((self.reword)(kind, &text).as_deref().unwrap_or(&text));
                self.names.insert(id, name);
            }
            Control::Symbol([name, address, size, object]) => {
                let id = |id: u64| self.names.get(&id).copied().unwrap_or(NameId::NONE);
                let symbol = Symbol { name: id(name), address, size, object: id(object) };
                self.writer.symbol(symbol);
            }
            Control::Advance(units) => self.writer.advance(self.thread, units)?,
            Control::Region { begins } => {
                self.selection.change_region(begins);
                self.plain = self.selection.is_everything();
            }
            // Who takes the segments has begun a new trace.
            Control::Exec => {}
            Control::Cut(_) => self.malformed(2),
        }
        Ok(())
    }

    fn malformed(&mut self, words: u64) {
        self.malformed += words;
    }
}
