//! The threads of a trace in the making. One that has ended keeps no state but its counts: a program may make many, and
//! each mapping that goes away concerns all that are there.

use super::super::by_thread::ByThread;
use super::super::code::CodeBlockId;
use super::super::encode::ThreadEncoder;
use super::super::grain::Grain;
use super::super::kind::Kind;
use super::MAX_RUN;
use crate::ids::Thread;
use std::collections::HashMap;

/// The state of one thread.
pub(super) struct ThreadWriter {
    pub encoder: ThreadEncoder,
    /// References that are not yet part of a discovered code block.
    pub run: Vec<(u64, Kind)>,
    pub run_addresses: Vec<u64>,
    /// The number of its last run in [`super::Runs`].
    pub last_run: u32,
}

/// A thread that has ended.
#[derive(Clone, Copy)]
struct Ended {
    references: u64,
    time: u64,
}

/// All threads, by number.
pub(super) struct Threads {
    running: ByThread<Box<ThreadWriter>>,
    ended: HashMap<Thread, Ended>,
    /// References of those, by kind.
    by_kind: Box<[u64; 256]>,
    /// ... and by code block.
    by_block: HashMap<CodeBlockId, u64>,
    /// Their words that should have been addresses and are not.
    wrong: u64,
    /// How fine addresses are written.
    grain: Grain,
}

impl Threads {
    pub fn new(grain: Grain) -> Threads {
        let (by_kind, by_block) = (Box::new([0; 256]), HashMap::new());
        Threads { running: ByThread::default(), ended: HashMap::new(), by_kind, by_block, wrong: 0, grain }
    }

    /// The state of a thread, which is made if there is none.
    #[inline]
    pub fn of(&mut self, thread: Thread) -> &mut ThreadWriter {
        self.running.get_or_insert_with(thread, || {
            let Ended { references, time } =
                self.ended.remove(&thread).unwrap_or(Ended { references: 0, time: 0 });
            Box::new(ThreadWriter {
                encoder: ThreadEncoder::new(thread, references, time, self.grain),
                run: Vec::with_capacity(MAX_RUN),
                run_addresses: Vec::with_capacity(MAX_RUN),
                last_run: 0,
            })
        })
    }

    /// Lets go of a thread whose blocks are all written. It may come again.
    pub fn end(&mut self, thread: Thread) {
        if let Some(writer) = self.running.remove(thread) {
            writer.encoder.count_kinds(&mut self.by_kind);
            writer.encoder.count_blocks(&mut self.by_block);
            self.wrong += writer.encoder.wrong();
            let ended = Ended { references: writer.encoder.references(), time: writer.encoder.time() };
            self.ended.insert(thread, ended);
        }
    }

    /// The threads that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &ThreadWriter> {
        self.running.iter().map(|(_, writer)| &**writer)
    }

    /// The same, to change them.
    pub fn running_mut(&mut self) -> impl Iterator<Item = &mut ThreadWriter> {
        self.running.iter_mut().map(|(_, writer)| &mut **writer)
    }

    /// The numbers of the threads that have not ended.
    pub fn running_numbers(&self) -> Vec<Thread> {
        self.running.iter().map(|(thread, _)| thread).collect()
    }

    /// How many there are, with those that have ended.
    pub fn count(&self) -> u32 {
        (self.running().count() + self.ended.len()) as u32
    }

    /// References of all of them.
    pub fn references(&self) -> u64 {
        let ended: u64 = self.ended.values().map(|ended| ended.references).sum();
        ended + self.running().map(|w| w.encoder.references() + w.run.len() as u64).sum::<u64>()
    }

    /// Words of all of them that should have been addresses and are not.
    pub fn wrong(&self) -> u64 {
        self.wrong + self.running().map(|writer| writer.encoder.wrong()).sum::<u64>()
    }

    /// The references of sealed blocks, by code block.
    pub fn by_block(&self) -> HashMap<CodeBlockId, u64> {
        let mut all = self.by_block.clone();
        self.running().for_each(|writer| writer.encoder.count_blocks(&mut all));
        all
    }

    /// Adds the references of sealed blocks, by kind.
    pub fn count_kinds(&self, by_kind: &mut [u64; 256]) {
        by_kind.iter_mut().zip(self.by_kind.iter()).for_each(|(sum, count)| *sum += count);
        self.running().for_each(|writer| writer.encoder.count_kinds(by_kind));
    }
}

#[cfg(test)]
mod tests {
    use super::super::TraceWriter;
    use super::*;
    use crate::{Event, Header, Summary, Trace};

    #[test]
    fn a_thread_that_ends_leaves_only_its_counts_and_may_come_again() {
        let mut writer = TraceWriter::new(Vec::new(), &Header::new("test", "1")).unwrap();
        let kind = Kind::new(8, true, false);
        for round in 0..3 {
            for thread in (0..100).map(Thread) {
                for i in 0..10 {
                    writer.reference(thread, 0, 0x1000 + (round * 10 + i) * 8, kind).unwrap();
                }
                writer.event(thread, &Event::ThreadEnd).unwrap();
                assert_eq!(writer.threads.running().count(), 0);
            }
            assert_eq!((writer.threads.count(), writer.references()), (100, (round + 1) * 1000));
        }
        let (bytes, summary) = writer.finish(Summary::default()).unwrap();
        assert_eq!((summary.threads, summary.references, summary.writes), (100, 3000, 3000));
        let trace = Trace::open(&bytes).unwrap();
        assert!(trace.threads().all(|(_, references)| references == 30) && trace.damage().is_empty());
        let mut steps = trace.thread_steps(Thread(7));
        steps.by_ref().for_each(drop);
        assert_eq!((steps.time(), trace.thread_events(Thread(7)).count()), (30, 3));
    }
}
