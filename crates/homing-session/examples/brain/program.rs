//! Generated programs: who uses which page when, as a trace in a total order. The same seed gives the same trace.

use homing_core::ids::Thread;
use homing_core::trace::{Header, Kind, Summary, TraceError, TraceWriter};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Parts of a run, in each of which each page is visited: about as long as the time between two scans at first.
pub const WINDOWS: u32 = 72;
/// Threads of each program.
pub const THREADS: u32 = 8;
const BASE: u64 = 0x4000_0000;
const PAGE: u64 = 4096;
const LINES: u64 = 64;

/// Which of two users an owned page has in each window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phases {
    /// Always the first.
    One,
    /// The first for that many windows, then the second, and so on.
    Blocks(u32),
    /// The first in a window with this chance, else the second.
    Random(f64),
}

/// A program. Shares and chances are from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Program {
    /// Pages.
    pub pages: u32,
    /// Share of pages that all threads use alike; the others have an owner.
    pub shared: f64,
    /// Share of an owned page's visits that its owner makes; any thread makes the rest.
    pub own: f64,
    /// How uneven the chances of threads are to be the first at a shared page: 0 is even. They change every window.
    pub skew: f64,
    /// Chance of thread 0 to be the first at a shared page; the others by `skew`.
    pub master: f64,
    /// Two owners in turn.
    pub phases: Phases,
    /// The second owner is anybody.
    pub any: bool,
    /// Windows after which each page goes to the thread of another node, for good.
    pub swaps: &'static [u32],
    /// Chance in each window that two threads change places.
    pub moves: f64,
    /// Share of the run in which pages come into use, one after the other; 0: all at the beginning.
    pub growth: f64,
    /// Visits of each page in a window, and lines of each visit.
    pub visits: u32,
    /// See `visits`.
    pub lines: u32,
    /// Further references of each visit to one line, which hit the cache: the less memory matters.
    pub hits: u32,
}

/// Each page has one owner, which is nearly alone with it.
pub const OWN: Program = Program {
    pages: 512,
    shared: 0.0,
    own: 0.98,
    skew: 0.3,
    master: 0.0,
    phases: Phases::One,
    any: false,
    swaps: &[],
    moves: 0.0,
    growth: 0.0,
    visits: 2,
    lines: 12,
    hits: 0,
};
/// All threads use all pages alike.
pub const ALIKE: Program = Program { shared: 1.0, ..OWN };

/// The programs, by name.
pub const PROGRAMS: &[(&str, Program)] = &[
    ("own", OWN),
    ("own-noisy", Program { own: 0.88, ..OWN }),
    ("own-70", Program { own: 0.7, ..OWN }),
    ("own-50", Program { own: 0.5, skew: 2.0, ..OWN }),
    ("own-computes", Program { hits: 100, ..OWN }),
    ("own-large", Program { pages: 2048, visits: 1, lines: 6, ..OWN }),
    // What a thread owns fits its caches: nothing is to be gained.
    ("own-small", Program { pages: 64, visits: 16, ..OWN }),
    ("alike", ALIKE),
    ("alike-skewed", Program { skew: 4.0, ..ALIKE }),
    ("alike-master", Program { master: 0.6, ..ALIKE }),
    ("alike-master-80", Program { master: 0.8, ..ALIKE }),
    ("alike-large", Program { pages: 2048, visits: 1, lines: 8, ..ALIKE }),
    ("alike-computes", Program { hits: 40, ..ALIKE }),
    ("half-shared", Program { shared: 0.5, skew: 2.0, ..OWN }),
    ("most-shared", Program { shared: 0.8, skew: 4.0, ..OWN }),
    ("some-shared", Program { shared: 0.2, skew: 1.0, ..OWN }),
    ("turn-1", Program { phases: Phases::Blocks(1), ..OWN }),
    ("turn-2", Program { phases: Phases::Blocks(2), ..OWN }),
    ("turn-4", Program { phases: Phases::Blocks(4), ..OWN }),
    ("turn-12", Program { phases: Phases::Blocks(12), ..OWN }),
    ("turn-24", Program { phases: Phases::Blocks(24), ..OWN }),
    ("turn-1-any", Program { phases: Phases::Blocks(1), any: true, ..OWN }),
    ("turn-4-any", Program { phases: Phases::Blocks(4), any: true, ..OWN }),
    ("turn-half", Program { phases: Phases::Random(0.5), ..OWN }),
    ("turn-65", Program { phases: Phases::Random(0.65), ..OWN }),
    ("turn-40-any", Program { phases: Phases::Random(0.4), any: true, ..OWN }),
    ("turn-4-shared", Program { phases: Phases::Blocks(4), shared: 0.5, ..OWN }),
    ("swap", Program { swaps: &[36], ..OWN }),
    ("swap-early", Program { swaps: &[12], ..OWN }),
    ("swap-twice", Program { swaps: &[24, 48], own: 0.95, ..OWN }),
    ("swap-shared", Program { swaps: &[36], shared: 0.5, ..OWN }),
    ("threads-move", Program { moves: 0.05, ..OWN }),
    ("threads-move-often", Program { moves: 0.3, ..OWN }),
    ("threads-move-alike", Program { moves: 0.2, ..ALIKE }),
    ("threads-move-noisy", Program { moves: 0.1, own: 0.7, ..OWN }),
    ("grows", Program { growth: 0.8, ..OWN }),
    ("grows-alike", Program { growth: 0.8, ..ALIKE }),
    ("grows-shared", Program { growth: 0.5, shared: 0.5, skew: 2.0, ..OWN }),
    ("seldom", Program { pages: 2048, visits: 1, lines: 1, hits: 6, ..OWN }),
    ("seldom-alike", Program { pages: 512, visits: 1, lines: 8, hits: 30, ..ALIKE }),
];

/// A program drawn at random.
pub fn random(seed: u64) -> Program {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let one_of = |rng: &mut Xoshiro256PlusPlus, of: &[f64]| *of.choose(rng).unwrap_or(&0.0);
    let phases = match rng.gen_range(0..4) {
        0 => Phases::Blocks(1 << rng.gen_range(0..6)),
        1 => Phases::Random(rng.gen_range(0.3..0.8)),
        _ => Phases::One,
    };
    Program {
        pages: 64 << rng.gen_range(0..5),
        shared: one_of(&mut rng, &[0.0, 0.0, 0.2, 0.5, 0.8, 1.0]),
        own: one_of(&mut rng, &[0.98, 0.95, 0.9, 0.8]),
        skew: one_of(&mut rng, &[0.0, 0.3, 1.0, 4.0]),
        master: one_of(&mut rng, &[0.0, 0.0, 0.6]),
        phases,
        any: rng.gen_bool(0.3),
        swaps: if rng.gen_bool(0.2) { &[30] } else { &[] },
        moves: one_of(&mut rng, &[0.0, 0.0, 0.0, 0.05, 0.2]),
        growth: one_of(&mut rng, &[0.0, 0.0, 0.5]),
        visits: rng.gen_range(1..3),
        lines: rng.gen_range(4..16),
        hits: *[0, 0, 16].choose(&mut rng).unwrap_or(&0),
    }
}

/// A trace, and which two threads change places before which reference.
pub struct Generated {
    /// The trace.
    pub bytes: Vec<u8>,
    /// By reference.
    pub exchanges: Vec<(u64, u32, u32)>,
}

impl Program {
    /// The trace of one run.
    pub fn generate(&self, seed: u64) -> Result<Generated, TraceError> {
        let mut run = Run {
            program: self,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            writer: TraceWriter::new(Vec::new(), &Header::new("brain", "1"))?,
            references: 0,
            line: vec![0; self.pages as usize],
            visits: vec![Vec::new(); THREADS as usize],
            weights: [1.0; THREADS as usize],
        };
        let shared: Vec<bool> = (0..self.pages).map(|_| run.rng.gen_bool(self.shared)).collect();
        let begins: Vec<u32> = (0..self.pages)
            .map(|_| (run.rng.gen::<f64>() * self.growth * f64::from(WINDOWS)) as u32)
            .collect();
        let (mut shift, mut exchanges) = (0, Vec::new());
        for window in 0..WINDOWS {
            if self.swaps.contains(&window) {
                // Threads are on nodes in turn: the next one is on another node.
                shift += 1;
            }
            if run.rng.gen_bool(self.moves) {
                let first = run.rng.gen_range(0..THREADS);
                let second = (first + run.rng.gen_range(1..THREADS)) % THREADS;
                exchanges.push((run.references, first, second));
            }
            let second = match self.phases {
                Phases::One => false,
                Phases::Blocks(length) => window / length % 2 == 1,
                Phases::Random(first) => !run.rng.gen_bool(first),
            };
            run.draw_weights();
            let owners: Vec<Option<u32>> = (0..self.pages)
                .map(|page| match second {
                    true if self.any => None,
                    true => Some((page * 7 + 3 + shift) % THREADS),
                    false => Some((page * THREADS / self.pages + shift) % THREADS),
                })
                .collect();
            for page in (0..self.pages).filter(|page| begins[*page as usize] == window) {
                let owner = match shared[page as usize] {
                    true => run.rng.gen_range(0..THREADS),
                    false => (page * THREADS / self.pages + shift) % THREADS,
                };
                run.refer(owner, page, true)?;
            }
            for _ in 0..self.visits {
                // Threads have their turns by owners, so that none waits for others long.
                let stride = self.pages / THREADS;
                let order = (0..self.pages).map(|n| n % THREADS * stride + n / THREADS);
                for page in order.filter(|page| begins[*page as usize] <= window) {
                    run.plan(
                        page,
                        owners[page as usize].filter(|_| !shared[page as usize]),
                        shared[page as usize],
                    );
                }
                run.make_visits()?;
            }
        }
        Ok(Generated { bytes: run.writer.finish(Summary::default())?.0, exchanges })
    }
}

/// A visit of a page: lines, and the place among those that others make of it.
#[derive(Clone, Copy)]
struct Visit {
    page: u32,
    lines: u32,
}

struct Run<'a> {
    program: &'a Program,
    rng: Xoshiro256PlusPlus,
    writer: TraceWriter<Vec<u8>>,
    references: u64,
    /// The next line of each page.
    line: Vec<u64>,
    /// Visits that each thread has to make.
    visits: Vec<Vec<Visit>>,
    /// Each thread's chance to be the first at a shared page.
    weights: [f64; THREADS as usize],
}

impl Run<'_> {
    fn draw_weights(&mut self) {
        let Program { skew, master, .. } = *self.program;
        for weight in &mut self.weights {
            *weight = self.rng.gen::<f64>().powf(skew) + 1e-6;
        }
        if master > 0.0 {
            let others: f64 = self.weights[1..].iter().sum();
            self.weights[0] = others * master / (1.0 - master);
        }
    }

    /// A visit of a page to come. One that all use is visited by all of them, one after the other: who is first after a
    /// scan faults.
    fn plan(&mut self, page: u32, owner: Option<u32>, shared: bool) {
        let lines = self.program.lines;
        if !shared {
            let owner = owner.filter(|_| self.rng.gen_bool(self.program.own));
            let user = owner.unwrap_or_else(|| self.rng.gen_range(0..THREADS));
            self.visits[user as usize].push(Visit { page, lines });
            return;
        }
        let first = self.first();
        let mut order: Vec<u32> = (0..THREADS).filter(|thread| *thread != first).collect();
        order.shuffle(&mut self.rng);
        // What was visited together goes on together: no thread is ahead of the others.
        let most = self.visits.iter().map(Vec::len).max().unwrap_or(0);
        for (place, thread) in std::iter::once(first).chain(order).enumerate() {
            let visits = &mut self.visits[thread as usize];
            visits.resize(most + place, Visit { page, lines: 0 });
            visits.push(Visit { page, lines: (lines / THREADS).max(1) });
        }
    }

    /// A thread by the weights.
    fn first(&mut self) -> u32 {
        let mut left = self.rng.gen::<f64>() * self.weights.iter().sum::<f64>();
        let found = self.weights.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        found.unwrap_or(0) as u32
    }

    /// All threads make their visits, one of each in turn.
    fn make_visits(&mut self) -> Result<(), TraceError> {
        let mut visits = std::mem::replace(&mut self.visits, vec![Vec::new(); THREADS as usize]);
        for place in 0..visits.iter().map(Vec::len).max().unwrap_or(0) {
            for (thread, visits) in (0..).zip(&mut visits) {
                let Some(visit) = visits.get(place).filter(|visit| visit.lines > 0) else { continue };
                for line in 0..visit.lines {
                    self.refer(thread, visit.page, line % 4 == 3)?;
                }
                for _ in 0..self.program.hits {
                    self.refer_to(thread, self.address(visit.page), false)?;
                }
            }
        }
        Ok(())
    }

    fn address(&self, page: u32) -> u64 {
        BASE + u64::from(page) * PAGE + self.line[page as usize] * 64
    }

    /// The next line of a page.
    fn refer(&mut self, thread: u32, page: u32, write: bool) -> Result<(), TraceError> {
        let line = &mut self.line[page as usize];
        *line = (*line + 1) % LINES;
        self.refer_to(thread, self.address(page), write)
    }

    fn refer_to(&mut self, thread: u32, address: u64, write: bool) -> Result<(), TraceError> {
        self.references += 1;
        self.writer.reference(Thread(thread), 0, address, Kind::new(8, write, false))?;
        self.writer.turn(Thread(thread), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::trace::{Trace, Turn, Visitor};
    use proptest::prelude::*;

    /// References as (thread, page), in order.
    struct Seen<'a> {
        frames: &'a [u64],
        references: Vec<(u32, usize)>,
    }

    impl Visitor for Seen<'_> {
        fn turn(&mut self, turn: Turn<'_>) {
            let page = |address: &u64| (self.frames[(address / PAGE) as usize] - BASE / PAGE) as usize;
            self.references.extend(turn.addresses.iter().map(|address| (turn.thread.0, page(address))));
        }
    }

    fn references(program: &Program, seed: u64) -> Vec<(u32, usize)> {
        let generated = program.generate(seed).unwrap();
        let trace = Trace::open(&generated.bytes).unwrap();
        let mut seen = Seen { frames: trace.frames(), references: Vec::new() };
        trace.visit_all(&mut seen).unwrap();
        assert_eq!(seen.references.len() as u64, trace.references());
        seen.references
    }

    const SMALL: Program = Program { pages: 64, ..OWN };

    /// By page: the share of references of the thread with most of them.
    fn shares(of: &[(u32, usize)], pages: u32) -> Vec<f64> {
        let mut counts = vec![[0.0; THREADS as usize]; pages as usize];
        of.iter().for_each(|&(thread, page)| counts[page][thread as usize] += 1.0);
        let share =
            |of: &[f64; THREADS as usize]| of.iter().copied().fold(0.0, f64::max) / of.iter().sum::<f64>();
        counts.iter().map(share).collect()
    }

    #[test]
    fn owned_pages_have_one_user_and_shared_ones_all() {
        let (own, alike) = (references(&SMALL, 1), references(&Program { shared: 1.0, ..SMALL }, 1));
        assert!(shares(&own, 64).iter().all(|share| *share > 0.9));
        assert!(shares(&alike, 64).iter().all(|share| *share < 0.2));
        let threads = |of: &[(u32, usize)]| (0..THREADS).all(|thread| of.iter().any(|by| by.0 == thread));
        assert!(threads(&own[..200]) && threads(&alike[..200]), "threads run at the same time");
    }

    #[test]
    fn a_master_is_the_first_at_shared_pages() {
        let program = Program { shared: 1.0, master: 0.8, visits: 1, lines: 8, ..SMALL };
        let all = references(&program, 3);
        // One reference made each page; then each window has eight visits of a page, one of each thread.
        let mut visits = vec![Vec::new(); 64];
        all.iter().skip(64).for_each(|&(thread, page)| visits[page].push(thread));
        let first: Vec<u32> = visits.iter().flat_map(|page| page.chunks(8).map(|visit| visit[0])).collect();
        let share = first.iter().filter(|thread| **thread == 0).count() as f64 / first.len() as f64;
        assert!(first.len() == 64 * WINDOWS as usize && (share - 0.8).abs() < 0.03, "{share}");
    }

    #[test]
    fn phases_take_turns_and_an_exchange_is_for_good() {
        let half = |all: &[(u32, usize)], second: bool| {
            let middle = all.len() / 2;
            shares(if second { &all[middle..] } else { &all[..middle] }, 64)
        };
        let turns = references(&Program { phases: Phases::Blocks(1), ..SMALL }, 1);
        assert!(half(&turns, false).iter().filter(|share| **share < 0.6).count() > 48, "two users in turn");
        let swapped = references(&Program { swaps: &[36], ..SMALL }, 1);
        assert!([false, true].iter().all(|second| half(&swapped, *second).iter().all(|share| *share > 0.85)));
        assert!(shares(&swapped, 64).iter().all(|share| *share < 0.6), "another user after it");
    }

    #[test]
    fn pages_come_into_use_and_threads_change_places() {
        let program = Program { growth: 0.5, moves: 0.5, ..SMALL };
        let generated = program.generate(5).unwrap();
        let all = references(&program, 5);
        let used = |of: &[(u32, usize)]| {
            of.iter().map(|seen| seen.1).collect::<std::collections::BTreeSet<_>>().len()
        };
        assert!(used(&all[..all.len() / 20]) < 30 && used(&all[..all.len() * 2 / 3]) == 64);
        assert!((20..52).contains(&generated.exchanges.len()), "{:?}", generated.exchanges);
        assert!(generated.exchanges.iter().all(|&(time, a, b)| time < all.len() as u64 && a != b));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]
        #[test]
        fn any_program_is_made_again_by_its_seed(seed in 0u64..1_000_000) {
            let program = Program { pages: 64, ..random(seed) };
            prop_assert_eq!(program, Program { pages: 64, ..random(seed) });
            let (one, two) = (program.generate(seed).unwrap(), program.generate(seed).unwrap());
            prop_assert!(one.bytes == two.bytes && one.exchanges == two.exchanges);
            prop_assert!(program.generate(seed + 1).unwrap().bytes != one.bytes);
            let all = references(&program, seed);
            prop_assert!((0..64).all(|page| all.iter().any(|seen| seen.1 == page)), "each page is used");
        }
    }
}
