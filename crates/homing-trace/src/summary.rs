//! The counts of a trace.

use super::event::Event;
use super::format::Header;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a recorded program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Its exit status, 128 + N for signal N.
    pub status: u8,
    /// Whether it was asked to end, by its recorder or by whoever watched that: there was more to come.
    pub asked: bool,
}

impl Ending {
    /// Whether a signal ended it that nobody sent on purpose.
    pub fn is_crash(&self) -> bool {
        !self.asked && self.status > 128
    }
}

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
    /// References before the recording began (`--skip`) that are left out.
    pub skipped: u64,
    /// References after it ended (`--limit`), as far as they arrived before the recorder stopped.
    pub beyond_limit: u64,
    /// References outside of the region of interest that are left out, as far as they arrived before the recorder
    /// stopped.
    pub outside: u64,
    /// References before that region, or skipped, which are kept all the same: the first to each page.
    pub first_touches: u64,
    /// Windows in which the program was recorded; 0: always.
    #[serde(skip_serializing_if = "is_zero")]
    pub windows: u32,
    /// Words of the recording wire that threads sent in windows that they ended,
    #[serde(skip_serializing_if = "is_zero")]
    pub window_words: u64,
    /// and those that they would have sent between windows, up to the last one that they began.
    #[serde(skip_serializing_if = "is_zero")]
    pub unseen_words: u64,
    /// References that the recorder reported as lost.
    pub lost: u64,
    /// Wire segments that never arrived.
    pub lost_segments: u64,
    /// Words of the wire that made no sense.
    pub malformed: u64,
    /// How the program ended, where its recorder knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
    /// The references of code of each file, where the recorder says where code lies (Valgrind); those of code in no
    /// file have the empty name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_file: BTreeMap<String, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// What the summary block has beside the counts; versions before did not write it, and pass over it.
#[derive(Deserialize)]
struct Beside {
    header: Option<Header>,
}

impl Summary {
    /// Counts what an event says of windows.
    pub(super) fn window(&mut self, event: &Event) {
        if let Event::Window { number, begins, words, .. } = *event {
            self.windows = self.windows.max(number);
            let sum = if begins { &mut self.unseen_words } else { &mut self.window_words };
            *sum = sum.saturating_add(words);
        }
    }

    /// The share of the program that lies in its windows, in words; `None`: it was not recorded in windows.
    pub fn share_in_windows(&self) -> Option<f64> {
        let all = self.window_words.saturating_add(self.unseen_words);
        (self.windows > 0 && all > 0).then(|| self.window_words as f64 / all as f64)
    }

    /// The bytes of a summary block: the counts, and a copy of the header for the case that it is damaged.
    pub(super) fn encode(&self, header: &Header) -> std::io::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct Block<'a> {
            #[serde(flatten)]
            summary: &'a Summary,
            header: &'a Header,
        }
        serde_json::to_vec(&Block { summary: self, header }).map_err(std::io::Error::other)
    }

    /// The counts in the bytes of a summary block, and the copy of the header if it has one; `None` if it is malformed.
    pub(super) fn decode(raw: &[u8]) -> Option<(Summary, Option<Header>)> {
        let summary = serde_json::from_slice(raw).ok()?;
        let header = serde_json::from_slice::<Beside>(raw).ok().and_then(|beside| beside.header);
        Some((summary, header.filter(|header| header.check().is_ok())))
    }
}
