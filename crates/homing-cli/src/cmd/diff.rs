//! `homing diff`: two diagnoses beside each other: what a change of a program did to where its memory is.

mod text;

use crate::exit::{Code, Result};
use crate::files::{self, Over};
use crate::options::ModelArgs;
use crate::progress;
use anyhow::{bail, Context};
use homing_core::history::ThreadsOn;
use homing_core::ids::PageSize;
use homing_core::report::diff::WhyDiff;
use homing_core::report::why::{WhyReport, SCHEMA};
use homing_core::time::Mover;
use homing_pipeline::honest::Asked;
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::model::{bytes, MEMORY};
use homing_pipeline::{why, windows, Experiment, TraceFile};
use serde_json::Value;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Arguments of `homing diff`.
#[derive(clap::Args)]
pub struct Args {
    /// Before: a trace, or what `homing why --json` printed
    #[arg(value_name = "A")]
    before: PathBuf,
    /// After: a trace, or what `homing why --json` printed
    #[arg(value_name = "B")]
    after: PathBuf,
    /// Machine model of traces: a name from `homing machines`, a TOML file, or `host`
    #[arg(long, short, value_name = "MACHINE", default_value = "two-socket", value_parser = crate::names::MACHINE,
          hide_possible_values = true)]
    machine: String,
    /// Override a field of the machine, such as remote=15
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// CPUs that threads of traces run on: busy (those that work at the same time on the nodes in turn), round-robin
    /// (by their numbers), fill, one-per-node, or a list such as 0-3,5 [default: busy]
    #[arg(long, value_name = "HOW")]
    threads_on: Option<ThreadsOn>,
    /// Page size, a power of two from 512 to 1G [default: the machine's]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<PageSize>,
    /// Memory for page histories; what is beyond goes to a temporary file
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = bytes)]
    memory: u64,
    /// Areas that are shown
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    areas: u64,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write the same as Markdown to a file; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    markdown: Option<PathBuf>,
    /// Also write it as one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Compares two diagnoses and prints.
pub fn run(args: Args) -> Result {
    let (before, cut_before) = args.diagnosis(&args.before)?;
    let (after, cut_after) = args.diagnosis(&args.after)?;
    let diff = WhyDiff::new(&before, &after, GENERATOR);
    if let Some(path) = &args.html {
        files::write(path, Over::Pages, crate::page::diff(&diff)?)?;
    }
    let text = text::Page::new(&diff, args.areas as usize);
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&diff)?);
    } else if let Some(path) = &args.markdown {
        match path.as_os_str() == "-" {
            true => outln!("{}", text.markdown().trim_end()),
            false => files::write(path, Over::Texts, text.markdown())?,
        }
    } else {
        outln!("{}", text.plain().trim_end());
    }
    Ok(if cut_before || cut_after { Code::PARTIAL } else { Code::OK })
}

impl Args {
    /// The diagnosis in a file, or that of a trace; and whether the trace was cut or damaged.
    fn diagnosis(&self, path: &Path) -> anyhow::Result<(WhyReport, bool)> {
        if let Some(report) = read_json(path)? {
            let cut = !report.trace.complete;
            return Ok((report, cut));
        }
        let file = TraceFile::ordered(path, &progress::of_pipeline())?;
        // Of both the same counts, or what differs would be the recordings.
        let pages_alone = TraceFile::any_of_pages_alone([&self.before, &self.after]);
        let asked = Asked { threads_on: self.threads_on.clone(), pages_alone, ..Asked::default() };
        let ready = asked.today(self.experiment())?.ready(|_| Ok(Vec::new()))?;
        let case = ready.case(&file, None)?;
        if let Some(note) = windows::note(&case.trace) {
            errln!("note: {}: {note}", path.display());
        }
        Ok((why::diagnose(&case)?, case.layout.partial))
    }

    fn experiment(&self) -> Experiment {
        let model = ModelArgs {
            machine: self.machine.clone(),
            set: self.set.clone(),
            page_size: self.page_size.into_iter().collect(),
            threads_on: None,
            memory: self.memory,
            misses: false,
            mover: Mover::default(),
        };
        model.experiment()
    }
}

/// The diagnosis in a file of JSON; none if the file is no JSON object, but a trace.
fn read_json(path: &Path) -> anyhow::Result<Option<WhyReport>> {
    let reading = || format!("cannot read {}", path.display());
    // A pipe would wait for its writer: `TraceFile` refuses it.
    if !path.metadata().with_context(reading)?.is_file() {
        return Ok(None);
    }
    let mut start = [0; 64];
    let read = std::fs::File::open(path).and_then(|mut file| file.read(&mut start)).with_context(reading)?;
    if start[..read].trim_ascii_start().first() != Some(&b'{') {
        return Ok(None);
    }
    let text = std::fs::read(path).with_context(reading)?;
    let expected = "expected a trace, or what `homing why TRACE --json` prints";
    let value: Value = serde_json::from_slice(&text)
        .with_context(|| format!("{} is damaged JSON; {expected}", path.display()))?;
    if value.get("verdict").is_none() {
        bail!("{} is JSON, but no diagnosis: it has no `verdict`; {expected}", path.display());
    }
    if value.get("schema").and_then(Value::as_u64) != Some(u64::from(SCHEMA)) {
        let found = value.get("schema").unwrap_or(&Value::Null);
        bail!(
            "{} is a diagnosis of schema {found}, and this program reads schema {SCHEMA}; make it again with `homing \
             why TRACE --json`",
            path.display()
        );
    }
    let report = serde_json::from_value(value)
        .with_context(|| format!("{} is no whole diagnosis; {expected}", path.display()))?;
    Ok(Some(report))
}
