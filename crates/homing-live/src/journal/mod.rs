//! The session log: one JSON value a line. As a *journal* it holds every decision and what came of it; *teed*, also
//! everything that the session was told, as it came, and everything that it asked for, so that another session can be
//! told the same and asked whether it does the same ([`check`]).
//!
//! Pages have addresses only within one run; regions are named by what they map and counted by address, so that with an
//! offset they mean the same in the next run, wherever the kernel put it.

mod check;

use homing_core::ids::Micros;
use homing_core::machine::{Costs, General, Uniform};
use homing_core::policy::Context;
use homing_session::output::{Decided, Output, Settlement, WasSplit};
use homing_session::plan::{Plan, Recorded};
use homing_session::{Input, Settings};
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
    /// Version of the format.
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
    /// True if everything that the session was told and asked for is in it.
    pub teed: bool,
    /// The session's settings; none where decisions alone are logged.
    pub settings: Option<Settings>,
    /// Moves of an earlier run that were to be made again.
    #[serde(default, skip_serializing_if = "Plan::is_empty")]
    pub plan: Plan,
}

/// The version that is written and read.
const VERSION: u32 = 2;

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
            moves: None,
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
            settings: None,
            plan: Plan::default(),
        }
    }
}

/// One line behind the header. `t` is in microseconds of the session.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Line {
    /// The policy, a plan or the session asked for something.
    Action(Decided),
    /// What came of an action that was pending.
    Result(Settlement),
    /// A huge page was split.
    Split(WasSplit),
    /// The session was told something. Only in a teed log.
    Input {
        /// When.
        t: Micros,
        /// What.
        input: Input,
    },
    /// The session asked for something that is not a decision. Only in a teed log.
    Output {
        /// What.
        output: Output,
    },
}

/// A [`Line`] that is written.
#[derive(Serialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
enum Written<'l> {
    Action(&'l Decided),
    Result(&'l Settlement),
    Split(&'l WasSplit),
    Input { t: Micros, input: &'l Input },
    Output { output: &'l Output },
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

    /// Writes what the session was told, if the log is teed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn input(&mut self, t: Micros, input: &Input) -> io::Result<()> {
        if self.teed {
            self.put(&Written::Input { t, input })
        } else {
            Ok(())
        }
    }

    /// Writes what the session asked for: a decision always, the rest if the log is teed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn output(&mut self, output: &Output) -> io::Result<()> {
        match output {
            Output::Decided(decided) => self.put(&Written::Action(decided)),
            Output::Settled(settlement) => self.put(&Written::Result(settlement)),
            Output::WasSplit(split) => self.put(&Written::Split(split)),
            output if self.teed => self.put(&Written::Output { output }),
            _ => Ok(()),
        }
    }

    fn put(&mut self, line: &Written<'_>) -> io::Result<()> {
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
        let version = header.homing_journal;
        if version != VERSION {
            return Err(fail(0, format!("version {version}: this program reads version {VERSION}")));
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

    /// The moves in it, to be made again.
    pub fn moves(&self) -> Plan {
        Plan::of(self.lines.iter().filter_map(|line| match line {
            Line::Action(decided) => Some(Recorded::Decided(decided)),
            Line::Result(settlement) => Some(Recorded::Settled(settlement)),
            _ => None,
        }))
    }
}

#[cfg(test)]
mod tests;
