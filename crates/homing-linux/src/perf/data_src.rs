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
    /// By something beyond the last cache of the node; the sample does not say whose memory.
    Beyond,
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
    /// Found the line modified in another cache (HITM).
    pub modified: bool,
}

impl DataSource {
    /// Decodes. The new fields (`mem_lvl_num`, `mem_remote`) count where they say something, else the old `mem_lvl`.
    pub fn decode(bits: u64) -> DataSource {
        let field = |shift: u32, width: u32| bits >> shift & ((1 << width) - 1);
        let (operation, level, dtlb) = (field(0, 5), field(5, 14), field(26, 7));
        // A remote core of the same node (PERF_MEM_HOPS_0) is not far.
        let (number, remote) = (field(33, 4), field(37, 1) == 1 && field(43, 3) != 1);
        let served = match number {
            CACHES_FROM..=CACHES_TO | ANY_CACHE | FILL_BUFFER if !remote => Served::Cache,
            CACHES_FROM..=CACHES_TO | ANY_CACHE => Served::RemoteCache,
            0xd if !remote => Served::LocalMemory,
            0xd => Served::RemoteMemory,
            9 | 0xe => Served::FarMemory,
            _ => old_level(level, remote),
        };
        DataSource {
            served,
            store: operation & 4 != 0,
            walked: dtlb & 0x30 != 0 && dtlb & 2 == 0,
            modified: field(19, 5) & 0x10 != 0,
        }
    }

    /// True if memory or another node's cache served it: what placement of pages decides.
    pub fn left_the_node_or_missed(self) -> bool {
        matches!(
            self.served,
            Served::LocalMemory
                | Served::RemoteMemory
                | Served::RemoteCache
                | Served::FarMemory
                | Served::Beyond
        )
    }
}

/// `PERF_MEM_LVLNUM_*`: L1 to L4, the middle ones of Arm, any cache, and the line fill buffers.
const CACHES_FROM: u64 = 1;
const CACHES_TO: u64 = 6;
const ANY_CACHE: u64 = 0xb;
const FILL_BUFFER: u64 = 0xc;

/// `PERF_MEM_LVL_*`, bit by bit.
fn old_level(level: u64, remote: bool) -> Served {
    const MISS: u64 = 0x04;
    const LAST: u64 = 0x40;
    const CACHES: u64 = 0x08 | 0x10 | 0x20 | LAST;
    match level {
        bits if bits & 0x80 != 0 => Served::LocalMemory,
        bits if bits & (0x100 | 0x200) != 0 => Served::RemoteMemory,
        bits if bits & (0x400 | 0x800) != 0 => Served::RemoteCache,
        // What missed the last cache (Arm's SPE says no more); what missed a nearer one may have hit the next.
        bits if bits & MISS != 0 && bits & LAST != 0 => {
            if remote {
                Served::RemoteCache
            } else {
                Served::Beyond
            }
        }
        bits if bits & MISS != 0 => Served::Unknown,
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
            (4 | 0xb << 33 | 1 << 37, Served::RemoteCache, true), // any cache, remote
            (2 | 0xb << 33 | 1 << 37 | 1 << 43, Served::Cache, false), // a remote core of the same node
            (2 | 0xb << 33, Served::Cache, false),
            (2 | 0xa << 33, Served::Unknown, false), // I/O
            (2 | 0x44 << 5, Served::Beyond, false),  // SPE: a miss of the last cache
            (4 | 0x0c << 5, Served::Unknown, true),  // PEBS: a store that missed L1
            (2 | 9 << 33, Served::FarMemory, false), // CXL
            (1, Served::Unknown, false),
        ];
        for (bits, served, store) in cases {
            let source = DataSource::decode(bits);
            assert_eq!((source.served, source.store), (served, store), "{bits:#x}");
        }
        assert!(DataSource::decode(2 | 0x102 << 5).left_the_node_or_missed());
        assert!(!DataSource::decode(0x5080144).left_the_node_or_missed());
        assert!(DataSource::decode(2 | 0x10 << 19).modified && !DataSource::decode(2 | 8 << 19).modified);
    }

    #[test]
    fn walks_are_told_from_hits() {
        let with_tlb = |bits: u64| DataSource::decode(2 | bits << 26).walked;
        assert!(with_tlb(0x10 | 4) && with_tlb(0x20));
        assert!(!with_tlb(2 | 8) && !with_tlb(2 | 0x10));
    }
}
