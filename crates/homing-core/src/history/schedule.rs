//! Scheduling events for a simulation: threads that move, another number of threads, preemption. They come from a file
//! or a seeded generator, change where references come from (the binding of threads to nodes over Time), and become
//! marks that are reported to policies (Nikolopoulos 2000, section 3.2: the three causes of obsolete counters).
//!
//! A trace has fixed threads. With `threads` = k, the work of trace thread i is done where thread i modulo k runs, as
//! an OpenMP program that adjusts its threads would do it. A preempted thread's work is taken up by the next thread
//! until it is resumed.

use super::Binding;
use crate::ids::{Cpu, Node, Thread, Time};
use crate::timeline::{Mark, ThreadMoved, ThreadsChanged};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// One scheduling event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Move { thread: Thread, cpu: Cpu },
    Threads(u32),
    Preempt { thread: Thread, until: Time },
}

/// Scheduling events in order of Time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    events: Vec<(Time, Event)>,
}

/// Scheduling events that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("scheduling events, line {line}: {message}")]
pub struct ScheduleError {
    /// Line of the file, from 1.
    pub line: u64,
    /// What is wrong, and what was expected.
    pub message: String,
}

const FORMATS: &str =
    "`time,thread,cpu`, `time,threads`, or `time,event,thread,value` with the events move (value: CPU), \
                       threads (value: number) and preempt (value: time of resumption)";

/// How many events of each kind a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    /// Seed.
    pub seed: u64,
    /// Threads moved to another CPU for good.
    pub moves: u64,
    /// Changes of the number of threads.
    pub threads: u64,
    /// Preemptions, each for a twentieth of the trace at most.
    pub preempts: u64,
}

impl std::str::FromStr for Random {
    type Err = String;

    /// Parses `SEED[:moves=N][:threads=N][:preempts=N]`; four moves unless something is said.
    fn from_str(text: &str) -> Result<Random, String> {
        let fail =
            || format!("events `random:{text}`: expected random:SEED[:moves=N][:threads=N][:preempts=N]");
        let mut parts = text.split(':');
        let seed = parts.next().and_then(|seed| seed.parse().ok()).ok_or_else(fail)?;
        let mut random = Random { seed, moves: 0, threads: 0, preempts: 0 };
        for part in parts {
            let (name, count) = part.split_once('=').ok_or_else(fail)?;
            let count = count.parse().ok().filter(|count| *count <= 100_000).ok_or_else(fail)?;
            match name {
                "moves" => random.moves = count,
                "threads" => random.threads = count,
                "preempts" => random.preempts = count,
                _ => return Err(fail()),
            }
        }
        if random.moves + random.threads + random.preempts == 0 {
            random.moves = 4;
        }
        Ok(random)
    }
}

impl Schedule {
    /// Reads events from CSV with a header: see [`FORMATS`].
    pub fn parse(text: &str) -> Result<Schedule, ScheduleError> {
        let fail = |line: u64, message: String| ScheduleError { line, message };
        let mut reader =
            csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|e| fail(1, e.to_string()))?.clone();
        let header: Vec<&str> = header.iter().collect();
        let mut events = Vec::new();
        for record in reader.records() {
            let record =
                record.map_err(|e| fail(e.position().map_or(0, csv::Position::line), e.to_string()))?;
            let line = record.position().map_or(0, csv::Position::line);
            let number = |index: usize| {
                let text = record.get(index).unwrap_or_default();
                text.parse::<u64>().map_err(|_| fail(line, format!("`{text}`: expected a number")))
            };
            let event = match (header.as_slice(), record.get(1).unwrap_or_default()) {
                (["time", "thread", "cpu"], _) => (number(1)?, "move", number(2)?),
                (["time", "threads"], _) => (0, "threads", number(1)?),
                (["time", "event", "thread", "value"], "threads") => (0, "threads", number(3)?),
                (["time", "event", "thread", "value"], name) => (number(2)?, name, number(3)?),
                _ => return Err(fail(1, format!("header `{}`: expected {FORMATS}", header.join(",")))),
            };
            let thread =
                u32::try_from(event.0).map(Thread).map_err(|_| fail(line, "no such thread".into()))?;
            let time = number(0)?;
            let event = match (event.1, event.2) {
                ("move", cpu) if cpu < 1 << 16 => Event::Move { thread, cpu: Cpu(cpu as u16) },
                ("threads", threads) if (1..1 << 16).contains(&threads) => Event::Threads(threads as u32),
                ("preempt", until) if until > time => Event::Preempt { thread, until: Time(until) },
                (name, value) => {
                    return Err(fail(line, format!("event `{name}` with value {value}: expected {FORMATS}")))
                }
            };
            events.push((Time(time), event));
        }
        events.sort_by_key(|&(time, _)| time);
        Ok(Schedule { events })
    }

    /// Events at random Times of a trace, the same for the same seed. Number of threads and CPUs as given.
    pub fn random(random: Random, duration: Time, threads: u32, cpus: u16) -> Schedule {
        let mut rng = SplitMix64::seed_from_u64(random.seed);
        let mut events = Vec::new();
        let (duration, threads, cpus) = (duration.0.max(1), threads.max(1), cpus.max(1));
        for _ in 0..random.moves {
            let (thread, cpu) = (Thread(rng.gen_range(0..threads)), Cpu(rng.gen_range(0..cpus)));
            events.push((Time(rng.gen_range(0..duration)), Event::Move { thread, cpu }));
        }
        for _ in 0..random.threads {
            let number = rng.gen_range(1..=threads);
            events.push((Time(rng.gen_range(0..duration)), Event::Threads(number)));
        }
        for _ in 0..random.preempts {
            let (thread, time) = (Thread(rng.gen_range(0..threads)), rng.gen_range(0..duration));
            let until = Time(time + 1 + rng.gen_range(0..duration.div_ceil(20)));
            events.push((Time(time), Event::Preempt { thread, until }));
        }
        events.sort_by_key(|&(time, _)| time);
        Schedule { events }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// True without events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Changes `binding` as the events say for a trace with `threads` threads, on a machine whose CPU i belongs to
    /// `cpu_nodes[i]`. Returns what is reported to policies: each thread whose node changed, each change of the number
    /// of threads.
    pub fn apply(
        &self,
        binding: &mut Binding,
        threads: u32,
        cpu_nodes: &[Node],
    ) -> Result<Vec<(Time, Mark)>, String> {
        let mut state = State {
            own: (0..threads).map(Thread).map(|thread| (binding.cpu(thread), binding.node(thread))).collect(),
            active: threads.max(1),
            preempted: vec![None; threads as usize],
        };
        let mut now = state.places(Time(0));
        let mut marks = Vec::new();
        for (time, event) in self.with_resumptions() {
            let known = |thread: Thread| match thread.0 < threads {
                true => Ok(thread.index()),
                false => Err(format!(
                    "a scheduling event names thread {thread}; the trace has threads 0 to {}",
                    threads - 1
                )),
            };
            match event {
                None => {}
                Some(Event::Move { thread, cpu }) => {
                    let node = cpu_nodes.get(cpu.index()).ok_or_else(|| {
                        let last = cpu_nodes.len().saturating_sub(1);
                        format!("a scheduling event names CPU {cpu}; the machine has CPUs 0 to {last}")
                    })?;
                    state.own[known(thread)?] = (cpu, *node);
                }
                Some(Event::Threads(active)) => {
                    state.active = active.min(threads.max(1));
                    marks.push((time, Mark::ThreadsChanged(ThreadsChanged { threads: state.active, time })));
                }
                Some(Event::Preempt { thread, until }) => state.preempted[known(thread)?] = Some(until),
            }
            let after = state.places(time);
            for thread in (0..threads).map(Thread) {
                let (before, place) = (now[thread.index()], after[thread.index()]);
                if before != place {
                    binding.change(thread, time, place);
                }
                let (from, to) = (before.1, place.1);
                if from != to {
                    marks.push((time, Mark::ThreadMoved(ThreadMoved { thread, from, to, time })));
                }
            }
            now = after;
        }
        Ok(marks)
    }

    /// The events, and the Times at which preempted threads go on.
    fn with_resumptions(&self) -> Vec<(Time, Option<Event>)> {
        let resumptions = self.events.iter().filter_map(|(_, event)| match event {
            Event::Preempt { until, .. } => Some((*until, None)),
            _ => None,
        });
        let mut all: Vec<_> =
            self.events.iter().map(|&(time, event)| (time, Some(event))).chain(resumptions).collect();
        all.sort_by_key(|&(time, _)| time);
        all
    }
}

/// Where the work of each thread is done.
struct State {
    /// CPU of each thread itself, and its node.
    own: Vec<(Cpu, Node)>,
    active: u32,
    /// Until when a thread does not run.
    preempted: Vec<Option<Time>>,
}

impl State {
    fn places(&self, time: Time) -> Vec<(Cpu, Node)> {
        let runs = |worker: usize| self.preempted[worker].is_none_or(|until| until <= time);
        let place = |thread: usize| {
            let active = self.active as usize;
            let first = thread % active;
            let worker = (0..active).map(|step| (first + step) % active).find(|&worker| runs(worker));
            self.own[worker.unwrap_or(first)]
        };
        (0..self.own.len()).map(place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::ThreadsOn;

    fn applied(text: &str) -> (Binding, Vec<String>) {
        let cpus = [0, 1, 2, 3].map(Node);
        let mut binding = ThreadsOn::Fill.bind(&cpus).unwrap();
        let marks = Schedule::parse(text).unwrap().apply(&mut binding, 4, &cpus).unwrap();
        let say = |(time, mark): &(Time, Mark)| match mark {
            Mark::ThreadMoved(moved) => format!("{time}: {} {} -> {}", moved.thread, moved.from, moved.to),
            Mark::ThreadsChanged(changed) => format!("{time}: {} threads", changed.threads),
            _ => unreachable!("schedules make no other marks"),
        };
        (binding, marks.iter().map(say).collect())
    }

    #[test]
    fn moves_change_where_references_come_from() {
        let (binding, marks) = applied("time,thread,cpu\n100,2,0\n50,1,3\n200,2,1\n");
        assert_eq!(marks, ["50: 1 1 -> 3", "100: 2 2 -> 0", "200: 2 0 -> 1"]);
        let at = |time: u64| binding.node_at(Thread(2), Time(time));
        assert_eq!(at(99), (Node(2), Some(Time(100))));
        assert_eq!(at(100), (Node(0), Some(Time(200))));
        assert_eq!(at(200), (Node(1), None));
        assert_eq!(binding.node_at(Thread(0), Time(1000)), (Node(0), None));
    }

    #[test]
    fn fewer_threads_take_the_work_of_the_others() {
        let (_, marks) = applied("time,threads\n10,2\n20,4\n");
        let expected = [
            "10: 2 threads",
            "10: 2 2 -> 0",
            "10: 3 3 -> 1",
            "20: 4 threads",
            "20: 2 0 -> 2",
            "20: 3 1 -> 3",
        ];
        assert_eq!(marks, expected);
    }

    #[test]
    fn a_preempted_thread_is_represented_until_it_goes_on() {
        let (_, marks) = applied("time,event,thread,value\n10,preempt,1,30\n20,move,2,0\n");
        assert_eq!(marks, ["10: 1 1 -> 2", "20: 1 2 -> 0", "20: 2 2 -> 0", "30: 1 0 -> 1"]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (bad, why) in [
            ("time,thread\n1,2\n", "expected `time,thread,cpu`"),
            ("time,thread,cpu\n1,x,2\n", "line 2: `x`"),
            ("time,threads\n1,0\n", "line 2"),
            ("time,event,thread,value\n5,preempt,1,5\n", "line 2"),
            ("time,event,thread,value\n5,sleep,1,5\n", "`sleep`"),
        ] {
            let error = Schedule::parse(bad).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let cpus = [Node(0)];
        let mut binding = ThreadsOn::Fill.bind(&cpus).unwrap();
        let mut error =
            |text: &str| Schedule::parse(text).unwrap().apply(&mut binding, 2, &cpus).unwrap_err();
        assert!(error("time,thread,cpu\n1,0,9\n").contains("CPUs 0 to 0"));
        assert!(error("time,thread,cpu\n1,2,0\n").contains("threads 0 to 1"));
    }

    #[test]
    fn generators_repeat() {
        let random: Random = "7:moves=3:threads=2:preempts=1".parse().unwrap();
        let one = Schedule::random(random, Time(1000), 4, 8);
        assert_eq!(one, Schedule::random(random, Time(1000), 4, 8));
        assert_eq!(one.len(), 6);
        assert_eq!("3".parse::<Random>().unwrap().moves, 4);
        for bad in ["", "x", "1:moves", "1:naps=2"] {
            assert!(bad.parse::<Random>().unwrap_err().contains("random:SEED"), "{bad}");
        }
    }
}
