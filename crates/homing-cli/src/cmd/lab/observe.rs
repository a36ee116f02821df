//! What the observer shall count, and how its counts are shown: a table, JSON, CSV.

use super::flags::{bytes, duration, DelayArgs};
use super::trace_file::TraceFile;
use crate::files::{self, Output, Over};
use crate::tables;
use homing_core::ids::{Node, PageSize};
use homing_core::policy::placement::PlacementFile;
use homing_lab::observer::{Counts, Interval, Observed, Options};
use homing_lab::session::Ended;
use homing_lab::topology::Topology;
use serde_json::{json, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// What is counted: the same for all that runs in a machine.
#[derive(clap::Args, Clone, Debug)]
pub struct CountArgs {
    /// Length of the intervals in which the counts are also given
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "100ms")]
    interval: Duration,
    /// Model a cache of this size for each CPU, kept coherent, and count what misses it, too
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    cache: Option<u64>,
    /// Count by page, too, which gives the bound for placements without moves
    #[arg(long)]
    pages: bool,
    /// Count the kernel's accesses in the program's address spaces, too
    #[arg(long)]
    with_kernel: bool,
    /// Count all processes, not only the command's (of which `homing` itself never counts)
    #[arg(long)]
    all_processes: bool,
    /// Count only between the program's own marks (lab/guest/homing_section.h)
    #[arg(long)]
    marked: bool,
    #[command(flatten)]
    delay: DelayArgs,
    /// Plug the monitor card in, which programs of the guest can use (docs/monitor-card.md)
    #[arg(long)]
    card: bool,
}

impl CountArgs {
    /// The observer's options; `None` if there is nothing to observe: nothing is `wanted`, and the machine has no part
    /// that needs it.
    pub fn options(&self, wanted: bool) -> Option<Options> {
        (wanted || self.slows()).then_some(Options {
            every: self.interval,
            kernel: self.with_kernel,
            pages: self.pages,
            marked: self.marked,
            all: self.all_processes,
            cache: self.cache,
            delay: self.delay.delay(),
            card: self.card,
            physical: false,
        })
    }

    /// Whether programs notice the observer: by delays, or by the card.
    pub fn slows(&self) -> bool {
        self.delay.delay().is_some() || self.card
    }
}

/// The observer's options for one command.
#[derive(clap::Args, Clone, Debug)]
pub struct ObserveArgs {
    /// Count every access of the program by CPU and home node; write the counts as JSON, or as CSV if the name ends so
    #[arg(long, value_name = "FILE")]
    observe: Option<PathBuf>,
    #[command(flatten)]
    counts: CountArgs,
    /// Write where the program's pages were, for `homing simulate --placement file:FILE`
    #[arg(long, value_name = "FILE", requires = "pages")]
    placement_out: Option<PathBuf>,
    /// Write all that is counted as a trace, for `homing simulate`; its threads are the machine's CPUs
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Let the trace have physical addresses instead of virtual ones
    #[arg(long, requires = "trace")]
    physical: bool,
}

impl ObserveArgs {
    /// The observer's options; `None` if there is nothing to observe.
    pub fn options(&self) -> Option<Options> {
        let wanted = self.observe.is_some() || self.placement_out.is_some() || self.trace.is_some();
        self.counts.options(wanted).map(|options| Options { physical: self.physical, ..options })
    }

    /// Where the trace goes.
    pub fn trace(&self) -> Option<TraceFile> {
        self.trace.as_deref().map(TraceFile::new)
    }

    /// Refuses files that cannot be written before anything is started.
    pub fn check(&self) -> anyhow::Result<()> {
        self.observe.iter().try_for_each(|path| check(path))?;
        self.placement_out.iter().try_for_each(|path| check_file(path, Over::Texts))
    }

    /// Writes the counts where they were asked for, and shows them on stderr: stdout is the program's.
    pub fn show(&self, observed: &Observed, topology: &Topology, ended: &Ended) -> anyhow::Result<()> {
        if let Some(path) = &self.placement_out {
            files::write(path, Over::Texts, placement(observed))?;
        }
        let Some(path) = &self.observe else { return Ok(()) };
        write(path, observed, topology, ended)?;
        errln!("{}", table(observed));
        if !observed.complete {
            errln!("homing: warning: the machine ended before the observer's report did: the last interval is missing");
        }
        Ok(())
    }
}

/// Refuses a file of counts that cannot be written.
pub fn check(path: &Path) -> anyhow::Result<()> {
    check_file(path, counts(path))
}

/// Pipes and devices are left alone: their readers would see an end.
fn check_file(path: &Path, over: Over) -> anyhow::Result<()> {
    match path.metadata().map_or(true, |facts| facts.is_file()) {
        true => Ok(Output::create(path, over).map(drop)?),
        false => Ok(()),
    }
}

/// Writes the counts of a job.
pub fn write(path: &Path, observed: &Observed, topology: &Topology, ended: &Ended) -> anyhow::Result<()> {
    if counts(path) == Over::Texts {
        return Ok(files::write(path, Over::Texts, csv(observed)?)?);
    }
    let mut value = json(observed, topology);
    value["kernel"] = json!(ended.kernel);
    if let Some(held) = ended.held {
        value["start_on"] = json!(held);
    }
    let text = serde_json::to_string_pretty(&value)?;
    Ok(files::write(path, Over::Json, text + "\n")?)
}

/// The kind of the file of counts: a table where the name says so, else JSON.
fn counts(path: &Path) -> Over {
    match path.extension().is_some_and(|extension| extension == "csv") {
        true => Over::Texts,
        false => Over::Json,
    }
}

/// A placement file of the pages' homes. Its nodes are numbered as in the trace's machine: by position.
fn placement(observed: &Observed) -> String {
    let homes: Vec<_> =
        observed.homes().into_iter().map(|(address, home)| (address, Node(home as u16))).collect();
    PlacementFile::from_homes(&homes, PageSize::KIB4).text()
}

/// All of it; `accesses` and `misses` are matrices with a row for each vCPU and a column for each home node.
pub fn json(observed: &Observed, topology: &Topology) -> Value {
    let total = observed.total();
    let mut value = part(observed, &total);
    value["schema"] = SCHEMA.into();
    value["topology"] = topology.name.clone().into();
    value["nodes"] = json!(observed.nodes);
    let node_of_cpu: Vec<u32> = observed.node_of_cpu.iter().map(|&index| observed.nodes[index]).collect();
    value["node_of_cpu"] = json!(node_of_cpu);
    value["address_spaces"] = observed.spaces.into();
    value["device_accesses"] = observed.devices.into();
    value["complete"] = observed.complete.into();
    value["intervals"] = observed.intervals.iter().map(|interval| part(observed, interval)).collect();
    if !observed.delayed.is_empty() {
        value["delayed_ns"] = json!(observed.delayed);
    }
    if !observed.waited.is_empty() {
        value["mean_wait_ns"] = json!(observed.mean_waits());
    }
    if !observed.pages.is_empty() {
        let bound = |bytes| {
            let bound = observed.bound(bytes);
            json!({"pages": bound.pages, "access_percent": bound.access_percent, "miss_percent": bound.miss_percent})
        };
        value["static_bound"] = json!({"4K": bound(4 << 10), "2M": bound(2 << 20)});
    }
    value
}

fn part(observed: &Observed, interval: &Interval) -> Value {
    let counts = &interval.accesses;
    let mut value = json!({
        "ms": interval.ms,
        "nonlocal_percent": observed.nonlocal_percent(counts),
        "accesses": counts.both(),
        "reads": counts.reads,
        "writes": counts.writes,
    });
    if observed.cached {
        value["nonlocal_miss_percent"] = observed.nonlocal_percent(&interval.misses).into();
        value["misses"] = json!(interval.misses.both());
    }
    value
}

fn csv(observed: &Observed) -> anyhow::Result<Vec<u8>> {
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(["ms", "cpu", "cpu_node", "home", "reads", "writes", "read_misses", "write_misses"])?;
    for interval in &observed.intervals {
        for (cpu, &node) in observed.node_of_cpu.iter().enumerate() {
            for (home, &id) in observed.nodes.iter().enumerate() {
                let at = |counts: &Counts| [counts.reads[cpu][home], counts.writes[cpu][home]];
                let numbers = [at(&interval.accesses), at(&interval.misses)].concat();
                if numbers.iter().all(|&number| number == 0) {
                    continue;
                }
                let place = [interval.ms, cpu as u64, u64::from(observed.nodes[node]), u64::from(id)];
                out.write_record(place.iter().chain(&numbers).map(u64::to_string))?;
            }
        }
    }
    Ok(out.into_inner()?)
}

/// One line a node that asks, one column a home; then the summary, the course over time and the bound.
fn table(observed: &Observed) -> String {
    let total = observed.total();
    let what = if observed.cached { "misses" } else { "accesses" };
    let both = observed.transactions(&total).both();
    let mut header = vec![format!("{what} by CPUs of")];
    header.extend(observed.nodes.iter().map(|id| format!("to node {id}")));
    header.push("non-local %".into());
    let mut table = tables::plain(&header);
    for (index, id) in observed.nodes.iter().enumerate() {
        let rows = both.iter().zip(&observed.node_of_cpu).filter(|(_, &node)| node == index);
        let mut sums = vec![0; observed.nodes.len()];
        rows.for_each(|(row, _)| sums.iter_mut().zip(row).for_each(|(sum, count)| *sum += count));
        let all: u64 = sums.iter().sum();
        let percent = 100.0 * (all - sums[index]) as f64 / all.max(1) as f64;
        let cells = sums.iter().map(|&sum| tables::count(sum));
        table.add_row(
            std::iter::once(format!("node {id}"))
                .chain(cells)
                .chain(std::iter::once(format!("{percent:.2}"))),
        );
    }
    let mut text = format!(
        "{table}\n{} accesses, {:.2} % non-local",
        tables::count(total.accesses.total()),
        observed.nonlocal_percent(&total.accesses)
    );
    if observed.cached {
        let (misses, percent) = (total.misses.total(), observed.nonlocal_percent(&total.misses));
        text.push_str(&format!("; {} misses, {percent:.2} % non-local", tables::count(misses)));
    }
    let course: Vec<_> = observed.course(10).iter().map(|point| format!("{point:.1}")).collect();
    text.push_str(&format!("\nover time, non-local % of {what}: {}", course.join(" ")));
    if !observed.waited.is_empty() {
        let waits: Vec<_> = observed.mean_waits().iter().map(|ns| format!("{ns:.1}")).collect();
        text.push_str(&format!("\nwaits for others at each memory, mean ns: {}", waits.join(" ")));
    }
    if !observed.pages.is_empty() {
        let (small, huge) = (observed.bound(4 << 10), observed.bound(2 << 20));
        let of = |bound: homing_lab::observer::Bound| {
            if observed.cached {
                bound.miss_percent
            } else {
                bound.access_percent
            }
        };
        text.push_str(&format!(
            "\nbest placement without moves, non-local % of {what}: {:.2} at 4 KiB ({} pages), \
        {:.2} at 2 MiB",
            of(small),
            small.pages,
            of(huge)
        ));
    }
    text
}
