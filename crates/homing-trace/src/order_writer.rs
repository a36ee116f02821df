//! Gives a trace another total order: completes a recording, or transforms a finished trace.

use super::format::{BlockHeader, BlockKind, BlockSink, Header};
use super::order::OrderEncoder;
use super::reader::Trace;
use super::summary::Summary;
use super::TraceError;
use crate::ids::Thread;
use std::io::Write;

/// Writes a new total order behind the blocks of a trace.
pub struct OrderWriter<W: Write> {
    sink: BlockSink<W>,
    order: OrderEncoder,
    summary: Summary,
    header: Header,
}

impl<W: Write> OrderWriter<W> {
    /// Appends to the file of `trace` itself: `out` stands at [`Trace::blocks_end`]; the file is to end where writing
    /// ends. An older order stays behind in the file as unused bytes.
    pub fn append(out: W, trace: &Trace<'_>) -> Result<Self, TraceError> {
        let index = trace
            .blocks
            .iter()
            .filter(|p| !matches!(p.header.kind, BlockKind::Order | BlockKind::Summary))
            .copied()
            .collect();
        Ok(OrderWriter::new(BlockSink::new(out, trace.blocks_end(), index)?, trace))
    }

    /// Begins a new file at `out` with the header and all blocks of `trace` except its order. Damaged blocks are copied
    /// as they are, so that their references stay counted as lost.
    pub fn copy(out: W, trace: &Trace<'_>) -> Result<Self, TraceError> {
        let mut sink = BlockSink::new(out, 0, Vec::new())?;
        sink.put_bytes(&trace.header().encode()?)?;
        for placed in &trace.blocks {
            if !matches!(placed.header.kind, BlockKind::Order | BlockKind::Summary) {
                let from = placed.offset as usize;
                let to = from.saturating_add(placed.header.length() as usize).min(trace.bytes.len());
                sink.copy_block(placed.header, trace.bytes.get(from..to).unwrap_or(&[]))?;
            }
        }
        Ok(OrderWriter::new(sink, trace))
    }

    fn new(sink: BlockSink<W>, trace: &Trace<'_>) -> Self {
        let (summary, header) = (trace.summary(), trace.header().clone());
        OrderWriter { sink, order: OrderEncoder::default(), summary, header }
    }

    /// The next `references` references are of `thread`.
    pub fn turn(&mut self, thread: Thread, references: u64) -> Result<(), TraceError> {
        let mut left = references;
        while left > 0 {
            left = self.order.push(thread, left);
            if self.order.is_full() {
                self.seal()?;
            }
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), TraceError> {
        if let Some((header, raw)) = self.order.seal() {
            self.sink.put(header, &raw)?;
        }
        Ok(())
    }

    /// References in all turns so far.
    pub fn references(&self) -> u64 {
        self.order.total()
    }

    /// The summary that will be written; may be changed.
    pub fn summary_mut(&mut self) -> &mut Summary {
        &mut self.summary
    }

    /// Writes the summary and the index.
    pub fn finish(mut self) -> Result<(W, Summary), TraceError> {
        self.seal()?;
        let raw = self.summary.encode(&self.header)?;
        let header = BlockHeader { kind: BlockKind::Summary, stored: 0, raw: 0, a: 0, b: 0, c: 0, d: 0 };
        self.sink.put(header, &raw)?;
        Ok((self.sink.finish()?, self.summary))
    }
}
