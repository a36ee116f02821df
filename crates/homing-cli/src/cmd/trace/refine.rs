//! `homing trace refine`: the hottest lines, found with as few filters and counters as a monitor card has.

use crate::cmd::refine::found::{Found, Hot, Steps};
use crate::exit::{self, Code, Result};
use crate::progress;
use crate::tables::things;
use anyhow::Context;
use clap::ValueEnum;
use homing_core::areas;
use homing_core::ids::Thread;
use homing_core::refine::{Coarse, Filters, Limits, Line, Refinement, Step};
use homing_core::trace::Trace;
use homing_pipeline::model::bytes;
use homing_pipeline::refine::{count, Chosen, Counted};
use homing_pipeline::TraceFile;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Arguments of `homing trace refine`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// How many of the hottest lines to find
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Ranges of memory that can be counted at a time
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=4096))]
    filters: u16,
    /// Counters in all
    #[arg(long, value_name = "N", default_value_t = 512 << 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1 << 26))]
    counters: u32,
    /// Bytes of a line: a power of two from 32 to 4096
    #[arg(long, value_name = "SIZE", default_value = "64", value_parser = line)]
    line: u64,
    /// Runs at most [default: until the hottest lines are known]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Cut one run into N parts and count one of them a step, not the whole run each time: an estimate
    #[arg(long, value_name = "N", conflicts_with = "runs", value_parser = clap::value_parser!(u32).range(2..))]
    parts: Option<u32>,
    /// Look at the references of this thread only
    #[arg(long, value_name = "N")]
    thread: Option<u32>,
    /// Look at reads or at writes only
    #[arg(long, value_name = "KIND")]
    only: Option<Only>,
    /// Look at these virtual addresses only, such as 0x7f0000000000-0x7f0000200000
    #[arg(long, value_name = "FROM-TO", value_parser = addresses)]
    addresses: Option<(u64, u64)>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Only {
    Reads,
    Writes,
}

/// Searches; exit code 5 if references are lost to damage.
pub fn run(args: Args) -> Result {
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let trace = file.trace()?;
    if args.line < trace.header().grain.bytes() {
        let needs = format!("lines of {} bytes need", args.line);
        let advice = "--line 4096 finds the hottest pages; for lines record with --grain byte";
        trace.check_exact(needs, advice).with_context(|| args.trace.display().to_string())?;
    }
    let (from, to) = args.addresses.unwrap_or((0, u64::MAX));
    let writes = args.only.map(|only| matches!(only, Only::Writes));
    let chosen = Chosen { thread: args.thread.map(Thread), writes, addresses: from..to };
    if args.thread.is_some_and(|thread| trace.threads().all(|(known, _)| known != Thread(thread))) {
        let threads: Vec<String> = trace.threads().map(|(thread, _)| thread.to_string()).collect();
        let message = format!("--thread: the trace has no such thread; it has {}", threads.join(", "));
        return Err(exit::error(Code::USAGE, message));
    }
    let found = search(&trace, &args, &chosen)?;
    if args.json {
        crate::stdout::json(found.json())?;
    } else {
        outln!("{}", found.text());
    }
    if found.lost == 0 {
        return Ok(Code::OK);
    }
    errln!("homing: {}: {} references are lost to damage", args.trace.display(), found.lost);
    Ok(Code::PARTIAL)
}

fn search(trace: &Trace<'_>, args: &Args, chosen: &Chosen) -> anyhow::Result<Found> {
    let pages = chosen.pages(trace);
    let limits = Limits { filters: args.filters.into(), counters: args.counters.into(), line: args.line };
    let mut search = Refinement::new(&pages, limits, args.top as usize);
    if !pages.is_empty() && search.plan().is_none() {
        let message = format!(
            "{} of 2 MiB do not span the pages, with {}: more counters or filters, or --addresses",
            things(args.counters.into(), "counter"),
            things(args.filters.into(), "filter")
        );
        return Err(exit::error(Code::USAGE, message));
    }
    let blocks = trace.order_blocks().len();
    let most = args.parts.or(args.runs).map_or(usize::MAX, |most| most as usize);
    let of = if args.parts.is_some() { Steps::Parts } else { Steps::Runs };
    let mut found =
        Found { of, line: args.line, steps: Vec::new(), lines: Vec::new(), open: Coarse::default(), lost: 0 };
    while found.steps.len() < most {
        let Some(filters) = search.plan() else { break };
        let announced = search.runs_left();
        let part = part(blocks, args.parts.map(|parts| (found.steps.len(), parts as usize)));
        let counted = count_part(trace, part, &filters, chosen, found.steps.len() + 1)?;
        search.take(&filters, &counted.counts);
        found.lost = found.lost.max(counted.lost);
        let most = counted.counts.iter().copied().max().unwrap_or(0);
        let in_filters = counted.counts.iter().sum();
        found.steps.push(Step {
            filters,
            announced,
            looked_at: counted.looked_at,
            counted: in_filters,
            most,
        });
    }
    (found.lines, found.open) = (named(trace, search.hottest()), search.open());
    Ok(found)
}

/// The order blocks of a step: all of them, or those of part `of.0` out of `of.1`.
fn part(blocks: usize, of: Option<(usize, usize)>) -> Range<usize> {
    of.map_or(0..blocks, |(part, parts)| blocks * part / parts..blocks * (part + 1) / parts)
}

fn count_part(
    trace: &Trace<'_>,
    part: Range<usize>,
    filters: &Filters,
    chosen: &Chosen,
    run: usize,
) -> anyhow::Result<Counted> {
    let references = trace.order_blocks().skip(part.start).take(part.len()).map(|block| block.references);
    let progress = progress::references(references.sum(), if run == 1 { "first run" } else { "next run" });
    let counted = count(trace, part, filters, chosen, |references| progress.inc(references))?;
    progress.finish_and_clear();
    Ok(counted)
}

/// Lines with the area of the page that each is in.
fn named(trace: &Trace<'_>, lines: Vec<Line>) -> Vec<Hot> {
    let located = areas::locate(trace, lines.iter().map(|line| line.address & !4095), 4096);
    let areas: BTreeMap<u64, Option<String>> =
        located.into_iter().map(|page| (page.address, page.area)).collect();
    let hot = |line: Line| {
        let area = areas.get(&(line.address & !4095)).cloned().flatten();
        let data = area.unwrap_or_else(|| "(unknown)".to_owned());
        Hot { address: line.address, count: line.count, data, physical: None }
    };
    lines.into_iter().map(hot).collect()
}

pub fn line(text: &str) -> std::result::Result<u64, String> {
    let line = bytes(text)?;
    if line.is_power_of_two() && (32..=4096).contains(&line) {
        return Ok(line);
    }
    Err(format!("{line} bytes: expected a power of two from 32 to 4096"))
}

fn addresses(text: &str) -> std::result::Result<(u64, u64), String> {
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let ends = text.split_once('-').and_then(|(from, to)| Some((hex(from)?, hex(to)?)));
    ends.filter(|(from, to)| from < to)
        .ok_or_else(|| "expected two hexadecimal addresses, the lower first: 0x10000-0x20000".to_owned())
}
