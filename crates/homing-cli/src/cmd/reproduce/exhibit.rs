//! What a reproduced table or figure is: our numbers beside the published ones, and what they must show.

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
    /// One number a column.
    pub ours: Vec<f64>,
    /// The same as published; empty, or with gaps, where nothing was.
    pub published: Vec<Option<f64>>,
}

/// Something that the paper says its numbers show.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// Whether ours show it too.
    pub holds: bool,
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
    /// Claims.
    pub claims: Vec<Claim>,
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
                });
            }
        }
        anyhow::bail!("no published numbers for `{id}`")
    }

    /// Adds a row; `published_as` is its name in the data file.
    pub fn line(&mut self, label: &str, published_as: &str, ours: Vec<f64>) {
        let found = PUBLISHED.iter().find_map(|text| {
            let paper: Paper = toml::from_str(text).ok()?;
            paper.results.get(&self.id)?.rows.get(published_as).cloned()
        });
        let published = found.unwrap_or_default();
        let published = (0..self.columns.len())
            .map(|column| published.get(column).copied().filter(|value| !value.is_nan()))
            .collect();
        self.lines.push(Line { label: label.into(), ours, published });
    }

    /// Adds a claim.
    pub fn claim(&mut self, holds: bool, text: &str) {
        self.claims.push(Claim { text: text.into(), holds });
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
        assert_eq!(table.mean(0), 40.5);
        assert!(Exhibit::new("table99").is_err());
    }
}
