//! A simulated live session: its log, and what is shown of it.

use super::Args;
use crate::exit::{self, Code};
use crate::files::{JournalFile, Over};
use anyhow::Context as _;
use homing_core::ids::Micros;
use homing_core::machine::Costs;
use homing_core::monitor::table::{Build, Choice};
use homing_core::policy::table::Entry;
use homing_core::policy::Context;
use homing_live::journal::{Header, Writer};
use homing_session::simulated::{Charges, Live, Log, Point};
use homing_session::{Input, Output, Settings};
use serde_json::{json, Value};
use std::io;

/// The log of `--tee`, which `homing replay --check` reads.
pub struct SessionLog {
    file: Option<JournalFile>,
    header: Header,
    writer: Option<Writer<JournalFile>>,
    written: io::Result<()>,
}

impl SessionLog {
    /// Begins it, if there is to be one.
    pub fn begin(args: &Args, choice: &Choice, costs: &Costs, entry: &Entry) -> anyhow::Result<SessionLog> {
        let tee = args.monitor.tee.as_ref();
        let is_session = matches!(choice.entry.build, Build::Session);
        if is_session && args.monitor.interval.is_some() {
            let message =
                "--interval counts references, and the live session has intervals of 100 ms: leave it out, \
                           or choose the scanner at a fixed rate, hint-faults:every=N";
            return Err(exit::error(Code::USAGE, message));
        }
        if tee.is_some() && !is_session {
            let message =
                "--tee logs a simulated live session: expected --monitor hint-faults without every and window";
            return Err(exit::error(Code::USAGE, message));
        }
        let mut header = Header::new(entry.name, choice.entry.name, costs);
        header.command = format!("homing simulate {}", args.trace.display());
        header.nodes = (0..u32::from(costs.memories())).collect();
        let of_policy = format!("{}.", entry.name);
        header.set = args.model.set.iter().filter(|set| set.starts_with(&of_policy)).cloned().collect();
        header.teed = true;
        let file = tee.map(|path| JournalFile::create(path, Over::Journals)).transpose()?;
        Ok(SessionLog { file, header, writer: None, written: Ok(()) })
    }

    /// The rest is written.
    pub fn finish(mut self) -> anyhow::Result<()> {
        if let Some(writer) = &mut self.writer {
            self.written = self.written.and_then(|()| writer.flush());
        }
        self.written.context("the log of --tee could not be written")
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer<JournalFile>) -> io::Result<()>) {
        if let (Some(writer), Ok(())) = (&mut self.writer, &self.written) {
            self.written = write(writer);
        }
    }
}

impl Log for SessionLog {
    fn begin(&mut self, settings: &Settings, context: &Context) {
        let Some(file) = self.file.take() else { return };
        (self.header.settings, self.header.context) = (Some(settings.clone()), context.clone());
        match Writer::new(file, &self.header) {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.written = Err(error),
        }
    }

    fn input(&mut self, t: Micros, input: &Input) {
        self.write(|writer| writer.input(t, input));
    }

    fn output(&mut self, output: &Output) {
        self.write(|writer| writer.output(output));
    }
}

/// The session's own counts.
pub fn as_json(live: &Live) -> Value {
    let account = &live.account;
    json!({
        "seconds": seconds(live),
        "scans": live.scans,
        "stopped_seconds": live.stopped.seconds(),
        "hint_faults": live.hint_faults,
        "faults_before": live.faults_before,
        "seen": account.total.local + account.total.remote,
        "seen_nonlocal_percent": account.total.nonlocal_percent(),
        "moved": account.total.moved,
        "forwarded": account.forwarded,
        "threads_moved": account.threads_moved,
        "refused": account.refused,
        "failed": account.total.failed,
        "unmapped": account.unmapped,
        "left_waiting": live.left_waiting,
        "moving_seconds": account.moving.seconds(),
        "charges": live.charges,
        "delay_seconds": live.delay_ns / 1e9,
        "curve": live.curve,
    })
}

fn seconds(live: &Live) -> f64 {
    live.curve.last().map_or(0.0, |point| point.ms as f64 / 1000.0)
}

/// Stretches of the run for which a non-local % is shown.
const SHOWN: usize = 12;

/// Shows them.
pub fn print(live: &Live) -> anyhow::Result<()> {
    let account = &live.account;
    let refused: u64 = account.refused.values().sum();
    outln!(
        "session: {:.1} s, {} scans ({:.2} s of standing still), {} hint faults; {} moved, of which {} were ordered \
         after their threads, {refused} refused, {} failed, {} left waiting",
        seconds(live),
        live.scans,
        live.stopped.seconds(),
        live.hint_faults,
        account.total.moved,
        account.forwarded,
        account.total.failed,
        live.left_waiting
    );
    if live.scans < 2 {
        outln!(
            "  the trace is over before the session has learnt anything: `hint-faults:slow=N` takes each modelled \
             nanosecond for N"
        );
    }
    let Charges { holds_ns, faults_ns, moves_ns, shootdowns_ns, scans_ns, process_scans_ns, engine_ns } =
        live.charges;
    outln!(
        "charged (modelled): all threads held {:.0} ms; CPU time: hint faults {:.0} ms, page moves {:.0} ms, \
         shoot-downs {:.0} ms, scans {:.0} ms, process scans {:.0} ms, engine {:.0} ms; the program is {:.0} ms \
         slower for it ({:.2} %)",
        holds_ns / 1e6,
        faults_ns / 1e6,
        moves_ns / 1e6,
        shootdowns_ns / 1e6,
        scans_ns / 1e6,
        process_scans_ns / 1e6,
        engine_ns / 1e6,
        live.delay_ns / 1e6,
        100.0 * live.delay_ns / (seconds(live) * 1e9 - live.delay_ns).max(1.0)
    );
    let parts = live.curve.chunks(live.curve.len().div_ceil(SHOWN).max(1)).map(share);
    outln!("non-local % of misses over time: {}", parts.collect::<Vec<_>>().join(" "));
    Ok(())
}

/// The non-local % of some intervals.
fn share(points: &[Point]) -> String {
    let misses: u64 = points.iter().map(|point| point.misses).sum();
    let percent = |point: &Point| point.nonlocal_percent.unwrap_or(0.0) * point.misses as f64;
    match misses {
        0 => "-".into(),
        _ => format!("{:.1}", points.iter().map(percent).sum::<f64>() / misses as f64),
    }
}
