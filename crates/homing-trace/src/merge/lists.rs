//! The synchronisation operations of all threads, each thread's in its order: in memory, and beyond a budget in a file.

use std::io;
use std::ops::Range;

/// A synchronisation operation as the merge sees it: 8 bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// Number of the object.
    pub object: u32,
    /// Releases of the object with a smaller stamp.
    pub rank: u32,
}

/// Bytes of an operation.
const SIZE: usize = 8;
/// Operations of a thread that are read from the file at once.
const AT_ONCE: usize = 2048;
/// Lists shorter than this stay in memory, but for the last budget of many threads.
const SHORT: usize = 512;

/// Where operations go beyond the memory that they may take.
pub trait Spill {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// All that was written, to be read. Nothing is written after that.
    ///
    /// # Errors
    /// If not all of it can be written.
    fn written(&mut self) -> io::Result<Box<dyn ReadAt>>;
}

/// What can be read anywhere.
pub trait ReadAt {
    /// Fills `bytes` with those from `at` on.
    ///
    /// # Errors
    /// If they cannot be read.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
}

/// How much memory operations may take, and where the rest goes.
pub struct Memory<'a> {
    /// Bytes.
    pub bytes: u64,
    /// Where the rest goes.
    pub spill: &'a mut dyn Spill,
}

/// The operations of one thread.
#[derive(Default)]
struct List {
    /// Those that are in the file: their ordinals, and where the first is.
    written: Vec<(Range<usize>, usize)>,
    /// Those that follow.
    last: Vec<Operation>,
    /// Which of `written` was read last, and what was read: ordinals and operations.
    at: usize,
    read: (Range<usize>, Vec<u8>),
}

impl List {
    /// The ordinal of the first that is in memory.
    fn first(&self) -> usize {
        self.written.last().map_or(0, |(ordinals, _)| ordinals.end)
    }

    /// Reads the operation with an ordinal that is in the file, and some that follow.
    #[cold]
    fn fetch(&mut self, file: &dyn ReadAt, ordinal: usize) -> io::Result<()> {
        while ordinal < self.written[self.at].0.start {
            self.at -= 1;
        }
        while ordinal >= self.written[self.at].0.end {
            self.at += 1;
        }
        let (ordinals, begin) = &self.written[self.at];
        let end = ordinals.end.min(ordinal + AT_ONCE);
        self.read.1.resize((end - ordinal) * SIZE, 0);
        self.read.0 = 0..0;
        file.read_at(&mut self.read.1, (begin + (ordinal - ordinals.start) * SIZE) as u64)?;
        self.read.0 = ordinal..end;
        Ok(())
    }
}

/// The lists of all threads.
#[derive(Default)]
pub(super) struct Lists {
    lists: Vec<List>,
    /// Operations in memory.
    held: usize,
    /// Bytes in the file.
    written: usize,
    file: Option<Box<dyn ReadAt>>,
    error: Option<io::Error>,
}

impl std::fmt::Debug for Lists {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lists({} threads, {} held, {} bytes written)", self.lists.len(), self.held, self.written)
    }
}

impl Lists {
    /// An empty list for each thread.
    pub fn new(threads: usize) -> Lists {
        Lists { lists: std::iter::repeat_with(List::default).take(threads).collect(), ..Lists::default() }
    }

    /// Adds the next operation of a thread.
    pub fn push(
        &mut self,
        thread: usize,
        operation: Operation,
        memory: &mut Option<Memory<'_>>,
    ) -> io::Result<()> {
        self.lists[thread].last.push(operation);
        self.held += 1;
        match memory {
            Some(memory) if (self.held * SIZE) as u64 > memory.bytes => self.write(memory),
            _ => Ok(()),
        }
    }

    /// Moves what is in memory to the file.
    #[cold]
    fn write(&mut self, memory: &mut Memory<'_>) -> io::Result<()> {
        let least = SHORT.min(self.held / (2 * self.lists.len()));
        let mut bytes = Vec::new();
        for list in self.lists.iter_mut().filter(|list| list.last.len() > least) {
            bytes.clear();
            for operation in &list.last {
                bytes.extend(operation.object.to_le_bytes());
                bytes.extend(operation.rank.to_le_bytes());
            }
            memory.spill.write(&bytes)?;
            let (first, count) = (list.first(), list.last.len());
            list.written.push((first..first + count, self.written));
            self.written += bytes.len();
            self.held -= count;
            list.last = Vec::new();
        }
        Ok(())
    }

    /// Everything is there: it may be read.
    pub fn finish(&mut self, memory: &mut Option<Memory<'_>>) -> io::Result<()> {
        if let (Some(memory), true) = (memory, self.written > 0) {
            self.file = Some(memory.spill.written()?);
        }
        Ok(())
    }

    /// The operation of a thread with an ordinal; none if it cannot be read ([`Lists::take_error`]). Cheap where
    /// ordinals rise.
    #[inline]
    pub fn get(&mut self, thread: usize, ordinal: usize) -> Option<Operation> {
        let list = self.lists.get_mut(thread)?;
        let first = list.first();
        if ordinal >= first {
            return list.last.get(ordinal - first).copied();
        }
        if !list.read.0.contains(&ordinal) {
            let file = self.file.as_ref()?;
            if let Err(error) = list.fetch(&**file, ordinal) {
                self.error.get_or_insert(error);
                return None;
            }
        }
        let bytes = &list.read.1[(ordinal - list.read.0.start) * SIZE..][..SIZE];
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Operation { object: number(0), rank: number(4) })
    }

    /// Why an operation could not be read, if that has happened.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Replaces an operation that is in memory.
    pub fn put(&mut self, thread: usize, ordinal: usize, operation: Operation) {
        self.lists[thread].last[ordinal] = operation;
    }

    /// Bytes that went to the file.
    pub fn written(&self) -> u64 {
        self.written as u64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A file in memory.
    #[derive(Default)]
    pub(crate) struct InMemory(pub Vec<u8>);

    impl Spill for InMemory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend(bytes);
            Ok(())
        }

        fn written(&mut self) -> io::Result<Box<dyn ReadAt>> {
            Ok(Box::new(InMemory(std::mem::take(&mut self.0))))
        }
    }

    impl ReadAt for InMemory {
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            let all = self.0.get(at as usize..).and_then(|all| all.get(..bytes.len()));
            bytes.copy_from_slice(all.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let mut spill = InMemory::default();
        let mut memory = Some(Memory { bytes: 0, spill: &mut spill });
        let mut lists = Lists::new(1);
        for object in 0..1000 {
            lists.push(0, Operation { object, rank: 0 }, &mut memory).unwrap();
        }
        lists.file = Some(Box::new(InMemory::default()));
        assert_eq!(lists.get(0, 5), None);
        assert_eq!(lists.take_error().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        assert!(lists.take_error().is_none());
    }

    proptest! {
        /// With any budget, in any order of reading: what was put there.
        #[test]
        fn what_is_written_is_read_again(
            threads in prop::collection::vec(0..5usize, 0..4000),
            bytes in 0..20_000u64,
            reads in prop::collection::vec((0..6usize, 0..1500usize), 0..100),
        ) {
            let mut spill = InMemory::default();
            let mut memory = Some(Memory { bytes, spill: &mut spill });
            let (mut lists, mut plain) = (Lists::new(5), vec![Vec::new(); 5]);
            for (object, &thread) in (0..).zip(&threads) {
                let operation = Operation { object, rank: thread as u32 };
                lists.push(thread, operation, &mut memory).unwrap();
                plain[thread].push(operation);
                prop_assert!((lists.held * SIZE) as u64 <= bytes.max(5 * (SHORT * SIZE) as u64));
            }
            lists.finish(&mut memory).unwrap();
            for (thread, operations) in plain.iter().enumerate() {
                for (ordinal, operation) in operations.iter().enumerate() {
                    prop_assert_eq!(lists.get(thread, ordinal), Some(*operation));
                }
            }
            for (thread, ordinal) in reads {
                let expected = plain.get(thread).and_then(|list| list.get(ordinal)).copied();
                prop_assert_eq!(lists.get(thread, ordinal), expected);
            }
        }
    }
}
