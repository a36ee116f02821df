//! Merges the threads of a trace, whose streams are read without decoding addresses.

use super::{merge, Cursor, Edges, Memory, Options, Report, Spill, Step, Sync};
use crate::ids::Thread;
use crate::{steps, Event, Trace};
use std::io;

/// Merges all threads of a trace into turns. References that are lost to damage keep a place, as many of them as are
/// known to be missing. `spill`: where synchronisation operations go beyond the memory that they may take; if it is not
/// said, they take what they need.
///
/// # Errors
/// Those of `sink`, and if operations cannot be written where they go.
pub fn merge_trace<E: From<io::Error>>(
    trace: &Trace<'_>,
    options: Options,
    spill: Option<&mut dyn Spill>,
    mut sink: impl FnMut(Thread, u64) -> Result<(), E>,
) -> Result<Report, E> {
    let lanes = Lanes::of(trace);
    if let [(thread, references)] = lanes.threads[..] {
        sink(thread, references)?;
        return Ok(Report { references, turns: 1, ..Report::default() });
    }
    let memory = spill.map(|spill| Memory { bytes: options.memory, spill });
    let edges = lanes.edges(trace, memory)?;
    let cursors = lanes.cursors(trace, Lost::Keep);
    merge(cursors, edges, options, |lane, references| sink(lanes.threads[lane.index()].0, references))
}

/// What becomes of references that damage has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// They keep their place in the order.
    Keep,
    /// They are gone.
    Drop,
}

/// The threads of a trace, numbered without holes.
pub(crate) struct Lanes {
    /// Each lane's thread and its references.
    pub threads: Vec<(Thread, u64)>,
}

impl Lanes {
    pub fn of(trace: &Trace<'_>) -> Lanes {
        Lanes { threads: trace.threads().collect() }
    }

    /// The lane of a thread; one that does not exist if the trace has nothing of the thread.
    pub fn lane(&self, thread: Thread) -> Thread {
        let lane = self.threads.binary_search_by_key(&thread, |&(thread, _)| thread);
        Thread(lane.map_or(u32::MAX, |lane| lane as u32))
    }

    /// The first pass: the edges between the threads.
    pub fn edges(&self, trace: &Trace<'_>, memory: Option<Memory<'_>>) -> io::Result<Edges> {
        let steps =
            |lane: usize| trace.thread_events(self.threads[lane].0).filter_map(|event| self.event(&event));
        Edges::collect(self.threads.len(), steps, memory)
    }

    /// What an event means for the order.
    fn event(&self, event: &Event) -> Option<Step> {
        match *event {
            Event::ThreadStart { thread, .. } => Some(Step::Start(self.lane(thread))),
            Event::ThreadJoin { thread } => Some(Step::Join(self.lane(thread))),
            Event::Sync { op, object, stamp } => Some(Step::Sync(Sync { op, object, stamp })),
            _ => None,
        }
    }

    /// The second pass: the steps of each thread.
    pub fn cursors<'t>(&'t self, trace: &'t Trace<'_>, lost: Lost) -> Vec<LaneSteps<'t>> {
        let of_thread =
            |&(thread, _): &(Thread, u64)| LaneSteps { lanes: self, steps: trace.thread_steps(thread), lost };
        self.threads.iter().map(of_thread).collect()
    }
}

/// The steps of one lane.
pub(crate) struct LaneSteps<'t> {
    lanes: &'t Lanes,
    steps: steps::Steps<'t>,
    lost: Lost,
}

impl Cursor for LaneSteps<'_> {
    #[inline]
    fn step(&mut self) -> Option<Step> {
        if let Some(run) = self.steps.run() {
            let (references, instructions) = (run.references, run.instructions);
            return Some(Step::Run { references, instructions, times: run.count });
        }
        self.other()
    }
}

impl LaneSteps<'_> {
    /// A step that is not simply the next run.
    fn other(&mut self) -> Option<Step> {
        loop {
            let step = match self.steps.next()? {
                steps::Step::Run { executions, references, instructions, .. } => {
                    Some(Step::Run { references, instructions, times: executions })
                }
                steps::Step::Advance(units) => Some(Step::Wait(units)),
                steps::Step::Lost { references, .. } if self.lost == Lost::Keep => {
                    Some(Step::Run { references: 1, instructions: 1, times: references })
                }
                steps::Step::Lost { .. } => None,
                steps::Step::Event(event) => self.lanes.event(&event),
            };
            if step.is_some() {
                return step;
            }
        }
    }
}
