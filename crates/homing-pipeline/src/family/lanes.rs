//! What the threads of a process executed: the same code blocks, with addresses of the joined trace.

use super::memory::Memory;
use homing_trace::ids::Thread;
use homing_trace::{
    Access, BlockDef, ByThread, CodeBlockId, Kind, Step, Steps, Trace, TraceError, TraceWriter, Turn,
};
use std::collections::HashMap;
use std::io::Write;

/// Code blocks by the kinds of their accesses and the instructions that an execution takes.
type Blocks = HashMap<(Vec<Kind>, u32), CodeBlockId>;

/// The threads of a process.
pub struct Lanes<'t, 'a> {
    trace: &'t Trace<'a>,
    first: u32,
    lanes: ByThread<Lane<'t>>,
    blocks: Blocks,
    /// By number of a frame: where it is in the joined trace. A page that is mapped anew has another frame.
    pages: Vec<Option<Place>>,
}

/// A page in the joined trace, and the page that it is until it is written, if that is another one.
#[derive(Clone, Copy)]
struct Place {
    page: u64,
    inherited: Option<u64>,
}

/// One thread. Events lie between executions, so that none is cut by one.
struct Lane<'t> {
    steps: Steps<'t>,
    /// Executions that are left of the present run, the references of each, and its instructions.
    left: u64,
    references: usize,
    instructions: u32,
    /// The present execution so far.
    addresses: Vec<u64>,
    kinds: Vec<Kind>,
    /// The code block of the last execution, and what it is by.
    last: Option<(Vec<Kind>, u32, CodeBlockId)>,
}

impl<'t, 'a> Lanes<'t, 'a> {
    /// Of a process whose thread 0 is `first` in the joined trace.
    pub fn new(trace: &'t Trace<'a>, first: u32) -> Lanes<'t, 'a> {
        let pages = vec![None; trace.frames().len()];
        Lanes { trace, first, lanes: ByThread::default(), blocks: Blocks::new(), pages }
    }

    /// Takes some references of a thread.
    pub fn turn<W: Write>(
        &mut self,
        turn: Turn<'_>,
        memory: &mut Memory,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), TraceError> {
        let Lanes { trace, first, lanes, blocks, pages } = self;
        let lane = lanes.get_or_insert_with(turn.thread, || Lane::new(trace.thread_steps(turn.thread)));
        let thread = Thread(*first + turn.thread.0);
        for (&dense, &kind) in turn.addresses.iter().zip(turn.kinds) {
            if lane.addresses.is_empty() {
                lane.begin(thread, writer)?;
            }
            let frame = (dense >> 12) as usize;
            let place = pages[frame].get_or_insert_with(|| {
                let page = trace.frames()[frame];
                Place { page: memory.page(page), inherited: memory.inherited(page) }
            });
            if kind.is_write() {
                place.inherited = None;
            }
            let page = place.inherited.unwrap_or(place.page);
            lane.addresses.push(page << 12 | dense & 0xfff);
            lane.kinds.push(kind);
            if lane.addresses.len() >= lane.references {
                lane.execute(thread, blocks, writer)?;
            }
        }
        Ok(())
    }

    /// Virtual time that passed after the last references.
    pub fn finish<W: Write>(&mut self, writer: &mut TraceWriter<W>) -> Result<(), TraceError> {
        let Lanes { first, lanes, .. } = self;
        for (thread, lane) in lanes.iter_mut() {
            lane.next(Thread(*first + thread.0), writer)?;
        }
        Ok(())
    }
}

impl<'t> Lane<'t> {
    fn new(steps: Steps<'t>) -> Lane<'t> {
        let (addresses, kinds) = (Vec::new(), Vec::new());
        Lane { steps, left: 0, references: 0, instructions: 0, addresses, kinds, last: None }
    }

    /// Goes to the next execution.
    fn begin<W: Write>(&mut self, thread: Thread, writer: &mut TraceWriter<W>) -> Result<(), TraceError> {
        if self.left == 0 {
            return self.next(thread, writer);
        }
        self.left -= 1;
        Ok(())
    }

    /// Goes to the next run.
    fn next<W: Write>(&mut self, thread: Thread, writer: &mut TraceWriter<W>) -> Result<(), TraceError> {
        // Without a further one, references are executed one by one.
        (self.references, self.instructions) = (1, 1);
        for step in self.steps.by_ref() {
            match step {
                Step::Run { executions, references, instructions, .. } => {
                    self.left = executions.saturating_sub(1);
                    (self.references, self.instructions) = (references as usize, instructions);
                    break;
                }
                Step::Advance(units) => writer.advance(thread, units)?,
                // Visits tell of both.
                Step::Event(_) | Step::Lost { .. } => {}
            }
        }
        Ok(())
    }

    fn execute<W: Write>(
        &mut self,
        thread: Thread,
        blocks: &mut Blocks,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), TraceError> {
        let same = |(kinds, instructions, _): &&(Vec<Kind>, u32, CodeBlockId)| {
            *kinds == self.kinds && *instructions == self.instructions
        };
        let block = match self.last.as_ref().filter(same) {
            Some(&(.., block)) => block,
            None => {
                let key = (self.kinds.clone(), self.instructions);
                let block =
                    *blocks.entry(key).or_insert_with(|| writer.define(&def(&self.kinds, self.instructions)));
                self.last = Some((self.kinds.clone(), self.instructions, block));
                block
            }
        };
        let result = writer.execute(thread, block, &self.addresses);
        self.addresses.clear();
        self.kinds.clear();
        result
    }
}

/// A code block of such accesses, spread evenly over its instructions.
fn def(kinds: &[Kind], instructions: u32) -> BlockDef {
    let at = |access: usize| (access as u64 * u64::from(instructions) / kinds.len().max(1) as u64) as u16;
    let access = |(number, kind): (usize, &Kind)| Access {
        atomic: kind.is_atomic(),
        ..Access::new(at(number), kind.bytes(), kind.is_write())
    };
    BlockDef { accesses: kinds.iter().enumerate().map(access).collect(), instructions }
}
