//! The answer: in text, which leads with what a reader acts on, and as JSON.

use super::reading::Measure;
use super::Args;
use crate::tables::{table, things};
use homing_live::trial::run::{Ended, Ran};
use homing_live::trial::ways::{Here, LeftOut, Way};
use homing_live::trial::{End, Measured};
use homing_stats::interval::Interval;
use homing_stats::{Finding, Verdict};
use serde_json::{json, Value};
use std::fmt::Write;
use std::time::Duration;

/// What was asked, what was run, and what came of it.
pub struct Answer<'a> {
    pub args: &'a Args,
    /// The command, for people.
    pub command: String,
    pub here: &'a Here,
    pub ways: Vec<Way>,
    pub left_out: Vec<LeftOut>,
    /// What was placed in all runs of the placement together, a line for each name.
    pub placed: Vec<String>,
    pub measured: Measured,
    pub measure: Measure,
    pub budget: Option<Duration>,
}

impl Answer<'_> {
    /// All of it as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        if !self.here.has_places() {
            let _ =
                writeln!(text, "This machine has one memory node: no placement of memory can differ here.");
        }
        let _ = writeln!(text, "{}\n{}\n\n{}\n", self.headline(), self.rounds(), self.table());
        self.notes(&mut text);
        text
    }

    /// Which is fastest, by how much; or that this is not clear.
    fn headline(&self) -> String {
        let findings = &self.measured.findings;
        if self.measured.end == End::Fails {
            return format!(
                "The program fails as it is: nothing can be compared with it ({}).",
                self.failure(0)
            );
        }
        let faster = findings.faster();
        let Some(&best) = faster.first() else { return self.none_faster() };
        let way = &self.ways[best];
        let mut line = format!("Faster: {} {}.", way.name, self.by_how_much(best));
        let as_fast: Vec<&str> = faster[1..]
            .iter()
            .filter(|&&way| !findings.differ(best, way))
            .map(|&way| self.name(way))
            .collect();
        if !as_fast.is_empty() {
            let _ = write!(line, " Whether it is faster than {} is not clear.", as_fast.join(", "));
        }
        let _ = write!(line, "\nRun it so: {}", way.how);
        line
    }

    /// The headline where no way is clearly faster.
    fn none_faster(&self) -> String {
        let with = |verdict| {
            let is = |way: &usize| self.verdict(*way) == Some(verdict);
            (0..self.ways.len()).filter(is).collect::<Vec<_>>()
        };
        let (open, same, slower) = (with(Verdict::NotClear), with(Verdict::Same), with(Verdict::Slower));
        let names = |ways: &[usize]| ways.iter().map(|&way| self.name(way)).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if open.is_empty() || !(slower.is_empty() && same.is_empty()) {
            parts.push("Nothing that was tried is clearly faster than the program as it is.".to_owned());
        }
        if !slower.is_empty() {
            let listed: Vec<_> =
                slower.iter().map(|&way| format!("{} {}", self.name(way), self.by_how_much(way))).collect();
            parts.push(format!("Slower: {}.", listed.join("; ")));
        }
        if !same.is_empty() {
            parts.push(format!("No difference of {} % or more: {}.", self.args.margin, names(&same)));
        }
        if !open.is_empty() {
            parts.push(format!("Not clear: whether {} differs from as it is.", names(&open)));
            parts.push(self.what_would_help(&open));
        }
        parts.join(" ")
    }

    /// Why it is not clear, and what to do.
    fn what_would_help(&self, open: &[usize]) -> String {
        let findings = &self.measured.findings;
        let chances = open.iter().filter_map(|&way| findings.ways[way].difference.as_ref()?.chance);
        match chances.reduce(f64::max) {
            Some(chance) => format!(
                "With this number of rounds, run-to-run spread alone gives up to {}: more may tell (--budget).",
                percent(chance)
            ),
            None => format!(
                "At least {} rounds are needed to tell anything (--budget, --rounds).",
                findings.fewest_pairs
            ),
        }
    }

    /// How many rounds there were, and why no more.
    fn rounds(&self) -> String {
        let Measured { rounds, end, took, .. } = &self.measured;
        let why = match end {
            End::Clear => "then all was clear".into(),
            End::Rounds => "as many as were asked for".into(),
            End::Budget => {
                format!("then the time was over (--budget {:.0?})", self.budget.unwrap_or_default())
            }
            End::Interrupted => "then it was interrupted".into(),
            End::Fails => "then the program failed".into(),
        };
        format!(
            "Measured {}: {} behind the cold one, in random order (seed {}), in {:.1} s; {why}.",
            match self.measure {
                Measure::Wall => "wall time",
                Measure::Time(_) => "the time that the program prints",
                Measure::Rate(_) => "the rate that the program prints",
            },
            things(u64::from(*rounds), "round"),
            self.args.seed,
            took.as_secs_f64()
        )
    }

    fn table(&self) -> String {
        let interval = format!("{} % interval", self.args.confidence);
        let mut titles = vec!["way", "median", "middle half", "runs", "cold", "difference", &interval];
        titles.extend(["by chance", "verdict"]);
        let counted = self.counted();
        titles.extend(counted.then_some("non-local"));
        let mut table = table(&titles);
        for (number, (way, finding)) in self.ways.iter().zip(&self.measured.findings.ways).enumerate() {
            let times = &finding.times;
            let show = |time: Option<f64>| time.map_or("-".into(), |time| self.measure.show(time));
            let difference = finding.difference.as_ref();
            let half = times.quartiles.zip(times.median);
            let interval = difference.and_then(|found| found.interval);
            let mut row = vec![
                way.name.clone(),
                show(times.median),
                half.map_or("-".into(), |((low, high), median)| percent((high - low) / median)),
                times.runs.to_string(),
                show(times.cold),
                difference.map_or(String::new(), |found| {
                    found.ratio.map_or("-".into(), |ratio| signed(self.oriented(ratio)))
                }),
                difference.map_or(String::new(), |_| interval.map_or("-".into(), |i| self.range(i))),
                difference.map_or(String::new(), |found| {
                    found.chance.map_or("-".into(), |c| format!("+-{}", percent(c)))
                }),
                self.verdict_word(finding),
            ];
            row.extend(counted.then(|| self.nonlocal(number).map_or("-".into(), percent)));
            table.add_row(row);
        }
        table.to_string()
    }

    /// Whether the lab's monitor card counted.
    fn counted(&self) -> bool {
        self.measured.transactions.iter().any(Option::is_some)
    }

    /// The share of a way's memory transactions that went to another node, as the card counted.
    fn nonlocal(&self, way: usize) -> Option<f64> {
        self.measured.transactions[way]?.nonlocal()
    }

    fn verdict_word(&self, finding: &Finding) -> String {
        let Some(difference) = &finding.difference else { return String::new() };
        if finding.given_up {
            return "fails".into();
        }
        match difference.verdict {
            Verdict::Faster => "faster".into(),
            Verdict::Slower => "slower".into(),
            Verdict::Same => format!("within {} %", self.args.margin),
            Verdict::NotClear => "not clear".into(),
        }
    }

    /// How each way runs, what was left out, what failed.
    fn notes(&self, text: &mut String) {
        let _ = writeln!(text, "How each way runs:");
        for way in &self.ways {
            let _ = writeln!(text, "  {}: {}", way.name, way.how);
        }
        if !self.placed.is_empty() {
            let _ = writeln!(text, "Placed, in all runs of the placement together:");
        }
        for line in &self.placed {
            let _ = writeln!(text, "  {line}");
        }
        if !self.left_out.is_empty() {
            let _ = writeln!(text, "Left out:");
        }
        for same in self.left_out.chunk_by(|one, next| one.why == next.why) {
            let names: Vec<_> = same.iter().map(|left| left.name).collect();
            let _ = writeln!(text, "  {}: {}", names.join(", "), same[0].why);
        }
        let failed = |way: &usize| self.measured.findings.ways[*way].times.failed > 0;
        for way in (0..self.ways.len()).filter(failed) {
            let times = &self.measured.findings.ways[way].times;
            let runs = things(u64::from(times.failed), "run");
            let _ = writeln!(text, "Failed: {}, {runs}; the last: {}", self.name(way), self.failure(way));
        }
        if self.counted() {
            let _ = writeln!(
                text,
                "non-local: memory transactions with another node than their CPU's, counted by the lab's monitor card \
                 in the warm runs."
            );
        }
        let _ = writeln!(
            text,
            "Differences are of {} in the same round. The intervals hold together, for all ways and however often was \
             looked; `by chance` is what equal ways stay within in 95 of 100 experiments of as many rounds \
             (docs/try.md).",
            if self.measure.is_rate() { "rates" } else { "times" }
        );
    }

    fn name(&self, way: usize) -> &str {
        &self.ways[way].name
    }

    fn verdict(&self, way: usize) -> Option<Verdict> {
        let finding = &self.measured.findings.ways[way];
        finding.difference.as_ref().filter(|_| !finding.given_up).map(|found| found.verdict)
    }

    /// "takes 12 % less time than as it is (8 to 16 % less, 99 % sure)".
    fn by_how_much(&self, way: usize) -> String {
        let difference = self.measured.findings.ways[way].difference.as_ref();
        let found = difference.and_then(|found| Some((found.ratio?, found.interval?)));
        let Some((ratio, interval)) = found else { return String::new() };
        let ratio = self.oriented(ratio);
        let word = match (ratio < 1.0, self.measure.is_rate()) {
            (true, false) => "less time",
            (false, false) => "more time",
            (true, true) => "less",
            (false, true) => "more",
        };
        format!(
            "{} {} {word} than as it is ({}, {} % sure)",
            if self.measure.is_rate() { "does" } else { "takes" },
            percent((ratio - 1.0).abs()),
            self.range(interval),
            self.args.confidence
        )
    }

    /// A ratio of times, or of rates where those are measured.
    fn oriented(&self, ratio: f64) -> f64 {
        if self.measure.is_rate() {
            ratio.recip()
        } else {
            ratio
        }
    }

    fn range(&self, interval: Interval) -> String {
        let (one, other) = (self.oriented(interval.low), self.oriented(interval.high));
        format!("{} to {}", signed(one.min(other)), signed(one.max(other)))
    }

    /// How the last failed run of a way ended.
    fn failure(&self, way: usize) -> String {
        let Some(Ran { ended, tail, .. }) = &self.measured.failures[way] else { return "unknown".into() };
        let how = match ended {
            Ended::Exited(status) => format!("exit status {status}"),
            Ended::Signal(signal) => format!("signal {signal}"),
            Ended::NoNumber => "no line that it printed has a number above 0 where the pattern looks".into(),
            Ended::NotStarted(why) => format!("it could not be started: {why}"),
            Ended::Took(_) | Ended::CutOff => "cut off".into(),
        };
        let lines: Vec<&str> = tail.lines().filter(|line| !line.trim().is_empty()).collect();
        let shown = &lines[lines.len().saturating_sub(3)..];
        match shown {
            [] => how,
            shown => format!("{how}; it said: {}", shown.join(" | ")),
        }
    }

    /// All of it as JSON (docs/try.md).
    pub fn json(&self) -> Value {
        let findings = &self.measured.findings;
        let ways = self.ways.iter().zip(&findings.ways).enumerate().map(|(number, (way, finding))| {
            json!({
                "name": way.name,
                "how": way.how,
                "times": finding.times,
                "difference": finding.difference,
                "transactions": self.measured.transactions[number].map(|counted| {
                    let percent = counted.nonlocal().map(|share| 100.0 * share);
                    json!({ "local": counted.local, "remote": counted.remote, "nonlocal_percent": percent })
                }),
                "given_up": finding.given_up,
                "last_failure": self.measured.failures[number].as_ref().map(|_| self.failure(number)),
            })
        });
        let left_out = self.left_out.iter().map(|left| json!({ "name": left.name, "why": left.why }));
        json!({
            "command": self.command,
            "nodes": self.here.memories(),
            "answer": self.headline(),
            "faster": findings.faster().iter().map(|&way| self.name(way)).collect::<Vec<_>>(),
            "ended": match self.measured.end {
                End::Clear => "clear",
                End::Rounds => "rounds",
                End::Budget => "budget",
                End::Interrupted => "interrupted",
                End::Fails => "fails",
            },
            "unit": self.measure.unit(),
            "confidence_percent": self.args.confidence,
            "margin_percent": self.args.margin,
            "seed": self.args.seed,
            "budget_seconds": self.budget.map(|budget| budget.as_secs_f64()),
            "rounds": self.measured.rounds,
            "fewest_rounds": findings.fewest_pairs,
            "seconds": self.measured.took.as_secs_f64(),
            "ways": ways.collect::<Vec<_>>(),
            "left_out": left_out.collect::<Vec<_>>(),
            "placed": self.placed,
        })
    }
}

/// A share in percent.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// The difference of a ratio to 1, in percent.
fn signed(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}
