//! Traces whose addresses are those of pages: but for the bits within pages they are the full ones.

use super::streams::Stream;
use super::*;
use crate::format::BlockKind;
use crate::wire::Flavour;
use homing_wire::{op, word as control};

fn header(grain: Grain) -> Header {
    Header { grain, ..Header::new("test", "1") }
}

/// What a thread does, executions one by one.
fn steps(trace: &Trace<'_>, thread: Thread) -> Vec<Step> {
    let mut all = Vec::new();
    for step in trace.thread_steps(thread) {
        match step {
            Step::Run { executions, references, instructions, atomics } => {
                let one = Step::Run { executions: 1, references, instructions, atomics };
                all.extend(std::iter::repeat_n(one, executions as usize));
            }
            other => all.push(other),
        }
    }
    all
}

/// The turns of a merge.
fn merged(trace: &Trace<'_>) -> Vec<(Thread, u64)> {
    let mut turns = Vec::new();
    merge::merge_trace(trace, merge::Options::default(), None, |thread, references| {
        turns.push((thread, references));
        Ok::<(), TraceError>(())
    })
    .unwrap();
    turns
}

/// By thread: the page's address, its number, the kind.
type References = HashMap<Thread, Vec<(u64, usize, Kind)>>;

/// What each thread refers to: the page's address, its number among the pages by first reference, and the kind. A page
/// that comes back after its mapping went away is another one.
fn references(bytes: &[u8], grain: Grain) -> (References, Collector) {
    let trace = Trace::open(bytes).unwrap();
    let mut writer = OrderWriter::copy(Vec::new(), &trace).unwrap();
    merged(&trace).into_iter().for_each(|(thread, count)| writer.turn(thread, count).unwrap());
    let ordered = writer.finish().unwrap().0;
    let trace = Trace::open(&ordered).unwrap();
    assert_eq!((trace.header().grain, trace.damage().len()), (grain, 0));
    let mut collector = Collector::default();
    assert_eq!(trace.visit_all(&mut collector).unwrap().lost, 0);
    let mut numbers = HashMap::new();
    let mut number = |frame: u64| {
        let next = numbers.len();
        *numbers.entry(frame).or_insert(next)
    };
    let mut next: HashMap<Thread, usize> = HashMap::new();
    for &(thread, count) in &collector.order {
        let from = next.entry(thread).or_default();
        let own = &collector.threads[&thread][*from..*from + count as usize];
        *from += own.len();
        own.iter().for_each(|&(address, _)| _ = number(address >> 12));
    }
    let all = collector.threads.iter().map(|(&thread, own)| {
        let one = |&(address, kind): &(u64, Kind)| {
            assert!(grain == Grain::Byte || address & 4095 == 0, "{address:#x} is no page");
            (trace.frames()[(address >> 12) as usize], numbers[&(address >> 12)], kind)
        };
        (thread, own.iter().map(one).collect())
    });
    (all.collect(), collector)
}

/// Fails if `pages` is not `full` without the bits within pages.
fn check(full: &[u8], pages: &[u8]) {
    let (all, of_full) = references(full, Grain::Byte);
    let (masked, of_pages) = references(pages, Grain::Page);
    assert!(all == masked, "the references differ");
    assert!(of_full.order == of_pages.order && of_full.events == of_pages.events);
    let (full, pages) = (Trace::open(full).unwrap(), Trace::open(pages).unwrap());
    assert_eq!(full.summary(), pages.summary());
    for (thread, _) in full.threads() {
        assert!(steps(&full, thread) == steps(&pages, thread), "thread {thread}: the virtual times differ");
    }
}

#[test]
fn of_executions_in_words_only_the_bits_within_pages_go() {
    let (mut of_full, mut of_pages) = (0, 0);
    for seed in 0..6 {
        let mut stream = Stream::new(seed);
        stream.run(30_000);
        for options in [
            IngestOptions::default(),
            IngestOptions { line_filter: true, ..IngestOptions::default() },
            IngestOptions { skip: 1000, limit: Some(100_000), line_filter: true, ..IngestOptions::default() },
        ] {
            let [full, pages] =
                [Grain::Byte, Grain::Page].map(|grain| stream.recorded(&header(grain), options));
            check(&full, &pages);
            (of_full, of_pages) = (of_full + full.len(), of_pages + pages.len());
        }
    }
    assert!(of_pages * 3 < of_full * 2, "{of_pages} bytes, {of_full} in full");
}

/// Words of the code blocks at the start of [`parallel`].
const DEFINITIONS: usize = 9;

/// A stream of the parallel flavour: executions, loops and references by themselves, between which time passes.
fn parallel(seed: u64, length: usize) -> Vec<u64> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // Reads with a step, derived from those (+8 and -40), with words of their own, and a write derived from such.
    let derived = |word: u64, by: i16| 1 << 34 | word << 36 | u64::from(by as u16) << 48;
    let mut words = vec![control(op::DEFINE, 5), 6 << 32 | 9, 0, 8 << 16 | 1 << 37];
    words.extend([1 | 8 << 16 | 1 << 32 | derived(0, 8), 2 | 8 << 16 | derived(0, -40)]);
    words.extend([3 | 4 << 16, 4 | 8 << 16 | 1 << 32 | derived(1, 4000), 5 | 4 << 16]);
    let mut start = 0x10_0000u64;
    for _ in 0..length {
        let near = random.gen_bool(0.5);
        let mut other = || match near {
            true => 0x800_0000 + random.gen_range(0..96u64) * 8,
            false => 0x800_0000 + random.gen_range(0..1 << 20u64) * 8,
        };
        let (one, two) = (other(), other());
        match random.gen_range(0..10) {
            0 => words.push(control(op::ADVANCE, random.gen_range(1..2000))),
            1..=3 => words.extend([control(op::BLOCK, 5), start, one, two]),
            4..=5 => {
                for pc in 0..random.gen_range(1..40u64) {
                    let address = if pc % 3 == 0 { one } else { start + pc * 8 };
                    words.push(address | (pc % 7) << 48 | 3 << 59 | (pc & 1) << 62);
                }
            }
            _ => {
                let step = [16u64, 8, 0, 4096, 8u64.wrapping_neg(), 5000][random.gen_range(0..6)];
                let count = random.gen_range(0..400u64);
                words.extend([control(op::LOOP, 5), 8 * (4 + 2 * count), start, step]);
                for _ in 0..count {
                    let mut word = |far: u64| match near {
                        true => far + random.gen_range(0..500u64) * 8,
                        false => far + random.gen_range(0..1 << 16u64) * 8,
                    };
                    words.extend([word(0x900_0000), word(0xa00_0000)]);
                }
                start = start.wrapping_add(step.wrapping_mul(count));
            }
        }
        if random.gen_bool(0.2) || !(0x10_0000..1 << 40).contains(&start) {
            start = random.gen_range(0x10_0000..0x4000_0000);
        }
    }
    words
}

/// The trace of two threads that do the same.
fn recorded(words: &[u64], grain: Grain, filter: bool) -> Vec<u8> {
    let writer = TraceWriter::new(Vec::new(), &header(grain)).unwrap();
    let options = IngestOptions { line_filter: filter, ..IngestOptions::default() };
    let mut ingest = Ingest::new(writer, Flavour::Parallel, options);
    ingest.segment(0, 0, words).unwrap();
    ingest.segment(1, 0, &words[DEFINITIONS..]).unwrap();
    let (bytes, summary) = ingest.finish().unwrap();
    assert_eq!(summary.malformed, 0);
    bytes
}

#[test]
fn blocks_that_end_elsewhere_change_no_times() {
    let words = parallel(7, 6000);
    let [full, pages] = [Grain::Byte, Grain::Page].map(|grain| recorded(&words, grain, false));
    check(&full, &pages);
    let blocks = |bytes: &[u8]| {
        let placed = format::read_index(bytes).unwrap().1;
        placed.iter().filter(|placed| placed.header.kind == BlockKind::References).count()
    };
    assert!(blocks(&full) > blocks(&pages), "{} {}", blocks(&full), blocks(&pages));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn of_loops_and_references_only_the_bits_within_pages_go(seed: u64, length in 1usize..300, filter: bool) {
        let words = parallel(seed, length);
        let [full, pages] = [Grain::Byte, Grain::Page].map(|grain| recorded(&words, grain, filter));
        check(&full, &pages);
    }

    /// Also where mappings move and go away, accesses do not happen, and executions end early.
    #[test]
    fn of_a_program_only_the_bits_within_pages_go(seed: u64, steps in 1usize..400) {
        let [full, pages] = [Grain::Byte, Grain::Page].map(|grain| {
            let mut program = Program::written(seed, &header(grain));
            (0..steps).for_each(|_| program.step());
            program.finish(false).0
        });
        check(&full, &pages);
    }
}

#[test]
fn what_copies_a_trace_keeps_its_grain_and_its_version() {
    let mut program = Program::written(3, &header(Grain::Page));
    (0..200).for_each(|_| program.step());
    let (bytes, ..) = program.finish(true);
    let [full, pages] = [Grain::Byte, Grain::Page].map(|grain| header(grain).version());
    assert_eq!((full, pages, u32::from(bytes[8])), (2, 3, 3));
    let trace = Trace::open(&bytes).unwrap();
    let recovered = recover::recover(trace, Vec::new(), merge::Options::default(), |_| ()).unwrap().0;
    let reordered = OrderWriter::copy(Vec::new(), &Trace::open(&bytes).unwrap()).unwrap().finish().unwrap().0;
    for copy in [recovered, reordered] {
        assert_eq!((Trace::open(&copy).unwrap().header().grain, copy[8]), (Grain::Page, 3));
    }
    // A header that is damaged, of which the file has no copy: the version is left.
    let mut cut = bytes[..bytes.len() / 2].to_vec();
    cut[30] ^= 1;
    let trace = Trace::salvage(&cut).unwrap();
    assert_eq!(trace.header().grain, Grain::Page);
    let recovered = recover::recover(trace, Vec::new(), merge::Options::default(), |_| ()).unwrap().0;
    assert_eq!(Trace::open(&recovered).unwrap().header().grain, Grain::Page);
}

#[test]
fn a_grain_that_is_none_is_refused() {
    assert_eq!(serde_json::to_string(&Grain::Page).unwrap(), "4096");
    let error = serde_json::from_str::<Header>(r#"{"grain":64}"#).unwrap_err().to_string();
    assert!(error.contains("a grain of 64 bytes; expected 1 or 4096"), "{error}");
    assert!(serde_json::from_str::<Header>("{}").unwrap().grain.is_exact());
}
