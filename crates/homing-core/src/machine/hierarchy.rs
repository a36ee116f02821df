//! A machine's caches and TLBs (`[hierarchy]`) and what the model of time takes besides latencies (`[time]`).

use super::{Machine, MachineError};
use crate::cache::{Colours, HierarchyShape, Shape};
use crate::ids::{parse_bytes, PageSize};
use serde::{Deserialize, Serialize};

/// The section `[hierarchy]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HierarchySpec {
    pub l1: CacheSpec,
    pub l2: CacheSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l3: Option<CacheSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tlb: Vec<TlbSpec>,
    /// Give pages frames whose cache sets are those of their virtual addresses.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub page_colouring: bool,
}

/// One level of cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheSpec {
    /// Such as "64K".
    pub size: String,
    pub ways: u32,
    /// Bytes of a line.
    pub line: u64,
    /// Time of a hit, in nanoseconds.
    pub ns: f64,
    /// Third level: how many CPUs in a row share one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
}

/// One level of data TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TlbSpec {
    pub entries: u32,
    /// Fully associative if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways: Option<u32>,
}

/// The section `[time]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeSpec {
    /// Nanoseconds of computing beside each reference.
    pub compute_ns: f64,
    /// Share of a miss's latency that a thread waits for; the rest is hidden by out-of-order execution.
    #[serde(default = "whole")]
    pub exposed: f64,
    /// Nanoseconds that a memory is busy with one line.
    pub memory_busy_ns: f64,
    /// Nanoseconds that a node's link is busy with one line.
    pub link_busy_ns: f64,
    /// Nanoseconds of a TLB miss.
    #[serde(default)]
    pub tlb_miss_ns: f64,
    /// Nanoseconds that a page move takes on the CPU that moves; the machine's page move if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub move_ns: Option<f64>,
    /// Nanoseconds that a move takes on each CPU that had the page mapped.
    #[serde(default)]
    pub shootdown_ns: f64,
}

fn whole() -> f64 {
    1.0
}

/// Nanoseconds of hits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HitTimes {
    /// First level.
    pub l1: f64,
    /// Second level.
    pub l2: f64,
    /// Third level (0 without one).
    pub l3: f64,
}

/// What the model of time takes besides latencies and hit times. All in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimeParameters {
    /// Computing beside each reference.
    pub compute_ns: f64,
    /// Share of a miss's latency that a thread waits for.
    pub exposed: f64,
    /// A memory's time for one line.
    pub memory_busy_ns: f64,
    /// A link's time for one line.
    pub link_busy_ns: f64,
    /// A TLB miss.
    pub tlb_miss_ns: f64,
    /// A page move, if it is not the machine's page move.
    pub move_ns: Option<f64>,
    /// An interrupted CPU's loss to a page move.
    pub shootdown_ns: f64,
}

impl Machine {
    /// The machine's caches and TLBs for pages of this size, if its file has them.
    pub fn hierarchy(&self, page_size: PageSize) -> Result<Option<HierarchyShape>, MachineError> {
        let Some(spec) = &self.spec.hierarchy else { return Ok(None) };
        let l1 = self.cache("hierarchy.l1", &spec.l1)?;
        let l2 = self.cache("hierarchy.l2", &spec.l2)?;
        if l1.line_log2 > l2.line_log2 {
            let (found, expected) = (spec.l1.line.to_string(), format!("at most l2's, {}", spec.l2.line));
            return Err(self.field("hierarchy.l1.line", &found, &expected));
        }
        if l1.bytes() > l2.bytes() {
            let expected = format!("at most l2's, {}, which holds all of it", spec.l2.size);
            return Err(self.field("hierarchy.l1.size", &spec.l1.size, &expected));
        }
        let l3 = match &spec.l3 {
            None => None,
            Some(l3) if l3.line != spec.l2.line => {
                let expected = format!("l2's, {}", spec.l2.line);
                return Err(self.field("hierarchy.l3.line", &l3.line.to_string(), &expected));
            }
            Some(l3) => {
                let cpus = l3.cpus.filter(|&cpus| cpus > 0).ok_or_else(|| {
                    self.field("hierarchy.l3.cpus", "missing or 0", "the number of CPUs that share one")
                })?;
                Some((self.cache("hierarchy.l3", l3)?, cpus))
            }
        };
        if spec.tlb.len() > 2 {
            let found = format!("a list of {}", spec.tlb.len());
            return Err(self.field("hierarchy.tlb", &found, "at most two levels"));
        }
        let tlb = |(level, tlb): (usize, &TlbSpec)| {
            let ways = tlb.ways.unwrap_or(tlb.entries);
            Shape::tlb(tlb.entries, ways).filter(|_| tlb.entries <= 1 << 16).ok_or_else(|| {
                let found = format!("{} entries in {ways} ways", tlb.entries);
                self.field(
                    &format!("hierarchy.tlb[{level}]"),
                    &found,
                    "a power of two of sets, up to 64K entries",
                )
            })
        };
        let tlbs = spec.tlb.iter().enumerate().map(tlb).collect::<Result<_, _>>()?;
        let mut shape = HierarchyShape { l1, l2, l3, tlbs, colours: Colours::InOrder };
        if spec.page_colouring {
            shape.colours = shape.virtual_colours(page_size);
        }
        Ok(Some(shape))
    }

    fn cache(&self, field: &str, spec: &CacheSpec) -> Result<Shape, MachineError> {
        self.not_negative(&format!("{field}.ns"), spec.ns)?;
        if !(16..=512).contains(&spec.line) || !spec.line.is_power_of_two() {
            let field = format!("{field}.line");
            return Err(self.field(&field, &spec.line.to_string(), "a power of two from 16 to 512"));
        }
        let bytes = parse_bytes(&spec.size)
            .ok_or_else(|| self.field(&format!("{field}.size"), &spec.size, "a size such as \"64K\""))?;
        Shape::cache(bytes, spec.ways, spec.line).ok_or_else(|| {
            let found = format!("{} in {} ways of {}-byte lines", spec.size, spec.ways, spec.line);
            self.field(field, &found, "size = sets * ways * line with a power of two of sets")
        })
    }

    /// Nanoseconds of cache hits, if the machine has a hierarchy.
    pub fn hit_times(&self) -> Option<HitTimes> {
        let spec = self.spec.hierarchy.as_ref()?;
        let l3 = spec.l3.as_ref().map_or(0.0, |l3| l3.ns);
        Some(HitTimes { l1: spec.l1.ns, l2: spec.l2.ns, l3 })
    }

    /// The parameters of the model of time, if the machine's file has them.
    pub fn time(&self) -> Result<Option<TimeParameters>, MachineError> {
        let Some(spec) = &self.spec.time else { return Ok(None) };
        for (name, value) in [
            ("compute_ns", spec.compute_ns),
            ("memory_busy_ns", spec.memory_busy_ns),
            ("link_busy_ns", spec.link_busy_ns),
            ("tlb_miss_ns", spec.tlb_miss_ns),
            ("move_ns", spec.move_ns.unwrap_or(0.0)),
            ("shootdown_ns", spec.shootdown_ns),
        ] {
            self.not_negative(&format!("time.{name}"), value)?;
        }
        if !(spec.exposed > 0.0 && spec.exposed <= 1.0) {
            return Err(self.field("time.exposed", &spec.exposed.to_string(), "above 0, at most 1"));
        }
        if self.spec.latency.is_none() || self.spec.hierarchy.is_none() {
            return Err(self.field("time", "given", "sections [latency] and [hierarchy] beside it"));
        }
        Ok(Some(TimeParameters {
            compute_ns: spec.compute_ns,
            exposed: spec.exposed,
            memory_busy_ns: spec.memory_busy_ns,
            link_busy_ns: spec.link_busy_ns,
            tlb_miss_ns: spec.tlb_miss_ns,
            move_ns: spec.move_ns,
            shootdown_ns: spec.shootdown_ns,
        }))
    }

    fn not_negative(&self, field: &str, value: f64) -> Result<(), MachineError> {
        if value.is_finite() && value >= 0.0 {
            return Ok(());
        }
        Err(self.field(field, &value.to_string(), "a finite number, 0 or more"))
    }
}
