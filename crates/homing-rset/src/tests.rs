use super::*;
use homing_core::ids::{Cpu, Node};
use proptest::prelude::*;

/// Four nodes numbered 0, 1, 2 and 4: three with two CPUs each, the last with memory alone. Nodes 0 and 1 are near.
fn machine() -> Global {
    let node = |id: u16, cpus: &[u16], distances: &[u32]| GlobalNode {
        id: Node(id),
        cpus: cpus.iter().copied().map(Cpu).collect(),
        memory: true,
        distances: distances.to_vec(),
    };
    Global::new(vec![
        node(0, &[0, 1], &[10, 16, 32, 40]),
        node(1, &[2, 3], &[16, 10, 32, 40]),
        node(2, &[4, 5], &[32, 32, 10, 20]),
        node(4, &[], &[40, 40, 20, 10]),
    ])
}

fn no_names(name: &str) -> Result<ResourceSet, String> {
    Err(format!("no {name}"))
}

/// An expression on the machine, in words.
fn on(text: &str, global: &Global) -> String {
    let set = Expr::parse(text).and_then(|expr| expr.on(global, &mut no_names));
    set.map_or_else(|error| error.to_string(), |set| global.words(&set))
}

#[test]
fn expressions_say_sets() {
    let global = machine();
    for (text, words) in [
        ("node:0-1 & !cpu:3", "node:0 | cpu:2 | mem:1"),
        ("cpu:0-2,5", "cpu:0-2,5"),
        ("mem:2", "mem:2"),
        ("node:4", "mem:4"),
        ("within:16@0", "node:0-1"),
        ("within:20@2,4", "node:2 | mem:4"),
        ("all", "node:0-2 | mem:4"),
        ("!node:0", "node:1-2 | mem:4"),
        ("node:!0", "node:1-2 | mem:4"),
        ("node:+3", "mem:4"),
        ("node:!+0-1", "node:2 | mem:4"),
        ("node:all - mem:all", "cpu:0-5"),
        ("node:0 | node:1 - node:1", "node:0"),
        ("(node:0 | node:1) - node:1", "node:0"),
        ("node:0-1 - node:1 & cpu:all", "cpu:0-1"),
        ("!!cpu:3", "cpu:3"),
        ("node:0 - node:0", "nothing"),
        (" ( ( cpu:1 ) ) ", "cpu:1"),
    ] {
        assert_eq!(on(text, &global), words, "{text}");
    }
}

#[test]
fn errors_point_at_the_place() {
    let global = machine();
    for (text, place, what) in [
        ("node:0 & cpu:x", "             ^", "`x` is no number and no range"),
        ("node:0 & cpu:9", "         ^^^^^", "there is no CPU 9: expected some of 0-5"),
        ("node:3", "^^^^^^", "there is no node 3: expected some of 0-2,4"),
        ("cpu:3-1", "    ^^^", "runs backwards: expected 1-3"),
        ("node:0-node:1", "     ^^^^^^", "no number and no range"),
        ("node:", "     ^", "a number is missing"),
        ("node:0,,1", "       ^", "a number is missing"),
        ("(node:0", "^", "never closed"),
        ("node:0)", "      ^", "without its opening one"),
        ("node:0 cpu:1", "       ^", "expected |, &, - or the end"),
        ("node:0 |", "        ^", "the expression ends here"),
        ("", "^", "the expression ends here"),
        ("nodes:0", "^^^^^^", "`nodes:` is no kind of set"),
        ("node", "^^^^", "needs more behind it"),
        ("within:0", "^^^^^^^", "as in within:20@0"),
        ("front", "^^^^^", "no front"),
        ("set:node", "    ^^^^", "expected the name of a set"),
        ("ö", "^", "expected a set"),
        ("node:0 & ö", "         ^", "expected a set"),
        ("node:+4", "^^^^^^^", "+4 is beyond them: 4 may be used"),
        ("local", "^^^^^", "this machine is a model"),
    ] {
        let said = on(text, &global);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[lines.len() - 2..], [text, place][..], "{said}");
        assert!(said.contains(what), "{text}: {said}");
    }
    let deep = "(".repeat(1000);
    assert!(on(&deep, &global).contains("nested deeper than 64"), "{}", on(&deep, &global));
    assert!(on(&"all|".repeat(2000), &global).contains("expected at most 4096"));
    assert!(on("node:0\n&", &global).contains("column 9 of `node:0\\n&`"));
}

#[test]
fn the_global_set_is_what_the_caller_may_use() {
    let usable = ResourceSet { cpus: [2, 3, 4].map(Cpu).into(), memories: [1, 2].map(Node).into() };
    let global = machine().confined(&usable, Some(Node(1)));
    assert_eq!(on("all", &global), "node:1 | cpu:4 | mem:2");
    assert_eq!(on("!node:1", &global), "cpu:4 | mem:2");
    assert_eq!(on("cpu:+0", &global), "cpu:2");
    assert_eq!(on("node:all", &global), "node:1-2", "all the nodes of which something may be used");
    assert_eq!(on("node:0", &global), "node:0", "what is named is not cut");
    assert_eq!(on("local", &global), "node:1");
    assert_eq!(on("node:0 & all", &global), "nothing");

    let refused = |text: &str| {
        let set = Expr::parse(text).unwrap().on(&global, &mut no_names).unwrap();
        global.refuse_outside(&set).err().unwrap_or_default()
    };
    assert_eq!(refused("node:1 | cpu:4"), "");
    assert!(refused("node:1-2").contains("may not use cpu:5 of the set"), "{}", refused("node:1-2"));
    assert!(refused("node:1-2").contains("what is left is node:1 | cpu:4 | mem:2: `(SET) & all`"));
    assert!(refused("node:0").contains("what may be used is node:1 | cpu:4 | mem:2"));
    assert!(refused("node:1 - node:1").contains("is empty"));
}

/// A part of an expression as the obvious model has it: which CPUs and memories are in it, one by one.
#[derive(Clone, Debug)]
enum Model {
    Nodes(Vec<u16>),
    Cpus(Vec<u16>),
    Memories(Vec<u16>),
    Within(u32, u16),
    All,
    Not(Box<Model>),
    Both(char, Box<Model>, Box<Model>),
}

impl Model {
    fn text(&self) -> String {
        let list = |numbers: &[u16]| ranges(numbers.iter().copied());
        match self {
            Model::Nodes(nodes) => format!("node:{}", list(nodes)),
            Model::Cpus(cpus) => format!("cpu:{}", list(cpus)),
            Model::Memories(nodes) => format!("mem:{}", list(nodes)),
            Model::Within(distance, node) => format!("within:{distance}@{node}"),
            Model::All => "all".to_owned(),
            Model::Not(inner) => format!("!({})", inner.text()),
            Model::Both(sign, left, right) => format!("({}) {sign} ({})", left.text(), right.text()),
        }
    }

    /// Whether a CPU of a node, or the node's memory (no CPU), is in it.
    fn has(&self, global: &Global, node: &GlobalNode, cpu: Option<Cpu>) -> bool {
        let has = |model: &Model| model.has(global, node, cpu);
        match self {
            Model::Nodes(nodes) => nodes.contains(&node.id.0),
            Model::Cpus(cpus) => cpu.is_some_and(|cpu| cpus.contains(&cpu.0)),
            Model::Memories(nodes) => cpu.is_none() && nodes.contains(&node.id.0),
            Model::Within(distance, from) => {
                let at = global.nodes().iter().position(|other| other.id == node.id).unwrap();
                global.node(Node(*from)).unwrap().distances[at] <= *distance
            }
            Model::All => true,
            Model::Not(inner) => !has(inner),
            Model::Both('|', left, right) => has(left) || has(right),
            Model::Both('&', left, right) => has(left) && has(right),
            Model::Both(_, left, right) => has(left) && !has(right),
        }
    }
}

fn models() -> impl Strategy<Value = Model> {
    let nodes = || prop::sample::subsequence(vec![0u16, 1, 2, 4], 1..=4);
    let leaf = prop_oneof![
        nodes().prop_map(Model::Nodes),
        prop::sample::subsequence((0u16..6).collect::<Vec<_>>(), 1..=6).prop_map(Model::Cpus),
        nodes().prop_map(Model::Memories),
        (5u32..45, prop::sample::select(vec![0u16, 1, 2, 4]))
            .prop_map(|(far, node)| Model::Within(far, node)),
        Just(Model::All),
    ];
    leaf.prop_recursive(5, 40, 2, |inner| {
        let both = (prop::sample::select(vec!['|', '&', '-']), inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|model| Model::Not(Box::new(model))),
            both.prop_map(|(sign, left, right)| Model::Both(sign, Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #[test]
    fn a_set_has_what_each_of_its_parts_says(model in models()) {
        let global = machine();
        let set = Expr::parse(&model.text()).unwrap().on(&global, &mut no_names).unwrap();
        for node in global.nodes() {
            prop_assert_eq!(set.memories.contains(&node.id), model.has(&global, node, None));
            for &cpu in &node.cpus {
                prop_assert_eq!(set.cpus.contains(&cpu), model.has(&global, node, Some(cpu)));
            }
        }
    }

    #[test]
    fn the_words_of_a_set_are_read_as_the_same_set(model in models()) {
        let global = machine();
        let set = Expr::parse(&model.text()).unwrap().on(&global, &mut no_names).unwrap();
        prop_assume!(!set.is_empty());
        let again = Expr::parse(&global.words(&set)).unwrap().on(&global, &mut no_names).unwrap();
        prop_assert_eq!(again, set);
    }
}

const FILE: &str = "[set.left]\nexpr = \"node:0-1\"\nmemory = \"striped\"\nstride = \"64K\"\n\
    [set.left-front]\nexpr = \"left & node:0\"\ninside = \"left\"\nthreads = \"fill\"\n\
    [set.right]\nexpr = \"all - left\"\n\
    [set.one]\nexpr = \"cpu:0\"\n[set.absent]\nexpr = \"node:7\"\n";

#[test]
fn sets_of_a_file_have_a_hierarchy() {
    let sets = Sets::from_toml(FILE, "rsets.toml").unwrap();
    let global = machine();
    let all = sets.all_on(&global);
    let parent = |name: &str| {
        let named = all.iter().find(|named| named.name == name).unwrap();
        named.parent.map(|at| all[at].name.as_str())
    };
    assert_eq!(parent("left"), None);
    assert_eq!(parent("left-front"), Some("left"));
    assert_eq!(parent("one"), Some("left-front"), "the smallest that has it");
    assert_eq!(parent("absent"), None);
    let absent = all.iter().find(|named| named.name == "absent").unwrap().set.clone().unwrap_err();
    assert!(absent.starts_with("set `absent` (rsets.toml:13): there is no node 7"), "{absent}");
    let right = Expr::parse("right").unwrap();
    assert_eq!(global.words(&sets.on(&right, &global).unwrap()), "node:2 | mem:4");
    let policies = sets.policies(&Expr::parse("set:left").unwrap());
    assert_eq!((policies.memory, policies.stride), (Some(Memory::Striped), Some(65536)));
    assert_eq!(sets.policies(&Expr::parse("left | one").unwrap()), Policies::default());
}

#[test]
fn a_set_that_contains_its_part_by_name_is_no_circle() {
    let text = "[set.a]\nexpr = \"node:0\"\ninside = \"b\"\n[set.b]\nexpr = \"a | node:1\"\n";
    let sets = Sets::from_toml(text, "f").unwrap();
    assert!(sets.all_on(&machine()).iter().all(|named| named.set.is_ok()));
}

#[test]
fn errors_of_files_name_the_line() {
    for (text, said) in [
        ("[set.a]\nexpr = \"node:x\"", "f:2: set `a`: `x` is no number"),
        (
            "[set.a]\n\nmemory = \"near\"\nexpr = \"all\"",
            "f:3: set `a`: memory = `near`: expected one of float",
        ),
        (
            "[set.a]\nexpr = \"all\"\nmemory = \"striped\"\nstride = \"5\"",
            "f:4: set `a`: a stride of 5 bytes",
        ),
        ("[set.a]\nexpr = \"all\"\nstride = \"64K\"", "f:3: set `a`: a stride is given: expected memory"),
        ("[set.a]\nexpr = \"all\"\nthread = \"fill\"", "f:3: unknown field `thread`"),
        ("[set.a]\nexpr = 5", "f:2: invalid type"),
        ("\n[set.all]\nexpr = \"all\"", "f:2: set `all`: expected a name"),
        ("[set.a]\nexpr = \"all\"\ninside = \"b\"", "f:1: set `a` is inside of `b`, which is no set"),
        ("[set.a\n", "f:1: "),
        ("[set.a]\nexpr = \"all\"\n[set.a]\nexpr = \"all\"", "f:3: "),
    ] {
        let error = Sets::from_toml(text, "f").unwrap_err().to_string();
        assert!(error.starts_with(said), "{text}: {error}");
    }
}

#[test]
fn names_that_lead_nowhere_are_said() {
    let global = machine();
    let said = |file: &str, text: &str| {
        let sets = Sets::from_toml(file, "f").unwrap();
        sets.on(&Expr::parse(text).unwrap(), &global).unwrap_err().to_string()
    };
    let two = "[set.a]\nexpr = \"b\"\n[set.b]\nexpr = \"a\"\n";
    assert!(said(two, "a").contains("made of itself (a -> b -> a)"), "{}", said(two, "a"));
    assert!(said(two, "c").contains("there is no set `c`: expected one of a, b"));
    assert!(said(two, "a-b").contains("for a difference write `a - b`"));
    let outside = "[set.a]\nexpr = \"node:0-1\"\ninside = \"b\"\n[set.b]\nexpr = \"node:0\"\n";
    assert!(said(outside, "a").contains("not inside of `b`, which has no node:1"), "{}", said(outside, "a"));
    assert!(said(FILE, "rigth").contains("did you mean `right`?"), "{}", said(FILE, "rigth"));
    assert!(said("", "a").contains("there is no file of sets"));
}

#[test]
fn threads_are_laid_over_the_cpus_of_a_set() {
    let global = machine();
    let layout = |threads: Threads, text: &str| -> Vec<u16> {
        let set = Expr::parse(text).unwrap().on(&global, &mut no_names).unwrap();
        threads.layout(&set, &global).into_iter().map(|cpu| cpu.0).collect()
    };
    assert_eq!(layout(Threads::Fill, "node:1-2"), [2, 3, 4, 5]);
    assert_eq!(layout(Threads::RoundRobin, "node:1-2"), [2, 4, 3, 5]);
    assert_eq!(layout(Threads::RoundRobin, "all - cpu:2"), [0, 3, 4, 1, 3, 5]);
    assert_eq!(layout(Threads::OnePerNode, "node:1-2 | cpu:1"), [1, 2, 4]);
    assert!(layout(Threads::Fill, "mem:0").is_empty());
}

#[test]
fn policies_that_do_not_go_together_are_refused() {
    let check = |memory, stride, huge| {
        let policies = Policies { memory, stride, huge, threads: None };
        policies.check().err().unwrap_or_default()
    };
    let (striped, local) = (Some(Memory::Striped), Some(Memory::Local));
    assert_eq!(check(striped, Some(1 << 16), None), "");
    assert_eq!(check(striped, Some(1 << 22), Some(1 << 21)), "");
    assert!(check(striped, Some(1 << 16), Some(1 << 21)).contains("a huge page is on one node"));
    assert!(check(local, Some(1 << 16), None).contains("expected memory to be striped"));
    assert!(check(striped, Some(0), None).contains("a multiple of 4K"));
    assert!(check(local, None, Some(3 << 20)).contains("a power of two"));

    let file = Policies { memory: striped, stride: Some(1 << 16), ..Policies::default() };
    let line = Policies { memory: local, ..Policies::default() };
    assert_eq!(line.over(file), line, "a stride does not outlive its policy");
    assert_eq!(Policies::default().over(file), file);
}

#[test]
fn remote_memory_needs_another_node() {
    let global = machine();
    let said = |memory, text: &str| {
        let set = Expr::parse(text).unwrap().on(&global, &mut no_names).unwrap();
        let policies = Policies { memory: Some(memory), ..Policies::default() };
        policies.check_on(&set, &global).err().unwrap_or_default()
    };
    assert_eq!(said(Memory::Remote, "node:0-1"), "");
    assert_eq!(said(Memory::Remote, "cpu:0 | mem:4"), "");
    assert!(said(Memory::Remote, "node:1").contains("a thread on node 1 cannot be remote"));
    assert!(said(Memory::Striped, "cpu:1").contains("has no memory to be striped"));
    assert_eq!(said(Memory::Float, "cpu:1"), "");
}

#[test]
fn allocations_are_divided_by_their_policy() {
    let set = |memories: &[u16]| ResourceSet {
        memories: memories.iter().copied().map(Node).collect(),
        ..ResourceSet::default()
    };
    let pieces = |memory, stride, memories: &[u16], bytes| {
        let policies = Policies { memory: Some(memory), stride, ..Policies::default() };
        policies.pieces(&set(memories), bytes, 4096, Node(1))
    };
    let within = |nodes: &[u16]| Pages::Within(nodes.iter().copied().map(Node).collect());
    let whole = |pages| Ok(vec![(0..20480, pages)]);
    assert_eq!(pieces(Memory::Float, None, &[1, 4], 20480), whole(within(&[1, 4])));
    assert_eq!(pieces(Memory::Float, None, &[], 20480), Ok(Vec::new()));
    assert_eq!(pieces(Memory::Local, None, &[1, 4], 20480), whole(Pages::On(Node(1))));
    assert_eq!(pieces(Memory::Local, None, &[2, 4], 20480), whole(within(&[2, 4])), "no memory here");
    assert_eq!(pieces(Memory::Remote, None, &[1, 4], 20480), whole(within(&[4])));
    assert!(pieces(Memory::Remote, None, &[1], 20480).unwrap_err().contains("remote from node 1"));
    assert_eq!(pieces(Memory::Striped, None, &[1, 4], 20480), whole(Pages::InTurn(vec![Node(1), Node(4)])));
    let striped = pieces(Memory::Striped, Some(8192), &[1, 4], 20480).unwrap();
    let on = |range, node| (range, Pages::On(Node(node)));
    assert_eq!(striped, [on(0..8192, 1), on(8192..16384, 4), on(16384..20480, 1)]);
    assert!(pieces(Memory::Striped, Some(8192), &[1], 4097 * 8192).unwrap_err().contains("a larger stride"));
    assert!(pieces(Memory::Striped, Some(100), &[1], 4096)
        .unwrap_err()
        .contains("a multiple of the page size"));
    assert!(pieces(Memory::Striped, None, &[], 4096).unwrap_err().contains("no memory to be striped"));
}

/// Two nodes of hwloc, the second of which is memory beside the first one's CPUs, and what stands for distances.
fn hwloc(cpuset: &str, distances: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n\
         <object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"0x2,0x00000001\" allowed_nodeset=\"0x00000009\">\n\
         <object type=\"NUMANode\" os_index=\"3\" cpuset=\"0x00000003,,0x00000001\" local_memory=\"4096\"/>\n\
         <object type=\"NUMANode\" os_index=\"0\" cpuset=\"{cpuset}\" local_memory=\"4096\"/>\n\
         <object type=\"PU\" os_index=\"0\"/><object type=\"PU\" os_index=\"33\"/>\n\
         <object type=\"PU\" os_index=\"64\"/></object>{distances}</topology>"
    )
}

#[test]
fn machines_of_hwloc_are_read() {
    let global = Global::from_hwloc(&hwloc("0x00000002,0x00000001", "")).unwrap();
    assert_eq!(on("cpu:0,33,64 | mem:all", &global), "node:0,3");
    assert_eq!(on("node:3 & cpu:0,33,64", &global), "cpu:64", "CPU 0 is on the first node that has it");
    assert_eq!(on("all", &global), "node:0 | mem:3", "what may be used");
    assert_eq!(global.nodes()[1].distances, [20, 10]);
    let far = "<distances2 type=\"NUMANode\" nbobjs=\"2\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\
               <indexes length=\"4\">3 0 </indexes><u64values length=\"6\">10 31 </u64values>\
               <u64values length=\"6\">32 11 </u64values></distances2>";
    let global = Global::from_hwloc(&hwloc("0x1", far)).unwrap();
    assert_eq!([&global.nodes()[0].distances, &global.nodes()[1].distances], [&[11, 32], &[31, 10]]);
}

#[test]
fn what_is_no_machine_of_hwloc_is_refused() {
    for (text, said) in [
        ("<topology", "root node"),
        (&"<a>".repeat(100_000), ""),
        ("<html/>", "expected the topology of hwloc 2"),
        ("<topology/>", "expected the topology of hwloc 2"),
        ("<topology version=\"2.0\"/>", "no object of the type NUMANode"),
        (&hwloc("x", ""), "line 6: cpuset=\"x\": expected a mask"),
        (&hwloc(&"0,".repeat(300), ""), "expected a mask"),
        (
            &hwloc("0x1", "").replace("\"33\"", "\"99999\""),
            "line 7: os_index=\"99999\": expected a number below 8192",
        ),
        (&hwloc("0x1", "<distances2 type=\"NUMANode\" nbobjs=\"1\"/>"), "the distances of all nodes"),
    ] {
        let error = Global::from_hwloc(text).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn machine_models_have_a_global_set() {
    let model = homing_core::machine::Machine::builtin("two-socket").unwrap();
    let costs = model.costs(model.page_size()).unwrap();
    let global = Global::of_model(&model, &costs);
    assert_eq!(global.machine().cpus.len() as u32, model.cpus());
    let far = (10.0 * costs.access(Node(0), Node(1))).round() as u32;
    assert_eq!(global.nodes()[0].distances, [10, far]);
    assert_eq!(on(&format!("within:{}@0", far - 1), &global), "node:0");
    assert_eq!(on(&format!("within:{far}@0"), &global), on("all", &global));
}
