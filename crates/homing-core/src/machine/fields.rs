//! The fields of a machine file with their units, for people who write one or override a field (`--set`).

/// A field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its path, as `--set` takes it; those of `[reference]` and `[latency]` go without their section, too.
    pub path: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// What it is.
    pub doc: &'static str,
}

const LOCAL: &str = "local references";

const fn field(path: &'static str, unit: &'static str, doc: &'static str) -> Field {
    Field { path, unit, doc }
}

/// All fields, section by section.
pub const FIELDS: &[Field] = &[
    field("name", "", "its name"),
    field("summary", "", "one line about it"),
    field("paper", "", "the paper whose machine it is; `compare` leaves such a machine as the paper has it"),
    field("nodes", "memories", "nodes, 1 to 1024, global memory not counted"),
    field("node_ids", "", "the kernel's numbers of the nodes, where they are not 0, 1, and so on: a list"),
    field("cpus_per_node", "CPUs", "a number, or a list with one number for each node"),
    field("page_size", "bytes", "size of a page, such as 4K"),
    field("reference.remote", LOCAL, "r: a word reference to another node's memory"),
    field("reference.access", LOCAL, "instead of remote: a matrix, row: who refers, column: which memory"),
    field("reference.page_move", LOCAL, "R: copying a page; a number, or per_byte, per_word and overhead"),
    field("reference.global", LOCAL, "g: a word reference to global memory"),
    field("reference.global_page_move", LOCAL, "G: copying a page to or from global memory"),
    field("latency.local", "ns", "an access to the own memory"),
    field("latency.remote", "ns", "an access to any other memory"),
    field("latency.matrix", "ns", "instead of local and remote: row: who refers, column: which memory"),
    field("latency.page_move", "ns", "moving a page; a number, or per_byte, per_word and overhead"),
    field("hierarchy.l1", "", "first-level cache of a CPU: size, ways, line, ns"),
    field("hierarchy.l2", "", "second-level cache of a CPU: size, ways, line, ns"),
    field("hierarchy.l3", "", "third-level cache: size, ways, line, ns, and cpus"),
    field("hierarchy.l3.size", "bytes", "size of the cache, such as 32M; also of l1 and l2"),
    field("hierarchy.l3.ways", "lines", "lines of a set; also of l1 and l2"),
    field("hierarchy.l3.line", "bytes", "size of a line; also of l1 and l2"),
    field("hierarchy.l3.ns", "ns", "time of a hit; also of l1 and l2"),
    field("hierarchy.l3.cpus", "CPUs", "how many in a row share one"),
    field("hierarchy.tlb", "entries", "levels of the data TLB: entries, and ways (all, if left out)"),
    field("hierarchy.page_colouring", "", "true: frames have the cache sets of their virtual addresses"),
    field("time.compute_ns", "ns", "computing beside each reference"),
    field("time.exposed", "share", "of a miss's latency that a thread waits for, 0 to 1"),
    field("time.memory_busy_ns", "ns", "a memory's time for one line"),
    field("time.link_busy_ns", "ns", "a link's time for one line"),
    field("time.tlb_miss_ns", "ns", "a TLB miss"),
    field("time.move_ns", "ns", "a page move on the CPU that moves, if it is not the machine's page move"),
    field("time.shootdown_ns", "ns", "what a move takes on each CPU that had the page mapped"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use serde_json::Value;

    #[test]
    fn every_field_of_every_machine_is_listed() {
        for name in Machine::builtin_names() {
            let json = Machine::builtin(name).unwrap().to_json();
            for (section, value) in json.as_object().unwrap() {
                let listed = |path: &str| FIELDS.iter().any(|field| field.path == path);
                match value {
                    Value::Object(fields) => {
                        fields.keys().for_each(|key| {
                            assert!(listed(&format!("{section}.{key}")), "{name}: {section}.{key}")
                        });
                    }
                    _ => assert!(listed(section), "{name}: {section}"),
                }
            }
        }
    }

    #[test]
    fn no_field_is_listed_that_a_machine_refuses() {
        // What is set has the wrong type, and the error is of that, not of the name.
        for field in FIELDS {
            let machine = if field.path.starts_with("reference") { "ace" } else { "two-socket" };
            let refused = Machine::builtin(machine).unwrap().set(&format!("{}={{odd=1}}", field.path));
            let message = refused.unwrap_err().to_string();
            assert!(!message.contains(&format!("unknown field `{}`", field.path)), "{message}");
            let name = field.path.rsplit('.').next().unwrap();
            assert!(!message.contains(&format!("unknown field `{name}`")), "{message}");
        }
    }
}
