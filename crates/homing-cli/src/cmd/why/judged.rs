//! Which of a command's processes are judged: the one that does most, since a shell or `timeout` that starts the
//! program is not what is meant, with those that share memory with it.

use crate::cmd::trace::join;
use crate::files;
use homing_linux::causes::with_causes;
use homing_linux::visible;
use homing_pipeline::{family, TraceFile};
use homing_record::{Child, Finished, NeverRan};
use homing_trace::Summary;
use std::path::{Path, PathBuf};

/// What is judged.
pub struct Judged {
    /// Its trace.
    pub path: PathBuf,
    /// The name of the program that makes most references.
    pub program: String,
    /// What is in it.
    pub summary: Summary,
    /// The function that was to begin or end its region of interest, if it never ran.
    pub never_ran: Option<NeverRan>,
    /// What a reader must know of the choice, and of what was left out.
    pub notes: Vec<String>,
}

impl Judged {
    /// Of all processes that were recorded, the one with most references (of several, the first that began) and those
    /// that share memory with it.
    pub fn among(finished: Finished) -> Judged {
        let Finished { path, summary, children, unrecorded, turned_away, never_ran, .. } = finished;
        let mut notes = Vec::new();
        let mut all = vec![(path, summary)];
        for Child { command, recorded, .. } in children {
            match recorded {
                Ok(trace) => all.push(trace),
                Err(error) => notes.push(format!(
                    "a child process was not recorded: {}: {}",
                    visible::name(&command.join(" ")),
                    with_causes(&error)
                )),
            }
        }
        if unrecorded > 0 {
            let few = match turned_away {
                0 => String::new(),
                count => format!(" ({count} since too many ran at the same time)"),
            };
            notes.push(format!("not recorded: {}{few}", processes(unrecorded)));
        }
        let references = |at: usize| all[at].1.references;
        let total: u64 = (0..all.len()).map(references).sum();
        let most = (0..all.len()).rev().max_by_key(|&at| references(at)).unwrap_or_default();
        let command = command(&all[most].0);
        let program = command.first().and_then(|word| Path::new(word).file_name()).unwrap_or("why".as_ref());
        let program = program.to_string_lossy().into_owned();
        let choice = Choice { command: &command, references: references(most), total, processes: all.len() };
        let mut chosen = most;
        if all.len() > 1 {
            match joined(&all, most) {
                Ok(None) => notes.insert(0, choice.one()),
                Ok(Some((joined, processes))) => {
                    notes.insert(0, choice.together(processes));
                    all.push(joined);
                    chosen = all.len() - 1;
                }
                Err(error) => notes.insert(
                    0,
                    format!("{}; those that share its memory are not judged: {error:#}", choice.one()),
                ),
            }
        }
        let (path, summary) = all.swap_remove(chosen);
        all.iter().for_each(|(path, _)| discard(path));
        // That of a child is not known.
        Judged { path, program, summary, never_ran: never_ran.filter(|_| most == 0), notes }
    }
}

/// One trace of the processes that share memory with number `most`, and how many these are, if there are any.
fn joined(all: &[(PathBuf, Summary)], most: usize) -> anyhow::Result<Option<((PathBuf, Summary), usize)>> {
    let files = all.iter().map(|(path, _)| TraceFile::open(path)).collect::<Result<Vec<_>, _>>()?;
    let related = family::related(&files, most)?;
    if related.len() == 1 {
        return Ok(None);
    }
    let paths: Vec<PathBuf> = related.iter().map(|&at| all[at].0.clone()).collect();
    let path = all[0].0.with_extension("family.homing");
    let joined = join(&paths, &path)?;
    Ok(Some(((path, joined.summary), paths.len())))
}

/// What a reader must know of the choice.
struct Choice<'a> {
    /// The command of the process with most references.
    command: &'a [String],
    references: u64,
    total: u64,
    processes: usize,
}

impl Choice<'_> {
    fn most(&self) -> String {
        let Choice { references, total, .. } = self;
        let command = self.command.join(" ");
        let command = visible::name(&command);
        format!("`{command}`, which has most of the references ({references} of {total})")
    }

    fn one(&self) -> String {
        let (processes, most) = (self.processes, self.most());
        format!(
            "{processes} processes were recorded: judged is {most}; `homing record --follow` keeps a trace of each"
        )
    }

    fn together(&self, together: usize) -> String {
        let (processes, most) = (self.processes, self.most());
        format!(
            "{processes} processes were recorded: judged are {together} that share memory, as one; among them {most}; \
             `homing record --follow` keeps a trace of each"
        )
    }
}

/// What a trace says that it is of.
fn command(path: &Path) -> Vec<String> {
    let Ok(file) = TraceFile::open(path) else { return Vec::new() };
    file.trace().map(|trace| trace.header().command.clone()).unwrap_or_default()
}

/// A trace that nobody asked to keep. One that cannot be removed is left.
fn discard(path: &Path) {
    let _ = files::remove(path);
}

fn processes(children: u32) -> String {
    match children {
        1 => "1 child process".to_owned(),
        children => format!("{children} child processes"),
    }
}
