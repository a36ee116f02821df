//! A race detector over recorded streams (vector clocks): the recorded edges of a race-free program order all its
//! conflicting references, and those of a racy one do not.

use super::wire::{Item, Recording};
use std::collections::{BTreeMap, HashMap};

type Clock = BTreeMap<u32, u64>;

fn join(into: &mut Clock, from: &Clock) {
    for (&thread, &time) in from {
        let known = into.entry(thread).or_default();
        *known = (*known).max(time);
    }
}

/// The last accesses of one granule of 8 bytes.
#[derive(Default)]
struct Granule {
    write: Option<(u32, u64)>,
    reads: Clock,
}

struct Replay<'a> {
    recording: &'a Recording,
    at: BTreeMap<u32, usize>,
    started: Clock,
    clocks: BTreeMap<u32, Clock>,
    births: BTreeMap<u32, Clock>,
    ended: BTreeMap<u32, Clock>,
    objects: HashMap<u64, Clock>,
    memory: HashMap<u64, Granule>,
    races: BTreeMap<u64, String>,
}

/// The granules with conflicting references that no chain of edges orders, and one such reference of each.
pub fn races(recording: &Recording) -> Vec<String> {
    let mut replay = Replay {
        recording,
        at: BTreeMap::new(),
        started: Clock::new(),
        clocks: BTreeMap::from([(0, Clock::from([(0, 1)]))]),
        births: BTreeMap::new(),
        ended: BTreeMap::new(),
        objects: HashMap::new(),
        memory: HashMap::new(),
        races: BTreeMap::new(),
    };
    while replay.turn() {}
    for (thread, items) in &recording.streams {
        let at = replay.at.get(thread).copied().unwrap_or(0);
        assert_eq!(at, items.len(), "thread {thread} waits for ever at {:?}", items[at]);
    }
    replay.races.into_values().collect()
}

impl Replay<'_> {
    /// Lets every thread run to its next stamp, then the thread with the smallest one past it. Stamps are one order of
    /// the whole process, so this meets every release before the acquires that follow it.
    fn turn(&mut self) -> bool {
        let threads: Vec<u32> = self.recording.streams.keys().copied().collect();
        let mut moved = false;
        let mut next: Option<(u64, u32)> = None;
        for thread in threads {
            moved |= self.run(thread);
            let at = self.at.get(&thread).copied().unwrap_or(0);
            if let Some(Item::Sync { stamp, .. }) = self.recording.streams[&thread].get(at) {
                next = Some(next.map_or((*stamp, thread), |n| n.min((*stamp, thread))));
            }
        }
        if moved {
            return true;
        }
        let Some((_, thread)) = next else { return false };
        self.sync(thread);
        true
    }

    fn run(&mut self, thread: u32) -> bool {
        if !self.clocks.contains_key(&thread) {
            let Some(birth) = self.births.get(&thread) else { return false };
            let mut clock = birth.clone();
            clock.insert(thread, 1);
            self.clocks.insert(thread, clock);
        }
        let items = &self.recording.streams[&thread];
        let begun = self.at.get(&thread).copied().unwrap_or(0);
        let mut at = begun;
        while at < items.len() {
            match &items[at] {
                Item::Sync { .. } => break,
                Item::Reference { address, bytes, write } => self.reference(thread, *address, *bytes, *write),
                Item::Start { thread: child } => {
                    self.births.insert(*child, self.clocks[&thread].clone());
                    self.step(thread);
                }
                Item::End => {
                    self.ended.insert(thread, self.clocks[&thread].clone());
                }
                Item::Join { thread: other } => {
                    let Some(end) = self.ended.get(other).cloned() else { break };
                    join(self.clocks.get_mut(&thread).unwrap(), &end);
                }
                _ => {}
            }
            at += 1;
        }
        self.at.insert(thread, at);
        self.started.insert(thread, 1);
        at > begun
    }

    fn step(&mut self, thread: u32) {
        *self.clocks.get_mut(&thread).unwrap().get_mut(&thread).unwrap() += 1;
    }

    fn sync(&mut self, thread: u32) {
        let at = self.at[&thread];
        let Item::Sync { acquire, object, .. } = self.recording.streams[&thread][at] else { unreachable!() };
        let known = self.objects.entry(object).or_default();
        let clock = self.clocks.get_mut(&thread).unwrap();
        if acquire {
            join(clock, known);
        } else {
            join(known, clock);
            self.step(thread);
        }
        self.at.insert(thread, at + 1);
    }

    fn reference(&mut self, thread: u32, address: u64, bytes: u64, write: bool) {
        let clock = &self.clocks[&thread];
        let before = |(t, time): (u32, u64)| clock.get(&t).is_some_and(|&known| time <= known);
        for granule in address / 8..=(address + bytes - 1) / 8 {
            let last = self.memory.entry(granule).or_default();
            let after_write = last.write.is_none_or(before);
            let after_reads = !write || last.reads.iter().all(|(&t, &time)| before((t, time)));
            if (!after_write || !after_reads) && self.races.len() < 10 {
                self.races
                    .entry(granule)
                    .or_insert(format!("{:#x} by thread {thread}, write: {write}", granule * 8));
            }
            if write {
                last.write = Some((thread, clock[&thread]));
                last.reads.clear();
            } else {
                last.reads.insert(thread, clock[&thread]);
            }
        }
    }
}
