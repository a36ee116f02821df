//! Policies and their parameters by name.

use crate::error::{PipelineError, Result};
use homing_core::policy::placement::Placement;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::{self, Begin, Entry, POLICIES};
use std::collections::HashSet;

/// True if a `--set` is for a machine, not for a policy.
pub fn is_machine(setting: &str) -> bool {
    let key = setting.split('=').next().unwrap_or_default();
    key.split_once('.').is_none_or(|(first, _)| table::find(first).is_none())
}

/// The parameters of policies among `--set`.
pub fn settings(sets: &[String]) -> Result<Settings> {
    let mut settings = Settings::default();
    for set in sets.iter().filter(|set| !is_machine(set)) {
        settings.set(set).map_err(PipelineError::Usage)?;
    }
    Ok(settings)
}

/// A policy by name.
pub fn policy(name: &str) -> Result<&'static Entry> {
    table::find(name).ok_or_else(|| {
        if name.starts_with("external:") {
            let message = format!(
                "policy `{name}`: expected a policy of homing's own here (see `homing policies`); a process can be the \
                 policy of `homing simulate` without --monitor only"
            );
            return PipelineError::Usage(message);
        }
        let names: Vec<_> = table::POLICIES.iter().map(|entry| entry.name).collect();
        PipelineError::Usage(format!("no policy `{name}`: expected one of {}", names.join(", ")))
    })
}

/// Fails if a list has something twice: its rows could not be told apart. `what` is one of the list.
pub fn each_once(what: &str, names: impl IntoIterator<Item = String>) -> Result<()> {
    let mut seen = HashSet::new();
    match names.into_iter().find(|name| !seen.insert(name.clone())) {
        Some(name) => {
            Err(PipelineError::Usage(format!("{what} `{name}` is named twice: expected each {what} once")))
        }
        None => Ok(()),
    }
}

/// The policies by name; `all` or none is all, those that need a file only where there is one.
pub fn policies(names: &[String], placement: Option<&Placement>) -> Result<Vec<&'static Entry>> {
    if names.is_empty() || names == ["all"] {
        let has_file = matches!(placement, Some(Placement::File(_)));
        let usable = |entry: &&Entry| has_file || !matches!(entry.begin, Begin::File);
        return Ok(POLICIES.iter().filter(usable).collect());
    }
    let policies = names.iter().map(|name| policy(name.trim())).collect::<Result<Vec<_>>>()?;
    each_once("policy", policies.iter().map(|entry| entry.name.to_owned()))?;
    Ok(policies)
}
