//! Remedies as something to paste: a line of the program's source, of a shell, of the settings of a service or a
//! container.

use super::why::AreaReport;
use crate::why::lines::LINE;
use crate::why::remedy::Remedy;
use crate::why::small::Placing;
use serde::{Deserialize, Serialize};

/// Where a text belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// What to do, in words.
    Words,
    /// C or C++.
    C,
    /// A shell.
    Shell,
    /// The `[Service]` section of a unit of systemd.
    Systemd,
    /// `config.json` of a container (OCI runtime specification).
    Oci,
    /// Files of a cgroup (version 2) with the controller cpuset.
    Cgroup,
}

/// A remedy in one form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Snippet {
    /// Where it belongs.
    pub form: Form,
    /// What to paste.
    pub text: String,
}

fn snippet(form: Form, text: impl Into<String>) -> Snippet {
    Snippet { form, text: text.into() }
}

/// The machine that remedies are for.
pub struct Target {
    /// The kernel's numbers of the nodes that threads run on; the first is called node 0 below.
    pub nodes: Vec<u32>,
    /// CPUs of node 0, as lists have them: `0-7`.
    pub cpus_of_node_0: String,
    /// Bytes of a page.
    pub page_bytes: u64,
}

impl Target {
    fn all_nodes(&self) -> String {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for &id in &self.nodes {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == id => *last = id,
                _ => ranges.push((id, id)),
            }
        }
        let range = |(first, last): &(u32, u32)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        ranges.iter().map(range).collect::<Vec<_>>().join(",")
    }

    /// Nodes beyond 63 are left out.
    fn mask(&self) -> u64 {
        self.nodes.iter().filter(|&&id| id < 64).fold(0, |mask, id| mask | 1 << id)
    }

    /// The kernel's number of a node.
    pub fn id(&self, node: u16) -> u32 {
        self.nodes.get(usize::from(node)).copied().unwrap_or(node.into())
    }
}

/// What to do about an area.
pub fn for_area(remedy: Remedy, area: &AreaReport, target: &Target) -> Vec<Snippet> {
    let words = snippet(Form::Words, in_words(remedy, |node| target.id(node)));
    let (bytes, page) = (area.bytes, target.page_bytes);
    let mbind = |mode: &str, mask: u64| {
        let call = format!(
            "unsigned long nodes = {mask:#x};  /* before the first write: start is where its pages begin */\n\
             mbind(start, {bytes}, {mode}, &nodes, sizeof nodes * 8 + 1, 0);  /* <numaif.h>, -lnuma */"
        );
        snippet(Form::C, call)
    };
    let code = match remedy {
        Remedy::InitialiseByUser => snippet(
            Form::C,
            "#pragma omp parallel for schedule(static)  /* with the schedule of the loop that uses it */\n\
             for (size_t i = 0; i < n; i++)\n    data[i] = 0;  /* the first write decides the node */",
        ),
        Remedy::Spread => mbind("MPOL_INTERLEAVE", target.mask()),
        Remedy::Bind(node) => mbind("MPOL_BIND", 1 << target.id(node).min(63)),
        Remedy::Replicate => snippet(
            Form::C,
            format!(
                "void *copy[{}];  /* copy[numa_node_of_cpu(sched_getcpu())], filled by a thread there */",
                target.nodes.len()
            ),
        ),
        Remedy::SmallPages(placing) => {
            let call = format!(
                "madvise(start, {bytes}, MADV_NOHUGEPAGE);  /* <sys/mman.h>: before the first write, start is where \
                 its pages begin */"
            );
            let then = placing.remedy().map_or(Vec::new(), |remedy| for_area(remedy, area, target));
            let then = then.into_iter().filter(|snippet| snippet.form != Form::Words);
            return [words, snippet(Form::C, call)].into_iter().chain(then).collect();
        }
        Remedy::SeparatePages => snippet(
            Form::C,
            format!(
                "void *part = aligned_alloc({page}, (bytes + {0}) & ~{0}ul);  /* one for each thread */",
                page - 1
            ),
        ),
        Remedy::PadLines => {
            snippet(Form::C, format!("struct alignas({LINE}) part {{ ... }};  /* one for each thread */"))
        }
        Remedy::SplitLines => snippet(
            Form::C,
            format!(
                "struct alignas({LINE}) part {{ long count; }} parts[THREADS];  /* add them up when asked */"
            ),
        ),
        Remedy::SameThread => snippet(
            Form::C,
            "#pragma omp for schedule(static)  /* the same in each loop over it, so that a thread has the same part */",
        ),
        Remedy::Migrate => snippet(Form::Shell, HOMING_RUN),
        Remedy::OneNode => return for_all(remedy, target),
    };
    vec![words, code]
}

/// Lets pages follow their users.
const HOMING_RUN: &str = "homing run -- PROGRAM  # experimental: for batch programs, not for servers";

/// Executes a program without transparent huge pages: 41 is `PR_SET_THP_DISABLE`, which outlasts `execve`.
const WITHOUT_HUGE_PAGES: &str =
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); os.execvp(sys.argv[1], sys.argv[1:])";

/// What to do about all pages alike, without a change of the source.
pub fn for_all(remedy: Remedy, target: &Target) -> Vec<Snippet> {
    let nodes = target.all_nodes();
    match remedy {
        Remedy::Spread => vec![
            snippet(Form::Shell, format!("numactl --interleave={nodes} -- PROGRAM")),
            snippet(Form::Systemd, format!("NUMAPolicy=interleave\nNUMAMask={nodes}")),
            snippet(
                Form::Oci,
                format!(
                    r#""linux": {{ "memoryPolicy": {{ "mode": "MPOL_INTERLEAVE", "nodes": "{nodes}" }} }}"#
                ),
            ),
        ],
        Remedy::OneNode => {
            let (cpus, node) = (&target.cpus_of_node_0, target.id(0));
            vec![
                snippet(Form::Shell, format!("numactl --cpunodebind={node} --membind={node} -- PROGRAM")),
                snippet(Form::Systemd, format!("CPUAffinity={cpus}\nNUMAPolicy=bind\nNUMAMask={node}")),
                snippet(
                    Form::Oci,
                    format!(
                        r#""linux": {{ "resources": {{ "cpu": {{ "cpus": "{cpus}", "mems": "{node}" }} }} }}"#
                    ),
                ),
                snippet(Form::Cgroup, format!("echo {cpus} > cpuset.cpus\necho {node} > cpuset.mems")),
            ]
        }
        Remedy::Migrate => vec![snippet(Form::Shell, HOMING_RUN)],
        Remedy::SmallPages(Placing::AsNow) => vec![
            snippet(Form::Shell, format!("python3 -c '{WITHOUT_HUGE_PAGES}' PROGRAM")),
            snippet(
                Form::C,
                "prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  /* <sys/prctl.h>: first in main; children inherit it */",
            ),
        ],
        _ => Vec::new(),
    }
}

/// A remedy as something to do. `id`: the kernel's number of a node.
pub fn in_words(remedy: Remedy, id: impl Fn(u16) -> u32) -> String {
    match remedy {
        Remedy::InitialiseByUser => {
            "let the threads that use it initialise it: `#pragma omp parallel for schedule(static)` over the loop that \
             first writes it, with the schedule of the loop that uses it"
        }
        Remedy::Spread => {
            "spread it: `mbind(start, bytes, MPOL_INTERLEAVE, all nodes, ...)` where it is allocated, before it is \
             first written"
        }
        Remedy::Bind(node) => {
            let node = id(node);
            return format!(
                "keep it on node {node}: `mbind(start, bytes, MPOL_BIND, node {node}, ...)` where it is allocated, or \
                 initialise it in a thread of that node"
            )
        }
        Remedy::SmallPages(placing) => {
            let then = match placing {
                Placing::AsNow => "",
                Placing::ByUser => "; and let the threads that use it initialise it",
                Placing::Spread => "; and spread them: `mbind(start, bytes, MPOL_INTERLEAVE, all nodes, ...)`",
                Placing::Follow => {
                    "; and let them follow their users: `homing run -- PROGRAM` (experimental: for batch programs, \
                     not for servers)"
                }
            };
            return format!(
                "give it small pages: `madvise(start, bytes, MADV_NOHUGEPAGE)` where it is allocated, before it is \
                 first written (and `glibc.malloc.hugetlb=0` where GLIBC_TUNABLES asks for huge pages){then}"
            );
        }
        Remedy::Replicate => "give each node a copy of its own, filled by a thread of that node",
        Remedy::Migrate => {
            "let its pages follow their users: `homing run -- PROGRAM` (experimental: for batch programs, not for \
             servers)"
        }
        Remedy::SameThread => {
            "let each thread go on with the part that it began with: the same division of the work in each phase \
             (`schedule(static)` in each loop over it, or a queue of work for each thread)"
        }
        Remedy::SeparatePages => {
            "give each thread's part pages of its own: allocate the parts apart, each aligned to the page size"
        }
        Remedy::PadLines => "give each thread's part lines of its own: `alignas(64)` on what one thread writes",
        Remedy::SplitLines => {
            "split it into a part for each thread (a line each), added up when asked for, or write it less often"
        }
        Remedy::OneNode => "run all threads on one node, with its memory",
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(nodes: u32) -> Target {
        Target { nodes: (0..nodes).collect(), cpus_of_node_0: "0-7".into(), page_bytes: 4096 }
    }

    #[test]
    fn settings_name_the_nodes_that_the_machine_has() {
        let text = |remedy, form, nodes| {
            let all = for_all(remedy, &target(nodes));
            all.into_iter().find(|snippet| snippet.form == form).unwrap().text
        };
        assert_eq!(text(Remedy::Spread, Form::Systemd, 4), "NUMAPolicy=interleave\nNUMAMask=0-3");
        assert_eq!(text(Remedy::Spread, Form::Shell, 2), "numactl --interleave=0-1 -- PROGRAM");
        let oci = format!("{{{}}}", text(Remedy::Spread, Form::Oci, 2));
        let oci: serde_json::Value = serde_json::from_str(&oci).unwrap();
        assert_eq!(oci["linux"]["memoryPolicy"]["nodes"], "0-1");
        let oci = format!("{{{}}}", text(Remedy::OneNode, Form::Oci, 2));
        let oci: serde_json::Value = serde_json::from_str(&oci).unwrap();
        assert_eq!(oci["linux"]["resources"]["cpu"]["cpus"], "0-7");
        assert_eq!((target(64).mask(), target(2).mask()), (u64::MAX, 3));
        let odd = Target { nodes: vec![4, 5, 7], ..target(3) };
        assert_eq!((odd.all_nodes(), odd.mask(), odd.id(2)), ("4-5,7".into(), 0xb0, 7));
        assert!(for_all(Remedy::OneNode, &odd)[0].text.contains("--membind=4 "));
        assert!(in_words(Remedy::Bind(1), |node| odd.id(node)).contains("node 5"));
    }
}
