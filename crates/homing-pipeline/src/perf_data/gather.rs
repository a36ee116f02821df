//! The samples of a file that say something of places, each with the mapping that it fell into, and the numbers of all
//! others.

use super::spaces::Spaces;
use crate::error::{PipelineError, Result, While};
use homing_linux::mapped;
use homing_linux::perf::data_src::{DataSource, Served};
use homing_trace::perf_data::{read, Contents, Record, Sample, Traced, KERNEL};
use std::path::Path;

/// Of the groups that perf makes of what Arm's SPE wrote, the one that has each access once.
const MEMORY: &str = "memory";

/// A sample of a reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// The place of its process among the spaces.
    pub space: usize,
    /// The mapping that its address is in.
    pub mapping: Option<usize>,
    /// The sample.
    pub sample: Sample,
    /// What served it.
    pub source: DataSource,
}

impl Access {
    /// Its data address.
    pub fn address(&self) -> u64 {
        self.sample.address.unwrap_or_default()
    }
}

/// Samples that say nothing of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Without a data address: the instruction had none, or the event does not record it.
    pub no_address: u64,
    /// Of the kernel's memory.
    pub kernel: u64,
    /// Served by a cache of the node: placement decides nothing of them.
    pub near: u64,
    /// They do not say what served them, where others do.
    pub unsaid: u64,
    /// Of groups that repeat what another has.
    pub repeated: u64,
}

/// What a file holds.
pub struct Gathered {
    /// What it says of the machine and of itself.
    pub contents: Contents,
    /// The address spaces of its processes.
    pub spaces: Spaces,
    /// The samples, by time.
    pub accesses: Vec<Access>,
    /// The others.
    pub unused: Unused,
    /// Samples are of references that have missed the near caches.
    pub behind_caches: bool,
}

/// Reads a file.
pub fn gather(path: &Path) -> Result<Gathered> {
    let context = || format!("cannot open {}", path.display());
    if !path.metadata().doing(context)?.is_file() {
        let message = format!(
            "{} is not a regular file: expected a file of `perf record` without --threads",
            path.display()
        );
        return Err(PipelineError::Failed(message));
    }
    let bytes = mapped::open(path).doing(context)?;
    of(&bytes).map_err(|message| PipelineError::Failed(format!("{}: {message}", path.display())))
}

/// What bytes of a file hold; an error in words.
pub fn of(bytes: &[u8]) -> std::result::Result<Gathered, String> {
    let mut unused = Unused::default();
    let mut records: Vec<(u64, Record)> = Vec::new();
    let contents = read(bytes, |time, record| match record {
        Record::Sample(sample) if unused.takes(&sample) => {}
        record => records.push((time.unwrap_or_default(), record)),
    })
    .map_err(|error| error.to_string())?;
    // Where several CPUs wrote, the order of the file is not that of time.
    records.sort_by_key(|(time, _)| *time);
    let only = contents.events.iter().position(|event| event.name.starts_with(MEMORY));
    let only = only.filter(|_| is_arm(&contents));
    let mut spaces = Spaces::default();
    let mut accesses = Vec::new();
    for (_, record) in records {
        match record {
            Record::Mapped(mapped) => spaces.map(mapped),
            Record::Named { pid, name, executes } => spaces.name(pid, name, executes),
            Record::Began { pid, parent } => spaces.fork(pid, parent),
            Record::Sample(sample) if only.is_some_and(|only| only != sample.event) => unused.repeated += 1,
            Record::Sample(sample) => {
                let space = spaces.of(sample.pid);
                let mapping = spaces.all[space].find(sample.address.unwrap_or_default());
                accesses.push(Access { space, mapping, sample, source: source(&sample) });
            }
        }
    }
    let says = |access: &Access| access.source.served != Served::Unknown;
    let behind_caches = unused.near > 0 || accesses.iter().any(says);
    if behind_caches {
        let all = accesses.len();
        accesses.retain(says);
        unused.unsaid = (all - accesses.len()) as u64;
    }
    match accesses.is_empty() {
        true => Err(nothing(&contents, &unused)),
        false => Ok(Gathered { contents, spaces, accesses, unused, behind_caches }),
    }
}

/// Whether what served an access is said as Arm's SPE says it.
pub fn is_arm(contents: &Contents) -> bool {
    contents.facts.architecture.as_deref() == Some("aarch64")
}

fn source(sample: &Sample) -> DataSource {
    DataSource::decode(sample.data_src.unwrap_or_default())
}

impl Unused {
    /// Counts a sample if it says nothing of places.
    fn takes(&mut self, sample: &Sample) -> bool {
        let count = match sample.address {
            None | Some(0) => &mut self.no_address,
            Some(address) if address >= KERNEL => &mut self.kernel,
            _ if source(sample).served == Served::Cache => &mut self.near,
            _ => return false,
        };
        *count += 1;
        true
    }
}

/// Why there is nothing to judge, and what to do.
fn nothing(contents: &Contents, unused: &Unused) -> String {
    let counts = contents.counts;
    if counts.undecoded > 0 {
        let (what, options) = match contents.traced {
            Some(Traced::Spe) => ("Arm SPE", "`perf inject --itrace=M -i perf.data -o decoded.data`"),
            _ => ("a trace of the processor", "`perf inject --itrace -i perf.data -o decoded.data`"),
        };
        return format!(
            "it holds {what} ({} bytes) that perf has not decoded: let perf do it, on any machine, by {options}, \
             and judge decoded.data",
            counts.undecoded
        );
    }
    if !contents.events.iter().any(homing_trace::perf_data::Event::has_addresses) {
        let names: Vec<&str> = contents.events.iter().map(|event| event.name.as_str()).collect();
        return format!(
            "its samples hold no data addresses ({}): expected a file of `perf mem record`, `perf c2c record`, or \
             `perf record -d` of an event that has them",
            names.join(", ")
        );
    }
    format!(
        "none of its {} samples says where data are: {} had no address, {} were of the kernel's memory, {} were served \
         by near caches; record for longer, or a larger problem",
        counts.samples, unused.no_address, unused.kernel, unused.near
    )
}
