//! Parameters of `competitive` and `predictive`.

use super::super::settings::Param;

pub(super) const MIGRATION_COST: Param = Param {
    name: "migration-cost",
    default: 1.0,
    range: (0.0, 1e6),
    unit: "page moves",
    doc: "the term ml of equation (1); 0 is the optimistic variant",
};

pub(super) const CONTENTION: Param = Param {
    name: "contention",
    default: 1.0 / 6.0,
    range: (0.0, 1e6),
    unit: "local references",
    doc: "latency that each contending node adds in equation (2)",
};

pub(super) const SELECTIVITY: Param = Param {
    name: "selectivity",
    default: 1.1,
    range: (1.0, 1e3),
    unit: "",
    doc: "factor on an area's ratio when its greatest remote latency rose; 1 is no self-tuning",
};

pub(super) const COLD: Param = Param {
    name: "cold",
    default: 3.0,
    range: (1.0, 1e9),
    unit: "iterations",
    doc: "iterations without candidates that make an area cold",
};

pub(super) const AREA: Param = Param {
    name: "area-pages",
    default: 512.0,
    range: (1.0, 1e9),
    unit: "pages",
    doc: "pages of a memory area",
};

pub(super) const SKIP: Param = Param {
    name: "skip",
    default: 1.0,
    range: (0.0, 1e9),
    unit: "iterations",
    doc: "first iterations that are left out, with all that the program did before them",
};

pub(super) const CONSTRUCTS: Param = Param {
    name: "constructs",
    default: 2.0,
    range: (0.0, 1e6),
    unit: "parallel constructs",
    doc: "constructs for which a moved thread must stay before its move counts",
};

pub(super) const WAKE_PAGES: Param = Param {
    name: "wake-pages",
    default: 1e9,
    range: (0.0, 1e9),
    unit: "pages",
    doc: "pages looked at when an interval ends, where the program has no iterations; 0: tuned by itself",
};

pub(super) const WAKE_EVERY: Param = Param {
    name: "wake-every",
    default: 1.0,
    range: (0.0, 1e6),
    unit: "intervals",
    doc: "intervals from one such look to the next; 0: tuned by itself",
};
