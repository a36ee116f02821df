//! When the threads of a trace work, and CPUs for them: threads that work at the same time are spread over the nodes,
//! whatever their numbers are. Helper threads that hardly work take no part.

use super::binding::in_turn;
use crate::ids::{Cpu, Node, Thread, Time};
use std::collections::BTreeMap;

/// Equal stretches of a trace's Time.
const STRETCHES: u64 = 64;
/// A thread is busy in a stretch if it makes at least this share of the references of the stretch's busiest thread.
const BUSY: f64 = 0.1;
/// Loads that differ by less than this many threads are equal: threads do not begin and end with a stretch.
const EQUAL: f64 = 0.5;
/// Beyond this many busy threads all threads go over the CPUs by number.
const MOST: usize = 1 << 13;

/// Counts references by thread and stretch; [`Counts::finish`] gives [`Busy`].
#[derive(Clone, Debug)]
pub struct Counts {
    /// References of a stretch.
    length: u64,
    counts: BTreeMap<(Thread, u64), u64>,
}

impl Counts {
    /// For a trace of that many references.
    pub fn new(references: u64) -> Counts {
        Counts { length: references.div_ceil(STRETCHES).max(1), counts: BTreeMap::new() }
    }

    /// Adds references of a thread that follow one another in Time.
    pub fn add(&mut self, thread: Thread, first: Time, references: u64) {
        let (mut at, end) = (first.0, first.0.saturating_add(references));
        while at < end {
            let stretch = (at / self.length).min(STRETCHES - 1);
            let until = if stretch == STRETCHES - 1 { end } else { end.min((stretch + 1) * self.length) };
            *self.counts.entry((thread, stretch)).or_default() += until - at;
            at = until;
        }
    }

    /// Adds the counts of another part of the same trace.
    pub fn append(&mut self, other: Counts) {
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
    }

    /// Which threads are busy when.
    pub fn finish(self) -> Busy {
        let mut most = [0u64; STRETCHES as usize];
        let mut threads: BTreeMap<Thread, Work> = BTreeMap::new();
        for (&(thread, stretch), &count) in &self.counts {
            let most = &mut most[stretch as usize];
            *most = (*most).max(count);
            threads.entry(thread).or_default().references += count;
        }
        for ((thread, stretch), count) in self.counts {
            if count as f64 >= BUSY * most[stretch as usize] as f64 {
                threads.entry(thread).or_default().stretches |= 1 << stretch;
            }
        }
        Busy { threads }
    }
}

/// What a thread does when.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    references: u64,
    /// A bit for each stretch in which it is busy.
    stretches: u64,
}

impl Work {
    fn is_busy(&self) -> bool {
        self.stretches != 0
    }

    /// Whether two threads work at the same time, for at least half of the shorter one's stretches.
    fn beside(&self, other: &Work) -> bool {
        let shorter = self.stretches.count_ones().min(other.stretches.count_ones());
        2 * (self.stretches & other.stretches).count_ones() >= shorter
    }
}

/// Which threads of a trace are busy when.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    threads: BTreeMap<Thread, Work>,
}

/// How many threads are busy on a CPU or a node in each stretch.
#[derive(Clone, Copy)]
struct Load([u32; STRETCHES as usize]);

impl Load {
    const NONE: Load = Load([0; STRETCHES as usize]);

    fn add(&mut self, work: &Work) {
        self.0.iter_mut().enumerate().for_each(|(at, load)| *load += (work.stretches >> at & 1) as u32);
    }

    /// The mean over the stretches in which a thread is busy.
    fn beside(&self, work: &Work) -> f64 {
        let busy = self.0.iter().enumerate().filter(|(at, _)| work.stretches >> at & 1 == 1);
        let sum: u32 = busy.map(|(_, load)| load).sum();
        f64::from(sum) / f64::from(work.stretches.count_ones().max(1))
    }
}

/// A CPU, with the threads that work there.
#[derive(Clone, Copy)]
struct Slot {
    cpu: Cpu,
    load: Load,
}

/// Of several loads, the first that is as small as any, counted from `from` on, round and round.
fn least(loads: &[f64], from: usize) -> usize {
    let smallest = loads.iter().copied().fold(f64::INFINITY, f64::min);
    let order = (0..loads.len()).map(|step| (from + step) % loads.len());
    order.into_iter().find(|&at| loads[at] < smallest + EQUAL).unwrap_or(0)
}

impl Busy {
    /// Threads that are busy at some time.
    pub fn count(&self) -> usize {
        self.busy().count()
    }

    /// Those threads, in the order of their numbers.
    pub fn threads(&self) -> impl Iterator<Item = Thread> + '_ {
        self.busy().map(|(thread, _)| thread)
    }

    /// The share of all references that the thread with most of them makes: 0 to 1.
    pub fn share_of_busiest(&self) -> f64 {
        let all: u64 = self.threads.values().map(|work| work.references).sum();
        let most = self.threads.values().map(|work| work.references).max().unwrap_or(0);
        most as f64 / (all as f64).max(1.0)
    }

    /// A CPU for each thread, by its number: each busy thread goes to the node where fewest threads work at the same
    /// time, the next in turn of those, and to the CPU of it with fewest; the others go over all CPUs in turn.
    /// `cpu_nodes`: the node of each CPU of the machine.
    pub fn in_turn(&self, cpu_nodes: &[Node]) -> Vec<Cpu> {
        let turn = in_turn((0..).map(Cpu).zip(cpu_nodes.iter().copied()));
        let by_number = |thread: usize| turn[thread % turn.len().max(1)].0;
        let length = self.threads.keys().next_back().map_or(0, |last| last.index() + 1);
        let mut cpus: Vec<Cpu> = (0..length).map(by_number).collect();
        if self.count() > MOST {
            return cpus;
        }
        let mut nodes: Vec<(Load, Vec<Slot>)> = nodes_of(cpu_nodes)
            .into_values()
            .map(|cpus| (Load::NONE, cpus.into_iter().map(|cpu| Slot { cpu, load: Load::NONE }).collect()))
            .collect();
        let mut next = 0;
        for (thread, work) in self.busy() {
            let loads: Vec<f64> = nodes.iter().map(|(load, _)| load.beside(work)).collect();
            let node = least(&loads, next);
            next = node + 1;
            let (load, slots) = &mut nodes[node];
            load.add(work);
            let loads: Vec<f64> = slots.iter().map(|slot| slot.load.beside(work)).collect();
            let slot = &mut slots[least(&loads, 0)];
            slot.load.add(work);
            cpus[thread.index()] = slot.cpu;
        }
        let idle = self.threads.iter().filter(|(_, work)| !work.is_busy());
        idle.zip(0..).for_each(|((thread, _), number)| cpus[thread.index()] = by_number(number));
        cpus
    }

    /// The same with neighbours on one node: of the threads that work at the same time, the first are on the first
    /// node, the last on the last. Nothing if no two threads work at the same time, or too many do.
    pub fn in_blocks(&self, cpu_nodes: &[Node]) -> Option<Vec<Cpu>> {
        let nodes: Vec<Vec<Cpu>> = nodes_of(cpu_nodes).into_values().collect();
        let busy: Vec<(Thread, &Work)> = self.busy().collect();
        if busy.len() > MOST {
            return None;
        }
        let mut cpus = self.in_turn(cpu_nodes);
        let mut several = false;
        for &(thread, work) in &busy {
            let group = || busy.iter().filter(|(_, other)| work.beside(other));
            let (size, rank) = (group().count(), group().filter(|(other, _)| *other < thread).count());
            let used = nodes.len().min(size);
            let node = rank * used / size;
            let first = (node * size).div_ceil(used);
            cpus[thread.index()] = nodes[node][(rank - first) % nodes[node].len()];
            several |= used > 1;
        }
        several.then_some(cpus)
    }

    fn busy(&self) -> impl Iterator<Item = (Thread, &Work)> + '_ {
        self.threads.iter().filter(|(_, work)| work.is_busy()).map(|(&thread, work)| (thread, work))
    }
}

/// The CPUs of each node that has any.
fn nodes_of(cpu_nodes: &[Node]) -> BTreeMap<Node, Vec<Cpu>> {
    let mut nodes: BTreeMap<Node, Vec<Cpu>> = BTreeMap::new();
    (0..).map(Cpu).zip(cpu_nodes).for_each(|(cpu, &node)| nodes.entry(node).or_default().push(cpu));
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    const TWO_BY_FOUR: [Node; 8] = [Node(0), Node(0), Node(0), Node(0), Node(1), Node(1), Node(1), Node(1)];

    /// Threads that make so many references in each stretch of a range.
    fn of(threads: &[(Range<u64>, u64)]) -> Busy {
        let mut counts = Counts::new(64 * 1000);
        for (thread, (stretches, references)) in (0..).map(Thread).zip(threads) {
            stretches.clone().for_each(|stretch| counts.add(thread, Time(stretch * 1000), *references));
        }
        counts.finish()
    }

    fn nodes(cpus: &[Cpu]) -> Vec<u16> {
        cpus.iter().map(|cpu| TWO_BY_FOUR[cpu.index()].0).collect()
    }

    #[test]
    fn references_are_counted_where_stretches_end() {
        let mut counts = Counts::new(640);
        counts.add(Thread(1), Time(5), 20);
        counts.add(Thread(0), Time(25), 10_000);
        let mut other = Counts::new(640);
        other.add(Thread(1), Time(0), 5);
        counts.append(other);
        let of = |thread, stretch| counts.counts.get(&(Thread(thread), stretch)).copied();
        assert_eq!((of(1, 0), of(1, 1), of(1, 2)), (Some(10), Some(10), Some(5)));
        assert_eq!((of(0, 2), of(0, 63)), (Some(5), Some(10_025 - 630)));
        let busy = counts.finish();
        assert_eq!((busy.count(), busy.threads().collect::<Vec<_>>()), (2, vec![Thread(0), Thread(1)]));
        assert!((busy.share_of_busiest() - 10_000.0 / 10_025.0).abs() < 1e-9);
    }

    #[test]
    fn equal_threads_go_over_the_nodes_by_number() {
        let cpus = of(&vec![(0..64, 100); 8]).in_turn(&TWO_BY_FOUR);
        assert_eq!(cpus, [0, 4, 1, 5, 2, 6, 3, 7].map(Cpu));
        // The first one also begins and ends the program alone.
        let team = [(0..64, 100), (3..60, 100), (3..61, 90), (4..60, 100)];
        assert_eq!(of(&team).in_turn(&TWO_BY_FOUR), [0, 4, 1, 5].map(Cpu));
        assert_eq!(nodes(&of(&team).in_blocks(&TWO_BY_FOUR).unwrap()), [0, 0, 1, 1]);
    }

    #[test]
    fn threads_that_hardly_work_do_not_change_where_the_others_are() {
        let (worker, helper) = ((20..64, 100), (20..21, 3));
        // The first thread prepares the data; each worker is made after a helper.
        let plain = [(0..20, 100), worker.clone(), worker.clone(), worker.clone(), worker.clone()];
        let mut helped = vec![(0..20, 100)];
        (0..4).for_each(|_| helped.extend([helper.clone(), worker.clone()]));
        let (plain, helped) = (of(&plain), of(&helped));
        let workers =
            |cpus: Vec<Cpu>, step: usize| cpus.into_iter().skip(step).step_by(step).collect::<Vec<_>>();
        assert_eq!(workers(plain.in_turn(&TWO_BY_FOUR), 1), workers(helped.in_turn(&TWO_BY_FOUR), 2));
        assert_eq!(nodes(&workers(plain.in_turn(&TWO_BY_FOUR), 1)), [1, 0, 1, 0]);
        let blocks = |busy: &Busy| busy.in_blocks(&TWO_BY_FOUR).unwrap();
        assert_eq!(workers(blocks(&plain), 1), workers(blocks(&helped), 2));
        assert_eq!(nodes(&workers(blocks(&plain), 1)), [0, 0, 1, 1]);
        assert_eq!((plain.count(), helped.count()), (5, 5));
    }

    #[test]
    fn each_team_is_spread_where_teams_follow_one_another() {
        // Three threads in the first phase, and two new ones in the next.
        let teams = [(0..30, 9), (0..30, 9), (0..30, 9), (30..64, 9), (30..64, 9)];
        assert_eq!(nodes(&of(&teams).in_turn(&TWO_BY_FOUR)), [0, 1, 0, 1, 0]);
        assert_eq!(nodes(&of(&teams).in_blocks(&TWO_BY_FOUR).unwrap()), [0, 0, 1, 0, 1]);
        let alone = of(&[(0..64, 9)]);
        assert!(alone.in_blocks(&TWO_BY_FOUR).is_none());
        assert_eq!(alone.in_turn(&TWO_BY_FOUR), [Cpu(0)]);
        assert!(Busy::default().in_turn(&TWO_BY_FOUR).is_empty());
    }
}
