//! What a paper says that its numbers show, and whether ours do: by a rule that knows no exhibit.
//!
//! A claim is made of comparisons. Each has a *direction*, the order or sign that the paper states, and some have a
//! *size*: a printed number, counted from no effect. The claim
//!
//! * *holds* if all directions are as stated and all sizes within a factor of [`NEAR`],
//! * *holds in direction* if all directions are as stated,
//! * *does not hold* if one is not.

use super::exhibit::Exhibit;
use serde::Serialize;

/// The factor within which a size is as published.
pub const NEAR: f64 = 1.5;

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// Directions and sizes.
    #[serde(rename = "holds")]
    Holds,
    /// Directions alone.
    #[serde(rename = "holds in direction")]
    InDirection,
    /// Not.
    #[serde(rename = "does not hold")]
    Not,
}

impl Verdict {
    /// All, in the order of tables.
    pub const ALL: [Verdict; 3] = [Verdict::Holds, Verdict::InDirection, Verdict::Not];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InDirection => "holds in direction",
            Verdict::Not => "does not hold",
        }
    }
}

/// One thing that is compared.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The program, or what else it is about.
    pub what: String,
    /// Whether the order or sign is as stated.
    pub direction: bool,
    /// Our number and the published one.
    pub size: Option<(f64, f64)>,
}

impl Comparison {
    fn is_near(&self) -> bool {
        self.size.is_none_or(|(ours, published)| (1.0 / NEAR..=NEAR).contains(&(ours / published)))
    }
}

/// A claim.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// In the paper's words, or near them.
    pub text: String,
    /// By the medians.
    pub verdict: Verdict,
    /// The number of repeats that have this verdict.
    pub agree: usize,
    /// The number of repeats.
    pub repeats: usize,
    /// What it is made of.
    pub comparisons: Vec<Comparison>,
}

impl Claim {
    /// Nothing compared yet.
    pub fn new(text: &str) -> Claim {
        Claim { text: text.into(), verdict: Verdict::Holds, agree: 1, repeats: 1, comparisons: Vec::new() }
    }

    fn with(mut self, comparison: Comparison) -> Claim {
        self.comparisons.push(comparison);
        let all = |holds: &dyn Fn(&Comparison) -> bool| self.comparisons.iter().all(holds);
        self.verdict = match (all(&|one| one.direction), all(&Comparison::is_near)) {
            (false, _) => Verdict::Not,
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::InDirection,
        };
        self
    }

    /// An order or a sign that the paper states.
    pub fn direction(self, what: &str, direction: bool) -> Claim {
        self.with(Comparison { what: what.into(), direction, size: None })
    }

    /// A printed number; the direction is its sign. Both are counted from no effect.
    pub fn size(self, what: &str, ours: f64, published: f64) -> Claim {
        let direction = ours * published > 0.0;
        self.with(Comparison { what: what.into(), direction, size: Some((ours, published)) })
    }

    /// The printed numbers of a column, in those of these rows that were run, each less `none`, the number of no
    /// effect.
    pub fn sizes(mut self, exhibit: &Exhibit, column: usize, none: f64, rows: &[&str]) -> Claim {
        for name in rows {
            let Some(line) = exhibit.row(name) else { continue };
            if let Some(published) = line.published[column] {
                self = self.size(name, line.ours[column] - none, published - none);
            }
        }
        self
    }

    /// Each of `more` is above each of `less`, of those that were run.
    pub fn above(mut self, exhibit: &Exhibit, column: usize, more: &[&str], less: &[&str]) -> Claim {
        let there = |name: &&&str| exhibit.row(name).is_some();
        for first in more.iter().filter(there) {
            for second in less.iter().filter(there) {
                let direction = exhibit.of(first, column) > exhibit.of(second, column);
                self = self.direction(&format!("{first} over {second}"), direction);
            }
        }
        self
    }

    /// What keeps it from holding, in words.
    pub fn shortfall(&self) -> String {
        let wrong = self.comparisons.iter().filter(|one| match self.verdict {
            Verdict::Not => !one.direction,
            _ => !one.is_near(),
        });
        let told = |one: &Comparison| match one.size {
            Some((ours, published)) => format!("{} {ours:.3} [{published:.3}]", one.what),
            None => one.what.clone(),
        };
        wrong.map(told).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        let claim = |ours: f64| Claim::new("").direction("order", true).size("one", ours, 30.0);
        let verdicts = [20.0, 45.0, 19.9, 45.1, 0.0, -30.0, f64::NAN].map(|ours| claim(ours).verdict);
        use Verdict::{Holds, InDirection, Not};
        assert_eq!(verdicts, [Holds, Holds, InDirection, InDirection, Not, Not, Not]);
        assert_eq!(Claim::new("").size("loss", -4.0, -5.0).direction("other", false).verdict, Not);
        assert_eq!(claim(60.0).shortfall(), "one 60.000 [30.000]");
        assert_eq!(claim(60.0).direction("last", false).shortfall(), "last");
    }

    #[test]
    fn rows_are_compared_with_what_was_published() {
        let mut table = Exhibit::new("table2").unwrap();
        table.line("cg", "CG", vec![80.0, 20.0, 75.0]);
        table.line("lu", "LU", vec![40.0, 40.0, 10.0]);
        let claim = Claim::new("").sizes(&table, 2, 0.0, &["CG"]).above(&table, 2, &["CG"], &["LU"]);
        assert_eq!((claim.verdict, claim.comparisons.len()), (Verdict::Holds, 2));
        assert_eq!(Claim::new("").above(&table, 2, &["LU"], &["CG", "LU"]).verdict, Verdict::Not);
    }
}
