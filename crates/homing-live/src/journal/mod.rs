//! The session log: one JSON value a line. As a *journal* it holds every decision and what came of it; *teed*, also
//! everything that the policy was told, in order, so that the decisions can be made again in simulation ([`check`]).
//!
//! Pages have addresses only within one run; regions are named by what they map and counted by address, so that with an
//! offset they mean the same in the next run, wherever the kernel put it.

mod check;

use homing_core::action::{Kind, Outcome};
use homing_core::machine::{Costs, General, Uniform};
use homing_core::policy::Context;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};

pub use check::{check, Checked};

/// What the policy calculated with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prices {
    /// All nodes equally far.
    Uniform {
        /// Number of nodes.
        nodes: u16,
        /// r.
        remote: f64,
        /// R.
        page_move: f64,
    },
    /// Matrices.
    General {
        /// Number of nodes.
        nodes: u16,
        /// Row by row.
        access: Vec<f64>,
        /// Row by row.
        copy: Vec<f64>,
    },
}

impl From<&Costs> for Prices {
    fn from(costs: &Costs) -> Prices {
        match costs {
            Costs::Uniform(u) => Prices::Uniform { nodes: u.nodes, remote: u.remote, page_move: u.page_move },
            Costs::General(g) => {
                Prices::General { nodes: g.nodes, access: g.access.clone(), copy: g.copy.clone() }
            }
        }
    }
}

impl From<Prices> for Costs {
    fn from(prices: Prices) -> Costs {
        match prices {
            Prices::Uniform { nodes, remote, page_move } => {
                Costs::Uniform(Uniform { nodes, remote, page_move, global: None })
            }
            Prices::General { nodes, access, copy } => Costs::General(General { nodes, access, copy }),
        }
    }
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the format: 1.
    pub homing_journal: u32,
    /// The program, or the processes.
    pub command: String,
    /// Policy.
    pub policy: String,
    /// Its parameters, `policy.name=value`.
    pub set: Vec<String>,
    /// Source.
    pub source: String,
    /// The kernel's numbers of the nodes.
    pub nodes: Vec<u32>,
    /// What the policy calculated with.
    pub prices: Prices,
    /// What it was told at first.
    pub context: Context,
    /// True if everything that the policy was told is in it.
    pub teed: bool,
}

/// The version that is written and read.
const VERSION: u32 = 1;

impl Header {
    /// A header of the present version.
    pub fn new(policy: &str, source: &str, costs: &Costs) -> Header {
        let context = Context {
            monitor: source.into(),
            weight: 1.0,
            interval: None,
            iterations: false,
            phases: false,
            page_bytes: 4096,
            nodes: costs.memories(),
            loads: false,
        };
        Header {
            context,
            homing_journal: VERSION,
            command: String::new(),
            policy: policy.into(),
            set: Vec::new(),
            source: source.into(),
            nodes: Vec::new(),
            prices: costs.into(),
            teed: false,
        }
    }
}

/// An outcome as a value of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Came {
    /// Carried out; in a dry run: counted as carried out.
    Done,
    /// Told later.
    Pending,
    /// It was so already.
    Already,
    /// By a rule.
    Refused(String),
    /// By the kernel.
    Failed(i32),
}

impl From<Outcome> for Came {
    fn from(outcome: Outcome) -> Came {
        match outcome {
            Outcome::Done => Came::Done,
            Outcome::Pending => Came::Pending,
            Outcome::Already => Came::Already,
            Outcome::Refused(why) => Came::Refused(why.to_owned()),
            Outcome::Failed(errno) => Came::Failed(errno),
        }
    }
}

impl Came {
    fn outcome(&self) -> Outcome {
        match self {
            Came::Done => Outcome::Done,
            Came::Pending => Outcome::Pending,
            Came::Already => Outcome::Already,
            Came::Refused(_) => Outcome::Refused("as in the journal"),
            Came::Failed(errno) => Outcome::Failed(*errno),
        }
    }
}

/// Where a page is, for people and for another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The process, by order of appearance.
    pub process: u32,
    /// Its region, such as `heap#0` or `libm.so.6#2`.
    pub region: String,
    /// Bytes from the region's beginning.
    pub offset: u64,
    /// Size of the page.
    pub bytes: u64,
}

/// One line behind the header. `t` is in microseconds of the session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Line {
    /// An access was seen.
    Sample {
        /// When.
        t: u64,
        /// The page.
        page: u32,
        /// The node that made it.
        node: u16,
        /// A store.
        store: bool,
        /// References that it stands for.
        weight: f64,
        /// Where the page was.
        at: u16,
    },
    /// An interval ended.
    Interval {
        /// When.
        t: u64,
    },
    /// A thread moved and stayed.
    ThreadMoved {
        /// When.
        t: u64,
        /// The thread.
        thread: u32,
        /// From.
        from: u16,
        /// To.
        to: u16,
    },
    /// The number of threads changed.
    ThreadsChanged {
        /// When.
        t: u64,
        /// Threads now.
        threads: u32,
    },
    /// A page was seen for the first time.
    New {
        /// The page.
        page: u32,
        /// Its address.
        address: u64,
    },
    /// A page's mapping went away.
    Gone {
        /// The page.
        page: u32,
    },
    /// The policy asked for something.
    Action {
        /// When.
        t: u64,
        /// The page.
        page: u32,
        /// What.
        action: Kind,
        /// Where the page was.
        from: Option<u16>,
        /// Why.
        reason: String,
        /// Sightings of the page by node since it was first seen.
        profile: Vec<u32>,
        /// Which page.
        place: Place,
        /// What came of it at once.
        outcome: Came,
    },
    /// A huge page was split, since several nodes use it: it is gone, its parts are new pages.
    Split {
        /// When.
        t: u64,
        /// The page.
        page: u32,
        /// Which page.
        place: Place,
    },
    /// What came of an action that was pending.
    Result {
        /// When.
        t: u64,
        /// The page.
        page: u32,
        /// What.
        action: Kind,
        /// What came of it.
        outcome: Came,
    },
}

/// Writes a log.
pub struct Writer<W: Write> {
    out: W,
    teed: bool,
    line: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut out: W, header: &Header) -> io::Result<Writer<W>> {
        serde_json::to_writer(&mut out, header)?;
        out.write_all(b"\n")?;
        Ok(Writer { out, teed: header.teed, line: Vec::new() })
    }

    /// Writes a line, unless it is one that only a teed log holds and this is none.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn put(&mut self, line: &Line) -> io::Result<()> {
        if !self.teed && !matches!(line, Line::Action { .. } | Line::Result { .. } | Line::Split { .. }) {
            return Ok(());
        }
        self.line.clear();
        serde_json::to_writer(&mut self.line, line)?;
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    /// Hands everything on.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Cannot be read.
    #[error("journal cannot be read")]
    Read(#[from] io::Error),
    /// A line makes no sense.
    #[error("journal, line {line}: {message}")]
    Line {
        /// Which.
        line: usize,
        /// Why.
        message: String,
    },
}

/// A log that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal {
    /// The header.
    pub header: Header,
    /// The lines.
    pub lines: Vec<Line>,
    /// True if the last line was cut: the engine was killed while it wrote.
    pub cut: bool,
}

impl Journal {
    /// Reads a log. A last line that is cut is left out.
    ///
    /// # Errors
    /// If it is no log, of another version, or a line makes no sense.
    pub fn read(input: impl BufRead) -> Result<Journal, JournalError> {
        let mut texts = input.lines().enumerate().peekable();
        let fail = |line: usize, message: String| JournalError::Line { line: line + 1, message };
        let (_, first) = texts.next().ok_or_else(|| fail(0, "the file is empty".into()))?;
        let header: Header = serde_json::from_str(&first?)
            .map_err(|e| fail(0, format!("{e}; expected the header that `homing run --journal` writes")))?;
        if header.homing_journal != VERSION {
            let message = format!("version {}: this program reads version {VERSION}", header.homing_journal);
            return Err(fail(0, message));
        }
        let mut journal = Journal { header, lines: Vec::new(), cut: false };
        while let Some((number, text)) = texts.next() {
            match serde_json::from_str(&text?) {
                Ok(line) => journal.lines.push(line),
                Err(error) if error.is_eof() && texts.peek().is_none() => journal.cut = true,
                Err(error) => return Err(fail(number, error.to_string())),
            }
        }
        Ok(journal)
    }
}

#[cfg(test)]
mod tests;
