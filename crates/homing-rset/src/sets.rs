//! Named sets of TOML files, and their hierarchy.

use super::policy::size;
use super::{is_name, Expr, ExprError, Global, Policies, ResourceSet};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::str::FromStr;
use toml::Spanned;

/// How alike two names are at least for one to be taken for the other mistyped: 1 is the same.
const ALIKE: f64 = 0.85;

/// A file of sets that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct SetError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there, and what was expected.
    pub what: String,
}

/// The file's form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    set: BTreeMap<Spanned<String>, Spec>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Spec {
    expr: Spanned<String>,
    inside: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    stride: Option<Spanned<String>>,
    huge: Option<Spanned<String>>,
    threads: Option<Spanned<String>>,
}

/// A set of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    /// File and line.
    place: String,
    expr: Expr,
    /// The set that contains it, by its own words.
    inside: Option<String>,
    policies: Policies,
}

/// Sets with names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    sets: BTreeMap<String, Definition>,
}

/// A named set on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Its expression.
    pub expr: String,
    /// Its policies.
    pub policies: Policies,
    /// What it is on the machine, or why it is nothing there.
    pub set: Result<ResourceSet, String>,
    /// The index of the set that it is a child of: the one that it names, or else the smallest that contains it.
    pub parent: Option<usize>,
}

impl Sets {
    /// Reads a file of sets; `file` is what messages call it.
    pub fn from_toml(text: &str, file: &str) -> Result<Sets, SetError> {
        let wrong = |at: Range<usize>, what: String| {
            let before = text.get(..at.start).unwrap_or(text);
            SetError { file: file.to_owned(), line: 1 + before.matches('\n').count(), what }
        };
        let read: File = toml::from_str(text)
            .map_err(|error| wrong(error.span().unwrap_or(0..0), error.message().to_owned()))?;
        let mut sets = BTreeMap::new();
        for (name, spec) in read.set {
            let fail =
                |(at, what): (Range<usize>, String)| wrong(at, format!("set `{}`: {what}", name.get_ref()));
            let line = wrong(name.span(), String::new()).line;
            let place = format!("{file}:{line}");
            let definition = define(name.get_ref(), name.span(), spec, place).map_err(fail)?;
            sets.insert(name.into_inner(), definition);
        }
        let sets = Sets { sets };
        for (name, definition) in &sets.sets {
            if let Some(inside) = definition.inside.as_ref().filter(|inside| !sets.sets.contains_key(*inside))
            {
                let what = format!("set `{name}` is inside of `{inside}`, which is no set of this file");
                let line =
                    definition.place.rsplit(':').next().and_then(|line| line.parse().ok()).unwrap_or(1);
                return Err(SetError { file: file.to_owned(), line, what });
            }
        }
        Ok(sets)
    }

    /// The names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.sets.keys().map(String::as_str)
    }

    /// The policies of a set that an expression names: those of the file if it is a name alone.
    pub fn policies(&self, expr: &Expr) -> Policies {
        let name = expr.text().trim();
        let name = name.strip_prefix("set:").unwrap_or(name);
        self.sets.get(name).map(|set| set.policies).unwrap_or_default()
    }

    /// The set of an expression, which may use the names.
    ///
    /// # Errors
    /// With the place in the expression and, where it lies in a named set, that set's file and line.
    pub fn on(&self, expr: &Expr, global: &Global) -> Result<ResourceSet, ExprError> {
        expr.on(global, &mut |name| self.placed(name, global))
    }

    /// The set with that name, which is inside of its parent.
    fn placed(&self, name: &str, global: &Global) -> Result<ResourceSet, String> {
        let set = self.named(name, global, &mut Vec::new())?;
        let Some(definition) = self.sets.get(name) else { return Ok(set) };
        let Some(parent) = &definition.inside else { return Ok(set) };
        let around = self.named(parent, global, &mut Vec::new())?;
        if !set.is_inside(&around) {
            let (place, beyond) = (&definition.place, global.words(&(&set - &around)));
            return Err(format!(
                "set `{name}` ({place}) is not inside of `{parent}`, which has no {beyond}: mend one of them"
            ));
        }
        Ok(set)
    }

    /// The set with that name. `open`: the sets that are being worked out.
    fn named<'a>(
        &'a self,
        name: &str,
        global: &Global,
        open: &mut Vec<&'a str>,
    ) -> Result<ResourceSet, String> {
        let (name, definition) = self.sets.get_key_value(name).ok_or_else(|| self.unknown(name))?;
        if open.contains(&name.as_str()) {
            let path = [&open[..], &[name]].concat().join(" -> ");
            return Err(format!("set `{name}` is made of itself ({path}): take it out of one of these"));
        }
        open.push(name);
        let found = definition.expr.on(global, &mut |name| self.named(name, global, open));
        open.pop();
        found.map_err(|error| format!("set `{name}` ({}): {error}", definition.place))
    }

    fn unknown(&self, name: &str) -> String {
        let parts: Vec<&str> = name.split('-').collect();
        if parts.len() > 1 && parts.iter().all(|part| self.sets.contains_key(*part)) {
            return format!("there is no set `{name}`: for a difference write `{}`", parts.join(" - "));
        }
        match self.sets.len() {
            0 => format!("there is no set `{name}`, since there is no file of sets (--file; docs/rset.md)"),
            _ => {
                let names: Vec<&str> = self.names().collect();
                let alike = |known: &&&str| strsim::jaro_winkler(name, known) >= ALIKE;
                let meant = names.iter().find(alike).map(|known| format!(" (did you mean `{known}`?)"));
                let meant = meant.unwrap_or_default();
                format!("there is no set `{name}`{meant}: expected one of {}", names.join(", "))
            }
        }
    }

    /// All sets on a machine, by name, with their parents.
    pub fn all_on(&self, global: &Global) -> Vec<Named> {
        let work_out = |(name, definition): (&String, &Definition)| Named {
            name: name.clone(),
            expr: definition.expr.text().to_owned(),
            policies: definition.policies,
            set: self.placed(name, global),
            parent: None,
        };
        let mut all: Vec<Named> = self.sets.iter().map(work_out).collect();
        for index in 0..all.len() {
            let said = self.sets[&all[index].name].inside.as_ref();
            all[index].parent = match said {
                Some(parent) => all.iter().position(|named| named.name == *parent),
                None => smallest_around(&all, index),
            };
        }
        all
    }
}

/// The smallest set that has all of a set, and more.
fn smallest_around(all: &[Named], index: usize) -> Option<usize> {
    let set = all[index].set.as_ref().ok()?;
    let around = all.iter().enumerate().filter_map(|(at, named)| Some((at, named.set.as_ref().ok()?)));
    around
        .filter(|(_, other)| set.is_inside(other) && *other != set)
        .min_by_key(|(_, other)| other.len())
        .map(|(at, _)| at)
}

fn define(
    name: &str,
    at: Range<usize>,
    spec: Spec,
    place: String,
) -> Result<Definition, (Range<usize>, String)> {
    if !is_name(name) {
        let what = "expected a name that begins with a letter and has letters, digits, `_`, `.` and single `-`, and \
                    is none of all, local, node, cpu, mem, within, set";
        return Err((at, what.to_owned()));
    }
    let policies = Policies {
        memory: value(&spec.memory, "memory", FromStr::from_str)?,
        stride: value(&spec.stride, "stride", size)?,
        huge: value(&spec.huge, "huge", size)?,
        threads: value(&spec.threads, "threads", FromStr::from_str)?,
    };
    policies.check().map_err(|what| {
        let at = spec.stride.as_ref().or(spec.huge.as_ref()).map_or(at, Spanned::span);
        (at, what)
    })?;
    let expr = Expr::parse(spec.expr.get_ref()).map_err(|error| (spec.expr.span(), error.to_string()))?;
    Ok(Definition { place, expr, inside: spec.inside.map(Spanned::into_inner), policies })
}

fn value<T>(
    text: &Option<Spanned<String>>,
    field: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, (Range<usize>, String)> {
    let fail = |text: &Spanned<String>, what: String| (text.span(), format!("{field} = {what}"));
    text.as_ref().map(|text| parse(text.get_ref()).map_err(|what| fail(text, what))).transpose()
}
