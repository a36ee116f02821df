//! What a file says of the machine and of itself: the features of its header.

use super::bytes::{text, Bytes};
use super::event::{Event, Events};

/// `HEADER_*` of tools/perf/util/header.h.
mod feature {
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const CPUDESC: u32 = 8;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const NUMA_TOPOLOGY: u32 = 14;
    pub const MEM_TOPOLOGY: u32 = 22;
}

/// More nodes, and CPUs of higher numbers, no kernel has.
const NODES: usize = 1024;
const CPUS: u32 = 1 << 16;

/// What a file says of the machine and of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The name of the machine.
    pub host: Option<String>,
    /// The version of perf.
    pub version: Option<String>,
    /// The architecture, as `uname -m` has it.
    pub architecture: Option<String>,
    /// The processor.
    pub processor: Option<String>,
    /// The command line of perf.
    pub command: Vec<String>,
    /// Memory nodes, with the kernel's numbers, rising.
    pub nodes: Vec<FileNode>,
    /// Where physical memory is.
    pub memory: Option<Memory>,
    /// Files with their build-ids.
    pub build_ids: Vec<(String, Vec<u8>)>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNode {
    /// The kernel's number.
    pub number: u32,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Its CPUs.
    pub cpus: Vec<u32>,
}

/// Which node has which blocks of physical memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    block: u64,
    /// The kernel's number of a node, and a bit for each block.
    nodes: Vec<(u32, Vec<u64>)>,
}

impl Memory {
    /// The kernel's number of the node that has a physical address.
    pub fn node_of(&self, physical: u64) -> Option<u32> {
        let block = physical / self.block;
        let has = |bits: &[u64]| {
            let word = usize::try_from(block / 64).ok().and_then(|word| bits.get(word));
            word.is_some_and(|word| word >> (block % 64) & 1 == 1)
        };
        self.nodes.iter().find(|(_, bits)| has(bits)).map(|(node, _)| *node)
    }
}

impl Facts {
    /// Takes a feature; one that cannot be read is left out.
    pub(super) fn feature(&mut self, number: u32, section: &[u8], events: &mut Events) {
        let mut at = Bytes(section);
        match number {
            feature::HOSTNAME => self.host = at.string(),
            feature::VERSION => self.version = at.string(),
            feature::ARCH => self.architecture = at.string(),
            feature::CPUDESC => self.processor = at.string(),
            feature::CMDLINE => self.command = strings(at),
            feature::NUMA_TOPOLOGY => self.nodes = nodes(at).unwrap_or_default(),
            feature::MEM_TOPOLOGY => self.memory = memory(at),
            feature::BUILD_ID => self.build_ids(at),
            feature::EVENT_DESC => drop(describe(at, events)),
            _ => {}
        }
    }

    fn build_ids(&mut self, mut at: Bytes<'_>) {
        while let Some(rest) = at.0.get(6..8) {
            let size = u16::from_le_bytes([rest[0], rest[1]]);
            let Some(event) = at.take(size.into()).filter(|event| !event.is_empty()) else { return };
            self.build_ids.extend(build_id(event));
        }
    }

    /// Takes a `struct build_id_event`, header and all.
    pub(super) fn build_id(&mut self, event: &[u8]) {
        self.build_ids.extend(build_id(event));
    }
}

/// The size of the build-id stands behind it.
const SIZED: u16 = 1 << 15;

fn build_id(event: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut at = Bytes(event);
    at.skip(4)?;
    let misc = at.u16()?;
    at.skip(2 + 4)?;
    let id = at.take(24)?;
    let size = if misc & SIZED != 0 { usize::from(id[20]).min(20) } else { 20 };
    Some((text(at.0), id[..size].to_vec()))
}

fn strings(mut at: Bytes<'_>) -> Vec<String> {
    let Some(number) = at.u32() else { return Vec::new() };
    (0..number).map_while(|_| at.string()).collect()
}

fn nodes(mut at: Bytes<'_>) -> Option<Vec<FileNode>> {
    let number = at.u32()? as usize;
    let (mut nodes, mut room) = (Vec::new(), CPUS as usize);
    for _ in 0..number.min(NODES) {
        let number = at.u32()?;
        let (bytes, _free) = (at.u64()?, at.u64()?);
        let cpus = list(&at.string()?)?;
        room = room.checked_sub(cpus.len())?;
        nodes.push(FileNode { number, bytes: bytes.saturating_mul(1024), cpus });
    }
    nodes.sort_by_key(|node: &FileNode| node.number);
    nodes.dedup_by_key(|node| node.number);
    Some(nodes)
}

/// A list of CPUs as the kernel writes it: `0-3,8`.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= CPUS || all.len() + (last - first) as usize >= CPUS as usize {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

/// tools/perf/util/header.c, `write_mem_topology`.
fn memory(mut at: Bytes<'_>) -> Option<Memory> {
    let (version, block, number) = (at.u64()?, at.u64()?, at.u64()?);
    if version != 1 || block == 0 {
        return None;
    }
    let mut nodes = Vec::new();
    for _ in 0..number.min(NODES as u64) {
        let (node, _bits, bits) = (at.u64()?, at.u64()?, at.u64()?);
        let mut words = Bytes(at.take(bits.div_ceil(64).checked_mul(8)?)?);
        nodes.push((node as u32, std::iter::from_fn(|| words.u64()).collect()));
    }
    Some(Memory { block, nodes })
}

/// Names the events, and adds those that no other part of the file has.
fn describe(mut at: Bytes<'_>, events: &mut Events) -> Option<()> {
    let (number, attr_bytes) = at.pair()?;
    for number in 0..number as usize {
        let event = Event::parse(at.take(attr_bytes.into())?)?;
        let ids = at.u32()?;
        let name = at.string()?;
        let ids = Bytes(at.take(u64::from(ids) * 8)?);
        if events.all.len() <= number {
            events.add(event, ids);
        }
        let first = { ids }.u64();
        events.name(first, Some(number), name);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_bounded() {
        assert_eq!(list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(list(""), Some(Vec::new()));
        for bad in ["x", "3-1", "0-4294967295", "70000", &"0-65535,".repeat(3)] {
            assert_eq!(list(bad), None, "{bad}");
        }
    }
}
