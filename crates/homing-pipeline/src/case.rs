//! One trace of an experiment: opened, laid over the machine, and what all its results begin and end with.

use crate::error::Result;
use crate::experiment::Ready;
use crate::info;
use crate::layout::Layout;
use crate::manifest::Manifest;
use crate::trace_file::TraceFile;
use homing_core::compare::{Bound, Subject};
use homing_core::report::{Parameter, TraceInfo};
use homing_core::sharing;
use homing_trace::Trace;
use std::path::PathBuf;

/// One trace of an experiment.
pub struct Case<'a> {
    /// The experiment.
    pub ready: &'a Ready,
    /// The file.
    pub file: &'a TraceFile,
    /// The trace in it.
    pub trace: Trace<'a>,
    /// The trace laid over the machine, at the first page size.
    pub layout: Layout,
}

impl<'a> Case<'a> {
    /// As [`Ready::case`], with errors that do not say of which trace they are.
    pub(crate) fn new(ready: &'a Ready, file: &'a TraceFile, read_gap: Option<u32>) -> Result<Case<'a>> {
        let trace = file.trace()?;
        let layout = ready.lay_out(&trace, ready.page_size, read_gap);
        file.check()?;
        Ok(Case { ready, file, trace, layout: layout? })
    }

    /// What bounds and policies are asked about.
    pub fn subject(&self) -> Subject<'_> {
        self.ready.subject(&self.layout)
    }

    /// What policies are measured against.
    pub fn bound(&self) -> Result<Bound> {
        Ok(Bound::new(&self.subject(), &sharing::classify(&self.layout.history)?)?)
    }

    /// What reports say about the trace.
    pub fn trace_info(&self) -> TraceInfo {
        info::trace_info(self.file, &self.trace, &self.layout)
    }

    /// Writes the manifest beside each of these results.
    pub fn write_manifests<'p>(
        &self,
        paths: impl IntoIterator<Item = &'p PathBuf>,
        parameters: &[Parameter],
    ) -> Result<()> {
        let (machine, trace) = (self.ready.machine_info(), self.trace_info());
        let manifest = Manifest::new(&machine, parameters, vec![&trace]);
        paths.into_iter().try_for_each(|path| manifest.write_beside(path))
    }
}
