//! `homing bench`: latency, bandwidth and page moves between nodes, as a table, as JSON and as a machine model.

mod measure;

use crate::exit::{self, Code, Result};
use crate::files::Over;
use crate::tables;
use anyhow::Context;
use homing_core::ids::{parse_bytes, Node};
use homing_live::config::parse_duration;
use homing_live::host::Host;
use measure::{bandwidth, latency, moves, Moves, Sweep};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Arguments of `homing bench`.
#[derive(clap::Args)]
#[command(
    after_long_help = "Measures what this machine does, whatever it is: in a virtual machine that does not show the \
real nodes, all nodes measure alike, and that is said."
)]
pub struct Args {
    /// Memory for each measurement; should be several times the last-level cache
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = bytes)]
    size: usize,
    /// Time for each measurement
    #[arg(long, value_name = "DURATION", default_value = "200ms", value_parser = time)]
    time: Duration,
    /// Write a machine model with the measured latencies, for --machine FILE
    #[arg(long, value_name = "FILE")]
    machine_out: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// Less than a millisecond measures nothing.
fn time(text: &str) -> std::result::Result<Duration, String> {
    let enough = |time: &Duration| (Duration::from_millis(1)..=Duration::from_secs(60)).contains(time);
    let expected = || format!("`{text}`: expected a duration from 1ms to 60s");
    parse_duration(text).filter(enough).ok_or_else(expected)
}

fn bytes(text: &str) -> std::result::Result<usize, String> {
    let expected = || format!("`{text}`: expected a size from 64K such as 64M");
    parse_bytes(text).and_then(|n| usize::try_from(n).ok()).filter(|&n| n >= 1 << 16).ok_or_else(expected)
}

/// One row a node with CPUs, one column a memory. Megabytes are 10^6 bytes.
#[derive(Serialize)]
struct Matrices {
    schema: u32,
    /// The kernel's numbers of the nodes whose CPUs measured (rows).
    cpu_nodes: Vec<u32>,
    /// ... and of the memories (columns).
    memory_nodes: Vec<u32>,
    bytes: usize,
    latency_ns: Vec<Vec<f64>>,
    /// By one thread.
    read_mb_s: Vec<Vec<f64>>,
    write_mb_s: Vec<Vec<f64>>,
    copy_mb_s: Vec<Vec<f64>>,
    /// By a thread on each CPU of the row's node.
    all_read_mb_s: Vec<Vec<f64>>,
    all_copy_mb_s: Vec<Vec<f64>>,
    /// Microseconds that moving a page of 4 KiB takes, from the row's memory to the column's; both rows and columns are
    /// memories.
    move_us: Vec<Vec<Option<f64>>>,
    /// ... by the engine's mover, which verifies each: with one thread, and with as many as it has by default.
    mover_us: Vec<Vec<Option<f64>>>,
    mover_threads_us: Vec<Vec<Option<f64>>>,
    /// True under a hypervisor.
    virtual_machine: bool,
}

/// Measures.
pub fn run(args: Args) -> Result {
    let host = Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
    let matrices = measure_all(&host, &args)?;
    if let Some(path) = &args.machine_out {
        crate::files::write(path, Over::Texts, machine(&matrices, &host)?)?;
    }
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&matrices)?);
    } else {
        print(&matrices)?;
    }
    Ok(Code::OK)
}

fn measure_all(host: &Host, args: &Args) -> anyhow::Result<Matrices> {
    let nodes: Vec<Node> = (0..host.nodes() as u16).map(Node).collect();
    let rows: Vec<Node> = nodes.iter().copied().filter(|&node| !host.cpus_of(node).is_empty()).collect();
    let has_memory = |node: &Node| host.memory(*node).is_none_or(|(_, total)| total > 0);
    let columns: Vec<Node> = nodes.iter().copied().filter(has_memory).collect();
    let matrix =
        |measure: &(dyn Fn(&[u32], u32) -> std::io::Result<f64> + Sync)| -> anyhow::Result<Vec<Vec<f64>>> {
            let cell = |row: Node, column: Node| {
                let (cpus, node) = (host.cpus_of(row).to_vec(), host.kernel_id(column));
                // In a thread of its own, which is bound to a CPU and then gone.
                let measured = std::thread::scope(|scope| scope.spawn(|| measure(&cpus, node)).join());
                let measured = measured.map_err(|_| anyhow::anyhow!("a measuring thread failed"))?;
                measured.with_context(|| format!("cannot measure memory of node {node} from CPU {}", cpus[0]))
            };
            rows.iter().map(|&row| columns.iter().map(|&column| cell(row, column)).collect()).collect()
        };
    let (size, time) = (args.size, args.time);
    let one = |sweep| move |cpus: &[u32], node: u32| bandwidth(&cpus[..1], node, size, sweep, time);
    let all = |sweep| move |cpus: &[u32], node: u32| bandwidth(cpus, node, size, sweep, time);
    let all_moves = all_moves(host, &columns, args)?;
    let of = |what: fn(&Moves) -> f64| -> Vec<Vec<Option<f64>>> {
        all_moves.iter().map(|row| row.iter().map(|cell| cell.as_ref().map(what)).collect()).collect()
    };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Ok(Matrices {
        schema: 1,
        cpu_nodes: rows.iter().map(|&node| host.kernel_id(node)).collect(),
        memory_nodes: columns.iter().map(|&node| host.kernel_id(node)).collect(),
        bytes: size,
        latency_ns: matrix(&|cpus, node| latency(cpus[0], node, size, time))?,
        read_mb_s: matrix(&one(Sweep::Read))?,
        write_mb_s: matrix(&one(Sweep::Write))?,
        copy_mb_s: matrix(&one(Sweep::Copy))?,
        all_read_mb_s: matrix(&all(Sweep::Read))?,
        all_copy_mb_s: matrix(&all(Sweep::Copy))?,
        move_us: of(|moves| moves.bare),
        mover_us: of(|moves| moves.mover),
        mover_threads_us: of(|moves| moves.threads),
        virtual_machine: cpuinfo.split_whitespace().any(|flag| flag == "hypervisor"),
    })
}

/// Page moves between all pairs of memories, by the CPUs of the node that pages go to.
fn all_moves(host: &Host, memories: &[Node], args: &Args) -> anyhow::Result<Vec<Vec<Option<Moves>>>> {
    let cell = |from: Node, to: Node| -> anyhow::Result<Option<Moves>> {
        if from == to {
            return Ok(None);
        }
        let (cpus, ids) = (host.cpus_of(to).to_vec(), [from, to].map(|node| host.kernel_id(node)));
        let moved = std::thread::scope(|scope| {
            scope.spawn(|| moves(&cpus, ids[0], ids[1], args.size, args.time)).join()
        });
        let moved = moved.map_err(|_| anyhow::anyhow!("a measuring thread failed"))?;
        moved.map(Some).with_context(|| format!("cannot move pages from node {} to node {}", ids[0], ids[1]))
    };
    memories.iter().map(|&from| memories.iter().map(|&to| cell(from, to)).collect()).collect()
}

/// The measured latencies as a machine file. Memory-only nodes have no row: theirs is the column turned.
fn machine(matrices: &Matrices, host: &Host) -> anyhow::Result<String> {
    let place = |ids: &[u32], id: u32| ids.iter().position(|&known| known == id);
    let nodes: Vec<u32> = (0..host.nodes() as u16).map(|node| host.kernel_id(Node(node))).collect();
    let latency = |by: u32, at: u32| -> Option<f64> {
        let of = |row: u32, column: u32| {
            Some(
                matrices.latency_ns[place(&matrices.cpu_nodes, row)?][place(&matrices.memory_nodes, column)?],
            )
        };
        of(by, at).or_else(|| of(at, by))
    };
    let least = matrices.latency_ns.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let most = matrices.latency_ns.iter().flatten().copied().fold(0.0, f64::max);
    let row = |&by: &u32| {
        let cells: Vec<String> = nodes
            .iter()
            .map(|&at| latency(by, at).unwrap_or(if by == at { least } else { most }))
            .map(|ns| format!("{ns:.1}"))
            .collect();
        format!("[{}]", cells.join(", "))
    };
    let cpus: Vec<usize> = (0..host.nodes() as u16).map(|node| host.cpus_of(Node(node)).len()).collect();
    let copy = matrices.copy_mb_s.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let per_byte = 2e3 / copy;
    let moved: Vec<f64> = matrices.move_us.iter().flatten().flatten().copied().collect();
    let mean_ns = 1e3 * moved.iter().sum::<f64>() / moved.len() as f64;
    let (overhead, source) = match moved.len() {
        0 => (
            1000.0,
            "Latencies and copying as `homing bench` measured them; the overhead of a page move is assumed.",
        ),
        _ => (
            (mean_ns - 4096.0 * per_byte).max(0.0),
            "Latencies, copying and page moves as `homing bench` measured them.",
        ),
    };
    Ok(format!(
        "# {source}\n# Caches as the kernel shows them, or typical ones; bandwidths as measured; other times typical.\n\
         name = \"measured\"\nsummary = \"measured by homing bench\"\nnodes = {}\nnode_ids = {nodes:?}\n\
         cpus_per_node = {cpus:?}\n\
         [latency]\nmatrix = [{}]\npage_move = {{ per_byte = {per_byte:.4}, overhead = {overhead:.1} }}\n{}",
        nodes.len(),
        nodes.iter().map(row).collect::<Vec<_>>().join(", "),
        homing_pipeline::host::hierarchy(busy_ns(matrices)),
    ))
}

/// Bytes of a line.
const LINE: f64 = 64.0;

/// How long a memory and a link are busy with a line, in nanoseconds, if all CPUs of a node read: the best memory and
/// the best link. A machine without other nodes' memory has links as fast as its memory.
fn busy_ns(matrices: &Matrices) -> Option<[f64; 2]> {
    let rates = |own: bool| {
        let rows = matrices.cpu_nodes.iter().zip(&matrices.all_read_mb_s);
        let cells = rows.flat_map(|(by, row)| {
            matrices.memory_nodes.iter().zip(row).filter(move |(at, _)| (*at == by) == own)
        });
        cells.map(|(_, rate)| *rate).fold(0.0, f64::max)
    };
    let (memory, link) = (rates(true), rates(false));
    // 1 MB/s is a byte a microsecond.
    let busy = |rate: f64| 1e3 * LINE / rate;
    (memory > 0.0).then(|| [busy(memory), busy(if link > 0.0 { link } else { memory })])
}

fn print(matrices: &Matrices) -> anyhow::Result<()> {
    let kinds = [
        ("latency, ns", &matrices.latency_ns, 1),
        ("read, MB/s, one thread", &matrices.read_mb_s, 0),
        ("write, MB/s, one thread", &matrices.write_mb_s, 0),
        ("copy, MB/s, one thread", &matrices.copy_mb_s, 0),
        ("read, MB/s, all CPUs of the node", &matrices.all_read_mb_s, 0),
        ("copy, MB/s, all CPUs of the node", &matrices.all_copy_mb_s, 0),
    ];
    for (title, matrix, digits) in kinds {
        let header = matrices.memory_nodes.iter().map(|node| format!("memory {node}"));
        let mut table = tables::plain(&std::iter::once(title.to_owned()).chain(header).collect::<Vec<_>>());
        for (node, row) in matrices.cpu_nodes.iter().zip(matrix) {
            let cells = row.iter().map(|value| format!("{value:.digits$}"));
            table.add_row(std::iter::once(format!("node {node}")).chain(cells));
        }
        outln!("{table}\n");
    }
    let moves = [
        ("a page move, us: move_pages alone, one thread", &matrices.move_us),
        ("... and verified by the engine's mover", &matrices.mover_us),
        ("... with its threads", &matrices.mover_threads_us),
    ];
    for (title, matrix) in moves.into_iter().filter(|_| matrices.memory_nodes.len() > 1) {
        let header = matrices.memory_nodes.iter().map(|node| format!("to {node}"));
        let mut table = tables::plain(&std::iter::once(title.to_owned()).chain(header).collect::<Vec<_>>());
        for (node, row) in matrices.memory_nodes.iter().zip(matrix) {
            let cells = row.iter().map(|value| value.map_or("-".to_owned(), |us| format!("{us:.2}")));
            table.add_row(std::iter::once(format!("from {node}")).chain(cells));
        }
        outln!("{table}\n");
    }
    if matrices.virtual_machine {
        outln!("note: under a hypervisor: nodes may be made up, and others may use the same memory");
    }
    Ok(())
}
