//! `stat` of threads and `status` of processes: proc_pid_stat(5), proc_pid_status(5).

use super::Pid;
use crate::topology::parse_list;

/// What is used of `/proc/PID/task/TID/stat`, and of `/proc/PID/stat`, which has the times of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name of the thread.
    pub name: String,
    /// State: R, S, D, Z, T, ...
    pub state: char,
    /// Its process group; 0 for the kernel's own and for a group of another process namespace.
    pub group: i32,
    /// CPU time in user and kernel mode, in clock ticks.
    pub cpu_ticks: u64,
    /// CPU time of the children that ended and were waited for, in clock ticks; of the whole process.
    pub waited_ticks: u64,
    /// When it started, in clock ticks since boot: with the number, its identity.
    pub start_ticks: u64,
    /// The CPU on which it ran last.
    pub processor: u32,
    /// Threads of the process.
    pub threads: u32,
    /// Resident pages of the process, of 4 KiB.
    pub resident_pages: u64,
    /// Where its stack began when it executed its program; 0 for who may not trace it.
    pub stack_start: u64,
}

impl Stat {
    /// False if two processes cannot have one memory, or one has none, as where the first thread has ended.
    pub fn may_share_memory(&self, other: &Stat) -> bool {
        self.stack_start != 0 && self.stack_start == other.stack_start
    }

    /// Parses the line. The name is in parentheses and may itself hold blanks and parentheses.
    pub fn parse(text: &str) -> Option<Stat> {
        let (before, after) = text.trim_end().rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        // Field 3 of the manual, the state, is the first behind the name.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            group: fields.get(2)?.parse().ok()?,
            cpu_ticks: number(14)?.saturating_add(number(15)?),
            waited_ticks: number(16)?.saturating_add(number(17)?),
            start_ticks: number(22)?,
            processor: u32::try_from(number(39)?).ok()?,
            threads: u32::try_from(number(20)?).ok()?,
            resident_pages: number(24)?,
            stack_start: number(28)?,
        })
    }
}

/// What is used of `/proc/PID/status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Name of the process.
    pub name: String,
    /// The process.
    pub tgid: Pid,
    /// ... as it knows itself, which in a container is another number.
    pub inside: Pid,
    /// Its parent.
    pub parent: Pid,
    /// Real user.
    pub uid: u32,
    /// Resident bytes; 0 for kernel threads.
    pub resident: u64,
    /// Nodes whose memory it may use (cpuset(7)), the kernel's numbers; empty if the kernel does not say.
    pub memories: Vec<u32>,
}

/// A field of a status file.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// What is used of `/proc/PID/task/TID/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The signals that it blocks at this moment: signal n is bit n - 1.
    pub blocked: u64,
    /// The signals that its process has handlers for, likewise.
    pub caught: u64,
    /// True if a seccomp mode or filter is in force.
    pub seccomp: bool,
    /// How many filters are; `None` before Linux 5.9, which does not tell.
    pub filters: Option<u32>,
}

impl ThreadStatus {
    /// Parses the file. Kernels without seccomp do not name it.
    pub fn parse(text: &str) -> Option<ThreadStatus> {
        let mask = |name| u64::from_str_radix(field(text, name)?, 16).ok();
        let (blocked, caught) = (mask("SigBlk")?, mask("SigCgt")?);
        let seccomp = field(text, "Seccomp").is_some_and(|mode| mode != "0");
        let filters = field(text, "Seccomp_filters").and_then(|count| count.parse().ok());
        Some(ThreadStatus { blocked, caught, seccomp, filters })
    }
}

/// What of `/proc/PID/task/TID/status` says where a thread may run and where memory may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confinement {
    /// CPUs that the thread may use; empty if the kernel does not say.
    pub cpus: Vec<u32>,
    /// Nodes whose memory it may use, the kernel's numbers; empty if the kernel does not say.
    pub memories: Vec<u32>,
    /// Resident bytes of the process.
    pub resident: u64,
    /// Bytes that are pinned: they cannot move. Memory that is only locked (`mlock`) can.
    pub pinned: u64,
}

impl Confinement {
    /// Parses the file; what it does not name is empty or 0.
    pub fn parse(text: &str) -> Confinement {
        let list = |name| field(text, name).and_then(parse_list).unwrap_or_default();
        let kilobytes = |name| field(text, name)?.split_ascii_whitespace().next()?.parse::<u64>().ok();
        let bytes = |name| kilobytes(name).unwrap_or(0).saturating_mul(1024);
        Confinement {
            cpus: list("Cpus_allowed_list"),
            memories: list("Mems_allowed_list"),
            resident: bytes("VmRSS"),
            pinned: bytes("VmPin"),
        }
    }
}

impl Status {
    /// Parses the file.
    pub fn parse(text: &str) -> Option<Status> {
        let field = |name: &str| field(text, name);
        let number = |name: &str| field(name)?.split_ascii_whitespace().next()?.parse::<i64>().ok();
        let tgid = Pid(number("Tgid")? as i32);
        // Kernels without namespaces do not name it.
        let inside =
            field("NStgid").and_then(|all| all.split_ascii_whitespace().last()?.parse().ok().map(Pid));
        Some(Status {
            name: field("Name")?.to_owned(),
            tgid,
            inside: inside.unwrap_or(tgid),
            parent: Pid(number("PPid")? as i32),
            uid: number("Uid")? as u32,
            resident: (number("VmRSS").unwrap_or(0) as u64).saturating_mul(1024),
            memories: field("Mems_allowed_list").and_then(parse_list).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let tail =
            "S 1 2 2 0 -1 4194560 100 0 0 0 7 5 0 0 20 0 3 0 4242 1000 10 18446744073709551615 1 1 7 0 0 0 \
                    0 4096 0 0 0 0 17 6 0 0 0 0 0 0 0 0 0 0 0 0 0";
        let stat = Stat::parse(&format!("12 (a) (b c)) {tail}\n")).unwrap();
        assert_eq!((stat.name.as_str(), stat.state, stat.group), ("a) (b c)", 'S', 2));
        assert_eq!((stat.cpu_ticks, stat.start_ticks, stat.processor), (12, 4242, 6));
        assert_eq!((stat.threads, stat.resident_pages, stat.stack_start), (3, 10, 7));
        assert_eq!(Stat::parse("12 (cut) S 1 2"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn status_needs_its_fields() {
        let text = "Name:\tcg\nTgid:\t12\nPid:\t12\nPPid:\t1\nUid:\t1000\t1000\t0\t0\nVmRSS:\t  128 kB\n";
        let status = Status::parse(text).unwrap();
        assert_eq!(
            (status.tgid, status.parent, status.uid, status.resident),
            (Pid(12), Pid(1), 1000, 131_072)
        );
        assert_eq!(Status::parse(&text.replace("VmRSS", "VmSwap")).unwrap().resident, 0);
        assert_eq!((status.memories, status.inside), (vec![], Pid(12)));
        let contained = format!("{text}NStgid:\t12\t3\n");
        assert_eq!(Status::parse(&contained).unwrap().inside, Pid(3));
        let confined = format!("{text}Mems_allowed:\t0000000d\nMems_allowed_list:\t0,2-3\n");
        assert_eq!(Status::parse(&confined).unwrap().memories, [0, 2, 3]);
        assert_eq!(Status::parse("Name:\tcg\n"), None);
    }

    #[test]
    fn a_thread_tells_where_it_may_run_and_what_of_its_memory_stays() {
        let text = "Name:\tcg\nVmPin:\t  4 kB\nVmRSS:\t 64 kB\nCpus_allowed_list:\t2-3\n\
                    Mems_allowed_list:\t0,2\n";
        let found = Confinement::parse(text);
        assert_eq!((found.cpus, found.memories), (vec![2, 3], vec![0, 2]));
        assert_eq!((found.resident, found.pinned), (65_536, 4096));
        assert_eq!(Confinement::parse("Name:\tkthreadd\n"), Confinement::default());
    }

    #[test]
    fn threads_tell_what_they_block_and_whether_they_are_filtered() {
        let text = "Name:\tcg\nSigBlk:\t0000000000010000\nSigCgt:\t0000000000000002\n\
                    Seccomp:\t2\nSeccomp_filters:\t1\n";
        let status = ThreadStatus::parse(text).unwrap();
        assert_eq!(status, ThreadStatus { blocked: 1 << 16, caught: 2, seccomp: true, filters: Some(1) });
        assert!(!ThreadStatus::parse(&text.replace("\t2", "\t0")).unwrap().seccomp);
        assert_eq!(ThreadStatus::parse("Name:\tcg\n"), None);
    }
}
