//! Which CPUs a job gets once somebody has said how many: as few changes as possible, and near to what it has.
//!
//! "The CPUManager maintains the processor mapping as much as possible" (Corbalan 2003, section 6.1.2); the paper does
//! not say how. Here a job that shrinks gives up CPUs of the nodes where it holds fewest; one that grows takes free
//! CPUs, first of nodes that it is on, then by distance from the node where it holds most, whole nodes before parts.

use super::layout::Layout;
use super::JobId;
use homing_core::ids::{Cpu, Node};

/// What a job has and how many it shall have.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The job.
    pub job: JobId,
    /// Its CPUs.
    pub has: Vec<Cpu>,
    /// How many it shall have.
    pub count: usize,
    /// Its pages at each node, if the manager wants it near to them.
    pub pages: Option<Vec<f64>>,
}

/// Deals CPUs out. Jobs stand in the order in which they may choose; the sum of their counts fits the machine.
pub fn deal(layout: &Layout, wanted: &[Wanted]) -> Vec<(JobId, Vec<Cpu>)> {
    let mut free = vec![true; layout.cpus()];
    let mut dealt: Vec<(JobId, Vec<Cpu>)> = Vec::with_capacity(wanted.len());
    for one in wanted {
        let mut cpus = one.has.clone();
        while cpus.len() > one.count {
            let worst = least_used(layout, &cpus);
            cpus.remove(worst);
        }
        cpus.iter().for_each(|cpu| free[cpu.index()] = false);
        dealt.push((one.job, cpus));
    }
    for (one, (_, cpus)) in wanted.iter().zip(&mut dealt) {
        while cpus.len() < one.count {
            let Some(next) = nearest(layout, &free, cpus, one.pages.as_deref()) else { break };
            free[next.index()] = false;
            cpus.push(next);
        }
    }
    dealt
}

/// Index of the CPU to give up: of the node with the fewest, the last of it.
fn least_used(layout: &Layout, cpus: &[Cpu]) -> usize {
    let held = |node: Node| cpus.iter().filter(|&&cpu| layout.node(cpu) == node).count();
    let worst =
        (0..cpus.len()).min_by_key(|&index| (held(layout.node(cpus[index])), std::cmp::Reverse(index)));
    worst.expect("a job that shrinks has CPUs")
}

/// The free CPU to take.
fn nearest(layout: &Layout, free: &[bool], has: &[Cpu], pages: Option<&[f64]>) -> Option<Cpu> {
    let count =
        |node: Node, of: &mut dyn Iterator<Item = Cpu>| of.filter(|&cpu| layout.node(cpu) == node).count();
    let free_cpus = || layout.all().filter(|cpu| free[cpu.index()]);
    let mut held = vec![0usize; layout.nodes()];
    has.iter().for_each(|&cpu| held[layout.node(cpu).index()] += 1);
    let weight =
        |node: usize| pages.map_or(held[node] as f64, |pages| pages[node] + 1e-9 * held[node] as f64);
    let total: f64 = (0..layout.nodes()).map(weight).sum();
    let distance = |cpu: Cpu| -> f64 {
        let from = layout.node(cpu);
        (0..layout.nodes()).map(|node| weight(node) * layout.distance(from, Node(node as u16))).sum::<f64>()
            / total
    };
    let key = |cpu: Cpu| {
        let node = layout.node(cpu);
        let room = count(node, &mut free_cpus());
        match total > 0.0 {
            true => (distance(cpu), -(room as f64)),
            // The first CPU: of a node with most room, so that jobs begin apart from each other.
            false => (-(room as f64), 0.0),
        }
    };
    free_cpus()
        .map(|cpu| (key(cpu), cpu))
        .min_by(|a, b| a.0.partial_cmp(&b.0).expect("finite"))
        .map(|(_, cpu)| cpu)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four nodes of two CPUs on a line.
    fn line() -> Layout {
        let node_of = (0..8).map(|cpu| Node(cpu / 2)).collect();
        let distance = (0..16).map(|at: i32| 1.0 + f64::from((at / 4 - at % 4).abs())).collect();
        Layout::new(node_of, 4, distance)
    }

    fn wanted(job: u32, has: &[u16], count: usize) -> Wanted {
        Wanted { job: JobId(job), has: has.iter().map(|&cpu| Cpu(cpu)).collect(), count, pages: None }
    }

    fn dealt(wanted: &[Wanted]) -> Vec<Vec<u16>> {
        let cpus = |(_, cpus): (JobId, Vec<Cpu>)| cpus.iter().map(|cpu| cpu.0).collect();
        deal(&line(), wanted).into_iter().map(cpus).collect()
    }

    #[test]
    fn jobs_keep_what_they_have_and_grow_beside_it() {
        assert_eq!(dealt(&[wanted(0, &[], 4)]), [[0, 1, 2, 3]]);
        assert_eq!(dealt(&[wanted(0, &[4, 5, 6], 2)]), [[4, 5]]);
        assert_eq!(
            dealt(&[wanted(0, &[4, 5], 4), wanted(1, &[0, 1, 2, 3, 6, 7], 4)]),
            [vec![4, 5, 6, 7], vec![0, 1, 2, 3]]
        );
        assert_eq!(dealt(&[wanted(0, &[0, 1], 2), wanted(1, &[], 2)])[1], [2, 3]);
    }

    #[test]
    fn pages_draw_a_job() {
        let near = Wanted { pages: Some(vec![0.0, 0.0, 0.0, 9.0]), ..wanted(0, &[], 3) };
        assert_eq!(dealt(&[near])[0], [6, 7, 4]);
    }

    #[test]
    fn no_cpu_is_given_twice() {
        let all = dealt(&[wanted(0, &[0, 3, 5], 2), wanted(1, &[1, 2], 3), wanted(2, &[], 3)]);
        let mut cpus: Vec<u16> = all.concat();
        cpus.sort_unstable();
        assert_eq!(cpus, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
