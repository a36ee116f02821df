//! Static data by name: the data symbols of the ELF files that a process maps; and the names of functions.

use super::maps::Mapping;
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Static data of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name, as the linker knows it.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
}

/// Which file is meant: another one at the same path has other symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity<'a> {
    /// The one with this inode.
    Inode(u64),
    /// The one with this build-id (the linker's note; `file` shows it).
    BuildId(&'a [u8]),
}

/// The data symbols of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Offset in the file, length there and address of each part that is loaded.
    segments: Vec<(u64, u64, u64)>,
    /// By address in the file's terms; none lies within another.
    symbols: Vec<Symbol>,
}

impl Table {
    /// Reads those of at least `least` bytes.
    ///
    /// # Errors
    /// If the file cannot be read, is not the one mapped, or is no ELF file.
    pub fn read(path: &Path, identity: Identity<'_>, least: u64) -> io::Result<Table> {
        let invalid = |e: object::Error| io::Error::new(io::ErrorKind::InvalidData, e);
        let other = || io::Error::from(io::ErrorKind::NotFound);
        // A pipe would wait for its writer.
        if !path.metadata()?.is_file() {
            return Err(other());
        }
        let file = File::open(path)?;
        if matches!(identity, Identity::Inode(inode) if file.metadata()?.ino() != inode) {
            return Err(other());
        }
        let cache = ReadCache::new(file);
        let file = object::File::parse(&cache).map_err(invalid)?;
        if let Identity::BuildId(id) = identity {
            let own = file.build_id().map_err(invalid)?;
            own.filter(|own| *own == id).ok_or_else(other)?;
        }
        let segments = file.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        let mut symbols = Vec::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let end = symbol.address().checked_add(symbol.size());
            if let (SymbolKind::Data, Some(end), Ok(name)) = (symbol.kind(), end, symbol.name()) {
                if symbol.size() >= least && symbol.is_definition() {
                    symbols.push(Symbol { name: name.to_owned(), start: symbol.address(), end });
                }
            }
        }
        // Of several names for the same data the largest stays, and of those the shortest.
        symbols.sort_by(|a, b| {
            (a.start, b.end, a.name.len(), &a.name).cmp(&(b.start, a.end, b.name.len(), &b.name))
        });
        let mut end = 0;
        symbols.retain(|symbol| {
            let apart = symbol.start >= end;
            end = end.max(symbol.end);
            apart
        });
        Ok(Table { segments: segments.collect(), symbols })
    }

    /// The symbols, by address in the file's own terms; none lies within another.
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// The symbols where a process has the file: `maps` are its mappings, `name` the file's in them.
    pub fn at(&self, maps: &[Mapping], name: &str) -> Vec<Symbol> {
        let bias = maps.iter().filter(|mapping| mapping.name == name).find_map(|mapping| {
            // The kernel maps whole pages, so that a mapping may begin before its segment.
            let begins = |&&(offset, length, _): &&(u64, u64, u64)| {
                length > 0
                    && offset & !0xfff <= mapping.offset
                    && mapping.offset < offset.saturating_add(length)
            };
            let (offset, _, address) = self.segments.iter().find(begins)?;
            Some(mapping.start.wrapping_sub(address.wrapping_add(mapping.offset).wrapping_sub(*offset)))
        });
        let Some(bias) = bias else { return Vec::new() };
        let there = |symbol: &Symbol| Symbol {
            start: symbol.start.wrapping_add(bias),
            end: symbol.end.wrapping_add(bias),
            ..symbol.clone()
        };
        self.symbols.iter().map(there).collect()
    }
}

/// The names of the functions that an ELF file defines, as the linker knows them.
///
/// # Errors
/// If the file cannot be read, or is no ELF file.
pub fn functions(path: &Path) -> io::Result<BTreeSet<String>> {
    let cache = ReadCache::new(File::open(path)?);
    let file = object::File::parse(&cache).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let symbols = file.symbols().chain(file.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition());
    Ok(functions.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::{Pid, Proc};
    use super::*;

    static ZEROS: [u64; 4096] = [0; 4096];
    static mut CHANGED: [u64; 2048] = [7; 2048];

    #[test]
    fn static_data_of_this_process_is_found_where_it_is() {
        let maps = Proc::default().maps(Pid(std::process::id() as i32)).unwrap();
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let inode = own.metadata().unwrap().ino();
        let symbols =
            Table::read(&own, Identity::Inode(inode), 4096).unwrap().at(&maps, own.to_str().unwrap());
        let expected = [
            ("ZEROS", std::hint::black_box(&ZEROS) as *const _ as u64, size_of_val(&ZEROS)),
            ("CHANGED", std::hint::black_box(&raw const CHANGED) as u64, 2048 * 8),
        ];
        for (name, address, bytes) in expected {
            let found = symbols.iter().find(|symbol| symbol.start == address).unwrap();
            assert!(found.name.contains(name), "{found:?}");
            assert_eq!(found.end, address + bytes as u64);
        }
        assert!(symbols.windows(2).all(|pair| pair[0].end <= pair[1].start), "none within another");
    }

    #[test]
    fn functions_of_a_file_have_names() {
        let found = functions(&std::env::current_exe().unwrap()).unwrap();
        assert!(
            found.contains("main") && !found.iter().any(|name| name.contains("ZEROS")),
            "{}",
            found.len()
        );
    }

    #[test]
    fn what_is_not_the_mapped_file_has_no_symbols() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(Table::read(&own, Identity::Inode(1), 4096).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(Table::read(&own, Identity::BuildId(&[1; 20]), 4096).is_err());
        let text = tempfile::NamedTempFile::new().unwrap();
        let inode = text.path().metadata().unwrap().ino();
        std::fs::write(text.path(), "no program").unwrap();
        assert_eq!(
            Table::read(text.path(), Identity::Inode(inode), 0).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        let half = std::fs::read(&own).unwrap();
        std::fs::write(text.path(), &half[..half.len() / 2]).unwrap();
        // The symbols stand at the file's end.
        assert!(Table::read(text.path(), Identity::Inode(inode), 4096)
            .map_or(true, |table| table.symbols.is_empty()));
    }
}
