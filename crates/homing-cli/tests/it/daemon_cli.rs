//! `homing daemon` from outside. A cgroup is a directory with a file `cgroup.procs` as far as the daemon can tell, so
//! no right to make cgroups is needed.

use homing_linux::claim::Claim;
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_homing");

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A daemon, killed when the test ends early.
struct Daemon {
    child: Child,
    errors: BufReader<ChildStderr>,
    metrics: String,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Daemon {
    /// One whose stderr is a pipe.
    fn of(mut child: Child) -> Daemon {
        let errors = BufReader::new(child.stderr.take().unwrap());
        Daemon { child, errors, metrics: String::new() }
    }

    /// Starts one that serves metrics. SIGHUP was ignored before, as whatever starts it may have it: it is for the
    /// daemon all the same.
    fn start(folder: &Path) -> Daemon {
        let child = Command::new("env")
            .args(["--ignore-signal=HUP", PROGRAM, "daemon", "--config"])
            .arg(folder.join("homing.toml"))
            .env("NOTIFY_SOCKET", folder.join("notify"))
            .env("WATCHDOG_USEC", "900000")
            .env("XDG_RUNTIME_DIR", folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut daemon = Daemon::of(child);
        let line = daemon.says("/metrics at ");
        daemon.metrics = line.rsplit(' ').next().unwrap().trim().to_owned();
        daemon
    }

    /// The next line on stderr with these words.
    fn says(&mut self, words: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.errors.read_line(&mut line).unwrap() > 0, "ended without saying `{words}`");
            if line.contains(words) {
                return line;
            }
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// A value of `/metrics`.
    fn value(&self, name: &str) -> Option<f64> {
        let mut client = TcpStream::connect(&self.metrics).ok()?;
        client.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
        let mut page = String::new();
        client.read_to_string(&mut page).ok()?;
        let line = page.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with(' '))?;
        line[name.len() + 1..].trim().parse().ok()
    }
}

/// The next datagram. A child of another test may end while its thread starts one with signals blocked: that SIGCHLD
/// goes to this thread, and a wait with a time-out is not restarted (signal(7)).
fn receive(manager: &UnixDatagram, buffer: &mut [u8]) -> usize {
    loop {
        match manager.recv(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result.expect("a word within the time"),
        }
    }
}

/// What the service manager hears next, without what it hears all the time.
fn heard(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 500];
    for _ in 0..200 {
        let count = receive(manager, &mut buffer);
        let text = String::from_utf8_lossy(&buffer[..count]).into_owned();
        if text != "WATCHDOG=1\n" {
            return text;
        }
    }
    panic!("nothing but signs of life in a minute");
}

fn manager(folder: &Path) -> UnixDatagram {
    let manager = UnixDatagram::bind(folder.join("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    manager
}

fn configure(folder: &Path, scopes: &[&str], more: &str) {
    let mut text =
        format!("source = \"none\"\nmetrics = \"127.0.0.1:0\"\njournals = \"{}\"\n{more}", folder.display());
    for scope in scopes {
        let cgroup = folder.join(scope);
        text += &format!("[scope.{scope}]\ncgroup = \"{}\"\ninterval = \"20ms\"\n", cgroup.display());
    }
    fs::write(folder.join("homing.toml"), text).unwrap();
}

fn put(folder: &Path, scope: &str, pids: &[u32]) {
    let cgroup = folder.join(scope);
    fs::create_dir_all(&cgroup).unwrap();
    let text: String = pids.iter().map(|pid| format!("{pid}\n")).collect();
    // As the kernel does: never half of it.
    fs::write(cgroup.join("new"), text).unwrap();
    fs::rename(cgroup.join("new"), cgroup.join("cgroup.procs")).unwrap();
}

#[test]
fn it_serves_reloads_and_ends_and_tells_the_manager() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let manager = manager(folder);
    configure(folder, &["a", "b"], "");
    put(folder, "a", &[std::process::id()]);
    let mut daemon = Daemon::start(folder);
    assert_eq!(heard(&manager), "READY=1\nSTATUS=2 scopes: a, b\n");
    wait_until("a's process", || daemon.value("homing_processes{scope=\"a\"}") == Some(1.0));
    assert!(daemon.value("homing_threads{scope=\"a\"}") > Some(0.0));
    let b_runs = |source| format!("homing_scope_running{{scope=\"b\",source=\"{source}\"}}");
    assert_eq!(daemon.value(&b_runs("")), Some(0.0), "its cgroup is not there");
    put(folder, "b", &[]);
    wait_until("b's cgroup", || daemon.value(&b_runs("none")) == Some(1.0));
    fs::remove_dir_all(folder.join("b")).unwrap();
    wait_until("b's end", || daemon.value(&b_runs("")) == Some(0.0));

    fs::write(folder.join("homing.toml"), "metrics = \"0.0.0.0:1\"\n[scope.a]\ncgroup = \"a\"\n").unwrap();
    daemon.signal("HUP");
    assert!(heard(&manager).starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(heard(&manager), "READY=1\nSTATUS=2 scopes: a, b\n");
    assert!(daemon.says("old configuration is kept").contains("from outside"));
    assert_eq!(daemon.value("homing_reloads_total{result=\"refused\"}"), Some(1.0));
    let sessions = daemon.value("homing_sessions_total{scope=\"a\"}");

    configure(folder, &["a", "c"], "");
    daemon.signal("HUP");
    assert!(heard(&manager).starts_with("RELOADING=1"));
    assert_eq!(heard(&manager), "READY=1\nSTATUS=2 scopes: a, c\n");
    assert_eq!(daemon.value("homing_sessions_total{scope=\"a\"}"), sessions, "what is unchanged goes on");
    assert_eq!(daemon.value("homing_pages{scope=\"b\"}"), None);

    let mut buffer = [0; 100];
    let count = receive(&manager, &mut buffer);
    assert_eq!(&buffer[..count], b"WATCHDOG=1\n");
    daemon.signal("TERM");
    assert_eq!(heard(&manager), "STOPPING=1\n");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let journal = fs::read_to_string(folder.join("a.journal")).unwrap();
    assert!(journal.starts_with("{\"homing_journal\":2,"), "{journal}");
}

#[test]
fn a_second_daemon_takes_a_cgroup_when_the_first_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _manager = manager(folder);
    configure(folder, &["a"], "");
    put(folder, "a", &[std::process::id()]);
    let mut first = Daemon::start(folder);
    first.says("scope a: begins");
    let mut second = Daemon::start(folder);
    assert!(second.says("another homing").contains("scope a: "));
    first.signal("TERM");
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
    second.says("scope a: begins");
}

/// Where the daemons of this test have their locks: only root's is not for the test to choose.
fn locks(folder: &Path) -> PathBuf {
    let standard = homing_linux::private::standard();
    if standard == Path::new("/run/homing") {
        standard
    } else {
        folder.join("homing")
    }
}

#[test]
fn a_daemon_waits_for_what_a_killed_one_had_begun_and_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _manager = manager(folder);
    configure(folder, &["a"], "");
    put(folder, "a", &[std::process::id()]);
    let cgroup = folder.join("a");
    let guard = Claim::of(&cgroup, &locks(folder)).unwrap();
    // As if it were held for a daemon that is no more: no process has this number.
    let facts = cgroup.metadata().unwrap();
    let name = format!("cgroup-{:x}-{:x}.lock", facts.dev(), facts.ino());
    fs::write(locks(folder).join(name), format!("{} 1\n", i32::MAX)).unwrap();
    let mut daemon = Daemon::start(folder);
    wait_until("metrics", || daemon.value("homing_scope_running{scope=\"a\",source=\"\"}") == Some(0.0));
    drop(guard);
    let mut line = String::new();
    daemon.errors.read_line(&mut line).unwrap();
    assert!(line.contains("scope a: begins"), "nothing is refused before: {line}");
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let mut next = Daemon::start(folder);
    let mut line = String::new();
    next.errors.read_line(&mut line).unwrap();
    assert!(line.contains("scope a: begins"), "{line}");
}

#[test]
fn connections_that_say_nothing_do_not_stop_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _manager = manager(folder);
    configure(folder, &["a"], "");
    let daemon = Daemon::start(folder);
    let idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(&daemon.metrics).unwrap()).collect();
    for _ in 0..20 {
        assert!(daemon.value("homing_metrics_closed_total{reason=\"crowded\"}").is_some());
    }
    assert!(daemon.value("homing_metrics_closed_total{reason=\"crowded\"}") >= Some(100.0));
    drop(idle);
}

/// Descriptors and resident kilobytes of a process.
fn usage(pid: u32) -> (usize, u64) {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    (descriptors, line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).unwrap_or(0))
}

#[test]
fn it_survives_programs_that_come_and_go_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let _manager = manager(folder);
    configure(folder, &["a"], "");
    // Where page faults can be seen they are: that is the most that can go wrong on any machine.
    let file = folder.join("homing.toml");
    let text = fs::read_to_string(&file).unwrap().replace("\"none\"", "\"page-faults\"");
    fs::write(&file, text).unwrap();
    put(folder, "a", &[]);
    let mut daemon = Daemon::start(folder);
    let scripts = [
        "exec true",
        "true & true & wait",
        "exec sh -c 'exec sort /proc/self/maps'",
        "sort /proc/self/maps | sort -r",
        "sleep 0.05; kill -9 $$",
        "for i in 1 2 3 4; do (sleep 0.02; exec true) & done; wait",
    ];
    let mut most = (0, 0);
    for round in 0..60 {
        let spawn =
            |script: &&str| Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        let mut children: Vec<Child> = scripts.iter().map(spawn).collect();
        let pids: Vec<u32> = children.iter().map(Child::id).collect();
        put(folder, "a", &pids);
        std::thread::sleep(Duration::from_millis(5 * (round % 7)));
        if round % 2 == 0 {
            children.iter_mut().for_each(|child| drop(child.kill()));
        }
        if round % 10 == 9 {
            fs::remove_dir_all(folder.join("a")).unwrap();
        }
        children.iter_mut().for_each(|child| drop(child.wait()));
        if round == 20 {
            most = usage(daemon.child.id());
        }
    }
    put(folder, "a", &[]);
    wait_until("an empty scope", || daemon.value("homing_processes{scope=\"a\"}") == Some(0.0));
    let (descriptors, resident) = usage(daemon.child.id());
    assert!(descriptors <= most.0 + 32, "{descriptors} descriptors, {} before", most.0);
    assert!(resident <= most.1 + 32 * 1024, "{resident} KB, {} before", most.1);
    daemon.signal("TERM");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    daemon.errors.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("panicked"), "{rest}");
}

#[test]
fn a_signal_while_it_begins_ends_it_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("homing.toml");
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let child =
        Command::new(PROGRAM).args(["daemon", "--config"]).arg(&file).stderr(Stdio::piped()).spawn().unwrap();
    let mut daemon = Daemon::of(child);
    // Opens once the daemon reads, which it does until the text has come.
    let mut pipe = None;
    wait_until("reading the configuration", || {
        let open = File::options().write(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&file);
        pipe = open.ok();
        pipe.is_some()
    });
    daemon.signal("TERM");
    pipe.take().unwrap().write_all(b"source = \"none\"\n[scope.a]\ncgroup = \"/nowhere\"\n").unwrap();
    daemon.says("homing daemon: ends");
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
}

#[test]
fn bad_configurations_are_refused_before_anything_begins() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("homing.toml");
    let check = |text: &str| {
        fs::write(&file, text).unwrap();
        let output =
            Command::new(PROGRAM).args(["daemon", "--check", "--config"]).arg(&file).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check("[scope.a]\ncgroup = \"a\"").0, Some(0));
    for (text, named) in [
        ("[scope.a]\ncgroup = \"a\"\npolicy = \"magic\"", "magic"),
        ("[scope.a]\ncgroup = \"a\"\npolicy = \"best-static\"", "future"),
        ("[scope.a]\ncgroup = \"a\"\nspeed = 1", "speed"),
        ("[scope.a]\ncgroup = \"a\"\nset = [\"homing.magic=1\"]", "magic"),
        ("machine = \"magic\"\n[scope.a]\ncgroup = \"a\"", "magic"),
    ] {
        let (code, errors) = check(text);
        assert!(code == Some(2) && errors.contains(named), "{text}: {code:?} {errors}");
    }
}
