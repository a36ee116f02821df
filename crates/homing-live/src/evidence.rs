//! What a session saw of pages, and what else the kernel says of its processes: the facts that `homing why` judges a
//! running process by. It looks only; a process that ends meanwhile is kept as it was last seen.

use crate::host::Host;
use crate::observe::symbols::Tables;
use crate::session::Session;
use crate::targets::Process;
use homing_core::ids::Node;
use homing_core::process::{find, Region};
use homing_core::why::process::{Balancing, Bound, Memory, ProcessFacts, ThreadFacts};
use homing_core::why::samples::Sampled;
use homing_linux::proc::numa_maps::Range;
use homing_linux::proc::symbols::Symbol;
use homing_linux::proc::vmstat::VmStat;
use homing_linux::proc::{Pid, Proc, Tid};
use homing_linux::{clock, faults};
use homing_session::pages::Entry;
use homing_session::thinning::Part;
use homing_session::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What was seen so far.
pub struct Evidence {
    begun: Instant,
    vmstat: Option<VmStat>,
    threads: BTreeMap<(Pid, Tid), Followed>,
    processes: BTreeMap<Pid, Seen>,
    names: Names,
    tables: Tables,
    /// Looks of the session that are known here.
    looks: u64,
}

/// A thread.
#[derive(Debug)]
struct Followed {
    node: Option<Node>,
    first_ticks: u64,
    last_ticks: u64,
    changes: u64,
}

/// A process.
struct Seen {
    start_ticks: u64,
    command: String,
    memory: Option<Memory>,
    /// All of it is pinned.
    all_held: bool,
    /// First addresses of mappings, and whether they are of hugetlbfs.
    huge: Vec<(u64, bool)>,
    symbols: Vec<(String, Symbol)>,
    pages: Vec<Sampled>,
    /// Pages with samples of which the kernel does not say where they are.
    nowhere: u64,
}

/// Names of areas, each with its number.
#[derive(Default)]
struct Names(BTreeMap<String, i32>);

impl Names {
    fn number(&mut self, name: String) -> i32 {
        let next = self.0.len() as i32;
        *self.0.entry(name).or_insert(next)
    }
}

/// All that was seen, when it is over.
pub struct Found {
    /// The pages with samples.
    pub pages: Vec<Sampled>,
    /// The names of areas, by number.
    pub names: Vec<String>,
    /// Pages with samples of which the kernel did not say where they are.
    pub nowhere: u64,
    /// What was looked at,
    pub part: Part,
    /// ... and the samples that were left out for that.
    pub thinned: u64,
    /// Processes that ended, or executed another program, while others went on.
    pub ended: BTreeSet<Pid>,
    /// Threads that were seen.
    pub threads: u64,
    /// Facts of the processes, but for what their pages could save.
    pub process: ProcessFacts,
}

impl Evidence {
    /// Begins to look.
    pub fn begin() -> Evidence {
        Evidence {
            begun: Instant::now(),
            vmstat: Proc::default().vmstat().ok(),
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            names: Names::default(),
            tables: Tables::default(),
            looks: 0,
        }
    }

    /// Takes what the session's last look at processes found, if that is new. The last time it looks once more itself,
    /// and takes the pages: naming them costs more than all else.
    pub fn look(&mut self, session: &Session<'_>, last: bool) {
        let targets = session.targets();
        if !last && targets.looks() == self.looks {
            return;
        }
        self.looks = targets.looks();
        let ours = || targets.processes().iter().filter(|(_, process)| process.ours);
        for (&pid, process) in ours() {
            self.meet(session, pid, process);
            for (&tid, task) in &process.tasks {
                self.follow((pid, tid), task.node, task.cpu_ticks);
            }
        }
        if last {
            ours().for_each(|(&pid, _)| self.look_at_threads(session, pid));
            self.take_pages(session);
        }
    }

    /// Reads what is read of a process once.
    fn meet(&mut self, session: &Session<'_>, pid: Pid, process: &Process) {
        let same = |seen: &Seen| seen.start_ticks == process.start_ticks && seen.command == process.command;
        if self.processes.get(&pid).is_some_and(same) {
            return;
        }
        let proc = session.targets().proc();
        let symbols = self.tables.of(proc, pid, &process.maps, 0);
        self.processes.insert(pid, Seen::new(proc, pid, process, session.host(), symbols));
    }

    fn look_at_threads(&mut self, session: &Session<'_>, pid: Pid) {
        let proc = session.targets().proc();
        for tid in proc.tasks(pid).unwrap_or_default() {
            let Ok(stat) = proc.stat(pid, tid) else { continue };
            self.follow((pid, tid), session.host().node_of_cpu(stat.processor), stat.cpu_ticks);
        }
    }

    fn follow(&mut self, thread: (Pid, Tid), node: Option<Node>, ticks: u64) {
        let new = Followed { node, first_ticks: ticks, last_ticks: ticks, changes: 0 };
        let known = self.threads.entry(thread).or_insert(new);
        // With less CPU time than before it is another one with the same number.
        if ticks >= known.last_ticks {
            known.changes += u64::from(known.node != node);
            (known.node, known.last_ticks) = (node, ticks);
        }
    }

    fn take_pages(&mut self, session: &Session<'_>) {
        let used = |entry: &&Entry| entry.seen.iter().any(|&count| count > 0);
        let mut pages: BTreeMap<Pid, Vec<&Entry>> = BTreeMap::new();
        for entry in session.known().filter(used) {
            pages.entry(Pid(entry.process.0)).or_default().push(entry);
        }
        let here = pages.into_iter().map(|(pid, entries)| (pid, entries, session.regions(pid)));
        let gone = session.departed().iter();
        let gone = gone.map(|one| (one.pid, one.pages.iter().filter(used).collect(), &one.regions[..]));
        let several = self.processes.len() > 1;
        let stands_for = match session.part() {
            Part::Pages { one_of } => one_of,
            Part::Samples { .. } => 1,
        };
        // Who has executed another program is judged by that: it comes after what has ended.
        for (pid, entries, regions) in gone.chain(here) {
            if let Some(seen) = self.processes.get_mut(&pid) {
                seen.take(pid, entries, regions, &mut self.names, several);
                seen.stand_for(stands_for);
            }
        }
    }

    /// Sums up.
    pub fn found(self, session: &Session<'_>) -> Found {
        let seconds = self.begun.elapsed().as_secs_f64();
        let threads: Vec<ThreadFacts> = self.threads.values().map(Followed::facts).collect();
        let memories: Vec<&Memory> =
            self.processes.values().filter_map(|seen| seen.memory.as_ref()).collect();
        let memory = Memory {
            bytes: memories.iter().map(|memory| memory.bytes).sum(),
            bound: memories.iter().flat_map(|memory| memory.bound.clone()).collect(),
        };
        // Where the source scans, hint faults are its own.
        let before = self.vmstat.filter(|_| !session.source().scans);
        let now = session.targets().proc().vmstat().ok();
        let process = ProcessFacts {
            seconds,
            local: session.account().total.local,
            nonlocal: session.account().total.remote,
            cpu_seconds: (!threads.is_empty()).then(|| threads.iter().map(|thread| thread.cpu_seconds).sum()),
            memory: (!memories.is_empty()).then_some(memory),
            balancing: before.zip(now).and_then(|(before, now)| balancing(&before, &now)),
            fault_seconds: faults::minor().ok().map(|time| time.as_secs_f64()),
            at_most: None,
            held_share: None,
            threads: (!threads.is_empty()).then_some(threads),
        };
        let mut names = vec![String::new(); self.names.0.len()];
        self.names.0.into_iter().for_each(|(name, number)| names[number as usize] = name);
        Found {
            names,
            part: session.part(),
            thinned: session.account().thinned,
            nowhere: self.processes.values().map(|seen| seen.nowhere).sum(),
            ended: session.departed().iter().map(|one| one.pid).collect(),
            threads: self.threads.len() as u64,
            pages: self.processes.into_values().flat_map(|seen| seen.pages).collect(),
            process,
        }
    }
}

/// What balancing did between two times.
fn balancing(before: &VmStat, now: &VmStat) -> Option<Balancing> {
    Some(Balancing {
        hint_faults: now.hint_faults?.saturating_sub(before.hint_faults?),
        migrated: now.balanced?.saturating_sub(before.balanced?),
    })
}

impl Followed {
    fn facts(&self) -> ThreadFacts {
        let used = clock::ticks(self.last_ticks.saturating_sub(self.first_ticks));
        ThreadFacts { cpu_seconds: used.as_secs_f64(), changes: self.changes }
    }
}

impl Seen {
    /// What the kernel says of a process besides its pages.
    fn new(
        proc: &Proc,
        pid: Pid,
        process: &Process,
        host: &Host,
        mut symbols: Vec<(String, Symbol)>,
    ) -> Seen {
        symbols.sort_by_key(|(_, symbol)| symbol.start);
        let tasks = proc.tasks(pid).unwrap_or_default();
        let confined: Vec<_> = tasks.iter().filter_map(|&tid| proc.confinement(pid, tid).ok()).collect();
        let node = |cpu: &u32| host.node_of_cpu(*cpu).map(|node| host.kernel_id(node));
        let cpus: BTreeSet<u32> = confined.iter().flat_map(|all| all.cpus.iter().filter_map(node)).collect();
        let ranges = proc.numa_maps(pid).ok();
        let all_held = confined.first().is_some_and(|process| is_held(process.pinned, process.resident));
        let memories = confined.first().map(|process| process.memories.clone()).unwrap_or_default();
        let huge = ranges.iter().flatten().map(|range| (range.start, range.page_bytes > 4096)).collect();
        let cpus: Vec<u32> = cpus.into_iter().collect();
        let memory = ranges.map(|ranges| memory(&ranges, &memories, &cpus));
        let (start_ticks, command) = (process.start_ticks, process.command.clone());
        Seen { start_ticks, command, memory, all_held, huge, symbols, pages: Vec::new(), nowhere: 0 }
    }

    /// Takes the pages, as they were last known.
    fn take(
        &mut self,
        pid: Pid,
        mut entries: Vec<&Entry>,
        regions: &[Region],
        names: &mut Names,
        several: bool,
    ) {
        self.nowhere = 0;
        entries.sort_by_key(|entry| entry.address);
        let mut pages = Vec::with_capacity(entries.len());
        // Neighbours mostly have the same name.
        let mut before: (Option<&str>, i32) = (None, -1);
        for entry in entries {
            let Some(at) = entry.at else {
                self.nowhere += 1;
                continue;
            };
            let name = name_of(entry.address, &self.symbols, regions);
            if name != before.0 {
                let full = name.map(|name| if several { format!("{pid}: {name}") } else { name.to_owned() });
                before = (name, full.map_or(-1, |name| names.number(name)));
            }
            pages.push(Sampled {
                address: entry.address,
                bytes: entry.bytes,
                at,
                seen: entry.seen.to_vec(),
                weights: Vec::new(),
                area: before.1,
                held: entry.unmovable() || self.all_held || is_huge(&self.huge, entry.address),
                stands_for: 1,
            });
        }
        self.pages = pages;
    }

    /// One small page in this number was followed. Any access to a huge one may have brought it in: it stands for
    /// itself.
    fn stand_for(&mut self, number: u64) {
        let small = self.pages.iter_mut().filter(|page| page.bytes == PAGE);
        small.for_each(|page| page.stands_for = number);
    }
}

/// What binds the memory of a process.
fn memory(ranges: &[Range], cpuset: &[u32], cpus: &[u32]) -> Memory {
    let bytes = |range: &Range| range.bytes().map(|(_, bytes)| bytes).sum::<u64>();
    let all = ranges.iter().map(bytes).sum();
    let policies = ranges.iter().filter_map(|range| {
        let (by, memories) = (range.policy.clone(), range.bound_to()?);
        Some(Bound { by, memories, cpus: cpus.to_vec(), bytes: bytes(range) })
    });
    let mut bound: Vec<Bound> = Vec::new();
    for one in policies {
        match bound.iter_mut().find(|known| known.by == one.by) {
            Some(known) => known.bytes += one.bytes,
            None => bound.push(one),
        }
    }
    if !cpuset.is_empty() {
        let list = cpuset.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let by = format!("cpuset.mems {list}");
        bound.push(Bound { by, memories: cpuset.to_vec(), cpus: cpus.to_vec(), bytes: all });
    }
    Memory { bytes: all, bound }
}

/// Whether nearly all of the memory of a process is pinned. Locked memory is not: it stays in memory, but may move.
fn is_held(pinned: u64, resident: u64) -> bool {
    pinned > 0 && pinned >= resident / 10 * 9
}

/// Whether the mapping that holds an address is of hugetlbfs.
fn is_huge(mappings: &[(u64, bool)], address: u64) -> bool {
    let after = mappings.partition_point(|(start, _)| *start <= address);
    mappings[..after].last().is_some_and(|(_, huge)| *huge)
}

/// The data symbol that most of a page's start belongs to, else the region.
fn name_of<'a>(address: u64, symbols: &'a [(String, Symbol)], regions: &'a [Region]) -> Option<&'a str> {
    // A symbol may begin within the page.
    let after = symbols.partition_point(|(_, symbol)| symbol.start < address + 4096);
    match symbols[..after].last() {
        Some((_, symbol)) if symbol.end > address => Some(&symbol.name),
        _ => find(regions, address).map(|region| region.name.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, start: u64, end: u64) -> (String, Symbol) {
        ("app".into(), Symbol { name: name.into(), start, end })
    }

    #[test]
    fn memory_is_held_if_nearly_all_of_it_is_pinned() {
        assert_eq!([is_held(0, 0), is_held(89, 100), is_held(90, 100)], [false, false, true]);
    }

    #[test]
    fn pages_are_named_after_variables_else_regions() {
        let symbols = [symbol("first", 0x1800, 0x3000), symbol("second", 0x5000, 0x9000)];
        let text = "1000-a000 rw-p 0 fd:01 7 /bin/app\nb000-c000 rw-p 0 00:00 0 [heap]";
        let maps: Vec<_> =
            text.lines().map(|line| homing_linux::proc::maps::Mapping::parse(line).unwrap()).collect();
        let regions = crate::regions::of(&maps, 0);
        let name = |address| name_of(address, &symbols, &regions);
        assert_eq!((name(0x1000), name(0x2000)), (Some("first"), Some("first")));
        assert_eq!((name(0x3000), name(0x8000)), (Some("app#0"), Some("second")));
        assert_eq!((name(0xb000), name(0xd000)), (Some("heap#0"), None));
    }

    #[test]
    fn policies_and_the_cpuset_say_what_binds_memory() {
        let text = ["1000 bind:0 anon=3 N0=3", "9000 default anon=1 N1=1", "a000 bind:0 anon=1 N0=1"];
        let ranges: Vec<Range> = text.iter().map(|line| Range::parse(line).unwrap()).collect();
        let found = memory(&ranges, &[0, 1], &[1]);
        assert_eq!((found.bytes, found.bound.len()), (5 * 4096, 2));
        assert_eq!((found.bound[0].by.as_str(), found.bound[0].bytes), ("bind:0", 4 * 4096));
        assert_eq!((found.bound[1].by.as_str(), found.bound[1].bytes), ("cpuset.mems 0,1", 5 * 4096));
        assert_eq!(memory(&ranges[1..2], &[], &[1]).bound, []);
    }

    #[test]
    fn huge_pages_are_known_by_their_mapping() {
        let mappings = [(0x1000, false), (0x20_0000, true)];
        assert_eq!((is_huge(&mappings, 0x1000), is_huge(&mappings, 0x30_0000)), (false, true));
        assert!(!is_huge(&mappings, 0));
    }

    #[test]
    fn balancing_is_what_it_did_meanwhile() {
        let stat = |faults, moved| VmStat { hint_faults: faults, balanced: moved, ..VmStat::default() };
        let did = balancing(&stat(Some(5), Some(1)), &stat(Some(9), Some(4)));
        assert_eq!(did, Some(Balancing { hint_faults: 4, migrated: 3 }));
        assert_eq!(balancing(&stat(None, Some(1)), &stat(Some(9), Some(4))), None);
    }
}
