//! How the programs of jobs are started: what is loaded into them, and what their environment says.

use crate::cmd::live::runtime::{give_libraries, GOMP};
use crate::exit::{self, Code};
use anyhow::Context;
use homing_linux::hint_faults::preload;
use homing_linux::{libraries, program};
use homing_live::inside::LIBRARY;
use homing_sched::jobs::Job;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Names of OpenMP's runtimes: GNU's, LLVM's, Intel's.
const RUNTIMES: [&str; 3] = ["libgomp.so", "libomp.so", "libiomp5.so"];
/// How many threads OpenMP programs have.
const THREADS_ENV: &str = "OMP_NUM_THREADS";

/// What is loaded into jobs.
pub struct Launcher {
    /// libhoming and what reports regions of GNU's OpenMP; or why there is none.
    inside: Result<(PathBuf, PathBuf), String>,
    programs: Vec<PathBuf>,
}

impl Launcher {
    /// Finds the programs of all jobs, before any of them is started.
    pub fn new(jobs: &[Job]) -> anyhow::Result<Launcher> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |job: &Job| {
            program::find(OsStr::new(&job.command[0]), &path)
                .map_err(|error| exit::error(Code::USAGE, format!("job `{}`: {error}", job.name)))
        };
        let programs = jobs.iter().map(found).collect::<anyhow::Result<_>>()?;
        let inside = libraries::find(LIBRARY).and_then(|engine| Ok((engine, libraries::find(GOMP)?)));
        let inside = inside.map_err(|missing| missing.to_string());
        if let (Err(missing), true) = (&inside, jobs.iter().any(|job| job.malleable != Some(false))) {
            errln!("homing: no job's threads follow its processors, and nothing is measured: {missing}");
        }
        Ok(Launcher { inside, programs })
    }

    /// Whether the number of a job's threads is expected to follow its processors.
    pub fn malleable(&self, index: usize, job: &Job) -> bool {
        let openmp = || program::needs(&self.programs[index], &RUNTIMES);
        self.inside.is_ok() && job.malleable.unwrap_or_else(openmp)
    }

    /// The command of a job. `scans`: pages are sampled by hint faults.
    pub fn command(&self, index: usize, job: &Job, scans: bool) -> anyhow::Result<Command> {
        let mut command = Command::new(&self.programs[index]);
        command.args(&job.command[1..]).envs(&job.env).stdin(Stdio::null());
        if std::env::var_os(THREADS_ENV).is_none() && !job.env.contains_key(THREADS_ENV) {
            command.env(THREADS_ENV, job.request.to_string());
        }
        if let (Ok((engine, gomp)), true) = (&self.inside, job.malleable != Some(false)) {
            give_libraries(&mut command, engine, gomp)?;
        }
        if scans {
            give_helper(&mut command);
        }
        match &job.output {
            Some(path) => {
                let file =
                    OpenOptions::new().create(true).append(true).open(path).with_context(|| path.clone())?;
                command.stdout(file.try_clone()?).stderr(file);
            }
            // Standard output is for results.
            None => {
                command.stdout(std::io::stderr().as_fd().try_clone_to_owned()?);
            }
        }
        Ok(command)
    }
}

/// The scanning helper of hint faults, beside what is loaded already.
fn give_helper(command: &mut Command) {
    let Ok(library) = libraries::find(preload::LIBRARY) else { return };
    let now: Vec<(OsString, Option<OsString>)> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(OsStr::to_owned))).collect();
    let inherited = |name: &str| match now.iter().find(|(known, _)| known == name) {
        Some((_, value)) => value.clone(),
        None => std::env::var_os(name),
    };
    command.envs(preload::environment(&library, inherited).into_iter().flatten());
}

/// A process that waits for the end of this one, however that comes, and then lets jobs go on
/// ([`super::super::guard`]). Without one that is done by the next scheduler.
pub fn guard(journal: &str) -> Option<Guard> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.args(["sched", "guard", journal]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
    match command.spawn() {
        Ok(child) => Some(Guard(child)),
        Err(error) => {
            errln!(
                "homing: if this process is killed, jobs stay as they are until the next `homing sched run`: {error}"
            );
            None
        }
    }
}

/// The guard. Dropping it waits for its end.
pub struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends when it reads that nothing comes any more.
        let _ = self.0.wait();
    }
}
