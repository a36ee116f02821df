//! `homing simulate --monitor`: a policy on what a monitor reports, in the loop with caches, frames and modelled time.

use super::Args;
use crate::exit::{self, Code, Result};
use crate::tables;
use homing_core::compare::{note_counts, Bound};
use homing_core::machine::Machine;
use homing_core::monitor::table::Choice;
use homing_core::policy::placement::PlacementFile;
use homing_core::policy::table::Entry;
use homing_core::report::{Parameter, Row};
use homing_core::sharing;
use homing_core::system::{Run, Setup};
use homing_pipeline::experiment::write_manifests;
use homing_pipeline::policies::policy;
use homing_pipeline::rig::{self, Pair, Rig};
use homing_pipeline::TraceFile;
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// The arguments of the loop.
#[derive(clap::Args)]
pub struct MonitorArgs {
    /// Let the policy see what this monitor reports: NAME or NAME:PARAM=VALUE,... (see `homing monitors`)
    #[arg(long, value_name = "MONITOR", conflicts_with = "info")]
    pub monitor: Option<Choice>,
    /// References between two ends of the monitor's intervals [default: a fiftieth of the trace]
    #[arg(long, value_name = "COUNT", requires = "monitor", value_parser = clap::value_parser!(u64).range(1..))]
    interval: Option<u64>,
    /// Stop the program's threads while pages move, instead of moving them from a CPU of its own
    #[arg(long, requires = "monitor")]
    stop_threads: bool,
    /// Write one line for each interval as CSV
    #[arg(long, value_name = "FILE", requires = "monitor")]
    pub intervals: Option<PathBuf>,
}

/// Simulates with a monitor in the loop.
pub fn run(args: &Args, choice: &Choice) -> Result {
    let mut experiment = args.experiment();
    experiment.model.misses = true;
    experiment.replication = false;
    let ready = experiment.ready(|_| Ok(vec![policy(&args.policy)?]))?;
    let entry = ready.policies[0];
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let layout = ready.lay_out(&file, &trace, None)?;
    let subject = ready.subject(&layout);
    let bound = Bound::new(&subject, &sharing::classify(&layout.history)?)?;
    let begin = Instant::now();
    let policy = entry.make(&layout.costs, false, &ready.settings);
    if !rig::takes_samples(entry, &*policy) {
        let message = format!(
            "policy `{}` acts at faults, which no monitor reports: choose one that takes samples, such as homing or \
             interval-majority",
            entry.name
        );
        return Err(exit::error(Code::USAGE, message));
    }
    let begin_rule = entry.placement(layout.placement.as_ref(), &layout.costs, &ready.settings);
    let rig = Rig::new(&ready, &trace, &layout.costs)?;
    let setup = rig.setup(&trace, &layout, &begin_rule, choice);
    let interval = args.monitor.interval.unwrap_or(setup.interval);
    let (stopped, log) = (args.monitor.stop_threads, args.actions.is_some());
    let setup = Setup { interval, stopped, log, ..setup };
    let pair = rig::pair(&setup, &*policy, choice).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
    let rows = [
        subject.optimal_row(&bound, 0.0),
        rig::row(&subject, &bound, "stay", &pair.before, 0.0),
        rig::row(&subject, &bound, entry.name, &pair.after, begin.elapsed().as_secs_f64()),
    ];
    let mut notes = subject.notes();
    note_counts(&mut notes, entry.name, &rig::simulation(&pair.after));
    notes.extend_from_slice(&layout.notes);
    notes.push("moves change what misses; the gap is that of the mean costs per miss, to the bound of pages that stay".into());
    notes.extend(rig.no_times().map(|e| format!("no times: {e}")));
    let mut parameters = ready.parameters(false);
    let mut add = |name: &str, value: String| parameters.push(Parameter { name: name.into(), value });
    add("monitor", choice.describe());
    add("interval", interval.to_string());
    add("stop-threads", args.monitor.stop_threads.to_string());
    parameters.extend(ready.experiment.scene.parameters(&[]).into_iter().filter(|p| p.name != "info"));
    let info = ready.trace_info(&file, &trace, &layout);
    write_files(args, &pair.after, &setup)?;
    let written = args.actions.iter().chain(&args.placement_out).chain(&args.monitor.intervals);
    write_manifests(written, &ready.machine_info(), &parameters, &info)?;
    if args.json {
        let json = as_json(&rows[2], &pair, choice, interval, &info, &parameters, &notes)?;
        outln!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        print(&rows, &pair, choice, interval, &ready.machine, entry)?;
        tables::print_notes(&notes)?;
    }
    Ok(if layout.partial { Code::PARTIAL } else { Code::OK })
}

fn as_json(
    row: &Row,
    pair: &Pair,
    choice: &Choice,
    interval: u64,
    trace: &homing_core::report::TraceInfo,
    parameters: &[Parameter],
    notes: &[String],
) -> anyhow::Result<serde_json::Value> {
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
    json["interval"] = interval.into();
    json["samples"] = pair.after.samples.into();
    json["samples_lost"] = pair.after.lost.into();
    json["interrupts"] = pair.after.interrupts.into();
    json["distance"] = serde_json::to_value(&pair.after.distance)?;
    json["before"] = run(&pair.before);
    json["after"] = run(&pair.after);
    json["trace"] = serde_json::to_value(trace)?;
    json["parameters"] = serde_json::to_value(parameters)?;
    json["notes"] = serde_json::to_value(notes)?;
    Ok(json)
}

fn write_files(args: &Args, run: &Run, setup: &Setup) -> anyhow::Result<()> {
    if let Some(path) = &args.actions {
        let address = |page| setup.addresses.address(page);
        super::write_actions(path, &run.log, address)?;
    }
    if let Some(path) = &args.placement_out {
        let text = PlacementFile::from_homes(&run.homes, setup.addresses.page_size()).text();
        crate::files::write(path, text)?;
    }
    if let Some(path) = &args.monitor.intervals {
        write_intervals(path, run, setup.costs.memories())?;
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

fn print(
    rows: &[Row],
    pair: &Pair,
    choice: &Choice,
    interval: u64,
    machine: &Machine,
    entry: &Entry,
) -> anyhow::Result<()> {
    let run = &pair.after;
    outln!(
        "{} sees {} on {}, intervals of {interval} references",
        entry.name,
        choice.describe(),
        machine.name()
    );
    outln!("{}", tables::rows(rows));
    outln!(
        "\nsamples: {} to the policy, {} lost, {} interrupts; distance {:.3} (mean over CPUs), {:.2} % of transactions \
        and \
         {:.1} % of pages sampled",
        run.samples,
        run.lost,
        run.interrupts,
        run.distance.mean,
        run.distance.sampled_percent,
        run.distance.pages_percent
    );
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
            {:+.1} %",
            before.total_ns / 1e6,
            100.0 * before.contention_ns / before.total_ns.max(1.0),
            after.total_ns / 1e6,
            100.0 * after.contention_ns / after.total_ns.max(1.0),
            100.0 * after.moving_ns / after.total_ns.max(1.0),
            100.0 * (after.total_ns / before.total_ns.max(1.0) - 1.0)
        );
    }
    Ok(())
}
