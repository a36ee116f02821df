//! What a policy in another process answers (docs/external-policy.md): one JSON object a line.

use crate::action::Kind;
use crate::ids::{Node, Page};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    actions: Vec<Asked>,
}

/// One action that is asked for: a page and one of the others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    page: u32,
    #[serde(rename = "move")]
    to: Option<u16>,
    replicate: Option<u16>,
    collapse: Option<u16>,
}

impl Asked {
    fn kind(&self) -> Option<Kind> {
        match (self.to, self.replicate, self.collapse) {
            (Some(to), None, None) => Some(Kind::Move { to: Node(to) }),
            (None, Some(to), None) => Some(Kind::Replicate { to: Node(to) }),
            (None, None, Some(keep)) => Some(Kind::Collapse { keep: Node(keep) }),
            _ => None,
        }
    }
}

/// The actions that an answer asks for.
///
/// # Errors
/// If it is no answer, or asks for something on a page that is not `known`: a sentence that says what, and what is
/// expected.
pub fn parse(answer: &str, known: impl Fn(Page) -> bool) -> Result<Vec<(Page, Kind)>, String> {
    let shown = || answer.chars().take(200).collect::<String>();
    let parsed: Answer = serde_json::from_str(answer).map_err(|e| {
        format!("answered `{}`: {e}; expected {{\"actions\":[{{\"page\":1,\"move\":2}},...]}}", shown())
    })?;
    let check = |asked: Asked| {
        let page = Page(asked.page);
        let kind = asked.kind().ok_or_else(|| {
            format!(
                "asked for no or several actions on page {page}; expected one of move, replicate, collapse"
            )
        })?;
        match known(page) {
            true => Ok((page, kind)),
            false => Err(format!("asked for an action on page {page}, which was not reported to it")),
        }
    };
    parsed.actions.into_iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> Result<Vec<(Page, Kind)>, String> {
        parse(text, |page| page.0 < 10)
    }

    #[test]
    fn each_kind_of_action_is_read() {
        let text = r#"{"actions":[{"page":1,"move":2},{"page":3,"replicate":0},{"page":9,"collapse":1}]}"#;
        let kinds =
            [Kind::Move { to: Node(2) }, Kind::Replicate { to: Node(0) }, Kind::Collapse { keep: Node(1) }];
        assert_eq!(
            answer(text).unwrap(),
            [Page(1), Page(3), Page(9)].into_iter().zip(kinds).collect::<Vec<_>>()
        );
        assert_eq!(answer("{}"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_answer_is_refused_with_a_reason() {
        for (text, reason) in [
            ("7", "expected {\"actions\""),
            (r#"{"action":[]}"#, "unknown field"),
            (r#"{"actions":[{"page":1}]}"#, "expected one of move"),
            (r#"{"actions":[{"page":1,"move":1,"collapse":1}]}"#, "expected one of move"),
            (r#"{"actions":[{"page":10,"move":1}]}"#, "page 10"),
            (r#"{"actions":[{"page":-1,"move":1}]}"#, "answered"),
        ] {
            let said = answer(text).unwrap_err();
            assert!(said.contains(reason), "{text}: {said}");
        }
    }
}
