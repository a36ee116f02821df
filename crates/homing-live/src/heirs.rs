//! Heirs: threads and processes that a thread has started whose CPUs were narrowed. They inherit what it has, and are
//! to get what it had before. They are known by their CPUs alone: one that chose the same ones itself is taken for one.

use crate::evacuate::Was;
use homing_linux::policy::affinity;
use homing_linux::proc::{Pid, Proc, Tid};
use std::collections::BTreeSet;

/// A thread whose CPUs were narrowed, with those that it had, and those that it has now.
pub type Narrowed<'a> = (&'a Was, &'a [u32]);

/// What a thread is to have that inherited the CPUs of one of these. None if it did not, or has ended.
pub fn heir(proc: &Proc, pid: Pid, tid: Tid, narrowed: &[Narrowed<'_>]) -> Option<Was> {
    let cpus = affinity(tid).ok()?;
    let from = |(was, now): &&Narrowed<'_>| was.tid != tid.0 && *now == cpus && was.cpus != cpus;
    let (was, _) = narrowed.iter().find(from)?;
    let start_ticks = proc.stat(pid, tid).ok()?.start_ticks;
    Some(Was { pid: pid.0, tid: tid.0, start_ticks, cpus: was.cpus.clone() })
}

/// ... all in the processes of these threads and in those that these have started.
pub fn heirs(proc: &Proc, narrowed: &[Narrowed<'_>]) -> Vec<Was> {
    let mut heirs = Vec::new();
    let processes: BTreeSet<Pid> = narrowed.iter().map(|(was, _)| Pid(was.pid)).collect();
    for pid in processes {
        let its: Vec<Narrowed<'_>> = narrowed.iter().copied().filter(|(was, _)| was.pid == pid.0).collect();
        for of in proc.with_descendants(BTreeSet::from([pid])) {
            let known = |tid: &Tid| narrowed.iter().any(|(was, _)| was.tid == tid.0);
            let tasks = proc.tasks(of).unwrap_or_default().into_iter().filter(|tid| !known(tid));
            heirs.extend(tasks.filter_map(|tid| heir(proc, of, tid, &its)));
        }
    }
    heirs
}

/// These threads, and the heirs of those that are still there.
pub fn with_heirs(proc: &Proc, mut were: Vec<Was>) -> Vec<Was> {
    let there = were.iter().filter(|was| was.is_there(proc));
    let now: Vec<(&Was, Vec<u32>)> =
        there.filter_map(|was| Some((was, affinity(Tid(was.tid)).ok()?))).collect();
    let heirs = heirs(proc, &now.iter().map(|(was, cpus)| (*was, &cpus[..])).collect::<Vec<_>>());
    were.extend(heirs);
    were
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use homing_linux::policy::set_affinity;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, Command, Stdio};

    /// A shell that starts a process when it is told to, and ends it at its own end.
    pub(crate) struct Shell {
        shell: Child,
        input: ChildStdin,
    }

    impl Shell {
        pub(crate) fn new() -> Shell {
            let line = "read a; sleep 60 & echo $!; read b; kill $!";
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut shell = shell.spawn().unwrap();
            let input = shell.stdin.take().unwrap();
            Shell { shell, input }
        }

        pub(crate) fn id(&self) -> i32 {
            self.shell.id() as i32
        }

        /// Has it start the process, and gives its number.
        pub(crate) fn start(&mut self) -> i32 {
            self.input.write_all(b"\n").unwrap();
            let mut answer = String::new();
            BufReader::new(self.shell.stdout.take().unwrap()).read_line(&mut answer).unwrap();
            answer.trim().parse().unwrap()
        }

        pub(crate) fn end(mut self) {
            self.input.write_all(b"\n").unwrap();
            self.shell.wait().unwrap();
        }
    }

    #[test]
    fn what_a_narrowed_thread_starts_is_its_heir_until_it_has_other_cpus() {
        let proc = Proc::default();
        let mut shell = Shell::new();
        let tid = shell.id();
        let (cpus, start_ticks) =
            (affinity(Tid(tid)).unwrap(), proc.stat(Pid(tid), Tid(tid)).unwrap().start_ticks);
        let was = Was { pid: tid, tid, start_ticks, cpus: cpus.clone() };
        set_affinity(Tid(tid), &cpus[..1]).unwrap();
        let child = shell.start();

        let found = with_heirs(&proc, vec![was.clone()]);
        assert_eq!((found.len(), &found[0], found[1].tid, &found[1].cpus), (2, &was, child, &cpus));
        assert_eq!(heirs(&proc, &[(&was, &cpus[..1])]), found[1..]);
        let another = Was { start_ticks: start_ticks + 1, ..was.clone() };
        assert_eq!(
            with_heirs(&proc, vec![another.clone()]),
            [another],
            "the thread has ended, another has its number"
        );
        set_affinity(Tid(child), &cpus).unwrap();
        assert_eq!(with_heirs(&proc, vec![was.clone()]), [was], "it has other CPUs");
        shell.end();
    }
}
