//! `homing simulate --monitor`: a policy on what a monitor reports, in the loop with caches, frames and modelled time.

use super::{live, Args};
use crate::exit::{Code, Result};
use crate::files::Over;
use crate::progress;
use crate::{names, tables};
use clap::builder::TypedValueParser;
use homing_core::monitor::table::Choice;
use homing_core::policy::placement::PlacementFile;
use homing_core::system::Run;
use homing_core::time::Mover;
use homing_pipeline::policies::policy;
use homing_pipeline::watched::{behind_caches, simulate, Watch, Watched};
use homing_pipeline::{rig, Case, Ready, TraceFile};
use serde_json::json;
use std::path::PathBuf;

/// The arguments of the loop.
#[derive(clap::Args)]
pub struct MonitorArgs {
    /// Let the policy see what this monitor reports: NAME or NAME:PARAM=VALUE,... (see `homing monitors`)
    #[arg(long, value_name = "MONITOR", conflicts_with = "info", hide_possible_values = true,
          value_parser = names::MONITOR.try_map(|text| text.parse::<Choice>()))]
    pub monitor: Option<Choice>,
    /// References between two ends of the monitor's intervals [default: a fiftieth of the trace]
    #[arg(long, value_name = "COUNT", requires = "monitor", value_parser = clap::value_parser!(u64).range(1..))]
    pub interval: Option<u64>,
    /// Write one line for each interval as CSV
    #[arg(long, value_name = "FILE", requires = "monitor")]
    pub intervals: Option<PathBuf>,
    /// Log the simulated live session (`--monitor hint-faults`), for `homing replay --check`
    #[arg(long, value_name = "FILE", requires = "monitor")]
    pub tee: Option<PathBuf>,
}

/// Simulates with a monitor in the loop.
pub fn run(args: &Args, choice: &Choice) -> Result {
    let ready = behind_caches(args.experiment()).ready(|_| Ok(vec![policy(&args.policy)?]))?;
    let file = TraceFile::ordered(&args.trace, &progress::of_pipeline())?;
    let case = ready.case(&file, None)?;
    let watch =
        Watch { choice: choice.clone(), interval: args.monitor.interval, log: args.actions.is_some() };
    let mut log = live::SessionLog::begin(args, choice, &case.layout.costs, ready.policies[0])?;
    let watched = simulate(&case, ready.policies[0], &watch, &mut log)?;
    log.finish()?;
    write_files(args, &watched, &case)?;
    let written = args.actions.iter().chain(&args.placement_out).chain(&args.monitor.intervals);
    case.write_manifests(written, &watched.parameters)?;
    if args.json {
        let json = as_json(&watched, choice, &case)?;
        outln!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print(&watched, choice, &ready)?;
        tables::print_notes(&watched.notes)?;
    }
    Ok(if case.layout.partial { Code::PARTIAL } else { Code::OK })
}

fn as_json(watched: &Watched, choice: &Choice, case: &Case<'_>) -> anyhow::Result<serde_json::Value> {
    let Watched { rows: [_, _, row], pair, interval, notes, parameters, .. } = watched;
    let mut json = serde_json::to_value(row)?;
    let run = |run: &Run| {
        json!({
            "nonlocal_percent": rig::nonlocal(run),
            "moves": run.account.moves,
            "caches": run.caches,
            "intervals": run.intervals,
            "modelled": run.modelled,
        })
    };
    json["schema"] = homing_core::report::SCHEMA.into();
    json["monitor"] = choice.describe().into();
    match &pair.session {
        Some(session) => json["session"] = live::as_json(session),
        None => json["interval"] = (*interval).into(),
    }
    json["samples"] = pair.after.samples.into();
    json["samples_lost"] = pair.after.lost.into();
    json["interrupts"] = pair.after.interrupts.into();
    json["distance"] = serde_json::to_value(&pair.after.distance)?;
    json["before"] = run(&pair.before);
    json["after"] = run(&pair.after);
    json["trace"] = serde_json::to_value(case.trace_info())?;
    json["parameters"] = serde_json::to_value(parameters)?;
    json["notes"] = serde_json::to_value(notes)?;
    Ok(json)
}

fn write_files(args: &Args, watched: &Watched, case: &Case<'_>) -> anyhow::Result<()> {
    let (run, addresses) = (&watched.pair.after, watched.rig.addresses());
    if let Some(path) = &args.actions {
        super::write_actions(path, &run.log, |page| addresses.address(page))?;
    }
    if let Some(path) = &args.placement_out {
        let text = PlacementFile::from_homes(&run.homes, addresses.page_size()).text();
        crate::files::write(path, Over::Texts, text)?;
    }
    if let Some(path) = &args.monitor.intervals {
        write_intervals(path, run, case.layout.costs.memories())?;
    }
    Ok(())
}

fn write_intervals(path: &std::path::Path, run: &Run, memories: u16) -> anyhow::Result<()> {
    let mut header: Vec<String> =
        ["interval", "end", "local", "remote", "write_backs", "modelled_ns"].map(String::from).to_vec();
    header.extend((0..memories).map(|node| format!("moves_to_{node}")));
    crate::files::write_csv(path, |out| {
        out.write_record(&header)?;
        for (number, interval) in run.intervals.iter().enumerate() {
            let modelled = interval.modelled.as_ref().map_or(String::new(), |m| format!("{:.0}", m.total_ns));
            let counts = [interval.end, interval.local, interval.remote, interval.write_backs];
            let mut record = vec![number.to_string()];
            record.extend(counts.iter().map(u64::to_string));
            record.push(modelled);
            record.extend(interval.moves_to.iter().map(u64::to_string));
            out.write_record(&record)?;
        }
        Ok(())
    })
}

fn print(watched: &Watched, choice: &Choice, ready: &Ready) -> anyhow::Result<()> {
    let Watched { rows, pair, interval, .. } = watched;
    let run = &pair.after;
    let intervals = match &pair.session {
        Some(_) => "the live session in modelled time".to_owned(),
        None => format!("intervals of {interval} references"),
    };
    outln!("{} sees {} on {}, {intervals}", ready.policies[0].name, choice.brief(), ready.machine.name());
    outln!("{}", tables::rows(rows));
    outln!(
        "\nsamples: {} to the policy, {} lost, {} interrupts; distance {:.3} (mean over CPUs), {:.2} % of transactions \
         and {:.1} % of pages sampled",
        run.samples,
        run.lost,
        run.interrupts,
        run.distance.mean,
        run.distance.sampled_percent,
        run.distance.pages_percent
    );
    pair.session.as_ref().map_or(Ok(()), live::print)?;
    outln!(
        "misses: {} before, {} after; write-backs: {} before, {} after",
        pair.before.caches.demand(),
        run.caches.demand(),
        pair.before.caches.write_backs,
        run.caches.write_backs
    );
    if let (Some(before), Some(after)) = (&pair.before.modelled, &run.modelled) {
        outln!(
            "modelled time: {:.3} ms before ({:.1} % contention), {:.3} ms after ({:.1} % contention, {:.1} % moving): \
            {:+.1} %; with a mover on a processor of its own {:+.1} %; the moves took {:.3} ms of some CPU ({})",
            before.total_ns / 1e6,
            100.0 * before.contention_ns / before.total_ns.max(1.0),
            after.total_ns / 1e6,
            100.0 * after.contention_ns / after.total_ns.max(1.0),
            100.0 * after.moving_ns / after.total_ns.max(1.0),
            100.0 * (after.total_ns / before.total_ns.max(1.0) - 1.0),
            100.0 * (after.own_mover_ns / before.total_ns.max(1.0) - 1.0),
            after.mover_ns / 1e6,
            match ready.experiment.model.mover {
                Mover::Program => "of the program's",
                Mover::Own => "that the program does not use",
                Mover::Stopped => "while all threads stood still",
            }
        );
    }
    Ok(())
}
