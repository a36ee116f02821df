//! The global resource manager: which partition is to get a node, from which (Brock 2001, section 5, Figure 4: it
//! "monitors resource utilization and determines how resources should be assigned to the various partitions (dependent
//! on goals set forth for the entire cluster) and when resources must be migrated"). The paper has no rule; this one is
//! ours.
//!
//! The *demand* of a partition is the mean number of processors that its jobs ask for, running or waiting, over a
//! window. From it follows how many nodes the partition wants:
//!
//! * with a goal of `utilisation` u, the most nodes of which its demand would keep the share u busy;
//! * without, as many as its demand fills, more than half of the last one.
//!
//! Nodes are then dealt out to those who want more: by `priority`, the highest first; among equals to who has least of
//! its `share`, a part of all nodes that can move (those without one share the rest equally). Everybody keeps `least`
//! nodes. Where nobody wants a node, it stays where it is.
//!
//! So that nodes do not go back and forth: a partition that has n nodes wants one more only from half a node beyond
//! (with a goal of utilisation, from the full node on), and one less only from three quarters below (a quarter). One
//! node moves at a time, and only after a whole window in which that was so; after a move a new window begins.

/// Nodes by which demand must be beyond what a partition has before it wants one more, and below before it wants one
/// less: without a goal of utilisation, and with one.
const BEYOND: [f64; 2] = [0.5, 1.0];
const BELOW: [f64; 2] = [0.75, 0.25];

/// Seconds over which demand is measured.
pub const WINDOW_S: f64 = 10.0;

/// What a partition is to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Nodes that it always keeps.
    pub least: usize,
    /// Share of all nodes that can move.
    pub share: Option<f64>,
    /// Share of its processors that is to be busy.
    pub utilisation: Option<f64>,
    /// Who comes first.
    pub priority: i32,
}

/// What a partition's jobs ask for and have, in processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Asked for.
    pub demand: f64,
    /// In use.
    pub busy: f64,
}

/// A node that a partition should get.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Want {
    /// Who.
    pub to: usize,
    /// Who has too many; nobody if a node is spare.
    pub from: Option<usize>,
    /// Processors that it lacks.
    pub short: f64,
    /// Seconds for which that has been so, and so is expected to go on.
    pub lasting_s: f64,
}

/// The global resource manager.
#[derive(Debug)]
pub struct Resources {
    /// Of each partition; none if it keeps its nodes.
    goals: Vec<Option<Goal>>,
    window_s: f64,
    /// Seconds of this window, and processor seconds asked for in it.
    seconds: f64,
    demand: Vec<f64>,
    /// Seconds for which each has wanted more.
    short_s: Vec<f64>,
}

impl Resources {
    /// With the goal of each partition; none for one that keeps its nodes.
    pub fn new(goals: Vec<Option<Goal>>, window_s: f64) -> Resources {
        let nothing = vec![0.0; goals.len()];
        Resources { goals, window_s, seconds: 0.0, demand: nothing.clone(), short_s: nothing }
    }

    /// For some seconds partitions had these loads.
    pub fn note(&mut self, seconds: f64, loads: &[Load]) {
        self.seconds += seconds;
        self.demand.iter_mut().zip(loads).for_each(|(sum, load)| *sum += seconds * load.demand);
    }

    /// True once a window is over, up to a microsecond.
    pub fn is_due(&self) -> bool {
        self.moves() && self.seconds >= self.window_s - 1e-6
    }

    /// When the window is over, if nodes can move at all.
    pub fn due_s(&self, now_s: f64) -> Option<f64> {
        self.moves().then(|| now_s + (self.window_s - self.seconds).max(1e-3))
    }

    fn moves(&self) -> bool {
        self.goals.iter().any(Option::is_some)
    }

    /// A node came: what was before says nothing of what is now.
    pub fn begin_anew(&mut self) {
        self.seconds = 0.0;
        self.demand.fill(0.0);
        self.short_s.fill(0.0);
    }

    /// At the end of a window: which nodes should move, the most urgent first. Partitions have `has` nodes of `cpus`
    /// processors each, and `spare` are nobody's.
    pub fn wants(&mut self, has: &[usize], spare: usize, cpus: f64) -> Vec<Want> {
        let demand: Vec<f64> = self.demand.iter().map(|sum| sum / self.seconds / cpus).collect();
        let targets = targets(&self.goals, &demand, has, spare);
        let window_s = self.seconds;
        self.seconds = 0.0;
        self.demand.fill(0.0);
        for (part, short_s) in self.short_s.iter_mut().enumerate() {
            *short_s = if targets[part] > has[part] { *short_s + window_s } else { 0.0 };
        }
        let givers = || (0..has.len()).filter(|&part| targets[part] < has[part]).map(Some);
        let from = || (spare > 0).then_some(None).into_iter().chain(givers());
        let mut takers: Vec<usize> = (0..has.len()).filter(|&part| targets[part] > has[part]).collect();
        let urgency = |part: usize| {
            let priority = self.goals[part].map_or(0, |goal| goal.priority);
            (std::cmp::Reverse(priority), std::cmp::Reverse(targets[part] - has[part]), part)
        };
        takers.sort_by_key(|&part| urgency(part));
        let want = |to: usize| {
            let short = (demand[to] - has[to] as f64) * cpus;
            let lasting_s = self.short_s[to];
            from().map(move |from| Want { to, from, short, lasting_s })
        };
        takers.into_iter().flat_map(want).collect()
    }
}

/// Nodes that each partition should have, from its demand in nodes.
fn targets(goals: &[Option<Goal>], demand: &[f64], has: &[usize], spare: usize) -> Vec<usize> {
    let moving = || goals.iter().enumerate().filter_map(|(part, goal)| Some((part, (*goal)?)));
    let all = spare + moving().map(|(part, _)| has[part]).sum::<usize>();
    let mut targets = has.to_vec();
    moving().for_each(|(part, goal)| targets[part] = goal.least);
    let unsaid = moving().filter(|(_, goal)| goal.share.is_none()).count() as f64;
    let said: f64 = moving().filter_map(|(_, goal)| goal.share).sum();
    let share = |goal: &Goal| goal.share.unwrap_or((1.0 - said).max(0.0) / unsaid);
    let mut left = all.saturating_sub(moving().map(|(_, goal)| goal.least).sum());
    while left > 0 {
        let wanting =
            moving().filter(|(part, goal)| targets[*part] < wanted(goal, demand[*part], has[*part]));
        let key = |(part, goal): &(usize, Goal)| (-goal.priority, targets[*part] as f64 / share(goal), *part);
        let first = wanting.min_by(|a, b| key(a).partial_cmp(&key(b)).expect("every partition keeps a node"));
        let Some((part, _)) = first else { break };
        targets[part] += 1;
        left -= 1;
    }
    // Nobody wants the rest: it stays where it is.
    for (part, _) in moving() {
        let stays = left.min(has[part].saturating_sub(targets[part]));
        targets[part] += stays;
        left -= stays;
    }
    targets
}

/// Nodes that a partition wants which has some.
fn wanted(goal: &Goal, demand: f64, has: usize) -> usize {
    let with = usize::from(goal.utilisation.is_some());
    let filled = demand / goal.utilisation.unwrap_or(1.0);
    let (beyond, below, has_now) = (BEYOND[with], BELOW[with], has as f64);
    if filled - has_now >= beyond {
        (filled - beyond).floor() as usize + 1
    } else if has_now - filled >= below {
        ((filled + below).ceil() - 1.0).max(0.0) as usize
    } else {
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Goal = Goal { least: 1, share: None, utilisation: None, priority: 0 };

    fn share(share: f64) -> Option<Goal> {
        Some(Goal { share: Some(share), ..PLAIN })
    }

    #[test]
    fn wants_by_hand() {
        for (demand, has, wants) in [
            (1.4, 1, 1),
            (1.5, 1, 2),
            (1.5, 2, 2),
            (1.3, 2, 2),
            (1.25, 2, 1),
            (0.0, 2, 0),
            (3.6, 1, 4),
            (3.5, 3, 4),
        ] {
            assert_eq!(wanted(&PLAIN, demand, has), wants, "{demand} of {has}");
        }
        // Half of the processors busy is enough: a demand of one node is worth two.
        let half = Goal { utilisation: Some(0.5), ..PLAIN };
        for (demand, has, wants) in
            [(1.0, 1, 2), (0.9, 1, 1), (0.9, 2, 2), (0.87, 2, 1), (1.49, 2, 2), (1.5, 2, 3)]
        {
            assert_eq!(wanted(&half, demand, has), wants, "{demand} of {has}");
        }
    }

    #[test]
    fn targets_by_hand() {
        // Both want everything: three quarters and a quarter.
        assert_eq!(targets(&[share(0.75), share(0.25)], &[9.0, 9.0], &[4, 4], 0), [6, 2]);
        // One without demand leaves all but the least.
        assert_eq!(targets(&[share(0.75), share(0.25)], &[0.0, 9.0], &[6, 2], 0), [1, 7]);
        // Nobody wants more: everything stays.
        assert_eq!(targets(&[share(0.75), share(0.25)], &[1.0, 1.0], &[6, 2], 0), [6, 2]);
        // Who comes first gets what it wants, the others what is left.
        let first = Some(Goal { priority: 1, ..PLAIN });
        assert_eq!(targets(&[first, Some(PLAIN), Some(PLAIN)], &[5.0, 9.0, 9.0], &[2, 3, 3], 0), [5, 2, 1]);
        // Partitions without a goal keep their nodes; spare ones go to who wants them.
        assert_eq!(targets(&[None, Some(PLAIN)], &[9.0, 3.0], &[2, 1], 3), [2, 3]);
    }

    #[test]
    fn a_node_moves_after_a_whole_window_and_the_next_after_another() {
        let mut resources = Resources::new(vec![share(0.5), share(0.5)], 10.0);
        let loads = [8.0, 0.0].map(|demand| Load { demand, busy: 0.0 });
        resources.note(9.0, &loads);
        assert!(!resources.is_due());
        assert_eq!(resources.due_s(9.0), Some(10.0));
        resources.note(1.0, &loads);
        assert!(resources.is_due());
        let want = Want { to: 0, from: Some(1), short: 4.0, lasting_s: 10.0 };
        assert_eq!(resources.wants(&[2, 2], 0, 2.0), [want]);
        assert!(!resources.is_due());
        resources.note(10.0, &loads);
        assert_eq!(resources.wants(&[2, 2], 0, 2.0), [Want { lasting_s: 20.0, ..want }]);
        // Spare nodes first.
        resources.note(10.0, &loads);
        let from: Vec<_> = resources.wants(&[2, 2], 1, 2.0).iter().map(|want| want.from).collect();
        assert_eq!(from, [None, Some(1)]);
        let mut fixed = Resources::new(vec![None, None], 10.0);
        fixed.note(20.0, &loads);
        assert!(!fixed.is_due() && fixed.due_s(20.0).is_none());
    }

    fn goal() -> impl Strategy<Value = Option<Goal>> {
        let goal =
            (1..3usize, proptest::option::of(0.05..0.3f64), proptest::option::of(0.2..1.0f64), 0..3i32);
        let goal = goal.prop_map(|(least, share, utilisation, priority)| Goal {
            least,
            share,
            utilisation,
            priority,
        });
        proptest::option::weighted(0.8, goal)
    }

    proptest! {
        /// No node is invented or lost, everybody keeps the least, and under constant demand moves come to an end.
        #[test]
        fn constant_demand_comes_to_rest(
            parts in proptest::collection::vec((goal(), 0.0..12.0f64, 0..4usize), 1..4), spare in 0..3usize,
        ) {
            let goals: Vec<_> = parts.iter().map(|part| part.0).collect();
            let demand: Vec<f64> = parts.iter().map(|part| part.1).collect();
            let mut has: Vec<usize> =
                parts.iter().map(|(goal, _, more)| goal.map_or(1, |goal| goal.least) + more).collect();
            let (before, all) = (has.clone(), has.iter().sum::<usize>() + spare);
            let (mut spare, mut moves) = (spare, 0);
            loop {
                let targets = targets(&goals, &demand, &has, spare);
                prop_assert!(targets.iter().sum::<usize>() <= all);
                let to = (0..has.len()).find(|&part| targets[part] > has[part]);
                let Some(to) = to else { break };
                match (0..has.len()).find(|&part| targets[part] < has[part]) {
                    _ if spare > 0 => spare -= 1,
                    Some(from) => has[from] -= 1,
                    None => prop_assert!(false, "{targets:?} of {has:?} from nowhere"),
                }
                has[to] += 1;
                moves += 1;
                prop_assert!(moves <= 4 * all, "no rest: {has:?} for {demand:?}");
                for (part, goal) in goals.iter().enumerate() {
                    match goal {
                        Some(goal) => prop_assert!(has[part] >= goal.least),
                        None => prop_assert_eq!(has[part], before[part]),
                    }
                }
            }
        }
    }
}
