//! docs/tutorial.md on a small plate: its program, recorded under Valgrind, has the verdict that the tutorial shows,
//! and the mended program has nothing left to mend.
use crate::support::lab::{stderr, Lab};
use crate::support::succeeds;
use serde_json::Value;

/// Caches as much smaller as the plate is, so that it does not fit into them.
const SMALL: [&str; 4] = ["--set", "hierarchy.l3.size=256K", "--set", "hierarchy.l2.size=64K"];

/// Builds the tutorial's program, records it without `--`, and asks why.
fn why(flags: &[&str]) -> Value {
    let lab = Lab::new();
    let source = include_str!("../../../../examples/heat/heat.c");
    let program = lab.compile(source, &[&["-fopenmp"], flags].concat());
    let output =
        lab.begin(&[]).arg(program).args(["256", "30"]).env("OMP_NUM_THREADS", "4").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("256 x 256 points, 30 steps"), "{said}{}", stderr(&output));
    let trace = lab.path("out.trace");
    let answer = succeeds(2, &[&["why", trace.to_str().unwrap(), "--json"], &SMALL[..]].concat());
    serde_json::from_slice(&answer.stdout).unwrap()
}

#[test]
fn the_tutorials_program_is_initialised_by_one_thread() {
    let json = why(&[]);
    assert_eq!(json["verdict"], "initialised-by-one-thread", "{json}");
    let area = &json["areas"][0];
    let name = area["name"].as_str().unwrap();
    let shown = name.replace("program.c", "heat.c");
    for page in [include_str!("../../../../docs/tutorial.md"), include_str!("../../../../README.md")] {
        assert!(
            name.starts_with("new_grid (") && page.contains(&shown),
            "the pages show another line: {shown}"
        );
    }
    assert_eq!(area["remedy"]["remedy"], "initialise-by-user", "{area}");
    assert!(json["gain"]["high"].as_f64().unwrap() > 0.1, "{json}");
}

#[test]
fn the_mended_program_is_not_numa() {
    let json = why(&["-DFIRST_TOUCH"]);
    assert_eq!(json["verdict"], "not-numa", "{json}");
    assert!(json["at_most"].as_f64().unwrap() < 0.03, "{json}");
}
