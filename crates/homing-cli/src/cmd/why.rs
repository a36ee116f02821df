//! `homing why`: which data is in the wrong place, what to change, and how much that brings.

mod shares;
mod text;

use crate::exit::{Code, Result};
use crate::files;
use crate::options::ModelArgs;
use clap::ValueHint;
use homing_core::history::ThreadsOn;
use homing_core::ids::PageSize;
use homing_pipeline::chosen::{Choice, ThreadList};
use homing_pipeline::honest::Asked;
use homing_pipeline::model::{bytes, MEMORY};
use homing_pipeline::{why, Experiment, TraceFile};
use shares::By;
use std::path::PathBuf;

/// Arguments of `homing why`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace, made by `homing record`
    #[arg(value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// Machine model: a name from `homing machines`, a TOML file, or `host`
    #[arg(long, short, value_name = "MACHINE", default_value = "two-socket", value_parser = crate::names::MACHINE,
          hide_possible_values = true)]
    machine: String,
    /// Override a field of the machine, such as remote=15
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    /// CPUs that threads run on: round-robin over the nodes, fill, one-per-node, or a list such as 0-3,5 [default:
    /// round-robin]
    #[arg(long, value_name = "HOW")]
    threads_on: Option<ThreadsOn>,
    /// Page size, a power of two from 512 to 1G [default: the machine's]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<PageSize>,
    /// Memory for page histories; what is beyond goes to a temporary file
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = bytes)]
    memory: u64,
    /// Look only at the references of this phase, as the program marks it (include/homing.h)
    ///
    /// Pages begin where they are first touched in the whole trace.
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,
    /// Look only at the references of these threads, such as 1-4,7
    #[arg(long, value_name = "LIST")]
    threads: Option<ThreadList>,
    /// Also show who has most to avoid: each phase, each thread, or both, separated by a comma
    #[arg(long, value_name = "WHAT", value_enum, value_delimiter = ',')]
    by: Vec<By>,
    /// Areas that are shown
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    areas: u64,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Write the same as Markdown to a file; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    markdown: Option<PathBuf>,
    /// Also write the diagnosis as one self-contained page, with the page map and four policies
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Diagnoses and prints.
pub fn run(args: Args) -> Result {
    let model = ModelArgs {
        machine: args.machine.clone(),
        set: args.set.clone(),
        page_size: args.page_size.into_iter().collect(),
        threads_on: None,
        memory: args.memory,
        misses: false,
    };
    let asked = Asked { threads_on: args.threads_on.clone(), ..Asked::default() };
    let experiment = Experiment {
        choice: Choice { phase: args.phase.clone(), threads: args.threads.clone() },
        usage: !args.by.is_empty(),
        ..model.experiment()
    };
    let ready = asked.today(experiment)?.ready(|_| Ok(Vec::new()))?;
    let file = TraceFile::open(&args.trace)?;
    let case = ready.case(&file, None)?;
    let report = why::diagnose(&case)?;
    if let Some(path) = &args.html {
        files::write(path, crate::page::page(&why::page(&case, &report)?)?)?;
    }
    let text = text::Page::new(&report, args.areas as usize, &args.by);
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else if let Some(path) = &args.markdown {
        match path.as_os_str() == "-" {
            true => outln!("{}", text.markdown().trim_end()),
            false => files::write(path, text.markdown())?,
        }
    } else {
        outln!("{}", text.plain().trim_end());
    }
    Ok(if case.layout.partial { Code::PARTIAL } else { Code::OK })
}
