//! Pages by node for each mapping: numa(7), `/proc/PID/numa_maps`.

use crate::topology::parse_list;
use std::collections::BTreeMap;

/// One mapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// First address.
    pub start: u64,
    /// Memory policy, as the kernel writes it.
    pub policy: String,
    /// `heap`, `stack`, or the file.
    pub name: String,
    /// Pages by node, in units of [`Range::page_bytes`].
    pub pages: BTreeMap<u32, u64>,
    /// Anonymous pages among them.
    pub anonymous: u64,
    /// Page size of the mapping: 2 MiB for hugetlbfs; transparent huge pages count as many small ones.
    pub page_bytes: u64,
}

impl Range {
    /// Parses a line.
    pub fn parse(line: &str) -> Option<Range> {
        let mut fields = line.split(' ');
        let start = u64::from_str_radix(fields.next()?, 16).ok()?;
        let policy = fields.next()?.to_owned();
        let mut range = Range { start, policy, page_bytes: 4096, ..Range::default() };
        for field in fields {
            if field.starts_with("(many)") {
                // The name of a policy with a blank in it.
                range.policy = format!("{} {field}", range.policy);
                continue;
            }
            match field.split_once('=') {
                Some(("file", name)) => range.name = name.to_owned(),
                Some(("anon", pages)) => range.anonymous = pages.parse().ok()?,
                Some(("kernelpagesize_kB", size)) => {
                    range.page_bytes = size.parse::<u64>().ok()?.saturating_mul(1024)
                }
                Some((node, pages)) if node.starts_with('N') => {
                    if let Ok(node) = node[1..].parse() {
                        range.pages.insert(node, pages.parse().ok()?);
                    }
                }
                None if matches!(field, "heap" | "stack") => range.name = field.to_owned(),
                _ => {}
            }
        }
        Some(range)
    }

    /// The nodes that its memory policy names for it alone; `None` if it may be anywhere. The forms are `bind:0-1`,
    /// `bind=static:0`, `prefer:0` and `prefer (many):0`, and with those of numa(7) that bind nothing, `default`,
    /// `local` and `interleave:0-1`.
    pub fn bound_to(&self) -> Option<Vec<u32>> {
        nodes(&self.policy, &["bind", "prefer"])
    }

    /// Bytes by node.
    pub fn bytes(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.pages.iter().map(|(&node, &pages)| (node, pages.saturating_mul(self.page_bytes)))
    }
}

/// The nodes outside of which a policy lets no page be (`MPOL_BIND`); `None` for all other policies.
pub fn strict(policy: &str) -> Option<Vec<u32>> {
    nodes(policy, &["bind"])
}

/// The nodes of a policy whose name begins with one of these words.
fn nodes(policy: &str, modes: &[&str]) -> Option<Vec<u32>> {
    let (mode, nodes) = policy.split_once(':')?;
    let is_one = modes.iter().any(|name| mode.starts_with(name));
    parse_list(nodes).filter(|nodes| is_one && !nodes.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_that_bind_name_their_nodes() {
        let bound = |policy: &str| Range { policy: policy.into(), ..Range::default() }.bound_to();
        assert_eq!(bound("bind:0-1,3"), Some(vec![0, 1, 3]));
        assert_eq!((bound("bind=balancing:2"), bound("prefer:1")), (Some(vec![2]), Some(vec![1])));
        let many = Range::parse("7f00 prefer (many)=static:0,2 anon=1 N0=1").unwrap();
        assert_eq!((many.bound_to(), many.pages.len()), (Some(vec![0, 2]), 1));
        assert_eq!((strict("bind=static:0-1"), strict("prefer:1")), (Some(vec![0, 1]), None));
        for free in ["default", "local", "interleave:0-1", "weighted interleave:0", "bind:"] {
            assert_eq!(bound(free), None, "{free}");
        }
    }

    #[test]
    fn lines_give_bytes_by_node() {
        let line =
            "7f5aa0000000 bind=balancing:0 anon=262 dirty=262 active=0 N0=260 N2=2 kernelpagesize_kB=4";
        let range = Range::parse(line).unwrap();
        assert_eq!(
            (range.start, range.policy.as_str(), range.anonymous),
            (0x7f5a_a000_0000, "bind=balancing:0", 262)
        );
        assert_eq!(range.bytes().collect::<Vec<_>>(), [(0, 260 * 4096), (2, 8192)]);
        let heap = Range::parse("55d0 default heap anon=1 dirty=1 N1=1 kernelpagesize_kB=2048").unwrap();
        assert_eq!((heap.name.as_str(), heap.bytes().next()), ("heap", Some((1, 2 << 20))));
        let file = Range::parse("55d0 default file=/usr/lib/libc.so.6 mapped=5 mapmax=9 N0=5").unwrap();
        assert_eq!(file.name, "/usr/lib/libc.so.6");
        assert_eq!(Range::parse("zz default"), None);
        assert_eq!(Range::parse("55d0"), None);
    }
}
