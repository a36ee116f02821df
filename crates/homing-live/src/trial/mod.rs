//! Alternating runs of a program in several ways (`homing try`): which ways this machine can carry out ([`ways`]), one
//! run ([`run`]), and the rounds here. What to run when, and what it says, is in `homing_stats`. It prints
//! nothing: who looks on is told.

pub mod run;
pub mod ways;

use homing_stats::{Design, Experiment, Findings, Outcome};
use run::{Ended, Ran, Runner, Transactions};
use std::io;
use std::time::{Duration, Instant};
use ways::Way;

/// Who looks on.
pub trait Watch: Sync {
    /// Whether the user asked for an end.
    fn interrupted(&self) -> bool;
    /// A run begins.
    fn begins(&self, way: &Way, round: u32);
}

/// Why no more runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Of each way it is known what was to be known, or it was given up.
    Clear,
    /// All rounds were made.
    Rounds,
    /// The time is over.
    Budget,
    /// The user asked for it.
    Interrupted,
    /// The program fails as it is.
    Fails,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What the runs say.
    pub findings: Findings,
    /// Of each way, how its last failed run ended, if one failed.
    pub failures: Vec<Option<Ran>>,
    /// Of each way, what the lab's monitor card counted in all warm runs that ended well; none without a card.
    pub transactions: Vec<Option<Transactions>>,
    /// Warm rounds that are complete.
    pub rounds: u32,
    /// Why there are no more.
    pub end: End,
    /// Time from the first run to the end of the last.
    pub took: Duration,
}

/// Makes runs until all is clear, the rounds are made, `budget` is over, or the user asks for an end. A run that is
/// under way then is cut off and does not count.
///
/// # Errors
/// If the program cannot be started as it is.
pub fn drive(
    ways: &[Way],
    design: Design,
    budget: Option<Duration>,
    runner: &Runner<'_>,
    watch: &dyn Watch,
) -> io::Result<Measured> {
    let start = Instant::now();
    let deadline = budget.and_then(|budget| start.checked_add(budget));
    let rounds = design.rounds;
    let mut experiment = Experiment::new(design);
    let mut failures = vec![None; ways.len()];
    let mut transactions: Vec<Option<Transactions>> = vec![None; ways.len()];
    let mut complete = 0;
    let mut cut_off = None;
    'rounds: while let Some(order) = experiment.next_round() {
        let last = order.len() - 1;
        for (place, way) in order.into_iter().enumerate() {
            watch.begins(&ways[way], experiment.rounds());
            let ran = runner.once(&ways[way], deadline, &|| watch.interrupted())?;
            let outcome = match ran.ended {
                Ended::Took(time) => Outcome::Took(time),
                // The terminal's signal reaches the program as well, which may end by it in any way.
                Ended::CutOff => Outcome::Stopped,
                _ if watch.interrupted() => Outcome::Stopped,
                _ => Outcome::Failed,
            };
            experiment.record(way, outcome);
            if let (Outcome::Took(_), false, Some(counted)) =
                (outcome, experiment.is_cold(), ran.transactions)
            {
                *transactions[way].get_or_insert_default() += counted;
            }
            cut_off = match outcome {
                Outcome::Stopped => over(deadline, watch).or(Some(End::Budget)),
                Outcome::Failed if way == 0 && experiment.is_cold() => Some(End::Fails),
                // A round that is complete counts.
                _ if place == last => None,
                _ => over(deadline, watch),
            };
            if outcome == Outcome::Failed {
                failures[way] = Some(ran);
            }
            if cut_off.is_some() {
                break 'rounds;
            }
        }
        complete = experiment.rounds();
        experiment.end_round();
        cut_off = over(deadline, watch);
        if cut_off.is_some() {
            break;
        }
    }
    let end = match cut_off {
        Some(end) => end,
        None if experiment.gave_up() => End::Fails,
        None if experiment.rounds() >= rounds && (ways.len() == 1 || experiment.open() > 0) => End::Rounds,
        None => End::Clear,
    };
    let took = start.elapsed();
    Ok(Measured { findings: experiment.finish(), failures, transactions, rounds: complete, end, took })
}

/// What ends the runs between two of them.
fn over(deadline: Option<Instant>, watch: &dyn Watch) -> Option<End> {
    if watch.interrupted() {
        return Some(End::Interrupted);
    }
    deadline.is_some_and(|deadline| Instant::now() >= deadline).then_some(End::Budget)
}

#[cfg(test)]
mod tests {
    use super::ways::SetUp;
    use super::*;
    use homing_stats::{Verdict, CONFIDENCE, MARGIN};
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Quiet {
        after: u32,
        runs: AtomicU32,
    }

    impl Watch for Quiet {
        fn interrupted(&self) -> bool {
            self.runs.load(Ordering::Relaxed) > self.after
        }

        fn begins(&self, _way: &Way, _round: u32) {
            self.runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn shell(name: &str, script: &str) -> Way {
        Way {
            name: name.into(),
            how: String::new(),
            words: ["/bin/sh", "-c", script].iter().map(Into::into).collect(),
            called: "sh".into(),
            set_up: SetUp::Nothing,
        }
    }

    fn made(ways: &[Way], rounds: u32, budget: Option<Duration>, after: u32) -> Measured {
        let number = |line: &str| line.strip_prefix("time ")?.trim().parse().ok();
        let runner = Runner { state: Path::new("/nonexistent"), reading: Some(&number), card: None };
        let design = Design { ways: ways.len(), seed: 1, confidence: CONFIDENCE, margin: MARGIN, rounds };
        drive(ways, design, budget, &runner, &Quiet { after, runs: AtomicU32::new(0) }).unwrap()
    }

    #[test]
    fn numbers_that_the_program_prints_are_compared() {
        let ways = [
            shell("as-it-is", "echo noise; echo time 2.0"),
            shell("against", "echo time 9; echo time 1.0"),
            shell("fails", "echo why >&2; exit 3"),
            shell("silent", "echo nothing"),
        ];
        let measured = made(&ways, 40, None, u32::MAX);
        assert_eq!(measured.end, End::Clear);
        let difference = measured.findings.ways[1].difference.clone().unwrap();
        assert_eq!(
            (difference.verdict, difference.ratio),
            (Verdict::Faster, Some(0.5)),
            "the last one counts"
        );
        let failure = measured.failures[2].as_ref().unwrap();
        assert_eq!((&failure.ended, failure.tail.trim()), (&Ended::Exited(3), "why"));
        assert_eq!(measured.failures[3].as_ref().unwrap().ended, Ended::NoNumber);
        assert!(measured.findings.ways[3].given_up);
    }

    #[test]
    fn the_budget_and_the_user_end_it_and_what_was_measured_stays() {
        let ways = [shell("as-it-is", "echo time 1"), shell("hangs", "exec sleep 600")];
        let measured = made(&ways, 40, Some(Duration::from_millis(300)), u32::MAX);
        assert_eq!((measured.end, measured.findings.ways[1].times.failed), (End::Budget, 0));
        assert!(measured.took < Duration::from_secs(20), "{:?}", measured.took);
        let quick = [shell("as-it-is", "echo time 1"), shell("again", "echo time 1")];
        let measured = made(&quick, 40, None, 9);
        assert_eq!(measured.end, End::Interrupted);
        assert_eq!(measured.findings.ways[0].times.median, Some(1.0));
        assert_eq!(
            (measured.rounds, measured.findings.rounds),
            (3, 4),
            "the tenth run is of one that is not complete"
        );
        let measured = made(&[shell("as-it-is", "kill -9 $$"), quick[1].clone()], 40, None, u32::MAX);
        assert_eq!(measured.end, End::Fails);
        assert_eq!(measured.failures[0].as_ref().unwrap().ended, Ended::Signal(9));
    }

    #[test]
    fn what_is_set_up_holds_for_the_run_alone() {
        use homing_linux::{policy, proc::Tid};
        let folder = tempfile::tempdir().unwrap();
        let switch = folder.path().join("switch");
        std::fs::write(&switch, "4\n").unwrap();
        let state = folder.path().join("tunables");
        let once = |set_up: SetUp, script: &str| {
            let number = |line: &str| line.split_whitespace().last()?.parse().ok();
            let runner = Runner { state: &state, reading: Some(&number), card: None };
            let way = Way { set_up, ..shell("x", script) };
            runner.once(&way, None, &|| false).unwrap().ended
        };
        let tunable = SetUp::Tunable(switch.clone(), "7".into());
        assert_eq!(once(tunable, &format!("cat {}", switch.display())), Ended::Took(7.0));
        assert_eq!(std::fs::read_to_string(&switch).unwrap().trim(), "4", "and is put back");
        assert!(!state.exists());
        let absent = SetUp::Tunable(folder.path().join("absent"), "7".into());
        assert!(matches!(once(absent, "echo 1"), Ended::NotStarted(_)));

        let before = policy::affinity(Tid(0)).unwrap();
        let last = *before.last().unwrap();
        let one = SetUp::OneNode { node: 0, cpus: vec![last] };
        match once(one, "echo $(($(grep Cpus_allowed_list /proc/self/status | cut -f2) + 1))") {
            Ended::Took(cpu) => assert_eq!(cpu, f64::from(last) + 1.0),
            // A container may forbid memory policies, and a kernel have no nodes.
            other => assert!(matches!(other, Ended::NotStarted(_)), "{other:?}"),
        }
        assert_eq!(policy::affinity(Tid(0)).unwrap(), before);

        let huge = "echo $(($(grep THP_enabled /proc/self/status | cut -f2) + 1))";
        if let Ended::Took(with) = once(SetUp::Nothing, huge) {
            assert_eq!(once(SetUp::SmallPages, huge), Ended::Took(1.0));
            assert_eq!(
                once(SetUp::Nothing, huge),
                Ended::Took(with),
                "those that start later have them again"
            );
        }
    }
}
