//! Static data by name: where the pages of a process's large data symbols are.

use super::snapshot::{OnNode, SymbolRow};
use crate::host::Host;
use homing_core::ids::Node;
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::proc::maps::{self, Mapping};
use homing_linux::proc::symbols::{Identity, Symbol, Table};
use homing_linux::proc::{Pid, Proc};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Symbols that are looked at, largest first.
const SYMBOLS: usize = 32;

/// Smaller ones share their pages with others.
const LEAST_BYTES: u64 = 4096;

/// Pages of a symbol that are read; of a larger one, this number at equal distances.
const PAGES: u64 = 1024;

/// Files whose symbols are remembered.
const FILES: usize = 256;

/// The symbols of files, read once.
#[derive(Default)]
pub struct Tables(BTreeMap<(String, u64), Table>);

impl Tables {
    /// The data symbols of a process, by address, in files with at least `least` bytes of data that may be written.
    /// Files that cannot be read have none.
    pub fn of(&mut self, proc: &Proc, pid: Pid, maps: &[Mapping], least: u64) -> Vec<(String, Symbol)> {
        let (mut symbols, mut seen) = (Vec::new(), BTreeSet::new());
        for mapping in maps.iter().filter(|mapping| mapping.class() == maps::Class::FilePrivate) {
            if !seen.insert(&mapping.name) || data(maps, &mapping.name) < least {
                continue;
            }
            if self.0.len() >= FILES {
                self.0.clear();
            }
            let table = self.0.entry((mapping.name.clone(), mapping.inode)).or_insert_with(|| {
                let inside = mapping.name.trim_start_matches('/');
                let path = proc.path(pid, "root").join(Path::new(inside));
                Table::read(&path, Identity::Inode(mapping.inode), LEAST_BYTES).unwrap_or_default()
            });
            let file = mapping.short_name();
            symbols.extend(table.at(maps, &mapping.name).into_iter().map(|symbol| (file.to_owned(), symbol)));
        }
        symbols
    }

    /// The largest data symbols, those with most resident bytes first, and how many others there are. None if the pages
    /// may not be looked at.
    pub fn rows(&mut self, proc: &Proc, host: &Host, pid: Pid, maps: &[Mapping]) -> (Vec<SymbolRow>, usize) {
        let mut symbols = self.of(proc, pid, maps, 0);
        symbols.sort_by_key(|(_, symbol)| std::cmp::Reverse(symbol.end - symbol.start));
        let left_out = symbols.len().saturating_sub(SYMBOLS);
        symbols.truncate(SYMBOLS);
        let mut rows: Vec<SymbolRow> =
            symbols.into_iter().filter_map(|(file, symbol)| row(host, pid, file, symbol)).collect();
        rows.retain(|row| row.resident() > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.resident()));
        (rows, left_out)
    }
}

/// Bytes of a file's data that may be written, with what begins as zeros behind them.
fn data(maps: &[Mapping], name: &str) -> u64 {
    let mut bytes = 0;
    for (place, mapping) in
        maps.iter().enumerate().filter(|(_, mapping)| mapping.name == name && mapping.write)
    {
        let next = maps.get(place + 1).filter(|next| next.start == mapping.end && next.write);
        let zeros = next.filter(|next| next.class() == maps::Class::Anonymous);
        bytes += mapping.end - mapping.start + zeros.map_or(0, |zeros| zeros.end - zeros.start);
    }
    bytes
}

fn row(host: &Host, pid: Pid, file: String, symbol: Symbol) -> Option<SymbolRow> {
    let (first, last) = (symbol.start / 4096, (symbol.end - 1) / 4096);
    let step = (last - first + 1).div_ceil(PAGES);
    let pages: Vec<u64> = (first..=last).step_by(step as usize).map(|page| page * 4096).collect();
    let mut statuses = Vec::new();
    move_pages::query(pid, &pages, &mut statuses).ok()?;
    let mut bytes = vec![0; host.nodes()];
    for (&page, &status) in pages.iter().zip(&statuses) {
        let PageStatus::On(id) = PageStatus::from(status) else { continue };
        let behind = (page + step * 4096).min(symbol.end);
        if let Some(node) = host.node(id) {
            bytes[node.index()] += behind - page.max(symbol.start);
        }
    }
    let on = |(index, &count): (usize, &u64)| OnNode { node: host.kernel_id(Node(index as u16)), count };
    Some(SymbolRow {
        name: symbol.name,
        file,
        start: symbol.start,
        size: symbol.end - symbol.start,
        sampled: step > 1,
        bytes: bytes.iter().enumerate().map(on).collect(),
    })
}
