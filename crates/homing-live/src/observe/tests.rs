use super::*;
use crate::host::tests::snapshot as machine;
use std::fs;
use std::path::Path;

/// A process in a stored /proc: pages on nodes 0 and 2, one thread on each CPU that is given, all running.
fn process(root: &Path, pid: i32, cpus: &[u32], numa_maps: &str, ticks: u64) {
    let directory = root.join(pid.to_string());
    let stat = |tid: i32, cpu: u32| {
        let threads = cpus.len();
        format!(
            "{tid} (a b) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 5 0 96 \
            0 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0"
        )
    };
    for (index, &cpu) in cpus.iter().enumerate() {
        let tid = pid + index as i32;
        let task = directory.join(format!("task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("stat"), stat(tid, cpu)).unwrap();
    }
    fs::write(directory.join("stat"), stat(pid, cpus[0])).unwrap();
    fs::write(directory.join("cmdline"), "a b\0--fast\0").unwrap();
    fs::write(directory.join("maps"), "1000-9000 rw-p 0 00:00 0 [heap]\na000-ff000 rw-p 0 00:00 0").unwrap();
    fs::write(directory.join("numa_maps"), numa_maps).unwrap();
}

const MAPS: &str = "1000 default heap anon=24 N0=16 N2=8 kernelpagesize_kB=4\n\
    a000 default anon=72 N2=72 kernelpagesize_kB=4\n";

fn look(observer: &mut Observer, wanted: &Wanted) -> Snapshot {
    let mut look = observer.look(&[]).unwrap();
    observer.inspect(wanted, &mut look);
    look
}

fn observer(root: &Path, host: &Host, share: f64) -> Observer {
    fs::write(root.join("vmstat"), "pgmigrate_success 10\n").unwrap();
    Observer::new(Proc::at(root), host.clone(), share)
}

#[test]
fn pages_threads_and_residency_by_node() {
    let (_sys, host) = machine(2);
    let root = tempfile::tempdir().unwrap();
    process(root.path(), 7, &[0, 1], MAPS, 0);
    let mut observer = observer(root.path(), &host, f64::INFINITY);
    let wanted = Wanted { selected: Some(Pid(7)), ..Wanted::default() };
    let seen = look(&mut observer, &wanted);
    let row = &seen.processes[0];
    assert_eq!((row.command.as_str(), row.threads, row.resident_bytes), ("a b --fast", 2, 96 * 4096));
    assert_eq!((row.cpu_percent, seen.moves.moved_per_second), (None, None), "the first look knows no rates");
    let pages = row.pages.as_ref().unwrap();
    let on = |node, count| snapshot::OnNode { node, count };
    assert_eq!(pages.bytes, [on(0, 16 * 4096), on(2, 80 * 4096)]);
    assert_eq!(pages.threads, [on(0, 2), on(2, 0)]);
    let percent = pages.residency_percent.unwrap();
    assert!((percent - 100.0 * 16.0 / 96.0).abs() < 1e-9);
    let names: Vec<&str> = pages.regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(names, ["anonymous#0", "heap#0"], "largest first");
    assert_eq!(pages.tasks.len(), 2);
    let node = &seen.nodes[1];
    assert_eq!((node.node, node.resident_bytes, node.with_threads_bytes), (2, 80 * 4096, 0));
    assert_eq!(node.residency_percent, Some(0.0));

    process(root.path(), 7, &[0, 2], MAPS, 7);
    fs::write(root.path().join("vmstat"), "pgmigrate_success 1010\n").unwrap();
    let seen = look(&mut observer, &wanted);
    assert!(seen.moves.moved_per_second.unwrap() > 0.0 && seen.processes[0].cpu_percent.unwrap() > 0.0);
    assert_eq!(seen.processes[0].pages.as_ref().unwrap().residency_percent, Some(100.0));
    fs::remove_dir_all(root.path().join("7")).unwrap();
    assert!(look(&mut observer, &wanted).processes.is_empty());
}

#[test]
fn looking_keeps_to_its_budget_and_says_what_waits() {
    let (_sys, host) = machine(2);
    let root = tempfile::tempdir().unwrap();
    (1..=5).for_each(|number| process(root.path(), 10 * number, &[0], MAPS, 0));
    let mut observer = observer(root.path(), &host, 0.0);
    observer.credit = 1e-9;
    let wanted = Wanted { visible: vec![Pid(30)], others: true, ..Wanted::default() };
    let seen = look(&mut observer, &wanted);
    let looked: Vec<_> = seen.processes.iter().filter(|row| row.pages.is_some()).map(|row| row.pid).collect();
    assert_eq!((looked, seen.waiting), (vec![Some(Pid(30))], 4), "what is shown comes first");
    let seen = look(&mut observer, &wanted);
    assert_eq!(seen.waiting, 4, "nothing is left to spend");
    assert!(seen.processes[2].pages.as_ref().unwrap().age_seconds > 0.0);
    assert_eq!(observer.look(&[Pid(20), Pid(99)]).unwrap().processes.len(), 1);
}

#[test]
fn this_machine_can_be_looked_at() {
    let host = Host::read(Path::new("/sys")).unwrap();
    let me = Pid(std::process::id() as i32);
    let mut observer = Observer::new(Proc::default(), host, f64::INFINITY);
    let mut seen = observer.look(&[me]).unwrap();
    observer.inspect(&Wanted { selected: Some(me), ..Wanted::default() }, &mut seen);
    let row = &seen.processes[0];
    assert!(row.resident_bytes > 0 && row.threads > 0);
    // Where the kernel has no numa_maps nothing is known of pages.
    if let Some(pages) = &row.pages {
        assert!(pages.bytes.iter().map(|on| on.count).sum::<u64>() > 0);
        assert!(!pages.tasks.is_empty() && pages.residency_percent.is_some());
    }
}

#[test]
fn a_name_hides_nobody() {
    let (_sys, host) = machine(2);
    let root = tempfile::tempdir().unwrap();
    process(root.path(), 7, &[0], MAPS, 0);
    let file = root.path().join("7/stat");
    let text = fs::read_to_string(&file).unwrap().replace("(a b)", "(homing-scan)");
    fs::write(&file, text).unwrap();
    process(root.path(), 8, &[0], MAPS, 0);
    let seen = look(&mut observer(root.path(), &host, f64::INFINITY), &Wanted::default());
    let pids: Vec<_> = seen.processes.iter().map(|row| row.pid.unwrap().0).collect();
    assert_eq!(pids, [7, 8]);
}
