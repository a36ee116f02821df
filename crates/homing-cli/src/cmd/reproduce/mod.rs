//! `homing reproduce`: the papers' tables and figures from our programs, beside the published numbers.
//!
//! [`programs`] says which of our programs stand for theirs and records them, [`looped`] runs one with its memory
//! system in the loop, one file a paper makes the [`exhibit`]s and says what the paper claims of each, [`claim`] has
//! the rule of verdicts, [`render`] shows it all. Each exhibit is made from several orders of the references, and the
//! medians are judged. docs/reproduction.md explains each deviation.

mod bolosky;
mod brock;
mod claim;
mod corbalan;
mod exhibit;
mod looped;
mod nikolopoulos;
mod programs;
mod render;
mod tally;
mod tikir;

use crate::exit::{self, Code, Result};
use crate::files::Over;
use claim::Claim;
use exhibit::Exhibit;
use programs::{Size, Traces};
use std::path::PathBuf;

/// Arguments of `homing reproduce`.
#[derive(clap::Args)]
pub struct Args {
    /// Only these papers (and what --only names), by first authors: tikir, nikolopoulos, bolosky, brock, corbalan
    #[arg(value_name = "PAPER")]
    papers: Vec<String>,
    /// Only these tables and figures, separated by commas (`--only list` names them)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,
    /// Small programs in one order of their references, in some minutes
    #[arg(long)]
    quick: bool,
    /// Seven orders of the references instead of three
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// Folder of the traces, PROGRAM[OPTIONS]-THREADS.homing; what is missing is recorded into it
    #[arg(long, value_name = "FOLDER", default_value = "build/reproduce")]
    traces: PathBuf,
    /// Folder of the programs
    #[arg(long, value_name = "FOLDER", default_value = "build/workloads")]
    workloads: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Print Markdown instead of tables
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Write everything as one self-contained page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A paper.
struct Paper {
    name: &'static str,
    ids: &'static [&'static str],
    exhibits: fn(&Chosen, &Traces) -> anyhow::Result<Vec<Exhibit>>,
    claims: fn(&Exhibit) -> Vec<Claim>,
}

const PAPERS: [Paper; 5] = [
    Paper { name: "tikir", ids: &tikir::IDS, exhibits: tikir::exhibits, claims: tikir::claims },
    Paper {
        name: "nikolopoulos",
        ids: &nikolopoulos::IDS,
        exhibits: nikolopoulos::exhibits,
        claims: nikolopoulos::claims,
    },
    Paper { name: "bolosky", ids: &bolosky::IDS, exhibits: bolosky::exhibits, claims: bolosky::claims },
    Paper { name: "brock", ids: &brock::IDS, exhibits: brock::exhibits, claims: brock::claims },
    Paper { name: "corbalan", ids: &corbalan::IDS, exhibits: corbalan::exhibits, claims: corbalan::claims },
];

/// All names for `--only`.
fn names() -> Vec<&'static str> {
    PAPERS.iter().flat_map(|paper| paper.ids).copied().collect()
}

/// What names of papers and `--only` leave; nothing named is all.
pub struct Chosen(Vec<String>);

impl Chosen {
    fn of(args: &Args) -> anyhow::Result<Chosen> {
        let unknown = |name: &str, known: Vec<&str>| {
            exit::error(Code::USAGE, format!("{name}: expected some of {}", known.join(", ")))
        };
        let mut chosen = args.only.clone();
        if let Some(name) = chosen.iter().find(|name| !names().contains(&name.as_str())) {
            return Err(unknown(&format!("--only {name}"), names()));
        }
        for name in &args.papers {
            let known = || PAPERS.iter().map(|paper| paper.name).collect();
            let paper = PAPERS.iter().find(|paper| paper.name == name.as_str());
            let paper = paper.ok_or_else(|| unknown(&format!("paper {name}"), known()))?;
            chosen.extend(paper.ids.iter().map(|&id| id.to_owned()));
        }
        Ok(Chosen(chosen))
    }

    /// True if one of these is wanted.
    pub fn any(&self, ids: &[&str]) -> bool {
        self.0.is_empty() || ids.iter().any(|id| self.0.iter().any(|chosen| chosen == id))
    }
}

/// What the numbers are, for every reader.
fn how(size: Size) -> String {
    let orders = match size.repeats() {
        1 => "one order of the references".to_owned(),
        repeats => format!("medians of {repeats} orders of the references"),
    };
    format!(
        "Numbers are ours, from simulation: {orders}. Published ones stand in brackets. Programs and caches are scaled \
         down together (docs/reproduction.md), and times are modelled. A claim holds if every order or sign that it \
         states is ours too and every printed number within a factor of {} of ours, both counted from no effect; in \
         direction if orders and signs are.",
        claim::NEAR
    )
}

/// Reproduces.
pub fn run(args: Args) -> Result {
    if args.only == ["list"] {
        for name in names() {
            outln!("{name}");
        }
        return Ok(Code::OK);
    }
    let chosen = Chosen::of(&args)?;
    let size = match (args.quick, args.full) {
        (true, _) => Size::Quick,
        (_, true) => Size::Full,
        _ => Size::Default,
    };
    let (exhibits, how) = (all(&args, &chosen, size)?, how(size));
    if let Some(path) = &args.html {
        crate::files::write(path, Over::Pages, render::html(&exhibits, &how))?;
    }
    if args.json {
        crate::stdout::json(serde_json::json!({ "how": how, "exhibits": exhibits }))?;
    } else if args.markdown {
        outln!("{}", render::markdown(&exhibits));
    } else {
        outln!("{}\n", render::claims(&exhibits));
        for exhibit in &exhibits {
            outln!("{}", render::text(exhibit));
        }
        outln!("{how}");
    }
    let broken = exhibits.iter().flat_map(|exhibit| &exhibit.theorems).find(|(_, holds)| !holds);
    match broken {
        Some((text, _)) => {
            Err(exit::error(Code::FAILURE, format!("a theorem is broken, which is a fault here: {text}")))
        }
        None => Ok(Code::OK),
    }
}

/// The chosen exhibits of all papers, each the median of its repeats, with claims.
fn all(args: &Args, chosen: &Chosen, size: Size) -> anyhow::Result<Vec<Exhibit>> {
    let progress = crate::progress::steps("program");
    let mut exhibits = Vec::new();
    for paper in PAPERS.iter().filter(|paper| chosen.any(paper.ids)) {
        // By exhibit, then by repeat.
        let mut repeats: Vec<Vec<Exhibit>> = Vec::new();
        for order in 0..size.repeats() {
            let progress = progress.clone();
            let traces = Traces { folder: &args.traces, workloads: &args.workloads, size, order, progress };
            let made = (paper.exhibits)(chosen, &traces)?;
            repeats.resize_with(made.len(), Vec::new);
            repeats.iter_mut().zip(made).for_each(|(of_one, exhibit)| of_one.push(exhibit));
        }
        for repeats in repeats.iter().filter(|repeats| chosen.any(&[&repeats[0].id])) {
            let mut exhibit = Exhibit::median(repeats);
            exhibit.claim(repeats, paper.claims);
            exhibits.push(exhibit);
        }
    }
    progress.finish_and_clear();
    Ok(exhibits)
}
