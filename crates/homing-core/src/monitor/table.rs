//! The table of monitors. `homing monitors`, `--monitor`, the documents and the registry tests derive from it.

use super::interconnect::{Filter, Interconnect, DEPTH};
use super::{access_bits, card, hints, misses, origin, perfect, precise, tlb, Monitor};
use crate::cache::Addresses;
use crate::ids::Page;
use crate::policy::settings::Param;

/// What a monitor is built for.
pub struct MonitorSetup<'a> {
    /// CPUs in use.
    pub cpus: usize,
    /// Nodes of the machine.
    pub nodes: u16,
    /// The pages.
    pub addresses: &'a Addresses,
    /// Values of the monitor's parameters, in the table's order.
    pub values: &'a [f64],
}

impl MonitorSetup<'_> {
    fn count(&self, index: usize) -> u64 {
        self.values[index] as u64
    }
}

/// How one is made.
#[derive(Clone, Copy)]
pub enum Build {
    /// From its parameters.
    Plain(fn(&MonitorSetup) -> Box<dyn Monitor>),
    /// From what a run without page moves has seen.
    Future(fn(perfect::Future) -> Box<dyn Monitor>),
    /// The live engine's session, which asks for scans when it wants them (`homing_session::simulated`).
    Session,
}

/// One monitor.
pub struct MonitorEntry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// The real hardware or software that it stands for.
    pub stands_for: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// True if it works by TLB misses, so that the machine needs TLBs.
    pub needs_tlb: bool,
    /// Makes one.
    pub build: Build,
}

const fn param(name: &'static str, default: f64, unit: &'static str, doc: &'static str) -> Param {
    Param { name, default, range: (1.0, 1e12), unit, doc }
}

const READ_TIME: Param = Param {
    name: "read",
    default: 60.0,
    range: (0.0, 1e9),
    unit: "references",
    doc: "software's time for an entry",
};

/// The registers of the bus analyser's filter.
const CPU_ONLY: Param = Param {
    name: "cpu",
    default: -1.0,
    range: (-1.0, 65535.0),
    unit: "",
    doc: "of this CPU only; -1 for all",
};
const FROM: Param = Param {
    name: "from",
    default: 0.0,
    range: (0.0, TOP),
    unit: "address",
    doc: "from this virtual address on",
};
const TO: Param =
    Param { name: "to", default: TOP, range: (0.0, TOP), unit: "address", doc: "up to this virtual address" };
const KINDS: Param = Param {
    name: "kinds",
    default: 7.0,
    range: (1.0, 15.0),
    unit: "",
    doc: "sum of 1 reads, 2 reads to own, 4 upgrades, 8 write-backs",
};
/// The end of all addresses: 2^52, which a number holds exactly.
const TOP: f64 = 4503599627370496.0;

/// The filter that the last four parameters describe.
fn filter(values: &[f64]) -> Filter {
    let &[.., cpu, from, to, kinds] = values else { unreachable!("four registers") };
    Filter {
        kinds: kinds as u8,
        cpu: (cpu >= 0.0).then_some(cpu as u16),
        addresses: (from as u64, to as u64),
    }
}

/// All monitors.
pub const MONITORS: &[MonitorEntry] = &[
    MonitorEntry {
        name: "perfect",
        stands_for: "nothing real: a complete record of the interval that ends",
        summary: "every transaction of the last interval",
        params: &[],
        needs_tlb: false,
        build: Build::Plain(|_| Box::new(perfect::Last::default())),
    },
    MonitorEntry {
        name: "perfect-next",
        stands_for: "nothing real: a complete record of the interval that begins (Tikir & Hollingsworth's perfect \
        profile)",
        summary: "every transaction of the next interval, as a run without moves sees it",
        params: &[],
        needs_tlb: false,
        build: Build::Future(|future| Box::new(perfect::Next::new(future))),
    },
    MonitorEntry {
        name: "interconnect",
        stands_for: "Sun Fire Link bus analyser: at every Nth transaction it records eight, which software reads",
        summary: "eight transactions at every Nth of the whole machine",
        params: &[
            param("period", 512.0, "transactions", "is armed at every Nth"),
            Param {
                name: "burst",
                default: DEPTH as f64,
                range: (1.0, DEPTH as f64),
                unit: "transactions",
                doc: "recorded each time",
            },
            READ_TIME,
            CPU_ONLY,
            FROM,
            TO,
            KINDS,
        ],
        needs_tlb: false,
        build: Build::Plain(|s| {
            Box::new(Interconnect::new(filter(s.values), s.count(0), s.count(1), s.count(2)))
        }),
    },
    MonitorEntry {
        name: "interconnect-max",
        stands_for: "Sun Fire Link bus analyser, as fast as software empties its FIFO of eight",
        summary: "transactions at the maximum rate, in bursts of eight",
        params: &[READ_TIME, CPU_ONLY, FROM, TO, KINDS],
        needs_tlb: false,
        build: Build::Plain(|s| Box::new(Interconnect::new(filter(s.values), 1, DEPTH, s.count(0)))),
    },
    MonitorEntry {
        name: "cache-misses",
        stands_for: "performance counters with event addresses: Itanium 2 EAR; precise cache-miss events",
        summary: "every Nth miss of each CPU's last private cache",
        params: &[param("period", 512.0, "misses", "sample every Nth of each CPU")],
        needs_tlb: false,
        build: Build::Plain(|s| Box::new(misses::CacheMisses::new(s.count(0), s.cpus))),
    },
    MonitorEntry {
        name: "tlb-misses",
        stands_for: "performance counters of data TLB misses; software-refilled TLBs",
        summary: "every Nth TLB miss of each CPU",
        params: &[param("period", 512.0, "misses", "sample every Nth of each CPU")],
        needs_tlb: true,
        build: Build::Plain(|s| Box::new(misses::TlbMisses::new(s.count(0), s.cpus))),
    },
    MonitorEntry {
        name: "tlb-content",
        stands_for: "valid bits of TLB entries, read by the kernel",
        summary: "the pages in each CPU's TLB, again and again",
        params: &[param("every", 16384.0, "translations", "of a CPU between two polls of it")],
        needs_tlb: true,
        build: Build::Plain(|s| Box::new(tlb::TlbContent::new(s.count(0), false))),
    },
    MonitorEntry {
        name: "atc",
        stands_for: "address translation counters, proposed hardware (Tikir & Hollingsworth, section 4.3)",
        summary: "translations by each entry of every CPU's TLB",
        params: &[param("every", 16384.0, "translations", "of a CPU between two polls of it")],
        needs_tlb: true,
        build: Build::Plain(|s| Box::new(tlb::TlbContent::new(s.count(0), true))),
    },
    MonitorEntry {
        name: "origin",
        stands_for: "SGI Origin 2000: 11-bit counters by page and node, 32-bit extensions in the kernel",
        summary: "all misses by page and node",
        params: &[],
        needs_tlb: false,
        build: Build::Plain(|_| Box::new(origin::Counters::default())),
    },
    MonitorEntry {
        name: "card",
        stands_for: "the Opium performance-monitor card: region filters on each node's port (Brock et al. 2001)",
        summary: "non-local transactions that leave each node, or that come in, by region",
        params: &[
            Param {
                name: "granularity",
                default: 4096.0,
                range: (32.0, 2097152.0),
                unit: "bytes",
                doc: "bytes that share a counter, a power of two; more where the counters do not suffice",
            },
            Param {
                name: "threshold",
                default: 0.0,
                range: (0.0, 1e12),
                unit: "references",
                doc: "a counter raises an event at each multiple; 0 for never",
            },
            Param {
                name: "inbound",
                default: 0.0,
                range: (0.0, 1.0),
                unit: "",
                doc: "1: count what comes into a node; the other nodes cannot be told apart and get even shares",
            },
        ],
        needs_tlb: false,
        build: Build::Plain(|s| {
            let pages: Vec<u64> = (0..s.addresses.pages()).map(|page| s.addresses.address(Page(page))).collect();
            let page_size = s.addresses.page_size().bytes();
            let inbound = s.count(2) == 1;
            Box::new(card::Cards::over(s.nodes, &pages, page_size, s.count(0), s.count(1), inbound))
        }),
    },
    MonitorEntry {
        name: "precise",
        stands_for: "Intel PEBS load latency, AMD IBS, Arm SPE",
        summary: "every Nth sufficiently slow miss of each CPU",
        params: &[
            param("period", 64.0, "misses", "sample every Nth of each CPU"),
            Param {
                name: "latency",
                default: 0.0,
                range: (0.0, 1e6),
                unit: "local accesses",
                doc: "least latency; above 1 only non-local misses",
            },
        ],
        needs_tlb: false,
        build: Build::Plain(|s| Box::new(precise::Precise::new(s.count(0), s.values[1], s.cpus))),
    },
    MonitorEntry {
        name: "hint-faults",
        stands_for: "the live engine's own session (`homing run --source hint-faults`), in modelled time",
        summary: "the next reference to each page after a scan, as the live engine sees and weighs it",
        params: super::kernel::PARAMS,
        needs_tlb: true,
        build: Build::Session,
    },
    MonitorEntry {
        name: "hint-faults",
        stands_for: "a scanner at a fixed rate, by references; chosen by `every` or `window`",
        summary: "the next reference to pages whose mapping is taken away in turn",
        params: &[
            param("every", 65536.0, "references", "between two scans"),
            param("window", 64.0, "pages", "mappings taken away at a time"),
        ],
        needs_tlb: true,
        build: Build::Plain(|s| {
            Box::new(hints::HintFaults::new(s.count(0), s.count(1) as u32, s.addresses.pages()))
        }),
    },
    MonitorEntry {
        name: "access-bits",
        stands_for: "Linux DAMON on per-node page tables (Mitosis): access bits of one page a region",
        summary: "whether a node touched a region since the last poll",
        params: &[
            param("every", 65536.0, "references", "between two polls"),
            param("region", 8.0, "pages", "pages that one is watched for"),
        ],
        needs_tlb: true,
        build: Build::Plain(|s| {
            Box::new(access_bits::AccessBits::new(s.count(0), s.count(1) as u32, s.addresses.pages()))
        }),
    },
];

/// A monitor and its parameters as a user asks for them.
#[derive(Clone)]
pub struct Choice {
    /// The table's entry.
    pub entry: &'static MonitorEntry,
    /// Values in the order of its parameters.
    pub values: Vec<f64>,
}

/// The monitor of that name. Of several the first that has the first parameter.
fn named(name: &str, parameters: &str) -> Option<&'static MonitorEntry> {
    let first = parameters.split(['=', ',']).find(|part| !part.is_empty());
    let all = || MONITORS.iter().filter(|entry| entry.name == name);
    let has = |entry: &&MonitorEntry| {
        first.is_none_or(|first| entry.params.iter().any(|param| param.name == first))
    };
    all().find(has).or_else(|| all().next())
}

impl std::str::FromStr for Choice {
    type Err = String;

    /// Parses `NAME` or `NAME:PARAM=VALUE,...`.
    fn from_str(text: &str) -> Result<Choice, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(entry) = named(name, rest) else {
            let mut names: Vec<_> = MONITORS.iter().map(|entry| entry.name).collect();
            names.dedup();
            return Err(format!("no monitor `{name}`: expected one of {}", names.join(", ")));
        };
        let mut values: Vec<f64> = entry.params.iter().map(|param| param.default).collect();
        for part in rest.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let Some(at) = entry.params.iter().position(|param| param.name == key) else {
                let names: Vec<_> = entry.params.iter().map(|param| param.name).collect();
                let names = if names.is_empty() { "none".into() } else { names.join(", ") };
                return Err(format!("monitor `{name}` has no parameter `{key}`: it has {names}"));
            };
            let (least, most) = entry.params[at].range;
            let kind = match key {
                "latency" | "slow" | "ready" | "stop" | "look" | "move" | "memory" => "number",
                "granularity" => "power of two",
                "from" | "to" => "virtual address",
                _ => "whole number",
            };
            let fits = |number: f64| match kind {
                "power of two" => number.fract() == 0.0 && (number as u64).is_power_of_two(),
                "whole number" | "virtual address" => number.fract() == 0.0,
                _ => true,
            };
            let number = match value.strip_prefix("0x") {
                Some(digits) if kind == "virtual address" => {
                    u64::from_str_radix(digits, 16).map(|n| n as f64).map_err(|_| ())
                }
                _ => value.parse::<f64>().map_err(|_| ()),
            };
            values[at] = match number {
                Ok(number) if (least..=most).contains(&number) && fits(number) => number,
                _ => {
                    return Err(format!(
                        "monitor `{name}`: `{part}`: expected a {kind} from {least} to {most}"
                    ))
                }
            };
        }
        Ok(Choice { entry, values })
    }
}

impl Choice {
    /// The name with all parameters, as it can be asked for again.
    pub fn describe(&self) -> String {
        self.with(|_| true)
    }

    /// The same for tables: of its parameters the first, and those that differ from their defaults.
    pub fn brief(&self) -> String {
        self.with(|number| number == 0 || self.values[number] != self.entry.params[number].default)
    }

    fn with(&self, is_told: impl Fn(usize) -> bool) -> String {
        let pairs =
            self.entry.params.iter().zip(&self.values).enumerate().filter(|(number, _)| is_told(*number));
        let pairs: Vec<String> = pairs.map(|(_, (p, v))| format!("{}={v}", p.name)).collect();
        match pairs.is_empty() {
            true => self.entry.name.to_owned(),
            false => format!("{}:{}", self.entry.name, pairs.join(",")),
        }
    }
}
