//! `homing reproduce`: the papers' tables and figures from our programs, beside the published numbers.
//!
//! [`programs`] says which of our programs stand for theirs and records them, [`looped`] runs one with its memory
//! system in the loop, one file a paper makes the [`exhibit`]s, [`render`] shows them. docs/reproduction.md explains
//! each deviation.

mod bolosky;
mod brock;
mod corbalan;
mod exhibit;
mod looped;
mod nikolopoulos;
mod programs;
mod render;
mod tally;
mod tikir;

use crate::exit::{self, Code, Result};
use exhibit::Exhibit;
use programs::Traces;
use std::path::PathBuf;

/// Arguments of `homing reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Only these tables and figures, separated by commas: table1, figure2, table2, table3, table4, table6a, table6b,
    /// table7, figure7, contention, slowdown, gain, statistics, remote-accesses, move-cost-ace, moves-per-page,
    /// move-cost-butterfly, page-size-butterfly, page-size-high-latency, policies-ace, policies-butterfly, sorbyr,
    /// perturbation, reorganised, network-traffic, node-traffic, packets, jobs-equipartition,
    /// jobs-pdpa, jobs-irix, jobs-speedup, jobs-allocation, jobs-bursts, jobs-managers
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Folder of the traces, PROGRAM[OPTIONS]-THREADS.homing; what is missing is recorded into it
    #[arg(long, value_name = "FOLDER", default_value = "build/reproduce")]
    traces: PathBuf,
    /// Folder of the programs
    #[arg(long, value_name = "FOLDER", default_value = "build/workloads")]
    workloads: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write everything as one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// All names for `--only`.
const NAMES: [&str; 34] = [
    "table1",
    "figure2",
    "table2",
    "table3",
    "table4",
    "table6a",
    "table6b",
    "table7",
    "figure7",
    "contention",
    "slowdown",
    "gain",
    "statistics",
    "remote-accesses",
    "move-cost-ace",
    "moves-per-page",
    "move-cost-butterfly",
    "page-size-butterfly",
    "page-size-high-latency",
    "policies-ace",
    "policies-butterfly",
    "sorbyr",
    "perturbation",
    "reorganised",
    "network-traffic",
    "node-traffic",
    "packets",
    "jobs-equipartition",
    "jobs-pdpa",
    "jobs-irix",
    "jobs-speedup",
    "jobs-allocation",
    "jobs-bursts",
    "jobs-managers",
];

/// What `--only` leaves.
pub struct Chosen(Vec<String>);

impl Chosen {
    /// True if one of these is wanted.
    pub fn any(&self, ids: &[&str]) -> bool {
        self.0.is_empty() || ids.iter().any(|id| self.0.iter().any(|chosen| chosen == id))
    }
}

/// What the numbers are, for every reader.
const HOW: &str = "Numbers are ours, from simulation; published ones stand in brackets. Programs, caches and costs of \
moves are \
                   scaled down together (docs/reproduction.md), so that directions and orders compare, not magnitudes. \
                   Times are \
                   modelled.";

/// Reproduces.
pub fn run(args: Args) -> Result {
    if let Some(unknown) = args.only.iter().find(|name| !NAMES.contains(&name.as_str())) {
        let message = format!("--only {unknown}: expected some of {}", NAMES.join(", "));
        return Err(exit::error(Code::USAGE, message));
    }
    let chosen = Chosen(args.only.clone());
    let progress = crate::progress::steps("program");
    let traces = Traces { folder: &args.traces, workloads: &args.workloads, progress };
    let mut exhibits: Vec<Exhibit> = tikir::exhibits(&chosen, &traces)?;
    exhibits.extend(nikolopoulos::exhibits(&chosen, &traces)?);
    exhibits.extend(bolosky::exhibits(&chosen, &traces)?);
    exhibits.extend(brock::exhibits(&chosen, &traces)?);
    exhibits.extend(corbalan::exhibits(&chosen)?);
    traces.progress.finish_and_clear();
    exhibits.retain(|exhibit| chosen.any(&[&exhibit.id]));
    if let Some(path) = &args.html {
        crate::files::write(path, render::html(&exhibits, HOW))?;
    }
    if args.json {
        crate::stdout::json(serde_json::json!({ "how": HOW, "exhibits": exhibits }))?;
        return Ok(Code::OK);
    }
    for exhibit in &exhibits {
        outln!("{}", render::text(exhibit));
    }
    let claims = || exhibits.iter().flat_map(|exhibit| &exhibit.claims);
    let held = claims().filter(|claim| claim.holds).count();
    outln!("{HOW}\n{held} of {} claims hold", claims().count());
    Ok(Code::OK)
}
