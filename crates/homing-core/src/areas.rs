//! Names of the data that lies in a page: a variable of the program, an allocation by its call site, a mapped file.
//!
//! Addresses are reused while a program runs; a page is called after what had most bytes in it over the whole trace,
//! allocations counted as often as they were made. A page that a variable lies in is not called after the file that
//! the variable comes from.

use crate::trace::{Event, NameId, Names, Trace};
use rayon::prelude::*;
use std::collections::HashMap;

/// Names for a list of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// The distinct names, in order of the first page that has them.
    pub names: Vec<String>,
    /// For each page an index into `names`; -1: nothing is known.
    pub of_page: Vec<i32>,
}

/// Where a page lies in its area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The page's address.
    pub address: u64,
    /// The area, if it is known.
    pub area: Option<String>,
    /// Bytes of the area's pages at lower addresses: the same in each run that has the same pages, wherever they are.
    pub offset: u64,
}

/// Places the pages at `addresses` (any order, repeated ones once) in their areas, by rising address.
pub fn locate(trace: &Trace<'_>, addresses: impl Iterator<Item = u64>, page_bytes: u64) -> Vec<Located> {
    let mut addresses: Vec<u64> = addresses.collect();
    addresses.sort_unstable();
    addresses.dedup();
    let areas = name_pages(trace, &addresses, page_bytes);
    let mut bytes = vec![0; areas.names.len()];
    let located = |(&address, &area): (&u64, &i32)| match usize::try_from(area) {
        Err(_) => Located { address, area: None, offset: 0 },
        Ok(area) => {
            let offset = bytes[area];
            bytes[area] += page_bytes;
            Located { address, area: Some(areas.names[area].clone()), offset }
        }
    };
    addresses.iter().zip(&areas.of_page).map(located).collect()
}

/// What a name is taken from; a later kind only counts where there is none of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    /// Data symbols and allocations.
    Data,
    /// A stack that the program mapped for a thread.
    Stack,
    /// A mapped file or a region that the recorder named.
    Mapping,
    /// Below the main stack as it was when the program began: it grows without an event.
    Growth,
}

/// What a recorder calls the main stack, and how far it grows where nobody set another limit.
const MAIN_STACK: &str = "[stack]";
const MAIN_STACK_BYTES: u64 = 8 << 20;

/// Something with a name at some addresses.
#[derive(Clone, Copy, Debug)]
struct Piece {
    kind: Kind,
    /// A name of the trace, or a thread for stacks.
    name: u32,
    address: u64,
    bytes: u64,
}

/// Names the pages of `page_bytes` that begin at `addresses` (rising; equal ones get the same name).
pub fn name_pages(trace: &Trace<'_>, addresses: &[u64], page_bytes: u64) -> Areas {
    let threads: Vec<_> = trace.threads().map(|(thread, _)| thread).collect();
    let symbols = trace.symbols().iter().map(|s| Piece {
        kind: Kind::Data,
        name: s.name.0,
        address: s.address,
        bytes: s.size,
    });
    let main_stack = |name| trace.names().get(name) == MAIN_STACK;
    let found: Vec<Vec<Piece>> =
        threads.par_iter().map(|&thread| pieces(trace.thread_events(thread), main_stack)).collect();
    let mut overlaps = Overlaps::new(addresses, page_bytes);
    symbols.chain(found.into_iter().flatten()).for_each(|piece| overlaps.add(piece));
    overlaps.finish(trace.names())
}

/// What one thread allocated and mapped.
fn pieces(events: impl Iterator<Item = Event>, main_stack: impl Fn(NameId) -> bool) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut reserved = None;
    for event in events {
        match event {
            Event::Alloc { address, size, site, .. } if site.0 != 0 => {
                all.push(Piece { kind: Kind::Data, name: site.0, address, bytes: size });
            }
            Event::Mmap { address, length, name, .. } if name.0 != 0 => {
                all.push(Piece { kind: Kind::Mapping, name: name.0, address, bytes: length });
                if main_stack(name) {
                    let lowest = address.saturating_sub(MAIN_STACK_BYTES);
                    let bytes = address - lowest;
                    all.push(Piece { kind: Kind::Growth, name: name.0, address: lowest, bytes });
                }
            }
            // The C library maps a stack without access rights, makes most of it accessible, and creates the thread.
            Event::Mmap { protection: 0, address, length, .. } => reserved = Some((address, length)),
            Event::ThreadStart { thread, .. } => {
                if let Some((address, bytes)) = reserved.take() {
                    all.push(Piece { kind: Kind::Stack, name: thread.0, address, bytes });
                }
            }
            _ => {}
        }
    }
    all
}

/// Bytes by page, kind and name.
struct Overlaps<'a> {
    addresses: &'a [u64],
    page_bytes: u64,
    bytes: Vec<HashMap<(Kind, u32), u64>>,
}

impl<'a> Overlaps<'a> {
    fn new(addresses: &'a [u64], page_bytes: u64) -> Overlaps<'a> {
        Overlaps { addresses, page_bytes, bytes: vec![HashMap::new(); addresses.len()] }
    }

    fn add(&mut self, piece: Piece) {
        let end = piece.address.saturating_add(piece.bytes);
        let first =
            self.addresses.partition_point(|&page| page.saturating_add(self.page_bytes) <= piece.address);
        for (page, bytes) in self.addresses[first..].iter().zip(&mut self.bytes[first..]) {
            if *page >= end {
                break;
            }
            let overlap = end.min(page.saturating_add(self.page_bytes)) - piece.address.max(*page);
            *bytes.entry((piece.kind, piece.name)).or_default() += overlap;
        }
    }

    fn finish(self, names: &Names) -> Areas {
        let mut areas = Areas::default();
        let mut numbers = HashMap::new();
        for bytes in self.bytes {
            let first_kind = bytes.keys().map(|key| key.0).min();
            let most =
                bytes.iter().filter(|(key, _)| Some(key.0) == first_kind).max_by_key(|(key, bytes)| {
                    // Equal ones: the smaller number, so that the result does not hang on the map's order.
                    (**bytes, std::cmp::Reverse(key.1))
                });
            let number = most.map_or(-1, |(&(kind, name), _)| {
                let kind = if kind == Kind::Growth { Kind::Mapping } else { kind };
                *numbers.entry((kind, name)).or_insert_with(|| {
                    areas.names.push(text(kind, name, names));
                    areas.names.len() as i32 - 1
                })
            });
            areas.of_page.push(number);
        }
        areas
    }
}

fn text(kind: Kind, name: u32, names: &Names) -> String {
    match kind {
        Kind::Stack => format!("stack of thread {name}"),
        Kind::Data | Kind::Mapping | Kind::Growth => names.get(NameId(name)).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Thread;
    use crate::trace::AllocFunction;

    fn named(pieces: &[(Kind, u32, u64, u64)], addresses: &[u64]) -> Vec<i32> {
        let mut overlaps = Overlaps::new(addresses, 4096);
        for &(kind, name, address, bytes) in pieces {
            overlaps.add(Piece { kind, name, address, bytes });
        }
        overlaps.finish(&Names::default()).of_page
    }

    #[test]
    fn a_page_is_called_after_what_has_most_bytes_in_it() {
        let pieces =
            [(Kind::Data, 1, 0x1000, 3000), (Kind::Data, 2, 0x1bb8, 9000), (Kind::Mapping, 3, 0, 0x10000)];
        assert_eq!(named(&pieces, &[0x0, 0x1000, 0x2000, 0x3000, 0x5000]), [0, 1, 2, 2, 0]);
    }

    #[test]
    fn small_allocations_add_up_and_unknown_pages_have_no_name() {
        let many: Vec<_> = (0..100).map(|i| (Kind::Data, 7, 0x2000 + 32 * (i % 10), 32)).collect();
        let pieces = [&many[..], &[(Kind::Data, 8, 0x2800, 2000)]].concat();
        assert_eq!(named(&pieces, &[0x2000, 0x2000, 0x9000]), [0, 0, -1]);
        assert_eq!(named(&[(Kind::Data, 1, u64::MAX, u64::MAX)], &[u64::MAX - 4095]), [-1]);
    }

    #[test]
    fn the_main_stack_grows_over_what_has_no_other_name() {
        let stack = Event::Mmap {
            protection: 3,
            flags: 0x22,
            address: 0x1000_0000,
            length: 0x1000,
            offset: 0,
            name: NameId(5),
        };
        let found: Vec<_> = pieces([stack].into_iter(), |name| name == NameId(5))
            .iter()
            .map(|p| (p.kind, p.name, p.address, p.bytes))
            .chain([(Kind::Mapping, 6, 0x0fff_0000, 0x1000)])
            .collect();
        let pages = [0x0f00_0000, 0x0fff_0000, 0x0fff_f000, 0x1000_0000, 0x1000_1000];
        assert_eq!(named(&found, &pages), [-1, 0, 1, 1, -1]);
    }

    #[test]
    fn stacks_are_told_from_other_mappings() {
        let map = |protection, address, name| Event::Mmap {
            protection,
            flags: 0x22,
            address,
            length: 0x1000,
            offset: 0,
            name: NameId(name),
        };
        let start = |thread| Event::ThreadStart { thread: Thread(thread), creator: Thread(0) };
        let alloc = |site| Event::Alloc {
            function: AllocFunction::Malloc,
            address: 0x8000,
            size: 8,
            site: NameId(site),
        };
        let events =
            [map(3, 0x1000, 0), map(0, 0x2000, 0), start(4), start(5), map(1, 0x3000, 9), alloc(0), alloc(2)];
        let found: Vec<_> =
            pieces(events.into_iter(), |_| false).iter().map(|p| (p.kind, p.name, p.address)).collect();
        assert_eq!(found, [(Kind::Stack, 4, 0x2000), (Kind::Mapping, 9, 0x3000), (Kind::Data, 2, 0x8000)]);
    }
}
