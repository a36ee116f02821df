//! The lab's monitor card, as a program inside of the machine sees it: 32 filters that count the memory transactions of
//! the programs under observation, by physical address (docs/monitor-card.md has the registers).

use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes of the card's memory.
pub const BYTES: u64 = 16 << 20;
/// Filters.
pub const FILTERS: usize = 32;
/// Counters.
pub const COUNTERS: usize = 512 << 10;
/// Types of transactions, as bits of [`Region::types`].
pub const LOCAL: u64 = 0b0011;
/// See [`LOCAL`].
pub const REMOTE: u64 = 0b1100;

/// Vendor and device of the PCI device.
const DEVICE: [&str; 2] = ["0x1af4", "0x1110"];
/// What the register ID holds: "HOMC", version 1.
const ID: u64 = 0x0000_0001_434d_4f48;

/// Where registers are.
mod at {
    pub const CONTROL: usize = 0x20;
    pub const FILTERS_ON: usize = 0x88;
    pub const FILTER: usize = 0x1000;
    pub const COUNTER: usize = 0x40_0000;
    pub const THRESHOLD: usize = 0x80_0000;
}

/// Bits of CONTROL: count, and only what the observer takes for the program's.
const RUN: u64 = 1;
const PROGRAM: u64 = 4;

/// Memory that a filter counts, in granules with a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First physical address.
    pub start: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bytes to a counter.
    pub granularity: u64,
    /// Types of transactions that count ([`LOCAL`], [`REMOTE`]); 0 is all.
    pub types: u64,
    /// Its first counter.
    pub base: usize,
}

/// The card. Dropping it stops it.
#[derive(Debug)]
pub struct MonitorCard {
    memory: MmapRaw,
}

impl MonitorCard {
    /// The card of this machine, if it has one; `sys` is `/sys`. Other devices of its kind, which virtual machines have
    /// for memory that they share, are left as they are.
    ///
    /// # Errors
    /// If there is one that cannot be used: only root may.
    pub fn find(sys: &Path) -> io::Result<Option<MonitorCard>> {
        let Ok(devices) = fs::read_dir(sys.join("bus/pci/devices")) else { return Ok(None) };
        for device in devices.filter_map(|entry| Some(entry.ok()?.path())) {
            let is = |name: &str, value: &str| {
                fs::read_to_string(device.join(name)).is_ok_and(|text| text.trim() == value)
            };
            let memory = device.join("resource2");
            let fits = || memory.metadata().is_ok_and(|facts| facts.len() == BYTES);
            if is("vendor", DEVICE[0]) && is("device", DEVICE[1]) && fits() {
                fs::write(device.join("enable"), "1")?;
                if let Some(card) = MonitorCard::at(&memory)? {
                    return Ok(Some(card));
                }
            }
        }
        Ok(None)
    }

    /// The card whose memory this is; none if it is something else's.
    fn at(memory: &Path) -> io::Result<Option<MonitorCard>> {
        let file = OpenOptions::new().read(true).write(true).open(memory)?;
        let memory = MmapOptions::new().len(BYTES as usize).map_raw(&file)?;
        // Who is no card is not dropped as one either: that writes.
        Ok((word(&memory, 0).load(Relaxed) == ID).then(|| MonitorCard { memory }))
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        word(&self.memory, at)
    }

    fn counter(&self, counter: usize) -> &AtomicU64 {
        assert!(counter < COUNTERS);
        self.word(at::COUNTER + 8 * counter)
    }

    /// Counts from now on what the program does in these regions, from 0. `counters` are in use.
    ///
    /// # Panics
    /// With more regions than [`FILTERS`], or more counters than [`COUNTERS`].
    pub fn count(&self, regions: &[Region], counters: usize) {
        assert!(regions.len() <= FILTERS && counters <= COUNTERS);
        self.stop();
        for counter in 0..counters {
            self.counter(counter).store(0, Relaxed);
            self.word(at::THRESHOLD + 8 * counter).store(0, Relaxed);
        }
        for (number, region) in regions.iter().enumerate() {
            let values = [region.start, region.bytes, region.granularity, region.types, region.base as u64];
            // Requesters and homes: all.
            for (place, value) in values.into_iter().chain([0, 0]).enumerate() {
                self.word(at::FILTER + 64 * number + 8 * place).store(value, Relaxed);
            }
        }
        self.word(at::FILTERS_ON).store((1 << regions.len()) - 1, Relaxed);
        self.word(at::CONTROL).store(RUN | PROGRAM, Relaxed);
    }

    /// Stops it. Counters stay.
    pub fn stop(&self) {
        self.word(at::CONTROL).store(0, Relaxed);
    }

    /// The first counters.
    ///
    /// # Panics
    /// With more than [`COUNTERS`].
    pub fn counters(&self, counters: usize) -> Vec<u64> {
        (0..counters).map(|counter| self.counter(counter).load(Relaxed)).collect()
    }

    /// Counts all local and all remote transactions from now on; [`MonitorCard::local_and_remote`] has them.
    pub fn count_by_distance(&self) {
        let all = Region { start: 0, bytes: u64::MAX, granularity: 1 << 63, types: LOCAL, base: 0 };
        self.count(&[all, Region { types: REMOTE, base: 2, ..all }], 4);
    }

    /// What was counted since then: transactions with memory of the CPU's own node, and with that of others.
    pub fn local_and_remote(&self) -> (u64, u64) {
        let counters = self.counters(4);
        (counters[0] + counters[1], counters[2] + counters[3])
    }
}

fn word(memory: &MmapRaw, at: usize) -> &AtomicU64 {
    assert!(at.is_multiple_of(8) && at + 8 <= memory.len());
    // SAFETY: in bounds and aligned (checked above; the mapping is page-aligned) and lives as long as `memory`.
    unsafe { &*memory.as_mut_ptr().add(at).cast::<AtomicU64>() }
}

impl Drop for MonitorCard {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    /// A machine with another device, and one that may be the card.
    fn sys(id: u64, bytes: u64) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (name, device) in [("0000:00:01.0", "0x1000"), ("0000:00:02.0", DEVICE[1])] {
            let folder = sys.path().join("bus/pci/devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("vendor"), format!("{}\n", DEVICE[0])).unwrap();
            fs::write(folder.join("device"), format!("{device}\n")).unwrap();
            fs::write(folder.join("enable"), "0\n").unwrap();
            let memory = fs::File::create(folder.join("resource2")).unwrap();
            memory.set_len(bytes).unwrap();
            memory.write_all_at(&id.to_le_bytes(), 0).unwrap();
            memory.write_all_at(&[0x55; 8], at::CONTROL as u64).unwrap();
        }
        sys
    }

    #[test]
    fn the_card_is_found_by_what_it_is() {
        let found = |id, bytes| MonitorCard::find(sys(id, bytes).path()).unwrap().is_some();
        assert!(found(ID, BYTES) && !found(ID + 1, BYTES) && !found(ID, 4096));
        assert!(MonitorCard::find(Path::new("/nonexistent")).unwrap().is_none());
        // Memory that machines share is not written to.
        let other = sys(ID + 1, BYTES);
        let memory = || fs::read(other.path().join("bus/pci/devices/0000:00:02.0/resource2")).unwrap();
        let before = memory();
        assert!(MonitorCard::find(other.path()).unwrap().is_none() && memory() == before);
    }

    #[test]
    fn registers_are_where_the_plugin_looks_for_them() {
        let sys = sys(ID, BYTES);
        let card = MonitorCard::find(sys.path()).unwrap().unwrap();
        let device = sys.path().join("bus/pci/devices/0000:00:02.0");
        assert_eq!(fs::read_to_string(device.join("enable")).unwrap(), "1");
        let registers = fs::File::open(device.join("resource2")).unwrap();
        let word = |at: u64| {
            let mut bytes = [0; 8];
            registers.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        card.counter(7).store(9, Relaxed);
        let region = Region { start: 0x10_0000, bytes: 8192, granularity: 64, types: REMOTE, base: 5 };
        card.count(&[region, Region { base: 100, ..region }], 8);
        assert_eq!((word(0x20), word(0x88), card.counters(8)), (5, 3, vec![0; 8]));
        let filter: Vec<u64> = (0..7).map(|place| word(0x1040 + 8 * place)).collect();
        assert_eq!(filter, [0x10_0000, 8192, 64, 12, 100, 0, 0]);
        card.counter(6).store(3, Relaxed);
        assert_eq!(card.counters(8)[6], word(0x40_0030));
        card.count_by_distance();
        for (counter, value) in [10, 20, 1, 2].into_iter().enumerate() {
            card.counter(counter).store(value, Relaxed);
        }
        assert_eq!(card.local_and_remote(), (30, 3));
        drop(card);
        assert_eq!(word(0x20), 0);
    }
}
