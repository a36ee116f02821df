//! A policy in a process of its own, asked over a pipe: JSON lines, one question and one answer for each end or mark
//! (docs/external-policy.md). It decides from profiles, as the counter-driven policies do.
//!
//! Every wait is bounded. What goes wrong (the process dies, answers nonsense, hangs) stops the policy; the simulation
//! then ends and [`External::error`] says what happened.

mod process;

use homing_core::action::{Action, Actions, Kind, Outcome};
use homing_core::ids::{Node, Page, Time};
use homing_core::machine::Costs;
use homing_core::policy::{
    answer, Context, Decides, End, Fault, Next, Policy, Sample, Snapshot, ThreadMoved, ThreadsChanged,
};
use process::Process;
use serde::Serialize;
use serde_json::{json, Value};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// The longest answer in bytes: this, and more for each page that was reported to the policy: room for three
/// actions.
const LONGEST_ANSWER: u64 = 1 << 16;
const LONGEST_OF_A_PAGE: u64 = 128;
/// Version of the protocol.
const PROTOCOL: u32 = 1;

/// What an external policy starts from, and where its failure goes.
#[derive(Clone)]
struct Start {
    command: String,
    timeout: Duration,
    costs: Value,
    replication: bool,
    error: Arc<OnceLock<String>>,
}

/// What has been seen since the last question.
#[derive(Default, Serialize)]
struct Observed {
    /// Pages that are new: page, address.
    new: Vec<(u32, u64)>,
    /// Pages that are gone.
    gone: Vec<u32>,
    /// Page, node, reads, writes, weight, home.
    samples: Vec<(u32, u16, u64, u64, f64, u16)>,
    /// Actions that did not come about: page, why.
    refused: Vec<(u32, String)>,
}

/// The policy.
pub struct External {
    start: Start,
    process: Mutex<Option<Process>>,
    known: HashSet<Page>,
    observed: Observed,
}

impl External {
    /// A policy that runs `command` (words separated by blanks) and waits at most `timeout` for each answer.
    pub fn new(command: &str, costs: &Costs, replication: bool, timeout: Duration) -> External {
        let nodes = (0..costs.memories()).map(Node);
        let rows = |price: &dyn Fn(Node, Node) -> f64| -> Vec<Vec<f64>> {
            nodes.clone().map(|from| nodes.clone().map(|to| price(from, to)).collect()).collect()
        };
        let costs = json!({
            "access": rows(&|by, at| costs.access(by, at)),
            "copy": rows(&|from, to| costs.copy(from, to)),
        });
        let error = Arc::new(OnceLock::new());
        let start = Start { command: command.to_owned(), timeout, costs, replication, error };
        External { start, process: Mutex::new(None), known: HashSet::new(), observed: Observed::default() }
    }

    /// What went wrong, in this policy or in any that was cloned from it.
    pub fn error(&self) -> Option<&str> {
        self.start.error.get().map(String::as_str)
    }

    fn fail(&self, message: String) {
        // The first failure is the cause of all later ones.
        let _ = self.start.error.set(format!("external policy `{}`: {message}", self.start.command));
        *self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    /// Sends a question and carries the answer over.
    fn ask(&mut self, question: Value, actions: &mut Actions) {
        if self.error().is_some() {
            return;
        }
        let observed = std::mem::take(&mut self.observed);
        match self.exchange(question, &observed).and_then(|answer| self.check(&answer)) {
            Ok(asked) => {
                asked.into_iter().for_each(|(page, kind)| actions.push(page, kind, "external policy"));
            }
            Err(message) => self.fail(message),
        }
    }

    fn exchange(&self, mut question: Value, observed: &Observed) -> Result<String, String> {
        let observed = serde_json::to_value(observed).map_err(|e| e.to_string())?;
        if let (Value::Object(question), Value::Object(observed)) = (&mut question, observed) {
            question.extend(observed);
        }
        let mut process = self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let process = process.as_mut().ok_or("it was not begun")?;
        process.exchange(&question.to_string(), self.longest(), self.start.timeout)
    }

    /// The longest answer that is read, in bytes.
    fn longest(&self) -> u64 {
        LONGEST_ANSWER + LONGEST_OF_A_PAGE * self.known.len() as u64
    }

    fn check(&self, answer: &str) -> Result<Vec<(Page, Kind)>, String> {
        answer::parse(answer, |page| self.known.contains(&page))
    }
}

impl Snapshot for External {
    /// A clone begins a process of its own.
    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(External {
            start: self.start.clone(),
            process: Mutex::new(None),
            known: HashSet::new(),
            observed: Observed::default(),
        })
    }

    /// The state is in the process: only the command can be written down.
    fn snapshot(&self) -> Value {
        json!({ "command": self.start.command })
    }
}

impl Policy for External {
    fn fault(&mut self, _fault: &Fault, _actions: &mut Actions) -> Next {
        Next::Never
    }

    fn begin(&mut self, context: &Context) {
        let begun = Process::start(&self.start.command).and_then(|mut process| {
            let mut question = serde_json::to_value(context).map_err(|e| e.to_string())?;
            question["type"] = "begin".into();
            question["protocol"] = PROTOCOL.into();
            question["costs"] = self.start.costs.clone();
            question["replication"] = self.start.replication.into();
            let answer = process.exchange(&question.to_string(), self.longest(), self.start.timeout)?;
            self.check(&answer).map(|_| process)
        });
        match begun {
            Ok(process) => {
                *self.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(process);
            }
            Err(message) => self.fail(message),
        }
    }

    fn decides(&self) -> Decides {
        Decides::AtEnds
    }

    fn wants_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &Sample, _actions: &mut Actions) {
        let Sample { page, node, reads, writes, weight, at, .. } = *sample;
        self.observed.samples.push((page.0, node.0, reads, writes, weight, at.home().0));
    }

    fn interval_end(&mut self, end: &End, actions: &mut Actions) {
        self.ask(json!({ "type": "interval_end", "number": end.number, "time": end.time }), actions);
    }

    fn iteration_end(&mut self, end: &End, actions: &mut Actions) {
        self.ask(json!({ "type": "iteration_end", "number": end.number, "time": end.time }), actions);
    }

    fn phase_begin(&mut self, phase: u32, time: Time, actions: &mut Actions) {
        self.ask(json!({ "type": "phase_begin", "phase": phase, "time": time }), actions);
    }

    fn thread_moved(&mut self, moved: &ThreadMoved, actions: &mut Actions) {
        let ThreadMoved { thread, from, to, time } = moved;
        let question =
            json!({ "type": "thread_moved", "thread": thread, "from": from, "to": to, "time": time });
        self.ask(question, actions);
    }

    fn threads_changed(&mut self, changed: &ThreadsChanged, actions: &mut Actions) {
        let question = json!({ "type": "threads_changed", "threads": changed.threads, "time": changed.time });
        self.ask(question, actions);
    }

    fn page_new(&mut self, page: Page, address: u64) {
        self.known.insert(page);
        self.observed.new.push((page.0, address));
    }

    fn page_gone(&mut self, page: Page) {
        self.known.remove(&page);
        self.observed.gone.push(page.0);
    }

    fn outcome(&mut self, action: &Action, outcome: &Outcome) {
        if matches!(outcome, Outcome::Refused(_) | Outcome::Failed(_)) {
            self.observed.refused.push((action.page.0, outcome.to_string()));
        }
    }

    fn independent(&self) -> bool {
        false
    }
}
