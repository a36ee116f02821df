use super::*;

fn costs(name: &str, page_size: u64) -> Costs {
    Machine::builtin(name).unwrap().costs(PageSize::new(page_size).unwrap()).unwrap()
}

#[test]
fn every_built_in_machine_is_valid_at_common_page_sizes_and_documented() {
    let names: Vec<_> = Machine::builtin_names().collect();
    assert!(names.windows(2).all(|w| w[0] < w[1]), "sorted and unique: {names:?}");
    for name in names {
        let machine = Machine::builtin(name).unwrap();
        assert_eq!(machine.name(), name, "the file name is the machine's name");
        assert!(!machine.summary().is_empty(), "{name} has a summary");
        for size in [512, 4096, 16384, 65536, 2 << 20] {
            machine.costs(PageSize::new(size).unwrap()).unwrap_or_else(|e| panic!("{size}: {e}"));
        }
        let again = Machine::from_toml(&machine.to_toml(), name).unwrap();
        assert_eq!(again, machine, "what is printed reads back");
    }
}

#[test]
fn the_papers_figures() {
    let Costs::Uniform(ace) = costs("ace", 4096) else { panic!("uniform") };
    assert_eq!((ace.nodes, ace.remote), (7, 5.0));
    assert_eq!(ace.global, Some(Global { access: 2.0, page_move: 2248.0 }));
    let Costs::Uniform(butterfly) = costs("butterfly", 4096) else { panic!("uniform") };
    assert_eq!((butterfly.remote, butterfly.page_move, butterfly.global), (15.0, 3272.0, None));
    let Costs::Uniform(high) = costs("high-latency", 512) else { panic!("uniform") };
    assert_eq!((high.remote, high.page_move), (100.0, 531.0));
}

#[test]
fn nanoseconds_are_normalised_to_local_references() {
    let Costs::Uniform(two) = costs("two-socket", 4096) else { panic!("uniform") };
    assert_eq!((two.nodes, two.remote, two.page_move), (2, 1.75, 2024.0 / 80.0));
    let Costs::General(cxl) = costs("two-socket-cxl", 4096) else { panic!("general") };
    assert_eq!(cxl.access[2], 210.0 / 80.0);
    assert_eq!(cxl.copy[3 + 2], (0.4 * 4096.0 + 1000.0) / 80.0);
    assert_eq!(cxl.copy[4], 0.0);
    let machine = Machine::builtin("two-socket-cxl").unwrap();
    assert_eq!((machine.cpus(), machine.cpus_of(Node(2))), (32, 0));
    assert_eq!(machine.node_of(Cpu(16)), Some(Node(1)));
    assert_eq!(machine.node_of(Cpu(32)), None);
    assert_eq!(machine.local_ns(), Some(80.0));
}

#[test]
fn an_even_matrix_is_the_uniform_model() {
    let text = "name = 'm'\nnodes = 2\n[latency]\nmatrix = [[10, 20], [20, 10]]\npage_move = 500";
    let costs = Machine::from_toml(text, "m").unwrap().costs(PageSize::KIB4).unwrap();
    assert_eq!(costs, Costs::Uniform(Uniform { nodes: 2, remote: 2.0, page_move: 50.0, global: None }));
}

#[test]
fn settings_override_any_field() {
    let mut machine = Machine::builtin("butterfly").unwrap();
    for setting in [
        "remote=20",
        "page_move = 500",
        "nodes=8",
        "reference.global=2",
        "global_page_move=400",
        "page_size=16K",
    ] {
        machine.set(setting).unwrap();
    }
    let global = Some(Global { access: 2.0, page_move: 400.0 });
    let expected = Uniform { nodes: 8, remote: 20.0, page_move: 500.0, global };
    assert_eq!(machine.costs(PageSize::KIB4).unwrap(), Costs::Uniform(expected));
    assert_eq!(machine.page_size().bytes(), 16384);
    let mut machine = Machine::builtin("two-socket-cxl").unwrap();
    machine.set("latency.page_move.overhead=0").unwrap();
    machine.set("page_move.per_byte=1").unwrap();
    assert_eq!(machine.costs(PageSize::KIB4).unwrap().copy(Node(0), Node(2)), 4096.0 / 80.0);
    machine.set("cpus_per_node=[1,1,2]").unwrap();
    assert_eq!(machine.cpus(), 4);
}

fn message(change: &str) -> String {
    let mut machine = Machine::builtin("ace").unwrap();
    machine.set(change).and_then(|()| machine.costs(PageSize::KIB4).map(drop)).unwrap_err().to_string()
}

#[test]
fn errors_name_file_field_found_and_expected() {
    for (change, wanted) in [
        ("remote=1", "machine `ace`: field `reference.remote` is 1 local references: expected r > 1"),
        ("remote=3000", "R > 2r"),
        ("global=6", "g <= r = 5"),
        ("global=1", "g > 1"),
        ("global_page_move=3", "G > 2g = 4"),
        ("page_move=2000", "G <= R <= 2G, from 2248 to 4496"),
        ("page_move=5000", "G <= R <= 2G"),
        ("remote=nan", "r > 1"),
        ("page_move=-4", "above 0"),
        ("page_move.per_word=-1", "`reference.page_move.per_word` is -1"),
        ("page_move={per_word=0,overhead=0}", "above 0"),
        ("page_move.per_byte=1", "one of `per_byte` and `per_word`"),
        ("nodes=0", "1 to 1024"),
        ("cpus_per_node=0", "1 to 65535 CPUs"),
        ("cpus_per_node=[1,2]", "one number for each of 7 nodes"),
        ("cpus_per_node=1.5", "a number of CPUs, or a list"),
        ("page_size=3K", "power of two"),
        ("access=[[1]]", "beside `remote`"),
        ("latency.page_move=1", "one of the two sections"),
        ("remot=3", "unknown field `remot`"),
        ("remote=fast", "invalid type"),
        ("remote", "expected FIELD=VALUE"),
        ("remote.x=1", "plain value"),
    ] {
        let message = message(change);
        assert!(message.contains(wanted), "{change}: {message}");
    }
}

#[test]
fn a_machine_without_remote_memory_is_a_general_one() {
    let text = "name = 'x'\nnodes = 2\n[latency]\nmatrix = [[80, 80], [80, 80]]\npage_move = 900";
    let costs = Machine::from_toml(text, "x").unwrap().costs(PageSize::KIB4).unwrap();
    assert!(matches!(costs, Costs::General(_)) && costs.access(Node(0), Node(1)) == 1.0);
}

#[test]
fn files_with_unknown_fields_or_without_costs_are_refused() {
    for (text, wanted) in [
        ("nodes = 2", "missing field `name`"),
        ("name = 'x'\nnodes = 2", "a section [reference] or [latency]"),
        ("name = 'x'\nnodes = 2\ncores = 3", "unknown field `cores`"),
        ("name = 'x'\nnodes = 2\n[latency]\nlocal = 1\npage_move = 9", "`latency.remote` is missing"),
        ("name = 'x'\nnodes = 2\n[latency]\nmatrix = [[1, 2]]\npage_move = 9", "2 rows of 2 numbers"),
        ("name = 'x'\nnodes = 2\n[latency]\nmatrix = [[1, 2], [0, 1]]\npage_move = 9", "matrix[1][0]"),
        ("name = 'x'\nnodes = 2\n[reference]\nremote = 2\npage_move = 9\nglobal = 2", "global_page_move"),
        ("name = ", "line"),
    ] {
        let message = Machine::from_toml(text, "x.toml").unwrap_err().to_string();
        assert!(message.contains(wanted) && message.contains("x.toml"), "{text}: {message}");
    }
}

#[test]
fn read_gap_is_the_longest_gap_that_justifies_no_copy() {
    assert_eq!(costs("butterfly", 4096).read_gap(), 3272 / 14);
    assert_eq!(costs("ace", 4096).read_gap(), 2248 / 3);
    assert_eq!(costs("two-socket-cxl", 4096).read_gap(), u32::MAX);
}

/// A small machine with this in its section [hierarchy], and lines behind it.
fn with_hierarchy(hierarchy: &str) -> Result<Machine, MachineError> {
    let head = "name = 'm'\nnodes = 2\n[latency]\nlocal = 80\nremote = 140\npage_move = 2000\n";
    Machine::from_toml(&format!("{head}[hierarchy]\n{hierarchy}"), "m")
}

#[test]
fn a_hierarchy_is_read_and_wrong_ones_are_refused_by_field() {
    const L1: &str = "l1 = { size = '32K', ways = 8, line = 64, ns = 1 }\n";
    const L2: &str = "l2 = { size = '1M', ways = 16, line = 64, ns = 5 }\n";
    let machine = with_hierarchy(&format!("{L1}{L2}tlb = [{{ entries = 64 }}]")).unwrap();
    let shape = machine.hierarchy(PageSize::KIB4).unwrap().unwrap();
    assert_eq!((shape.l2.sets, shape.l2.ways, shape.tlbs[0].ways, shape.l3), (1024, 16, 64, None));
    assert_eq!(machine.hit_times().map(|hits| (hits.l1, hits.l2)), Some((1.0, 5.0)));
    for (text, field) in [
        (format!("l1 = {{ size = '32K', ways = 7, line = 64, ns = 1 }}\n{L2}"), "hierarchy.l1"),
        (format!("l1 = {{ size = '32K', ways = 8, line = 48, ns = 1 }}\n{L2}"), "hierarchy.l1.line"),
        (format!("l1 = {{ size = '32K', ways = 8, line = 128, ns = 1 }}\n{L2}"), "hierarchy.l1.line"),
        (format!("l1 = {{ size = '2M', ways = 8, line = 64, ns = 1 }}\n{L2}"), "hierarchy.l1.size"),
        (format!("l1 = {{ size = 'big', ways = 8, line = 64, ns = 1 }}\n{L2}"), "hierarchy.l1.size"),
        (format!("l1 = {{ size = '32K', ways = 8, line = 64, ns = -1 }}\n{L2}"), "hierarchy.l1.ns"),
        (format!("{L1}{L2}tlb = [{{ entries = 48, ways = 16 }}]"), "hierarchy.tlb[0]"),
        (format!("{L1}{L2}l3 = {{ size = '8M', ways = 16, line = 64, ns = 9 }}"), "hierarchy.l3.cpus"),
        (
            format!("{L1}{L2}l3 = {{ size = '8M', ways = 16, line = 32, ns = 9, cpus = 2 }}"),
            "hierarchy.l3.line",
        ),
        (
            format!("{L1}{L2}[time]\ncompute_ns = 1\nexposed = 2\nmemory_busy_ns = 1\nlink_busy_ns = 1"),
            "time.exposed",
        ),
    ] {
        let error = with_hierarchy(&text).unwrap_err().to_string();
        assert!(error.contains(&format!("`{field}`")), "{field}: {error}");
    }
}

#[test]
fn overrides_reach_into_the_hierarchy() {
    let mut machine = Machine::builtin("sunfire-6800").unwrap();
    machine.set("hierarchy.l2.size=256K").unwrap();
    machine.set("time.compute_ns=0").unwrap();
    let shape = machine.hierarchy(machine.page_size()).unwrap().unwrap();
    assert_eq!((shape.l2.bytes(), machine.time().unwrap().unwrap().compute_ns), (256 << 10, 0.0));
    let origin = Machine::builtin("origin2000-64").unwrap();
    let costs = origin.costs(origin.page_size()).unwrap();
    assert_eq!(
        (origin.cpus(), costs.access(Node(0), Node(1))),
        (64, 4.0 / 3.0),
        "the other node of the router"
    );
    assert_eq!(costs.access(Node(0), Node(31)), 8.0 / 3.0, "four more hops to the other corner");
}
