//! Groups of processes in the kernel's cgroup v2: who is in one, which CPUs it may use, whether it stands still, and
//! how long it ran. A job's children stay in its group, whatever they do.

use crate::proc::{cgroup_processes, Pid, ProcError};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where a cgroup v2 hierarchy is mounted, by `/proc/self/mounts`.
pub fn mounted() -> Option<PathBuf> {
    mounted_in(&fs::read_to_string("/proc/self/mounts").ok()?)
}

fn mounted_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place.replace("\\040", " ")))
    })
}

/// The group of this process below the mount, by `/proc/self/cgroup`.
pub fn own(mount: &Path) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = text.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    mount.join(path)
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes one.
    ///
    /// # Errors
    /// If it is there, or this user may not make it.
    pub fn create(path: PathBuf) -> io::Result<Group> {
        fs::create_dir(&path)?;
        Ok(Group { path })
    }

    /// One that is there.
    pub fn at(path: PathBuf) -> Group {
        Group { path }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
    }

    fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path.join(file)).ok()
    }

    /// Lets the groups in it have CPUs of their own.
    ///
    /// # Errors
    /// EBUSY if processes are in it, ENOENT or EINVAL where the kernel has the controller elsewhere.
    pub fn divide_cpus(&self) -> io::Result<()> {
        self.write("cgroup.subtree_control", "+cpuset")
    }

    /// True if the groups in it have CPUs of their own.
    pub fn divides_cpus(&self) -> bool {
        self.read("cgroup.subtree_control").is_some_and(|text| text.split_whitespace().any(|c| c == "cpuset"))
    }

    /// Lets the groups in it have the CPUs that it has.
    ///
    /// # Errors
    /// EBUSY if one of them divides them again.
    pub fn leave_cpus(&self) -> io::Result<()> {
        self.write("cgroup.subtree_control", "-cpuset")
    }

    /// Takes a process in, with all of its threads.
    ///
    /// # Errors
    /// ESRCH if it has ended; if this user may not.
    pub fn take(&self, pid: Pid) -> io::Result<()> {
        self.write("cgroup.procs", &pid.0.to_string())
    }

    /// Its processes.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn processes(&self) -> Result<Vec<Pid>, ProcError> {
        cgroup_processes(&self.path)
    }

    /// Lets its threads run on these CPUs only; on all that the group around it has, where there are none.
    ///
    /// # Errors
    /// If the group has no CPUs of its own; EINVAL for CPUs that are not there.
    pub fn set_cpus(&self, cpus: &[u32]) -> io::Result<()> {
        self.write("cpuset.cpus", &list(cpus))
    }

    /// Lets its memory be on these nodes only; what is elsewhere the kernel moves there. Where there are none, on all
    /// that the group around it has.
    ///
    /// # Errors
    /// If the group has no memories of its own; EINVAL for nodes that are not there.
    pub fn set_memories(&self, nodes: &[u32]) -> io::Result<()> {
        self.write("cpuset.mems", &list(nodes))
    }

    /// Lets all of it stand still, or go on.
    ///
    /// # Errors
    /// If the group is gone.
    pub fn freeze(&self, still: bool) -> io::Result<()> {
        self.write("cgroup.freeze", if still { "1" } else { "0" })
    }

    /// Microseconds of CPU time of all that was ever in it.
    pub fn cpu_us(&self) -> Option<u64> {
        field(&self.read("cpu.stat")?, "usage_usec")
    }

    /// How many of its processes the kernel killed since memory ran out; `None` where nobody counts.
    pub fn out_of_memory(&self) -> Option<u64> {
        field(&self.read("memory.events")?, "oom_kill")
    }

    /// Removes it.
    ///
    /// # Errors
    /// EBUSY if a process is in it.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)
    }
}

/// A list as the kernel reads it. An empty write is none: the line's end says that there is nothing in it.
fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("{}\n", words.join(","))
}

/// A number of a file with a name and a number on each line.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_among_mounts() {
        let hybrid = "proc /proc proc rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /a\\040b cgroup2 rw 0 0\n";
        assert_eq!(mounted_in(hybrid), Some(PathBuf::from("/a b")));
        assert_eq!(mounted_in("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn numbers_are_read_by_name() {
        let text = "usage_usec 123\nuser_usec 100\n";
        assert_eq!((field(text, "usage_usec"), field(text, "usage")), (Some(123), None));
    }

    #[test]
    fn what_is_written_is_what_the_kernel_reads() {
        let folder = tempfile::tempdir().unwrap();
        let group = Group::create(folder.path().join("group")).unwrap();
        let file = |name: &str| fs::read_to_string(group.path().join(name)).unwrap();
        group.set_cpus(&[3, 5]).unwrap();
        assert_eq!(file("cpuset.cpus"), "3,5\n");
        group.set_cpus(&[]).unwrap();
        assert_eq!(file("cpuset.cpus"), "\n");
        group.set_memories(&[0, 2]).unwrap();
        assert_eq!(file("cpuset.mems"), "0,2\n");
        group.freeze(true).unwrap();
        assert_eq!(file("cgroup.freeze"), "1");
        fs::write(group.path().join("cgroup.subtree_control"), "cpu cpuset\n").unwrap();
        assert!(group.divides_cpus());
    }
}
