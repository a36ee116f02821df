//! Who maps what the processes share: memory moves for all who map it, so it moves only where all of them belong to the
//! session. The others are found in `/proc/*/maps`, when what is shared changes and now and then.

use crate::regions;
use crate::targets::Targets;
use homing_core::process::{Held, Object};
use homing_linux::clock;
use homing_linux::hint_faults::shared::Range;
use homing_linux::proc::maps::{Class, Mapping};
use homing_linux::proc::sharing::same_memory;
use homing_linux::proc::{Pid, Proc, ProcError};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Others are looked for after this time, and sooner while there are any.
const SELDOM: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_millis(200);
/// ... and after that many times the CPU time that it takes.
const SHARE: u32 = 200;

/// Files of this size and more are named as memory that stays.
const WORTH_TELLING: u64 = 1 << 20;

/// Memory whose pages stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Staying {
    /// Its name.
    pub memory: String,
    /// Bytes of it that the processes map.
    pub bytes: u64,
    /// Why its pages stay.
    pub why: String,
    /// Processes outside of the session that map it.
    pub outside: usize,
    /// One of them: name and number.
    pub process: Option<String>,
}

/// What the processes map of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mapped {
    name: String,
    /// Of the largest mapping.
    bytes: u64,
    mappings: usize,
    /// Others that map it have the same pages.
    shared: bool,
    writable: bool,
    executable: bool,
    file: bool,
}

/// Who maps it outside.
type Outside = BTreeMap<Pid, String>;

/// What is shared, and with whom.
#[derive(Debug)]
pub struct Sharers {
    /// This user may move pages of several processes.
    may_move_all: bool,
    ours: BTreeMap<Object, Mapped>,
    outside: BTreeMap<Object, Outside>,
    /// Processes whose mappings this user may not see.
    unseen: usize,
    held: BTreeMap<Object, Held>,
    staying: BTreeMap<Object, Staying>,
    next: Instant,
}

impl Sharers {
    /// Nothing known yet.
    pub(crate) fn new() -> Sharers {
        Sharers {
            may_move_all: has_sys_nice(),
            ours: BTreeMap::new(),
            outside: BTreeMap::new(),
            unseen: 0,
            held: BTreeMap::new(),
            staying: BTreeMap::new(),
            next: Instant::now(),
        }
    }

    /// Processes were looked at, and some are other ones or have other mappings if `remapped`. Returns the objects
    /// whose pages stay, if they are others than before.
    pub fn follow(&mut self, targets: &Targets, remapped: bool) -> Option<Vec<(Object, Held)>> {
        let ours = if remapped { mapped(targets) } else { self.ours.clone() };
        let changed = shared(&ours).ne(shared(&self.ours));
        self.ours = ours;
        let any = shared(&self.ours).next().is_some();
        if any && (changed || self.next <= Instant::now()) {
            let (begin, used) = (Instant::now(), clock::thread_cpu_time());
            self.look_outside(targets);
            let pause = if self.outside.is_empty() { SELDOM } else { SOON };
            // Of CPU time: a busy machine would put the next look off for minutes.
            self.next = begin + pause.max(clock::thread_cpu_time().saturating_sub(used) * SHARE);
        } else if !remapped {
            return None;
        }
        let held =
            self.ours.iter().filter_map(|(&object, mapped)| Some((object, self.held(object, mapped)?)));
        let held = held.collect();
        let before = std::mem::replace(&mut self.held, held);
        // The summary also names memory that is gone by then.
        for (&object, mapped) in &self.ours {
            match self.staying_of(object, mapped) {
                Some(staying) => drop(self.staying.insert(object, staying)),
                None => drop(self.staying.remove(&object)),
            }
        }
        (before != self.held).then(|| self.held.iter().map(|(&object, &held)| (object, held)).collect())
    }

    /// True if pages that several processes map may move.
    pub fn may_move_all(&self) -> bool {
        self.may_move_all && self.unseen == 0
    }

    /// Memory whose pages stay, the largest first.
    pub fn staying(&self) -> Vec<Staying> {
        let mut staying: Vec<Staying> = self.staying.values().cloned().collect();
        staying.sort_by_key(|staying| std::cmp::Reverse(staying.bytes));
        staying
    }

    /// The ranges of shared memory that are to be marked by scans, each with all that map it.
    pub fn to_mark(&self, targets: &Targets) -> Vec<Vec<(Pid, Range)>> {
        let mut all: BTreeMap<(Object, u64, u64), Vec<(Pid, Range)>> = BTreeMap::new();
        for_each(targets, |pid, mapping, object| {
            let moves = mapping.shared && mapping.class() == Class::SharedMemory;
            let wanted = moves && mapping.write && !self.held.contains_key(&object);
            let bytes = mapping.end - mapping.start;
            if wanted {
                all.entry((object, mapping.offset, bytes)).or_default().push((pid, (mapping.start, bytes)));
            }
        });
        all.into_values().collect()
    }

    fn held(&self, object: Object, mapped: &Mapped) -> Option<Held> {
        if !mapped.shared {
            return None;
        }
        if self.outside.contains_key(&object) {
            return Some(Held::Outside);
        }
        (mapped.mappings > 1 && !self.may_move_all()).then_some(Held::NoRight)
    }

    /// What is told of an object whose pages stay; `None` if they move, or nobody needs to know.
    fn staying_of(&self, object: Object, mapped: &Mapped) -> Option<Staying> {
        let why = match self.held.get(&object) {
            _ if mapped.file && (mapped.executable || mapped.bytes < WORTH_TELLING) => return None,
            _ if mapped.file => "pages of files are not moved",
            Some(held) => held.reason(),
            None if mapped.shared && !mapped.writable => {
                "mapped for reading only: the kernel does not mark it, so that nobody sees who uses it"
            }
            None => return None,
        };
        let outside = self.outside.get(&object);
        let first = outside.and_then(|outside| outside.iter().next());
        Some(Staying {
            memory: mapped.name.clone(),
            bytes: mapped.bytes,
            why: why.to_owned(),
            outside: outside.map_or(0, BTreeMap::len),
            process: first.map(|(pid, name)| format!("{name} ({pid})")),
        })
    }

    /// Looks for others that map what the processes share.
    fn look_outside(&mut self, targets: &Targets) {
        self.outside.clear();
        self.unseen = 0;
        let proc = targets.proc();
        let ours: Vec<Pid> =
            targets.processes().keys().copied().filter(|&pid| targets.contains(pid)).collect();
        for pid in proc.processes().unwrap_or_default() {
            if targets.contains(pid) {
                continue;
            }
            let shown = match self.shown(proc, pid) {
                Ok(shown) => shown,
                Err(error) => {
                    self.unseen += usize::from(!error.is_gone());
                    continue;
                }
            };
            // Helpers, and children before they execute their program, have a process's own memory.
            let has_ours = || ours.iter().any(|&our| same_memory(pid, our) == Some(true));
            if shown.is_empty() || has_ours() || targets.outlives(pid) {
                continue;
            }
            // One that has ended meanwhile had no memory to compare any more. What is outside still is outside now.
            let shown = self.shown(proc, pid).unwrap_or_default();
            let name = proc.process_stat(pid).map(|stat| stat.name).unwrap_or_default();
            for object in shown {
                self.outside.entry(object).or_default().insert(pid, name.clone());
            }
        }
    }
}

impl Sharers {
    /// What a process maps of what the processes share.
    fn shown(&self, proc: &Proc, pid: Pid) -> Result<BTreeSet<Object>, ProcError> {
        let maps = proc.maps(pid)?;
        let namespace = namespace(proc, pid, &maps);
        let shared = |object: &Object| self.ours.get(object).is_some_and(|mapped| mapped.shared);
        let objects = maps.iter().filter_map(|mapping| Some(regions::backing(mapping, namespace)?.object));
        Ok(objects.filter(shared).collect())
    }
}

/// The objects that others can map as shared.
fn shared(objects: &BTreeMap<Object, Mapped>) -> impl Iterator<Item = (&Object, &Mapped)> {
    objects.iter().filter(|(_, mapped)| mapped.shared)
}

/// Calls `each` for all mappings of shared memory and files of processes of ours.
fn for_each(targets: &Targets, mut each: impl FnMut(Pid, &Mapping, Object)) {
    for (&pid, process) in targets.processes().iter().filter(|(_, process)| process.ours) {
        let namespace = namespace(targets.proc(), pid, &process.maps);
        for mapping in &process.maps {
            if matches!(mapping.class(), Class::SharedMemory | Class::PageCache | Class::FilePrivate) {
                each(pid, mapping, regions::object(mapping, namespace));
            }
        }
    }
}

fn mapped(targets: &Targets) -> BTreeMap<Object, Mapped> {
    let mut all: BTreeMap<Object, Mapped> = BTreeMap::new();
    for_each(targets, |_, mapping, object| {
        let entry = all.entry(object).or_default();
        entry.name = mapping.name.clone();
        entry.bytes = entry.bytes.max(mapping.end - mapping.start);
        entry.mappings += usize::from(regions::backing(mapping, 0).is_some());
        entry.shared |= regions::backing(mapping, 0).is_some();
        entry.writable |= mapping.write;
        entry.executable |= mapping.execute;
        entry.file |= mapping.class() != Class::SharedMemory;
    });
    all
}

/// The namespace of a process's System V memory; 0 if it has none.
pub fn namespace(proc: &Proc, pid: Pid, maps: &[Mapping]) -> u64 {
    if !maps.iter().any(Mapping::is_system_v) {
        return 0;
    }
    let link = std::fs::read_link(proc.path(pid, "ns/ipc")).unwrap_or_default();
    let digits = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect::<String>();
    digits.parse().unwrap_or(0)
}

/// True if this process has CAP_SYS_NICE: the kernel then lets it move pages of several processes.
fn has_sys_nice() -> bool {
    const CAP_SYS_NICE: u64 = 1 << 23;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|capabilities| capabilities & CAP_SYS_NICE != 0)
}

#[cfg(test)]
mod tests;
