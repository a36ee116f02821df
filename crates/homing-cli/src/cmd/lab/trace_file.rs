//! A trace of all that the observer saw: words that come through a pipe (lab/plugin/trace.c), written as a trace with
//! their order. The threads of the trace are the machine's CPUs.

use crate::files::{self, writing, Over, Part};
use anyhow::{anyhow, bail, Context};
use homing_core::ids::Thread;
use homing_core::trace::{Header, Kind, Summary, TraceError, TraceWriter};
use homing_lab::session::TraceSink;
use homing_lab::topology::Topology;
use homing_lab::LabError;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// A trace that a run of the lab writes.
pub struct TraceFile {
    path: PathBuf,
    writing: Option<Writing>,
}

/// A trace being written.
struct Writing {
    output: Part,
    writer: JoinHandle<Result<u64, TraceError>>,
}

impl TraceFile {
    /// A trace that will be in `path`.
    pub fn new(path: &Path) -> TraceFile {
        TraceFile { path: path.to_owned(), writing: None }
    }

    /// The number of references, once all is written and the file has its name.
    pub fn finish(self) -> anyhow::Result<u64> {
        let Some(Writing { output, writer }) = self.writing else { bail!("no trace was begun") };
        let written = writer.join().map_err(|_| anyhow!("the writer of the trace panicked"))?;
        match written.with_context(|| writing(&self.path)) {
            Ok(references) => Ok(output.complete().map(|_| references)?),
            Err(error) => {
                output.discard();
                Err(error)
            }
        }
    }
}

impl TraceSink for TraceFile {
    fn begin(&mut self, topology: &Topology, command: &[OsString]) -> Result<OwnedFd, LabError> {
        if let Some(Writing { output, writer }) = self.writing.take() {
            // What went wrong with it is of no interest any more.
            let _ = writer.join();
            output.discard();
        }
        let doing = "cannot make a pipe for the trace";
        let (reader, pipe) = std::io::pipe().map_err(LabError::io(doing))?;
        let mut header = Header::new("lab", env!("CARGO_PKG_VERSION"));
        header.command = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        header.more.insert("topology".into(), topology.name.clone().into());
        let cpus = cpus(topology);
        files::tell_left_behind(&self.path);
        let (output, mut trace) =
            Part::create(&self.path, Over::Traces).map_err(LabError::file("cannot begin the trace"))?;
        let file = File::from(OwnedFd::from(reader));
        let writer = std::thread::spawn(move || write(file, &mut trace, &header, &cpus));
        self.writing = Some(Writing { output, writer });
        Ok(pipe.into())
    }
}

/// The CPU in each of QEMU's slots.
fn cpus(topology: &Topology) -> Vec<u32> {
    let mut next = 0..;
    topology.cpu_slots().iter().map(|slot| slot.and_then(|_| next.next()).unwrap_or(u32::MAX)).collect()
}

fn write(input: File, output: &mut File, header: &Header, cpus: &[u32]) -> Result<u64, TraceError> {
    let mut input = BufReader::with_capacity(1 << 18, input);
    let mut writer = TraceWriter::new(BufWriter::new(output), header)?;
    let (mut word, mut references) = ([0; 8], 0);
    // The end of the machine may cut the last word.
    while input.read_exact(&mut word).is_ok() {
        let word = u64::from_le_bytes(word);
        let thread = Thread(cpus.get((word >> 8) as usize & 0xff).copied().unwrap_or(u32::MAX));
        // The upper 16 bits of an address repeat bit 47.
        let address = ((word as i64) >> 16) as u64;
        writer.reference(thread, 0, address, Kind::new(1 << (word >> 2 & 7), word & 2 != 0, false))?;
        writer.turn(thread, 1)?;
        references += 1;
    }
    let (mut out, _) = writer.finish(Summary::default())?;
    std::io::Write::flush(&mut out)?;
    Ok(references)
}
