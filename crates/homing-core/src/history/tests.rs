//! Page histories against an obvious model.

use super::*;
use crate::ids::Node;
use crate::trace::Kind;
use proptest::prelude::*;

fn counts(history: &History, page: u32) -> Vec<(u16, u32, u32, u32, u32)> {
    let runs = history.runs(Page(page)).unwrap();
    runs.map(|r| (r.node.0, r.reads_before, r.writes, r.reads_between, r.reads_after)).collect()
}

#[test]
fn runs_split_at_nodes_and_read_gaps() {
    let (r, w) = (false, true);
    let refs = [(0, 9, r), (0, 9, w), (0, 9, r), (0, 9, w), (0, 9, r), (1, 9, r), (1, 5, w), (0, 9, w)];
    let history = History::from_references(&refs, 2);
    assert_eq!(history.pages(), 2);
    assert_eq!(counts(&history, 0), [(0, 1, 2, 1, 1), (1, 1, 0, 0, 0), (0, 0, 1, 0, 0)]);
    let first = history.runs(Page(0)).unwrap().next().unwrap();
    assert_eq!((first.first, first.last), (Time(0), Time(4)));
    assert_eq!((history.references(), history.reads(), history.duration()), (8, 4, Time(8)));
    assert_eq!(History::from_references(&refs, 0).runs(Page(0)).unwrap().count(), 4);
}

#[test]
fn pages_of_any_size_group_and_split_frames() {
    // Frames 0 and 1 are neighbours in one 8 KiB page; frame 2 is frame 0's address born again.
    let frames = [0x10000, 0x11000, 0x10000];
    let build = |bytes: u64| {
        let page_size = PageSize::new(bytes).unwrap();
        let mut builder = HistoryBuilder::new(Options { page_size, ..Options::default() });
        builder.group_frames(&frames);
        for (time, address) in [0x0010, 0x1010, 0x0810, 0x2010].into_iter().enumerate() {
            builder.reference(Node(0), Time(time as u64), address, false);
        }
        builder.finish(&frames).unwrap()
    };
    let addresses = |h: &History| (0..h.pages()).map(|p| h.address(Page(p))).collect::<Vec<_>>();
    assert_eq!(addresses(&build(8192)), [0x10000, 0x10000]);
    assert_eq!(addresses(&build(4096)), [0x10000, 0x11000, 0x10000]);
    assert_eq!(addresses(&build(512)), [0x10000, 0x11000, 0x10800, 0x10000]);
}

#[test]
fn large_pages_are_numbered_in_order_of_first_reference() {
    let frames = [0x4000, 0x8000, 0x5000, 0x20000];
    let page_size = PageSize::new(16384).unwrap();
    let mut builder = HistoryBuilder::new(Options { page_size, ..Options::default() });
    builder.group_frames(&frames);
    for (time, frame) in [1u64, 2, 0, 1].into_iter().enumerate() {
        builder.reference(Node(0), Time(time as u64), frame << 12, false);
    }
    let history = builder.finish(&frames).unwrap();
    assert_eq!((history.pages(), history.references()), (2, 4));
    assert_eq!((history.address(Page(0)), history.address(Page(1))), (0x8000, 0x4000));
}

#[test]
fn frames_that_no_page_is_known_of_are_pages_of_their_own() {
    let page_size = PageSize::new(8192).unwrap();
    let mut builder = HistoryBuilder::new(Options { page_size, ..Options::default() });
    builder.group_frames(&[0x4000, 0x5000]);
    for (time, frame) in [5u64, 0, 2, 1, 5].into_iter().enumerate() {
        builder.reference(Node(0), Time(time as u64), frame << 12, false);
    }
    let history = builder.finish(&[0x4000, 0x5000]).unwrap();
    let reads: Vec<_> = (0..history.pages()).map(|page| counts(&history, page)[0].1).collect();
    assert_eq!(reads, [2, 2, 1]);
}

/// References of a page run: Time, node, is a write.
type Stretch = Vec<(u64, u16, bool)>;

/// The runs of each page (in order of first reference) by their definition. `refs`: (node, page, is a write).
fn runs_by_definition(refs: &[(u16, u64, bool)], start: u64, read_gap: usize) -> Vec<Vec<PageRun>> {
    let mut pages: Vec<(u64, Vec<Stretch>)> = Vec::new();
    for (time, &(node, page, write)) in (start..).zip(refs) {
        let known = pages.iter().position(|&(known, _)| known == page).unwrap_or_else(|| {
            pages.push((page, Vec::new()));
            pages.len() - 1
        });
        let runs = &mut pages[known].1;
        let goes_on = runs.last().is_some_and(|run| {
            let written = run.iter().rposition(|r| r.2);
            let read_since = written.map_or(0, |last| run.len() - 1 - last);
            run[0].1 == node && run[0].0 >> 30 == time >> 30 && !(write && read_since > read_gap)
        });
        if !goes_on {
            runs.push(Vec::new());
        }
        runs.last_mut().unwrap().push((time, node, write));
    }
    let run = |run: &Stretch| {
        let writes = run.iter().filter(|r| r.2).count();
        let before = run.iter().take_while(|r| !r.2).count();
        let after = if writes > 0 { run.iter().rev().take_while(|r| !r.2).count() } else { 0 };
        PageRun {
            node: Node(run[0].1),
            first: Time(run[0].0),
            last: Time(run[run.len() - 1].0),
            reads_before: before as u32,
            writes: writes as u32,
            reads_between: (run.len() - writes - before - after) as u32,
            reads_after: after as u32,
        }
    };
    pages.iter().map(|(_, runs)| runs.iter().map(run).collect()).collect()
}

proptest! {
    /// Turns of any length, around a Time at which runs are cut.
    #[test]
    fn turns_make_the_runs_of_the_definition(
        turns in prop::collection::vec((0u16..3, prop::collection::vec((0u64..5, any::<bool>()), 0..40)), 0..20),
        gap in 0u32..4,
        before in 0u64..300,
    ) {
        let start = (1 << 30) - before;
        let mut builder = HistoryBuilder::new(Options { read_gap: gap, ..Options::default() });
        let mut refs = Vec::new();
        for (node, turn) in &turns {
            let addresses: Vec<u64> = turn.iter().map(|&(page, _)| page << 12 | 8).collect();
            let kinds: Vec<Kind> = turn.iter().map(|&(_, write)| Kind::new(8, write, false)).collect();
            builder.turn(Node(*node), Time(start + refs.len() as u64), &addresses, &kinds).unwrap();
            refs.extend(turn.iter().map(|&(page, write)| (*node, page, write)));
        }
        let history = builder.finish(&[0; 5]).unwrap();
        let expected = runs_by_definition(&refs, start, gap as usize);
        prop_assert_eq!(history.references(), refs.len() as u64);
        prop_assert_eq!(history.pages() as usize, expected.len());
        for (page, expected) in expected.iter().enumerate() {
            let runs: Vec<_> = history.runs(Page(page as u32)).unwrap().collect();
            prop_assert_eq!(&runs, expected);
        }
    }

    #[test]
    fn spilling_changes_nothing(refs in prop::collection::vec((0u16..4, 0u64..6, any::<bool>()), 0..400)) {
        let whole = History::from_references(&refs, 2);
        let spill: Box<dyn Spill> = Box::new(std::io::Cursor::new(Vec::new()));
        let mut builder = HistoryBuilder::new(Options { budget: 64, spill: Some(spill), ..Options::default() });
        let mut numbers = Vec::new();
        for (time, &(node, page, write)) in refs.iter().enumerate() {
            let frame = numbers.iter().position(|&p| p == page).unwrap_or_else(|| {
                numbers.push(page);
                numbers.len() - 1
            });
            builder.reference(Node(node), Time(time as u64), (frame as u64) << 12, write);
            builder.store.spill_if_full().unwrap();
        }
        let frames: Vec<u64> = numbers.iter().map(|p| p << 12).collect();
        let spilled = builder.finish(&frames).unwrap();
        prop_assert_eq!(whole.pages(), spilled.pages());
        for page in (0..whole.pages()).map(Page) {
            let left: Vec<_> = whole.runs(page).unwrap().collect();
            let right: Vec<_> = spilled.runs(page).unwrap().collect();
            prop_assert_eq!(left, right);
        }
    }

    /// References at any Time, cut into parts of which each has a builder of its own.
    #[test]
    fn parts_make_the_whole(
        refs in prop::collection::vec((0u16..3, 0u64..5, any::<bool>(), 0u64..3), 0..300),
        cuts in prop::collection::vec(0usize..300, 0..5),
        gap in 0u32..4,
        large in any::<bool>(),
    ) {
        let page_size = if large { PageSize::new(8192).unwrap() } else { PageSize::KIB4 };
        let frames = [0x1000, 0x2000, 0x3000, 0x2000, 0x10000];
        let options = || Options { page_size, read_gap: gap, ..Options::default() };
        let starting = |mut builder: HistoryBuilder| {
            builder.group_frames(&frames);
            builder
        };
        let mut parts = vec![starting(HistoryBuilder::new(options()))];
        let mut whole = starting(HistoryBuilder::new(options()));
        // Some Times lie around a multiple of 2^30, where runs are cut.
        let mut time = (1 << 30) - 150;
        for (i, &(node, frame, write, pause)) in refs.iter().enumerate() {
            for _ in cuts.iter().filter(|&&cut| cut == i) {
                parts.push(starting(HistoryBuilder::continuing(options())));
            }
            let add = |builder: &mut HistoryBuilder| builder.reference(Node(node), Time(time), frame << 12, write);
            add(&mut whole);
            add(parts.last_mut().unwrap());
            time += 1 + pause;
        }
        let mut parts = parts.into_iter();
        let mut joined = parts.next().unwrap();
        parts.for_each(|part| joined.append(part));
        let (whole, joined) = (whole.finish(&frames).unwrap(), joined.finish(&frames).unwrap());
        prop_assert_eq!(whole.pages(), joined.pages());
        prop_assert_eq!((whole.references(), whole.reads()), (joined.references(), joined.reads()));
        prop_assert_eq!((whole.run_count(), whole.duration()), (joined.run_count(), joined.duration()));
        for page in (0..whole.pages()).map(Page) {
            prop_assert_eq!(whole.address(page), joined.address(page));
            let left: Vec<_> = whole.runs(page).unwrap().collect();
            let right: Vec<_> = joined.runs(page).unwrap().collect();
            prop_assert_eq!(left, right);
        }
    }

    #[test]
    fn every_reference_is_in_exactly_one_run(
        refs in prop::collection::vec((0u16..4, 0u64..6, any::<bool>()), 0..400),
        gap in 0u32..4,
    ) {
        let history = History::from_references(&refs, gap);
        let mut rebuilt = 0;
        for page in (0..history.pages()).map(Page) {
            let number = history.address(page) >> 12;
            let mut mine = refs.iter().enumerate().filter(|(_, r)| r.1 == number);
            for run in history.runs(page).unwrap() {
                let stretch: Vec<_> = mine.by_ref().take(run.references() as usize).collect();
                prop_assert!(stretch.iter().all(|(_, r)| r.0 == run.node.0));
                prop_assert_eq!(stretch[0].0 as u64, run.first.0);
                prop_assert_eq!(stretch[stretch.len() - 1].0 as u64, run.last.0);
                let before = stretch.iter().take_while(|(_, r)| !r.2).count();
                let after = stretch.iter().rev().take_while(|(_, r)| !r.2).count();
                let writes = stretch.iter().filter(|(_, r)| r.2).count();
                prop_assert_eq!(before, run.reads_before as usize);
                prop_assert_eq!(writes, run.writes as usize);
                if writes > 0 {
                    prop_assert_eq!(after, run.reads_after as usize);
                }
                rebuilt += stretch.len();
            }
        }
        prop_assert_eq!(rebuilt, refs.len());
    }
}

#[test]
fn a_cut_ends_all_runs() {
    let mut builder = HistoryBuilder::new(Options::default());
    for (time, page) in [0, 1, 0, 0, 1, 0].into_iter().enumerate() {
        if time == 3 {
            builder.cut();
            builder.cut();
        }
        builder.reference(Node(2), Time(time as u64), page << 12, true);
    }
    let history = builder.finish(&[0, 1 << 12]).unwrap();
    let runs = |page| -> Vec<(u16, u64, u64, u32)> {
        let runs = history.runs(Page(page)).unwrap();
        runs.map(|run| (run.node.0, run.first.0, run.last.0, run.writes)).collect()
    };
    assert_eq!(runs(0), [(2, 0, 2, 2), (2, 3, 5, 2)]);
    assert_eq!(runs(1), [(2, 1, 1, 1), (2, 4, 4, 1)]);
}
