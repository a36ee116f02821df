//! Names of the data that lies in a page: a variable of the program, an allocation by its call site, a mapped file.
//!
//! An allocation is called after the frame of its call stack that is the program's own code (see `sites.rs`), in all
//! traces alike.
//!
//! Addresses are reused while a program runs; a page is called after what had most bytes in it over the whole trace,
//! allocations counted as often as they were made. A page that a variable lies in is not called after the file that
//! the variable comes from, unless all that is known in it is less than a cache line. Variables of a library have its
//! name with theirs. Variables that lie within one page count together, and such a page is called after the largest of
//! them.

mod allocators;
mod sites;

use crate::trace::{Event, NameId, Names, Trace};
use rayon::prelude::*;
use sites::Sites;
use std::collections::{BTreeMap, HashMap};

/// Names for a list of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Areas {
    /// The distinct names, in order of the first page that has them.
    pub names: Vec<String>,
    /// For each page an index into `names`; -1: nothing is known.
    pub of_page: Vec<i32>,
    /// Of each name where it comes from.
    pub origins: Vec<Origin>,
}

/// Where the data of a name come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Of an allocation: the call stack that allocated most of it, the innermost frame first; else empty.
    pub stack: Vec<String>,
    /// They are a library's or the loader's, and not the program's own.
    pub foreign: bool,
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
    /// Data symbols.
    Data,
    /// Allocations, which count together with data symbols.
    Allocated,
    /// A stack that the program mapped for a thread.
    Stack,
    /// A mapped file or a region that the recorder named.
    Mapping,
    /// Below the main stack as it was when the program began: it grows without an event.
    Growth,
}

impl Kind {
    fn is_data(self) -> bool {
        matches!(self, Kind::Data | Kind::Allocated)
    }
}

/// What a recorder calls the main stack, and how far it grows where nobody set another limit.
const MAIN_STACK: &str = "[stack]";
const MAIN_STACK_BYTES: u64 = 8 << 20;

/// Data of fewer bytes in a page says nothing of the page.
const LINE: u64 = 64;
/// Small variables that a page is called after.
const SMALL: usize = 3;

/// Something with a name at some addresses.
#[derive(Clone, Copy, Debug)]
struct Piece {
    kind: Kind,
    /// A name of the trace; the area of a call site for allocations; a thread for stacks.
    name: u32,
    /// Of a data symbol: the name of its object file.
    object: NameId,
    address: u64,
    bytes: u64,
}

/// What pieces have in common that are one area.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    name: u32,
    object: NameId,
}

/// What of an area lies in a page.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    bytes: u64,
    /// Some of it lies beyond the page.
    beyond: bool,
}

/// Names the pages of `page_bytes` that begin at `addresses` (rising; equal ones get the same name).
pub fn name_pages(trace: &Trace<'_>, addresses: &[u64], page_bytes: u64) -> Areas {
    let threads: Vec<_> = trace.threads().map(|(thread, _)| thread).collect();
    let symbols = trace.symbols().iter().map(|s| Piece {
        kind: Kind::Data,
        name: s.name.0,
        object: s.object,
        address: s.address,
        bytes: s.size,
    });
    let main_stack = |name| trace.names().get(name) == MAIN_STACK;
    let found: Vec<Vec<Piece>> =
        threads.par_iter().map(|&thread| pieces(trace.thread_events(thread), main_stack)).collect();
    let mut overlaps = Overlaps::new(addresses, page_bytes);
    let sites = sites(trace.names(), found.iter().flatten());
    let by_area = |piece: Piece| match piece.kind {
        Kind::Allocated => Piece { name: sites.area(NameId(piece.name)), ..piece },
        _ => piece,
    };
    symbols.chain(found.into_iter().flatten().map(by_area)).for_each(|piece| overlaps.add(piece));
    overlaps.finish(trace.names(), &sites)
}

/// The call sites among pieces.
fn sites<'a>(names: &Names, pieces: impl Iterator<Item = &'a Piece>) -> Sites {
    let mut bytes: BTreeMap<NameId, u64> = BTreeMap::new();
    for piece in pieces.filter(|piece| piece.kind == Kind::Allocated) {
        let sum = bytes.entry(NameId(piece.name)).or_default();
        *sum = sum.saturating_add(piece.bytes);
    }
    Sites::new(names, &bytes)
}

/// What the allocations of each call site are called, given the bytes that it allocated.
pub fn name_sites(names: &Names, bytes: &BTreeMap<NameId, u64>) -> BTreeMap<NameId, String> {
    let sites = Sites::new(names, bytes);
    bytes.keys().map(|&site| (site, sites.label(sites.area(site)).to_owned())).collect()
}

/// Whether a mapped file, or the file that a variable comes from, is a library, the loader or the kernel's.
fn is_library(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or_default();
    name.ends_with(".so") || name.contains(".so.") || ["[vdso]", "[vvar]", "[vsyscall]"].contains(&name)
}

/// What one thread allocated and mapped.
fn pieces(events: impl Iterator<Item = Event>, main_stack: impl Fn(NameId) -> bool) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut reserved = None;
    let piece = |kind, name, address, bytes| Piece { kind, name, object: NameId::NONE, address, bytes };
    for event in events {
        match event {
            Event::Alloc { address, size, site, .. } if site.0 != 0 => {
                all.push(piece(Kind::Allocated, site.0, address, size));
            }
            Event::Mmap { address, length, name, .. } if name.0 != 0 => {
                all.push(piece(Kind::Mapping, name.0, address, length));
                if main_stack(name) {
                    let lowest = address.saturating_sub(MAIN_STACK_BYTES);
                    all.push(piece(Kind::Growth, name.0, lowest, address - lowest));
                }
            }
            // The C library maps a stack without access rights, makes most of it accessible, and creates the thread.
            Event::Mmap { protection: 0, address, length, .. } => reserved = Some((address, length)),
            // Go reserves room for its heap so, and maps what it uses over it.
            Event::Mmap { address, length, .. } => {
                reserved = reserved.filter(|&(start, bytes)| !overlap((start, bytes), (address, length)));
            }
            Event::ThreadStart { thread, .. } => {
                if let Some((address, bytes)) = reserved.take() {
                    all.push(piece(Kind::Stack, thread.0, address, bytes));
                }
            }
            _ => {}
        }
    }
    all
}

/// Whether two ranges, by address and length, have something in common.
fn overlap(a: (u64, u64), b: (u64, u64)) -> bool {
    a.0 < b.0.saturating_add(b.1) && b.0 < a.0.saturating_add(a.1)
}

/// What lies in each page.
struct Overlaps<'a> {
    addresses: &'a [u64],
    page_bytes: u64,
    shares: Vec<HashMap<Key, Share>>,
}

impl<'a> Overlaps<'a> {
    fn new(addresses: &'a [u64], page_bytes: u64) -> Overlaps<'a> {
        Overlaps { addresses, page_bytes, shares: vec![HashMap::new(); addresses.len()] }
    }

    fn add(&mut self, piece: Piece) {
        let Piece { kind, name, object, address, bytes } = piece;
        let end = address.saturating_add(bytes);
        let first = self.addresses.partition_point(|&page| page.saturating_add(self.page_bytes) <= address);
        for (page, shares) in self.addresses[first..].iter().zip(&mut self.shares[first..]) {
            if *page >= end {
                break;
            }
            let overlap = end.min(page.saturating_add(self.page_bytes)) - address.max(*page);
            let share = shares.entry(Key { kind, name, object }).or_default();
            share.bytes += overlap;
            share.beyond |= overlap < bytes;
        }
    }

    fn finish(self, names: &Names, sites: &Sites) -> Areas {
        let mut areas = Areas::default();
        let mut numbers = HashMap::new();
        for shares in self.shares {
            let number = match in_order(&shares)[..] {
                [] => -1,
                ref keys => *numbers.entry(text(keys, names, sites)).or_insert_with_key(|text| {
                    areas.names.push(text.clone());
                    areas.origins.push(origin(keys[0], names, sites));
                    areas.names.len() as i32 - 1
                }),
            };
            areas.of_page.push(number);
        }
        areas
    }
}

/// What a page is called after, the one with most bytes in it first.
fn in_order(shares: &HashMap<Key, Share>) -> Vec<Key> {
    let data: u64 = shares.iter().filter(|(key, _)| key.kind.is_data()).map(|(_, share)| share.bytes).sum();
    let other = shares.keys().map(|key| key.kind).filter(|kind| !kind.is_data()).min();
    let wanted = |kind: Kind| match other {
        Some(other) if data < LINE => kind == other,
        _ => kind.is_data(),
    };
    let mut found: Vec<(Key, Share)> =
        shares.iter().filter(|(key, _)| wanted(key.kind)).map(|(&key, &share)| (key, share)).collect();
    // Equal ones: the smaller number first, so that the result does not hang on the map's order.
    found.sort_unstable_by_key(|&(key, share)| (std::cmp::Reverse(share.bytes), key));
    let is_small = |&(key, share): &(Key, Share)| key.object != NameId::NONE && !share.beyond;
    let (mut small, mut large): (Vec<_>, Vec<_>) = found.into_iter().partition(is_small);
    // One library may have been unloaded, and another one come in its place.
    if let Some(&(Key { object, .. }, _)) = small.first() {
        small.retain(|(key, _)| key.object == object);
    }
    let together: u64 = small.iter().map(|(_, share)| share.bytes).sum();
    large.truncate(1);
    let of_page = if large.iter().any(|(_, share)| share.bytes > together) { large } else { small };
    of_page.into_iter().map(|(key, _)| key).collect()
}

/// Where what is called after this one, and perhaps others, comes from.
fn origin(key: Key, names: &Names, sites: &Sites) -> Origin {
    match key.kind {
        Kind::Allocated => {
            Origin { stack: sites.stack(key.name, names), foreign: sites.is_foreign(key.name) }
        }
        Kind::Data => Origin { foreign: is_library(names.get(key.object)), ..Origin::default() },
        Kind::Mapping => Origin { foreign: is_library(names.get(NameId(key.name))), ..Origin::default() },
        Kind::Stack | Kind::Growth => Origin::default(),
    }
}

/// The name of a page that holds these.
fn text(keys: &[Key], names: &Names, sites: &Sites) -> String {
    let Key { kind, name, object } = keys[0];
    match kind {
        Kind::Stack => return format!("stack of thread {name}"),
        Kind::Allocated => return sites.label(name).to_owned(),
        _ => {}
    }
    let name = |key: &Key| names.get(NameId(key.name)).to_owned();
    let mut text = keys.iter().take(SMALL).map(name).collect::<Vec<_>>().join(", ");
    if keys.len() > SMALL {
        text += &format!(" and {} more", keys.len() - SMALL);
    }
    let file = names.get(object).rsplit('/').next().unwrap_or_default();
    if is_library(file) {
        text += &format!(" ({file})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Thread;
    use crate::trace::AllocFunction;

    fn named(pieces: &[(Kind, u32, u64, u64)], addresses: &[u64]) -> Vec<i32> {
        let mut overlaps = Overlaps::new(addresses, 4096);
        let mut names = Names::default();
        for i in 0..10 {
            names.intern(&format!("name {i}"));
        }
        for &(kind, name, address, bytes) in pieces {
            overlaps.add(Piece { kind, name, object: NameId::NONE, address, bytes });
        }
        overlaps.finish(&names, &Sites::default()).of_page
    }

    #[test]
    fn variables_are_called_after_their_library_and_small_ones_together() {
        let mut names = Names::default();
        let [program, library, other] =
            ["/bin/prog", "/lib/libx.so.6", "/lib/liby.so"].map(|name| names.intern(name));
        let [a, b, c, d, large] = ["a", "b", "c", "d", "large"].map(|name| names.intern(name).0);
        let addresses: [u64; 9] = std::array::from_fn(|i| (i as u64 + 1) << 12);
        let mut overlaps = Overlaps::new(&addresses, 4096);
        let variables = [
            (large, library, 0x1c00, 0xa00),
            (a, library, 0x1000, 400),
            (c, library, 0x2800, 1000),
            (d, library, 0x2c00, 900),
            (b, library, 0x2bf0, 9),
            (a, library, 0x3000, 400),
            (b, library, 0x3200, 300),
            (c, library, 0x3400, 200),
            (d, library, 0x3600, 100),
            (a, other, 0x4000, 400),
            (a, program, 0x5000, 400),
            (b, program, 0x5200, 500),
            (d, library, 0x6000, 63),
            (d, library, 0x8000, 63),
            (a, other, 0x9000, 100),
            (b, library, 0x9000, 200),
            (c, library, 0x9100, 50),
        ];
        for (name, object, address, bytes) in variables {
            overlaps.add(Piece { kind: Kind::Data, name, object, address, bytes });
        }
        let file = Piece {
            kind: Kind::Mapping,
            name: library.0,
            object: NameId::NONE,
            address: 0x1000,
            bytes: 0x7000,
        };
        overlaps.add(file);
        let areas = overlaps.finish(&names, &Sites::default());
        let found: Vec<&str> =
            areas.of_page.iter().map(|&area| areas.names[area as usize].as_str()).collect();
        let expected = [
            "large (libx.so.6)",
            "c, d, b (libx.so.6)",
            "a, b, c and 1 more (libx.so.6)",
            "a (liby.so)",
            "b, a",
            "/lib/libx.so.6",
            "/lib/libx.so.6",
            "d (libx.so.6)",
            "b, c (libx.so.6)",
        ];
        assert_eq!(found, expected);
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
        let pieces = |events: &[Event]| -> Vec<_> {
            pieces(events.iter().cloned(), |_| false).iter().map(|p| (p.kind, p.name, p.address)).collect()
        };
        // A heap that was reserved and is then mapped piece by piece is no stack; a mapping elsewhere changes nothing.
        assert_eq!(pieces(&[map(0, 0x2000, 0), map(3, 0x2000, 0), start(4)]), []);
        assert_eq!(pieces(&[map(0, 0x2000, 0), map(3, 0x3000, 0), start(4)]), [(Kind::Stack, 4, 0x2000)]);
        assert_eq!(
            pieces(&events),
            [(Kind::Stack, 4, 0x2000), (Kind::Mapping, 9, 0x3000), (Kind::Allocated, 2, 0x8000)]
        );
    }
}
