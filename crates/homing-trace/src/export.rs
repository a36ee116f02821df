//! References in the total order as rows, for other tools.

use super::{Trace, TraceError, Turn, Visitor, FRAME_SHIFT};
use crate::ids::{Thread, Time};
use std::ops::Range;

/// A reference as a row of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its place in the total order.
    pub time: Time,
    /// Who made it.
    pub thread: Thread,
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub bytes: u32,
    /// Whether it writes.
    pub write: bool,
}

/// Which references to export, and which addresses.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Their Time.
    pub window: Range<u64>,
    /// Dense addresses (`frame << 12 | offset`) instead of virtual ones.
    pub dense: bool,
}

/// What an export left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows made.
    pub rows: u64,
    /// References of the window that are lost to damage, or whose virtual address is.
    pub lost: u64,
}

/// The header line of a CSV file.
pub const CSV_HEADER: &str = "thread,addr,size,kind\n";

impl Row {
    /// Appends the row as a line of CSV: columns `thread,addr,size,kind`, the address in hexadecimal.
    pub fn csv(&self, out: &mut Vec<u8>) {
        decimal(out, self.thread.0);
        out.extend_from_slice(b",0x");
        let digits = (16 - self.address.leading_zeros() / 4).max(1);
        for digit in (0..digits).rev() {
            out.push(b"0123456789abcdef"[(self.address >> (4 * digit)) as usize & 15]);
        }
        out.push(b',');
        decimal(out, self.bytes);
        out.extend_from_slice(if self.write { b",w\n" } else { b",r\n" });
    }
}

fn decimal(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The numbers of the order blocks that a selection needs.
pub fn blocks_of(trace: &Trace<'_>, selection: &Selection) -> Range<usize> {
    let window = &selection.window;
    let overlaps: Vec<usize> = trace
        .order_blocks()
        .enumerate()
        .filter(|(_, block)| {
            block.first.0 < window.end && block.first.0.saturating_add(block.references) > window.start
        })
        .map(|(number, _)| number)
        .collect();
    match overlaps[..] {
        [first, .., last] => first..last + 1,
        [only] => only..only + 1,
        [] => 0..0,
    }
}

/// Hands the selected references of one order block to `row`, in order.
pub fn rows(
    trace: &Trace<'_>,
    block: usize,
    selection: &Selection,
    row: impl FnMut(Row),
) -> Result<Exported, TraceError> {
    let mut rows = Rows { frames: trace.frames(), selection, row, exported: Exported::default() };
    trace.visit(block..block + 1, &mut rows)?;
    Ok(rows.exported)
}

struct Rows<'a, F> {
    frames: &'a [u64],
    selection: &'a Selection,
    row: F,
    exported: Exported,
}

impl<F: FnMut(Row)> Visitor for Rows<'_, F> {
    fn turn(&mut self, turn: Turn<'_>) {
        let window = &self.selection.window;
        let count = turn.addresses.len() as u64;
        let from = window.start.saturating_sub(turn.first.0).min(count);
        let to = window.end.saturating_sub(turn.first.0).clamp(from, count);
        for i in from..to {
            let (dense, kind) = (turn.addresses[i as usize], turn.kinds[i as usize]);
            let address = match self.frames.get((dense >> FRAME_SHIFT) as usize) {
                _ if self.selection.dense => dense,
                Some(&page) if page != u64::MAX => page << FRAME_SHIFT | dense & ((1 << FRAME_SHIFT) - 1),
                _ => {
                    self.exported.lost += 1;
                    continue;
                }
            };
            self.exported.rows += 1;
            (self.row)(Row {
                time: Time(turn.first.0 + i),
                thread: turn.thread,
                address,
                bytes: kind.bytes(),
                write: kind.is_write(),
            });
        }
    }

    fn lost(&mut self, first: Time, references: u64, _reason: &str) {
        let window = &self.selection.window;
        let end = first.0.saturating_add(references).min(window.end);
        self.exported.lost += end.saturating_sub(first.0.max(window.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines() {
        let mut out = Vec::new();
        for (thread, address, bytes, write) in
            [(0, 0, 1, false), (4_294_967_295, u64::MAX, 64, true), (10, 0x1000, 8, false)]
        {
            Row { time: Time(0), thread: Thread(thread), address, bytes, write }.csv(&mut out);
        }
        let lines = "0,0x0,1,r\n4294967295,0xffffffffffffffff,64,w\n10,0x1000,8,r\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
    }
}
