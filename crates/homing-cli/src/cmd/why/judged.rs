//! Which of a command's processes is judged: a shell or `timeout` that starts the program is not the one that is meant.

use crate::files;
use homing_linux::causes::with_causes;
use homing_linux::visible;
use homing_pipeline::TraceFile;
use homing_record::{Child, Finished, NeverRan};
use homing_trace::Summary;
use std::path::{Path, PathBuf};

/// The process that is judged.
pub struct Judged {
    /// Its trace.
    pub path: PathBuf,
    /// The name of its program.
    pub program: String,
    /// What is in it.
    pub summary: Summary,
    /// The function that was to begin or end its region of interest, if it never ran.
    pub never_ran: Option<NeverRan>,
    /// What a reader must know of the choice, and of what was left out.
    pub notes: Vec<String>,
}

impl Judged {
    /// Of all processes that were recorded, the one with most references; of several, the first that began.
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
        if all.len() > 1 {
            notes.insert(0, choice(&command, references(most), total, all.len()));
        }
        let (path, summary) = all.swap_remove(most);
        all.iter().for_each(|(path, _)| discard(path));
        let program = command.first().and_then(|word| Path::new(word).file_name()).unwrap_or("why".as_ref());
        let program = program.to_string_lossy().into_owned();
        // That of a child is not known.
        Judged { path, program, summary, never_ran: never_ran.filter(|_| most == 0), notes }
    }
}

fn choice(command: &[String], references: u64, total: u64, processes: usize) -> String {
    format!(
        "{processes} processes were recorded: judged is `{}`, which has most of the references ({references} of \
         {total}); `homing record --follow` keeps a trace of each",
        visible::name(&command.join(" "))
    )
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
