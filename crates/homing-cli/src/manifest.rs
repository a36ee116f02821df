//! The manifest of a result: which trace, which program, which parameters gave it (docs/report-schema.md). JSON results
//! carry it; beside any other file it lies as `FILE.manifest.json`.

use homing_core::report::{MachineInfo, Parameter, TraceInfo, SCHEMA};
use serde::Serialize;
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
    pub fn write_beside(&self, path: &Path) -> anyhow::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".manifest.json");
        let name = PathBuf::from(name);
        let text = serde_json::to_string_pretty(self)?;
        crate::files::write(&name, text + "\n")
    }
}
