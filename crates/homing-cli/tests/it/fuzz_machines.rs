//! Runs the fuzz targets on their corpus and on random mutations of it, with the stable toolchain.

#[path = "../../../../fuzz/targets/machines.rs"]
mod targets;

use crate::smoke::{corpus, smoke};

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

#[test]
fn swf() {
    smoke(targets::swf, corpus("swf", Vec::new()));
}

#[test]
fn partitions() {
    let file = include_bytes!("../../../../jobs/partitions.toml");
    smoke(targets::partitions, corpus("partitions", vec![file.to_vec()]));
}

#[test]
fn diagnosis() {
    smoke(targets::diagnosis, corpus("diagnosis", Vec::new()));
}
