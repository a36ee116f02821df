//! The recording wire: the words that a recorder writes (`recorders/include/homing_wire.h`, `docs/recording-wire.md`),
//! taken apart into calls. A pure function: no words make it panic, and what makes no sense is counted.

use super::code::{Access, AddressSource, BlockDef};
use super::event::{AllocFunction, Event, SyncOp};
use super::names::NameId;
use crate::ids::{Thread, MOST_THREADS};
use homing_wire::{bit, op};
pub use homing_wire::{CONTROL, PAYLOAD};

/// The start of an execution, but for the block's number.
pub(super) const BLOCK: u64 = homing_wire::word(op::BLOCK, 0);
/// The start of a loop of executions, but for the block's number.
pub(super) const LOOP: u64 = homing_wire::word(op::LOOP, 0);
/// Names are shorter than this.
const MAX_NAME: u64 = 1 << 16;
/// The most accesses of a code block.
const MAX_ACCESSES: u64 = 1 << 12;
/// The most executions in one loop record. No array is that long, and a loop of that many would take a program an hour.
pub(super) const MAX_LOOP: u64 = 1 << 40;

/// How a recorder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// One stream for the whole process, in execution order, of executions of code blocks (1 in the wire's header).
    Serial,
    /// One stream for each thread, of references and executions of code blocks (2 in the wire's header).
    Parallel,
}

/// What control words other than the start of an execution say. Name ids are the recorder's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control<'a> {
    /// A code block.
    Define {
        /// The recorder's number for it.
        number: u64,
        /// Its guest address.
        address: u64,
        /// Its accesses.
        def: BlockDef,
        /// Which words of an execution have a start and a step in a loop of executions.
        steps: Vec<bool>,
    },
    /// What follows is of this thread.
    Thread(Thread),
    /// An event.
    Event(Event),
    /// A name.
    Name {
        /// The recorder's number for it.
        id: u64,
        /// The words that hold its bytes.
        words: &'a [u64],
        /// Its length in bytes.
        length: usize,
        /// Whether it is a call site, whose frames are to be looked up.
        site: bool,
    },
    /// A data symbol: name id, address, size, object file's name id.
    Symbol([u64; 4]),
    /// Virtual time passes.
    Advance(u64),
    /// What another stream has written so far comes before what follows in this one.
    Cut(Cut),
    /// The region of interest begins here, or ends.
    Region {
        /// Whether it begins.
        begins: bool,
    },
    /// The process has executed another program: [`executed`] says which.
    Exec,
}

/// How far a stream of the parallel flavour had written at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Which stream.
    pub stream: u32,
    /// The index in it of the segment in use.
    pub index: u32,
    /// The number of that segment, by which its words are found.
    pub segment: u32,
    /// Words of it for which there was room taken.
    pub words: u32,
}

/// What comes behind a stretch of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// The stream's next segment.
    Segment,
    /// Nothing: the stream ends.
    End,
    /// More of the same segment, which is being written: it goes up to the first word that is not there yet.
    Unwritten,
}

/// Takes what the words say.
pub trait Calls {
    /// Why parsing may have to stop.
    type Error;

    /// Executions of code blocks, of which the first begins `words`; its own words go up to a control word or the end
    /// of `words`, but for a loop of executions, whose starts and steps may be any words. Returns how many words it
    /// took; at least one execution's.
    fn executions(&mut self, words: &[u64]) -> Result<usize, Self::Error>;

    /// References in the words of the parallel flavour.
    fn references(&mut self, words: &[u64]) -> Result<(), Self::Error>;

    /// Anything else.
    fn control(&mut self, control: Control<'_>) -> Result<(), Self::Error>;

    /// Words that made no sense.
    fn malformed(&mut self, words: u64);
}

/// The number of leading words that are no control words.
pub fn data_words(words: &[u64]) -> usize {
    // Several at once, since there are long stretches without any.
    let plain = |words: &&[u64]| words.iter().fold(0, |any, word| any | word) & CONTROL == 0;
    let whole = words.chunks(32).take_while(plain).map(<[u64]>::len).sum::<usize>();
    let rest = &words[whole..];
    whole + rest.iter().position(|&w| w & CONTROL != 0).unwrap_or(rest.len())
}

/// Parses a stretch of one stream. Returns the number of words taken: what is left is the start of something that goes
/// on behind it. At the stream's end nothing is left.
pub fn parse<C: Calls>(
    words: &[u64],
    flavour: Flavour,
    behind: Behind,
    calls: &mut C,
) -> Result<usize, C::Error> {
    let end = behind == Behind::End;
    let mut at = 0;
    while let Some(&word) = words.get(at) {
        let rest = &words[at + 1..];
        if word & CONTROL == 0 {
            let count = data_words(&words[at..]);
            let data = &words[at..at + count];
            match flavour {
                Flavour::Serial => calls.malformed(count as u64),
                Flavour::Parallel if behind == Behind::Unwritten => {
                    let there = written(data);
                    calls.references(&data[..there])?;
                    if there < count {
                        return Ok(at + there);
                    }
                }
                Flavour::Parallel => all_written(data).try_for_each(|words| calls.references(words))?,
            }
            at += count;
            continue;
        }
        let (operation, payload) = (homing_wire::operation(word), word & PAYLOAD);
        if operation == op::BLOCK || operation == op::LOOP && flavour == Flavour::Parallel {
            at += calls.executions(&words[at..])?.clamp(1, 1 + rest.len());
            continue;
        }
        match operands(operation, payload, rest) {
            Operands::Count(count) => match rest.get(..count) {
                Some(operands) => {
                    match control(operation, payload, operands) {
                        Some(control) => calls.control(control)?,
                        None => calls.malformed(1 + count as u64),
                    }
                    at += 1 + count;
                }
                None if end => {
                    calls.malformed(words[at..].len() as u64);
                    at = words.len();
                }
                None => return Ok(at),
            },
            Operands::Unknown if !end => return Ok(at),
            Operands::Unknown | Operands::Nonsense => {
                calls.malformed(1);
                at += 1;
            }
        }
    }
    Ok(at)
}

/// The program and its arguments, if a segment is the first of a program that its process has executed in place of the
/// one before.
pub fn executed(words: &[u64]) -> Option<Vec<String>> {
    let (&word, rest) = words.split_first()?;
    let exec = word & CONTROL != 0 && homing_wire::operation(word) == op::EXEC;
    let length = name_length(word & PAYLOAD).filter(|_| exec)?;
    let bytes: Vec<u8> = rest.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
    let arguments = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|&byte| byte == 0);
    Some(arguments.map(|argument| String::from_utf8_lossy(argument).into_owned()).collect())
}

/// The number of leading words that are not 0: room that a thread of the parallel flavour has taken is 0 until it
/// writes.
fn written(words: &[u64]) -> usize {
    let there = |words: &&[u64]| words.iter().fold(true, |all, &word| all & (word != 0));
    let whole = words.chunks(32).take_while(there).map(<[u64]>::len).sum::<usize>();
    let rest = &words[whole..];
    whole + rest.iter().position(|&w| w == 0).unwrap_or(rest.len())
}

/// The stretches of words that are not 0. Other room was never written: its thread was killed, or a signal handler
/// jumped out of the code that had taken it.
fn all_written(words: &[u64]) -> impl Iterator<Item = &[u64]> {
    let mut left = words;
    std::iter::from_fn(move || {
        let begin = left.iter().position(|&w| w != 0)?;
        let (stretch, rest) = left[begin..].split_at(written(&left[begin..]));
        left = rest;
        Some(stretch)
    })
}

enum Operands {
    Count(usize),
    /// The words that say so have not arrived.
    Unknown,
    Nonsense,
}

/// The words that follow a control word.
fn operands(operation: u8, payload: u64, rest: &[u64]) -> Operands {
    let count = match operation {
        op::DEFINE => match rest.first() {
            Some(&counts) if counts >> 32 <= MAX_ACCESSES => Some(2 + (counts >> 32) as usize),
            Some(_) => None,
            None => return Operands::Unknown,
        },
        op::NAME | op::SITE | op::EXEC => name_length(payload).map(|length| length.div_ceil(8)),
        _ => op::operands(operation),
    };
    count.map_or(Operands::Nonsense, Operands::Count)
}

/// The length of a name in bytes.
fn name_length(payload: u64) -> Option<usize> {
    let length = payload & ((1 << bit::NAME_ID) - 1);
    (length < MAX_NAME).then_some(length as usize)
}

/// The thread, or stream, of that number.
pub(super) fn thread(number: u64) -> Option<Thread> {
    (number < MOST_THREADS.into()).then_some(Thread(number as u32))
}

fn control<'a>(operation: u8, payload: u64, words: &'a [u64]) -> Option<Control<'a>> {
    let name = |id: u64| NameId(u32::try_from(id).unwrap_or(0));
    let event = match operation {
        op::DEFINE => {
            let (def, steps) = definition(words)?;
            return Some(Control::Define { number: payload, address: words[1], def, steps });
        }
        op::THREAD => return Some(Control::Thread(thread(payload)?)),
        op::NAME | op::SITE => {
            let (id, length) = (payload >> bit::NAME_ID, name_length(payload)?);
            return Some(Control::Name { id, words, length, site: operation == op::SITE });
        }
        op::SYMBOL => return Some(Control::Symbol([payload, words[0], words[1], words[2]])),
        op::ADVANCE => return Some(Control::Advance(payload)),
        op::REGION => return Some(Control::Region { begins: payload != 0 }),
        op::EXEC => return Some(Control::Exec),
        op::CUT => {
            let (segment, index) = ((words[0] >> 32) as u32, words[0] as u32);
            let (stream, words) = (thread(payload >> 32)?.0, payload as u32);
            return Some(Control::Cut(Cut { stream, index, segment, words }));
        }
        op::THREAD_START => Event::ThreadStart { thread: thread(payload)?, creator: thread(words[0])? },
        op::THREAD_END => Event::ThreadEnd,
        op::THREAD_JOIN => Event::ThreadJoin { thread: thread(payload)? },
        op::SYNC => Event::Sync { op: SyncOp::from_code(payload)?, object: words[0], stamp: words[1] },
        op::MMAP => Event::Mmap {
            protection: (payload >> 32) as u32,
            flags: payload as u16,
            address: words[0],
            length: words[1],
            offset: words[2],
            name: name(words[3]),
        },
        op::MUNMAP => Event::Munmap { address: words[0], length: words[1] },
        op::BRK => Event::Brk { old: words[0], new: words[1] },
        op::MREMAP => {
            Event::Mremap { old: words[0], old_length: words[1], new: words[2], new_length: words[3] }
        }
        op::ALLOC => Event::Alloc {
            function: AllocFunction::from_code(payload as u8),
            address: words[0],
            size: words[1],
            site: name(words[2]),
        },
        op::FREE => Event::Free { address: words[0] },
        op::MARK => Event::Mark { number: payload, name: name(words[0]) },
        op::LOST => Event::Lost { references: payload, reason: name(words[0]) },
        op::FORK => Event::Fork { process: payload },
        op::KERNEL_ACCESS => Event::KernelAccess { address: words[0], bytes: payload, write: words[1] != 0 },
        op::HUGE => Event::Huge { address: words[0], length: words[1], wanted: payload != 0 },
        op::WINDOW => Event::window(payload, words[0])?,
        _ => return None,
    };
    Some(Control::Event(event))
}

/// The definition of a code block: counts, guest address, then one word an access. And which words of an execution have
/// a step in loops.
fn definition(words: &[u64]) -> Option<(BlockDef, Vec<bool>)> {
    let mut taken = 0;
    let mut steps = Vec::new();
    let mut accesses = Vec::with_capacity(words.len() - 2);
    for &word in &words[2..] {
        let has = |bit: u32| word >> bit & 1 == 1;
        let source = if !has(bit::ACCESS_DERIVED) {
            taken += 1;
            steps.push(has(bit::ACCESS_STEPS));
            AddressSource::Word
        } else {
            let of = (word >> bit::ACCESS_WORD & (MAX_ACCESSES - 1)) as u16;
            if of >= taken {
                return None;
            }
            AddressSource::Derived { word: of, offset: (word >> bit::ACCESS_OFFSET) as i16 }
        };
        accesses.push(Access {
            instruction: word as u16,
            bytes: u32::from((word >> bit::ACCESS_SIZE) as u16),
            write: has(bit::ACCESS_WRITE),
            atomic: has(bit::ACCESS_ATOMIC),
            source,
            exit: has(bit::ACCESS_EXIT),
            guarded: source == AddressSource::Word && has(bit::ACCESS_GUARDED),
        });
    }
    Some((BlockDef { accesses, instructions: words[0] as u32 }, steps))
}
