use super::super::manager::table::{find, Settings, MANAGERS};
use super::super::partition::{file, Partitioned};
use super::*;
use homing_core::ids::Node;
use proptest::prelude::*;

fn layout() -> Layout {
    let node_of = (0..8).map(|cpu| Node(cpu / 2)).collect();
    let distance = (0..16).map(|at| if at / 4 == at % 4 { 1.0 } else { 2.0 }).collect();
    Layout::new(node_of, 4, distance)
}

fn driver(manager: &str, level: usize) -> Driver {
    let built = (find(manager).unwrap().build)(Settings { level, ..Settings::default() });
    Driver::new(layout(), built, 1e-5)
}

fn arrives(id: u32, processors: u32) -> Input {
    Input::Arrived(JobId(id), Asked { processors, malleable: true, partition: PartitionId::default() })
}

/// Who begins (b), gets (g) or pauses (p), with threads.
fn told(outputs: &[Output]) -> Vec<(char, u32, u32)> {
    let short = |output: &Output| match output {
        Output::Begin(job, gets) => ('b', job.0, gets.threads),
        Output::Give(job, gets) => ('g', job.0, gets.threads),
        Output::Pause(job) => ('p', job.0, 0),
        Output::Vacate(vacate) => ('v', 0, u32::from(vacate.node.0)),
    };
    outputs.iter().map(short).collect()
}

#[test]
fn equal_shares_are_given_when_jobs_come_and_go_and_what_stays_is_not_said() {
    let mut driver = driver("equipartition", 4);
    assert_eq!(told(&driver.take(0.0, arrives(0, 8)).unwrap()), [('b', 0, 8)]);
    assert_eq!(told(&driver.take(1.0, arrives(1, 2)).unwrap()), [('g', 0, 6), ('b', 1, 2)]);
    assert_eq!(told(&driver.take(2.0, Input::Due).unwrap()), []);
    assert_eq!(told(&driver.take(3.0, Input::Ended(JobId(1))).unwrap()), [('g', 0, 8)]);
    assert_eq!(told(&driver.take(4.0, arrives(2, 99)).unwrap()), [('g', 0, 4), ('b', 2, 4)]);
    assert_eq!(told(&driver.take(5.0, Input::Ended(JobId(0))).unwrap()), [('g', 2, 8)]);
}

#[test]
fn time_sharing_gives_all_cpus_to_all() {
    let mut driver = driver("irix", 4);
    driver.take(0.0, arrives(0, 8)).unwrap();
    let both = driver.take(1.0, arrives(1, 8)).unwrap();
    assert_eq!(told(&both), [('g', 0, 4), ('b', 1, 4)]);
    for output in both {
        let (Output::Give(_, gets) | Output::Begin(_, gets)) = output else { panic!() };
        assert!(gets.shared && gets.cpus.len() == 8);
    }
}

fn progress(change: u64, before: u64, iterations: u64, at_s: f64) -> Input {
    Input::Progress(JobId(0), Progress { change, before, iterations, at_s })
}

#[test]
fn pdpa_measures_on_the_baseline_first_and_then_gives_the_rest() {
    let mut driver = driver("pdpa", 4);
    assert_eq!(told(&driver.take(0.0, arrives(0, 8)).unwrap()), [('b', 0, 4)], "it has eight CPUs");
    for (iterations, at_s) in [(1, 2.0), (2, 4.0), (3, 6.0)] {
        assert_eq!(told(&driver.take(at_s, progress(1, 0, iterations, at_s)).unwrap()), []);
    }
    assert_eq!(told(&driver.take(8.0, progress(1, 0, 4, 8.0)).unwrap()), [('g', 0, 8)]);
    // A report from before the change says nothing. On eight no faster: efficiency 0.5, so four are given up.
    assert_eq!(told(&driver.take(10.0, progress(1, 0, 5, 10.0)).unwrap()), []);
    for (iterations, at_s) in [(6, 12.0), (7, 14.0), (8, 16.0)] {
        assert_eq!(told(&driver.take(at_s, progress(2, 5, iterations, at_s)).unwrap()), []);
    }
    assert_eq!(told(&driver.take(18.0, progress(2, 5, 9, 18.0)).unwrap()), [('g', 0, 4)]);
    let measured = driver.measured(JobId(0)).unwrap();
    assert_eq!((measured.expected_s(4), measured.expected_s(8)), (Some(2.0), Some(2.0)));
}

#[test]
fn a_job_without_iterations_leaves_the_baseline() {
    let mut driver = driver("pdpa", 4);
    driver.take(0.0, arrives(0, 8)).unwrap();
    assert_eq!(driver.wake_s(), Some(PATIENCE_S));
    assert_eq!(told(&driver.take(PATIENCE_S, Input::Due).unwrap()), [('g', 0, 8)]);
}

#[test]
fn jobs_that_are_found_to_be_malleable_share() {
    let mut driver = driver("equipartition", 4);
    let rigid = Input::Arrived(
        JobId(0),
        Asked { processors: 8, malleable: false, partition: PartitionId::default() },
    );
    driver.take(0.0, rigid).unwrap();
    assert_eq!(told(&driver.take(1.0, arrives(1, 8)).unwrap()), [], "all are taken");
    assert_eq!(told(&driver.take(2.0, Input::Follows(JobId(0), true)).unwrap()), [('g', 0, 4), ('b', 1, 4)]);
}

#[test]
fn a_job_whose_threads_do_not_follow_gets_what_it_asks_for_once_that_is_free() {
    for manager in ["equipartition", "pdpa", "homing"] {
        let mut driver = driver(manager, 4);
        driver.take(0.0, arrives(0, 8)).unwrap();
        driver.take(1.0, arrives(1, 8)).unwrap();
        driver.take(2.0, Input::Follows(JobId(0), false)).unwrap();
        let outputs = driver.take(3.0, Input::Ended(JobId(1))).unwrap();
        assert_eq!(told(&outputs), [('g', 0, 8)], "{manager}");
    }
}

#[test]
fn gang_jobs_stand_still_in_turns() {
    let mut driver = driver("gang", 4);
    driver.take(0.0, arrives(0, 8)).unwrap();
    driver.take(0.5, arrives(1, 8)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let at_s = driver.wake_s().unwrap();
        seen.extend(told(&driver.take(at_s, Input::Due).unwrap()));
    }
    let kinds: String = seen.iter().map(|(what, ..)| *what).collect();
    assert!(kinds.contains("pg") && kinds.contains('b'), "{seen:?}");
}

/// A job of the toy world: it needs `work` processor seconds, in iterations of one.
#[derive(Clone, Copy, Debug)]
struct Toy {
    at_s: f64,
    asked: Asked,
    work: f64,
    /// Share of the work that one thread does alone.
    serial: f64,
}

#[derive(Debug, Default)]
struct State {
    gets: Option<Gets>,
    begun: bool,
    ended: bool,
    done: f64,
    before: u64,
}

/// Plays toys under a driver and checks what must always hold.
struct World {
    driver: Driver,
    toys: Vec<Toy>,
    states: Vec<State>,
    /// A node is to be left.
    vacate: bool,
}

impl World {
    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            let (id, gets) = match output {
                Output::Begin(id, gets) => {
                    let state = &mut self.states[id.index()];
                    assert!(!std::mem::replace(&mut state.begun, true), "job {} begins twice", id.0);
                    (id, Some(gets))
                }
                Output::Give(id, gets) => (id, Some(gets)),
                Output::Pause(id) => (id, None),
                Output::Vacate(_) => {
                    assert!(!std::mem::replace(&mut self.vacate, true), "two nodes at once");
                    continue;
                }
            };
            let state = &mut self.states[id.index()];
            assert!(state.begun && !state.ended);
            state.before = state.done as u64;
            state.gets = gets;
        }
        let mut taken = [false; 8];
        let mut shared = 0;
        for (state, toy) in self.states.iter().zip(&self.toys) {
            let Some(gets) = &state.gets else { continue };
            assert!(gets.threads >= 1 && gets.threads <= toy.asked.processors.min(8), "{gets:?} {toy:?}");
            assert!(gets.threads as usize <= gets.cpus.len());
            shared += if gets.shared { gets.threads } else { 0 };
            for cpu in gets.cpus.iter().filter(|_| !gets.shared) {
                assert!(!std::mem::replace(&mut taken[cpu.index()], true), "CPU {cpu} is given twice");
            }
        }
        assert!(shared as usize + taken.iter().filter(|&&taken| taken).count() <= 8);
    }

    fn take(&mut self, now_s: f64, input: Input) {
        let outputs = self.driver.take(now_s, input).unwrap();
        self.carry_out(outputs);
    }

    /// Steps of a quarter of a second until all have ended.
    fn play(&mut self) {
        for step in 0..40_000 {
            let now_s = f64::from(step) * 0.25;
            for id in 0..self.toys.len() {
                if self.toys[id].at_s <= now_s && self.toys[id].at_s > now_s - 0.25 {
                    self.take(now_s, Input::Arrived(JobId(id as u32), self.toys[id].asked));
                }
            }
            for id in 0..self.toys.len() {
                self.advance(now_s, id);
            }
            if self.driver.wake_s().is_some_and(|wake| wake <= now_s) {
                self.take(now_s, Input::Due);
            }
            // A quarter of a second or less after it was said.
            if step % 2 == 0 && std::mem::take(&mut self.vacate) {
                self.take(now_s, Input::Vacated { moved: 3, left: 1 });
            }
            if self.states.iter().all(|state| state.ended) {
                return;
            }
            let to_come = self.toys.iter().any(|toy| toy.at_s > now_s);
            assert!(
                to_come || self.vacate || self.driver.stuck() == 0,
                "stuck at {now_s} s: {:?}",
                self.states
            );
        }
        panic!("jobs are left: {:?}", self.states);
    }

    fn advance(&mut self, now_s: f64, id: usize) {
        let (toy, state) = (self.toys[id], &mut self.states[id]);
        let Some(gets) = state.gets.clone() else { return };
        let speed = 1.0 / (toy.serial + (1.0 - toy.serial) / f64::from(gets.threads));
        state.done += 0.25 * speed;
        if state.done >= toy.work {
            (state.gets, state.ended) = (None, true);
            return self.take(now_s, Input::Ended(JobId(id as u32)));
        }
        let report = Progress {
            change: gets.change,
            before: state.before,
            iterations: state.done as u64,
            at_s: now_s,
        };
        if toy.asked.malleable {
            self.take(now_s, Input::Progress(JobId(id as u32), report));
        }
    }
}

fn toys() -> impl Strategy<Value = Vec<Toy>> {
    let toy = (0.0..40.0f64, 1..13u32, any::<bool>(), 1.0..60.0f64, 0.0..1.0f64);
    let toy = toy.prop_map(|(at_s, processors, malleable, work, serial)| Toy {
        at_s,
        asked: Asked { processors, malleable, partition: PartitionId::default() },
        work,
        serial,
    });
    proptest::collection::vec(toy, 1..10).prop_map(|mut toys| {
        toys.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        toys
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn under_every_manager_all_jobs_begin_once_and_end_and_no_cpu_is_given_twice(
        toys in toys(), level in 1..5usize
    ) {
        for manager in MANAGERS {
            let states = toys.iter().map(|_| State::default()).collect();
            World { driver: driver(manager.name, level), toys: toys.clone(), states, vacate: false }.play();
        }
    }

    #[test]
    fn on_a_divided_machine_all_jobs_begin_once_and_end_and_no_cpu_is_given_twice(
        toys in toys(), level in 1..5usize, nodes in 1..4u16, goals in any::<[bool; 2]>(), first in any::<u32>()
    ) {
        for manager in MANAGERS.iter().filter(|manager| !manager.time_shares) {
            let goal = |moves: bool| if moves { "share = 0.5\n" } else { "" };
            let text: String = [(0..nodes, goals[0]), (nodes..4, goals[1])]
                .into_iter()
                .map(|(nodes, moves)| {
                    let list: Vec<u16> = nodes.collect();
                    format!("[[partition]]\nname = \"{list:?}\"\nnodes = {list:?}\n{}", goal(moves))
                })
                .collect();
            let built = || (manager.build)(Settings { level, ..Settings::default() });
            let parts = file::read(&text).unwrap().into_iter().map(|partition| (partition, built())).collect();
            let divided = Partitioned::new(&layout(), parts, 2.0, 1e-5);
            let mut toys = toys.clone();
            toys.iter_mut().enumerate().for_each(|(at, toy)| {
                toy.asked.partition = PartitionId(first >> at & 1);
            });
            let states = toys.iter().map(|_| State::default()).collect();
            World { driver: Driver::new(layout(), Box::new(divided), 1e-5), toys, states, vacate: false }.play();
        }
    }
}
