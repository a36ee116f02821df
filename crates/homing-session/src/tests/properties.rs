//! Properties of the session under any inputs, in any order: inputs that the kernel would never give included.

use super::super::input::*;
use super::super::output::*;
use super::super::{Session, HUGE, PAGE};
use super::world::{policy, regions, session, HEAP};
use homing_core::action::Outcome;
use homing_core::ids::{Micros, Node};
use homing_core::process::{ProcessId, ThreadId};
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// What a test did, beside what it found.
#[derive(Debug, Default)]
struct Seen {
    /// Pending actions, and what came of them.
    pending: u64,
    settled: u64,
    /// Orders handed out, and what the session was told of them.
    sent: u64,
    landed: u64,
    failed: u64,
    later: u64,
    not_allowed: u64,
    refused: u64,
    refused_anew: u64,
    last_refusals: BTreeMap<u32, Option<String>>,
    decided: u64,
    not_bound: u64,
}

/// Answers to give: the tags of orders, the numbers of questions.
#[derive(Debug, Default)]
struct Open {
    tags: Vec<u32>,
    questions: Vec<(u32, usize)>,
    splits: Vec<HugePage>,
}

fn process() -> impl Strategy<Value = ProcessId> {
    prop_oneof![9 => Just(ProcessId(1)), 1 => Just(ProcessId(2))]
}

fn thread() -> impl Strategy<Value = ThreadId> {
    (0..6i32).prop_map(ThreadId)
}

/// Of five nodes the machine has four.
fn node() -> impl Strategy<Value = Node> {
    prop_oneof![40 => (0..4u16).prop_map(Node), 1 => Just(Node(4))]
}

fn access() -> impl Strategy<Value = Access> {
    let address = prop_oneof![
        8 => (0..6u64).prop_map(|page| HEAP + page * PAGE + 16),
        4 => (0..3u64, 0..3u64).prop_map(|(block, page)| HEAP + block * HUGE + page * PAGE),
        1 => any::<u64>(),
    ];
    let kind = prop_oneof![
        4 => (0..500_000u64).prop_map(|us| AccessKind::HintFault { after_scan: Some(Micros(us)) }),
        1 => Just(AccessKind::HintFault { after_scan: None }),
        2 => (1..400u32).prop_map(|count| AccessKind::References(f64::from(count))),
        1 => prop_oneof![Just(f64::NAN), Just(-1.0), Just(f64::INFINITY)].prop_map(AccessKind::References),
    ];
    (process(), thread(), node(), address, any::<bool>(), kind).prop_map(
        |(process, thread, node, address, store, kind)| Access {
            process,
            thread,
            node,
            address,
            store,
            kind,
        },
    )
}

/// Now and then one of these, mostly none.
fn seldom<S: Strategy>(some: S) -> impl Strategy<Value = Vec<S::Value>> {
    proptest::option::weighted(0.1, some).prop_map(|some| some.into_iter().collect())
}

fn looked() -> impl Strategy<Value = Looked> {
    let threads = (process(), thread(), proptest::option::of(node()), any::<bool>())
        .prop_map(|(process, thread, node, ran)| ThreadSeen { process, thread, node, ran });
    let remapped =
        (process(), 0..4usize).prop_map(|(process, from)| (process, regions().split_off(from.min(3))));
    let room = proptest::option::of(0..HUGE * 2);
    (
        seldom(process()),
        seldom(process()),
        seldom(remapped),
        seldom((process(), proptest::collection::vec(node(), 0..4))),
        proptest::collection::vec(threads, 0..5),
        seldom((process(), thread())),
        any::<u64>(),
        proptest::collection::vec(room, 0..6),
        any::<bool>(),
    )
        .prop_map(
            |(ended, begun, remapped, allowed, threads, threads_ended, resident_pages, room, moves)| {
                let (cost, kernel_moves_pages) = (Micros(resident_pages % 1000), moves);
                Looked {
                    cost,
                    ended,
                    begun,
                    remapped,
                    allowed,
                    held: None,
                    threads,
                    threads_ended,
                    resident_pages,
                    room,
                    kernel_moves_pages,
                }
            },
        )
}

fn areas() -> impl Strategy<Value = Areas> {
    let area = (1..8u64, any::<bool>(), 0.5..2.0f64);
    let some = prop_oneof![3 => Just(Vec::new()), 1 => proptest::collection::vec(area, 1..4)];
    (process(), some).prop_map(|(process, areas)| {
        let area = |(place, (pages, stays, threshold)): (u64, (u64, bool, f64))| HotArea {
            start: HEAP + place * 8 * PAGE,
            bytes: pages * PAGE,
            name: place.to_string(),
            own: Own { stays, threshold, ..Own::default() },
        };
        Areas { process, areas: (0..).zip(areas).map(area).collect() }
    })
}

fn constructs() -> impl Strategy<Value = Constructs> {
    let threads = (thread(), node(), 0..4u32);
    let threads = threads.prop_map(|(thread, node, ended)| InConstructs { thread, node, ended });
    (process(), 0..5u32, proptest::collection::vec(threads, 0..4))
        .prop_map(|(process, team, threads)| Constructs { process, team, threads })
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let answer = (proptest::option::weighted(0.9, node()), any::<bool>());
    proptest::collection::vec(answer.prop_map(|(node, huge)| Answer { node, huge }), 1..5)
}

fn landed() -> impl Strategy<Value = Landed> {
    prop_oneof![2 => Just(Landed::There), 1 => (1..40i32).prop_map(Landed::Not), 1 => Just(Landed::NotAllowed),
        1 => Just(Landed::Later)]
}

/// An input, or an answer to what is open: that needs the session.
#[derive(Clone, Debug)]
enum Step {
    Input(Input),
    /// Answers the oldest or the newest question, with these nodes in turn.
    Answer(bool, Vec<Answer>),
    /// Lands some orders.
    Land(usize, Landed),
    Split(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let arrival = (process(), thread(), node(), 0..10_000_000u64, any::<bool>()).prop_map(
        |(process, thread, node, at, bound)| Arrival { process, thread, node, at: Micros(at), bound },
    );
    let noticed =
        prop_oneof![Just(Noticed::ProcessEnded), Just(Noticed::ThreadsBegan), Just(Noticed::CpusetChanged)];
    let input = prop_oneof![
        2 => (any::<bool>(), any::<bool>()).prop_map(|(behind, scannable)| Input::Tick { behind, scannable }),
        2 => looked().prop_map(Input::Looked),
        1 => noticed.prop_map(Input::Noticed),
        2 => proptest::collection::vec(arrival, 0..3).prop_map(Input::Migrated),
        8 => proptest::collection::vec(access(), 0..6).prop_map(Input::Accesses),
        1 => (any::<u32>(), answers()).prop_map(|(number, answers)| Input::Located { number, answers }),
        1 => Just(Input::MoversIdle),
        1 => (any::<u32>(), landed()).prop_map(|(tag, landed)| {
            Input::Landed { results: vec![(tag | 1 << 31, landed)], moving: Micros(1), stopped: Micros(1) }
        }),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(began, everywhere)| {
            let (stopped, cost) = (Micros(began % 100_000), Micros(began % 50_000));
            Input::Scanned(Scanned { began: Micros(began), stopped, everywhere, cost })
        }),
        1 => (1..40i32).prop_map(|errno| Input::NotBound { errno }),
        1 => areas().prop_map(Input::Areas),
        1 => constructs().prop_map(Input::Constructs),
        1 => prop_oneof![Just(Mark::IterationEnd), Just(Mark::PhaseBegin(1))].prop_map(Input::Marked),
        4 => Just(Input::IntervalEnd),
    ];
    prop_oneof![
        8 => input.prop_map(Step::Input),
        9 => (any::<bool>(), answers()).prop_map(|(oldest, answers)| Step::Answer(oldest, answers)),
        3 => (0..9usize, landed()).prop_map(|(count, landed)| Step::Land(count, landed)),
        1 => any::<bool>().prop_map(Step::Split),
    ]
}

impl Open {
    /// The input that a step stands for now.
    fn input(&mut self, step: Step) -> Input {
        match step {
            Step::Input(input) => input,
            Step::Answer(oldest, answers) => {
                let place = if oldest { 0 } else { self.questions.len().saturating_sub(1) };
                let some = (place < self.questions.len()).then(|| self.questions.remove(place));
                let (number, count) = some.unwrap_or((u32::MAX, 0));
                Input::Located { number, answers: answers.into_iter().cycle().take(count).collect() }
            }
            Step::Land(count, landed) => {
                let tags = self.tags.drain(..count.min(self.tags.len()));
                let results = tags.map(|tag| (tag, landed)).collect();
                Input::Landed { results, moving: Micros(1), stopped: Micros(0) }
            }
            Step::Split(done) => {
                let result = |HugePage { process, address }| SplitResult { process, address, done };
                Input::Split(std::mem::take(&mut self.splits).into_iter().map(result).collect())
            }
        }
    }

    fn note(&mut self, output: &Output) {
        match output {
            Output::Locate { number, questions } => self.questions.push((*number, questions.len())),
            Output::Move { orders, .. } => self.tags.extend(orders.iter().map(|order| order.tag)),
            Output::Split(pages) => self.splits.extend(pages),
            _ => {}
        }
    }
}

impl Seen {
    fn input(&mut self, input: &Input) {
        self.not_bound += u64::from(matches!(input, Input::NotBound { .. }));
        let Input::Landed { results, .. } = input else { return };
        for (tag, landed) in results {
            if tag >> 31 == 0 {
                match landed {
                    Landed::There => self.landed += 1,
                    Landed::Not(_) => self.failed += 1,
                    Landed::NotAllowed => self.not_allowed += 1,
                    Landed::Later => self.later += 1,
                }
            }
        }
    }

    fn add(&mut self, other: &Seen) {
        self.pending += other.pending;
        self.settled += other.settled;
        self.sent += other.sent;
        self.landed += other.landed;
        self.failed += other.failed;
        self.later += other.later;
        self.not_allowed += other.not_allowed;
        self.refused += other.refused;
        self.decided += other.decided;
        self.not_bound += other.not_bound;
    }

    fn output(&mut self, output: &Output) {
        match output {
            Output::Decided(decided) => {
                self.decided += 1;
                self.pending += u64::from(decided.outcome == Outcome::Pending.into());
                self.refused += u64::from(matches!(decided.outcome, RecordedOutcome::Refused(_)));
                let now = match &decided.outcome {
                    RecordedOutcome::Refused(why) => Some(why.to_string()),
                    _ => None,
                };
                let before = self.last_refusals.insert(decided.page, now.clone()).flatten();
                self.refused_anew += u64::from(now.is_some() && now != before);
            }
            Output::Settled(_) => self.settled += 1,
            Output::Move { orders, .. } => self.sent += orders.len() as u64,
            _ => {}
        }
    }
}

/// Where the session knows pages to be.
fn known(session: &Session<'_>) -> BTreeMap<(ProcessId, u64), Option<Node>> {
    let pages = session.orders().pages().iter();
    pages.map(|(_, entry)| ((entry.process, entry.address), entry.at)).collect()
}

/// Has a session take the steps, and checks its orders and counts.
fn check(steps: Vec<(u64, Step)>, dry_run: bool) -> Result<Seen, TestCaseError> {
    let mut policy = policy();
    let mut session = session(if dry_run { "scans dry-run" } else { "scans" }, &mut *policy);
    let (mut seen, mut open, mut tags, mut t) = (Seen::default(), Open::default(), BTreeSet::new(), 0);
    let (begun, remapped) = (vec![ProcessId(1)], vec![(ProcessId(1), regions())]);
    let begin = Input::Looked(Looked { begun, remapped, ..Looked::default() });
    let steps = std::iter::once((0, Step::Input(begin))).chain(steps);
    for (after, step) in steps.chain([(0, Step::Input(Input::End))]) {
        // Now and then time runs backwards.
        t = if after % 17 == 0 { t / 2 } else { t + after };
        let input = open.input(step);
        seen.input(&input);
        let mut outputs = Vec::new();
        session.input(Micros(t), input, &mut outputs);
        let known = known(&session);
        for output in &outputs {
            seen.output(output);
            open.note(output);
            let Output::Move { orders, .. } = output else { continue };
            for order in orders {
                let at = known.get(&(order.process, order.address));
                prop_assert!(!dry_run, "a dry run moves nothing");
                prop_assert!(at.is_some(), "{order:?}: of an unknown page");
                prop_assert!(at != Some(&Some(order.to)) && order.to < Node(4), "{order:?}: it is at {at:?}");
                prop_assert!(tags.insert(order.tag), "{order:?}: given twice");
            }
        }
    }
    seen.adds_up(&session, &open)?;
    Ok(seen)
}

impl Seen {
    fn adds_up(&self, session: &Session<'_>, open: &Open) -> Result<(), TestCaseError> {
        let account = session.account();
        prop_assert_eq!((account.total.moved, account.total.failed), (self.landed, self.failed));
        prop_assert_eq!(account.failures.values().sum::<u64>(), self.failed + self.not_bound);
        // Numbers of pages that have gone are given again, and with them refusals count again.
        let refused = account.refused.values().sum::<u64>() - self.not_allowed;
        prop_assert!((self.refused_anew..=self.refused).contains(&refused), "{refused}: {self:?}");
        let under_way = session.orders().under_way() as u64;
        prop_assert_eq!(self.sent, self.answered() + under_way, "{:?}", self);
        prop_assert_eq!(under_way, open.tags.len() as u64);
        prop_assert!(self.settled <= self.pending && self.pending <= self.decided, "{:?}", self);
        Ok(())
    }

    fn answered(&self) -> u64 {
        self.landed + self.failed + self.later + self.not_allowed
    }

    /// True if enough happened to show something.
    fn is_much(&self) -> bool {
        let Seen { pending, settled, sent, landed, failed, later, refused, decided, not_bound, .. } = *self;
        let counts =
            [pending, settled, sent, landed, failed, later, self.not_allowed, refused, decided, not_bound];
        counts.iter().all(|&n| n >= 30)
    }
}

#[test]
fn whatever_happens_orders_are_sound_and_counts_add_up() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let all = RefCell::new(Seen::default());
    let steps = proptest::collection::vec((0..300_000u64, step()), 0..300);
    let result = TestRunner::new_with_rng(config, rng).run(&(steps, any::<bool>()), |(steps, dry_run)| {
        all.borrow_mut().add(&check(steps, dry_run)?);
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(all.borrow().is_much(), "{all:?}");
}
