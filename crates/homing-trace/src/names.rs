//! The tables of names and of data symbols.

use super::varint::{self, Cursor};
use std::collections::HashMap;

/// A name in the trace's name table; 0 is "no name".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameId(pub u32);

impl NameId {
    /// No name.
    pub const NONE: NameId = NameId(0);
}

/// All names of a trace. Bytes that are no UTF-8 are shown with replacement characters.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: Vec<String>,
    ids: HashMap<String, NameId>,
    /// How many were filled in, as they are lost.
    missing: usize,
}

/// The most names of a trace, and the most data symbols: a hundred times those of a large program.
pub(super) const MOST_NAMES: u32 = 1 << 24;
/// The most names that a damaged file is allowed to leave out.
pub(super) const MAX_NAME_GAP: u32 = 1 << 20;

impl Names {
    /// The text of a name; the empty text for no or an unknown name (one that was in a damaged block).
    pub fn get(&self, id: NameId) -> &str {
        id.0.checked_sub(1).and_then(|i| self.names.get(i as usize)).map_or("", String::as_str)
    }

    /// All names with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (NameId, &str)> {
        self.names.iter().enumerate().map(|(i, name)| (NameId(i as u32 + 1), name.as_str()))
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The id of `name`, which is entered if it is new. The empty text is no name, nor is one beyond 2^24.
    pub fn intern(&mut self, name: &str) -> NameId {
        if name.is_empty() {
            return NameId::NONE;
        }
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        if self.names.len() >= MOST_NAMES as usize {
            return NameId::NONE;
        }
        self.names.push(name.to_owned());
        let id = NameId(self.names.len() as u32);
        self.ids.insert(name.to_owned(), id);
        id
    }

    /// The raw bytes of a names block with the names from number `first` (counted from 0) on.
    pub(super) fn encode(&self, first: usize) -> Vec<u8> {
        let mut raw = Vec::new();
        for name in &self.names[first..] {
            varint::put(&mut raw, name.len() as u64);
            raw.extend_from_slice(name.as_bytes());
        }
        raw
    }

    /// Takes in a names block; `None` if it is malformed. Names lost before `first` become empty.
    pub(super) fn decode(&mut self, first: u32, count: u32, raw: &[u8]) -> Option<()> {
        let missing = self.missing + (first as usize).saturating_sub(self.names.len());
        if first.checked_add(count)? > MOST_NAMES || missing > MAX_NAME_GAP as usize {
            return None;
        }
        self.missing = missing;
        let mut cursor = Cursor::new(raw);
        self.names.resize(self.names.len().max(first as usize), String::new());
        self.names.truncate(first as usize);
        for _ in 0..count {
            let length = cursor.varint()? as usize;
            self.names.push(String::from_utf8_lossy(cursor.take(length)?).into_owned());
        }
        cursor.is_empty().then_some(())
    }
}

/// A data symbol of the recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its name.
    pub name: NameId,
    /// Its virtual address in the recorded process.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The name of the object file that it is from.
    pub object: NameId,
}

impl Symbol {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for value in [u64::from(self.name.0), self.address, self.size, u64::from(self.object.0)] {
            varint::put(out, value);
        }
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Option<Symbol> {
        let name = NameId(cursor.varint32()?);
        let (address, size) = (cursor.varint()?, cursor.varint()?);
        Some(Symbol { name, address, size, object: NameId(cursor.varint32()?) })
    }
}
