//! Successive refinement of a program that runs, with the filters of the lab's monitor card
//! ([`homing_core::refine`]; Brock et al. 2001, sections 2 and 6): the first step counts all memory of the machine,
//! each further one the hottest granules of the last. The card knows physical addresses; page maps say whose they are.

use crate::observe::symbols::Tables;
use crate::regions;
use homing_core::refine::{Limits, Line, Refinement, Step, COARSEST};
use homing_linux::monitor_card::{MonitorCard, Region, COUNTERS, FILTERS};
use homing_linux::pagemap::PageMap;
use homing_linux::proc::{Pid, Proc};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Whose a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The process; the first by number where several map it.
    pub pid: i32,
    /// Virtual address of the line there.
    pub address: u64,
    /// The static data, or the mapping, that it belongs to.
    pub data: String,
}

/// A search.
#[derive(Debug)]
pub struct Search<'a> {
    card: &'a MonitorCard,
    refinement: Refinement,
    /// The first of the two counters of a filter over everything, behind those of the search.
    all: usize,
    /// The steps so far.
    pub steps: Vec<Step>,
}

impl<'a> Search<'a> {
    /// A search for the `top` hottest lines of `line` bytes in the machine's memory
    /// ([`homing_linux::physical::memory`]).
    pub fn new(card: &'a MonitorCard, memory: &[Range<u64>], line: u64, top: usize) -> Search<'a> {
        let all = COUNTERS - 2;
        let limits = Limits { filters: FILTERS - 1, counters: all as u64, line };
        let blocks = memory
            .iter()
            .flat_map(|range| (range.start & !(COARSEST - 1)..range.end).step_by(COARSEST as usize));
        let refinement = Refinement::new(&blocks.collect::<Vec<_>>(), limits, top);
        Search { card, refinement, all, steps: Vec::new() }
    }

    /// Counts for as long as `wait` takes. False if nothing is left to be counted, so that it did not wait.
    ///
    /// # Errors
    /// What `wait` gives.
    pub fn step(&mut self, wait: &mut dyn FnMut() -> io::Result<()>) -> io::Result<bool> {
        let Some(filters) = self.refinement.plan() else { return Ok(false) };
        let announced = self.refinement.runs_left();
        let granularity = filters.granularity();
        let region = |(start, bytes, granularity, base)| Region { start, bytes, granularity, types: 0, base };
        let ranges =
            filters.ranges().iter().map(|range| (range.start, range.bytes, granularity, range.base as usize));
        let everything = (0, u64::MAX, 1 << 63, self.all);
        let regions: Vec<Region> = ranges.chain([everything]).map(region).collect();
        self.card.count(&regions, COUNTERS);
        let waited = wait();
        self.card.stop();
        waited?;
        let mut counts = self.card.counters(COUNTERS);
        let looked_at = counts[self.all..].iter().sum();
        counts.truncate(filters.counters() as usize);
        self.refinement.take(&filters, &counts);
        let (counted, most) = (counts.iter().sum(), counts.iter().copied().max().unwrap_or(0));
        self.steps.push(Step { filters, announced, looked_at, counted, most });
        Ok(true)
    }

    /// The hottest lines so far, and what was not looked at line by line.
    pub fn found(&self) -> &Refinement {
        &self.refinement
    }
}

/// Whose these lines are, by physical address. Those of nobody, and of processes that have ended or may not be looked
/// at, are left out.
pub fn owners(proc: &Proc, pids: &[Pid], lines: &[Line]) -> BTreeMap<u64, Owner> {
    let wanted: BTreeSet<u64> = lines.iter().map(|line| line.address).collect();
    let mut owners: BTreeMap<u64, Owner> = BTreeMap::new();
    let mut tables = Tables::default();
    for &pid in pids {
        let (Ok(maps), Ok(pages)) = (proc.maps(pid), PageMap::open(pid)) else { continue };
        let symbols = tables.of(proc, pid, &maps, 0);
        let named = regions::of(&maps, 0);
        for region in &named {
            // A process that ends meanwhile has no more pages.
            let _ = resident(&pages, region.start..region.end, |page, frame| {
                for &line in wanted.range(frame..frame + PAGE) {
                    let address = page + (line - frame);
                    let data =
                        symbols.iter().find(|(_, symbol)| (symbol.start..symbol.end).contains(&address));
                    let data = data.map(|(file, symbol)| format!("{} ({file})", symbol.name));
                    let data = data.unwrap_or_else(|| region.name.clone());
                    owners.entry(line).or_insert(Owner { pid: pid.0, address, data });
                }
            });
        }
    }
    owners
}

/// Tells each page that is in memory, and its frame.
fn resident(map: &PageMap, range: Range<u64>, mut tell: impl FnMut(u64, u64)) -> io::Result<()> {
    let (mut at, mut pages) = (range.start, Vec::new());
    while at < range.end {
        pages.clear();
        at = map.present(at, range.end, &mut pages)?;
        for &page in &pages {
            if let Some(frame) = map.frame(page)? {
                tell(page, frame);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_linux::monitor_card::BYTES;
    use std::fs;
    use std::os::unix::fs::FileExt;

    /// A card whose counters are written by the test, as if the program went on in the same way.
    #[test]
    fn a_card_is_asked_for_ever_finer_granules() {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("bus/pci/devices/0000:00:04.0");
        fs::create_dir_all(&device).unwrap();
        for (name, text) in [("vendor", "0x1af4\n"), ("device", "0x1110\n"), ("enable", "0\n")] {
            fs::write(device.join(name), text).unwrap();
        }
        let file = device.join("resource2");
        let registers =
            fs::File::options().read(true).write(true).create(true).truncate(true).open(&file).unwrap();
        registers.set_len(BYTES).unwrap();
        registers.write_all_at(&0x1_434d_4f48_u64.to_le_bytes(), 0).unwrap();
        let card = MonitorCard::find(sys.path()).unwrap().unwrap();
        let word = |at: u64| {
            let mut bytes = [0; 8];
            registers.read_exact_at(&mut bytes, at).unwrap();
            u64::from_le_bytes(bytes)
        };
        // 1 GiB of memory from 1 MiB on; two hot lines and much that is hardly used.
        let (hot, warm) = (0x1234_5640_u64, 0x3000_0000_u64);
        let accesses = || {
            let cool = (0..2000u64).map(|i| (0x10_0000 + i * 0x7_f340, 1));
            cool.chain([(hot, 900), (hot + 64, 500), (warm, 300)])
        };
        let mut play = || {
            for filter in (0..32).filter(|filter| word(0x88) >> filter & 1 == 1) {
                let at = |place: u64| word(0x1000 + 64 * filter + 8 * place);
                let (start, bytes, granularity, base) = (at(0), at(1), at(2), at(4));
                for (address, count) in accesses().filter(|(address, _)| address.wrapping_sub(start) < bytes)
                {
                    let counter = 0x40_0000 + 8 * (base + (address - start) / granularity);
                    registers.write_all_at(&(word(counter) + count).to_le_bytes(), counter).unwrap();
                }
            }
            Ok(())
        };
        let mut search = Search::new(&card, &[0x1000..0x9_fc00, 0x10_0000..0x4000_0000], 64, 2);
        let mut steps = 0;
        while search.step(&mut play).unwrap() {
            steps += 1;
            assert!(steps < 10);
        }
        let lines = search.found().hottest();
        assert_eq!(lines, [Line { address: hot, count: 900 }, Line { address: hot + 64, count: 500 }]);
        assert!(search.found().is_done());
        assert!(search.steps.iter().all(|step| step.looked_at == 3700), "{:?}", search.steps);
        assert_eq!(search.steps[0].counted, 3700);
        assert_eq!(search.steps[0].filters.granularity(), COARSEST);
    }

    #[test]
    fn lines_belong_to_what_the_process_has_there() {
        static TABLE: [std::sync::atomic::AtomicU64; 4096] =
            [const { std::sync::atomic::AtomicU64::new(0) }; 4096];
        TABLE.iter().for_each(|word| word.store(1, std::sync::atomic::Ordering::Relaxed));
        let address = (TABLE.as_ptr() as u64 + 8192) & !63;
        let own = Pid(std::process::id() as i32);
        let frame = PageMap::open(own).unwrap().frame(address & !4095).unwrap().unwrap();
        if frame == 0 {
            eprintln!("SKIPPED: only root may see physical addresses");
            return;
        }
        let line = Line { address: frame + (address & 4095), count: 1 };
        let found = owners(&Proc::default(), &[own, Pid(i32::MAX)], &[line, Line { address: 64, count: 1 }]);
        assert_eq!(found.len(), 1, "{found:?}");
        let owner = &found[&line.address];
        assert_eq!((owner.pid, owner.address), (own.0, address));
        assert!(owner.data.contains("TABLE"), "{owner:?}");
    }
}
