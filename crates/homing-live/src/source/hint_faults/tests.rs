use super::*;
use crate::host::tests::snapshot;
use crate::targets::Choice;
use std::process::{Child, Command};

/// A child that runs, with a helper.
fn served(proc: &Proc) -> (Child, Scanner) {
    let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = Pid(child.id() as i32);
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed().as_secs() < 60, "it does not run");
        // It has been loaded when it has used some time.
        let loaded = proc.process_stat(pid).is_ok_and(|stat| stat.name == "sh" && stat.cpu_ticks > 2);
        match loaded.then(|| Scanner::inject(proc, pid)) {
            None => std::thread::yield_now(),
            Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            Some(scanner) => return (child, scanner.unwrap()),
        }
    }
}

/// The kernel's settings, as files of a test.
fn places(root: &std::path::Path) -> Places {
    let paths = homing_linux::hint_faults::Paths { switch: root.join("switch"), tunables: root.into() };
    std::fs::write(&paths.switch, "0\n").unwrap();
    for name in ["scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms", "scan_size_mb"] {
        std::fs::write(root.join(name), "1000\n").unwrap();
    }
    Places { sys: root.into(), state: root.join("state"), hint_faults: paths }
}

/// Signals that a program of the same user may send to its helper.
fn send(pid: Pid, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_helper_that_its_program_stops_does_not_keep_the_scans_of_others_waiting() {
    let (root, (_sys, host), proc) = (tempfile::tempdir().unwrap(), snapshot(2), Proc::default());
    let (mut stopper, scanner) = served(&proc);
    let (mut other, others) = served(&proc);
    let (stops, goes) = (Pid(stopper.id() as i32), Pid(other.id() as i32));
    let helper = scanner.helper();
    let choice = Choice::Processes { pids: vec![stops, goes], children: false };
    let mut targets = Targets::new(proc, choice);
    targets.look(&host).unwrap();
    let mut source = HintFaults::open(&places(root.path()), &host).unwrap();
    source.keep(stops, scanner).unwrap();
    source.keep(goes, others).unwrap();
    send(helper, "-STOP");
    for _ in 0..3 {
        source.scan(&targets);
        while source.work(&targets, Duration::ZERO).unwrap().is_none() {
            std::thread::sleep(NAP);
        }
    }
    // A machine so busy that the other one does not get ready either waits for both.
    assert!(source.slow.times(stops) == 1 || source.slow.times(goes) > 0);
    assert!(source.losses().scans_missed >= 3, "what it did not scan is counted");
    send(helper, "-KILL");
    for child in [&mut stopper, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
