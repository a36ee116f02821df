//! `homing sched run`: real jobs under a CPU manager.

mod hardware;
mod launch;
mod leaving;
mod pages;
mod results;
mod work;

use crate::cmd::live::interrupts;
use crate::exit::{self, Code, Result};
use crate::files::{read_text, JournalFile, Over};
use hardware::Hardware;
use homing_linux::interrupts::Interrupts;
use homing_live::jobs::journal::Journal;
use homing_live::jobs::place::Means;
use homing_sched::driver::Driver;
use homing_sched::jobs;
use homing_sched::manager::table::{self, Settings};
use homing_sched::manager::Manager;
use homing_sched::partition::resources::WINDOW_S;
use homing_sched::partition::{self, Partitioned};
use launch::Launcher;
use pages::{Engine, Pages};
use std::path::PathBuf;
use std::time::Duration;
use work::Work;

/// Arguments of `homing sched run`.
#[derive(clap::Args)]
#[command(
    after_long_help = "The first signal that asks to end (Ctrl-C) starts no more jobs and is passed on to those \
    that run; the second ends them. docs/scheduling.md, \"Real jobs\", has the file of jobs and what is done to them."
)]
pub struct Args {
    /// Jobs, a TOML file with a table [[job]] for each (docs/scheduling.md)
    #[arg(value_name = "JOBS")]
    jobs: PathBuf,
    /// CPU manager (`homing sched managers` lists them); `irix`: all CPUs for all, the kernel schedules
    #[arg(long, value_name = "NAME", default_value = "homing")]
    manager: String,
    /// Who moves pages: nobody, the kernel's NUMA balancing, or the live engine
    #[arg(long, value_name = "WHO", default_value = "homing")]
    pages: Pages,
    /// Multiprogramming level: jobs that may run at the same time; PDPA and homing begin more where it pays
    #[arg(long, value_name = "N", default_value_t = Settings::default().level)]
    level: usize,
    /// Efficiency that PDPA wants of a job's processors
    #[arg(long, value_name = "SHARE", default_value_t = Settings::default().target_efficiency)]
    target_efficiency: f64,
    /// Seconds over which the demand of partitions is measured before a node may move
    #[arg(long, value_name = "SECONDS", default_value_t = WINDOW_S)]
    window: f64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a page with a picture: which job had which processors
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what the manager was told and decided, a line of JSON each
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Longest time until jobs are looked at again.
const POLL: Duration = Duration::from_millis(50);

/// Runs the jobs.
pub fn run(args: Args) -> Result {
    let usage = |message: String| exit::error(Code::USAGE, message);
    let entry = table::find(&args.manager).ok_or_else(|| {
        let names: Vec<_> = table::MANAGERS.iter().map(|entry| entry.name).collect();
        usage(format!("no manager `{}`: there are {}", args.manager, names.join(", ")))
    })?;
    if args.level == 0 || !(args.target_efficiency > 0.0 && args.target_efficiency <= 10.0) {
        return Err(usage(
            "--level and --target-efficiency: expected 1 or more, and a number above 0, at most 10".into(),
        ));
    }
    if !(args.window > 0.0 && args.window <= 1e6) {
        return Err(usage(format!("--window {}: expected seconds, above 0", args.window)));
    }
    let text = read_text(&args.jobs, "jobs")?;
    let file = args.jobs.display().to_string();
    let jobs = jobs::read(&text, &file).map_err(|error| usage(error.to_string()))?;
    let launcher = Launcher::new(&jobs.jobs)?;
    let caught = interrupts()?;
    let log = args.log.as_deref().map(|path| JournalFile::create(path, Over::Json)).transpose()?;
    let mut journal = Journal::begin()?;
    let means = Means::find(&mut journal)?;
    let hardware = Hardware::of(means.cpus())?;
    errln!("homing: {}", means.describe());
    let _guard = launch::guard(journal.name());
    let settings = Settings { level: args.level, target_efficiency: args.target_efficiency };
    let manager: Box<dyn Manager> = match jobs.partitions.is_empty() {
        true => (entry.build)(settings),
        false => {
            let wrong = |message: String| usage(format!("{file}: {message}"));
            partition::file::can_manage(entry.name).map_err(wrong)?;
            partition::file::check(&jobs.partitions, &hardware.layout).map_err(wrong)?;
            let (parts, move_s) = (jobs.partitions.clone(), hardware::move_s());
            Box::new(Partitioned::of(&hardware.layout, parts, entry, settings, args.window, move_s))
        }
    };
    let driver = Driver::new(hardware.layout.clone(), manager, hardware::move_s());
    let mut plan = pages::plan(args.pages, hardware.host())?;
    let mut engine = pages::begin(args.pages, &mut plan)?;
    let divided = !jobs.partitions.is_empty();
    let mut work = Work::new(jobs, launcher, driver, hardware, means, journal, log);
    // The manager `homing` weighs pages, and so does who moves nodes.
    work.follow_pages = entry.name == "homing" || divided;
    let driven = drive(&mut work, &mut engine, &caught);
    let moved = engine.finish();
    let results = work.finish(entry.name, args.pages.name(), moved?);
    driven?;
    if let Some(path) = &args.html {
        crate::files::write(path, Over::Pages, results.page())?;
    }
    if args.json {
        crate::stdout::json(results.json())?;
    } else {
        results.print()?;
    }
    Ok(if results.all_well() { Code::OK } else { Code::PARTIAL })
}

/// Until no job is left.
fn drive(work: &mut Work, engine: &mut Engine<'_>, caught: &Interrupts) -> anyhow::Result<()> {
    let mut signals = 0;
    loop {
        if caught.count() > signals {
            work.interrupted(caught.last(), signals > 0)?;
            signals = caught.count();
        }
        work.step(engine)?;
        if work.is_over() {
            return Ok(());
        }
        engine.step()?;
        engine.wait(&work.ends(), work.next().min(POLL))?;
    }
}
