//! Plans in files: what `homing why --plan` writes, and values of `--place`.

use crate::exit::{self, Code};
use crate::files::read_text;
use homing_live::place::{Entry, Placement};
use serde::Deserialize;
use std::path::Path;

/// A plan in TOML.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    #[serde(default)]
    place: Vec<Line>,
}

/// One name of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    placement: String,
}

/// The file of a value of `--place`: what does not place a name.
pub fn named(value: &str) -> Option<&str> {
    let is_file = value.parse::<Entry>().is_err() && (!value.contains('=') || Path::new(value).is_file());
    is_file.then_some(value)
}

/// Names and placements of all values of `--place`, in their order.
pub fn entries(given: &[String]) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for value in given {
        match named(value) {
            Some(file) => entries.extend(read(Path::new(file))?),
            None => entries.push(value.parse().map_err(|error| usage(format!("--place {error}")))?),
        }
    }
    match entries.is_empty() {
        true => Err(usage(format!("--place {}: the plan places nothing", given.join(" ")))),
        false => Ok(entries),
    }
}

fn usage(message: String) -> anyhow::Error {
    exit::error(Code::USAGE, message)
}

fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    parse(&read_text(path, "plan of `homing why --plan`")?)
        .map_err(|error| usage(format!("{}: {error}", path.display())))
}

fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let plan: Plan = toml::from_str(text).map_err(|error| error.to_string())?;
    let entry = |line: Line| {
        let placement: Placement =
            line.placement.parse().map_err(|error| format!("{}: {error}", line.name))?;
        Ok(Entry { name: line.name, placement })
    };
    plan.place.into_iter().map(entry).collect()
}

/// An entry as it stands in a file, behind lines of comment.
pub fn text(comment: &str, entry: &Entry) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    let (name, placement) = (quoted(&entry.name), quoted(&entry.placement.to_string()));
    format!("{comment}[[place]]\nname = {name}\nplacement = {placement}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let entries: Vec<Entry> = [
            "grid (grid.c:5) < main (main.c:15)=interleave",
            "operator \"\" _x(char const*) (a\\b.cpp:3)=weighted:0=3,1=1",
            "table=node:1",
        ]
        .map(|entry| entry.parse().unwrap())
        .into();
        let file: String = entries.iter().map(|entry| text("one line\nanother", entry) + "\n").collect();
        assert_eq!(parse(&file), Ok(entries), "{file}");
        assert_eq!(file.matches("# another\n").count(), 3);
        for (wrong, says) in [
            ("place = 1", "expected a sequence"),
            ("[[place]]\nname = \"x\"", "missing field `placement`"),
            ("[[place]]\nname = \"x\"\nplacement = \"spread\"", "x: placement `spread`: expected interleave"),
            ("[[place]]\nname = \"x\"\nplacement = \"blocks\"\ncolour = 1", "unknown field `colour`"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
        assert_eq!(parse("# nothing\n"), Ok(vec![]));
    }

    #[test]
    fn values_without_a_placement_are_files() {
        assert_eq!(named("plan.toml"), Some("plan.toml"));
        assert_eq!(named("heat.c:18=interleave"), None);
        assert_eq!(named("heat.c:18=spread"), None, "a mistake, and no file");
        let said = |value: &str| entries(&[value.to_owned()]).unwrap_err().to_string();
        assert!(said("heat.c:18=spread").contains("expected NAME=PLACEMENT"));
        assert!(said("/absent/plan.toml").contains("/absent/plan.toml"));
    }
}
