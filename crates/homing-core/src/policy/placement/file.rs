//! Placements in files: where pages of one run should be in the next (Tikir & Hollingsworth 2008, section 5.2.3).
//!
//! A page is found again by its virtual address, or, where addresses differ from run to run, by the data area that it
//! belongs to and its offset there ([`crate::areas`]).

use crate::areas::Located;
use crate::history::{History, SpillError};
use crate::ids::{Node, Page, PageSize};
use std::collections::{BTreeMap, HashMap};

/// A placement that applies to another trace of the same program, or another page size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacementFile {
    /// Sorted by address, disjoint.
    ranges: Vec<Range>,
}

#[derive(Clone, Debug, PartialEq)]
struct Range {
    begin: u64,
    end: u64,
    node: Node,
    /// Offset of `begin` in the area, and the area.
    place: Option<(u64, String)>,
}

impl Range {
    /// True if this range goes on where `last` ends: in memory, and in the area.
    fn continues(&self, last: &Range) -> bool {
        let bytes = last.end - last.begin;
        let place = match (&last.place, &self.place) {
            (Some((from, area)), Some((to, same))) => area == same && *to == from + bytes,
            (None, None) => true,
            _ => false,
        };
        last.end == self.begin && last.node == self.node && place
    }
}

/// First line of a placement file.
const HEADER: &str =
    "# homing placement 1: begin end node (addresses in hexadecimal, end exclusive) offset area";

/// A placement file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("placement file, line {line}: {message}")]
pub struct PlacementError {
    line: usize,
    message: String,
}

impl PlacementFile {
    /// Reads the text of a placement file.
    pub fn parse(text: &str) -> Result<PlacementFile, PlacementError> {
        let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let fail = |line, message: &str| Err(PlacementError { line, message: message.into() });
        if !lines.next().is_some_and(|(_, line)| line.starts_with("# homing placement 1")) {
            return fail(1, "expected `# homing placement 1`; is this file made by `--placement-out`?");
        }
        let mut ranges: Vec<Range> = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let Some(range) = parse_range(line) else {
                return fail(
                    number,
                    "expected `BEGIN END NODE` or `BEGIN END NODE OFFSET AREA`, such as `0x1000 0x3000 2`",
                );
            };
            if ranges.last().is_some_and(|last| last.end > range.begin) {
                return fail(number, "expected ranges by rising address that do not overlap");
            }
            ranges.push(range);
        }
        Ok(PlacementFile { ranges })
    }

    /// The placement that has each page at `node_of`. Where several pages had the same address one after the other, the
    /// one with most references counts.
    pub fn from_pages(history: &History, nodes: &[Node]) -> Result<PlacementFile, SpillError> {
        let mut best: BTreeMap<u64, (u64, Node)> = BTreeMap::new();
        for page in (0..history.pages()).map(Page) {
            let references: u64 = history.runs(page)?.map(|run| run.references()).sum();
            let entry = best.entry(history.address(page)).or_insert((0, nodes[page.index()]));
            if references > entry.0 {
                *entry = (references, nodes[page.index()]);
            }
        }
        let homes = best.into_iter().map(|(begin, (_, node))| (begin, node, None));
        Ok(PlacementFile::from_sorted(homes, history.page_size().bytes()))
    }

    /// The placement that has pages of a size where they are, given as (address, node) in any order; the last one
    /// counts where an address occurs more than once.
    pub fn from_homes(homes: &[(u64, Node)], page_size: PageSize) -> PlacementFile {
        let homes: BTreeMap<u64, Node> = homes.iter().copied().collect();
        let homes = homes.into_iter().map(|(begin, node)| (begin, node, None));
        PlacementFile::from_sorted(homes, page_size.bytes())
    }

    /// The same placement with what is known of its pages' areas. `pages`: by rising address.
    pub fn with_areas(&self, pages: &[Located], page_size: PageSize) -> PlacementFile {
        let homes = pages.iter().filter_map(|page| {
            let place = page.area.as_ref().map(|area| (page.offset, area.clone()));
            self.node(page.address).map(|node| (page.address, node, place))
        });
        PlacementFile::from_sorted(homes, page_size.bytes())
    }

    /// The placement of a run whose pages are `pages` (by rising address) by their areas instead of their addresses.
    /// Pages without an area, or at offsets that the file does not have, are left out.
    pub fn by_area(&self, pages: &[Located], page_size: PageSize) -> PlacementFile {
        let mut areas: HashMap<&str, Vec<(u64, u64, Node)>> = HashMap::new();
        for range in &self.ranges {
            let Some((from, area)) = &range.place else { continue };
            let to = from + (range.end - range.begin);
            areas.entry(area).or_default().push((*from, to, range.node));
        }
        let homes = pages.iter().filter_map(|page| {
            let area = page.area.as_ref()?;
            let ranges = areas.get(area.as_str())?;
            let found = ranges.iter().find(|(from, to, _)| (*from..*to).contains(&page.offset))?;
            Some((page.address, found.2, Some((page.offset, area.clone()))))
        });
        PlacementFile::from_sorted(homes, page_size.bytes())
    }

    /// Joins what belongs together; homes by rising address, the first one counts where an address comes again.
    fn from_sorted(
        homes: impl Iterator<Item = (u64, Node, Option<(u64, String)>)>,
        bytes: u64,
    ) -> PlacementFile {
        let mut ranges: Vec<Range> = Vec::new();
        for (begin, node, place) in homes {
            let range = Range { begin, end: begin + bytes, node, place };
            match ranges.last_mut() {
                Some(last) if last.end > begin => {}
                Some(last) if range.continues(last) => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        PlacementFile { ranges }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let line = |range: &Range| {
            let place = range.place.as_ref();
            let place = place.map_or(String::new(), |(offset, area)| format!(" {offset:#x} {area}"));
            format!("{:#x} {:#x} {}{place}\n", range.begin, range.end, range.node)
        };
        format!("{HEADER}\n{}", self.ranges.iter().map(line).collect::<String>())
    }

    /// True if the file says of any page which area it belongs to.
    pub fn has_areas(&self) -> bool {
        self.ranges.iter().any(|range| range.place.is_some())
    }

    /// First address and node of each range.
    pub(super) fn homes(&self) -> impl Iterator<Item = (u64, Node)> + '_ {
        self.ranges.iter().map(|range| (range.begin, range.node))
    }

    /// Where an address should be.
    pub(super) fn node(&self, address: u64) -> Option<Node> {
        let after = self.ranges.partition_point(|range| range.begin <= address);
        let range = self.ranges[..after].last()?;
        (address < range.end).then_some(range.node)
    }
}

fn parse_range(line: &str) -> Option<Range> {
    let mut fields = line.splitn(5, char::is_whitespace);
    let hexadecimal = |field: &str| u64::from_str_radix(field.strip_prefix("0x")?, 16).ok();
    let (begin, end) = (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
    let node = Node(fields.next()?.parse().ok()?);
    let place = match (fields.next(), fields.next()) {
        (None, _) => None,
        (Some(offset), Some(area)) => Some((hexadecimal(offset)?, area.to_owned())),
        (Some(_), None) => return None,
    };
    (begin < end).then_some(Range { begin, end, node, place })
}

#[cfg(test)]
mod tests {
    use super::super::{Placement, Start};
    use super::*;
    use crate::machine::{Costs, Uniform};

    #[test]
    fn files_go_round_and_apply_by_address() {
        let costs = Costs::Uniform(Uniform { nodes: 3, remote: 5.0, page_move: 100.0, global: None });
        let history = History::from_references(&[(2, 1, true), (0, 2, true), (2, 3, true), (0, 3, true)], 0);
        let file = PlacementFile::from_pages(&history, &[Node(2), Node(2), Node(1)]).unwrap();
        assert_eq!(file.text().lines().skip(1).collect::<Vec<_>>(), ["0x1000 0x3000 2", "0x3000 0x4000 1"]);
        let again = PlacementFile::parse(&file.text()).unwrap();
        assert_eq!(again, file);
        assert_eq!(
            (again.node(0x2fff), again.node(0x3000), again.node(0x4000)),
            (Some(Node(2)), Some(Node(1)), None)
        );
        let start = Placement::File(again).start(&history, Page(1), &costs).unwrap();
        assert_eq!(start, Start { node: Node(2), free: false, found: true });
        let header = "# homing placement 1";
        for bad in [
            "",
            &format!("{header}\n0x1 2"),
            &format!("{header}\n0x2 0x3 0\n0x1 0x2 0"),
            &format!("{header}\n0x1 0x2 0 0x0"),
        ] {
            assert!(PlacementFile::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pages_are_found_again_in_their_areas() {
        let page = |address: u64, area: &str, offset: u64| Located {
            address,
            area: (!area.is_empty()).then(|| area.to_owned()),
            offset,
        };
        let homes: Vec<_> = [0, 0, 1, 2, 2].iter().zip(1..).map(|(&n, page)| (page << 12, Node(n))).collect();
        let first = PlacementFile::from_homes(&homes, PageSize::KIB4);
        let pages = [
            page(0x1000, "grid at main (a.c:3)", 0),
            page(0x2000, "grid at main (a.c:3)", 0x1000),
            page(0x3000, "grid at main (a.c:3)", 0x2000),
            page(0x4000, "rhs", 0),
            page(0x5000, "", 0),
        ];
        let file = first.with_areas(&pages, PageSize::KIB4);
        let again = PlacementFile::parse(&file.text()).unwrap();
        assert_eq!(again, file);
        assert!(again.has_areas() && !first.has_areas());
        // In the next run the areas lie elsewhere, and one is larger.
        let pages = [
            page(0x71000, "rhs", 0),
            page(0x72000, "rhs", 0x1000),
            page(0x83000, "grid at main (a.c:3)", 0x1000),
            page(0x84000, "grid at main (a.c:3)", 0x2000),
            page(0x5000, "", 0),
        ];
        let moved = again.by_area(&pages, PageSize::KIB4);
        let node = |address: u64| moved.node(address).map(|node| node.0);
        assert_eq!(
            [0x71000, 0x72000, 0x83000, 0x84000, 0x5000].map(node),
            [Some(2), None, Some(0), Some(1), None]
        );
    }
}
