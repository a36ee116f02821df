//! What the data of a process are called: variables of the files that it maps, where these files are here, else the
//! mappings.

use super::spaces::Space;
use homing_linux::proc::maps::{Class, Mapping};
use homing_linux::proc::symbols::{Identity, Symbol, Table};
use homing_trace::perf_data::Facts;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Smaller variables share their pages with others.
const LEAST_BYTES: u64 = 4096;

/// The names of a process's data.
#[derive(Debug, Default)]
pub struct Names {
    /// By address.
    symbols: Vec<Symbol>,
    mappings: Vec<String>,
    /// Files with data that are not here, or are other ones.
    pub missing: BTreeSet<String>,
}

impl Names {
    /// Looks files up: below `root` if the user names one, at their own place, and in perf's cache of files.
    pub fn of(space: &Space, facts: &Facts, root: Option<&Path>) -> Names {
        let maps = space.mappings();
        let mut names = Names { mappings: space.names(), ..Names::default() };
        let mut seen = BTreeSet::new();
        for mapping in maps.iter().filter(|mapping| mapping.class() == Class::FilePrivate) {
            if !seen.insert(&mapping.name) {
                continue;
            }
            let recorded = facts.build_ids.iter().find(|(name, _)| *name == mapping.name);
            let id = space.build_id(&mapping.name).or(recorded.map(|(_, id)| &id[..]));
            match table(mapping, id, root) {
                Some(table) => names.symbols.extend(table.at(&maps, &mapping.name)),
                None => drop(names.missing.insert(mapping.name.clone())),
            }
        }
        names.symbols.sort_by_key(|symbol| symbol.start);
        names
    }

    /// The variable that most of the start of a page belongs to, else the mapping.
    pub fn name(&self, page: u64, mapping: Option<usize>) -> Option<&str> {
        // A variable may begin within the page.
        let after = self.symbols.partition_point(|symbol| symbol.start < page.saturating_add(4096));
        match self.symbols[..after].last() {
            Some(symbol) if symbol.end > page => Some(&symbol.name),
            _ => mapping.and_then(|number| self.mappings.get(number)).map(String::as_str),
        }
    }
}

/// The symbols of the file that was mapped, where it is here.
fn table(mapping: &Mapping, id: Option<&[u8]>, root: Option<&Path>) -> Option<Table> {
    let identity = id.map_or(Identity::Inode(mapping.inode), Identity::BuildId);
    let inside = mapping.name.trim_start_matches('/');
    let below = root.map(|root| root.join(inside));
    let flat = root.and_then(|root| Some(root.join(Path::new(inside).file_name()?)));
    let places = [below, flat, Some(PathBuf::from(&mapping.name)), id.and_then(cached)];
    places.into_iter().flatten().find_map(|path| Table::read(&path, identity, LEAST_BYTES).ok())
}

/// Where `perf buildid-cache` and `perf archive` keep a file.
fn cached(id: &[u8]) -> Option<PathBuf> {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = digits.split_at_checked(2)?;
    let home = std::env::var_os("HOME")?;
    Some(PathBuf::from(home).join(".debug/.build-id").join(first).join(rest).join("elf"))
}
