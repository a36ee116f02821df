use super::remedy::Remedy;
use super::*;
use crate::history::{History, HistoryBuilder, Options};
use crate::ids::{PageSize, Time};
use crate::machine::Machine;
use crate::policy::placement::Placement;
use crate::trace::Kind;

/// A machine of two sockets, one CPU in use on each, with times.
struct World {
    costs: Costs,
    times: Times,
}

impl World {
    fn new() -> World {
        let machine = Machine::builtin("two-socket").unwrap();
        let costs = machine.costs(machine.page_size()).unwrap();
        let times = Times::new(&machine, machine.page_size()).unwrap();
        World { costs, times }
    }

    /// Diagnoses references (node, page, write), with areas by page.
    fn diagnose(&self, references: &[(u16, u64, bool)], area_of: impl Fn(u64) -> usize) -> Diagnosis {
        let history = self.history(references);
        let number = |page| history.address(crate::ids::Page(page)) >> 12;
        let of_page: Vec<i32> = (0..history.pages()).map(|page| area_of(number(page)) as i32).collect();
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let facts = facts::facts(&history, &self.costs, &Placement::FirstTouch).unwrap();
        diagnose(&self.setup(&facts, &Areas { names, of_page, ..Areas::default() }, &cpus(&history, 1)))
    }

    fn history(&self, references: &[(u16, u64, bool)]) -> History {
        History::from_references(references, self.costs.read_gap())
    }

    fn setup<'a>(&'a self, facts: &'a [PageFacts], areas: &'a Areas, cpus: &'a [CpuCounts]) -> Setup<'a> {
        let (costs, times) = (&self.costs, Some(&self.times));
        Setup { facts, costs, areas, cpus, small_pages: None, times, behind_caches: true }
    }
}

/// The CPUs of two nodes, `each` on each, whose caches let every reference through.
fn cpus(history: &History, each: u64) -> Vec<CpuCounts> {
    let references = history.references() / (2 * each);
    let caches = cache::Counts { references, fetches_read: references, ..cache::Counts::default() };
    let demand = [references as f64 / facts::INTERVALS as f64; facts::INTERVALS];
    let node = |cpu| Node((cpu / each) as u16);
    let cpu = |cpu| CpuCounts { node: node(cpu), caches, references: [1; facts::INTERVALS], demand };
    (0..2 * each).map(cpu).collect()
}

fn one_area(name: &str, history: &History) -> Areas {
    Areas { names: vec![name.into()], of_page: vec![0; history.pages() as usize], ..Areas::default() }
}

/// Node `by` refers `count` times to each page.
fn refer(by: u16, pages: std::ops::Range<u64>, count: usize, write: bool) -> Vec<(u16, u64, bool)> {
    pages.flat_map(|page| std::iter::repeat_n((by, page, write), count)).collect()
}

#[test]
fn an_array_that_one_thread_made_is_to_be_made_by_its_users() {
    let mut references = refer(0, 0..40, 8, true);
    for _ in 0..20 {
        references.extend(refer(0, 0..20, 32, true));
        references.extend(refer(1, 20..40, 32, true));
    }
    let diagnosis = World::new().diagnose(&references, |_| 0);
    assert_eq!(diagnosis.cause, Cause::InitialisedByOneThread);
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.remedy.unwrap().remedy, Remedy::InitialiseByUser);
    assert_eq!((finding.area.homes[0], finding.area.best.as_slice()), (40, &[20, 20][..]));
    assert!((finding.avoidable_percent - 100.0).abs() < 1e-6);
    assert!(
        finding.area.costs.bound <= finding.area.costs.at_best,
        "a start is free for the bound as for who initialises"
    );
    // Half of the uses pay 140 instead of 80 ns; the other half cost what they did.
    let remote = 20.0 * 20.0 * 32.0;
    assert!((diagnosis.costs[0] - diagnosis.costs[1] - remote * 60.0 / 80.0).abs() < remote * 0.02);
    assert_eq!(diagnosis.after.nonlocal_percent(), 0.0, "whoever uses them makes them");
    let Gain { low, high } = diagnosis.gain;
    assert!(
        low > 0.05 && low <= high && high <= diagnosis.at_most && diagnosis.at_most < 1.0,
        "{low} {high}"
    );
}

#[test]
fn a_program_whose_pages_are_at_home_is_not_numa() {
    let mut references = Vec::new();
    for _ in 0..20 {
        references.extend(refer(0, 0..20, 32, true));
        references.extend(refer(1, 20..40, 32, true));
    }
    let diagnosis = World::new().diagnose(&references, |page| usize::from(page >= 20));
    assert_eq!((diagnosis.cause, diagnosis.at_most < NOTHING), (Cause::NotNuma, true));
    assert!(diagnosis.findings.iter().all(|finding| finding.remedy.is_none()));
    assert_eq!(diagnosis.before, diagnosis.after);
}

#[test]
fn what_all_use_evenly_is_to_be_spread_if_one_memory_serves_it_all() {
    // Each reference a miss, by eight CPUs a node: one memory is the bottleneck.
    let mut references = refer(0, 0..64, 4, true);
    for round in 0..64 {
        for page in 0..64 {
            references.extend(refer((round % 2) as u16, page..page + 1, 8, true));
        }
    }
    let world = World::new();
    let history = world.history(&references);
    let facts = facts::facts(&history, &world.costs, &Placement::SingleNode(Node(0))).unwrap();
    let diagnosis = diagnose(&world.setup(&facts, &one_area("shared", &history), &cpus(&history, 60)));
    assert_eq!(diagnosis.cause, Cause::OneNodeCongested);
    assert_eq!(diagnosis.findings[0].remedy.unwrap().remedy, Remedy::Spread);
    assert_eq!(diagnosis.after.imbalance(), 1.0);
}

#[test]
fn areas_are_ranked_by_what_can_be_avoided() {
    let mut references = refer(0, 0..30, 4, true);
    for _ in 0..20 {
        references.extend(refer(1, 0..10, 64, false));
        references.extend(refer(1, 10..20, 16, true));
        references.extend(refer(0, 20..30, 99, true));
    }
    let diagnosis = World::new().diagnose(&references, |page| page as usize / 10);
    let names: Vec<_> =
        diagnosis.findings.iter().map(|finding| finding.area.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(diagnosis.findings[2].remedy, None, "it is where it belongs");
    assert_eq!(diagnosis.findings[0].remedy.unwrap().remedy, Remedy::Bind(1));
}

#[test]
fn pages_that_go_from_node_to_node_are_to_follow() {
    let mut references = Vec::new();
    for visit in 0..6u16 {
        references.extend(refer(visit % 2, 0..4, 4000, true));
    }
    let world = World::new();
    let history = world.history(&references);
    let areas = one_area("board", &history);
    let bound = 4000.0 * 6.0 + 5.0 * world.costs.copy(Node(0), Node(1));
    let mut facts = facts::facts(&history, &world.costs, &Placement::FirstTouch).unwrap();
    let cpus = cpus(&history, 1);
    facts.iter_mut().for_each(|page| page.migrated = Some(bound));
    let mut setup = world.setup(&facts, &areas, &cpus);
    let diagnosis = diagnose(&setup);
    assert_eq!(diagnosis.cause, Cause::UsedInTurn, "{:?} {:?}", diagnosis.gain, diagnosis.findings[0].remedy);
    assert!((diagnosis.costs[2] - 4.0 * bound).abs() < 1.0, "the bound is what following costs");
    // Without times the gain is one of memory cost.
    setup.times = None;
    let untimed = diagnose(&setup);
    let share = 1.0 - 4.0 * bound / untimed.costs[0];
    assert_eq!((untimed.cause, untimed.timed), (Cause::UsedInTurn, false));
    assert!((untimed.gain.high - share).abs() < 1e-9 && (untimed.at_most - share).abs() < 1e-9);
}

/// Caches that hold all lines.
const ROOM: lines::Capacity = lines::Capacity { node: 1 << 20, cpu: 1 << 20 };

/// Two nodes use 32 pages, a reference each in turn: `offset` says where in the page, `write` whether it writes.
fn used_by_two(world: &World, offset: impl Fn(u16, u64) -> u64) -> Diagnosis {
    let turns =
        || (0..400u64).flat_map(|turn| (0..32).flat_map(move |page| [(0u16, page, turn), (1, page, turn)]));
    let references: Vec<_> = turns().map(|(node, page, _)| (node, page, true)).collect();
    let history = world.history(&references);
    let mut facts = facts::facts(&history, &world.costs, &Placement::FirstTouch).unwrap();
    let mut lines = lines::Lines::new(2, 2, 32, &(0..32).collect::<Vec<_>>(), ROOM);
    for (node, page, turn) in turns() {
        lines.turn(Node(node), node.into(), &[page << 12 | offset(node, turn)], &[Kind::write(8)]);
    }
    for (facts, frame) in facts.iter_mut().zip(0..) {
        facts.look_into(lines.of_frame(frame, 0).unwrap());
    }
    diagnose(&world.setup(&facts, &one_area("parts", &history), &cpus(&history, 1)))
}

#[test]
fn parts_that_share_pages_but_no_lines_are_to_be_separated() {
    let diagnosis = used_by_two(&World::new(), |node, turn| u64::from(node) * 2048 + turn % 256 * 8);
    assert_eq!(diagnosis.cause, Cause::FalselySharedPages);
    let area = &diagnosis.findings[0].area;
    assert!(area.is_falsely_shared());
    assert_eq!((area.lines.as_ref().unwrap().falsely, diagnosis.after.nonlocal_percent()), (0, 0.0));
    assert!(area.least() < area.costs.bound, "no placement of whole pages does as well");
}

#[test]
fn parts_that_share_lines_are_to_be_padded() {
    let diagnosis = used_by_two(&World::new(), |node, turn| turn % 64 * 64 + u64::from(node) * 8);
    assert_eq!(diagnosis.cause, Cause::FalselySharedLines);
    // Every reference of a node but its first to each line brings nothing new.
    assert_eq!(diagnosis.findings[0].area.lines.as_ref().unwrap().falsely, 32 * (800 - 128));
    assert!(diagnosis.gain.low > 0.1, "{:?}", diagnosis.gain);
}

#[test]
fn a_line_that_all_write_is_contended_and_nothing_is_promised() {
    let world = World::new();
    let all = used_by_two(&world, |_, _| 0);
    // 32 lines, half of which are kept, are no few lines.
    assert_ne!(all.cause, Cause::ContendedLines);
    let turns: Vec<_> = (0..40_000).map(|turn| ((turn % 2) as u16, 0, true)).collect();
    let history = world.history(&turns);
    let mut facts = facts::facts(&history, &world.costs, &Placement::FirstTouch).unwrap();
    let mut lines = lines::Lines::new(2, 2, 1, &[0], ROOM);
    for turn in 0..20_000 {
        // Reads what the other wrote, and writes.
        lines.turn(Node(turn % 2), usize::from(turn % 2), &[0, 0], &[Kind::read(8), Kind::write(8)]);
    }
    facts[0].look_into(lines.of_frame(0, 0).unwrap());
    let diagnosis = diagnose(&world.setup(&facts, &one_area("counter", &history), &cpus(&history, 1)));
    assert_eq!(diagnosis.cause, Cause::ContendedLines);
    assert_eq!(diagnosis.gain.low, 0.0);
    assert!(diagnosis.gain.high > 0.1);
}

#[test]
fn areas_of_libraries_come_together_unless_they_matter() {
    let made_elsewhere = |pages: std::ops::Range<u64>, count| {
        [refer(0, pages.clone(), 1, true), refer(1, pages, count, true)].concat()
    };
    // Page 0 and 1 are of libraries and little used, 2 of the program; 3 of a library and as much used as 4.
    let references =
        [made_elsewhere(0..3, 10), made_elsewhere(3..5, 1000), refer(0, 5..6, 10, true)].concat();
    let world = World::new();
    let history = History::from_references(&references, world.costs.read_gap());
    let facts = facts::facts(&history, &world.costs, &Placement::FirstTouch).unwrap();
    let of = |foreign: bool, stack: &[&str]| crate::areas::Origin {
        foreign,
        stack: stack.iter().map(|&frame| frame.to_owned()).collect(),
    };
    let number = |page| (history.address(crate::ids::Page(page)) >> 12) as i32;
    let areas = Areas {
        names: ["a (libc.so.6)", "b (ld.so)", "own", "team (libgomp.so.1)", "grid (g.c:1)", "c (libc.so.6)"]
            .map(str::to_owned)
            .to_vec(),
        of_page: (0..history.pages()).map(number).collect(),
        origins: vec![
            of(true, &[]),
            of(true, &[]),
            of(false, &[]),
            of(true, &[]),
            of(false, &["malloc", "grid (g.c:1)"]),
            of(true, &[]),
        ],
    };
    let found = area::areas(&facts, &areas, &world.costs, 2);
    let names: Vec<(&str, usize, usize)> =
        found.iter().map(|area| (area.name.as_deref().unwrap(), area.pages.len(), area.folded)).collect();
    let expected =
        [("grid (g.c:1)", 1, 0), ("team (libgomp.so.1)", 1, 0), (area::OTHER, 3, 3), ("own", 1, 0)];
    assert_eq!(names, expected);
    assert_eq!(found[0].stack, ["malloc", "grid (g.c:1)"]);
    assert_eq!((found[2].references(), found[2].made_by.as_slice()), (32, &[3, 0][..]));
}

/// The facts of references in huge pages, with those of the small pages that these would be in.
fn in_huge_pages(world: &World, references: &[(u16, u64, bool)]) -> (History, Vec<PageFacts>) {
    let history = |page_size: PageSize| {
        let addresses: Vec<u64> = (0..1024).map(|frame| frame << 12).collect();
        let mut builder = HistoryBuilder::new(Options { page_size, ..Options::default() });
        builder.group_frames(&addresses);
        for (time, &(node, page, write)) in (0..).zip(references) {
            builder.reference(Node(node), Time(time), page << 12, write);
        }
        builder.finish(&addresses).unwrap()
    };
    let (huge, small) = (history(PageSize::new(2 << 20).unwrap()), history(PageSize::KIB4));
    let of = |history| facts::facts(history, &world.costs, &Placement::FirstTouch).unwrap();
    let mut facts = of(&huge);
    assert_eq!(small::give(&mut facts, of(&small)), 0);
    (huge, facts)
}

/// Each node makes and uses the pages that it is said to have; node 0 makes the first.
fn divided(of: impl Fn(u64) -> u16) -> Vec<(u16, u64, bool)> {
    (0..20).flat_map(|_| (0..1024).flat_map(|page| refer(of(page), page..page + 1, 8, true))).collect()
}

fn diagnose_huge(world: &World, references: &[(u16, u64, bool)], tlb_misses: u64) -> Diagnosis {
    let (history, facts) = in_huge_pages(world, references);
    let (cpus, areas) = (cpus(&history, 1), one_area("grid", &history));
    let more = |cpu: &CpuCounts| CpuCounts { caches: cache::Counts { tlb_misses, ..cpu.caches }, ..*cpu };
    let small: Vec<CpuCounts> = cpus.iter().map(more).collect();
    diagnose(&Setup { small_pages: Some(&small), ..world.setup(&facts, &areas, &cpus) })
}

#[test]
fn huge_pages_that_nodes_share_by_small_pages_are_to_be_small() {
    let world = World::new();
    let by_turns = divided(|page| (page / 8 % 2) as u16);
    let found = diagnose_huge(&world, &by_turns, 0);
    assert_eq!(found.cause, Cause::SharedHugePages);
    let prediction = found.findings[0].remedy.unwrap();
    assert_eq!(prediction.remedy, Remedy::SmallPages(Placing::AsNow));
    // Exactly what first touch does with small pages: all is local, as node 1 makes its own.
    let (_, facts) = in_huge_pages(&world, &by_turns);
    let small: f64 = facts.iter().flat_map(|page| &page.small).map(|page| page.costs.here).sum();
    assert_eq!((prediction.cost, small), (20.0 * 8.0 * 1024.0, prediction.cost));
    assert_eq!((found.before.nonlocal_percent(), found.after.nonlocal_percent()), (50.0, 0.0));
    assert!(found.gain.high <= found.at_most && found.costs[2] <= found.costs[1]);
    let for_all = found.for_all.iter().find(|all| all.remedy == prediction.remedy).unwrap();
    assert_eq!((for_all.cost, for_all.time), (prediction.cost, prediction.time));
}

#[test]
fn small_pages_that_one_thread_made_are_to_be_made_by_their_users() {
    let mut references = refer(0, 0..1024, 1, true);
    references.extend(divided(|page| (page / 8 % 2) as u16));
    let found = diagnose_huge(&World::new(), &references, 0);
    assert_eq!(found.findings[0].remedy.unwrap().remedy, Remedy::SmallPages(Placing::ByUser));
    assert_eq!((found.cause, found.after.nonlocal_percent()), (Cause::SharedHugePages, 0.0));
}

#[test]
fn small_pages_are_no_remedy_where_nodes_have_huge_pages_to_themselves_or_the_tlbs_pay_more() {
    let world = World::new();
    let halves = diagnose_huge(&world, &divided(|page| (page / 512) as u16), 0);
    assert_eq!((halves.cause, halves.findings[0].remedy), (Cause::NotNuma, None));
    let by_turns = divided(|page| (page / 8 % 2) as u16);
    let expensive = diagnose_huge(&world, &by_turns, 1_000_000);
    let small = |remedy: Remedy| matches!(remedy, Remedy::SmallPages(_));
    assert!(!expensive
        .findings
        .iter()
        .any(|finding| finding.remedy.is_some_and(|given| small(given.remedy))));
    let for_all = expensive.for_all.iter().find(|all| small(all.remedy)).unwrap();
    assert!(for_all.time.unwrap() > 1.0, "the misses are charged: {for_all:?}");
}

#[test]
fn the_range_covers_what_the_same_remedies_bring_with_threads_on_other_nodes() {
    let world = World::new();
    let made_by_0 = |user: fn(u64) -> u16| {
        let uses = (0..20).flat_map(|_| (0..64).flat_map(|page| refer(user(page), page..page + 1, 32, true)));
        [refer(0, 0..64, 4, true), uses.collect()].concat()
    };
    // In turn half of the pages are of node 1, in blocks a quarter.
    let (in_turn, blocks) = (
        world.history(&made_by_0(|page| (page % 2) as u16)),
        world.history(&made_by_0(|page| (page / 48) as u16)),
    );
    let facts = |history| facts::facts(history, &world.costs, &Placement::FirstTouch).unwrap();
    let (facts, others) = (facts(&in_turn), facts(&blocks));
    let (areas, cpus) = (one_area("grid", &in_turn), cpus(&in_turn, 1));
    for timed in [true, false] {
        let setup = |facts| Setup {
            times: Some(&world.times).filter(|_| timed),
            ..world.setup(facts, &areas, &cpus)
        };
        let mut found = diagnose(&setup(&facts));
        let alone = found.gain;
        let other = diagnose(&setup(&others)).gain;
        found.widen(&setup(&facts));
        assert_eq!(found.gain, alone, "the same says nothing new");
        found.widen(&setup(&others));
        assert!(other.low < alone.low - 0.01, "{other:?} {alone:?}");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(found.gain.low, other.low) && near(found.gain.high, alone.high), "{:?}", found.gain);
    }
}

#[test]
fn areas_without_a_tried_remedy_are_counted_those_of_libraries_too() {
    let references = [refer(0, 0..66, 1, true), refer(1, 0..66, 1000, true)].concat();
    let world = World::new();
    let history = world.history(&references);
    let facts = facts::facts(&history, &world.costs, &Placement::FirstTouch).unwrap();
    let of = |page: usize| crate::areas::Origin { foreign: page == 3, stack: Vec::new() };
    let areas = Areas {
        names: (0..66).map(|page| format!("area {page}")).collect(),
        of_page: (0..66).collect(),
        origins: (0..66).map(of).collect(),
    };
    let found = diagnose(&world.setup(&facts, &areas, &cpus(&history, 1)));
    // Sixty-five areas of the program and one of a library, which is not among the last.
    assert_eq!((found.untried, found.folded), (1, 1));
}
