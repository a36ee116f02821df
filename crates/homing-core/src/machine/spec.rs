//! The TOML form of a machine (`docs/machines.md`): types only, checked for shape but not yet for the model's
//! constraints, so that several overrides can be applied one after the other.

use super::hierarchy::{HierarchySpec, TimeSpec};
use serde::de::{value::MapAccessDeserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A machine file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    pub name: String,
    #[serde(default)]
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper: Option<String>,
    pub nodes: u16,
    /// The kernel's numbers of the nodes, where they are not 0, 1, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_ids: Vec<u32>,
    #[serde(default = "one_each")]
    pub cpus_per_node: Cpus,
    #[serde(default = "four_kib")]
    pub page_size: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Reference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<HierarchySpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeSpec>,
}

fn one_each() -> Cpus {
    Cpus::Each(1)
}

fn four_kib() -> String {
    "4K".into()
}

/// The reference model: units of one local word reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Vec<Vec<f64>>>,
    pub page_move: MoveCost,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_page_move: Option<MoveCost>,
}

/// The same in nanoseconds; a local access is the unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Latency {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matrix: Option<Vec<Vec<f64>>>,
    pub page_move: MoveCost,
}

/// CPUs of the nodes: the same number everywhere, or one number a node (0: memory only).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Cpus {
    Each(u16),
    List(Vec<u16>),
}

/// What moving a page costs: a plain number, or a part for its size and a fixed part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum MoveCost {
    Fixed(f64),
    Linear(Linear),
}

/// `per_byte * bytes + overhead`, or `per_word` with words of [`WORD`] bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Linear {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_byte: Option<Figure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_word: Option<Figure>,
    #[serde(default)]
    pub overhead: f64,
}

/// One number for all pairs of nodes, or a matrix from (row) to (column).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Figure {
    One(f64),
    Matrix(Vec<Vec<f64>>),
}

/// Bytes of the word in which the reference model counts (32-bit machines: a 4 KB page has 1024 words).
pub(super) const WORD: u64 = 4;

/// Accepts a number, a list or a table, whichever of the three `T` takes, and says what it wants otherwise.
struct Shape<T>(std::marker::PhantomData<T>);

trait FromShape: Sized {
    const WANTED: &'static str;
    fn number(value: f64) -> Option<Self>;
    fn list<'de, A: SeqAccess<'de>>(_list: A) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
    fn table<'de, A: MapAccess<'de>>(_table: A) -> Result<Option<Self>, A::Error> {
        Ok(None)
    }
}

impl<'de, T: FromShape> Visitor<'de> for Shape<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(T::WANTED)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<T, E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<T, E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<T, E> {
        T::number(value).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Float(value), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)?.ok_or_else(|| serde::de::Error::invalid_type(serde::de::Unexpected::Seq, &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::table(table)?.ok_or_else(|| serde::de::Error::invalid_type(serde::de::Unexpected::Map, &self))
    }
}

fn collect<'de, A: SeqAccess<'de>, T: Deserialize<'de>>(mut list: A) -> Result<Vec<T>, A::Error> {
    let mut values = Vec::new();
    while let Some(value) = list.next_element()? {
        values.push(value);
    }
    Ok(values)
}

impl FromShape for Cpus {
    const WANTED: &'static str = "a number of CPUs, or a list with one number for each node";
    fn number(value: f64) -> Option<Cpus> {
        (value >= 0.0 && value.fract() == 0.0 && value <= f64::from(u16::MAX))
            .then_some(Cpus::Each(value as u16))
    }
    fn list<'de, A: SeqAccess<'de>>(list: A) -> Result<Option<Cpus>, A::Error> {
        collect(list).map(|values| Some(Cpus::List(values)))
    }
}

impl FromShape for MoveCost {
    const WANTED: &'static str = "a number, or { per_byte = .., overhead = .. }";
    fn number(value: f64) -> Option<MoveCost> {
        Some(MoveCost::Fixed(value))
    }
    fn table<'de, A: MapAccess<'de>>(table: A) -> Result<Option<MoveCost>, A::Error> {
        Linear::deserialize(MapAccessDeserializer::new(table)).map(|linear| Some(MoveCost::Linear(linear)))
    }
}

impl FromShape for Figure {
    const WANTED: &'static str = "a number, or a matrix from (row) to (column)";
    fn number(value: f64) -> Option<Figure> {
        Some(Figure::One(value))
    }
    fn list<'de, A: SeqAccess<'de>>(list: A) -> Result<Option<Figure>, A::Error> {
        collect(list).map(|rows| Some(Figure::Matrix(rows)))
    }
}

macro_rules! deserialize_by_shape {
    ($($name:ty),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                input.deserialize_any(Shape(std::marker::PhantomData))
            }
        }
    )*};
}
deserialize_by_shape!(Cpus, MoveCost, Figure);
