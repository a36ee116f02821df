//! Reads what a thread executed without decoding addresses: what a merge by virtual time needs.

use super::decode::{Entry, Run, Token, Tokens};
use super::event::Event;
use super::format::{self, Placed};
use super::reader::Trace;
use crate::ids::Thread;

/// What a thread did next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Executions of a code block, one after the other, all alike.
    Run {
        /// How many; at least 1.
        executions: u64,
        /// References of each; at least 1.
        references: u32,
        /// Virtual time that each takes (instructions).
        instructions: u32,
        /// How many of the references of each are atomic.
        atomics: u32,
    },
    /// Virtual time passes without references.
    Advance(u64),
    /// An event.
    Event(Event),
    /// References that are lost to damage.
    Lost {
        /// How many.
        references: u64,
        /// Why.
        reason: String,
    },
}

/// The numbers of a [`Step::Run`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Executions {
    pub count: u64,
    pub references: u32,
    pub instructions: u32,
    pub atomics: u32,
}

/// Iterates over the steps of one thread.
pub struct Steps<'a> {
    bytes: &'a [u8],
    blocks: std::slice::Iter<'a, Placed>,
    /// A block that waits behind a gap.
    held: Option<&'a Placed>,
    tokens: Option<Tokens>,
    /// References so far; the block's end.
    index: u64,
    block_end: u64,
    time: u64,
}

impl<'a> Trace<'a> {
    /// The events of a thread, as far as they are readable, without what lies between them.
    pub fn thread_events(&self, thread: Thread) -> impl Iterator<Item = Event> + '_ {
        let blocks = self.threads.get(&thread).map_or(&[][..], |t| &t.blocks);
        let tokens = blocks.iter().filter_map(|placed| {
            let (header, stored) = format::stored(self.bytes, placed.offset).ok()?;
            (header == placed.header).then(|| Tokens::open(&header, stored).ok())?
        });
        tokens.flat_map(Tokens::into_events)
    }

    /// The steps of a thread (none if there is no such thread).
    pub fn thread_steps(&self, thread: Thread) -> Steps<'_> {
        let blocks = self.threads.get(&thread).map_or(&[][..], |t| &t.blocks);
        Steps {
            bytes: self.bytes,
            blocks: blocks.iter(),
            held: None,
            tokens: None,
            index: 0,
            block_end: 0,
            time: 0,
        }
    }
}

impl Steps<'_> {
    /// The thread's virtual time after the last step. Damage does not upset it: each block says when it starts.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The thread's references in all steps so far, lost ones included.
    pub fn references(&self) -> u64 {
        self.index
    }

    fn open(&mut self, placed: &Placed) -> Option<Step> {
        self.block_end = placed.header.c + u64::from(placed.header.b);
        self.time = placed.header.d;
        let tokens = format::stored(self.bytes, placed.offset).and_then(|(header, stored)| {
            if header != placed.header {
                return Err("not the block that the index names".to_owned());
            }
            Tokens::open(&header, stored)
        });
        match tokens {
            Ok(tokens) => {
                self.tokens = Some(tokens);
                None
            }
            Err(reason) => self.lose(self.block_end, reason),
        }
    }

    fn lose(&mut self, until: u64, reason: String) -> Option<Step> {
        let references = until - self.index;
        self.index = until;
        Some(Step::Lost { references, reason })
    }

    fn step(&mut self, token: Token) -> Option<Step> {
        Some(match token {
            Token::Nothing => return None,
            Token::Event(event) => Step::Event(*event),
            Token::Advance(units) => {
                self.time = self.time.saturating_add(units);
                Step::Advance(units)
            }
            Token::Run(run) => {
                let Executions { count, references, instructions, atomics } = self.executions(&run);
                Step::Run { executions: count, references, instructions, atomics }
            }
        })
    }

    /// The next step, if that is a run; else nothing is taken. The short way for who wants millions of them.
    #[inline]
    pub(super) fn run(&mut self) -> Option<Executions> {
        let run = self.tokens.as_mut()?.run()?;
        Some(self.executions(&run))
    }

    #[inline]
    fn executions(&mut self, run: &Run) -> Executions {
        let entry = self.tokens.as_ref().map_or(Entry::NONE, |tokens| *tokens.entry(run));
        self.index += run.count * u64::from(entry.accesses);
        self.time = self.time.saturating_add(run.count.saturating_mul(entry.instructions.into()));
        Executions {
            count: run.count,
            references: entry.accesses,
            instructions: entry.instructions,
            atomics: entry.atomics,
        }
    }
}

impl Iterator for Steps<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(tokens) = &mut self.tokens {
                match tokens.next() {
                    Ok(Some(token)) => {
                        if let Some(step) = self.step(token) {
                            return Some(step);
                        }
                    }
                    Ok(None) => self.tokens = None,
                    Err(reason) => {
                        self.tokens = None;
                        return self.lose(self.block_end, reason);
                    }
                }
                continue;
            }
            let placed = self.held.take().or_else(|| self.blocks.next())?;
            if placed.header.c > self.index {
                self.held = Some(placed);
                return self.lose(placed.header.c, "a block is missing".to_owned());
            }
            if let Some(lost) = self.open(placed) {
                return Some(lost);
            }
        }
    }
}
