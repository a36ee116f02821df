//! What only a running process shows, judged from plain facts of it. Whoever could not read a fact leaves it out, and
//! what needs it is not judged.
//!
//! The order of judging is from what makes the others hard to believe to what is least urgent:
//!
//! 1. Threads that **wander**: as long as they do, no page has a right place.
//! 2. **Bindings** that keep memory away from the threads: they decide where pages are, whoever makes them.
//! 3. Pages that **cannot move**: what their areas ask for needs another time, before they are pinned.
//! 4. The kernel's **balancing**, where nothing is left to gain.

use super::verdict::Cause;

/// Facts of processes over some time. Nodes have the kernel's numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessFacts {
    /// How long they were looked at.
    pub seconds: f64,
    /// Samples by threads on the page's own node.
    pub local: u64,
    /// ... on other nodes.
    pub nonlocal: u64,
    /// CPU time that the processes used meanwhile.
    pub cpu_seconds: Option<f64>,
    /// Their threads.
    pub threads: Option<Vec<ThreadFacts>>,
    /// What confines their memory.
    pub memory: Option<Memory>,
    /// What the kernel's balancing did meanwhile, in the whole system.
    pub balancing: Option<Balancing>,
    /// What a minor page fault takes on the machine, if that was measured.
    pub fault_seconds: Option<f64>,
    /// The share of the cost of memory references that better places could take off at most.
    pub at_most: Option<f64>,
    /// The share of what is avoidable that pages have which cannot move.
    pub held_share: Option<f64>,
}

/// A thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadFacts {
    /// CPU time that it used.
    pub cpu_seconds: f64,
    /// Times that it was found on another node than before.
    pub changes: u64,
}

/// What confines the memory of processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Bytes that they have in memory.
    pub bytes: u64,
    /// Memory that may lie on some nodes only, each with the nodes of the CPUs that its threads may use.
    pub bound: Vec<Bound>,
}

/// Memory that may lie on some nodes only.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// What says so: a memory policy as the kernel writes it, or `cpuset.mems 0`.
    pub by: String,
    /// These nodes.
    pub memories: Vec<u32>,
    /// The nodes of the CPUs that the threads may use.
    pub cpus: Vec<u32>,
    /// Bytes of it that are in memory.
    pub bytes: u64,
}

impl Bound {
    fn is_wrong(&self) -> bool {
        !self.cpus.is_empty() && !self.cpus.iter().any(|node| self.memories.contains(node))
    }
}

/// What the kernel's balancing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balancing {
    /// Hint faults (`numa_hint_faults`).
    pub hint_faults: u64,
    /// Pages of 4 KiB that it moved (`numa_pages_migrated`).
    pub migrated: u64,
}

/// What a running process shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Sign {
    /// Threads wander.
    ThreadsWander {
        /// Threads that use a CPU.
        threads: u64,
        /// Node changes of one of them a second, on average.
        changes_a_second: f64,
        /// 100 * samples of other nodes' memory / samples.
        nonlocal_percent: f64,
    },
    /// Memory is bound away from the threads.
    BindingsWrong {
        /// What binds most of it.
        by: String,
        /// Where it may be.
        memories: Vec<u32>,
        /// The nodes of the CPUs that the threads may use.
        cpus: Vec<u32>,
        /// 100 * bytes that are bound wrongly / bytes.
        percent: f64,
    },
    /// Pages cannot move and are away from their users.
    Unmovable {
        /// 100 * what they could save / what all pages could.
        percent: f64,
    },
    /// Balancing takes more than it could save.
    BalancingCosts {
        /// 100 * the time that it is charged with / the processes' CPU time.
        percent: f64,
        /// What it did.
        did: Balancing,
        /// Nearly all samples are local; else some are not, and no better places are left.
        local: bool,
    },
}

/// Threads that use less of a CPU do not count.
const BUSY: f64 = 0.1;
/// Node changes a second of a thread that wanders.
const OFTEN: f64 = 1.0;
/// Threads that wander matter if this share of samples is non-local.
const NONLOCAL: f64 = 0.1;
/// Bindings matter for this share of memory.
const WEIGHTY: f64 = 0.1;
/// Pages that cannot move matter if they have this share of what is avoidable.
const MOST: f64 = 0.5;
/// Balancing is to cost this share of the CPU time.
const COSTLY: f64 = 0.03;
/// ... while less than this share of samples is non-local, or better places could take less than this off.
const GAINED: f64 = 0.05;

/// Seconds of a hint fault that moves nothing, where a minor page fault, which it is like, was not measured: the order
/// of that on a server.
pub const HINT_FAULT: f64 = 1e-6;
/// A move of 4 KiB takes as much as this number of hint faults: the most of the 1 to 3 us that `move_pages(2)` takes
/// where they take 1 us (docs/machines.md).
pub const MOVE: f64 = 3.0;

impl Sign {
    /// The verdict that it stands for.
    pub fn cause(&self) -> Cause {
        match self {
            Sign::ThreadsWander { .. } => Cause::ThreadsWander,
            Sign::BindingsWrong { .. } => Cause::BindingsWrong,
            Sign::Unmovable { .. } => Cause::Unmovable,
            Sign::BalancingCosts { .. } => Cause::BalancingCosts,
        }
    }
}

/// All that the facts show, in the order of judging.
pub fn signs(facts: &ProcessFacts) -> Vec<Sign> {
    [threads_wander(facts), bindings_wrong(facts), unmovable(facts), balancing_costs(facts)]
        .into_iter()
        .flatten()
        .collect()
}

impl ProcessFacts {
    /// The share of samples that are non-local; `None` without samples.
    fn nonlocal_share(&self) -> Option<f64> {
        let all = self.local + self.nonlocal;
        (all > 0).then(|| self.nonlocal as f64 / all as f64)
    }
}

fn threads_wander(facts: &ProcessFacts) -> Option<Sign> {
    let nonlocal = facts.nonlocal_share().filter(|share| *share >= NONLOCAL)?;
    let busy = |thread: &&ThreadFacts| thread.cpu_seconds >= BUSY * facts.seconds;
    let busy: Vec<&ThreadFacts> = facts.threads.as_ref()?.iter().filter(busy).collect();
    let changes: u64 = busy.iter().map(|thread| thread.changes).sum();
    let changes_a_second = changes as f64 / (busy.len() as f64 * facts.seconds).max(1e-9);
    (!busy.is_empty() && changes_a_second >= OFTEN).then_some(Sign::ThreadsWander {
        threads: busy.len() as u64,
        changes_a_second,
        nonlocal_percent: 100.0 * nonlocal,
    })
}

fn bindings_wrong(facts: &ProcessFacts) -> Option<Sign> {
    let memory = facts.memory.as_ref()?;
    let wrong: Vec<&Bound> = memory.bound.iter().filter(|bound| bound.is_wrong()).collect();
    let bytes: u64 = wrong.iter().map(|bound| bound.bytes).sum();
    let share = bytes as f64 / (memory.bytes as f64).max(1.0);
    let most = wrong.into_iter().max_by_key(|bound| bound.bytes).filter(|_| share >= WEIGHTY)?;
    let (by, memories, cpus) = (most.by.clone(), most.memories.clone(), most.cpus.clone());
    Some(Sign::BindingsWrong { by, memories, cpus, percent: 100.0 * share.min(1.0) })
}

fn unmovable(facts: &ProcessFacts) -> Option<Sign> {
    let share = facts.held_share.filter(|share| *share > MOST)?;
    Some(Sign::Unmovable { percent: 100.0 * share })
}

fn balancing_costs(facts: &ProcessFacts) -> Option<Sign> {
    let local = facts.nonlocal_share()? < GAINED;
    // Where all nodes use the same pages, most samples are non-local wherever these are.
    let nothing_left = facts.at_most.is_some_and(|share| share < GAINED);
    let (did, used) = (facts.balancing?, facts.cpu_seconds.filter(|used| *used > 0.0)?);
    let faults = did.hint_faults as f64 + MOVE * did.migrated as f64;
    let share = faults * facts.fault_seconds.unwrap_or(HINT_FAULT) / used;
    let costs = share >= COSTLY && (local || nothing_left);
    costs.then_some(Sign::BalancingCosts { percent: 100.0 * share, did, local })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(local: u64, nonlocal: u64) -> ProcessFacts {
        ProcessFacts { seconds: 10.0, local, nonlocal, ..ProcessFacts::default() }
    }

    fn causes(facts: &ProcessFacts) -> Vec<Cause> {
        signs(facts).iter().map(Sign::cause).collect()
    }

    #[test]
    fn nothing_is_judged_by_facts_that_nobody_read() {
        assert_eq!(signs(&seen(0, 0)), []);
        assert_eq!(signs(&seen(50, 50)), []);
        assert_eq!(signs(&seen(100, 0)), []);
    }

    #[test]
    fn busy_threads_that_change_nodes_every_second_wander() {
        let thread = |cpu_seconds, changes| ThreadFacts { cpu_seconds, changes };
        let with = |nonlocal, threads: &[ThreadFacts]| ProcessFacts {
            threads: Some(threads.to_vec()),
            ..seen(100 - nonlocal, nonlocal)
        };
        let facts = with(10, &[thread(9.0, 15), thread(1.0, 5), thread(0.9, 0)]);
        let expected = Sign::ThreadsWander { threads: 2, changes_a_second: 1.0, nonlocal_percent: 10.0 };
        assert_eq!(signs(&facts), [expected], "the third thread hardly runs");
        assert_eq!(signs(&with(9, &[thread(9.0, 15), thread(1.0, 5)])), [], "nearly all is local");
        assert_eq!(signs(&with(10, &[thread(9.0, 15), thread(1.0, 4)])), [], "less than once a second");
        assert_eq!(signs(&with(10, &[thread(0.9, 100)])), [], "nobody runs");
    }

    #[test]
    fn bindings_are_wrong_that_hold_no_node_of_the_threads() {
        let bound = |by: &str, memories: &[u32], cpus: &[u32], bytes| Bound {
            by: by.into(),
            memories: memories.to_vec(),
            cpus: cpus.to_vec(),
            bytes,
        };
        let with = |bound: &[Bound]| ProcessFacts {
            memory: Some(Memory { bytes: 100, bound: bound.to_vec() }),
            ..seen(0, 0)
        };
        let wrong = [bound("bind:0", &[0], &[1], 6), bound("prefer:0", &[0], &[1], 4)];
        let expected =
            Sign::BindingsWrong { by: "bind:0".into(), memories: vec![0], cpus: vec![1], percent: 10.0 };
        assert_eq!(signs(&with(&wrong)), [expected]);
        assert_eq!(signs(&with(&wrong[..1])), [], "too little of it");
        assert_eq!(signs(&with(&[bound("bind:0-1", &[0, 1], &[1], 90)])), [], "it may be where threads are");
        assert_eq!(signs(&with(&[bound("bind:0", &[0], &[], 90)])), [], "where threads run is not known");
    }

    #[test]
    fn pages_that_cannot_move_matter_if_they_could_save_most() {
        let with = |share| ProcessFacts { held_share: Some(share), ..seen(50, 50) };
        assert_eq!(signs(&with(0.6)), [Sign::Unmovable { percent: 60.0 }]);
        assert_eq!(signs(&with(0.5)), []);
    }

    #[test]
    fn balancing_costs_where_nothing_is_left_to_gain() {
        let did = Balancing { hint_faults: 240_000, migrated: 20_000 };
        let with = |local, nonlocal, cpu_seconds| ProcessFacts {
            balancing: Some(did),
            cpu_seconds,
            ..seen(local, nonlocal)
        };
        // 0.24 s and 0.06 s of 10 s.
        assert!(matches!(signs(&with(96, 4, Some(10.0)))[..],
            [Sign::BalancingCosts { percent, did: same, local: true }] if same == did && (percent - 3.0).abs() < 1e-9));
        assert_eq!(signs(&with(96, 4, Some(10.1))), [], "less than 3 %");
        assert_eq!(signs(&with(95, 5, Some(1.0))), [], "there is something to gain");
        assert_eq!(signs(&with(96, 4, None)), []);
        let shared = |at_most| ProcessFacts { at_most: Some(at_most), ..with(50, 50, Some(10.0)) };
        assert_eq!(signs(&shared(0.05)), [], "better places are left");
        assert!(
            matches!(signs(&shared(0.04))[..], [Sign::BalancingCosts { local: false, .. }]),
            "all nodes use all pages: no places are better"
        );
        let measured = |seconds| ProcessFacts { fault_seconds: Some(seconds), ..with(96, 4, Some(100.0)) };
        assert_eq!(signs(&measured(9e-6)), [], "less than 3 % at 9 us a fault");
        assert_eq!(signs(&measured(1e-5)).len(), 1);
    }

    /// Counted in the lab, of tests/live/swings.c: two nodes use 64 MiB at random while the kernel balances.
    #[test]
    fn what_the_kernel_of_the_lab_did_costs_too_little_for_a_verdict() {
        let counted = ProcessFacts {
            balancing: Some(Balancing { hint_faults: 66_400, migrated: 21_910 }),
            cpu_seconds: Some(74.01),
            fault_seconds: Some(7.121e-6),
            at_most: Some(0.0),
            ..seen(681, 319)
        };
        assert_eq!(signs(&counted), [], "1.3 %");
        let by_less_work = ProcessFacts { cpu_seconds: Some(31.0), ..counted };
        assert_eq!(causes(&by_less_work), [Cause::BalancingCosts]);
        let single = ProcessFacts { at_most: None, ..by_less_work };
        assert_eq!(signs(&single), [], "nobody knows whether places are left that are better");
    }

    #[test]
    fn they_come_in_the_order_of_judging() {
        let bound = Bound { by: "bind:0".into(), memories: vec![0], cpus: vec![1], bytes: 1 };
        let facts = ProcessFacts {
            threads: Some(vec![ThreadFacts { cpu_seconds: 10.0, changes: 10 }]),
            memory: Some(Memory { bytes: 1, bound: vec![bound] }),
            held_share: Some(1.0),
            ..seen(0, 1)
        };
        let expected = [Cause::ThreadsWander, Cause::BindingsWrong, Cause::Unmovable];
        assert_eq!(causes(&facts), expected);
    }
}
