//! Runs the fuzz targets on their corpus and on random mutations of it, with the stable toolchain.

#[path = "../../../fuzz/smoke.rs"]
mod smoke;
#[path = "../../../fuzz/targets/machines.rs"]
mod targets;

use smoke::{corpus, smoke};

#[test]
fn machine() {
    smoke(targets::machine, corpus("machine", Vec::new()));
}

#[test]
fn rset() {
    smoke(targets::rset, corpus("rset", Vec::new()));
}

#[test]
fn jobs() {
    smoke(targets::jobs, corpus("jobs", Vec::new()));
}

#[test]
fn hwloc() {
    smoke(targets::hwloc, corpus("hwloc", Vec::new()));
}
