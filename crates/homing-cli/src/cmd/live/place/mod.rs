//! `homing run --place`: some data of a program get a memory policy by name, and no engine runs. Names are looked up
//! before the start (`lookup.rs`). A library inside of the program places the data, and what it counted is printed at
//! the end (`summary.rs`). `homing try --place` runs the same placement in turns with the program as it is.

pub mod file;
mod lookup;
mod summary;

use super::launch::{end_with, start, wait_for};
use super::{interrupts, one_node, Settings};
use crate::exit::{self, cannot_preload, Code, Result};
use crate::files::Over;
use anyhow::Context;
use homing_linux::files::temporary::TemporaryFolder;
use homing_linux::ld_preload::{self, PRELOAD_ENV};
use homing_linux::proc::Proc;
use homing_linux::{libraries, program, visible};
use homing_live::host::Host;
use homing_live::place::{words, Counts, Entry, COUNTS, COUNTS_BYTES, LIBRARY, MOST_NAMES, PLACE_ENV, PLAN};
use homing_live::rset;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is to be placed, ready for programs that are started with its environment.
pub struct Placing {
    /// Names and placements, as the user gave them.
    pub entries: Vec<Entry>,
    /// Variables that the program is started with.
    pub environment: Vec<(OsString, OsString)>,
    /// Has the plan and the counts.
    folder: TemporaryFolder,
}

impl Placing {
    /// Looks everything up, and fails on what cannot work. `given`: values of `--place`. What was not found is said.
    pub fn new(given: &[String], program: &Path, command: &[OsString]) -> anyhow::Result<Placing> {
        let entries = file::entries(given)?;
        let library = libraries::find(LIBRARY)?;
        refuse_closed(program, &command[0].to_string_lossy())?;
        let host =
            Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
        let global = rset::global(&host, &Proc::default())?;
        let memories: Vec<u32> = global.all().memories.iter().map(|node| u32::from(node.0)).collect();
        // Memory without CPUs (CXL, a GPU's) is slower: it takes part where it is named.
        let has_cpus = |id: &u32| host.node(*id).is_some_and(|node| !host.cpus_of(node).is_empty());
        let spread: Vec<u32> = memories.iter().copied().filter(has_cpus).collect();
        if entries.len() > MOST_NAMES {
            let message = format!("--place: {} names: expected at most {MOST_NAMES}", entries.len());
            return Err(exit::error(Code::USAGE, message));
        }
        let usage = |message: String| exit::error(Code::USAGE, format!("--place: {message}"));
        let placements: std::result::Result<Vec<_>, _> =
            entries.iter().map(|entry| entry.placement.on(&memories, &spread)).collect();
        let placements = placements.map_err(usage)?;
        let found = lookup::look_up(&entries, program, command).map_err(usage)?;
        let names: Vec<_> = placements.into_iter().zip(found.frames).collect();
        let folder = TemporaryFolder::new("homing-place-").context("no directory for the plan")?;
        std::fs::write(folder.path().join(PLAN), words(&names, &found.code, &spread))?;
        std::fs::write(folder.path().join(COUNTS), vec![0; COUNTS_BYTES])?;
        let environment = environment(&library, folder.path())?;
        Ok(Placing { entries, environment, folder })
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let bytes = std::fs::read(self.folder.path().join(COUNTS)).unwrap_or_default();
        Counts::read(&bytes, self.entries.len())
    }

    /// What became of the plan, in a line for each name and each reason why it may be less than asked for.
    pub fn lines(&self) -> Vec<String> {
        summary::lines(&self.entries, &self.counts())
    }

    /// Those lines that say what went wrong.
    pub fn warnings(&self) -> Vec<String> {
        summary::warnings(&self.entries, &self.counts())
    }
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_:,./=".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Fails for programs that no library gets into.
fn refuse_closed(file: &Path, name: &str) -> anyhow::Result<()> {
    let why = if program::is_static(file) {
        "is linked statically"
    } else if program::is_privileged(file) {
        "runs with more rights than its user (set-user-ID or capabilities)"
    } else {
        return Ok(());
    };
    let message = format!(
        "{} {why}: no library gets into it, so no data can be placed by name; expected a program that is linked \
         dynamically (`numactl --interleave=all` interleaves all of its memory)",
        visible::name(name)
    );
    Err(exit::error(Code::UNSUPPORTED, message))
}

/// The library comes before what the user preloads: an allocator there is the one behind it.
fn environment(library: &Path, folder: &Path) -> anyhow::Result<Vec<(OsString, OsString)>> {
    let inherited = |name: &str| std::env::var_os(name).filter(|_| name != PRELOAD_ENV);
    let all = ld_preload::variables(library, inherited).ok_or_else(|| cannot_preload(library))?;
    let before = std::env::var_os(PRELOAD_ENV).filter(|before| !before.is_empty());
    let with = |(name, mut value): (&str, OsString)| {
        if let Some(before) = before.as_ref().filter(|_| name == PRELOAD_ENV) {
            value.push(":");
            value.push(before);
        }
        (OsString::from(name), value)
    };
    Ok(all.into_iter().map(with).chain([(PLACE_ENV.into(), folder.into())]).collect())
}

/// Runs the program with its data placed.
pub fn run(settings: &Settings, given: &[String], command: &[OsString]) -> Result {
    if let Some(option) = settings.of_engine() {
        let message = format!("{option} does not go with --place: no engine runs; leave {option} out");
        return Err(exit::error(Code::USAGE, message));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program: PathBuf = program::find(&command[0], &path)?;
    let placing = Placing::new(given, &program, command)?;
    let text: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    if !settings.quiet && Host::read(Path::new("/sys")).is_ok_and(|host| host.nodes() == 1) {
        errln!("homing: {}", one_node(&format!("homing run --place ... {}", text.join(" "))));
    }
    let caught = interrupts()?;
    let mut child = Command::new(program);
    child.args(&command[1..]).envs(placing.environment.iter().cloned());
    let status = wait_for(start(&mut child, &text[0])?, &caught)?;
    Ok(end_with(status, tell(settings, &placing)))
}

fn tell(settings: &Settings, placing: &Placing) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(&summary::json(&placing.entries, &placing.counts()))?;
    if let Some(path) = &settings.summary {
        crate::files::write(path, Over::Json, &json)?;
    }
    if settings.json {
        outln!("{json}");
    }
    // What went wrong is said in any case: a placement that was none must not pass for one.
    let lines = match settings.quiet || settings.json {
        true => placing.warnings(),
        false => placing.lines(),
    };
    lines.iter().for_each(|line| errln!("homing: {line}"));
    Ok(())
}
