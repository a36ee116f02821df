//! What is modelled where the user does not say it: where threads run, whether caches come first, whether pages may
//! have copies. One rule for `homing compare` and `homing why`.

use crate::error::Result;
use crate::experiment::{Experiment, Ready};
use crate::policies::is_machine;
use crate::threads;
use homing_core::history::ThreadsOn;
use homing_core::machine::{Costs, Machine};

/// What the user asked for; the rest is chosen.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// CPUs that threads run on.
    pub threads_on: Option<ThreadsOn>,
    /// Whether the machine's caches come before memory.
    pub caches: Option<bool>,
    /// Whether pages may have several copies. Behind caches they have one, as writes that hit are not seen.
    pub replication: Option<bool>,
    /// Whether a trace has the addresses of pages alone: no caches then, unless the user asks for them.
    pub pages_alone: bool,
}

impl Asked {
    /// The experiment as programs of today meet it: threads that work spread over the nodes, caches first where the
    /// machine model has any, one copy a page.
    ///
    /// # Errors
    /// If the machine is unknown or makes no sense.
    pub fn today(self, mut experiment: Experiment) -> Result<Experiment> {
        let machine = experiment.model.machine(is_machine)?;
        let copies = self.replication.unwrap_or(false);
        let caches =
            self.caches.unwrap_or_else(|| !copies && !self.pages_alone && has_caches(&experiment, &machine));
        experiment.model.threads_on = Some(self.threads_on.unwrap_or(ThreadsOn::Busy));
        experiment.model.misses = caches;
        experiment.replication = copies;
        Ok(experiment)
    }

    /// As [`Asked::today`], but a machine of a paper stays as the paper has it: nodes filled one by one, every
    /// reference counted, copies allowed. On one without caches threads are spread by their numbers.
    ///
    /// # Errors
    /// If the machine is unknown or makes no sense.
    pub fn on_machine(self, mut experiment: Experiment) -> Result<Experiment> {
        let machine = experiment.model.machine(is_machine)?;
        if machine.paper().is_none() {
            // As `homing optimal` has it, but for nodes with several CPUs.
            let by_number =
                || (threads::by_default(&machine) == ThreadsOn::Fill).then_some(ThreadsOn::RoundRobin);
            return Asked { threads_on: self.threads_on.clone().or_else(by_number), ..self }
                .today(experiment);
        }
        experiment.model.threads_on = Some(self.threads_on.unwrap_or(ThreadsOn::Fill));
        experiment.model.misses = self.caches.unwrap_or(false);
        experiment.replication = self.replication.unwrap_or(true);
        Ok(experiment)
    }
}

/// Whether the machine model has caches at the first page size.
fn has_caches(experiment: &Experiment, machine: &Machine) -> bool {
    machine.hierarchy(experiment.model.page_size(machine)).is_ok_and(|shape| shape.is_some())
}

/// What holds for every number of an experiment, in a sentence.
pub fn in_words(ready: &Ready) -> String {
    let model = &ready.experiment.model;
    let threads_on = model.threads_on(&ready.machine);
    let threads = match &threads_on {
        ThreadsOn::Busy => "threads that work are spread over the nodes (busy)".to_owned(),
        ThreadsOn::Fill => "threads fill the nodes one by one (fill)".to_owned(),
        ThreadsOn::RoundRobin => "threads are spread over the nodes (round-robin)".to_owned(),
        ThreadsOn::OnePerNode => "threads run on the first CPU of each node (one-per-node)".to_owned(),
        ThreadsOn::List(_) | ThreadsOn::Except(_) => format!("threads run on CPUs {threads_on}"),
    };
    let caches =
        if model.misses { "the machine's caches come first" } else { "every reference counts, no caches" };
    let copies = match ready.replication() && matches!(ready.costs, Costs::Uniform(_)) {
        true => "pages may have copies",
        false => "pages have one copy",
    };
    format!("{threads}; {caches}; {copies}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn of(machine: &str, asked: Asked) -> (String, bool, bool) {
        let experiment = asked.on_machine(Experiment::new(Model::of(machine))).unwrap();
        (experiment.model.threads_on.unwrap().to_string(), experiment.model.misses, experiment.replication)
    }

    #[test]
    fn a_machine_of_a_paper_stays_as_the_paper_has_it() {
        for machine in Machine::builtin_names() {
            let paper = Machine::builtin(machine).unwrap().paper().is_some();
            let expected = match paper {
                true => ("fill".to_owned(), false, true),
                false => ("busy".to_owned(), true, false),
            };
            assert_eq!(of(machine, Asked::default()), expected, "{machine}");
        }
        let papers =
            Machine::builtin_names().filter(|name| Machine::builtin(name).unwrap().paper().is_some());
        assert_eq!(papers.count(), 8);
    }

    #[test]
    fn what_is_asked_for_holds() {
        let asked = Asked { threads_on: Some(ThreadsOn::Fill), caches: Some(false), ..Asked::default() };
        assert_eq!(of("two-socket", asked), ("fill".to_owned(), false, false));
        let copies = || Asked { replication: Some(true), ..Asked::default() };
        assert_eq!(of("two-socket", copies()), ("busy".to_owned(), false, true));
        let caches = Asked { caches: Some(true), ..Asked::default() };
        let pages_alone = Asked { pages_alone: true, ..Asked::default() };
        assert_eq!(of("two-socket", pages_alone), ("busy".to_owned(), false, false));
        assert_eq!(of("sunfire-6800", caches), ("fill".to_owned(), true, true));
        let one_copy = Asked { replication: Some(false), ..Asked::default() };
        assert_eq!(of("ace", one_copy), ("fill".to_owned(), false, false));
    }

    #[test]
    fn the_words_say_which_hold() {
        let words = |machine: &str, asked: Asked| {
            let experiment = asked.on_machine(Experiment::new(Model::of(machine))).unwrap();
            in_words(&experiment.ready(|_| Ok(Vec::new())).unwrap())
        };
        assert_eq!(
            words("two-socket", Asked::default()),
            "threads that work are spread over the nodes (busy); the machine's caches come first; pages have one copy"
        );
        assert_eq!(
            words("butterfly", Asked::default()),
            "threads fill the nodes one by one (fill); every reference counts, no caches; pages may have copies"
        );
        // No bound with replication is known where distances are unequal.
        let copies = Asked { replication: Some(true), ..Asked::default() };
        assert!(words("eight-node", copies).ends_with("no caches; pages have one copy"));
    }
}
