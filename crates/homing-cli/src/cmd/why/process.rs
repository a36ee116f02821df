//! Processes that run: sampled for some time by a session that moves nothing, then judged.

use crate::cmd::live::attach::{has_memory, Whom};
use crate::cmd::live::{coded, drive, interrupts, nothing_moves, Plan};
use crate::exit::{self, Code};
use crate::tables::things;
use clap::builder::PossibleValuesParser;
use homing_core::report::why::WhyReport;
use homing_core::report::Parameter;
use homing_core::why::process::ProcessFacts;
use homing_linux::proc::{cgroup_processes, Pid};
use homing_live::account::Summary;
use homing_live::config::Config;
use homing_live::evidence::{Evidence, Found};
use homing_live::host::Host;
use homing_live::source::SOURCES;
use homing_live::targets::Choice;
use homing_pipeline::model::load_machine;
use homing_pipeline::why::sampled::{diagnose, Samples};
use homing_session::thinning::{Part, A_SECOND, PAGES};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A policy that never asks for a move.
const LEAVES_ALONE: &str = "first-touch";
/// The source that sees nothing, and the one that counts what has missed the caches.
const BLIND: &str = "none";
const COUNTS: &str = "pmu";
/// Nothing is decided in an interval: samples are only counted, and threads' nodes noted.
const INTERVAL: Duration = Duration::from_millis(500);
/// Most processes that a note names.
const NAMED: usize = 8;
/// Fewer samples are said to be few.
const FEW: u64 = 1000;
/// Own CPU time above this share of one CPU is said.
const NOTABLE: f64 = 0.01;
/// Of the session's CPU time, what its source takes.
const OF_SOURCE: [&str; 5] = ["follow", "helpers", "scan", "take", "end"];

/// What `--source` takes.
pub fn sources() -> PossibleValuesParser {
    let sources = SOURCES.iter().map(|source| source.name).filter(|name| *name != BLIND);
    PossibleValuesParser::new(std::iter::once("auto").chain(sources))
}

/// Which processes are sampled, and how.
pub struct Watched {
    /// These,
    pub pids: Vec<i32>,
    /// ... and what they start;
    pub children: bool,
    /// or those of this cgroup.
    pub cgroup: Option<PathBuf>,
    /// For this long.
    pub time: Duration,
    /// By this source.
    pub source: String,
}

impl Watched {
    /// Samples and judges them, on that machine model.
    pub fn diagnose(self, machine: &str) -> anyhow::Result<(WhyReport, Code)> {
        let whom = Whom { pid: self.pids.clone(), children: self.children, cgroup: self.cgroup.clone() };
        self.pids.iter().try_for_each(|&pid| has_memory(Pid(pid)))?;
        let choice = whom.choice()?;
        self.cgroup.as_deref().map_or(Ok(()), holds_processes)?;
        let host =
            Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
        let model = load_machine(machine)?;
        if let Some(why) = nothing_moves(&host, "...") {
            let mut report = diagnose(&load_machine("host")?, self.samples(BLIND))?;
            report.sentence = format!("Not NUMA: {why}.");
            report.basis = "Nothing was sampled.".into();
            return Ok((report, Code::OK));
        }
        let config = Config {
            policy: LEAVES_ALONE.into(),
            source: self.source.clone(),
            dry_run: true,
            watch: true,
            interval: INTERVAL,
            keep_huge_pages: true,
            ..Config::default()
        };
        let mut plan = Plan::of(config, machine)?;
        let sampling = self.sample(&mut plan, choice)?;
        let code = if sampling.summary.counts.denied > 0 { Code::PARTIAL } else { Code::OK };
        let (ended, losses) = (sampling.ended, sampling.losses());
        let report = diagnose(&model, self.sampled(sampling))?;
        if report.trace.references == 0 && report.process.is_empty() {
            let message = format!(
                "{}: no reference was sampled in {:.0} s{}{}: expected processes that run for some time; try a longer \
                 --seconds, or another --source (see `homing doctor`)",
                report.trace.name,
                report.sampled.map_or(0.0, |sampled| sampled.seconds),
                if ended { ", and then they ended" } else { "" },
                losses.iter().map(|loss| format!(", {loss}")).collect::<String>()
            );
            return Err(exit::error(Code::FAILURE, message));
        }
        Ok((report, code))
    }

    /// Watches until the time is over, the processes have ended, or the user interrupts.
    fn sample(&self, plan: &mut Plan, choice: Choice) -> anyhow::Result<Sampling> {
        let interval = plan.config.interval;
        let caught = interrupts()?;
        let mut session = plan.session(choice, None, self.name(), Default::default())?;
        if session.source().name == BLIND {
            let message =
                "no source of samples works here: expected hint faults or a PMU with PEBS or IBS; `homing \
                           doctor` says what is missing";
            return Err(exit::error(Code::UNSUPPORTED, message));
        }
        let source = session.source().name;
        let begin = Instant::now();
        let mut evidence = Evidence::begin();
        let mut command = Vec::new();
        let mut ended = false;
        let driven = drive(&mut session, interval, |session| {
            ended = session.over();
            let last = ended || caught.count() > 0 || begin.elapsed() >= self.time;
            evidence.look(session, last);
            if command.is_empty() {
                command.extend(session.targets().processes().values().map(|process| process.command.clone()));
            }
            last
        });
        let found = evidence.found(&session);
        let summary = session.finish().map_err(coded)?;
        driven?;
        Ok(Sampling { source, found, summary, command, ended })
    }

    fn name(&self) -> String {
        let pids = || self.pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
        match (&self.cgroup, self.pids.len()) {
            (Some(path), _) => format!("cgroup {}", path.display()),
            (None, 1) => format!("process {}", pids()),
            (None, _) => format!("processes {}", pids()),
        }
    }

    /// Samples with none in them.
    fn samples(&self, source: &str) -> Samples {
        let parameter = |name: &str, value: String| Parameter { name: name.into(), value };
        Samples {
            name: self.name(),
            command: Vec::new(),
            source: source.into(),
            recorded: None,
            behind_caches: source == COUNTS,
            threads: 0,
            pages: Vec::new(),
            names: Vec::new(),
            process: ProcessFacts::default(),
            parameters: vec![
                parameter("source", self.source.clone()),
                parameter("seconds", self.time.as_secs().to_string()),
                parameter("children", self.children.to_string()),
            ],
            notes: Vec::new(),
        }
    }

    fn sampled(&self, sampling: Sampling) -> Samples {
        let mut samples = self.samples(sampling.source);
        samples.notes = sampling.notes(self);
        let own =
            [("own-cpu-seconds", sampling.own_cpu()), ("own-cpu-percent", 100.0 * sampling.own_share())];
        let own = own.map(|(name, value)| Parameter { name: name.into(), value: format!("{value:.3}") });
        samples.parameters.extend(own);
        let phases = sampling.summary.counts.engine_cpu_by_phase.iter();
        let phases: Vec<String> = phases.map(|(phase, seconds)| format!("{phase} {seconds:.3}")).collect();
        samples.parameters.push(Parameter { name: "cpu-seconds-by-phase".into(), value: phases.join(", ") });
        let Sampling { found, command, .. } = sampling;
        if let Some(seconds) = found.process.fault_seconds {
            let value = format!("{seconds:.9}");
            samples.parameters.push(Parameter { name: "minor-fault-seconds".into(), value });
        }
        Samples {
            command,
            threads: found.threads,
            pages: found.pages,
            names: found.names,
            process: found.process,
            ..samples
        }
    }
}

/// Refuses a cgroup in which nothing runs.
fn holds_processes(cgroup: &Path) -> anyhow::Result<()> {
    match cgroup_processes(cgroup)?.is_empty() {
        false => Ok(()),
        true => Err(exit::error(
            Code::FAILURE,
            format!(
                "cgroup {} is empty: expected processes in it or below it; `systemd-cgls` shows which cgroups have \
                 some",
                cgroup.display()
            ),
        )),
    }
}

/// What came of sampling.
struct Sampling {
    source: &'static str,
    found: Found,
    summary: Summary,
    command: Vec<String>,
    /// The processes ended before the time was over.
    ended: bool,
}

impl Sampling {
    /// CPU time of this process without the source's.
    fn own_cpu(&self) -> f64 {
        let counts = &self.summary.counts;
        let of_source = OF_SOURCE.iter().filter_map(|phase| counts.engine_cpu_by_phase.get(*phase));
        counts.engine_cpu_seconds - of_source.sum::<f64>()
    }

    fn own_share(&self) -> f64 {
        self.own_cpu() / self.summary.seconds.max(1e-9)
    }

    /// What a reader must know of it.
    fn notes(&self, watched: &Watched) -> Vec<String> {
        let mut notes = vec![
            "who first touched a page is not known: where it is stands for that; pages of several nodes count as \
             written"
                .to_owned(),
        ];
        let seconds = self.summary.seconds;
        if self.source != COUNTS {
            notes.push(format!(
                "source {} tells which nodes use a page, not how often its references reach memory",
                self.source
            ));
        }
        if self.ended {
            notes.push(format!(
                "the processes ended after {seconds:.0} s: what was seen until then is judged"
            ));
        }
        if !self.ended && !self.found.ended.is_empty() {
            let pids: Vec<String> = self.found.ended.iter().take(NAMED).map(Pid::to_string).collect();
            let more = if self.found.ended.len() > NAMED { ", ..." } else { "" };
            notes.push(format!(
                "{} ended meanwhile ({}{more}): what was seen until then is judged",
                match self.found.ended.len() as u64 {
                    1 => "1 process".to_owned(),
                    number => format!("{number} processes"),
                },
                pids.join(", ")
            ));
        }
        if self.summary.samples < FEW {
            let samples = things(self.summary.samples, "sample");
            notes.push(format!("{samples} are few: a longer --seconds makes the verdict surer"));
        }
        if let ([pid], None) = (&watched.pids[..], &watched.cgroup) {
            notes.push(format!(
                "`homing attach --pid {pid}` lets pages follow their users; its gain is not predicted"
            ));
        }
        notes.extend(self.left_out());
        notes.extend(self.losses());
        if self.own_share() > NOTABLE {
            notes.push(format!(
                "looking took {:.1} % of one CPU besides the source",
                100.0 * self.own_share()
            ));
        }
        notes
    }

    /// Which part was looked at, if not all.
    fn left_out(&self) -> Option<String> {
        let left_out = things(self.found.thinned, "sample");
        match self.found.part {
            Part::Pages { one_of: 1 } | Part::Samples { one_of: 1 } => None,
            Part::Pages { one_of } => Some(format!(
                "1 page in {one_of} was followed, since {PAGES} tell enough: numbers of pages and sizes are estimates; \
                 {left_out} of other pages left out"
            )),
            Part::Samples { one_of } => Some(format!(
                "at most {A_SECOND} samples a second are looked at, in the end 1 in {one_of}; {left_out} left out"
            )),
        }
    }

    /// What was not seen, and how much of it.
    fn losses(&self) -> Vec<String> {
        let (counts, losses) = (&self.summary.counts, &self.summary.counts.losses);
        let all = [
            (
                self.found.nowhere,
                "pages with samples that are left out, since the kernel does not say where they are",
            ),
            (counts.unmapped, "samples of pages that had gone"),
            (counts.unheard, "samples that came too late to be judged"),
            (losses.lost, "samples that were lost, a ring being full"),
            (losses.throttled, "times that the kernel throttled the source"),
            (losses.malformed, "records of the source that made no sense"),
            (losses.unwatched, "threads that could not be watched"),
            (losses.scans_missed, "scans for hint faults that were not made"),
            (counts.denied, "processes that are left out, since this user may not look at them"),
        ];
        all.into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{what}: {count}"))
            .collect()
    }
}
