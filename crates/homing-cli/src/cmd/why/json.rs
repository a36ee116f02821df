//! The diagnosis as JSON (docs/why.md has the fields).

use homing_core::sharing::SharingClass;
use homing_core::time::Elapsed;
use homing_core::why::remedy::Prediction;
use homing_core::why::traffic::Traffic;
use homing_core::why::Finding;
use homing_pipeline::manifest::GENERATOR;
use homing_pipeline::why::Answer;
use homing_pipeline::Case;
use serde_json::{json, Value};

/// Version of the fields below.
const SCHEMA: u32 = 1;

/// Everything that the text has, and all areas.
pub fn report(answer: &Answer, case: &Case<'_>) -> Value {
    let found = &answer.diagnosis;
    json!({
        "schema": SCHEMA,
        "generator": GENERATOR,
        "machine": case.ready.machine_info(),
        "trace": case.trace_info(),
        "parameters": answer.parameters,
        "verdict": found.cause,
        "words": found.cause.words(),
        "gain": found.gain,
        "at_most": found.at_most,
        "gain_is_of": if found.timed { "modelled time" } else { "modelled cost of memory references" },
        "behind_caches": answer.behind_caches,
        "threads_on": answer.threads_on.to_string(),
        "nodes_in_use": answer.nodes_in_use,
        "cost": {"now": found.costs[0], "with_remedies": found.costs[1], "bound": found.costs[2]},
        "elapsed": found.elapsed.as_ref().map(|(now, then)| json!({"now": times(now), "with_remedies": times(then)})),
        "traffic": {"now": traffic(&found.before), "with_remedies": traffic(&found.after)},
        "one_remedy_for_all": found.for_all.iter().map(prediction).collect::<Vec<_>>(),
        "areas": found.findings.iter().map(|finding| area(finding, case)).collect::<Vec<_>>(),
        "areas_untried": found.untried,
        "shares": answer.shares,
        "notes": answer.notes,
    })
}

fn times(elapsed: &Elapsed) -> Value {
    json!({"seconds": elapsed.total_ns / 1e9, "contention_seconds": elapsed.contention_ns / 1e9})
}

fn traffic(traffic: &Traffic) -> Value {
    json!({
        "by_node": traffic.rows().collect::<Vec<_>>(),
        "nonlocal_percent": traffic.nonlocal_percent(),
        "imbalance": traffic.imbalance(),
    })
}

fn prediction(prediction: &Prediction) -> Value {
    json!({"remedy": prediction.remedy, "cost": prediction.cost, "time_ratio": prediction.time})
}

fn area(finding: &Finding, case: &Case<'_>) -> Value {
    let area = &finding.area;
    let classes = SharingClass::ALL.iter().zip(area.classes);
    json!({
        "name": area.name,
        "pages": area.pages.len(),
        "bytes": area.pages.len() as u64 * case.ready.page_size.bytes(),
        "references": area.references(),
        "writes": area.writes,
        "references_by_node": area.by_node,
        "pages_made_by_node": area.made_by,
        "pages_on_node": area.homes,
        "pages_best_on_node": area.best,
        "sharing": classes.map(|(class, count)| (class.name(), count)).collect::<std::collections::BTreeMap<_, _>>(),
        "cost": {
            "now": area.costs.here,
            "best_static": area.costs.at_best,
            "spread": area.costs.at_spread,
            "bound": area.costs.bound,
        },
        "avoidable_percent": finding.avoidable_percent,
        "cause": finding.cause,
        "remedy": finding.remedy.as_ref().map(prediction),
    })
}
