//! The data symbols of a program that its recorder does not know. It tells what files are mapped where, and homing
//! reads them when the program has ended: all for `--recorder tsan`; of the others those in sections that Valgrind
//! passes over (most of Go's).

use crate::frames::demangled;
use homing_linux::proc::maps::Mapping;
use homing_linux::proc::symbols::{self, Identity, Table};
use homing_trace::{CodeMapping, Ingest, NameId, Symbol};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the runtime's own variables are called that it shares between its files; others have no symbols.
const OF_RUNTIME: &str = "homing_";

/// Adds the data symbols of all files whose code was mapped, where the recorder has sent none. A file that cannot be
/// read, or is no ELF file, has none.
pub fn add<W: Write>(ingest: &mut Ingest<W>) {
    let known = Known::new(ingest.writer().symbols());
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for CodeMapping { file, address, length, offset } in ingest.code_mappings() {
        let table = tables.entry(file.clone()).or_insert_with(|| read(&file));
        let mapping = Mapping {
            start: address,
            end: address.saturating_add(length),
            read: true,
            write: false,
            execute: true,
            shared: false,
            offset,
            device: 0,
            inode: 0,
            name: file.clone(),
        };
        let symbols = table.at(&[mapping], &file);
        let writer = ingest.writer();
        let object = writer.name(&file);
        let new = |symbol: &&symbols::Symbol| {
            !symbol.name.starts_with(OF_RUNTIME) && !known.meets(symbol.start, symbol.end)
        };
        for symbol in symbols.iter().filter(new) {
            let name = writer.name(demangled(&symbol.name).as_ref().unwrap_or(&symbol.name));
            if known.named.contains(&(object, name)) {
                continue;
            }
            let size = symbol.end.saturating_sub(symbol.start);
            writer.symbol(Symbol { name, address: symbol.start, size, object });
        }
    }
}

/// Where the recorder's own symbols are.
struct Known {
    /// Start and end, by start; none meets another.
    ranges: Vec<(u64, u64)>,
    /// File and name: a library that was loaded at several places has its variables at each.
    named: BTreeSet<(NameId, NameId)>,
}

impl Known {
    fn new(symbols: &[Symbol]) -> Known {
        let range = |symbol: &Symbol| (symbol.address, symbol.address.saturating_add(symbol.size));
        let mut all: Vec<(u64, u64)> = symbols.iter().map(range).collect();
        all.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, end) in all {
            match ranges.last_mut().filter(|last| start <= last.1) {
                Some(last) => last.1 = last.1.max(end),
                None => ranges.push((start, end)),
            }
        }
        let named = symbols.iter().map(|symbol| (symbol.object, symbol.name)).collect();
        Known { ranges, named }
    }

    fn meets(&self, start: u64, end: u64) -> bool {
        let next = self.ranges.partition_point(|&(_, known_end)| known_end <= start);
        self.ranges.get(next).is_some_and(|&(known_start, _)| known_start < end)
    }
}

fn read(file: &str) -> Table {
    let path = Path::new(file);
    path.metadata().and_then(|facts| Table::read(path, Identity::Inode(facts.ino()), 1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_recorder_knows_is_not_named_again() {
        let symbol = |(address, size)| Symbol { name: NameId(1), address, size, object: NameId(2) };
        let known = Known::new(&[(0x300, 0x10), (0x100, 0x20), (0x110, 0x20)].map(symbol));
        for (start, end, meets) in [
            (0x00, 0x100, false),
            (0x00, 0x101, true),
            (0x12f, 0x130, true),
            (0x130, 0x300, false),
            (0x30f, 0x400, true),
            (0x310, 0x400, false),
        ] {
            assert_eq!(known.meets(start, end), meets, "{start:x}..{end:x}");
        }
    }
}
