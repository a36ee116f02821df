//! The table of policies. `homing policies`, `--policy`, `--set`, the documents and the registry tests derive from it.

use super::placement::Placement;
use super::settings::{Param, Settings, Values};
use super::{
    ace, competitive, delay, homing, interval_majority, irix, linux, platinum, record_replay, stay, verghese,
    work_function, Policy,
};
use crate::ids::Node;
use crate::machine::Costs;

/// What a policy is built for.
pub struct PolicySetup<'a> {
    /// The machine.
    pub costs: &'a Costs,
    /// Whether reads may replicate.
    pub replication: bool,
    /// The policy's parameters.
    pub values: Values<'a>,
}

/// Where pages begin under a policy.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// Where the user says; first touch unless said.
    Given,
    /// In global memory, unless the user says or there is none; then at first touch.
    Global,
    /// The policy is this placement and nothing else.
    Own(fn(&Values) -> Placement),
    /// The policy is the placement file that the user gives.
    File,
}

/// One policy.
pub struct Entry {
    /// Name on the command line and in results.
    pub name: &'static str,
    /// Paper and section, or what else it follows.
    pub source: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// True if it uses knowledge of the future.
    pub offline: bool,
    /// True if it makes replicas when it may.
    pub replicates: bool,
    /// Where pages begin.
    pub begin: Begin,
    /// Its parameters.
    pub params: &'static [Param],
    /// Makes one.
    pub build: fn(&PolicySetup) -> Box<dyn Policy>,
    /// Reads one back from [`super::Snapshot::snapshot`].
    pub restore: fn(serde_json::Value) -> serde_json::Result<Box<dyn Policy>>,
}

pub(super) fn restore<P: Policy + serde::de::DeserializeOwned + 'static>(
    state: serde_json::Value,
) -> serde_json::Result<Box<dyn Policy>> {
    Ok(Box::new(serde_json::from_value::<P>(state)?))
}

fn stay(_: &PolicySetup) -> Box<dyn Policy> {
    Box::new(stay::Stay)
}

const INVALIDATIONS: Param = Param {
    name: "invalidations",
    default: 4.0,
    range: (0.0, 1e9),
    unit: "per page",
    doc: "invalidations permitted before a page is frozen for good",
};

/// How references become time where a policy's times are in milliseconds.
pub(super) const RATE: Param = Param {
    name: "rate",
    default: 7e6,
    range: (1.0, 1e15),
    unit: "references/s",
    doc: "mean reference rate of the program, which turns times into references",
};

/// All policies, in the order in which tables show them.
pub const POLICIES: &[Entry] = &[
    Entry {
        name: "first-touch",
        source: "operating systems' default; Nikolopoulos 2000, section 5.1",
        summary: "a page stays at the node that refers to it first",
        offline: false,
        replicates: false,
        begin: Begin::Own(|_| Placement::FirstTouch),
        params: &[],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "round-robin",
        source: "Nikolopoulos 2000, section 5.1; Linux's interleave",
        summary: "pages go to the nodes in turn, by order of first reference",
        offline: false,
        replicates: false,
        begin: Begin::Own(|_| Placement::RoundRobin),
        params: &[],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "single-node",
        source: "Nikolopoulos 2000, section 5.1",
        summary: "all pages are at one node",
        offline: false,
        replicates: false,
        begin: Begin::Own(|values| Placement::SingleNode(Node(values.count("node") as u16))),
        params: &[Param { name: "node", default: 0.0, range: (0.0, 127.0), unit: "", doc: "the node" }],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "striped",
        source: "Brock 2001, section 4",
        summary: "pages go to the nodes in turn, by virtual address, a number of pages in a row each",
        offline: false,
        replicates: false,
        begin: Begin::Own(|values| Placement::Striped(values.count("stride"))),
        params: &[Param {
            name: "stride",
            default: 1.0,
            range: (1.0, 1e9),
            unit: "pages",
            doc: "pages in a row at one node",
        }],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "worst-static",
        source: "off-line: the counterpart of best-static",
        summary: "each page stays at the node where that costs most",
        offline: true,
        replicates: false,
        begin: Begin::Own(|_| Placement::Worst),
        params: &[],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "best-static",
        source: "off-line: Tikir 2008, section 5.2.3, with a perfect profile",
        summary: "each page stays at the node where that costs least",
        offline: true,
        replicates: false,
        begin: Begin::Own(|_| Placement::Best),
        params: &[],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "file",
        source: "Tikir 2008, section 5.2.3: the second run of two",
        summary:
            "pages stay where the file of `--placement file:FILE` puts them, at first touch if it does not",
        offline: false,
        replicates: false,
        begin: Begin::File,
        params: &[],
        build: stay,
        restore: restore::<stay::Stay>,
    },
    Entry {
        name: "ace",
        source: "Bolosky & Scott 1991, section 4.4.1; Bolosky, Fitzgerald & Scott 1989",
        summary: "replicates for reads, moves for writes, freezes a page for good after four invalidations",
        offline: false,
        replicates: true,
        begin: Begin::Global,
        params: &[INVALIDATIONS],
        build: |setup| {
            let limit = setup.values.count("invalidations");
            Box::new(ace::Ace::new(setup.costs.global_node(), setup.replication, limit))
        },
        restore: restore::<ace::Ace>,
    },
    Entry {
        name: "platinum",
        source: "Bolosky & Scott 1991, section 4.4.1; Cox & Fowler 1989",
        summary:
            "as ace, but freezes a page that was lately invalidated, and a daemon defrosts all pages at times",
        offline: false,
        replicates: true,
        begin: Begin::Given,
        params: &[
            RATE,
            Param {
                name: "t1-ms",
                default: 10.0,
                range: (0.0, 1e9),
                unit: "ms",
                doc: "a page referenced within this time after an invalidation is frozen",
            },
            Param {
                name: "t2-ms",
                default: 1000.0,
                range: (1e-6, 1e9),
                unit: "ms",
                doc: "period of the daemon",
            },
        ],
        build: |setup| {
            let references = |name| (setup.values.get(name) * setup.values.get("rate") / 1000.0) as u64;
            let global = setup.costs.global_node();
            Box::new(platinum::Platinum::new(
                global,
                setup.replication,
                references("t1-ms"),
                references("t2-ms"),
            ))
        },
        restore: restore::<platinum::Platinum>,
    },
    Entry {
        name: "delay",
        source: "Bolosky & Scott 1991, section 4.4.1",
        summary: "as ace, but decides only after 100 references from a new node",
        offline: false,
        replicates: true,
        begin: Begin::Global,
        params: &[
            Param {
                name: "count",
                default: 100.0,
                range: (1.0, 1e9),
                unit: "references",
                doc: "references from a node before a decision",
            },
            INVALIDATIONS,
        ],
        build: |setup| {
            let (limit, count) = (setup.values.count("invalidations"), setup.values.count("count"));
            Box::new(delay::Delay::new(setup.costs.global_node(), setup.replication, limit, count))
        },
        restore: restore::<delay::Delay>,
    },
    interval_majority::ENTRY,
    competitive::COMPETITIVE,
    competitive::PREDICTIVE,
    record_replay::ENTRY,
    irix::ENTRY,
    verghese::ENTRY,
    linux::ENTRY,
    Entry {
        name: "work-function",
        source: "Borodin, Linial & Saks 1992; Black & Sleator 1989",
        summary: "moves where the past would have been cheaper even with the cost of the move",
        offline: false,
        replicates: false,
        begin: Begin::Given,
        params: &[Param {
            name: "eagerness",
            default: -1.0,
            range: (-1.0, 1.0),
            unit: "page moves",
            doc: "-1 the algorithm itself, 0 ski rental, 1 moves at every reference from elsewhere",
        }],
        build: |setup| Box::new(work_function::Wfa::new(setup.costs, setup.values.get("eagerness"))),
        restore: restore::<work_function::Wfa>,
    },
    Entry {
        name: "homing",
        source: "this project: docs/policy.md",
        summary:
            "per page, simple rules over the work function compete in hindsight; the page follows the leader",
        offline: false,
        replicates: true,
        begin: Begin::Given,
        params: &[
            Param {
                name: "hysteresis",
                default: 1.0,
                range: (0.0, 1e6),
                unit: "page moves",
                doc: "how much less than the leader an expert must have paid to take the lead",
            },
            Param {
                name: "catch-up",
                default: 0.0,
                range: (-1.0, 1.0),
                unit: "page moves",
                doc: "eagerness with which a page goes where its leader already is",
            },
            Param {
                name: "pooling",
                default: 1.0,
                range: (0.0, 1.0),
                unit: "",
                doc: "1: what the experts lost on other pages counts too; 0: pages learn alone",
            },
            Param {
                name: "constructs",
                default: 0.0,
                range: (0.0, 1e6),
                unit: "constructs",
                doc: "parallel constructs after which the move of a thread counts (Nikolopoulos 2000: 2)",
            },
            Param {
                name: "load",
                default: 1.0,
                range: (0.0, 1e3),
                unit: "",
                doc: "weight of the waits at loaded memories, where the source reports them; 0: only distances count",
            },
            Param {
                name: "purse",
                default: 0.3,
                range: (0.0, 1e6),
                unit: "per cent",
                doc: "what moves may cost before they pay, of what pages that stay would have cost; where times are \
                      modelled",
            },
            Param {
                name: "patience",
                default: 2.0,
                range: (0.0, 1e6),
                unit: "page moves",
                doc: "what a page must have lost where it is before it moves without money in the purse",
            },
        ],
        build: |setup| {
            let parameters = homing::Parameters {
                hysteresis: setup.values.get("hysteresis"),
                catch_up: setup.values.get("catch-up"),
                pooling: setup.values.get("pooling") >= 0.5,
                constructs: setup.values.count("constructs") as u32,
                load: setup.values.get("load"),
                purse: setup.values.get("purse"),
                patience: setup.values.get("patience"),
            };
            Box::new(homing::Homing::new(setup.costs, setup.replication, &parameters))
        },
        restore: restore::<homing::Homing>,
    },
];

/// The policy of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    POLICIES.iter().find(|entry| entry.name == name)
}

impl Entry {
    /// A policy for a machine, ready to begin.
    pub fn make(&self, costs: &Costs, replication: bool, settings: &Settings) -> Box<dyn Policy> {
        (self.build)(&PolicySetup { costs, replication, values: settings.of(self) })
    }

    /// Where pages begin: under static policies as they say, else as the user said.
    pub fn placement(&self, given: Option<&Placement>, costs: &Costs, settings: &Settings) -> Placement {
        match (self.begin, given) {
            (Begin::Own(placement), _) => placement(&settings.of(self)),
            (_, Some(given)) => given.clone(),
            (Begin::Global, None) if costs.global_node().is_some() => Placement::Global,
            (_, None) => Placement::FirstTouch,
        }
    }
}
