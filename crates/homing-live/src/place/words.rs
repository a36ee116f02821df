//! The plan as libhoming-place.so reads it (`preload/place_plan.c`), a thing a line: a file of code, a name with its
//! placement, and what belongs to names: address ranges of code by frame, variables, files.

use super::{Placement, LEAST};
use homing_linux::seccomp;
use std::fmt::Write;

/// Names of a plan (`MOST_NAMES` of preload/place.h).
pub const MOST_NAMES: usize = 64;
/// Files of code of a plan (`MOST_MODULES` of preload/place.h).
const MOST_MODULES: usize = 256;

/// Where the names of a plan are in the code and the data of the program and its libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Device and inode of each file.
    pub modules: Vec<(u64, u64)>,
    /// Code of a frame: number of the name, of the frame from the innermost, of the file, first address and the address
    /// behind the last, in the file's own terms.
    pub ranges: Vec<(usize, usize, usize, u64, u64)>,
    /// Variables: number of the name, of the file, first address and the address behind the last.
    pub variables: Vec<(usize, usize, u64, u64)>,
    /// Mapped files: number of the name, path or last part of it.
    pub files: Vec<(usize, String)>,
}

/// The plan. `names`: of each name its placement, on nodes that are there, and the number of its frames.
/// `memories`: the nodes for parts.
pub fn words(names: &[(Placement, usize)], code: &Code, memories: &[u32]) -> String {
    assert!(names.len() <= MOST_NAMES, "{} names", names.len());
    let mut text = format!(
        "homing-place 1 {LEAST} {} {} {}\n",
        seccomp::filters(),
        code.ranges.len(),
        code.variables.len()
    );
    let list = |numbers: Vec<String>| numbers.join(",");
    // Writing to a string does not fail. The library knows no more files of code: what is in those has no names.
    for (device, inode) in code.modules.iter().take(MOST_MODULES) {
        let _ = writeln!(text, "m {device} {inode}");
    }
    for (placement, frames) in names {
        let plain = |nodes: &[u32]| (list(nodes.iter().map(u32::to_string).collect()), "-".to_owned());
        // Numbers of `enum how` of preload/place.h.
        let (how, (nodes, weights)) = match placement {
            Placement::Interleave(nodes) => (0, plain(nodes)),
            Placement::Node(node) => (1, plain(&[*node])),
            Placement::Weighted(weights) => {
                let nodes = weights.iter().map(|(node, _)| node.to_string()).collect();
                (2, (list(nodes), list(weights.iter().map(|(_, weight)| weight.to_string()).collect())))
            }
            Placement::Blocks => (3, plain(memories)),
        };
        let _ = writeln!(text, "n {how} {frames} {nodes} {weights}");
    }
    // A call that was inlined may be several frames of a name: the library takes them in this order.
    let mut ranges = code.ranges.clone();
    ranges.sort_unstable();
    for (name, frame, module, from, to) in ranges {
        let _ = writeln!(text, "r {name} {frame} {module} {from:x} {to:x}");
    }
    for (name, module, from, to) in &code.variables {
        let _ = writeln!(text, "v {name} 0 {module} {from:x} {to:x}");
    }
    for (name, file) in &code.files {
        let _ = writeln!(text, "f {name} {file}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_text_with_a_thing_a_line() {
        let names = [
            (Placement::Interleave(vec![0, 2]), 1),
            (Placement::Weighted(vec![(0, 3), (2, 1)]), 2),
            (Placement::Blocks, 0),
        ];
        let code = Code {
            modules: vec![(1, 2)],
            ranges: vec![(1, 1, 0, 32, 48), (0, 0, 0, 16, 32), (1, 0, 0, 64, 80)],
            variables: vec![(2, 0, 4096, 8192)],
            files: vec![(2, "a file".into())],
        };
        let text = words(&names, &code, &[0, 2]);
        let expected = [
            "m 1 2",
            "n 0 1 0,2 -",
            "n 2 2 0,2 3,1",
            "n 3 0 0,2 -",
            "r 0 0 0 10 20",
            "r 1 0 0 40 50",
            "r 1 1 0 20 30",
            "v 2 0 0 1000 2000",
            "f 2 a file",
        ];
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("homing-place 1 16384 ") && lines[0].ends_with(" 3 1"), "{text}");
        assert_eq!(lines[1..], expected);
    }

    #[test]
    fn the_limits_are_those_of_the_library() {
        let header = include_str!("../../../../preload/place.h");
        let limits = format!("MOST_NAMES = {MOST_NAMES}, MOST_MODULES = {MOST_MODULES},");
        assert!(header.contains(&limits), "{limits}");
        assert!(header.contains("enum how { INTERLEAVE, NODE, WEIGHTED, BLOCKS };"));
    }
}
