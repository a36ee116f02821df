//! What happens around the references in a simulation: `--iterations`, `--events`.

use crate::error::{PipelineError, Result};
use crate::info::parameter;
use homing_core::history::schedule::{Random, Schedule};
use homing_core::history::Binding;
use homing_core::ids::{Cpu, Node, Time, MOST_THREADS};
use homing_core::machine::Machine;
use homing_core::report::Parameter;
use homing_core::timeline::{Mark, Timeline};
use homing_linux::files::read_text;
use homing_trace::Trace;
use std::path::Path;
use std::str::FromStr;

/// Where iterations end, unless the user says it.
pub const ITERATIONS: &str = "marks";

/// What happens to the program besides its references.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Where iterations end.
    pub iterations: Iterations,
    /// Scheduling events: a CSV file, or random:SEED[:moves=N][:threads=N][:preempts=N].
    pub events: Option<String>,
}

impl Default for Scene {
    fn default() -> Scene {
        Scene { iterations: ITERATIONS.parse().expect("the default is a rule"), events: None }
    }
}

/// A rule that says where iterations end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Iterations {
    /// At marks named `iteration` in the trace.
    Marks,
    /// Every so many references.
    Every(u64),
    /// So many, equally long.
    Count(u64),
}

impl FromStr for Iterations {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Iterations, String> {
        let number = |digits: &str| digits.parse().ok().filter(|&number| number > 0);
        let rule = match text.split_once(':') {
            None if text == "marks" => Some(Iterations::Marks),
            Some(("every", digits)) => number(digits).map(Iterations::Every),
            Some(("count", digits)) => number(digits).map(Iterations::Count),
            _ => None,
        };
        rule.ok_or_else(|| format!("`{text}`: expected marks, every:N (references) or count:K (iterations)"))
    }
}

impl std::fmt::Display for Iterations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Iterations::Marks => f.write_str("marks"),
            Iterations::Every(length) => write!(f, "every:{length}"),
            Iterations::Count(count) => write!(f, "count:{count}"),
        }
    }
}

impl Scene {
    /// Changes `binding` as the scheduling events say; returns what policies hear of them.
    pub fn schedule(
        &self,
        trace: &Trace<'_>,
        machine: &Machine,
        binding: &mut Binding,
    ) -> Result<Vec<(Time, Mark)>> {
        let Some(events) = &self.events else { return Ok(Vec::new()) };
        let usage = |message: String| PipelineError::Usage(format!("--events {events}: {message}"));
        let threads = trace.threads().map(|(thread, _)| thread.0).max();
        if let Some(highest) = threads.filter(|&highest| highest >= MOST_THREADS) {
            return Err(usage(format!(
                "the trace has a thread {highest}; scheduling events go with threads below {MOST_THREADS}"
            )));
        }
        let threads = threads.map_or(0, |highest| highest + 1);
        let cpus: Vec<Node> =
            (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0))).collect();
        let schedule = match events.strip_prefix("random:") {
            Some(random) => {
                let random: Random = random.parse().map_err(|e: String| PipelineError::Usage(e))?;
                Schedule::random(random, Time(trace.references()), threads, cpus.len() as u16)
            }
            None => {
                let text = read_text(Path::new(events), "file of scheduling events")?;
                Schedule::parse(&text).map_err(|e| usage(e.to_string()))?
            }
        };
        if schedule.is_empty() && !events.starts_with("random:") {
            return Err(usage("no events in it; expected lines such as time,thread,cpu".into()));
        }
        schedule.apply(binding, threads, &cpus).map_err(usage)
    }

    /// The marks of a trace of that duration. `marks`: those that the trace has.
    pub fn timeline(&self, marks: Vec<(Time, Mark)>, duration: Time) -> Timeline {
        let mut timeline = Timeline::default();
        let by_rule = self.iterations != Iterations::Marks;
        timeline.add(marks.into_iter().filter(|(_, mark)| !by_rule || !matches!(mark, Mark::IterationEnd)));
        match self.iterations {
            Iterations::Marks => {}
            Iterations::Every(length) => timeline.add_iterations(length, duration),
            Iterations::Count(count) => timeline.add_iterations(duration.0.div_ceil(count).max(1), duration),
        }
        timeline
    }

    /// The manifest's entries.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = vec![parameter("iterations", self.iterations)];
        all.extend(self.events.iter().map(|events| parameter("events", events)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_rules_parse_and_print() {
        for text in ["marks", "every:1000", "count:7"] {
            assert_eq!(text.parse::<Iterations>().unwrap().to_string(), text);
        }
        for bad in ["", "every", "every:0", "count:x", "marks:2"] {
            assert!(bad.parse::<Iterations>().unwrap_err().contains("expected"), "{bad}");
        }
    }
}
