//! Files of perf: judged as processes that run are, from their samples.

use crate::exit::{self, Code};
use clap::ValueHint;
use homing_core::report::why::WhyReport;
use homing_pipeline::perf_data::{judge, Asked, Judged};
use std::path::{Path, PathBuf};

/// What is for files of perf alone.
#[derive(clap::Args)]
pub struct PerfArgs {
    /// Of a file of perf: the process to judge, by number or name, or `all` [default: the one with most samples]
    #[arg(long, value_name = "PROCESS", conflicts_with_all = ["pid", "cgroup"])]
    process: Option<String>,
    /// Of a file of perf: a directory with the programs and libraries that were recorded, to name variables
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["pid", "cgroup"], value_hint = ValueHint::DirPath)]
    symfs: Option<PathBuf>,
}

impl PerfArgs {
    /// Whether any of it is given.
    pub fn is_given(&self) -> bool {
        self.process.is_some() || self.symfs.is_some()
    }

    /// The diagnosis of a file; code 5 if something of it could not be read.
    pub fn diagnose(&self, path: &Path, machine: Option<&str>) -> anyhow::Result<(WhyReport, Code)> {
        if let Some(directory) = self.symfs.as_ref().filter(|directory| !directory.is_dir()) {
            let message = format!("--symfs {}: expected a directory", directory.display());
            return Err(exit::error(Code::USAGE, message));
        }
        let asked = Asked {
            path: path.to_owned(),
            machine: machine.map(str::to_owned),
            process: self.process.clone(),
            symfs: self.symfs.clone(),
        };
        let Judged { report, partial } = judge(&asked)?;
        Ok((report, if partial { Code::PARTIAL } else { Code::OK }))
    }
}
