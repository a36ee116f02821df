//! What the diagnosis of a running process says besides its areas: how it was sampled, and what only it shows.

use super::advice::{Form, Snippet};
use super::why::{capital, things, Basis};
use crate::why::process::Sign;
use crate::why::verdict::Cause;
use serde::{Deserialize, Serialize};

/// How references were sampled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SampledReport {
    /// The source, as `--source` takes it.
    pub source: String,
    /// The file that has the samples, and where it was recorded; absent for this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<String>,
    /// How long it sampled.
    pub seconds: f64,
    /// Samples.
    pub samples: u64,
}

/// What only a running process shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ProcessFinding {
    /// What is wrong.
    pub cause: Cause,
    /// ... in a sentence, with what was seen.
    pub sentence: String,
    /// What to do, ready to paste; the first in words.
    pub paste: Vec<Snippet>,
}

impl From<&Sign> for ProcessFinding {
    fn from(sign: &Sign) -> ProcessFinding {
        let cause = sign.cause();
        let sentence = format!("{}: {}.", capital(cause.short()), seen(sign));
        ProcessFinding { cause, sentence, paste: remedy(sign) }
    }
}

/// What was seen.
fn seen(sign: &Sign) -> String {
    match sign {
        Sign::ThreadsWander { threads, changes_a_second, nonlocal_percent } => format!(
            "{} changed {changes_a_second:.1} times a second on average, and {nonlocal_percent:.0} % of the samples \
             are non-local",
            match threads {
                1 => "the node of 1 busy thread".to_owned(),
                _ => format!("the nodes of {threads} busy threads"),
            }
        ),
        Sign::BindingsWrong { by, memories, cpus, percent } => format!(
            "{percent:.0} % of it, by `{by}`, may be on {} only, and the threads may run on {} only",
            nodes(memories),
            nodes(cpus)
        ),
        Sign::Unmovable { percent } => {
            format!("pinned or of hugetlbfs, they have {percent:.0} % of what can be avoided")
        }
        Sign::BalancingCosts { percent, did, local } => format!(
            "{} and {} moved, in the whole system, are charged with {percent:.1} % of the CPU time, and {}",
            things(did.hint_faults, "hint fault"),
            things(did.migrated, "page"),
            match local {
                true => "less than 5 % of the samples are non-local",
                false => "better places for its pages could take less than 5 % off",
            }
        ),
    }
}

/// What to do.
fn remedy(sign: &Sign) -> Vec<Snippet> {
    let snippet = |form, text: &str| Snippet { form, text: text.into() };
    match sign {
        Sign::ThreadsWander { .. } => vec![
            snippet(Form::Words, "bind the threads to the CPUs of as few nodes as they fill"),
            snippet(Form::Shell, "OMP_PROC_BIND=close OMP_PLACES=cores PROGRAM  # OpenMP"),
            snippet(Form::Shell, "numactl --physcpubind=CPUS -- PROGRAM  # the CPUs of as few nodes as it fills"),
            snippet(Form::Systemd, "CPUAffinity=CPUS"),
        ],
        Sign::BindingsWrong { by, cpus, .. } => {
            let list = list(cpus);
            let words = format!(
                "bind memory and threads to the same nodes: `{by}` does not hold {}, where the threads may run",
                nodes(cpus)
            );
            vec![
                snippet(Form::Words, &words),
                snippet(Form::Shell, &format!("numactl --cpunodebind={list} --membind={list} -- PROGRAM")),
                snippet(Form::Systemd, &format!("AllowedMemoryNodes={list}\nNUMAPolicy=bind\nNUMAMask={list}")),
                snippet(Form::Oci, &format!(r#""linux": {{ "resources": {{ "cpu": {{ "mems": "{list}" }} }} }}"#)),
                snippet(Form::Cgroup, &format!("echo {list} > cpuset.mems")),
            ]
        }
        Sign::Unmovable { .. } => vec![
            snippet(
                Form::Words,
                "allocate them where they are used: `mbind` before they are pinned or registered with a device",
            ),
            snippet(
                Form::C,
                "mbind(start, bytes, MPOL_BIND, &nodes, sizeof nodes * 8 + 1, 0);  /* before the first write and \
                 ibv_reg_mr; <numaif.h>, -lnuma */",
            ),
        ],
        Sign::BalancingCosts { .. } => vec![
            snippet(
                Form::Words,
                "switch the kernel's balancing off for the machine: `sysctl kernel.numa_balancing=0`; a program whose \
                 memory is bound (`numactl --membind`, without `--balancing`) is left out of it",
            ),
            snippet(Form::Shell, "sysctl kernel.numa_balancing=0"),
        ],
    }
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

fn nodes(nodes: &[u32]) -> String {
    format!("node{} {}", if nodes.len() == 1 { "" } else { "s" }, list(nodes))
}

/// The answer in a sentence: what the process shows comes before what its areas say.
pub(super) fn sentence(process: &[ProcessFinding], areas: Cause, of_areas: String) -> String {
    match process.first() {
        None => of_areas,
        Some(first) if areas == Cause::NotNuma => first.sentence.clone(),
        Some(first) => format!("{} Its data: {of_areas}", first.sentence),
    }
}

/// What the numbers rest on.
pub(super) fn rests_on(sampled: &SampledReport, basis: &Basis, nonlocal_percent: f64) -> String {
    let seconds = match sampled.seconds {
        seconds if seconds < 10.0 => format!("{seconds:.1}"),
        seconds => format!("{seconds:.0}"),
    };
    let by = match &sampled.recorded {
        Some(recorded) => format!("Sampled by perf for {seconds} s ({recorded})"),
        None => format!("Sampled on this machine by source {} for {:.0} s", sampled.source, sampled.seconds),
    };
    format!(
        "{by}, {}, not modelled from a trace: {} of {} on {}, {nonlocal_percent:.1} % of the samples are non-local.",
        things(sampled.samples, "sample"),
        things(basis.trace.threads, "thread"),
        basis.trace.name,
        things(basis.nodes_in_use, "node"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::why::process::Balancing;

    #[test]
    fn each_sign_says_what_was_seen_and_has_a_remedy_to_paste() {
        let by = "bind:0".to_owned();
        let signs = [
            Sign::ThreadsWander { threads: 1, changes_a_second: 2.5, nonlocal_percent: 40.0 },
            Sign::BindingsWrong { by, memories: vec![0], cpus: vec![1, 3], percent: 90.0 },
            Sign::Unmovable { percent: 60.0 },
            Sign::BalancingCosts {
                percent: 4.0,
                did: Balancing { hint_faults: 7, migrated: 1 },
                local: false,
            },
        ];
        let found: Vec<ProcessFinding> = signs.iter().map(ProcessFinding::from).collect();
        let expected = [
            "the node of 1 busy thread changed 2.5 times a second",
            "may be on node 0 only, and the threads may run on nodes 1,3 only",
            "they have 60 % of what can be avoided",
            "7 hint faults and 1 page moved, in the whole system",
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.sentence.contains(expected), "{}", found.sentence);
            assert_eq!(found.paste[0].form, Form::Words);
            assert!(found.paste.len() > 1);
        }
        assert!(found[1].paste[1].text.contains("--membind=1,3"));
        let both = sentence(&found, Cause::SharedByAll, "Shared by all.".into());
        assert!(both.starts_with("Threads wander between nodes: ") && both.ends_with("Shared by all."));
        assert_eq!(sentence(&found, Cause::NotNuma, "Not NUMA.".into()), found[0].sentence);
    }
}
