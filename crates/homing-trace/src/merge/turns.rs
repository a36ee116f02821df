//! The turns of a total order.

use crate::ids::Thread;

/// Joins turns of the same thread that follow each other.
#[derive(Debug)]
pub(crate) struct Turns<F> {
    thread: Thread,
    count: u64,
    turns: u64,
    sink: F,
}

impl<E, F: FnMut(Thread, u64) -> Result<(), E>> Turns<F> {
    pub(crate) fn new(sink: F) -> Turns<F> {
        Turns { thread: Thread(0), count: 0, turns: 0, sink }
    }

    #[inline]
    pub(crate) fn push(&mut self, thread: Thread, count: u64) -> Result<(), E> {
        if count == 0 {
            return Ok(());
        }
        if thread == self.thread || self.count == 0 {
            self.thread = thread;
            self.count += count;
            return Ok(());
        }
        let (before, references) = (self.thread, self.count);
        (self.thread, self.count) = (thread, count);
        self.turns += 1;
        (self.sink)(before, references)
    }

    /// Emits the last turn and gives the number of turns.
    pub(crate) fn finish(mut self) -> Result<u64, E> {
        if self.count > 0 {
            self.turns += 1;
            (self.sink)(self.thread, self.count)?;
        }
        Ok(self.turns)
    }
}
