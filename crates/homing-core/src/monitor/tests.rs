use super::interconnect::{Filter, Interconnect, DEPTH};
use super::table::{Choice, MonitorEntry, MONITORS};
use super::*;
use crate::cache::{Addresses, HierarchyShape, Shape};
use crate::ids::{Cpu, PageSize};

fn seen(cpu: u16, home: u16, page: u32, time: u64) -> Seen {
    Seen {
        cpu,
        node: Node(cpu),
        home: Node(home),
        page,
        address: u64::from(page) << 12,
        kind: Kind::Read,
        latency: if cpu == home { 1.0 } else { 4.0 },
        time: Time(time),
    }
}

/// Feeds transactions; what the monitor reports.
fn feed(monitor: &mut dyn Monitor, all: impl Iterator<Item = Seen>) -> Reports {
    let mut reports = Reports::default();
    all.for_each(|seen| monitor.transaction(&seen, &mut reports));
    reports
}

#[test]
fn the_table_is_sound() {
    for (index, entry) in MONITORS.iter().enumerate() {
        for other in MONITORS[..index].iter().filter(|other| other.name == entry.name) {
            // Their parameters tell which is meant.
            let names =
                |entry: &MonitorEntry| entry.params.iter().map(|param| param.name).collect::<Vec<_>>();
            assert!(!names(entry).is_empty(), "{} twice", entry.name);
            assert!(names(other).iter().all(|name| !names(entry).contains(name)), "{} twice", entry.name);
        }
        assert!(!entry.summary.is_empty() && !entry.stands_for.is_empty(), "{}", entry.name);
        for param in entry.params {
            assert!(
                (param.range.0..=param.range.1).contains(&param.default),
                "{}.{}",
                entry.name,
                param.name
            );
        }
        let values = entry.params.iter().map(|param| param.default).collect();
        let choice = Choice { entry, values };
        let again: Choice = choice.describe().parse().unwrap();
        assert_eq!(again.describe(), choice.describe());
        let again: Choice = choice.brief().parse().unwrap();
        assert_eq!((again.entry.stands_for, again.describe()), (entry.stands_for, choice.describe()));
        assert_eq!((again.entry.stands_for, again.values), (entry.stands_for, choice.values));
        let first = MONITORS.iter().find(|other| other.name == entry.name).unwrap();
        let by_name: Choice = entry.name.parse().unwrap();
        assert_eq!(
            by_name.entry.stands_for, first.stands_for,
            "the first is meant where nothing else is said"
        );
    }
}

fn pages(reports: &Reports) -> Vec<u32> {
    reports.samples.iter().map(|sample| sample.page).collect()
}

#[test]
fn interval_sampling_takes_eight_at_every_nth_and_maximum_rate_takes_bursts_of_eight() {
    let all = || (0..1000).map(|i| seen((i % 2) as u16, 0, i as u32, i));
    let reports = feed(&mut Interconnect::new(Filter::DEMAND, 100, 8, 10), all());
    let bursts = (1..10).flat_map(|n| n * 100 - 1..n * 100 + 7);
    assert_eq!(pages(&reports), bursts.chain([999]).collect::<Vec<_>>());
    let near = |weight: f64| (weight - 100.0 / 8.0).abs() < 0.2;
    assert!(near(reports.samples[71].weight), "{}", reports.samples[71].weight);
    let reports = feed(&mut Interconnect::new(Filter::DEMAND, 100, 1, 10), all());
    assert_eq!(pages(&reports), [99, 199, 299, 399, 499, 599, 699, 799, 899, 999]);
    assert_eq!(reports.samples[9].weight, 100.0);
    let reports = feed(&mut Interconnect::new(Filter::DEMAND, 1, 8, 10), all());
    assert_eq!(
        pages(&reports)[..10],
        [0, 1, 2, 3, 4, 5, 6, 7, 87, 88],
        "80 references to read eight entries"
    );
    assert_eq!(reports.samples.len() as u64 + reports.lost, 1000);
}

#[test]
fn bursts_that_come_due_while_the_last_is_read_are_lost_and_counted() {
    // Recorded from 9 to 16 and read until 96: those of 19, 29, ... 89 are lost; the next is that of 99.
    let all = (0..107).map(|i| seen(0, 0, i as u32, i));
    let reports = feed(&mut Interconnect::new(Filter::DEMAND, 10, 8, 10), all);
    assert_eq!(pages(&reports), (9..17).chain(99..107).collect::<Vec<_>>());
    assert_eq!(reports.lost, 8 * 8);
}

/// The published shares of transactions sampled (Table 1), where the software reads in time.
#[test]
fn the_shares_sampled_are_the_papers() {
    for (period, published) in [(4096, 0.19), (1024, 0.78), (256, 3.07)] {
        let all = (0..1 << 20).map(|i| seen(0, 0, 0, i));
        let reports = feed(&mut Interconnect::new(Filter::DEMAND, period, DEPTH, 0), all);
        let percent = 100.0 * reports.samples.len() as f64 / f64::from(1 << 20);
        assert!((percent / published - 1.0).abs() < 0.04, "{period}: {percent}");
    }
}

#[test]
fn the_filter_can_be_set_by_name() {
    let all = || (0..40).map(|i| seen((i % 2) as u16, 0, i as u32, i));
    let heard = |text: &str| {
        let choice: Choice = text.parse().unwrap();
        let addresses = Addresses::new(PageSize::KIB4, &[0]);
        let setup = table::MonitorSetup { cpus: 2, nodes: 2, addresses: &addresses, values: &choice.values };
        let table::Build::Plain(build) = choice.entry.build else { panic!("built from its parameters") };
        pages(&feed(&mut *build(&setup), all()))
    };
    assert_eq!(heard("interconnect-max:cpu=1,to=0xa000,read=0"), [1, 3, 5, 7, 9]);
    assert_eq!(heard("interconnect:period=1,cpu=0,from=0x20000,read=0"), [32, 34, 36, 38]);
    assert!(heard("interconnect:period=1,read=0,kinds=8").is_empty(), "no write-backs among them");
    assert_eq!(heard("interconnect:period=10,burst=2,read=0"), [9, 10, 19, 20, 29, 30, 39]);
}

#[test]
fn sampling_too_often_distorts_and_too_seldom_is_noise() {
    // CPU 0 asks in bursts, CPU 1 steadily: the FIFO is busy for most of each burst (Table 1).
    let mut all: Vec<Seen> = Vec::new();
    for round in 0..200u64 {
        all.extend((0..300).map(|i| seen(0, 0, (i % 50) as u32, round * 10_000 + i)));
        all.extend((0..100).map(|i| seen(1, 0, (i % 50) as u32, round * 10_000 + 300 + i * 97)));
    }
    let mean = |mut monitor: Interconnect| {
        let mut representation = distance::Representation::new(2, 50);
        let reports = feed(&mut monitor, all.iter().copied());
        all.iter().for_each(|seen| representation.transaction(seen.cpu, seen.page));
        reports.samples.iter().for_each(|sample| representation.sample(sample));
        representation.distance()
    };
    // As published: 0.56 at the maximum rate, 0.11 at every 64th, which is still too often for the software, 0.02 at
    // every 1024th.
    let maximum = mean(Interconnect::new(Filter::DEMAND, 1, 8, 20));
    let often = mean(Interconnect::new(Filter::DEMAND, 67, 8, 20));
    let seldom = mean(Interconnect::new(Filter::DEMAND, 1009, 8, 20));
    let few = mean(Interconnect::new(Filter::DEMAND, 16_001, 8, 20));
    assert!(maximum.mean > 0.4 && often.mean > 0.2, "{maximum:?} {often:?}");
    assert!(seldom.mean < 0.1, "{seldom:?}");
    assert!(few.mean > seldom.mean && few.pages_percent < seldom.pages_percent, "{few:?}");
}

#[test]
fn the_metric_is_the_papers() {
    let mut representation = distance::Representation::new(2, 4);
    (0..8).for_each(|i| representation.transaction(u16::from(i >= 6), i % 4));
    let sample =
        |cpu, page| Observed { cpu: Some(cpu), node: Node(cpu), page, reads: 1, writes: 0, weight: 4.0 };
    [sample(0, 0), sample(1, 1)].iter().for_each(|s| representation.sample(s));
    let distance = representation.distance();
    // Shares of all: 3/4 and 1/4; of the samples: 1/2 each.
    assert_eq!(distance.by_cpu, [1.0 / 3.0, 1.0]);
    assert_eq!((distance.sampled_percent, distance.pages_percent), (25.0, 50.0));
}

#[test]
fn eleven_bits_overflow_into_the_kernels_counters() {
    let mut counters = origin::Counters::default();
    let reports = feed(&mut counters, (0..5000).map(|i| seen(0, 0, 3, i)));
    assert_eq!(reports.interrupts, 2);
    let mut all = Vec::new();
    ends(&mut counters, &mut all);
    assert_eq!(all.iter().map(|s| (s.page, s.node.0, s.reads)).collect::<Vec<_>>(), [(3, 0, 5000)]);
    all.clear();
    ends(&mut counters, &mut all);
    assert_eq!(all, [], "each reading is about the time since the last");
}

/// The samples of an end of interval.
fn ends(monitor: &mut dyn Monitor, into: &mut Vec<Observed>) {
    let mut hierarchy = hierarchy(16);
    let mut poll = Poll {
        hierarchy: &mut hierarchy,
        nodes: &[Node(0), Node(1)],
        homes: &[Node(0); 16],
        time: Time(0),
        cpu: None,
    };
    let mut reports = Reports::default();
    monitor.interval_end(&mut poll, &mut reports);
    into.append(&mut reports.samples);
}

fn hierarchy(pages: u64) -> Hierarchy {
    let shape = HierarchyShape {
        l1: Shape::cache(512, 2, 32).unwrap(),
        l2: Shape::cache(4096, 4, 128).unwrap(),
        l3: None,
        tlbs: vec![Shape::tlb(4, 4).unwrap()],
        colours: Default::default(),
    };
    let frames: Vec<u64> = (0..pages).map(|page| page << 12).collect();
    Hierarchy::new(&shape, &[Cpu(0), Cpu(1)], Addresses::new(PageSize::KIB4, &frames)).unwrap()
}

#[test]
fn the_card_counts_by_region_and_direction() {
    use card::{Card, CardError, Direction, Region, Secondary};
    let region = |start, kinds, base| Region { start, size: 0x2000, granularity: 4096, kinds, base };
    let regions = vec![region(0x1000, 0b1111, 10), region(0x2000, 0b0001, 100)];
    let both = Secondary { regions: 0b11, kinds: 0b0001 };
    let mut card = Card::new(Node(0), Direction::Outbound, regions.clone(), vec![both], 2).unwrap();
    for (cpu, home, page) in [(0, 1, 1), (0, 1, 2), (0, 0, 1), (1, 0, 1), (0, 1, 3), (0, 1, 9), (0, 1, 2)] {
        card.see(&seen(cpu, home, page, 0));
    }
    let counted: Vec<(u32, u64)> =
        card.counters().iter().map(|(&counter, &count)| (counter, count)).collect();
    assert_eq!(counted, [(10, 1), (11, 2), (100, 2), (101, 1)], "overlapping filters count each for itself");
    assert_eq!(
        card.secondary().collect::<Vec<_>>(),
        [4],
        "a transaction that matches two regions counts once"
    );
    assert_eq!((card.take_events(), card.take_events()), (2, 0));
    let mut inbound = Card::new(Node(0), Direction::Inbound, regions.clone(), vec![], 0).unwrap();
    inbound.see(&seen(1, 0, 1, 0));
    inbound.see(&seen(0, 1, 1, 0));
    assert_eq!(inbound.counters().len(), 1);
    let refused = |regions: Vec<Region>| Card::new(Node(0), Direction::Both, regions, vec![], 0).unwrap_err();
    assert_eq!(refused(vec![regions[0]; 33]), CardError::Regions(33));
    assert_eq!(refused(vec![Region { granularity: 16, ..regions[0] }]), CardError::Granularity(16));
    assert!(matches!(refused(vec![Region { base: card::COUNTERS, ..regions[0] }]), CardError::Counters(..)));
}

#[test]
fn cards_cover_scattered_pages_with_thirty_two_filters() {
    // Forty clusters of pages, a megabyte apart: the smallest gaps are counted along.
    let pages: Vec<u64> =
        (0..40u64).flat_map(|c| (0..3).map(move |p| (c << 20) * (1 + c / 20) + (p << 12))).collect();
    for (inbound, requester) in [(false, 0), (true, 1)] {
        let mut cards = card::Cards::over(2, &pages, 4096, 4096, 0, inbound);
        let all = (0..pages.len() as u32)
            .map(|page| Seen { address: pages[page as usize], ..seen(requester, 1 - requester, page, 0) });
        feed(&mut cards, all);
        let mut samples = Vec::new();
        ends(&mut cards, &mut samples);
        assert_eq!(samples.len(), pages.len(), "every page has a counter");
        // Of two nodes, what comes in can be from one only.
        assert!(samples.iter().all(|s| s.weight == 1.0 && s.node == Node(requester)));
    }
}

#[test]
fn slow_misses_only() {
    let all = || (0..100).map(|i| seen(0, (i % 2) as u16, i as u32, i));
    let reports = feed(&mut precise::Precise::new(5, 2.0, 1), all());
    assert_eq!(reports.samples.len(), 10);
    assert!(reports.samples.iter().all(|s| s.page % 2 == 1));
    assert_eq!(feed(&mut precise::Precise::new(5, 0.0, 1), all()).samples.len(), 20);
}

#[test]
fn scanned_pages_fault_once_and_watched_pages_set_their_bits() {
    let mut hierarchy = hierarchy(4);
    let homes = [Node(0), Node(0), NO_HOME, Node(1)];
    let nodes = [Node(0), Node(1)];
    let mut reports = Reports::default();
    let missed = |cpu: u16, page| Missed { cpu, node: Node(cpu), page, time: Time(0) };
    let mut hints = hints::HintFaults::new(1, 2, 4);
    let mut poll = Poll { hierarchy: &mut hierarchy, nodes: &nodes, homes: &homes, time: Time(0), cpu: None };
    hints.poll(&mut poll, &mut reports);
    for (cpu, page) in [(1, 0), (0, 0), (1, 3), (0, 1)] {
        hints.tlb_miss(&missed(cpu, page), &mut reports);
    }
    let faults: Vec<_> = reports.samples.drain(..).map(|s| (s.page, s.node.0, s.weight)).collect();
    assert_eq!(faults, [(0, 1, 1.5), (1, 0, 1.5)], "three pages are mapped, two scanned at a time");
    let mut bits = access_bits::AccessBits::new(1, 2, 4);
    bits.poll(&mut poll, &mut reports);
    [(1, 0), (1, 0), (0, 0), (0, 1)]
        .iter()
        .for_each(|&(cpu, page)| bits.tlb_miss(&missed(cpu, page), &mut reports));
    bits.poll(&mut poll, &mut reports);
    let seen: Vec<_> = reports.samples.iter().map(|s| (s.page, s.node.0)).collect();
    assert_eq!(seen, [(0, 0), (1, 0), (0, 1), (1, 1)], "page 0 is watched for page 1 too");
}

#[test]
fn wrong_parameters_are_refused_with_what_was_expected() {
    let refused = |text: &str| text.parse::<Choice>().err().unwrap_or_default();
    for (text, words) in [
        ("nothing", "expected one of perfect"),
        ("perfect:x=1", "no parameter `x`: it has none"),
        ("interconnect:period", "a whole number from 1"),
        ("interconnect:period=1.5", "a whole number from 1"),
        ("interconnect:period=0", "a whole number from 1"),
        ("card:granularity=33", "a power of two from 32 to 2097152"),
        ("card:inbound=2", "a whole number from 0 to 1"),
        ("precise:latency=x", "a number from 0"),
    ] {
        assert!(refused(text).contains(words), "{text}: {}", refused(text));
    }
    assert_eq!(refused("precise:latency=1.5,period=3"), "");
}

#[test]
fn every_monitor_has_a_line_in_the_table() {
    let table = include_str!("table.rs");
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/monitor")).unwrap();
    let mut monitors = 0;
    for path in files.map(|file| file.unwrap().path()) {
        let module = path.file_stem().unwrap().to_string_lossy().into_owned();
        let is_monitor = std::fs::read_to_string(&path).unwrap().contains("\nimpl Monitor for ");
        if is_monitor && !["mod", "tests"].contains(&module.as_str()) {
            monitors += 1;
            assert!(
                table.contains(&format!("{module}::")) || table.contains(&format!("{module}(")),
                "{module}"
            );
        }
    }
    assert!(monitors > 5, "{monitors}");
}
