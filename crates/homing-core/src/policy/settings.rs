//! Parameters of policies: what there is, with defaults, and what the user set.

use super::table;
use std::collections::BTreeMap;

/// A parameter of a policy. All are numbers.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Param {
    /// Name; on the command line `policy.name`.
    pub name: &'static str,
    /// Value unless set.
    pub default: f64,
    /// Least and greatest value.
    pub range: (f64, f64),
    /// Unit, such as `references`; empty for a bare number.
    pub unit: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// The parameters that the user set, by `policy.name`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(BTreeMap<String, f64>);

impl Settings {
    /// Takes `policy.name=value`.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let fail = |what: String| Err(format!("--set {text}: {what}"));
        let Some((key, value)) = text.split_once('=') else {
            return fail("expected policy.parameter=value, such as delay.count=50".into());
        };
        let Some((policy, name)) = key.split_once('.') else {
            return fail("expected policy.parameter before the equals sign".into());
        };
        let Some(entry) = table::find(policy) else {
            return fail(format!("there is no policy `{policy}`; `homing policies` lists them"));
        };
        let Some(param) = entry.params.iter().find(|param| param.name == name) else {
            let names: Vec<_> = entry.params.iter().map(|param| param.name).collect();
            return fail(format!(
                "policy `{policy}` has {}",
                match names.len() {
                    0 => "no parameters".into(),
                    _ => format!("the parameters {}", names.join(", ")),
                }
            ));
        };
        let (least, most) = param.range;
        match value.parse::<f64>() {
            Ok(number) if (least..=most).contains(&number) => {
                self.0.insert(key.into(), number);
                Ok(())
            }
            _ => fail(format!("expected a number from {least} to {most}")),
        }
    }

    /// What was set, by `policy.name`.
    pub fn given(&self) -> &BTreeMap<String, f64> {
        &self.0
    }

    /// The parameters of one policy, defaults filled in.
    pub fn of<'a>(&'a self, entry: &'a table::Entry) -> Values<'a> {
        Values { settings: self, entry }
    }
}

/// The parameters of one policy.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    settings: &'a Settings,
    entry: &'a table::Entry,
}

impl Values<'_> {
    /// The value of parameter `name`, which the table must have.
    pub fn get(&self, name: &str) -> f64 {
        let param = self.entry.params.iter().find(|param| param.name == name);
        let default = param.expect("policies read only parameters of their table entry").default;
        self.settings.0.get(&format!("{}.{name}", self.entry.name)).copied().unwrap_or(default)
    }

    /// The value as a whole number.
    pub fn count(&self, name: &str) -> u64 {
        self.get(name) as u64
    }

    /// All parameters as (`policy.name`, value), in the table's order.
    pub fn all(&self) -> Vec<(String, f64)> {
        let pair = |param: &Param| (format!("{}.{}", self.entry.name, param.name), self.get(param.name));
        self.entry.params.iter().map(pair).collect()
    }
}
