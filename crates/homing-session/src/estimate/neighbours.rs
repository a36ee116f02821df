//! What the pages around say of who uses a page. Programs with large arrays take seconds to come round, so that each
//! page is met late after a scan, and a fault that comes late is little by itself ([`super::bursts`]). But such arrays
//! are divided in long stretches: where one node is all that was seen lately in the same 2 MiB, a page that it faults
//! at is taken for its own.

use super::changes::Era;
use ahash::AHashMap;
use homing_core::ids::Node;
use homing_core::process::ProcessId;

/// Base-2 logarithm of the bytes of a block: pages of one huge page.
const BLOCK_LOG2: u32 = 21;

/// Faults in a row by one node after which a block is taken to be its own: a sixteenth of a block's pages.
const ROW: u32 = 32;

/// The last faults in a block: by which node, and how many in a row.
#[derive(Clone, Copy, Debug)]
struct Row {
    node: Node,
    length: u32,
    era: Era,
}

/// The blocks in which pages faulted: 40 bytes for each 2 MiB.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    blocks: AHashMap<(ProcessId, u64), Row>,
}

impl Neighbours {
    /// Takes a fault. True if those before it in its block were all by the same node.
    pub(crate) fn fault(&mut self, process: ProcessId, address: u64, node: Node, era: Era) -> bool {
        let none = Row { node, length: 0, era };
        let row = self.blocks.entry((process, address >> BLOCK_LOG2)).or_insert(none);
        if (row.node, row.era) != (node, era) {
            *row = none;
        }
        let alone = row.length >= ROW;
        row.length = row.length.saturating_add(1);
        alone
    }

    /// Forgets the blocks whose memory is gone.
    pub(crate) fn forget(&mut self, gone: impl Fn(ProcessId, u64) -> bool) {
        self.blocks.retain(|&(process, block), _| !gone(process, block << BLOCK_LOG2));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_a_nodes_own_after_a_row_of_faults_and_until_another_comes() {
        let mut neighbours = Neighbours::default();
        let era = Era::default();
        let mut see = |address, node, era| neighbours.fault(ProcessId(1), address, Node(node), era);
        let alone: Vec<bool> = (0..u64::from(ROW) + 2).map(|page| see(page << 12, 2, era)).collect();
        assert_eq!(alone.iter().filter(|alone| **alone).count(), 2, "{alone:?}");
        assert!(!see(1 << BLOCK_LOG2, 2, era), "the next block is another");
        assert!(see(0, 2, era) && !see(0, 1, era) && !see(0, 2, era), "somebody else was there");
        for _ in 0..ROW {
            see(0, 2, era);
        }
        assert!(see(0, 2, era) && !see(0, 2, Era { nodes: 1, ..era }), "threads have moved since");
        assert_eq!(neighbours.blocks.len(), 2);
        neighbours.forget(|process, address| process == ProcessId(1) && address == 0);
        assert_eq!(neighbours.blocks.len(), 1);
    }
}
