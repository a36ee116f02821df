use super::*;

const ROOM: Capacity = Capacity { node: 1000, cpu: 1000 };

/// References (node, offset in the frame, write) of eight bytes each, by one CPU of each node.
fn lines(references: impl IntoIterator<Item = (u16, u64, bool)>) -> PageLines {
    lines_of(1000, references)
}

fn lines_of(capacity: u64, references: impl IntoIterator<Item = (u16, u64, bool)>) -> PageLines {
    let mut lines = Lines::new(2, 2, 4, &[3], Capacity { node: capacity, cpu: capacity });
    for (node, offset, write) in references {
        let kind = if write { Kind::write(8) } else { Kind::read(8) };
        lines.turn(Node(node), node.into(), &[3 << 12 | offset, 2 << 12], &[kind, kind]);
    }
    assert_eq!((lines.watched(), lines.of_frame(2, 0)), (1, None));
    lines.of_frame(3, 8192).unwrap()
}

#[test]
fn counters_of_two_nodes_in_one_line_travel_in_vain() {
    let page = lines((0..100).flat_map(|_| [(0, 64, true), (1, 72, true)]));
    // The first reference of each is not because of the other.
    assert_eq!((&page.falsely, &page.truly), (&vec![99, 99], &vec![0, 0]));
    assert_eq!(page.late_writes, [99, 100]);
    assert_eq!(page.own, [0, 0]);
    let line = Travelling { truly: 0, falsely: 198, nodes: 2, offset: 8192 + 64 };
    assert_eq!(page.travelling, [line]);
}

#[test]
fn random_uses_of_words_are_no_parts() {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let page = lines((0..4000).map(|_| (random(2) as u16, 8 * random(512), true)).collect::<Vec<_>>());
    assert_eq!(page.parted, [0, 0]);
    assert!(page.falsely.iter().sum::<u64>() > 1000, "{:?}", page.falsely);
    assert!(page.truly.iter().sum::<u64>() > 100, "{:?}", page.truly);
    assert!(page.travelling.iter().any(|line| line.falsely > 10), "the lines themselves say what they did");
    assert!(page.cpus.iter().all(|cpu| cpu.falsely == Ended::default() && cpu.truly.l1_misses > 0));
    // A line of parts beside a line that all write: each is judged by itself.
    let page = lines((0..100).flat_map(|_| [(0, 64, true), (1, 72, true), (0, 128, true), (1, 128, true)]));
    assert_eq!((&page.parted, &page.truly), (&vec![99, 99], &vec![99, 99]));
    assert_eq!(page.cpus[0].falsely.l1_misses, 99);
}

#[test]
fn a_counter_of_all_travels_with_something_new() {
    // Each reads what the other wrote, then writes: a fetch and an upgrade.
    let increments = |node| [(node, 0, false), (node, 0, true)];
    let page = lines((0..50).flat_map(|_| [increments(0), increments(1)].concat()));
    assert_eq!((page.falsely, page.truly), (vec![0, 0], vec![98, 99]));
}

#[test]
fn lines_of_their_own_stay_where_they_are() {
    let page = lines((0..100).flat_map(|_| [(0, 0, true), (1, 2048, true), (1, 2056, false)]));
    assert_eq!((&page.falsely, &page.truly), (&vec![0, 0], &vec![0, 0]));
    assert_eq!((page.own_share(0), page.own_share(1)), (1.0, 1.0));
    assert_eq!(page.travelling, []);
}

#[test]
fn lines_that_the_caches_have_dropped_are_fetched_for_want_of_room() {
    // Between two uses of a line a node uses 63 others.
    let round = || (0..64).flat_map(|line| [(0, line * 64, true), (1, line * 64 + 8, true)]);
    let falsely = |capacity| lines_of(capacity, (0..10).flat_map(|_| round())).falsely.iter().sum::<u64>();
    assert_eq!((falsely(200), falsely(20)), (2 * 64 * 9, 0));
}

#[test]
fn machines_of_many_nodes_are_told_apart() {
    // Node 64 is not node 0.
    let mut lines = Lines::new(128, 128, 1, &[0], ROOM);
    for node in [0, 64, 0, 64] {
        lines.turn(Node(node), node.into(), &[u64::from(node)], &[Kind::write(8)]);
        lines.turn(Node(node), node.into(), &[2048 + u64::from(node) / 8], &[Kind::write(8)]);
    }
    let page = lines.of_frame(0, 0).unwrap();
    assert_eq!((page.falsely[0], page.falsely[64]), (1, 1));
}

#[test]
fn readers_hold_a_line_together() {
    let once = [(0, 0, true)].into_iter();
    let page = lines(once.chain((0..100).flat_map(|_| [(0, 0, false), (1, 0, false)])));
    assert_eq!((&page.falsely, &page.truly), (&vec![0, 0], &vec![0, 0]));
    assert_eq!(page.late_writes, [0, 0]);
}

/// The lines of references (CPU, offset in the frame, write): CPUs 0 and 1 are on node 0, 2 and 3 on node 1.
fn of_cpus(capacity: Capacity, references: impl IntoIterator<Item = (usize, u64, bool)>) -> Vec<CpuLines> {
    let mut lines = Lines::new(2, 4, 1, &[0], capacity);
    for (cpu, offset, write) in references {
        let kind = if write { Kind::write(8) } else { Kind::read(8) };
        lines.turn(Node(cpu as u16 / 2), cpu, &[offset], &[kind]);
    }
    lines.of_frame(0, 0).unwrap().cpus
}

#[test]
fn lines_travel_between_the_cpus_of_a_node_too() {
    let counters = |cpus: [usize; 2]| (0..100).flat_map(move |_| cpus.map(|cpu| (cpu, cpu as u64 * 8, true)));
    let found = of_cpus(ROOM, counters([0, 1]));
    let all = Ended { l1_misses: 99, within: 99 };
    assert_eq!((found[0].falsely, found[1].falsely), (all, all), "the first of each is no miss by the other");
    assert_eq!((found[0].truly, found[2]), (Ended::default(), CpuLines::default()));
    let found = of_cpus(ROOM, counters([0, 2]));
    let all = Ended { l1_misses: 99, within: 0 };
    assert_eq!((found[0].falsely, found[2].falsely), (all, all), "between nodes none is served within one");
    // One word that both write: each brings something new.
    let found = of_cpus(ROOM, (0..100).flat_map(|_| [(0, 0, true), (1, 0, true)]));
    assert_eq!((found[0].truly.within, found[0].falsely), (99, Ended::default()));
}

#[test]
fn what_a_cpu_has_no_room_for_is_not_taken_away() {
    // Between two uses of a line a CPU uses 63 others.
    let round = || (0..64).flat_map(|line| [(0, line * 64, true), (1, line * 64 + 8, true)]);
    let misses = |cpu| {
        let found = of_cpus(Capacity { node: 1000, cpu }, (0..10).flat_map(|_| round()));
        found.iter().map(|found| found.falsely.within).sum::<u64>()
    };
    assert_eq!((misses(200), misses(20)), (2 * 64 * 9, 0));
}
