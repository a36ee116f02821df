//! `homing sched model`: an application for `homing sched simulate`, from traces of a program.

use crate::exit::{self, Code, Result};
use crate::options::SceneArgs;
use crate::tables::things;
use crate::{names, progress};
use homing_core::history::ThreadsOn;
use homing_pipeline::job_model::{app, measure, Measured, AT_REST};
use homing_pipeline::model::Model;
use homing_pipeline::policies::is_machine;
use homing_pipeline::watched::behind_caches;
use homing_pipeline::{windows, Experiment, TraceFile};
use homing_sched::app::App;
use homing_sched::layout::Hardware;
use homing_sched::workload::{local_s, Mix};
use std::path::PathBuf;

/// Arguments of `homing sched model`.
#[derive(clap::Args)]
pub struct Args {
    /// Traces of one program, each with another number of threads
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Name of the application
    #[arg(long, value_name = "NAME", default_value = "app")]
    name: String,
    /// Machine model with caches and times: a name from `homing machines`, or a TOML file
    #[arg(long, short, value_name = "MACHINE", value_parser = names::MACHINE, hide_possible_values = true,
        default_value = "origin2000-64")]
    machine: String,
    /// Override a field of the machine, such as hierarchy.l2.size=64K
    #[arg(long, value_name = "FIELD=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    scene: SceneArgs,
}

/// Jobs of the mix that is printed with the application.
const JOBS: u32 = 20;

/// A file for `--apps`.
#[derive(serde::Serialize)]
struct File<'a> {
    app: [&'a App; 1],
    mix: [Mix; 1],
}

/// Prints the application.
pub fn run(args: Args) -> Result {
    let usage = |message: String| exit::error(Code::USAGE, message);
    let machine = Model { set: args.set.clone(), ..Model::of(&args.machine) }.machine(is_machine)?;
    let hardware = Hardware::new(&machine).map_err(|error| usage(error.to_string()))?;
    let set = [args.set.clone(), AT_REST.map(String::from).to_vec()].concat();
    let model = Model { set, threads_on: Some(ThreadsOn::Fill), ..Model::of(&args.machine) };
    let experiment =
        Experiment { scene: args.scene.scene(), progress: progress::of_pipeline(), ..Experiment::new(model) };
    let ready = behind_caches(experiment).ready(|_| Ok(Vec::new()))?;
    let mut measured: Vec<Measured> = Vec::new();
    for path in &args.traces {
        let file = TraceFile::ordered(path, &progress::of_pipeline())?;
        if let Some(note) = windows::note(&file.trace()?) {
            errln!("note: {}: {note}", path.display());
        }
        let found = measure(&ready, &file);
        measured.push(found.map_err(|error| usage(format!("{}: {error}", path.display())))?);
    }
    measured.sort_by_key(|one| one.threads);
    let app = app(&args.name, measured.clone())?;
    let wait_s = local_s(&hardware);
    outln!("# Modelled on {} from traces. Milliseconds of an iteration: by the trace, and", args.machine);
    outln!("# by this table with all pages local.");
    for one in &measured {
        let by_table = 1e3 * app.iteration_s(one.threads, wait_s);
        outln!("#   {}: {:.3}, {by_table:.3}", things(one.threads.into(), "thread"), one.iteration_ms);
    }
    let mix = Mix { name: app.name.clone(), shares: [(app.name.clone(), 1.0)].into(), jobs: JOBS };
    out!("{}", toml::to_string(&File { app: [&app], mix: [mix] })?);
    Ok(Code::OK)
}
