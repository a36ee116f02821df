//! `homing lab baseline`: one program under several ways to place its memory, each in a machine of its own, judged by
//! the observer.

mod show;

use super::flags::{assignment, bytes, duration, named, DelayArgs, MachineArgs};
use super::Stderr;
use crate::exit::{Code, Result};
use clap::ValueHint;
use homing_lab::baseline::{self as contenders, Baseline};
use homing_lab::job::check_files;
use homing_lab::kernel::HugePages;
use homing_lab::topology::Topology;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `homing lab baseline`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "Contenders: first-touch, interleave (numactl --interleave=all), single-node (numactl \
    --membind), start (the memory stays \
where --start-on put it), balancing (the kernel's, with its defaults), fast (scanning ten times as often), numad; and \
those of --with. \
--start-on is for start, balancing, fast, numad and those of --with; the first three of the list are as they are."
)]
pub struct Args {
    #[command(flatten)]
    machine: MachineArgs,
    /// Who competes [default: first-touch,interleave,single-node,balancing,numad, and start with --start-on]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = contenders::known)]
    contenders: Vec<String>,
    /// A further contender: the program is run behind these words, such as live='homing run --'; blanks separate them
    #[arg(long, value_name = "NAME=PREFIX", value_parser = assignment)]
    with: Vec<(String, String)>,
    /// Let the memory begin on these nodes, as after an initialisation by one thread
    #[arg(long, value_name = "NODES")]
    start_on: Option<String>,
    /// Settings of transparent huge pages to run with
    #[arg(long, value_parser = named(&HugePages::NAMES), value_delimiter = ',', default_values = ["never", "always"])]
    thp: Vec<HugePages>,
    /// Runs of each contender; the medians are shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeats: u32,
    /// The cache of each CPU; what misses it counts
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "128K")]
    cache: u64,
    #[command(flatten)]
    delay: DelayArgs,
    /// Count only between the program's own marks (lab/guest/homing_section.h)
    #[arg(long)]
    marked: bool,
    /// Length of the observer's intervals
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "100ms")]
    interval: Duration,
    /// Write to a file of the guest's /proc or /sys before the program starts, such as the scan size of the kernel's
    /// balancing
    #[arg(long, value_name = "FILE=VALUE", value_parser = assignment)]
    tune: Vec<(String, String)>,
    /// Take a further file or directory into the guest
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Set an environment variable of the program
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(String, String)>,
    /// End a run after this time
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    timeout: Duration,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// The program and its arguments: everything from the first word on that is no option
    #[arg(trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments, required = true,
          value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs all contenders.
pub fn run(args: Args) -> Result {
    check_files(&args.file)?;
    let topology = args.machine.topology()?;
    let contenders = contenders::all(&args.contenders, &args.with, args.start_on.is_some(), &topology)?;
    let rows = args.baseline(topology.clone()).run(&contenders, &Stderr)?;
    show::print(&args, &topology, &rows)?;
    Ok(Code::OK)
}

impl Args {
    fn baseline(&self, topology: Topology) -> Baseline {
        Baseline {
            topology,
            cpu_model: self.machine.cpu_model().to_owned(),
            command: self.command.clone(),
            environment: self.env.clone(),
            files: self.file.clone(),
            start: self.start_on.clone(),
            tunes: self.tune.clone(),
            cache: self.cache,
            delay: self.delay.delay(),
            marked: self.marked,
            interval: self.interval,
            timeout: self.timeout,
            huge_pages: self.thp.clone(),
            repeats: self.repeats,
            errors: || Box::new(std::io::stderr()),
        }
    }
}
