//! Putting the references of a trace in their total order. Recordings leave that to the first reader: a program that is
//! recorded need not wait for it, and a trace that nobody reads never costs it.

use crate::error::{PipelineError, Result, While};
use crate::progress::{Progress, Unit};
use crate::scratch::ScratchFile;
use crate::trace_file::TraceFile;
use homing_linux::causes::with_causes;
use homing_linux::files::{FileError, Output, Over};
use homing_trace::ids::Thread;
use homing_trace::merge::{merge_trace, Options, Report};
use homing_trace::{Header, OrderWriter, Trace, TraceError};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc;

/// References between two looks at the progress bar.
const FEW: u64 = 1 << 20;
const BUFFER: usize = 1 << 20;

/// How a recording is to be ordered, as its header says; what it does not say is as by default.
pub fn options(header: &Header) -> Options {
    let default = Options::default();
    let number = |key: &str| header.more.get(key).and_then(serde_json::Value::as_u64);
    Options {
        seed: number("seed").unwrap_or(default.seed),
        quantum: number("quantum").and_then(|n| u32::try_from(n).ok()).unwrap_or(default.quantum),
        memory: number("order_memory").unwrap_or(default.memory),
    }
}

/// Turns that go to the writing thread together, and how many of these may wait for it.
const BATCH: usize = 1 << 14;
const BATCHES: usize = 16;

/// Writes the trace to `out` with its references in an order by virtual time within the happens-before edges.
///
/// One turn after the other is drawn, each by the clocks that those before it have left. Copying the trace and
/// compressing the turns is done beside that, by a thread of its own.
fn write(
    trace: &Trace<'_>,
    options: Options,
    spill: &mut ScratchFile,
    progress: &Progress,
    out: impl Write + Send,
) -> std::result::Result<Report, TraceError> {
    let bar = progress.begin(trace.references(), Unit::References, "putting references in order");
    let mut unseen = 0;
    std::thread::scope(|scope| {
        let (batches, taken) = mpsc::sync_channel::<Vec<(Thread, u64)>>(BATCHES);
        let writer = scope.spawn(move || -> std::result::Result<(), TraceError> {
            let mut writer = OrderWriter::copy(out, trace)?;
            for (thread, references) in taken.into_iter().flatten() {
                writer.turn(thread, references)?;
            }
            writer.finish()?.0.flush()?;
            Ok(())
        });
        let mut turns = Vec::with_capacity(BATCH);
        // Who does not take them any more has failed, and says why.
        let gone = |_| TraceError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        let drawn = merge_trace(trace, options, Some(spill), |thread, references| {
            unseen += references;
            if unseen > FEW {
                bar.advance(std::mem::take(&mut unseen));
            }
            turns.push((thread, references));
            if turns.len() < BATCH {
                return Ok(());
            }
            batches.send(std::mem::replace(&mut turns, Vec::with_capacity(BATCH))).map_err(gone)
        });
        let drawn = drawn.and_then(|report| batches.send(turns).map_err(gone).map(|()| report));
        drop(batches);
        writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        drawn
    })
}

impl TraceFile {
    /// Maps the file of a trace whose references are read in their order. If that was left to the first reader, they
    /// are put in order now, and the file is replaced by one that has it. Where it cannot be, or is not to be (it or
    /// its directory is another user's, or the name has become another file's), that is said, and the order goes with
    /// this process.
    ///
    /// # Errors
    /// If the file cannot be read, or its order neither kept nor written to a temporary file.
    pub fn ordered(path: &Path, progress: &Progress) -> Result<TraceFile> {
        let file = TraceFile::open(path)?;
        // What is wrong with the trace is told by whoever reads it.
        let Ok(trace) = file.trace() else { return Ok(file) };
        if !trace.awaits_order() {
            return Ok(file);
        }
        let options = options(trace.header());
        let beside = file.order_beside(&trace, options, progress);
        drop(trace);
        file.check()?;
        let (order, report, kept) = match beside {
            Ok(ordered) => ordered,
            Err(why) => return file.order_for_now(options, progress, &why),
        };
        if let Err(why) = kept {
            progress.tell(&not_kept(path, &why));
        }
        let context = || format!("cannot open trace {}", path.display());
        Ok(file.with_order(order).doing(context)?.with_notes(tell(&report, path, progress)))
    }

    /// The file with the order, what it is, and whether it has taken the place of this one. Nobody reads it by its
    /// name, which may be another file's by then.
    fn order_beside(
        &self,
        trace: &Trace<'_>,
        options: Options,
        progress: &Progress,
    ) -> Result<(File, Report, std::result::Result<(), FileError>)> {
        let mut out = Output::instead_of(&self.path, self.file())?;
        let mut spill = ScratchFile::beside(&self.path);
        let doing = || format!("writing the order of {} failed", self.path.display());
        let buffer = BufWriter::with_capacity(BUFFER, &mut out);
        let report = write(trace, options, &mut spill, progress, buffer).doing(doing)?;
        let order = out.share().doing(doing)?;
        Ok((order, report, out.commit()))
    }

    /// With the references in an order that goes with this process. `why` it is not kept.
    fn order_for_now(self, options: Options, progress: &Progress, why: &PipelineError) -> Result<TraceFile> {
        let name = self.path.clone();
        let doing = || {
            let place = std::env::temp_dir();
            format!("cannot put the references of {} in order in {}", name.display(), place.display())
        };
        let mut temporary = tempfile::tempfile().doing(doing)?;
        let mut spill = ScratchFile::temporary();
        let out = BufWriter::with_capacity(BUFFER, &mut temporary);
        let report = write(&self.trace()?, options, &mut spill, progress, out).doing(doing)?;
        progress.tell(&not_kept(&name, why));
        let notes = tell(&report, &name, progress);
        Ok(self.with_order(temporary).doing(doing)?.with_notes(notes))
    }
}

/// Writes the trace in an order to a file, which appears whole or not at all.
///
/// # Errors
/// If the file or the temporary one beside it cannot be written.
pub fn write_file(trace: &Trace<'_>, options: Options, to: &Path, progress: &Progress) -> Result<Report> {
    let mut out = Output::create(to, Over::Traces)?;
    let buffer = BufWriter::with_capacity(BUFFER, &mut out);
    let report = write(trace, options, &mut ScratchFile::beside(to), progress, buffer);
    let report = report.doing(|| format!("writing {} failed, nothing of it was kept", to.display()))?;
    out.commit()?;
    Ok(report)
}

/// Says that an order goes with this process, and why.
fn not_kept(path: &Path, why: &(dyn std::error::Error + 'static)) -> String {
    format!(
        "{}: its references are put in order for this command alone, since that cannot be kept: {}",
        path.display(),
        with_causes(why)
    )
}

/// Tells what memory was too small for, and what the order lacks; returns that, too.
fn tell(report: &Report, path: &Path, progress: &Progress) -> Vec<String> {
    for told in [spilled(report), broken(report)].into_iter().flatten() {
        progress.tell(&format!("{}: {told}", path.display()));
    }
    broken(report).into_iter().collect()
}

/// What is to be said of synchronisation operations for which there was no memory.
pub fn spilled(report: &Report) -> Option<String> {
    let kib = report.spilled.div_ceil(1 << 10);
    let size = if kib < 10_000 { format!("{kib} KiB") } else { format!("{} MiB", kib >> 10) };
    (kib > 0).then(|| {
        format!(
            "{size} of synchronisation operations went through a temporary file while the order was made (--memory)"
        )
    })
}

/// What is to be said of happens-before edges that were broken.
pub fn broken(report: &Report) -> Option<String> {
    let Report { broken_acquires, broken_starts, broken_joins, .. } = report;
    (broken_acquires + broken_starts + broken_joins > 0).then(|| {
        format!(
            "{broken_acquires} acquires, {broken_starts} thread starts and {broken_joins} joins did not wait for what \
             they must follow, because it never came: the trace lacks a part"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_trace::{Kind, Summary, TraceWriter};
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};
    use tempfile::TempDir;

    /// Three threads of unequal speed, which nobody has put in order.
    fn recording(seed: u64) -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.trace");
        let mut header = Header::new("test", "1");
        header.more.insert("seed".into(), seed.into());
        header.more.insert("quantum".into(), 16.into());
        let mut writer = TraceWriter::new(Vec::new(), &header).unwrap();
        for at in 0..3000u32 {
            let thread = Thread(at % 3);
            writer.reference(thread, u64::from(at % 3), 0x1000 + u64::from(at), Kind::write(8)).unwrap();
        }
        std::fs::write(&path, writer.finish(Summary::default()).unwrap().0).unwrap();
        (folder, path)
    }

    fn turns(file: &TraceFile) -> Vec<(Thread, u64)> {
        file.trace().unwrap().order_turns(0).unwrap()
    }

    /// Keeps what is told.
    fn listening() -> (Progress, Arc<Mutex<Vec<String>>>) {
        listening_and(|| ())
    }

    /// The same; `meanwhile` is done while references are put in order.
    fn listening_and(meanwhile: impl Fn() + Send + Sync + 'static) -> (Progress, Arc<Mutex<Vec<String>>>) {
        struct Silent;
        impl crate::progress::Bar for Silent {
            fn advance(&self, _done: u64) {}
            fn restart(&self) {}
        }
        let told = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&told);
        let tell = move |line: &str| lines.lock().unwrap().push(line.to_owned());
        let progress = Progress::new(
            move |_, _, _| {
                meanwhile();
                Box::new(Silent)
            },
            tell,
        );
        (progress, told)
    }

    #[test]
    fn the_first_reader_makes_the_order_of_the_header_and_keeps_it() {
        let (folder, path) = recording(7);
        let (progress, told) = listening();
        let raw = TraceFile::open(&path).unwrap();
        let trace = raw.trace().unwrap();
        assert!(trace.complete() && trace.awaits_order());
        let first = TraceFile::ordered(&path, &progress).unwrap();
        let ordered = first.trace().unwrap();
        assert!(ordered.complete() && ordered.ordered() && !ordered.awaits_order());
        // By hand, in the order that the header asks for.
        let mut by_hand = Vec::new();
        let asked = Options { seed: 7, quantum: 16, ..Options::default() };
        let sink = |thread, references| {
            by_hand.push((thread, references));
            Ok::<_, TraceError>(())
        };
        merge_trace(&trace, asked, None, sink).unwrap();
        assert!(by_hand.len() > 100);
        assert_eq!(turns(&first), by_hand);
        // It is there for the next one, and nothing else is.
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(first.bytes(), kept);
        assert_eq!(TraceFile::ordered(&path, &progress).unwrap().bytes(), kept);
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        assert!(told.lock().unwrap().is_empty(), "{told:?}");
        // Who had opened it before still reads what was there.
        assert!(raw.trace().unwrap().awaits_order());
        let other = recording(8);
        assert_ne!(turns(&TraceFile::ordered(&other.1, &progress).unwrap()), by_hand, "another seed");
    }

    #[test]
    fn where_the_order_cannot_be_kept_it_is_made_for_this_reader() {
        let (_folder, path) = recording(7);
        let (progress, told) = listening();
        let before = std::fs::read(&path).unwrap();
        let why = PipelineError::Failed("no room".into());
        let asked = options(TraceFile::open(&path).unwrap().trace().unwrap().header());
        let file = TraceFile::open(&path).unwrap().order_for_now(asked, &progress, &why).unwrap();
        assert!(file.trace().unwrap().complete() && file.trace().unwrap().ordered());
        assert_eq!(std::fs::read(&path).unwrap(), before);
        let told = told.lock().unwrap().join("\n");
        assert!(told.contains("a.trace") && told.ends_with("no room"), "{told}");
        assert_eq!(turns(&file), turns(&TraceFile::ordered(&path, &progress).unwrap()));
    }

    #[test]
    fn a_recording_that_takes_the_name_meanwhile_keeps_it() {
        let ((folder, path), (newer_folder, newer)) = (recording(7), recording(8));
        let by_hand = turns(&TraceFile::ordered(&recording(7).1, &listening().0).unwrap());
        let bytes = std::fs::read(&newer).unwrap();
        let to = path.clone();
        let (progress, told) = listening_and(move || std::fs::rename(&newer, &to).unwrap());
        let first = TraceFile::ordered(&path, &progress).unwrap();
        assert_eq!(turns(&first), by_hand, "what was opened is what is read");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        let told = told.lock().unwrap().join("\n");
        assert!(told.contains("another file has taken the name"), "{told}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        drop(newer_folder);
    }

    #[test]
    fn another_users_trace_is_read_and_left_alone() {
        let (folder, path) = recording(7);
        let before = std::fs::read(&path).unwrap();
        for place in [path.as_path(), folder.path()] {
            if std::os::unix::fs::chown(place, Some(65534), None).is_err() {
                eprintln!("SKIPPED: a test of other users' traces: only root gives files away");
                return;
            }
            let (progress, told) = listening();
            assert!(TraceFile::ordered(&path, &progress).unwrap().trace().unwrap().ordered());
            let told = told.lock().unwrap().join("\n");
            assert!(told.contains("for this command alone") && told.contains("another user"), "{told}");
            assert_eq!(std::fs::read(&path).unwrap(), before);
            assert_eq!(folder.path().read_dir().unwrap().count(), 1);
            std::os::unix::fs::chown(place, Some(0), None).unwrap();
        }
    }

    #[test]
    fn readers_at_the_same_time_find_the_same_order() {
        let (folder, path) = recording(7);
        let (progress, _) = listening();
        let files: Vec<TraceFile> = std::thread::scope(|scope| {
            let readers: Vec<_> =
                (0..8).map(|_| scope.spawn(|| TraceFile::ordered(&path, &progress).unwrap())).collect();
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        assert!(files.iter().all(|file| file.bytes() == files[0].bytes()));
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }
}
