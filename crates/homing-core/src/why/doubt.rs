//! Why a trace does not tell whether the placement of memory matters, and what would tell.

use super::verdict::Cause;
use serde::{Deserialize, Serialize};

/// A reason not to give a verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
#[cfg_attr(test, derive(ts_rs::TS))]
pub enum Doubt {
    /// A signal ended the program.
    Crashed {
        /// The signal's number.
        signal: u8,
    },
    /// The trace is not whole.
    Cut,
    /// One thread works in what was recorded, and that is not the whole run.
    OneThread {
        /// 100 * its references / those of all threads.
        percent: f64,
    },
    /// The recording ended while the program still filled memory that it had not used before.
    Growing {
        /// 100 * pages that are first used in the last quarter of the recording / all pages.
        percent: f64,
    },
    /// The trace has few references.
    Few {
        /// References.
        references: u64,
    },
    /// The program shares memory with processes whose references are not in the trace.
    SharedMemory {
        /// 100 * references to shared memory / all references.
        percent: f64,
    },
    /// The page cache may have had the pages of a file before the program ran.
    PageCache {
        /// The file with most references.
        file: String,
        /// Bytes of the pages of files that the program refers to.
        bytes: u64,
        /// 100 * references to them / all references.
        percent: f64,
    },
    /// Where threads run decides: with neighbouring threads on one node there is something to gain.
    Threads {
        /// What is wrong then.
        cause: Cause,
        /// 100 * the gain of the remedies then.
        percent: f64,
    },
    /// Threads use the same lines in turn, and these may travel far more often than the order of the recording shows.
    Order {
        /// Times they travelled in that order.
        seen: u64,
        /// Times more that they may travel where threads run at once.
        hidden: u64,
        /// 100 * the time that these would take / the run time with them.
        percent: f64,
    },
    /// The caches of the modelled machine hold all data in use, or nearly so.
    FitsCaches {
        /// Bytes of the pages that the program refers to.
        bytes: u64,
        /// Bytes of the last-level caches of the nodes that threads run on.
        caches: u64,
    },
}

impl Doubt {
    /// The reason, as a clause that follows a colon.
    pub fn words(&self) -> String {
        match self {
            Doubt::Crashed { signal } => format!("signal {signal} ended the program"),
            Doubt::Cut => "a part of the trace is missing".into(),
            Doubt::OneThread { percent } => format!(
                "one thread makes {percent:.0} % of the references, and only a part of the run was recorded"
            ),
            Doubt::Growing { percent } => format!(
                "the recording ended before the program did, and while it still filled new memory: {percent:.0} % of \
                 its pages are first used in the last quarter"
            ),
            Doubt::Few { references } => {
                format!("the trace has {references} references, which do not tell what a longer run does")
            }
            Doubt::SharedMemory { percent } => format!(
                "{percent:.0} % of what reaches memory is shared with processes whose references are not in this trace"
            ),
            Doubt::PageCache { file, bytes, percent } => format!(
                "{percent:.0} % of what reaches memory is in the page cache, and no trace tells on which nodes that \
                 has {} of {file}",
                mebibytes(*bytes)
            ),
            Doubt::Threads { cause, percent } => format!(
                "where threads run decides: in turn over the nodes there is nothing to gain, with neighbours on one \
                 node {percent:.0} % ({})",
                cause.short()
            ),
            Doubt::Order { seen, hidden, percent } => format!(
                "threads use the same cache lines in turn, which travel {seen} times between nodes in the order of the \
                 recording, and up to {} times where threads run at once: that would be {percent:.0} % of the run time",
                seen + hidden
            ),
            Doubt::FitsCaches { bytes, caches } => format!(
                "the program uses {}, and caches hold {} (modelled)",
                mebibytes(*bytes),
                mebibytes(*caches)
            ),
        }
    }

    /// What would tell, in a sentence.
    pub fn advice(&self) -> &'static str {
        match self {
            Doubt::Crashed { .. } => "Repair the crash, then record again: homing why -- PROGRAM",
            Doubt::Cut => "Record again: homing why -- PROGRAM",
            Doubt::OneThread { .. } | Doubt::Growing { .. } => {
                "Record what comes later: homing why --from FUNCTION -- PROGRAM, or a larger --budget"
            }
            Doubt::Few { .. } => "Record a longer run: homing why -- PROGRAM",
            Doubt::SharedMemory { .. } => {
                "Record the processes together: homing why -- PROGRAM; or judge them while they run: homing why --pid N"
            }
            Doubt::PageCache { .. } => {
                "See where its pages are while the program runs: homing top, or homing why --pid N"
            }
            Doubt::Threads { .. } => "Say where they run: homing why TRACE --threads-on LIST",
            Doubt::Order { .. } => "Record it with its threads at once: homing cc (docs/recording.md), then homing why",
            Doubt::FitsCaches { .. } => "Record a larger input: homing why -- PROGRAM",
        }
    }
}

fn mebibytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_a_clause_and_says_what_would_tell() {
        let all = [
            Doubt::Crashed { signal: 11 },
            Doubt::Cut,
            Doubt::OneThread { percent: 99.6 },
            Doubt::Growing { percent: 30.0 },
            Doubt::Few { references: 7 },
            Doubt::SharedMemory { percent: 95.0 },
            Doubt::PageCache { file: "/data/weights".into(), bytes: 5 << 20, percent: 40.0 },
            Doubt::FitsCaches { bytes: 49 << 20, caches: 64 << 20 },
            Doubt::Threads { cause: Cause::SharedByAll, percent: 7.0 },
            Doubt::Order { seen: 7, hidden: 9000, percent: 12.0 },
        ];
        for doubt in &all {
            let words = doubt.words();
            assert!(!words.ends_with('.') && !words.starts_with(char::is_uppercase), "{words}");
            assert!(doubt.advice().contains("homing "), "{doubt:?}");
        }
        assert_eq!(all[7].words(), "the program uses 49 MiB, and caches hold 64 MiB (modelled)");
    }
}
