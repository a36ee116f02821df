//! What a study consists of, as a plan file and flags say it: the same words in both.

use crate::error::{PipelineError, Result};
use homing_linux::files::read_text;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// What a study consists of, in the words of a plan file (docs/study.md). What is empty has the defaults of the command
/// line.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grid {
    /// The traces.
    pub traces: Vec<PathBuf>,
    /// Machine models.
    pub machines: Vec<String>,
    /// Where pages begin; at first touch if nothing is said.
    pub starts: Vec<String>,
    /// What policies see; everything if nothing is said.
    pub info: Vec<String>,
    /// Monitors that policies see the misses through.
    pub monitors: Vec<String>,
    /// Policies; all if nothing is said.
    pub policies: Vec<String>,
    /// Overrides: fields of all machines, or policies' parameters (`POLICY.PARAM=VALUE`).
    pub set: Vec<String>,
    /// CPUs that threads run on.
    pub threads_on: Option<String>,
    /// Page size; the machine's if nothing is said.
    pub page_size: Option<String>,
    /// Where iterations end.
    pub iterations: Option<String>,
    /// Scheduling events.
    pub events: Option<String>,
    /// Never more than one copy of a page, in policies and bound.
    pub no_replication: bool,
    /// Where the optimum begins that policies are measured against.
    pub bound_start: Option<String>,
    /// Memory for the page histories of each trace on a machine; what is beyond goes to a temporary file.
    pub memory: Option<String>,
    /// The machines' caches filter the references first.
    pub misses: bool,
    /// Whose time page moves take.
    pub mover: Option<String>,
}

impl Grid {
    /// Reads a plan file, in TOML.
    pub fn read(path: &Path) -> Result<Grid> {
        let text = read_text(path, "plan")?;
        toml::from_str(&text).map_err(|e| PipelineError::Usage(format!("plan {}: {e}", path.display())))
    }

    /// This with `further` on top: lists grow, and what it says once replaces what this says.
    pub fn with(mut self, further: Grid) -> Grid {
        self.traces.extend(further.traces);
        let lists = [
            (&mut self.machines, further.machines),
            (&mut self.starts, further.starts),
            (&mut self.info, further.info),
            (&mut self.monitors, further.monitors),
            (&mut self.policies, further.policies),
            (&mut self.set, further.set),
        ];
        lists.into_iter().for_each(|(list, more)| list.extend(more));
        Grid {
            threads_on: further.threads_on.or(self.threads_on),
            page_size: further.page_size.or(self.page_size),
            iterations: further.iterations.or(self.iterations),
            events: further.events.or(self.events),
            no_replication: further.no_replication || self.no_replication,
            bound_start: further.bound_start.or(self.bound_start),
            memory: further.memory.or(self.memory),
            misses: further.misses || self.misses,
            mover: further.mover.or(self.mover),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_come_on_top_of_a_plan() {
        let plan: Grid = toml::from_str("machines = [\"ace\"]\npage-size = \"4K\"\nmemory = \"1G\"").unwrap();
        let flags = Grid {
            machines: vec!["butterfly".into()],
            page_size: Some("8K".into()),
            misses: true,
            ..Grid::default()
        };
        let both = plan.with(flags);
        assert_eq!(both.machines, ["ace", "butterfly"]);
        assert_eq!((both.page_size.as_deref(), both.memory.as_deref()), (Some("8K"), Some("1G")));
        assert!(both.misses && !both.no_replication);
    }
}
