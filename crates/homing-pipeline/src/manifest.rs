//! The manifest of a result: which trace, which program, which parameters gave it (docs/report-schema.md). JSON results
//! carry it; beside any other file it lies as `FILE.manifest.json`.

use crate::error::{PipelineError, Result, While};
use homing_core::report::{MachineInfo, Parameter, TraceInfo, SCHEMA};
use homing_linux::files::{self, is_written_through, Over};
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The program that made a result.
pub const GENERATOR: &str = concat!("homing ", env!("CARGO_PKG_VERSION"));

/// What a result was made of.
#[derive(Serialize)]
pub struct Manifest<'a> {
    schema: u32,
    generator: &'static str,
    machine: &'a MachineInfo,
    parameters: &'a [Parameter],
    traces: Vec<&'a TraceInfo>,
}

impl<'a> Manifest<'a> {
    /// The manifest of results from these traces.
    pub fn new(machine: &'a MachineInfo, parameters: &'a [Parameter], traces: Vec<&'a TraceInfo>) -> Self {
        Manifest { schema: SCHEMA, generator: GENERATOR, machine, parameters, traces }
    }

    /// Writes it beside the result in `path`.
    pub fn write_beside(&self, path: &Path) -> Result<()> {
        let Some(name) = beside(path) else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).doing(|| format!("cannot write {}", name.display()))?;
        Ok(files::write(&name, Over::Json, text + "\n")?)
    }
}

/// The name of the manifest of the result in `path`; a pipe or a device has none.
pub fn beside(path: &Path) -> Option<PathBuf> {
    let mut name = path.as_os_str().to_owned();
    name.push(".manifest.json");
    (!is_written_through(path)).then(|| name.into())
}

/// Fails if a file is there that homing did not write: nobody asked for it to be replaced.
pub fn refuse_others(path: &Path) -> Result<()> {
    let Some(bytes) = path.is_file().then(|| std::fs::read(path).ok()).flatten() else { return Ok(()) };
    let manifest: Option<Value> = serde_json::from_slice(&bytes).ok();
    let generator = manifest.as_ref().and_then(|manifest| manifest["generator"].as_str());
    if bytes.is_empty() || generator.is_some_and(|generator| generator.starts_with("homing ")) {
        return Ok(());
    }
    let message = format!(
        "{} exists and is no manifest that homing wrote, which would replace it: move it, \
         or choose another name for the result",
        path.display()
    );
    Err(PipelineError::Usage(message))
}
