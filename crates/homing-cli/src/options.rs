//! Options that several commands take, and what they mean to homing-pipeline.

use crate::{names, progress};
use homing_core::history::ThreadsOn;
use homing_core::ids::PageSize;
use homing_core::information::Information;
use homing_core::time::Mover;
use homing_pipeline::model::{bytes, Model, MEMORY};
use homing_pipeline::scene::{Iterations, Scene, ITERATIONS};
use homing_pipeline::Experiment;

/// Memory for synchronisation operations while a trace is put in order.
pub const ORDER_MEMORY: &str = "1G";

/// The machine model and how a trace is laid over it.
#[derive(clap::Args, Clone, Debug)]
pub struct ModelArgs {
    /// Machine model: a name from `homing machines`, a TOML file, or `host`
    #[arg(long, short, value_name = "MACHINE", value_parser = names::MACHINE, hide_possible_values = true)]
    pub machine: String,
    /// Override a field of the machine, such as remote=15 (`homing machines --fields` lists them), or a policy's
    /// parameter (POLICY.PARAM=VALUE)
    #[arg(long, value_name = "FIELD=VALUE")]
    pub set: Vec<String>,
    /// Page size, a power of two from 512 to 1G [default: the machine's]; `compare` takes several
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub page_size: Vec<PageSize>,
    /// CPUs that threads run on: busy, fill, round-robin, one-per-node, or a list such as 0-3,5 or !2 [default: busy;
    /// fill on machines of papers and, but for `compare`, on those without caches]
    ///
    /// busy: threads that work at the same time on the nodes in turn, whatever their numbers. fill: thread i on CPU i,
    /// so that nodes fill up one by one. round-robin: thread i on the next CPU of node i. one-per-node: thread i on the
    /// first CPU of node i. A list: thread i on its i-th CPU. All begin again at their end.
    #[arg(long, value_name = "HOW")]
    pub threads_on: Option<ThreadsOn>,
    /// Memory for page histories; what is beyond goes to a temporary file
    #[arg(long, value_name = "SIZE", default_value = MEMORY, value_parser = bytes)]
    pub memory: u64,
    /// Let the machine's caches filter the references first: what follows sees misses, and a page has one copy
    #[arg(long)]
    pub misses: bool,
    /// Whose time page moves take where times are modelled: program (the CPUs of the node that gets the page), own (a
    /// processor that the program does not use) or stopped (all threads stand still)
    #[arg(long, value_name = "WHO", default_value_t)]
    pub mover: Mover,
}

/// How policies are informed and what happens to the program.
#[derive(clap::Args, Clone, Debug)]
pub struct SceneArgs {
    /// Where iterations end: `marks` of the trace, `every:N` references, or `count:K` over the trace
    #[arg(long, value_name = "RULE", default_value = ITERATIONS)]
    pub iterations: Iterations,
    /// Scheduling events: a CSV file (columns time,thread,cpu or time,threads or time,event,thread,value), or
    /// random:SEED[:moves=N][:threads=N][:preempts=N]
    #[arg(long, value_name = "EVENTS")]
    pub events: Option<String>,
}

/// An information level from the command line.
pub fn information(text: &str) -> Result<Information, String> {
    text.parse()
}

impl ModelArgs {
    /// What they say; who reads is shown how far that is.
    pub fn experiment(&self) -> Experiment {
        Experiment { progress: progress::of_pipeline(), ..Experiment::new(self.model()) }
    }

    fn model(&self) -> Model {
        let ModelArgs { machine, set, page_size, threads_on, memory, misses, mover } = self.clone();
        Model { machine, set, page_size, threads_on, memory, misses, mover }
    }
}

impl SceneArgs {
    /// What they say.
    pub fn scene(&self) -> Scene {
        Scene { iterations: self.iterations, events: self.events.clone() }
    }
}
