//! `homing demo`: the diagnosis of a small trace that comes with the program, for the first minute.
//!
//! The trace is of `examples/heat/heat.c` with four threads, as `homing record -o demo.trace ./heat 320 20` makes it.
//! The machine is a small one, so that a small plate is to its caches what a large one is to a server's.

use super::why;
use crate::exit::Result;
use crate::files::{self, Over};
use anyhow::Context;
use clap::Parser;
use homing_linux::files::temporary::TemporaryFolder;
use std::path::{Path, PathBuf};

const TRACE: &[u8] = include_bytes!("../../assets/demo.trace");
const MACHINE: &str = include_str!("../../assets/demo.toml");
/// Their names, for the user too.
const TRACE_NAME: &str = "heat.trace";
const MACHINE_NAME: &str = "small.toml";

/// Arguments of `homing demo`.
#[derive(clap::Args)]
pub struct Args {
    /// Also write the diagnosis as one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Keep the trace and the machine model in a new directory, to try other commands on them
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

/// `homing why`, with its own arguments.
#[derive(clap::Parser)]
struct Why {
    #[command(flatten)]
    args: why::Args,
}

/// Diagnoses the trace and says what comes next.
pub fn run(args: Args) -> Result {
    let folder = TemporaryFolder::new("homing-demo-").context("no directory for the trace")?;
    let place = args.keep.as_deref().unwrap_or_else(|| folder.path());
    if args.keep.is_some() {
        // In one that is there already, files of these names may be the user's own.
        let new = || format!("--keep {}: expected a directory that does not exist yet", place.display());
        std::fs::create_dir(place).with_context(new)?;
    }
    let (trace, machine) = (place.join(TRACE_NAME), place.join(MACHINE_NAME));
    files::write(&trace, Over::Traces, TRACE)?;
    files::write(&machine, Over::Texts, MACHINE)?;
    outln!(
        "A recording of a heat solver (4 threads, a plate of 320 x 320 points), judged on a small model\n\
         of a machine with two nodes: homing why {TRACE_NAME} --machine {MACHINE_NAME}\n"
    );
    let code = why::run(judge(&trace, &machine, args.html.as_deref()))?;
    outln!("");
    if let Some(page) = &args.html {
        outln!("The page: {}", page.display());
    }
    if args.keep.is_some() {
        outln!("The trace and the machine: {}", place.display());
    }
    outln!("Next, with your own program: homing why -- ./app");
    Ok(code)
}

/// What `homing why` is asked.
fn judge(trace: &Path, machine: &Path, page: Option<&Path>) -> why::Args {
    let mut words = vec!["why".as_ref(), trace.as_os_str(), "--machine".as_ref(), machine.as_os_str()];
    words.extend(page.iter().flat_map(|page| ["--html".as_ref(), page.as_os_str()]));
    Why::parse_from(words).args
}
