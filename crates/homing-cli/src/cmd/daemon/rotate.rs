//! A journal that cannot fill the disk: when a file has its share of the bytes it becomes `NAME.1`, that becomes `NAME.2`, and
//! so on; the oldest is dropped. Each file begins with the header, so each is a journal of its own.

use anyhow::Context;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Files that the bytes are shared by: the one that is written, and older ones.
const FILES: u32 = 4;

/// A journal's files.
pub struct Rotating {
    path: PathBuf,
    /// Bytes after which a file is full.
    full: u64,
    out: BufWriter<File>,
    written: u64,
    /// The first line, whole once `headed`.
    header: Vec<u8>,
    headed: bool,
}

impl Rotating {
    /// Begins a new file; one that is there becomes an older one. All together stay below `size` bytes and a line.
    pub fn open(path: &Path, size: u64) -> anyhow::Result<Rotating> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let file = begin(path).with_context(|| format!("cannot begin the journal {}", path.display()))?;
        Ok(Rotating {
            path: path.to_owned(),
            full: size / u64::from(FILES),
            out: BufWriter::new(file),
            written: 0,
            header: Vec::new(),
            headed: false,
        })
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out = BufWriter::new(begin(&self.path)?);
        self.out.write_all(&self.header)?;
        self.written = self.header.len() as u64;
        Ok(())
    }
}

fn older(path: &Path, number: u32) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

/// Makes room at `path` and creates the file.
fn begin(path: &Path) -> io::Result<File> {
    for number in (0..FILES - 1).rev() {
        let from = if number == 0 { path.to_owned() } else { older(path, number) };
        match fs::rename(&from, older(path, number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    File::create(path)
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
    use homing_core::session::output::{Output, RecordedOutcome, Settlement};
    use homing_live::journal::{Header, Journal, Line, Writer};

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
            let file = if number == 0 { path.clone() } else { older(&path, number) };
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
}
