//! The machine and the policy of a live session, checked in one place: the command and the library that runs inside of
//! programs take them from here.

use crate::error::{PipelineError, Result};
use crate::{model, policies};
use homing_core::ids::PageSize;
use homing_core::machine::Costs;
use homing_core::policy::settings::Settings;
use homing_core::policy::table::Begin;
use homing_core::policy::Policy;

/// What accesses and moves cost on a machine of that many nodes: in time, if its file has times. `machine`: a model's
/// name, file, or `host`.
pub fn costs(machine: &str, nodes: usize) -> Result<Costs> {
    let model = model::load_machine(machine)?;
    let costs = model.costs_behind_caches(PageSize::KIB4).map_err(PipelineError::usage)?;
    if usize::from(costs.memories()) == nodes && costs.global_node().is_none() {
        return Ok(costs);
    }
    Err(PipelineError::Usage(format!(
        "machine {} has {} memories, this machine {nodes} node{}: expected as many; `--machine host` always fits",
        model.name(),
        costs.memories(),
        if nodes == 1 { "" } else { "s" },
    )))
}

/// A policy by name, with `policy.name=value` set.
pub fn policy(name: &str, set: &[String], costs: &Costs) -> Result<Box<dyn Policy>> {
    let entry = policies::policy(name)?;
    if entry.offline {
        let message = format!("policy {name} needs to know the future: it cannot run live");
        return Err(PipelineError::Usage(message));
    }
    if matches!(entry.begin, Begin::File) {
        let message = format!("policy {name} needs a placement file, which a live run does not take");
        return Err(PipelineError::Usage(message));
    }
    let mut settings = Settings::default();
    set.iter().try_for_each(|set| settings.set(set)).map_err(PipelineError::Usage)?;
    Ok(entry.make(costs, false, &settings))
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::machine::Uniform;

    #[test]
    fn what_cannot_run_live_is_refused_with_a_reason() {
        let costs = Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 100.0, global: None });
        let refused = |name: &str, set: &[&str]| {
            let set: Vec<String> = set.iter().map(|set| (*set).to_owned()).collect();
            policy(name, &set, &costs).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert!(refused("best-static", &[]).contains("future"));
        assert!(refused("file", &[]).contains("placement file"));
        assert!(refused("nothing", &[]).contains("no policy `nothing`"));
        assert!(refused("competitive", &["competitive.cold=x"]).contains("expected a number"));
        assert_eq!(refused("competitive", &["competitive.cold=7"]), "");
        assert!(super::costs("ace", 3).unwrap_err().to_string().contains("this machine 3 nodes"));
    }
}
