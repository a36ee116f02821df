//! What a reproduced table or figure is: our numbers beside the published ones.

use super::claim::Claim;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The published numbers, one file a paper.
const PUBLISHED: [&str; 5] = [
    include_str!("../../../assets/published/tikir-2008.toml"),
    include_str!("../../../assets/published/nikolopoulos-2000.toml"),
    include_str!("../../../assets/published/bolosky-1991.toml"),
    include_str!("../../../assets/published/brock-2001.toml"),
    include_str!("../../../assets/published/corbalan-2003.toml"),
];

/// A paper's results.
#[derive(Deserialize)]
struct Paper {
    source: String,
    #[serde(flatten)]
    results: BTreeMap<String, Published>,
}

/// One table or figure as it was published.
#[derive(Clone, Debug, Deserialize)]
struct Published {
    place: String,
    columns: Vec<String>,
    /// The columns that one scale fits; all unless some are named.
    plot: Option<Vec<usize>>,
    #[serde(default)]
    rows: BTreeMap<String, Vec<f64>>,
}

/// One row: what we found, and what was published for it.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Program, or what else the row is about.
    pub label: String,
    /// Its name in the data file.
    #[serde(skip)]
    pub published_as: String,
    /// One number a column: the median of the repeats.
    pub ours: Vec<f64>,
    /// The least and the most of the repeats.
    pub spread: Vec<(f64, f64)>,
    /// The same as published; empty, or with gaps, where nothing was.
    pub published: Vec<Option<f64>>,
}

/// A reproduced table or figure.
#[derive(Clone, Debug, Serialize)]
pub struct Exhibit {
    /// Name, for `--only`.
    pub id: String,
    /// The paper.
    pub source: String,
    /// Where in it.
    pub place: String,
    /// What the numbers are.
    pub columns: Vec<String>,
    /// The columns that the page plots.
    #[serde(skip)]
    pub plotted: Vec<usize>,
    /// Rows.
    pub lines: Vec<Line>,
    /// What the paper says that its numbers show.
    pub claims: Vec<Claim>,
    /// What must be so whatever the programs: theorems, and whether ours obey them. No claims.
    pub theorems: Vec<(String, bool)>,
}

impl Exhibit {
    /// An exhibit whose published part is in the data files under `id`.
    pub fn new(id: &str) -> anyhow::Result<Exhibit> {
        for text in PUBLISHED {
            let mut paper: Paper = toml::from_str(text).context("the data files of published numbers")?;
            if let Some(published) = paper.results.remove(id) {
                let lines = Vec::new();
                return Ok(Exhibit {
                    id: id.into(),
                    source: paper.source,
                    place: published.place,
                    plotted: published.plot.unwrap_or_else(|| (0..published.columns.len()).collect()),
                    columns: published.columns,
                    lines,
                    claims: Vec::new(),
                    theorems: Vec::new(),
                });
            }
        }
        anyhow::bail!("no published numbers for `{id}`")
    }

    /// The published numbers of a row.
    pub fn published(id: &str, row: &str) -> anyhow::Result<Vec<f64>> {
        let found = PUBLISHED.iter().find_map(|text| {
            let paper: Paper = toml::from_str(text).ok()?;
            paper.results.get(id)?.rows.get(row).cloned()
        });
        found.with_context(|| format!("no published numbers for `{row}` of `{id}`"))
    }

    /// Adds a row; `published_as` is its name in the data file.
    pub fn line(&mut self, label: &str, published_as: &str, ours: Vec<f64>) {
        let published = Exhibit::published(&self.id, published_as).unwrap_or_default();
        let published = (0..self.columns.len())
            .map(|column| published.get(column).copied().filter(|value| !value.is_nan()))
            .collect();
        let spread = ours.iter().map(|&value| (value, value)).collect();
        let (label, published_as) = (label.into(), published_as.into());
        self.lines.push(Line { label, published_as, ours, spread, published });
    }

    /// Adds something that must be so.
    pub fn theorem(&mut self, holds: bool, text: &str) {
        self.theorems.push((text.into(), holds));
    }

    /// The row of that name in the data file.
    pub fn row(&self, published_as: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.published_as == published_as)
    }

    /// A number of a row; not a number if there is no such row.
    pub fn of(&self, published_as: &str, column: usize) -> f64 {
        self.row(published_as).map_or(f64::NAN, |line| line.ours[column])
    }

    /// The median of several repeats of the same exhibit, with their spread.
    pub fn median(repeats: &[Exhibit]) -> Exhibit {
        let mut all = repeats[0].clone();
        for (row, line) in all.lines.iter_mut().enumerate() {
            for column in 0..line.ours.len() {
                let mut values: Vec<f64> = repeats
                    .iter()
                    .filter_map(|repeat| repeat.lines.get(row)?.ours.get(column).copied())
                    .filter(|value| value.is_finite())
                    .collect();
                values.sort_by(f64::total_cmp);
                if let (Some(&least), Some(&most)) = (values.first(), values.last()) {
                    line.ours[column] = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
                    line.spread[column] = (least, most);
                }
            }
        }
        for (number, theorem) in all.theorems.iter_mut().enumerate() {
            theorem.1 =
                repeats.iter().all(|repeat| repeat.theorems.get(number).is_none_or(|theorem| theorem.1));
        }
        all
    }

    /// Adds claims, with the number of repeats in which each has the same verdict.
    pub fn claim(&mut self, repeats: &[Exhibit], claims: impl Fn(&Exhibit) -> Vec<Claim>) {
        let by_repeat: Vec<Vec<Claim>> = repeats.iter().map(&claims).collect();
        for (number, mut claim) in claims(self).into_iter().enumerate() {
            let same = |of: &&Vec<Claim>| of.get(number).is_some_and(|other| other.verdict == claim.verdict);
            claim.repeats = repeats.len();
            claim.agree = by_repeat.iter().filter(same).count();
            self.claims.push(claim);
        }
    }

    /// The mean of a column over the rows.
    pub fn mean(&self, column: usize) -> f64 {
        let sum: f64 = self.lines.iter().map(|line| line.ours[column]).sum();
        sum / (self.lines.len() as f64).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_become_medians_and_a_verdict_says_how_many_agree() {
        let repeat = |value: f64| {
            let mut table = Exhibit::new("table2").unwrap();
            table.line("cg", "CG", vec![value, 1.0, f64::NAN]);
            table.theorem(value > 0.0, "it is positive");
            table
        };
        let repeats = [5.0, -1.0, 3.0].map(repeat);
        let mut all = Exhibit::median(&repeats);
        assert_eq!((all.lines[0].ours[0], all.lines[0].spread[0]), (3.0, (-1.0, 5.0)));
        assert!(all.lines[0].ours[2].is_nan() && !all.theorems[0].1);
        all.claim(&repeats, |exhibit| {
            vec![Claim::new("it is more than nothing").direction("cg", exhibit.of("CG", 0) > 0.0)]
        });
        assert_eq!((all.claims[0].agree, all.claims[0].repeats), (2, 3));
        let even = Exhibit::median(&[2.0, 3.0].map(repeat));
        assert_eq!(even.lines[0].ours[0], 2.5);
    }

    #[test]
    fn the_published_numbers_are_whole() {
        for text in PUBLISHED {
            let paper: Paper = toml::from_str(text).unwrap();
            for (id, published) in &paper.results {
                assert!(!published.place.is_empty(), "{id}");
                let plotted = published.plot.iter().flatten();
                assert!(plotted.max() < Some(&published.columns.len()), "{id}");
                for (row, values) in &published.rows {
                    assert_eq!(values.len(), published.columns.len(), "{id}, {row}");
                }
            }
        }
        let mut table = Exhibit::new("table2").unwrap();
        table.line("cg", "CG", vec![80.0, 20.0, 75.0]);
        table.line("other", "none", vec![1.0, 2.0, 3.0]);
        assert_eq!(table.lines[0].published, [Some(80.9), Some(15.3), Some(81.0)]);
        assert_eq!(table.lines[1].published, [None; 3]);
        assert_eq!((table.mean(0), table.of("CG", 2), table.of("none", 0)), (40.5, 75.0, 1.0));
        assert!(Exhibit::new("table99").is_err());
    }
}
