//! The data symbols of a program whose recorder does not know them: the runtime of `--recorder tsan` tells what files
//! are mapped where, and homing reads them when the program has ended.

use crate::frames::demangled;
use homing_linux::proc::maps::Mapping;
use homing_linux::proc::symbols::Table;
use homing_trace::{CodeMapping, Ingest, Symbol};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the runtime's own variables are called that it shares between its files; others have no symbols.
const OF_RUNTIME: &str = "homing_";

/// Adds the data symbols of all files whose code was mapped. A file that cannot be read, or is no ELF file, has none.
pub fn add<W: Write>(ingest: &mut Ingest<W>) {
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
            inode: 0,
            name: file.clone(),
        };
        let symbols = table.at(&[mapping], &file);
        let writer = ingest.writer();
        let object = writer.name(&file);
        for symbol in symbols.iter().filter(|symbol| !symbol.name.starts_with(OF_RUNTIME)) {
            let name = writer.name(demangled(&symbol.name).as_ref().unwrap_or(&symbol.name));
            let size = symbol.end.saturating_sub(symbol.start);
            writer.symbol(Symbol { name, address: symbol.start, size, object });
        }
    }
}

fn read(file: &str) -> Table {
    let path = Path::new(file);
    path.metadata().and_then(|facts| Table::read(path, facts.ino(), 1)).unwrap_or_default()
}
