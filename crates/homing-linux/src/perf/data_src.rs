//! What a memory sample says the memory system did: `union perf_mem_data_src` of linux/perf_event.h, the same for PEBS,
//! IBS and SPE.

/// Where an access was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// By a cache of the core or of the node.
    Cache,
    /// By this node's memory.
    LocalMemory,
    /// By another node's memory.
    RemoteMemory,
    /// By another node's cache.
    RemoteCache,
    /// By persistent or CXL memory.
    FarMemory,
    /// The sample does not say.
    Unknown,
}

/// A decoded data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSource {
    /// Where it was served.
    pub served: Served,
    /// A store (false: a load, or not said).
    pub store: bool,
    /// Missed the TLBs and was walked.
    pub walked: bool,
}

impl DataSource {
    /// Decodes. The new fields (`mem_lvl_num`, `mem_remote`) count where they say something, else the old `mem_lvl`.
    pub fn decode(bits: u64) -> DataSource {
        let field = |shift: u32, width: u32| bits >> shift & ((1 << width) - 1);
        let (operation, level, dtlb) = (field(0, 5), field(5, 14), field(26, 7));
        let (number, remote) = (field(33, 4), field(37, 1) == 1);
        let served = match number {
            1..=4 | 8 | 0xa | 0xc if !remote => Served::Cache,
            1..=4 | 8 | 0xa => Served::RemoteCache,
            0xd if !remote => Served::LocalMemory,
            0xd => Served::RemoteMemory,
            9 | 0xe => Served::FarMemory,
            _ => old_level(level),
        };
        DataSource { served, store: operation & 4 != 0, walked: dtlb & 0x30 != 0 && dtlb & 2 == 0 }
    }

    /// True if memory or another node's cache served it: what placement of pages decides.
    pub fn left_the_node_or_missed(self) -> bool {
        matches!(
            self.served,
            Served::LocalMemory | Served::RemoteMemory | Served::RemoteCache | Served::FarMemory
        )
    }
}

/// `PERF_MEM_LVL_*`, bit by bit.
fn old_level(level: u64) -> Served {
    const CACHES: u64 = 0x08 | 0x10 | 0x20 | 0x40;
    match level {
        bits if bits & 0x80 != 0 => Served::LocalMemory,
        bits if bits & (0x100 | 0x200) != 0 => Served::RemoteMemory,
        bits if bits & (0x400 | 0x800) != 0 => Served::RemoteCache,
        bits if bits & CACHES != 0 => Served::Cache,
        _ => Served::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values as `perf mem` and `perf script -F data_src` print them on real machines, with their meaning.
    #[test]
    fn values_seen_on_machines_decode() {
        let cases = [
            (0x5080144, Served::Cache, true),         // L1 hit, store, TLB hit
            (0x6a100142, Served::Cache, false),       // old level L1 hit, load
            (0x68101042, Served::LocalMemory, false), // local RAM hit (mem_lvl 0x82)
            (0x6a02_2042_u64 | 1 << 33, Served::Cache, false),
            (2 | 0xd << 33, Served::LocalMemory, false), // IBS: lvl_num RAM
            (2 | 0xd << 33 | 1 << 37, Served::RemoteMemory, false),
            (4 | 0xa << 33 | 1 << 37, Served::RemoteCache, true),
            (2 | 9 << 33, Served::FarMemory, false), // CXL
            (1, Served::Unknown, false),
        ];
        for (bits, served, store) in cases {
            let source = DataSource::decode(bits);
            assert_eq!((source.served, source.store), (served, store), "{bits:#x}");
        }
        assert!(DataSource::decode(2 | 0x102 << 5).left_the_node_or_missed());
        assert!(!DataSource::decode(0x5080144).left_the_node_or_missed());
    }

    #[test]
    fn walks_are_told_from_hits() {
        let with_tlb = |bits: u64| DataSource::decode(2 | bits << 26).walked;
        assert!(with_tlb(0x10 | 4) && with_tlb(0x20));
        assert!(!with_tlb(2 | 8) && !with_tlb(2 | 0x10));
    }
}
