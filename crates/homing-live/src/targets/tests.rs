use super::*;
use crate::host::tests::snapshot;
use std::process::{Command, Stdio};

fn look_until(targets: &mut Targets, host: &Host, done: impl Fn(&Targets) -> bool) -> Vec<Changes> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        all.push(targets.look(host).unwrap());
        if done(targets) {
            return all;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("did not happen: {all:?}");
}

#[test]
fn processes_begin_run_another_program_fork_and_end() {
    let (_sys, host) = snapshot(2);
    let mut command = Command::new("sh");
    command.args(["-c", "read a; sleep 100 & read b; kill $!; wait; exec cat"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let pid = Pid(child.id() as i32);
    let mut input = child.stdin.take().unwrap();
    let mut say = |word: &[u8]| std::io::Write::write_all(&mut input, word).unwrap();
    let choice = Choice::Processes { pids: vec![pid], children: true };
    let mut targets = Targets::new(Proc::default(), choice);
    let shell = |t: &Targets| t.processes().get(&pid).is_some_and(|p| p.command.starts_with("sh "));
    look_until(&mut targets, &host, shell);
    assert!(targets.contains(pid) && targets.processes()[&pid].tasks.len() == 1);
    say(b"a\n");
    look_until(&mut targets, &host, |t| t.processes().values().any(|p| p.command == "sleep 100"));
    let program = targets.processes()[&pid].program;
    say(b"b\n");
    let cat = |t: &Targets| t.processes().len() == 1 && t.processes()[&pid].command == "cat";
    let changes = look_until(&mut targets, &host, cat);
    assert!(changes.iter().any(|change| change.ended.contains(&pid)), "another program is another process");
    assert!(program.is_some() && targets.processes()[&pid].program != program);
    drop(input);
    look_until(&mut targets, &host, |t| t.processes().is_empty());
    child.wait().unwrap();
    assert!(targets.denied().is_empty());
}

#[test]
fn a_cpuset_that_widens_is_a_change() {
    let (_sys, host) = snapshot(2);
    let root = tempfile::tempdir().unwrap();
    let me = Pid(std::process::id() as i32);
    let directory = root.path().join(format!("{me}/task/{me}"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(root.path().join(format!("{me}/cmdline")), "x\0").unwrap();
    std::fs::write(root.path().join(format!("{me}/maps")), "").unwrap();
    let stat =
        format!("{me} (x) R 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0");
    std::fs::write(directory.join("stat"), stat).unwrap();
    let mut targets =
        Targets::new(Proc::at(root.path()), Choice::Processes { pids: vec![me], children: false });
    let mut look = |memories: &str| {
        let before = targets.may_use_others(me);
        let status =
            format!("Name:\tx\nTgid:\t{me}\nPPid:\t1\nUid:\t0\t0\t0\t0\nMems_allowed_list:\t{memories}\n");
        std::fs::write(root.path().join(format!("{me}/status")), status).unwrap();
        assert!(!before, "as at the last look");
        let noticed = targets.may_use_others(me);
        let changes = targets.look(&host).unwrap();
        (noticed, changes.allowed, targets.processes()[&me].memories.clone())
    };
    assert_eq!(look("0"), (false, vec![me], vec![0]), "nothing was known of it");
    assert_eq!(look("0"), (false, vec![], vec![0]));
    assert_eq!(look("0,2"), (true, vec![me], vec![0, 2]));
}

#[test]
fn threads_are_reported_when_they_ran_or_are_elsewhere() {
    let (_sys, host) = snapshot(2);
    let root = tempfile::tempdir().unwrap();
    let me = Pid(std::process::id() as i32);
    let directory = root.path().join(format!("{me}/task/{me}"));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(root.path().join(format!("{me}/cmdline")), "x\0").unwrap();
    std::fs::write(root.path().join(format!("{me}/maps")), "").unwrap();
    let mut targets =
        Targets::new(Proc::at(root.path()), Choice::Processes { pids: vec![me], children: false });
    let mut ticks = 0;
    let mut look = |cpu: u32, runs: bool| {
        ticks += u32::from(runs);
        let stat = format!(
            "{me} (x) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 \
            0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0"
        );
        std::fs::write(directory.join("stat"), stat).unwrap();
        let threads = targets.look(&host).unwrap().threads;
        threads.iter().map(|seen| (seen.node.map(|node| node.0), seen.ran)).collect::<Vec<_>>()
    };
    assert_eq!(look(0, true), [(Some(0), true)]);
    assert_eq!(look(0, false), [], "it has not run");
    assert_eq!(look(2, false), [(Some(1), false)]);
    assert_eq!(look(3, true), [(Some(1), true)]);
}

/// Begins a shell, which then waits for words.
fn shell(script: &str, name: &str) -> (std::process::Child, std::process::ChildStdin) {
    let mut command = Command::new("bash");
    command.args(["-c", script, name]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take().unwrap();
    (child, input)
}

#[test]
fn the_same_program_executed_again_is_another_process() {
    let (_sys, host) = snapshot(2);
    let (mut child, mut input) = shell("read a; exec bash -c \"$0\" \"$0\"", "read b");
    let pid = Pid(child.id() as i32);
    let mut targets = Targets::new(Proc::default(), Choice::Processes { pids: vec![pid], children: false });
    look_until(&mut targets, &host, |t| {
        t.processes().get(&pid).is_some_and(|p| p.command.contains("exec bash"))
    });
    std::io::Write::write_all(&mut input, b"a\n").unwrap();
    let again = |t: &Targets| t.processes().get(&pid).is_some_and(|p| !p.command.contains("exec bash"));
    let changes = look_until(&mut targets, &host, again);
    assert!(changes.iter().any(|change| change.ended == [pid]), "{changes:?}");
    drop(input);
    child.wait().unwrap();
}

#[test]
fn a_process_that_changes_its_title_stays_the_same() {
    let (_sys, host) = snapshot(2);
    let root = tempfile::tempdir().unwrap();
    let me = Pid(std::process::id() as i32);
    let directory = root.path().join(me.to_string());
    std::fs::create_dir_all(directory.join(format!("task/{me}"))).unwrap();
    std::fs::write(directory.join("maps"), "").unwrap();
    std::fs::write(directory.join("exe"), "the program").unwrap();
    let mut targets =
        Targets::new(Proc::at(root.path()), Choice::Processes { pids: vec![me], children: false });
    let mut look = |title: &str, stack: u32| {
        let stat = format!(
            "{me} ({title}) R 1 1 1 0 -1 0 0 0 0 0 1 0 0 0 20 0 1 0 5 0 0 0 0 0 {stack} 0 0 0 0 0 0 0 0 0 0 17 0 0"
        );
        std::fs::write(directory.join(format!("task/{me}/stat")), stat).unwrap();
        std::fs::write(directory.join("cmdline"), title).unwrap();
        let changes = targets.look(&host).unwrap();
        (changes.begun.len(), changes.ended.len())
    };
    assert_eq!(look("postgres: idle", 4096), (1, 0));
    assert_eq!(look("postgres: SELECT", 4096), (0, 0), "a title is no program");
    assert_eq!(look("postgres: SELECT", 8192), (1, 1), "another exec is");
    std::fs::remove_file(directory.join("exe")).unwrap();
    assert_eq!(look("", 0), (0, 0), "the first thread has ended, others go on");
}

#[test]
fn nobody_hides_by_the_name_of_a_helper() {
    let (_sys, host) = snapshot(2);
    let (mut child, input) = shell("printf homing-scan >/proc/$$/comm; read a", "x");
    let pid = Pid(child.id() as i32);
    let proc = Proc::default();
    let named = || proc.stat(pid, Tid(pid.0)).is_ok_and(|stat| stat.name == hint_faults::SCANNER_NAME);
    assert!((0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        named()
    }));
    let mut targets = Targets::new(Proc::default(), Choice::Processes { pids: vec![pid], children: false });
    targets.look(&host).unwrap();
    assert!(targets.contains(pid));
    drop(input);
    child.wait().unwrap();
}

#[cfg(target_arch = "x86_64")]
#[test]
fn helpers_are_left_out_whoever_has_made_them() {
    use homing_linux::hint_faults::scanner::Scanner;
    let (_sys, host) = snapshot(2);
    let me = Pid(std::process::id() as i32);
    if same_memory(me, me).is_none() {
        eprintln!("SKIPPED: helpers of another session: the kernel has no kcmp");
        return;
    }
    let (mut child, input) = shell("until read -t 0; do :; done", "x");
    let (proc, pid) = (Proc::default(), Pid(child.id() as i32));
    let begin = std::time::Instant::now();
    let scanner = loop {
        assert!(begin.elapsed().as_secs() < 60, "it does not run");
        // It has been loaded when it has used some time.
        let loaded = proc.process_stat(pid).is_ok_and(|stat| stat.name == "bash" && stat.cpu_ticks > 2);
        match loaded.then(|| Scanner::start(&proc, pid)) {
            None => std::thread::yield_now(),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Some(result) => break result.unwrap(),
        }
    };
    let helper = scanner.helper();
    let named = || proc.stat(helper, Tid(helper.0)).is_ok_and(|stat| stat.name == hint_faults::SCANNER_NAME);
    assert!((0..10_000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        named()
    }));
    let both = Choice::Processes { pids: vec![pid, helper], children: false };
    let mut targets = Targets::new(Proc::default(), both);
    let there = |targets: &mut Targets| {
        targets.look(&host).unwrap();
        targets.processes().keys().copied().collect::<Vec<_>>()
    };
    assert_eq!(there(&mut targets), [pid], "another session's");
    targets.know_helpers(vec![(helper, pid)]);
    assert_eq!(there(&mut targets), [pid], "ours");
    let mut alone = Targets::new(Proc::default(), Choice::Processes { pids: vec![helper], children: false });
    assert_eq!(there(&mut alone), [helper], "it would hide what nobody else shows");
    scanner.end(&proc).unwrap();
    drop(input);
    child.wait().unwrap();
}

#[test]
fn a_cgroup_that_is_removed_has_no_processes_and_one_that_was_never_there_is_an_error() {
    let (_sys, host) = snapshot(2);
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("job_1");
    let mut targets = Targets::new(Proc::default(), Choice::Cgroup(group.clone()));
    assert!(matches!(targets.look(&host), Err(ProcError::Gone { .. })));
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
    let mut targets = Targets::new(Proc::default(), Choice::Cgroup(group.clone()));
    targets.look(&host).unwrap();
    assert_eq!(targets.processes().len(), 1);
    std::fs::remove_dir_all(&group).unwrap();
    let changes = targets.look(&host).unwrap();
    assert!(targets.processes().is_empty() && changes.ended == [Pid(std::process::id() as i32)]);
}
