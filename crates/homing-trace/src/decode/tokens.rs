//! Part 1 of a references block: the dictionary and the tokens, enough for [`super::super::steps`].

use super::super::encode::{ADVANCE, EVENT, LOOP, MANY, MANY_MASKED, MAX_BODY, MAX_REFERENCES, ONE_MASKED};
use super::super::event::Event;
use super::super::format::{self, BlockHeader, MAX_ACCESSES};
use super::super::kind::Kind;
use super::super::varint::Cursor;

/// A line of a block's dictionary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub slot: u32,
    pub kinds: u32,
    pub accesses: u32,
    pub instructions: u32,
    pub atomics: u32,
    /// The code block's own entry (itself, if it is no prefix).
    pub root: u32,
}

impl Entry {
    /// Of no accesses.
    pub(crate) const NONE: Entry =
        Entry { slot: 0, kinds: 0, accesses: 0, instructions: 0, atomics: 0, root: 0 };
}

/// Executions with one mask.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Run {
    /// The number of the dictionary's entry.
    entry: u32,
    pub count: u64,
    pub mask: u64,
}

/// Runs that come again and again in the same order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loop {
    runs: [Run; MAX_BODY],
    len: usize,
    /// References of a round.
    pub references: u64,
    /// Rounds that are still to come; the first of them lacks its first `at` runs.
    pub rounds: u64,
    at: usize,
}

impl Loop {
    /// The runs of a round.
    pub(super) fn body(&self) -> &[Run] {
        &self.runs[..self.len]
    }

    #[inline]
    fn next(&mut self) -> Option<Run> {
        if self.rounds == 0 {
            return None;
        }
        let run = self.runs[self.at];
        self.at += 1;
        if self.at == self.len {
            (self.at, self.rounds) = (0, self.rounds - 1);
        }
        Some(run)
    }
}

/// What a block consists of.
#[derive(Debug)]
pub(crate) enum Token {
    Run(Run),
    /// A loop begins: its runs come next, or are taken from [`Tokens::repeating`].
    Loop,
    /// Boxed to keep runs, of which there are millions, small.
    Event(Box<Event>),
    Advance(u64),
}

/// Part 1 of a references block, read token by token.
#[derive(Debug)]
pub(crate) struct Tokens {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
    event_at: usize,
    pub entries: Vec<Entry>,
    pub kinds: Vec<Kind>,
    pub slots: u32,
    /// References that tokens have yet to account for.
    left: u64,
    /// The loop in progress, if it has rounds.
    pub repeating: Loop,
}

/// The two zstd frames of a references block and the raw length of each.
pub(super) fn parts(header: &BlockHeader, stored: &[u8]) -> Option<[(usize, usize, usize); 2]> {
    let first = format::read_u32(stored, 0)? as usize;
    let raw = format::read_u32(stored, 4)?;
    let second = header.raw.checked_sub(raw)?;
    (first <= stored.len() - 8)
        .then_some([(8, 8 + first, raw as usize), (8 + first, stored.len(), second as usize)])
}

impl Tokens {
    pub(crate) fn open(header: &BlockHeader, stored: &[u8]) -> Result<Tokens, String> {
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
        Some(Tokens {
            bytes,
            at,
            end,
            event_at: end,
            entries,
            kinds,
            slots,
            left,
            repeating: Loop::default(),
        })
    }

    /// The next token; `None` at the end of the block.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Token>, String> {
        if self.at >= self.end && self.repeating.rounds == 0 {
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

    /// A token that is no run.
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
            LOOP => {
                let (len, rounds) = (cursor.varint()?, cursor.varint()?);
                let at = cursor.position();
                return self.begin_loop(at, usize::try_from(len).ok()?, rounds);
            }
            _ => return None,
        };
        self.at = cursor.position();
        Some(token)
    }

    /// Takes the `len` runs that begin at `at` as a loop's body.
    fn begin_loop(&mut self, at: usize, len: usize, rounds: u64) -> Option<Token> {
        if len == 0 || len > MAX_BODY || rounds == 0 {
            return None;
        }
        self.at = at;
        let (mut body, before) = (Loop { len, rounds, ..Loop::default() }, self.left);
        for run in &mut body.runs[..len] {
            *run = self.parse_run()?;
        }
        body.references = before - self.left;
        self.left = before.checked_sub(body.references.checked_mul(rounds)?)?;
        self.repeating = body;
        Some(Token::Loop)
    }

    /// The line of the dictionary that a run of this block names.
    #[inline]
    pub(crate) fn entry(&self, run: &Run) -> &Entry {
        &self.entries[run.entry as usize]
    }

    /// The events that are still to come, without what lies between them.
    pub(crate) fn into_events(self) -> impl Iterator<Item = Event> {
        let mut at = self.event_at;
        std::iter::from_fn(move || {
            let mut cursor = Cursor::at(&self.bytes, at);
            let event = Event::decode(&mut cursor)?;
            at = cursor.position();
            Some(event)
        })
    }

    /// What comes next, if that is a run; else nothing is taken. Inlined, so that a run is never in memory.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> Option<Run> {
        if self.repeating.rounds > 0 {
            return self.repeating.next();
        }
        self.parse_run()
    }

    #[inline(always)]
    fn parse_run(&mut self) -> Option<Run> {
        let mut cursor = Cursor::at(&self.bytes[..self.end], self.at);
        let token = cursor.varint()?;
        let (number, form) = ((token >> 2).checked_sub(1)?, token & 3);
        let number = u32::try_from(number).ok()?;
        let entry = self.entries.get(number as usize)?;
        let count = if form == MANY || form == MANY_MASKED { cursor.varint()? } else { 1 };
        let mut mask = 0;
        if form == ONE_MASKED || form == MANY_MASKED {
            mask = u64::from(cursor.byte()?);
            for byte in 1..entry.accesses.div_ceil(8) {
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
