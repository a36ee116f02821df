//! The events of a trace: everything that a recorder reports besides data references (`docs/recording-wire.md`).

use super::names::NameId;
use super::varint::{self, Cursor};
use crate::ids::Thread;

/// What a synchronisation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncOp {
    /// What came before is visible to later acquires of the object.
    Release,
    /// Comes after every release of the object with a smaller stamp.
    Acquire,
    /// Both, as a barrier does.
    Both,
}

/// The function that allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum AllocFunction {
    Malloc,
    Calloc,
    Realloc,
    Memalign,
    New,
    NewArray,
    /// One that this version has no name for.
    Other(u8),
}

/// An event of one thread. Addresses are virtual addresses of the recorded process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `creator` created `thread`; in the creator's stream, before the thread's first reference.
    ThreadStart {
        /// The new thread.
        thread: Thread,
        /// Who created it.
        creator: Thread,
    },
    /// The thread ended.
    ThreadEnd,
    /// `thread` was joined or seen to be dead.
    ThreadJoin {
        /// The thread that has ended.
        thread: Thread,
    },
    /// A synchronisation edge.
    Sync {
        /// Which side of the edge.
        op: SyncOp,
        /// The address of the object.
        object: u64,
        /// A process-wide increasing number.
        stamp: u64,
    },
    /// A new mapping.
    Mmap {
        /// As the third argument of mmap(2).
        protection: u32,
        /// The low 16 bits of the fourth argument.
        flags: u16,
        /// Its start.
        address: u64,
        /// Its length in bytes.
        length: u64,
        /// Offset in the file in bytes.
        offset: u64,
        /// Name of the file.
        name: NameId,
    },
    /// A mapping goes away.
    Munmap {
        /// Its start.
        address: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// The program break moved.
    Brk {
        /// The old end of the heap.
        old: u64,
        /// The new end.
        new: u64,
    },
    /// A mapping moved, grew or shrank.
    Mremap {
        /// Old start.
        old: u64,
        /// Old length in bytes.
        old_length: u64,
        /// New start.
        new: u64,
        /// New length in bytes.
        new_length: u64,
    },
    /// An allocation.
    Alloc {
        /// The allocating function.
        function: AllocFunction,
        /// What it returned.
        address: u64,
        /// Bytes asked for.
        size: u64,
        /// The call site.
        site: NameId,
    },
    /// The end of an allocation.
    Free {
        /// What [`Event::Alloc`] returned.
        address: u64,
    },
    /// A mark that the program set: an iteration or a region.
    Mark {
        /// Number of the mark, as the program counts.
        number: u64,
        /// Its name.
        name: NameId,
    },
    /// References that the recorder had to drop here.
    Lost {
        /// How many (0: unknown).
        references: u64,
        /// Why.
        reason: NameId,
    },
    /// The process forked; the child is not recorded.
    Fork {
        /// Process id of the child.
        process: u64,
    },
    /// The kernel accessed user memory on the thread's behalf. Not counted as a reference.
    KernelAccess {
        /// Its start.
        address: u64,
        /// Its length in bytes.
        bytes: u64,
        /// Whether the kernel wrote.
        write: bool,
    },
}

impl Event {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, fields, count) = self.fields();
        out.push(kind);
        fields[..count].iter().for_each(|&field| varint::put(out, field));
    }

    /// The kind byte (the operation number of the recording wire) and the fields in the order of the format.
    fn fields(&self) -> (u8, [u64; 6], usize) {
        let mut fields = [0; 6];
        let mut set = |kind, values: &[u64]| {
            fields[..values.len()].copy_from_slice(values);
            (kind, fields, values.len())
        };
        match *self {
            Event::ThreadStart { thread, creator } => set(4, &[thread.0.into(), creator.0.into()]),
            Event::ThreadEnd => set(5, &[]),
            Event::ThreadJoin { thread } => set(6, &[thread.0.into()]),
            Event::Sync { op, object, stamp } => set(7, &[op as u64, object, stamp]),
            Event::Mmap { protection, flags, address, length, offset, name } => {
                set(8, &[protection.into(), flags.into(), address, length, offset, name.0.into()])
            }
            Event::Munmap { address, length } => set(9, &[address, length]),
            Event::Brk { old, new } => set(10, &[old, new]),
            Event::Mremap { old, old_length, new, new_length } => {
                set(11, &[old, old_length, new, new_length])
            }
            Event::Alloc { function, address, size, site } => {
                set(12, &[function.code().into(), address, size, site.0.into()])
            }
            Event::Free { address } => set(13, &[address]),
            Event::Mark { number, name } => set(17, &[number, name.0.into()]),
            Event::Lost { references, reason } => set(18, &[references, reason.0.into()]),
            Event::Fork { process } => set(19, &[process]),
            Event::KernelAccess { address, bytes, write } => set(20, &[address, bytes, write.into()]),
        }
    }

    /// Reads one event; `None` if it is malformed.
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Event> {
        let kind = cursor.byte()?;
        let mut next = || cursor.varint();
        let id = |value: u64| u32::try_from(value).ok();
        Some(match kind {
            4 => Event::ThreadStart { thread: Thread(id(next()?)?), creator: Thread(id(next()?)?) },
            5 => Event::ThreadEnd,
            6 => Event::ThreadJoin { thread: Thread(id(next()?)?) },
            7 => Event::Sync { op: SyncOp::from_code(next()?)?, object: next()?, stamp: next()? },
            8 => Event::Mmap {
                protection: id(next()?)?,
                flags: u16::try_from(next()?).ok()?,
                address: next()?,
                length: next()?,
                offset: next()?,
                name: NameId(id(next()?)?),
            },
            9 => Event::Munmap { address: next()?, length: next()? },
            10 => Event::Brk { old: next()?, new: next()? },
            11 => Event::Mremap { old: next()?, old_length: next()?, new: next()?, new_length: next()? },
            12 => Event::Alloc {
                function: AllocFunction::from_code(u8::try_from(next()?).ok()?),
                address: next()?,
                size: next()?,
                site: NameId(id(next()?)?),
            },
            13 => Event::Free { address: next()? },
            17 => Event::Mark { number: next()?, name: NameId(id(next()?)?) },
            18 => Event::Lost { references: next()?, reason: NameId(id(next()?)?) },
            19 => Event::Fork { process: next()? },
            20 => Event::KernelAccess { address: next()?, bytes: next()?, write: next()? != 0 },
            _ => return None,
        })
    }
}

impl SyncOp {
    /// The operation with this code on the recording wire.
    pub(super) fn from_code(code: u64) -> Option<SyncOp> {
        [SyncOp::Release, SyncOp::Acquire, SyncOp::Both].get(usize::try_from(code).ok()?).copied()
    }
}

impl AllocFunction {
    const NAMED: [AllocFunction; 6] = [
        AllocFunction::Malloc,
        AllocFunction::Calloc,
        AllocFunction::Realloc,
        AllocFunction::Memalign,
        AllocFunction::New,
        AllocFunction::NewArray,
    ];

    /// The function with this code on the recording wire.
    pub(super) fn from_code(code: u8) -> AllocFunction {
        Self::NAMED.get(usize::from(code)).copied().unwrap_or(AllocFunction::Other(code))
    }

    fn code(self) -> u8 {
        match self {
            AllocFunction::Other(code) => code,
            named => Self::NAMED.iter().position(|&f| f == named).unwrap_or_default() as u8,
        }
    }

    /// Its name in C or C++.
    pub fn name(self) -> &'static str {
        match self {
            AllocFunction::Malloc => "malloc",
            AllocFunction::Calloc => "calloc",
            AllocFunction::Realloc => "realloc",
            AllocFunction::Memalign => "memalign",
            AllocFunction::New => "operator new",
            AllocFunction::NewArray => "operator new[]",
            AllocFunction::Other(_) => "other",
        }
    }
}
