//! Part 1 of a references block: the dictionary and the tokens, enough for [`super::super::steps`].

use super::super::encode::{
    ADVANCE, EVENT, EXPECT, MASKED, NAMED, NAMED_MASKED, NOTHING, OTHER, SECOND, SECOND_MASKED, SWAP,
};
use super::super::event::Event;
use super::super::format::{self, BlockHeader, MAX_ACCESSES};
use super::super::kind::Kind;
use super::super::mask;
use super::super::varint::{unzigzag, Cursor};
use super::{Entry, Run, Token};

/// An access has a word of its own.
pub(super) const OWN: u8 = u8::MAX;
const NO_ENTRY: u32 = u32::MAX;

/// Where the address of an access comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    /// Another access of the same execution, or [`OWN`].
    pub of: u8,
    pub offset: u64,
}

/// Some accesses of a code block are expected to miss from now on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expect {
    pub entry: u32,
    pub misses: u64,
}

/// What comes behind the executions that a token counts.
#[derive(Clone, Copy, Debug)]
struct Behind {
    form: u64,
    entry: u32,
    mask: u64,
}

impl Behind {
    const NOTHING: Behind = Behind { form: NOTHING, entry: 0, mask: 0 };
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
    /// By slot.
    pub(super) sources: Vec<Source>,
    /// What each code block, by its entry, is expected to miss at the start.
    pub(super) expected: Vec<u64>,
    pub(super) expect: Option<Expect>,
    /// What each entry predicts to come next, and what else came after it last.
    next: Vec<[u32; 2]>,
    /// The entry that was executed last.
    current: u32,
    /// Executions as predicted that are to come, and what comes then.
    predicted: u64,
    behind: Behind,
    /// References that tokens have yet to account for.
    left: u64,
}

impl Tokens {
    /// Part 1 of a block that has this header and these stored bytes.
    pub(crate) fn open(header: &BlockHeader, stored: &[u8]) -> Result<Tokens, String> {
        if header.b > super::super::encode::MAX_REFERENCES + MAX_ACCESSES as u32 {
            return Err(format!("{} references in one block", header.b));
        }
        let [(from, to, raw), _] = super::parts(header, stored).ok_or("lengths of its parts are wrong")?;
        let bytes = format::decompress(&stored[from..to], raw)?;
        Tokens::parse(header.b, bytes).ok_or_else(|| "malformed dictionary".to_owned())
    }

    fn parse(references: u32, bytes: Vec<u8>) -> Option<Tokens> {
        let mut cursor = Cursor::new(&bytes);
        let count = cursor.varint32()?;
        let tokens = usize::try_from(cursor.varint()?).ok()?;
        let (mut entries, mut kinds): (Vec<Entry>, Vec<Kind>) = (Vec::new(), Vec::new());
        let (mut sources, mut expected) = (Vec::new(), Vec::new());
        for number in 0..count {
            let parent = cursor.varint32()?;
            let entry = if parent == 0 {
                let at = kinds.len() as u32;
                let slot = sources.len() as u32;
                let (accesses, instructions) = (cursor.varint32()?, cursor.varint32()?);
                if accesses == 0 || accesses as usize > MAX_ACCESSES {
                    return None;
                }
                kinds.extend(cursor.take(accesses as usize)?.iter().map(|&k| Kind(k)));
                kinds.resize(kinds.len().next_multiple_of(8), Kind(0));
                sources.resize(sources.len() + accesses as usize, Source { of: OWN, offset: 0 });
                let derived = derive(&mut cursor, &mut sources[slot as usize..])?;
                let misses = mask::take(&mut cursor)?;
                if misses & derived != 0 || beyond(misses, accesses) {
                    return None;
                }
                expected.push(misses);
                Entry { slot, kinds: at, accesses, instructions, atomics: 0, root: number, spread: false }
            } else {
                let parent = *entries.get(parent as usize - 1)?;
                let (accesses, instructions) = (cursor.varint32()?, cursor.varint32()?);
                let (accesses, spread) = (accesses >> 1, accesses & 1 == 1);
                if accesses == 0 || accesses > parent.accesses || parent.spread {
                    return None;
                }
                expected.push(0);
                Entry { accesses, instructions, spread, ..parent }
            };
            let own = &kinds[entry.kinds as usize..][..entry.accesses as usize];
            let atomics = own.iter().filter(|k| k.is_atomic()).count() as u32;
            entries.push(Entry { atomics, ..entry });
        }
        let at = cursor.position();
        let end = at.checked_add(tokens).filter(|&end| end <= bytes.len())?;
        let next = vec![[NO_ENTRY; 2]; entries.len()];
        Some(Tokens {
            bytes,
            at,
            end,
            event_at: end,
            entries,
            kinds,
            sources,
            expected,
            expect: None,
            next,
            current: NO_ENTRY,
            predicted: 0,
            behind: Behind::NOTHING,
            left: u64::from(references),
        })
    }

    /// The next token; `None` at the end of the block.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<Token>, String> {
        if self.at >= self.end && self.predicted == 0 && self.behind.form == NOTHING {
            let missing = self.left;
            return if missing == 0 { Ok(None) } else { Err(format!("it ends {missing} references early")) };
        }
        let token = self.run().map(Token::Run).or_else(|| self.other());
        token.map(Some).ok_or_else(|| format!("malformed token at {} of its tokens", self.at))
    }

    /// A token that is no run: [`Tokens::run`] has read what it is.
    fn other(&mut self) -> Option<Token> {
        let form = std::mem::replace(&mut self.behind, Behind::NOTHING).form;
        if form == EVENT {
            let mut events = Cursor::at(&self.bytes, self.event_at);
            let event = Event::decode(&mut events)?;
            self.event_at = events.position();
            return Some(Token::Event(Box::new(event)));
        }
        if form != OTHER {
            return None;
        }
        let mut cursor = Cursor::at(&self.bytes[..self.end], self.at);
        let token = match cursor.byte()? {
            ADVANCE => Token::Advance(cursor.varint()?),
            EXPECT => {
                let (entry, misses) = (cursor.varint32()?, mask::take(&mut cursor)?);
                let line = self.entries.get(entry as usize).filter(|line| line.root == entry)?;
                let sources = &self.sources[line.slot as usize..][..line.accesses as usize];
                let own = |(j, source): (usize, &Source)| misses >> j & 1 == 0 || source.of == OWN;
                if line.spread || beyond(misses, line.accesses) || !sources.iter().enumerate().all(own) {
                    return None;
                }
                self.expect = Some(Expect { entry, misses });
                Token::Nothing
            }
            SWAP => {
                self.next.get_mut(self.current as usize)?.swap(0, 1);
                Token::Nothing
            }
            _ => return None,
        };
        self.at = cursor.position();
        Some(token)
    }

    /// What comes next, if that is a run; else nothing is taken. Inlined, so that a run is never in memory.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> Option<Run> {
        loop {
            if self.predicted > 0 {
                let entry = self.next.get(self.current as usize)?[0];
                // Again and again the same.
                let count = if entry == self.current { self.predicted } else { 1 };
                let run = self.account(Run { entry, count, mask: 0 })?;
                self.predicted -= count;
                return Some(run);
            }
            match self.behind.form {
                NOTHING => self.read()?,
                EVENT | OTHER => return None,
                _ => return self.unpredicted(),
            }
        }
    }

    /// Counts the references of a run, which is executed.
    #[inline(always)]
    fn account(&mut self, run: Run) -> Option<Run> {
        let references = run.count.checked_mul(self.entries.get(run.entry as usize)?.accesses.into())?;
        self.left = self.left.checked_sub(references)?;
        self.current = run.entry;
        Some(run)
    }

    /// Reads a token.
    #[inline]
    fn read(&mut self) -> Option<()> {
        let mut cursor = Cursor::at(&self.bytes[..self.end], self.at);
        let token = cursor.varint()?;
        let form = token & 7;
        let entry = if form == NAMED || form == NAMED_MASKED { cursor.varint32()? } else { 0 };
        let masked = form == MASKED || form == SECOND_MASKED || form == NAMED_MASKED;
        let mask = if masked { mask::take(&mut cursor)? } else { 0 };
        if form == NOTHING && token == 0 {
            return None;
        }
        self.predicted = token >> 3;
        self.behind = Behind { form, entry, mask };
        self.at = cursor.position();
        Some(())
    }

    /// The execution that a token ends with.
    #[inline]
    fn unpredicted(&mut self) -> Option<Run> {
        let Behind { form, entry, mask } = std::mem::replace(&mut self.behind, Behind::NOTHING);
        let entry = match (form, self.next.get_mut(self.current as usize)) {
            (MASKED, Some(next)) => next[0],
            (SECOND | SECOND_MASKED, Some(next)) => next[1],
            (NAMED | NAMED_MASKED, Some(next)) => {
                next[usize::from(next[0] != NO_ENTRY)] = entry;
                entry
            }
            (NAMED | NAMED_MASKED, None) => entry,
            _ => return None,
        };
        if beyond(mask, self.entries.get(entry as usize)?.accesses) {
            return None;
        }
        self.account(Run { entry, count: 1, mask })
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
}

/// Whether a mask has bits of more than so many accesses.
fn beyond(mask: u64, accesses: u32) -> bool {
    accesses < 64 && mask >> accesses != 0
}

/// Reads which accesses of a code block are derived from others, and returns them as a mask.
fn derive(cursor: &mut Cursor<'_>, sources: &mut [Source]) -> Option<u64> {
    let mut derived = 0;
    for _ in 0..cursor.varint()? {
        let (access, of) = (cursor.byte()?, cursor.byte()?);
        let offset = unzigzag(cursor.varint()?) as u64;
        if of >= access || sources[usize::from(of)..].first()?.of != OWN {
            return None;
        }
        let source = sources.get_mut(usize::from(access))?;
        if source.of != OWN {
            return None;
        }
        *source = Source { of, offset };
        derived |= 1 << access;
    }
    Some(derived)
}
