//! The events of a trace: everything that a recorder reports besides data references (`docs/recording-wire.md`).

use super::names::NameId;
use super::varint::{self, Cursor};
use crate::ids::Thread;
use homing_wire::{alloc, op, sync};

/// What a synchronisation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncOp {
    /// What came before is visible to later acquires of the object.
    Release = sync::RELEASE as isize,
    /// Comes after every release of the object with a smaller stamp.
    Acquire = sync::ACQUIRE as isize,
    /// Both, as a barrier does.
    Both = sync::BOTH as isize,
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
    /// The program asks for huge pages for a part of its memory, or refuses them (madvise(2)).
    Huge {
        /// Its start.
        address: u64,
        /// Its length in bytes.
        length: u64,
        /// Whether it asks for them.
        wanted: bool,
    },
    /// The thread begins to record in a window, or ends it (`homing record --windows`).
    Window {
        /// Which window, in the order in which they opened; from 1.
        number: u32,
        /// Whether it begins.
        begins: bool,
        /// Words of references on the recording wire. Where it begins: those that the thread would have sent since it
        /// left the window before, or began. Where it ends: those that it sent in it.
        words: u64,
        /// The window opened or closed where threads do not meet, so that one may have been ahead of others there.
        apart: bool,
    },
}

/// The bit of `apart` in what a recorder says of a window.
const APART_AT: u32 = 33;

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
            Event::ThreadStart { thread, creator } => {
                set(op::THREAD_START, &[thread.0.into(), creator.0.into()])
            }
            Event::ThreadEnd => set(op::THREAD_END, &[]),
            Event::ThreadJoin { thread } => set(op::THREAD_JOIN, &[thread.0.into()]),
            Event::Sync { op, object, stamp } => set(op::SYNC, &[op as u64, object, stamp]),
            Event::Mmap { protection, flags, address, length, offset, name } => {
                set(op::MMAP, &[protection.into(), flags.into(), address, length, offset, name.0.into()])
            }
            Event::Munmap { address, length } => set(op::MUNMAP, &[address, length]),
            Event::Brk { old, new } => set(op::BRK, &[old, new]),
            Event::Mremap { old, old_length, new, new_length } => {
                set(op::MREMAP, &[old, old_length, new, new_length])
            }
            Event::Alloc { function, address, size, site } => {
                set(op::ALLOC, &[function.code().into(), address, size, site.0.into()])
            }
            Event::Free { address } => set(op::FREE, &[address]),
            Event::Mark { number, name } => set(op::MARK, &[number, name.0.into()]),
            Event::Lost { references, reason } => set(op::LOST, &[references, reason.0.into()]),
            Event::Fork { process } => set(op::FORK, &[process]),
            Event::KernelAccess { address, bytes, write } => {
                set(op::KERNEL_ACCESS, &[address, bytes, write.into()])
            }
            Event::Huge { address, length, wanted } => set(op::HUGE, &[address, length, wanted.into()]),
            Event::Window { number, begins, words, apart } => {
                let what = u64::from(apart) << APART_AT | u64::from(number) << 1 | u64::from(begins);
                set(op::WINDOW, &[what, words])
            }
        }
    }

    /// Reads one event; `None` if it is malformed.
    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Event> {
        let kind = cursor.byte()?;
        let mut next = || cursor.varint();
        let id = |value: u64| u32::try_from(value).ok();
        Some(match kind {
            op::THREAD_START => {
                Event::ThreadStart { thread: Thread(id(next()?)?), creator: Thread(id(next()?)?) }
            }
            op::THREAD_END => Event::ThreadEnd,
            op::THREAD_JOIN => Event::ThreadJoin { thread: Thread(id(next()?)?) },
            op::SYNC => Event::Sync { op: SyncOp::from_code(next()?)?, object: next()?, stamp: next()? },
            op::MMAP => Event::Mmap {
                protection: id(next()?)?,
                flags: u16::try_from(next()?).ok()?,
                address: next()?,
                length: next()?,
                offset: next()?,
                name: NameId(id(next()?)?),
            },
            op::MUNMAP => Event::Munmap { address: next()?, length: next()? },
            op::BRK => Event::Brk { old: next()?, new: next()? },
            op::MREMAP => {
                Event::Mremap { old: next()?, old_length: next()?, new: next()?, new_length: next()? }
            }
            op::ALLOC => Event::Alloc {
                function: AllocFunction::from_code(u8::try_from(next()?).ok()?),
                address: next()?,
                size: next()?,
                site: NameId(id(next()?)?),
            },
            op::FREE => Event::Free { address: next()? },
            op::MARK => Event::Mark { number: next()?, name: NameId(id(next()?)?) },
            op::LOST => Event::Lost { references: next()?, reason: NameId(id(next()?)?) },
            op::FORK => Event::Fork { process: next()? },
            op::KERNEL_ACCESS => {
                Event::KernelAccess { address: next()?, bytes: next()?, write: next()? != 0 }
            }
            op::HUGE => Event::Huge { address: next()?, length: next()?, wanted: next()? != 0 },
            op::WINDOW => Event::window(next()?, next()?)?,
            _ => return None,
        })
    }

    /// A window of which the recorder says what it is (`apart << 33 | number << 1 | begins`), and the words.
    pub(super) fn window(what: u64, words: u64) -> Option<Event> {
        let number = (what >> 1) as u32;
        (what >> APART_AT <= 1).then_some(Event::Window {
            number,
            begins: what & 1 != 0,
            words,
            apart: what >> APART_AT != 0,
        })
    }
}

impl SyncOp {
    /// The operation with this code on the recording wire.
    pub(super) fn from_code(code: u64) -> Option<SyncOp> {
        [SyncOp::Release, SyncOp::Acquire, SyncOp::Both].into_iter().find(|&op| op as u64 == code)
    }
}

impl AllocFunction {
    const NAMED: [(u8, AllocFunction); 6] = [
        (alloc::MALLOC, AllocFunction::Malloc),
        (alloc::CALLOC, AllocFunction::Calloc),
        (alloc::REALLOC, AllocFunction::Realloc),
        (alloc::MEMALIGN, AllocFunction::Memalign),
        (alloc::NEW, AllocFunction::New),
        (alloc::NEW_ARRAY, AllocFunction::NewArray),
    ];

    /// The function with this code on the recording wire.
    pub(super) fn from_code(code: u8) -> AllocFunction {
        let named = Self::NAMED.into_iter().find(|&(named, _)| named == code);
        named.map_or(AllocFunction::Other(code), |(_, function)| function)
    }

    fn code(self) -> u8 {
        match self {
            AllocFunction::Malloc => alloc::MALLOC,
            AllocFunction::Calloc => alloc::CALLOC,
            AllocFunction::Realloc => alloc::REALLOC,
            AllocFunction::Memalign => alloc::MEMALIGN,
            AllocFunction::New => alloc::NEW,
            AllocFunction::NewArray => alloc::NEW_ARRAY,
            AllocFunction::Other(code) => code,
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
