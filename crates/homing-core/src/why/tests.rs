use super::remedy::Remedy;
use super::*;
use crate::machine::Machine;

/// A machine of two sockets, one CPU in use on each, with times.
struct World {
    costs: Costs,
    times: Times,
}

impl World {
    fn new() -> World {
        let machine = Machine::builtin("two-socket").unwrap();
        let costs = machine.costs(machine.page_size()).unwrap();
        let times = Times::new(&machine, &costs).unwrap();
        World { costs, times }
    }

    /// Diagnoses references (node, page, write), with areas by page.
    fn diagnose(&self, references: &[(u16, u64, bool)], area_of: impl Fn(u64) -> usize) -> Diagnosis {
        let history = History::from_references(references, self.costs.read_gap());
        let number = |page| history.address(crate::ids::Page(page)) >> 12;
        let of_page: Vec<i32> = (0..history.pages()).map(|page| area_of(number(page)) as i32).collect();
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let areas = Areas { names, of_page, ..Areas::default() };
        let counts = cache::Counts { references: history.references(), ..cache::Counts::default() };
        let setup = Setup {
            history: &history,
            costs: &self.costs,
            areas: &areas,
            placement: &Placement::FirstTouch,
            cpus: &[1, 1],
            times: Some((&self.times, &counts)),
            migrated: None,
        };
        diagnose(&setup).unwrap()
    }
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
    assert!(
        (diagnosis.after.nonlocal_percent() - 100.0 * 160.0 / 25_920.0).abs() < 1e-9,
        "node 0 still makes them"
    );
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
    let history = History::from_references(&references, world.costs.read_gap());
    let areas = Areas { names: vec!["shared".into()], of_page: vec![0; 64], ..Areas::default() };
    let counts = cache::Counts { references: history.references(), ..cache::Counts::default() };
    let setup = Setup {
        history: &history,
        costs: &world.costs,
        areas: &areas,
        placement: &Placement::SingleNode(crate::ids::Node(0)),
        cpus: &[60, 60],
        times: Some((&world.times, &counts)),
        migrated: None,
    };
    let diagnosis = diagnose(&setup).unwrap();
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
    let history = History::from_references(&references, world.costs.read_gap());
    let areas = Areas { names: vec!["board".into()], of_page: vec![0; 4], ..Areas::default() };
    let counts = cache::Counts { references: history.references(), ..cache::Counts::default() };
    let bound = 4000.0 * 6.0 + 5.0 * world.costs.copy(crate::ids::Node(0), crate::ids::Node(1));
    let migrated = [bound; 4];
    let mut setup = Setup {
        history: &history,
        costs: &world.costs,
        areas: &areas,
        placement: &Placement::FirstTouch,
        cpus: &[1, 1],
        times: Some((&world.times, &counts)),
        migrated: Some(&migrated),
    };
    let diagnosis = diagnose(&setup).unwrap();
    assert_eq!(diagnosis.cause, Cause::UsedInTurn, "{:?} {:?}", diagnosis.gain, diagnosis.findings[0].remedy);
    assert!((diagnosis.costs[2] - 4.0 * bound).abs() < 1.0, "the bound is what following costs");
    // Without times the gain is one of memory cost.
    setup.times = None;
    let untimed = diagnose(&setup).unwrap();
    let share = 1.0 - 4.0 * bound / untimed.costs[0];
    assert_eq!((untimed.cause, untimed.timed), (Cause::UsedInTurn, false));
    assert!((untimed.gain.high - share).abs() < 1e-9 && (untimed.at_most - share).abs() < 1e-9);
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
    let found = area::areas(&facts, &areas, 2);
    let names: Vec<(&str, usize, usize)> =
        found.iter().map(|area| (area.name.as_deref().unwrap(), area.pages.len(), area.folded)).collect();
    let expected =
        [("grid (g.c:1)", 1, 0), ("team (libgomp.so.1)", 1, 0), (area::OTHER, 3, 3), ("own", 1, 0)];
    assert_eq!(names, expected);
    assert_eq!(found[0].stack, ["malloc", "grid (g.c:1)"]);
    assert_eq!((found[2].references(), found[2].made_by.as_slice()), (32, &[3, 0][..]));
}
