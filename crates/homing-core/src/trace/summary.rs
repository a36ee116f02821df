//! The counts of a trace.

use serde::{Deserialize, Serialize};

/// What a trace holds and what it does not, as its writer counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Data references in the trace.
    pub references: u64,
    /// Those that read.
    pub reads: u64,
    /// Those that write (atomic read-modify-writes included).
    pub writes: u64,
    /// Those that are atomic.
    pub atomics: u64,
    /// Bytes accessed, sizes rounded as in [`super::Kind`].
    pub bytes_accessed: u64,
    /// Threads that ran.
    pub threads: u32,
    /// Distinct frames.
    pub frames: u32,
    /// Events.
    pub events: u64,
    /// References that the line filter dropped.
    pub filtered: u64,
    /// References before the recording began (`--skip`).
    pub skipped: u64,
    /// References after it ended (`--limit`), as far as they arrived before the recorder stopped.
    pub beyond_limit: u64,
    /// References that the recorder reported as lost.
    pub lost: u64,
    /// Wire segments that never arrived.
    pub lost_segments: u64,
    /// Words of the wire that made no sense.
    pub malformed: u64,
}
