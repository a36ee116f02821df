//! A journal that cannot fill the disk: when a file has its share of the bytes it becomes `NAME.1`, that becomes
//! `NAME.2`, and so on; the oldest is dropped. Each file begins with the header, so each is a journal of its own.

use crate::files::{make_directory, Target, JOURNAL};
use anyhow::Context;
use homing_linux::lock::Lock;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Files that the bytes are shared by: the one that is written, and older ones.
const FILES: u32 = 4;

/// A journal's files.
pub struct Rotating {
    target: Target,
    /// Bytes after which a file is full.
    full: u64,
    out: BufWriter<File>,
    /// Tells other daemons that the file is being written; where the file system has no locks, nobody sees to that.
    lock: Option<Lock>,
    written: u64,
    /// The first line, whole once `headed`.
    header: Vec<u8>,
    headed: bool,
}

impl Rotating {
    /// Begins a new file; one that is there becomes an older one. All together stay below `size` bytes and a line.
    pub fn open(path: &Path, size: u64) -> anyhow::Result<Rotating> {
        make_directory(path.parent().unwrap_or(Path::new("")))?;
        let target = Target::of(path)?;
        for number in 0..FILES {
            refuse_others(&named(&target, number))?;
        }
        let context = || format!("cannot begin the journal {}", path.display());
        let (file, lock) = begin(&target).with_context(context)?;
        Ok(Rotating {
            target,
            full: size / u64::from(FILES),
            out: BufWriter::new(file),
            lock,
            written: 0,
            header: Vec::new(),
            headed: false,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let (file, lock) = begin(&self.target)?;
        (self.out, self.lock) = (BufWriter::new(file), lock);
        self.out.write_all(&self.header)?;
        self.written = self.header.len() as u64;
        Ok(())
    }
}

/// The file that is written (0) or an older one.
fn named(target: &Target, number: u32) -> Target {
    if number == 0 {
        target.clone()
    } else {
        target.beside("", &format!(".{number}"))
    }
}

/// Fails if a file is no journal, or another daemon is writing it: it would be renamed, and dropped in the end.
fn refuse_others(target: &Target) -> anyhow::Result<()> {
    let Ok(file) = target.open_to_read() else { return Ok(()) };
    let path = target.path();
    let facts = file.metadata()?;
    let mut found = Vec::new();
    if facts.is_file() {
        (&file).take(JOURNAL.len() as u64).read_to_end(&mut found)?;
    }
    if !facts.is_file() || !(found.is_empty() || found == JOURNAL) {
        anyhow::bail!("{} is no journal: move it, or name another directory by `journals`", path.display());
    }
    if matches!(Lock::take(file), Ok(None)) {
        anyhow::bail!(
            "another homing daemon is writing {}: end it, or name another directory by `journals`",
            path.display()
        );
    }
    Ok(())
}

/// Makes room at `path` and creates the file.
fn begin(target: &Target) -> io::Result<(File, Option<Lock>)> {
    for number in (0..FILES - 1).rev() {
        match named(target, number).rename(&named(target, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let file = target.create_new()?;
    let lock = Lock::take(file.try_clone()?).ok().flatten();
    Ok((file, lock))
}

impl Write for Rotating {
    /// Lines come whole, except the header, which comes in pieces.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.headed {
            self.header.extend_from_slice(bytes);
            self.headed = bytes.ends_with(b"\n");
        } else if self.written + bytes.len() as u64 > self.full && self.written > self.header.len() as u64 {
            self.rotate()?;
        }
        self.out.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::action::Kind;
    use homing_core::ids::{Micros, Node};
    use homing_core::machine::{Costs, Uniform};
    use homing_live::journal::{Header, Journal, Line, Writer};
    use homing_session::output::{Output, RecordedOutcome, Settlement};
    use std::fs;
    use std::path::PathBuf;

    fn older(path: &Path, number: u32) -> PathBuf {
        named(&Target::of(path).unwrap(), number).path().to_owned()
    }

    #[test]
    fn files_stay_within_their_bytes_and_each_is_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logs/web.journal");
        let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
        let header = Header::new("work-function", "test", &costs);
        let mut writer = Writer::new(Rotating::open(&path, 16384).unwrap(), &header).unwrap();
        let settled = |page: u32| Settlement {
            t: Micros(1),
            page,
            action: Kind::Move { to: Node(1) },
            outcome: RecordedOutcome::Done,
        };
        (0..1000).for_each(|page| writer.output(&Output::Settled(settled(page))).unwrap());
        writer.flush().unwrap();
        let mut last = Vec::new();
        let mut bytes = 0;
        for number in (0..FILES).rev() {
            let file = older(&path, number);
            bytes += fs::metadata(&file).unwrap().len();
            let journal = Journal::read(io::BufReader::new(File::open(file).unwrap())).unwrap();
            assert_eq!((journal.header.policy.as_str(), journal.cut), ("work-function", false));
            last.extend(journal.lines);
        }
        assert!(bytes <= 16384 + 4 * 600, "{bytes}");
        assert!(!older(&path, FILES).exists());
        let newest: Vec<Line> =
            (1000 - last.len() as u32..1000).map(|page| Line::Result(settled(page))).collect();
        assert_eq!(last, newest, "the newest lines, in order");
        drop(writer);
        drop(Rotating::open(&path, 16384).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().len(), 0, "a new session begins a new file");
    }

    #[test]
    fn neither_another_file_nor_the_journal_of_another_daemon_is_rotated_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.journal");
        let refused = || format!("{:#}", Rotating::open(&path, 16384).map(drop).unwrap_err());
        let first = Rotating::open(&path, 16384).unwrap();
        assert!(refused().contains("another homing daemon is writing"), "{}", refused());
        drop(first);
        for number in 0..FILES {
            fs::write(older(&path, number), "a thesis").unwrap();
            assert!(refused().contains("is no journal"), "{}", refused());
            assert_eq!(fs::read(older(&path, number)).unwrap(), b"a thesis");
            fs::remove_file(older(&path, number)).unwrap();
        }
        assert!(Rotating::open(&path, 16384).is_ok());
    }
}
