//! The decoder of references blocks.
//!
//! Part 1 of a block (dictionary, tokens, events) is enough for [`super::steps`]; addresses need part 2 as well. Long
//! runs are decoded access by access, each with its state in registers; short ones execution by execution.

use super::columns::{Mode, SlotHead};
use super::encode::{ADVANCE, EVENT, MANY, MANY_MASKED, MAX_REFERENCES, ONE_MASKED};
use super::event::Event;
use super::format::{self, BlockHeader, FRAME_SHIFT, MAX_ACCESSES};
use super::kind::Kind;
use super::varint::Cursor;

/// Executions from which a run is decoded access by access.
const LONG_RUN: usize = 4;
/// References that a [`Chunk`] takes, but for the last execution.
const CHUNK: usize = 2048;

/// A line of a block's dictionary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    slot: u32,
    kinds: u32,
    pub accesses: u32,
    pub instructions: u32,
    pub atomics: u32,
    /// The code block's own entry (itself, if it is no prefix).
    root: u32,
}

impl Entry {
    /// Of no accesses.
    pub(super) const NONE: Entry =
        Entry { slot: 0, kinds: 0, accesses: 0, instructions: 0, atomics: 0, root: 0 };
}

/// Executions with one mask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The number of the dictionary's entry.
    entry: u32,
    pub count: u64,
    mask: u64,
}

/// What a block consists of.
#[derive(Debug)]
pub(super) enum Token {
    Run(Run),
    /// Boxed to keep runs, of which there are millions, small.
    Event(Box<Event>),
    Advance(u64),
}

/// Part 1 of a references block, read token by token.
#[derive(Debug)]
pub(super) struct Tokens {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    event_at: usize,
    entries: Vec<Entry>,
    kinds: Vec<Kind>,
    slots: u32,
    /// References that tokens have yet to account for.
    left: u64,
}

/// The two zstd frames of a references block and the raw length of each.
fn parts(header: &BlockHeader, stored: &[u8]) -> Option<[(usize, usize, usize); 2]> {
    let first = format::read_u32(stored, 0)? as usize;
    let raw = format::read_u32(stored, 4)?;
    let second = header.raw.checked_sub(raw)?;
    (first <= stored.len() - 8)
        .then_some([(8, 8 + first, raw as usize), (8 + first, stored.len(), second as usize)])
}

/// The stored bytes of a references block from its compressed parts.
pub(super) fn join_parts(steps: &[u8], steps_raw: usize, values: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(8 + steps.len() + values.len());
    stored.extend((steps.len() as u32).to_le_bytes());
    stored.extend((steps_raw as u32).to_le_bytes());
    stored.extend_from_slice(steps);
    stored.extend_from_slice(values);
    stored
}

impl Tokens {
    pub(super) fn open(header: &BlockHeader, stored: &[u8]) -> Result<Tokens, String> {
        if header.b > MAX_REFERENCES + MAX_ACCESSES as u32 {
            return Err(format!("{} references in one block", header.b));
        }
        let [(from, to, raw), _] = parts(header, stored).ok_or("lengths of its parts are wrong")?;
        let bytes = format::decompress(&stored[from..to], raw)?;
        Self::parse(header, bytes).ok_or_else(|| "malformed dictionary".to_owned())
    }

    fn parse(header: &BlockHeader, bytes: Vec<u8>) -> Option<Tokens> {
        let mut cursor = Cursor::new(&bytes);
        let count = cursor.varint()?;
        let tokens = usize::try_from(cursor.varint()?).ok()?;
        let (mut entries, mut kinds, mut slots): (Vec<Entry>, Vec<Kind>, u32) = (Vec::new(), Vec::new(), 0);
        for number in 0..count {
            let parent = cursor.varint()?;
            let accesses = cursor.varint32()?;
            let instructions = cursor.varint32()?;
            if accesses == 0 || accesses as usize > MAX_ACCESSES {
                return None;
            }
            let entry = if parent == 0 {
                let own = cursor.take(accesses as usize)?;
                let at = kinds.len() as u32;
                kinds.extend(own.iter().map(|&k| Kind(k)));
                kinds.resize(kinds.len().next_multiple_of(8), Kind(0));
                let root = u32::try_from(number).ok()?;
                slots += accesses;
                Entry { slot: slots - accesses, kinds: at, accesses, instructions, atomics: 0, root }
            } else {
                let parent = *entries.get(usize::try_from(parent - 1).ok()?)?;
                if accesses >= parent.accesses {
                    return None;
                }
                Entry { accesses, instructions, ..parent }
            };
            let own = &kinds[entry.kinds as usize..][..accesses as usize];
            let atomics = own.iter().filter(|k| k.is_atomic()).count() as u32;
            entries.push(Entry { atomics, ..entry });
        }
        let at = cursor.position();
        let end = at.checked_add(tokens).filter(|&end| end <= bytes.len())?;
        let left = u64::from(header.b);
        Some(Tokens { bytes, at, end, event_at: end, entries, kinds, slots, left })
    }

    /// The next token; `None` at the end of the block.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Token>, String> {
        if self.at >= self.end {
            let missing = self.left;
            return if missing == 0 { Ok(None) } else { Err(format!("it ends {missing} references early")) };
        }
        self.token().map(Some).ok_or_else(|| format!("malformed token at {} of its tokens", self.at))
    }

    #[inline]
    fn token(&mut self) -> Option<Token> {
        match self.run() {
            Some(run) => Some(Token::Run(run)),
            None => self.other(),
        }
    }

    /// A token that is no execution.
    fn other(&mut self) -> Option<Token> {
        let mut cursor = Cursor::at(&self.bytes[..self.end], self.at);
        let token = match cursor.varint()? {
            EVENT => {
                let mut events = Cursor::at(&self.bytes, self.event_at);
                let event = Event::decode(&mut events)?;
                self.event_at = events.position();
                Token::Event(Box::new(event))
            }
            ADVANCE => Token::Advance(cursor.varint()?),
            _ => return None,
        };
        self.at = cursor.position();
        Some(token)
    }

    /// The line of the dictionary that a run of this block names.
    #[inline]
    pub(super) fn entry(&self, run: &Run) -> &Entry {
        &self.entries[run.entry as usize]
    }

    /// The events that are still to come, without what lies between them.
    pub(super) fn into_events(self) -> impl Iterator<Item = Event> {
        let mut at = self.event_at;
        std::iter::from_fn(move || {
            let mut cursor = Cursor::at(&self.bytes, at);
            let event = Event::decode(&mut cursor)?;
            at = cursor.position();
            Some(event)
        })
    }

    /// The next token, if that is a run; else nothing is taken.
    #[inline]
    pub(super) fn run(&mut self) -> Option<Run> {
        let mut cursor = Cursor::at(&self.bytes[..self.end], self.at);
        let token = cursor.varint()?;
        let (number, form) = ((token >> 2).checked_sub(1)?, token & 3);
        let number = u32::try_from(number).ok()?;
        let entry = self.entries.get(number as usize)?;
        let count = if form == MANY || form == MANY_MASKED { cursor.varint()? } else { 1 };
        let mut mask = 0;
        if form == ONE_MASKED || form == MANY_MASKED {
            for byte in 0..entry.accesses.div_ceil(8) {
                mask |= u64::from(cursor.byte()?) << (8 * byte);
            }
            if entry.accesses < 64 && mask >> entry.accesses != 0 {
                return None;
            }
        }
        let references = count.checked_mul(u64::from(entry.accesses))?;
        self.left = self.left.checked_sub(references)?;
        if count == 0 {
            return None;
        }
        self.at = cursor.position();
        Some(Run { entry: number, count, mask })
    }
}

/// Decoded references on their way to a visitor.
#[derive(Debug)]
pub(super) struct Chunk {
    addresses: Vec<u64>,
    kinds: Vec<Kind>,
    len: usize,
}

impl Default for Chunk {
    fn default() -> Self {
        let room = CHUNK + 2 * MAX_ACCESSES;
        Chunk { addresses: vec![0; room], kinds: vec![Kind(0); room], len: 0 }
    }
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(super) fn range(&self, from: usize, to: usize) -> (&[u64], &[Kind]) {
        (&self.addresses[from..to], &self.kinds[from..to])
    }
}

/// Why [`Decoder::fill`] stopped.
#[derive(Debug)]
pub(super) enum Filled {
    /// The chunk is full.
    Full,
    /// This event comes next.
    Event(Event),
    /// The block has ended.
    End,
}

/// The state of the slots: what part 2 says and what the predictor learns.
#[derive(Debug, Default)]
struct Slots {
    last: Vec<u64>,
    stride: Vec<u64>,
    candidate: Vec<u64>,
    modes: Vec<Mode>,
    values: Vec<u64>,
    /// The next value of each slot.
    at: Vec<u32>,
}

/// Decodes one references block.
#[derive(Debug)]
pub(super) struct Decoder {
    tokens: Tokens,
    slots: Slots,
    /// Linked slots of each code block, a bit an access, by the number of its entry.
    links: Vec<u64>,
    run: Option<Run>,
    frames: u64,
}

impl Decoder {
    /// `frames` is the number of frames of the trace: no address may lie beyond.
    pub(super) fn open(header: &BlockHeader, stored: &[u8], frames: u32) -> Result<Decoder, String> {
        let tokens = Tokens::open(header, stored)?;
        let [_, (from, to, raw)] = parts(header, stored).ok_or("lengths of its parts are wrong")?;
        let bytes = format::decompress(&stored[from..to], raw)?;
        let slots = Slots::parse(&bytes, tokens.slots, header.b).ok_or("malformed columns")?;
        let links = slots.links(&tokens.entries).ok_or("malformed links")?;
        Ok(Decoder { tokens, slots, links, run: None, frames: u64::from(frames) })
    }

    /// Appends references to the chunk until it is full, an event comes, or the block ends.
    pub(super) fn fill(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        let start = chunk.len;
        let filled = self.fill_unchecked(chunk);
        // Addresses beyond the last frame have bit 63 set in `limit - address` or in themselves.
        let limit = (self.frames << FRAME_SHIFT).wrapping_sub(1);
        let mut beyond = 0;
        for &address in &chunk.addresses[start..chunk.len] {
            beyond |= limit.wrapping_sub(address) | address;
        }
        if chunk.len > start && beyond >> 63 != 0 {
            chunk.len = start;
            return Err("an address beyond the last frame".to_owned());
        }
        filled
    }

    fn fill_unchecked(&mut self, chunk: &mut Chunk) -> Result<Filled, String> {
        loop {
            let Some(run) = &mut self.run else {
                match self.tokens.next()? {
                    None => return Ok(Filled::End),
                    Some(Token::Advance(_)) => {}
                    Some(Token::Event(event)) => return Ok(Filled::Event(*event)),
                    Some(Token::Run(run)) => self.run = Some(run),
                }
                continue;
            };
            if chunk.len >= CHUNK {
                return Ok(Filled::Full);
            }
            let entry = *self.tokens.entry(run);
            let accesses = entry.accesses as usize;
            let room = (CHUNK - chunk.len).div_ceil(accesses);
            let now = room.min(usize::try_from(run.count).unwrap_or(usize::MAX));
            let mask = run.mask;
            run.count -= now as u64;
            if run.count == 0 {
                self.run = None;
            }
            let end = chunk.len + now * accesses;
            let rows = &mut chunk.addresses[chunk.len..end];
            let links = self.links[entry.root as usize];
            self.slots.decode(&entry, mask, links, rows).ok_or("a column ends early")?;
            let kinds = &self.tokens.kinds[entry.kinds as usize..];
            copy_kinds(&mut chunk.kinds[chunk.len..], kinds, accesses, now);
            chunk.len = end;
        }
    }
}

/// Writes the kinds of `count` executions. Copies eight at a time and so may write up to seven beyond.
#[inline]
fn copy_kinds(out: &mut [Kind], kinds: &[Kind], accesses: usize, count: usize) {
    for execution in 0..count {
        let row = &mut out[execution * accesses..];
        for (to, from) in row.chunks_exact_mut(8).zip(kinds.chunks_exact(8)).take(accesses.div_ceil(8)) {
            to.copy_from_slice(from);
        }
    }
}

impl Slots {
    fn parse(bytes: &[u8], count: u32, references: u32) -> Option<Slots> {
        let mut cursor = Cursor::new(bytes);
        let mut heads = Vec::new();
        let mut explicit = 0u64;
        for _ in 0..count {
            let head = SlotHead::decode(&mut cursor)?;
            explicit += u64::from(head.count);
            heads.push(head);
        }
        if explicit > u64::from(references) {
            return None;
        }
        let mut slots = Slots { values: Vec::with_capacity(explicit as usize), ..Slots::default() };
        for head in &heads {
            slots.at.push(slots.values.len() as u32);
            head.values(&mut cursor, &mut slots.values)?;
            slots.modes.push(head.mode);
            slots.last.push(head.first);
        }
        slots.stride = vec![0; heads.len()];
        slots.candidate = vec![0; heads.len()];
        for (slot, head) in heads.iter().enumerate() {
            if let Mode::Linked(_) = head.mode {
                slots.stride[slot] = head.first;
            }
        }
        cursor.is_empty().then_some(slots)
    }

    /// The masks of linked slots of all entries; `None` if a slot is linked to a later or to a linked one.
    fn links(&self, entries: &[Entry]) -> Option<Vec<u64>> {
        let mut links = Vec::new();
        for entry in entries {
            let mut mask = 0u64;
            for j in 0..entry.accesses as usize {
                if let Mode::Linked(to) = self.modes[entry.slot as usize + j] {
                    if usize::from(to) >= j || mask >> to & 1 == 1 {
                        return None;
                    }
                    mask |= 1 << j;
                }
            }
            links.push(mask);
        }
        Some(links)
    }

    /// Decodes executions of one entry with one mask into `rows`.
    fn decode(&mut self, entry: &Entry, mask: u64, links: u64, rows: &mut [u64]) -> Option<()> {
        let n = entry.accesses as usize;
        if rows.len() >= LONG_RUN * n {
            self.by_access(entry, mask, rows)
        } else {
            let slot = entry.slot as usize;
            rows.chunks_exact_mut(n).try_for_each(|row| self.execution(slot, mask, links, row))
        }
    }

    /// One access after the other, each through all executions.
    fn by_access(&mut self, entry: &Entry, mask: u64, rows: &mut [u64]) -> Option<()> {
        let n = entry.accesses as usize;
        let count = rows.len() / n;
        for j in 0..n {
            let slot = entry.slot as usize + j;
            let explicit = mask >> j & 1 == 1;
            let values = if explicit {
                let at = self.at[slot] as usize;
                self.at[slot] += count as u32;
                self.values.get(at..at + count)?
            } else {
                &[]
            };
            let rows = rows.chunks_exact_mut(n);
            let (mut last, mut stride) = (self.last[slot], self.stride[slot]);
            match self.modes[slot] {
                Mode::Linked(to) if explicit => {
                    for (row, &value) in rows.zip(values) {
                        stride = value;
                        row[j] = row[usize::from(to)].wrapping_add(value);
                    }
                }
                Mode::Linked(to) => {
                    for row in rows {
                        row[j] = row[usize::from(to)].wrapping_add(stride);
                    }
                }
                _ if !explicit => {
                    for row in rows {
                        last = last.wrapping_add(stride);
                        row[j] = last;
                    }
                }
                mode => {
                    let mut candidate = self.candidate[slot];
                    let absolute = if mode == Mode::Absolute { u64::MAX } else { 0 };
                    for (row, &value) in rows.zip(values) {
                        let delta = value.wrapping_sub(last & absolute);
                        let next = last.wrapping_add(delta);
                        learn(delta, (next ^ last) >> FRAME_SHIFT == 0, &mut stride, &mut candidate);
                        last = next;
                        row[j] = next;
                    }
                    self.candidate[slot] = candidate;
                }
            }
            (self.last[slot], self.stride[slot]) = (last, stride);
        }
        Some(())
    }

    /// One execution.
    #[inline]
    fn execution(&mut self, slot: usize, mask: u64, links: u64, row: &mut [u64]) -> Option<()> {
        let n = row.len();
        let (last, stride) = (&mut self.last[slot..slot + n], &mut self.stride[slot..slot + n]);
        let mut special = mask | links;
        if special == 0 {
            for ((out, last), &stride) in row.iter_mut().zip(last).zip(stride.iter()) {
                *last = last.wrapping_add(stride);
                *out = *last;
            }
            return Some(());
        }
        for (j, (last, &stride)) in last.iter_mut().zip(stride.iter()).enumerate() {
            *last = last.wrapping_add(if special >> j & 1 == 1 { 0 } else { stride });
            row[j] = *last;
        }
        special &= if n < 64 { (1 << n) - 1 } else { u64::MAX };
        while special != 0 {
            let j = special.trailing_zeros() as usize;
            special &= special - 1;
            let explicit = mask >> j & 1 == 1;
            let mut value = 0;
            if explicit {
                value = *self.values.get(self.at[slot + j] as usize)?;
                self.at[slot + j] += 1;
            }
            match self.modes[slot + j] {
                Mode::Linked(to) => {
                    if explicit {
                        stride[j] = value;
                    }
                    row[j] = row[usize::from(to)].wrapping_add(stride[j]);
                }
                mode => {
                    let old = last[j];
                    let delta = if mode == Mode::Absolute { value.wrapping_sub(old) } else { value };
                    let next = old.wrapping_add(delta);
                    let same = (next ^ old) >> FRAME_SHIFT == 0;
                    learn(delta, same, &mut stride[j], &mut self.candidate[slot + j]);
                    last[j] = next;
                    row[j] = next;
                }
            }
        }
        Some(())
    }
}

/// The rule of strides: two equal deltas in a row within a frame.
#[inline]
fn learn(delta: u64, same_frame: bool, stride: &mut u64, candidate: &mut u64) {
    *stride = if same_frame && delta == *candidate { delta } else { *stride };
    *candidate = if same_frame { delta } else { *candidate };
}
