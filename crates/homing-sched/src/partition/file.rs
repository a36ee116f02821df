//! Partitions in files: a table `[[partition]]` for each, in a file of real jobs or one of its own.

use super::super::layout::Layout;
use super::super::manager::table;
use super::resources::Goal;
use homing_core::ids::Node;
use serde::Deserialize;

/// A partition, as a file says it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// The nodes that it begins with.
    pub nodes: Vec<u16>,
    /// Its CPU manager, if it is not that of the others.
    pub manager: Option<String>,
    /// Nodes that it always keeps.
    #[serde(default = "one")]
    pub least: usize,
    /// Goal: its share of all nodes that can move.
    pub share: Option<f64>,
    /// Goal: the share of its processors that is to be busy.
    pub utilisation: Option<f64>,
    /// Goal: who comes first, the highest; 0 unless it is said.
    pub priority: Option<i32>,
    /// In simulations: the applications whose jobs it runs. All others go to the first partition.
    #[serde(default)]
    pub apps: Vec<String>,
    /// In simulations of a log: the queues (field 15) whose jobs it runs.
    #[serde(default)]
    pub queues: Vec<i64>,
}

fn one() -> usize {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    partition: Vec<Partition>,
}

impl Partition {
    /// What it is to reach; none if it keeps its nodes.
    pub fn goal(&self) -> Option<Goal> {
        let Partition { least, share, utilisation, priority, .. } = *self;
        let any = share.is_some() || utilisation.is_some() || priority.is_some();
        any.then_some(Goal { least, share, utilisation, priority: priority.unwrap_or(0) })
    }

    fn check(&self, layout: &Layout) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("expected a name".into());
        }
        let there = layout.nodes();
        if let Some(node) = self.nodes.iter().find(|&&node| usize::from(node) >= there) {
            return Err(format!("node {node} is not there: this machine has nodes 0 to {}", there - 1));
        }
        let with_cpus = self.nodes.iter().filter(|&&node| layout.cpus_of(Node(node)) > 0).count();
        if with_cpus == 0 {
            return Err("nodes: expected one with CPUs at least, such as nodes = [0]".into());
        }
        if !(1..=with_cpus).contains(&self.least) {
            return Err(format!("least = {}: expected 1 to {with_cpus}, its nodes with CPUs", self.least));
        }
        for (name, value) in [("share", self.share), ("utilisation", self.utilisation)] {
            if let Some(value) = value.filter(|&value| !(value > 0.0 && value <= 1.0)) {
                return Err(format!("{name} = {value}: expected a number above 0, at most 1"));
            }
        }
        self.manager.as_deref().map_or(Ok(()), can_manage)
    }
}

/// Whether a manager can have a partition.
///
/// # Errors
/// Why not.
pub fn can_manage(manager: &str) -> Result<(), String> {
    match table::find(manager) {
        None => {
            let names: Vec<_> = table::MANAGERS.iter().map(|entry| entry.name).collect();
            Err(format!("no manager `{manager}`: there are {}", names.join(", ")))
        }
        Some(entry) if entry.time_shares => Err(format!(
            "manager `{manager}` lets the operating system use all CPUs: it cannot have a partition"
        )),
        Some(_) => Ok(()),
    }
}

/// Reads a file of partitions.
///
/// # Errors
/// What is wrong with it.
pub fn read(text: &str) -> Result<Vec<Partition>, String> {
    let File { partition } = toml::from_str(text).map_err(|error| error.to_string())?;
    match partition.is_empty() {
        true => Err("no partitions: expected a table [[partition]] for each".into()),
        false => Ok(partition),
    }
}

/// Whether partitions divide a machine.
///
/// # Errors
/// What is wrong, with the name of the partition.
pub fn check(partitions: &[Partition], layout: &Layout) -> Result<(), String> {
    for (index, partition) in partitions.iter().enumerate() {
        let wrong = |message: String| format!("partition `{}`: {message}", partition.name);
        partition.check(layout).map_err(wrong)?;
        if partitions[..index].iter().any(|other| other.name == partition.name) {
            return Err(wrong("that name stands twice: expected one of its own for each".into()));
        }
        let earlier = |node: &u16| partitions[..index].iter().any(|other| other.nodes.contains(node));
        let twice =
            |at: usize| partition.nodes[..at].contains(&partition.nodes[at]) || earlier(&partition.nodes[at]);
        if let Some(at) = (0..partition.nodes.len()).find(|&at| twice(at)) {
            return Err(wrong(format!("node {} is in a partition already", partition.nodes[at])));
        }
    }
    let shares: f64 = partitions.iter().filter_map(|partition| partition.share).sum();
    if shares > 1.0 + 1e-9 {
        return Err(format!("the shares of all partitions add up to {shares:.2}: expected 1 at most"));
    }
    Ok(())
}

/// The partition with this name, or the first where none is said.
///
/// # Errors
/// The names that there are.
pub fn find(partitions: &[Partition], name: Option<&str>) -> Result<super::PartitionId, String> {
    let Some(name) = name else { return Ok(super::PartitionId::default()) };
    let at = partitions.iter().position(|partition| partition.name == name);
    at.map(|at| super::PartitionId(at as u32)).ok_or_else(|| {
        let names: Vec<_> = partitions.iter().map(|partition| partition.name.as_str()).collect();
        match names.is_empty() {
            true => format!("partition = \"{name}\": the file has no table [[partition]]"),
            false => format!("partition = \"{name}\": there are {}", names.join(", ")),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[partition]]\nname = \"web\"\nnodes = [0, 1]\nshare = 0.5\n\
                        [[partition]]\nname = \"db\"\nnodes = [3]\nmanager = \"batch\"\n";

    fn checked(text: &str) -> Result<Vec<Partition>, String> {
        let node_of = (0..8).map(|cpu| Node(cpu / 2)).collect();
        let layout = Layout::new(node_of, 5, vec![1.0; 25]);
        let partitions = read(text)?;
        check(&partitions, &layout)?;
        Ok(partitions)
    }

    #[test]
    fn partitions_are_read_with_what_is_not_said_left_open() {
        let read = checked(GOOD).unwrap();
        assert_eq!((read[0].goal().unwrap().least, read[0].goal().unwrap().share), (1, Some(0.5)));
        assert_eq!((read[1].goal(), read[1].manager.as_deref()), (None, Some("batch")));
        assert_eq!(find(&read, Some("db")).unwrap().0, 1);
        assert_eq!(find(&read, None).unwrap().0, 0);
        assert!(find(&read, Some("x")).unwrap_err().contains("there are web, db"));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_partition() {
        for (what, instead, says) in [
            ("[0, 1]", "[0, 5]", "`web`: node 5 is not there: this machine has nodes 0 to 4"),
            ("[0, 1]", "[4]", "expected one with CPUs"),
            ("[0, 1]", "[]", "expected one with CPUs"),
            ("[3]", "[1]", "`db`: node 1 is in a partition already"),
            ("[0, 1]", "[0, 0]", "node 0 is in a partition already"),
            ("\"db\"", "\"web\"", "stands twice"),
            ("0.5", "1.5", "share = 1.5: expected a number above 0"),
            ("share = 0.5", "least = 3", "least = 3: expected 1 to 2"),
            ("batch", "irix", "cannot have a partition"),
            ("batch", "bitch", "there are irix, equi"),
            ("share", "sharing", "unknown field `sharing`"),
            ("manager = \"batch\"", "share = 0.6", "add up to 1.10"),
        ] {
            let error = checked(&GOOD.replacen(what, instead, 1)).unwrap_err();
            assert!(error.contains(says), "{instead}: {error}");
        }
        assert!(checked("").unwrap_err().contains("[[partition]]"));
    }
}
