//! `homing lab baseline`: one program under several ways to place its memory, each in a machine of its own, judged by
//! the observer.

mod contender;
mod measure;
mod show;

use super::coded;
use super::flags::{assignment, Balancing, HugePages, KernelArgs, MachineArgs};
use super::observe::bytes;
use super::run::duration;
use super::session::{check_files, working_directory, Ended, Lab};
use crate::exit::{self, Code, Result};
use contender::Contender;
use homing_lab::job::{environment, Job};
use homing_lab::observer::Options;
use homing_lab::topology::Topology;
use measure::{Measured, Summary};
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
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = contender::known)]
    contenders: Vec<String>,
    /// A further contender: the program is run behind these words, such as live='homing run --'; blanks separate them
    #[arg(long, value_name = "NAME=PREFIX", value_parser = assignment)]
    with: Vec<(String, String)>,
    /// Let the memory begin on these nodes, as after an initialisation by one thread
    #[arg(long, value_name = "NODES")]
    start_on: Option<String>,
    /// Settings of transparent huge pages to run with
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["never", "always"])]
    thp: Vec<HugePages>,
    /// Runs of each contender; the medians are shown
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    repeats: u32,
    /// The cache of each CPU; what misses it counts
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "128K")]
    cache: u64,
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
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs all contenders.
pub fn run(args: Args) -> Result {
    check_files(&args.file)?;
    let topology = args.machine.topology()?;
    let contenders = contender::all(&args.contenders, &args.with, args.start_on.is_some(), &topology)?;
    let count = contenders.len() * args.thp.len() * args.repeats as usize;
    let (mut number, mut rows) = (0, Vec::new());
    for &thp in &args.thp {
        for contender in &contenders {
            let mut runs = Vec::new();
            for _ in 0..args.repeats {
                number += 1;
                let measured = args.one(contender, thp, &topology)?;
                errln!(
                    "homing: {number} of {count}: {}, thp {}: {:.2} % non-local, {:.1} s",
                    contender.name,
                    thp.word(),
                    measured.nonlocal_percent,
                    measured.seconds
                );
                runs.push(measured);
            }
            rows.push(Summary::new(&contender.name, thp.word(), runs));
        }
    }
    show::print(&args, &topology, &rows)?;
    Ok(Code::OK)
}

impl Args {
    /// One run of one contender.
    fn one(&self, contender: &Contender, thp: HugePages, topology: &Topology) -> anyhow::Result<Measured> {
        let mut environment = environment();
        for (name, value) in &self.env {
            environment.retain(|(known, _)| *known != **name);
            environment.push((name.into(), value.into()));
        }
        let job = Job {
            command: contender.prefix.iter().chain(&self.command).cloned().collect(),
            environment,
            directory: working_directory()?,
            files: self.file.clone(),
            start: self.start_on.clone().filter(|_| contender.starts),
            beside: contender.beside.clone(),
            ..Job::default()
        };
        let observe = Options {
            every: self.interval,
            pages: true,
            marked: self.marked,
            cache: Some(self.cache),
            ..Options::default()
        };
        let kernel = KernelArgs::new(contender.balancing, thp, &self.tune);
        let lab = Lab {
            machine: &self.machine,
            kernel: &kernel,
            job,
            timeout: Some(self.timeout),
            observe: Some(observe),
            trace: None,
            quiet: true,
        };
        let ended = lab.run(topology)?;
        check(&ended, &contender.name)?;
        Ok(Measured::new(&ended, topology))
    }
}

/// Figures of a program that failed would mean nothing.
fn check(ended: &Ended, name: &str) -> anyhow::Result<()> {
    if ended.code != Code::OK {
        let found = format!("{name}: the program ended with status {}", ended.code.0);
        return Err(exit::error(ended.code, format!("{found}; `homing lab run` shows its output")));
    }
    match &ended.observed {
        Some(observed) if observed.total().misses.total() > 0 => Ok(()),
        _ => Err(exit::error(
            Code::FAILURE,
            format!("{name}: the observer counted nothing; with --marked the program must have marks"),
        )),
    }
}
