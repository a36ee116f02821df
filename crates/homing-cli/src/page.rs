//! The report page: one HTML file with the report's JSON inside. The page itself is built from `ui/` (`make ui`); the
//! built file is committed, so that building the program needs no Node.

use homing_core::report::diff::WhyDiff;
use homing_core::report::Report;

/// The built pages, each with an empty place for the data.
const TEMPLATE: &str = include_str!("../assets/report.html");
const STUDY: &str = include_str!("../assets/study.html");
const DIFF: &str = include_str!("../assets/diff.html");

/// Where the data goes.
const MARKER: &str = r#"<script type="application/json" id="homing-report">"#;

/// The page of a report, complete in one string.
///
/// # Errors
/// If the report cannot be written as JSON.
pub fn page(report: &Report) -> serde_json::Result<String> {
    fill(TEMPLATE, report)
}

/// The page of a study.
///
/// # Errors
/// If the study cannot be written as JSON.
pub fn study(study: &impl serde::Serialize) -> serde_json::Result<String> {
    fill(STUDY, study)
}

/// The page of a difference between two diagnoses.
///
/// # Errors
/// If the difference cannot be written as JSON.
pub fn diff(diff: &WhyDiff) -> serde_json::Result<String> {
    fill(DIFF, diff)
}

fn fill(template: &str, data: &impl serde::Serialize) -> serde_json::Result<String> {
    // No `<` in the data: then nothing in it can end the script element or open a comment.
    let json = serde_json::to_string(data)?.replace('<', "\\u003c");
    let (before, after) = template.split_once(MARKER).expect("the committed page has the marker");
    Ok([before, MARKER, &json, after].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::report::{MachineInfo, SCHEMA};

    #[test]
    fn the_data_stands_in_its_place_and_cannot_break_out() {
        assert_eq!(TEMPLATE.matches(MARKER).count(), 1);
        assert_eq!(STUDY.matches(MARKER).count(), 1);
        assert_eq!(DIFF.matches(MARKER).count(), 1);
        let report = Report {
            schema: SCHEMA,
            generator: "</script><script>alert(1)</script> <!--".into(),
            machine: MachineInfo::default(),
            parameters: vec![],
            traces: vec![],
            means: vec![],
            notes: vec![],
        };
        let page = page(&report).unwrap();
        let (_, rest) = page.split_once(MARKER).unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        assert!(!data.contains('<'));
        let back: Report = serde_json::from_str(data).unwrap();
        assert_eq!(back.generator, report.generator);
        assert_eq!(page.len(), TEMPLATE.len() + data.len());
    }
}
