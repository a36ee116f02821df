//! The global set of a machine that hwloc wrote down: `lstopo x.xml` (hwloc 2; its format is that of `hwloc2.dtd`).

use super::{Global, GlobalNode, ResourceSet};
use homing_core::ids::{Cpu, Node};
use roxmltree::{Document, ParsingOptions};
use std::collections::BTreeSet;

/// Distances where the file has none: those that Linux assumes then (linux/topology.h).
const LOCAL: u32 = 10;
const REMOTE: u32 = 20;
/// Numbers in a file are below this, as those of Linux are.
const MOST: usize = 1 << 13;

/// Reads the text of a file. What the process that wrote it might use is what may be used.
///
/// # Errors
/// If it is no such file: what is wrong with it.
pub(super) fn global(text: &str) -> Result<Global, String> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if !root.has_tag_name("topology") || !root.attribute("version").is_some_and(|text| text.starts_with("2."))
    {
        return Err("expected the topology of hwloc 2, as `lstopo FILE.xml` writes it".to_owned());
    }
    let objects = || root.descendants().filter(|element| element.has_tag_name("object"));
    let of_type = |kind: &'static str| objects().filter(move |object| object.attribute("type") == Some(kind));
    let cpus =
        of_type("PU").map(|object| number(object, "os_index")).collect::<Result<BTreeSet<u16>, _>>()?;
    let mut found = Vec::new();
    for object in of_type("NUMANode") {
        let memory = object.attribute("local_memory").is_some_and(|bytes| bytes != "0");
        found.push((number(object, "os_index")?, bits(object, "cpuset")?, memory));
    }
    found.sort();
    found.dedup_by_key(|(id, ..)| *id);
    if found.is_empty() {
        return Err("it has no object of the type NUMANode: expected one at least".to_owned());
    }
    let ids: Vec<u16> = found.iter().map(|(id, ..)| *id).collect();
    let distances = distances(root, &ids)?;
    // A memory beside another one, as HBM is, has the same CPUs there; Linux knows them as the first one's alone.
    let mut left = cpus;
    let mut node = |((id, near, memory), distances): ((u16, BTreeSet<u16>, bool), Vec<u32>)| {
        let own: Vec<Cpu> = near.iter().filter(|cpu| left.remove(cpu)).map(|&cpu| Cpu(cpu)).collect();
        GlobalNode { id: Node(id), cpus: own, memory, distances }
    };
    let machine = Global::new(found.into_iter().zip(distances).map(&mut node).collect());
    let Some(top) = of_type("Machine").next() else { return Ok(machine) };
    let whole = machine.machine();
    let allowed = |name: &str| top.has_attribute(name).then(|| bits(top, name)).transpose();
    let usable = ResourceSet {
        cpus: allowed("allowed_cpuset")?.map_or(whole.cpus, |cpus| cpus.into_iter().map(Cpu).collect()),
        memories: allowed("allowed_nodeset")?
            .map_or(whole.memories, |all| all.into_iter().map(Node).collect()),
    };
    Ok(machine.confined(&usable, None))
}

fn wrong(element: roxmltree::Node, name: &str, expected: &str) -> String {
    let line = element.document().text_pos_at(element.range().start).row;
    let found = element.attribute(name).unwrap_or("");
    format!("line {line}: {name}=\"{found}\": expected {expected}")
}

fn number(element: roxmltree::Node, name: &str) -> Result<u16, String> {
    let number = element.attribute(name).and_then(|text| text.parse::<u16>().ok());
    let known = number.filter(|&number| usize::from(number) < MOST);
    known.ok_or_else(|| wrong(element, name, &format!("a number below {MOST}")))
}

/// The numbers of a mask: words of 32 bits in hexadecimal, the highest first.
fn bits(element: roxmltree::Node, name: &str) -> Result<BTreeSet<u16>, String> {
    let bad = || wrong(element, name, "a mask such as 0x0000000f");
    let text = element.attribute(name).ok_or_else(bad)?;
    let mut numbers = BTreeSet::new();
    for (index, word) in text.rsplit(',').enumerate() {
        let word = match word.strip_prefix("0x") {
            _ if index * 32 >= MOST => return Err(bad()),
            Some(digits) => u32::from_str_radix(digits, 16).map_err(|_| bad())?,
            // hwloc leaves out words of zeros.
            None if word.is_empty() => 0,
            None => return Err(bad()),
        };
        numbers.extend((0..32).filter(|bit| word >> bit & 1 == 1).map(|bit| (index * 32) as u16 + bit));
    }
    Ok(numbers)
}

/// Distances from each node to each. The file may have none, and others than latencies.
fn distances(root: roxmltree::Node, ids: &[u16]) -> Result<Vec<Vec<u32>>, String> {
    let nodes = |element: &roxmltree::Node| {
        element.has_tag_name("distances2")
            && element.attribute("type") == Some("NUMANode")
            && element.attribute("name").is_none_or(|name| name == "NUMALatency")
    };
    let Some(table) = root.descendants().find(nodes) else {
        let row = |from: &u16| ids.iter().map(|to| if to == from { LOCAL } else { REMOTE }).collect();
        return Ok(ids.iter().map(row).collect());
    };
    let numbers = |name: &str| -> Option<Vec<u32>> {
        let parts = table.children().filter(|part| part.has_tag_name(name)).filter_map(|part| part.text());
        parts.flat_map(str::split_whitespace).map(|word| word.parse().ok()).collect()
    };
    let bad = || wrong(table, "nbobjs", "the distances of all nodes from each other");
    let (known, values) = (numbers("indexes").ok_or_else(bad)?, numbers("u64values").ok_or_else(bad)?);
    let place = |id: &u16| known.iter().position(|known| *known == u32::from(*id));
    let cell = |from: &u16, to: &u16| values.get(place(from)? * known.len() + place(to)?).copied();
    let row = |from| ids.iter().map(|to| cell(from, to)).collect::<Option<Vec<u32>>>();
    ids.iter().map(row).collect::<Option<Vec<_>>>().ok_or_else(bad)
}
