//! Tests of topologies.

use super::*;

#[test]
fn the_built_in_topologies_are_sound() {
    let all = Topology::built_in();
    let find = |name: &str| all.iter().find(|t| t.name == name).unwrap_or_else(|| panic!("no {name}"));
    for (topology, (name, _)) in all.iter().zip(BUILT_IN) {
        assert_eq!(topology.name, name);
        assert!(!topology.summary.is_empty());
        assert_eq!(topology.node_of_cpu().len(), topology.cpus() as usize);
        let mapped: u64 = topology.memory_map().iter().map(|(start, end, _)| end - start).sum();
        assert_eq!(mapped, topology.memory(), "{name}");
    }
    assert_eq!((find("4x2").nodes.len(), find("4x2").cpus()), (4, 8));
    assert_eq!(find("six-boards").nodes.len(), 6);
    assert_eq!(find("hypercube").distances[0][7], 40);
    assert_eq!(find("cxl").nodes.last().unwrap().cpus, 0);
    assert!(find("hmat").hmat.is_some());
    let ids: Vec<u32> = find("sparse").nodes.iter().map(|n| n.id).collect();
    assert!(ids.last().unwrap() + 1 > ids.len() as u32, "{ids:?}");
    assert!((find("far").latency[0][1] / find("far").latency[0][0] - 6.0).abs() < 1e-9);
}

#[test]
fn shapes_have_their_distances() {
    let ring = Shape::Ring.distances(5).unwrap();
    assert_eq!(ring[0], [10, 20, 30, 30, 20]);
    let mesh = Shape::Mesh.distances(6).unwrap();
    assert_eq!(mesh[0], [10, 20, 20, 30, 30, 40]);
    assert_eq!(Shape::Hypercube.distances(4).unwrap()[1], [20, 10, 30, 20]);
    assert!(Shape::Hypercube.distances(6).unwrap_err().contains("power of two"));
    assert!("star".parse::<Shape>().unwrap_err().contains("ring"));
}

#[test]
fn memory_lies_around_the_hole_below_four_gib() {
    let uniform = |nodes, memory| {
        let distances = Shape::Full.distances(nodes).unwrap();
        Topology::uniform(nodes as u32, 2 * nodes as u32, memory, distances).unwrap()
    };
    const GIB: u64 = 1 << 30;
    assert_eq!(uniform(2, 2 * GIB).memory_map(), [(0, GIB, 0), (GIB, 2 * GIB, 1)]);
    let four = uniform(4, 4 * GIB).memory_map();
    assert_eq!(four[2], (4 * GIB, 5 * GIB, 2));
    let two = uniform(2, 6 * GIB).memory_map();
    assert_eq!(two, [(0, 2 * GIB, 0), (4 * GIB, 5 * GIB, 0), (5 * GIB, 8 * GIB, 1)]);
}

#[test]
fn cpus_are_dealt_out() {
    let topology = Topology::uniform(3, 4, 1 << 30, Shape::Ring.distances(3).unwrap()).unwrap();
    assert_eq!(topology.node_of_cpu(), [0, 0, 1, 2]);
    assert!(Topology::uniform(3, 2, 1 << 30, vec![]).unwrap_err().to_string().contains("one CPU for each"));
}

#[test]
fn errors_say_what_was_expected() {
    let error = |text: &str| Topology::from_toml(text, "x.toml").unwrap_err().to_string();
    let head = "name = \"x\"\nsummary = \"x\"\n";
    let nodes = "nodes = [{ cpus = 1, memory = \"1G\" }, { cpus = 1, memory = \"1G\" }]\n";
    assert!(error(&format!("{head}{nodes}distances = [[10, 20]]")).contains("2 by 2"));
    assert!(error(&format!("{head}{nodes}distances = [[10, 20], [20, 9]]")).contains("row 1"));
    assert!(error(&format!("{head}{nodes}colour = 1")).contains("unknown field"));
    assert!(error(&format!("{head}nodes = [{{ cpus = 1, memory = \"1\" }}]")).contains("512M"));
    let of_nodes = |nodes: &str| error(&format!("{head}nodes = [{nodes}]"));
    assert!(of_nodes("{ cpus = 0, memory = \"1G\" }").contains("1 to 64"));
    assert!(of_nodes("{ count = 4000000000, cpus = 1, memory = \"1G\" }").contains("has too many nodes"));
    assert!(of_nodes("{ count = 2, cpus = 4000000000, memory = \"1G\" }").contains("8000000000 CPUs"));
    assert!(of_nodes("{ id = 1, cpus = 2, memory = \"1G\" }").contains("[1]: expected them to rise from 0"));
    assert!(of_nodes("{ cpus = 1, memory = \"1G\" }, { id = 64, cpus = 1, memory = \"1G\" }")
        .contains("below 64"));
    assert!(Topology::load("absent").unwrap_err().to_string().contains("4x2"));
    assert!(distances_from_text("10 20\n20 x", "d").unwrap_err().to_string().contains("20 x"));
    assert_eq!(distances_from_text("# c\n10, 20\n21 10\n", "d").unwrap(), [[10, 20], [21, 10]]);
}
