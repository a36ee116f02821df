//! What ends a trace, and what readers need of it before: tables, the last blocks, the summary.

use super::super::format::{BlockHeader, BlockKind};
use super::super::kind::Kind;
use super::super::summary::Summary;
use super::super::varint::{self, zigzag};
use super::super::TraceError;
use super::TraceWriter;
use std::io::Write;

impl<W: Write> TraceWriter<W> {
    pub(super) fn write_tables(&mut self) -> Result<(), TraceError> {
        let table = |kind, a, b| BlockHeader { kind, stored: 0, raw: 0, a, b, c: 0, d: 0 };
        let pages = self.frames.pages_from(self.frames_written);
        if !pages.is_empty() {
            let mut raw = Vec::new();
            let mut last = 0u64;
            for &page in pages {
                varint::put(&mut raw, zigzag(page.wrapping_sub(last) as i64));
                last = page;
            }
            self.sink.put(table(BlockKind::Frames, self.frames_written, pages.len() as u32), &raw)?;
            self.frames_written = self.frames.len();
        }
        let names = self.names.len() - self.names_written;
        if names > 0 {
            let raw = self.names.encode(self.names_written);
            self.sink.put(table(BlockKind::Names, self.names_written as u32, names as u32), &raw)?;
            self.names_written = self.names.len();
        }
        let symbols = &self.symbols[self.symbols_written..];
        if !symbols.is_empty() {
            let mut raw = Vec::new();
            symbols.iter().for_each(|symbol| symbol.encode(&mut raw));
            self.sink.put(table(BlockKind::Symbols, symbols.len() as u32, 0), &raw)?;
            self.symbols_written = self.symbols.len();
        }
        Ok(())
    }

    pub(super) fn seal_order(&mut self) -> Result<(), TraceError> {
        if let Some((header, raw)) = self.order.seal() {
            self.sink.put(header, &raw)?;
        }
        Ok(())
    }

    /// Writes the blocks in progress of all threads, so that a reader sees everything so far.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        self.end_runs()?;
        self.threads.running_mut().for_each(|writer| writer.encoder.end_idle());
        self.seal_all()?;
        self.write_tables()
    }

    /// Ends the trace: writes what is in progress, the summary and the index. The counts that only the writer knows
    /// (references by kind, threads, frames, events, lost) are filled into `summary`. Returns `W` and the summary.
    pub fn finish(mut self, summary: Summary) -> Result<(W, Summary), TraceError> {
        self.flush()?;
        self.seal_order()?;
        let summary = self.summary(summary);
        let raw = summary.encode(&self.header)?;
        let header = BlockHeader { kind: BlockKind::Summary, stored: 0, raw: 0, a: 0, b: 0, c: 0, d: 0 };
        self.sink.put(header, &raw)?;
        Ok((self.sink.finish()?, summary))
    }

    fn summary(&self, given: Summary) -> Summary {
        let mut summary = Summary {
            references: self.references(),
            threads: self.threads.count(),
            frames: self.frames.len(),
            events: self.counts.events,
            lost: given.lost + self.counts.lost,
            ..given
        };
        let mut by_kind = [0u64; 256];
        self.threads.count_kinds(&mut by_kind);
        for (kind, &count) in (0..=u8::MAX).map(Kind).zip(&by_kind) {
            *(if kind.is_write() { &mut summary.writes } else { &mut summary.reads }) += count;
            summary.atomics += if kind.is_atomic() { count } else { 0 };
            summary.bytes_accessed += count * u64::from(kind.bytes());
        }
        summary
    }
}
