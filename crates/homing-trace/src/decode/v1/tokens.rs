//! Part 1 of a references block of version 1: the dictionary and the tokens, enough for [`super::super::super::steps`].

use super::super::super::event::Event;
use super::super::super::format::MAX_ACCESSES;
use super::super::super::kind::Kind;
use super::super::super::varint::Cursor;
use super::super::{Entry, Run, Token};

/// Token forms (`docs/trace-format.md`).
const ONE_MASKED: u64 = 1;
const MANY_MASKED: u64 = 2;
const MANY: u64 = 3;
/// Tokens that are no execution.
const EVENT: u64 = 0;
const ADVANCE: u64 = 1;
const LOOP: u64 = 2;
/// The most runs of a loop's body.
pub(crate) const MAX_BODY: usize = 8;

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

impl Tokens {
    pub(crate) fn parse(references: u32, bytes: Vec<u8>) -> Option<Tokens> {
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
                Entry {
                    slot: slots - accesses,
                    kinds: at,
                    accesses,
                    instructions,
                    atomics: 0,
                    root,
                    spread: false,
                }
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
        let left = u64::from(references);
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
        Some(Token::Nothing)
    }

    /// Where its events begin in its bytes.
    pub(crate) fn into_events(self) -> (Vec<u8>, usize) {
        (self.bytes, self.event_at)
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
