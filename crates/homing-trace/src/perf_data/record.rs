//! Records that say what processes do: `enum perf_event_type` of linux/perf_event.h.

use super::bytes::{text, Bytes};
use super::sample::Sample;

/// Types of the kernel's records, and of perf's own (from 64 on; perf.data-file-format.txt).
pub(super) mod kind {
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const THROTTLE: u32 = 5;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const LOST_SAMPLES: u32 = 13;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const EVENT_UPDATE: u32 = 78;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

const CPU_MODE: u16 = 7;
const MODE_USER: u16 = 2;
/// Of a COMM record: the thread executes a program.
const COMM_EXEC: u16 = 1 << 13;
/// Of an MMAP2 record: it has a build-id in the place of device and inode.
const MMAP_BUILD_ID: u16 = 1 << 14;

/// Something that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A sample.
    Sample(Sample),
    /// A process mapped memory.
    Mapped(Mapped),
    /// A thread got a name.
    Named {
        /// Its process.
        pid: i32,
        /// The name.
        name: String,
        /// It executes another program: what was mapped before is gone.
        executes: bool,
    },
    /// A process began as a copy of another.
    Began {
        /// The new process.
        pid: i32,
        /// The process that made it.
        parent: i32,
    },
}

/// A mapping. That one ends is not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// The process.
    pub pid: i32,
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The inode; 0 for none, or if the file does not say.
    pub inode: u64,
    /// The build-id, if the file says it here.
    pub build_id: Option<Vec<u8>>,
    /// `PROT_*`, if the file says it.
    pub protection: Option<u32>,
    /// Shared with others (`MAP_SHARED`).
    pub shared: bool,
    /// What is mapped: a path, `//anon`, `[heap]`.
    pub name: String,
}

/// What a record of a process says; `None` if it is another kind, or cut.
pub(super) fn process(kind: u32, misc: u16, body: &[u8]) -> Option<Record> {
    let mut at = Bytes(body);
    let (pid, other) = at.pair()?;
    let pid = pid as i32;
    match kind {
        kind::MMAP | kind::MMAP2 => mapped(kind, misc, pid, at).map(Record::Mapped),
        kind::COMM => Some(Record::Named { pid, name: text(at.0), executes: misc & COMM_EXEC != 0 }),
        kind::FORK => Some(Record::Began { pid, parent: other as i32 }),
        _ => None,
    }
}

fn mapped(kind: u32, misc: u16, pid: i32, mut at: Bytes<'_>) -> Option<Mapped> {
    let (start, length, offset) = (at.u64()?, at.u64()?, at.u64()?);
    let mut mapped = Mapped {
        pid,
        start,
        end: start.checked_add(length)?,
        offset,
        inode: 0,
        build_id: None,
        protection: None,
        shared: false,
        name: String::new(),
    };
    if kind == kind::MMAP2 {
        let mut file = Bytes(at.take(24)?);
        if misc & MMAP_BUILD_ID != 0 {
            let size = usize::from(file.0[0]).min(20);
            mapped.build_id = Some(file.0[4..4 + size].to_vec());
        } else {
            file.skip(8)?;
            mapped.inode = file.u64()?;
        }
        let (protection, flags) = at.pair()?;
        (mapped.protection, mapped.shared) = (Some(protection), flags & 1 == 1);
    }
    mapped.name = text(at.0);
    // The kernel's own, and those of guests.
    (misc & CPU_MODE == MODE_USER && pid >= 0).then_some(mapped)
}
