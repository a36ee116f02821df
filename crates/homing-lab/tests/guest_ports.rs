//! The guest's first process finds its ports when they come late, as on a busy host: `lab/guest/ports.c` by itself, in
//! directories that become step by step what the kernel's would.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Opens a port and writes a word to it.
const MAIN: &str = "#include <unistd.h>\n#include \"init.h\"\n\
    void note(const char *what, const char *which) { (void)what, (void)which; }\n\
    int main(void) { int port = open_port(\"homing.control\"); return port < 0 || write(port, \"here\", 4) != 4; }\n";

/// Compiles `ports.c` for these directories; `None` where there is no compiler.
fn compile(folder: &Path, ports: &Path, devices: &Path) -> Option<PathBuf> {
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("SKIPPED 1 test: there is no gcc");
        return None;
    }
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/guest");
    let (source, program) = (folder.join("main.c"), folder.join("program"));
    fs::write(&source, MAIN).unwrap();
    let define = |name: &str, directory: &Path| format!("-D{name}=\"{}\"", directory.display());
    let compiled = Command::new("gcc")
        .args(["-std=gnu11", "-Wall", "-Werror", &define("PORTS", ports), &define("DEVICES", devices), "-I"])
        .args([&guest, &source, &guest.join("ports.c"), Path::new("-o"), &program])
        .status();
    assert!(compiled.unwrap().success());
    Some(program)
}

/// Takes one more step of the directories, after several looks at them as they are, none of which has ended the wait.
fn step(guest: &mut Child, take: impl FnOnce()) {
    sleep(Duration::from_millis(100));
    assert_eq!(guest.try_wait().unwrap(), None, "it waits");
    take();
}

#[test]
fn a_port_that_comes_late_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (ports, devices) = (folder.path().join("ports"), folder.path().join("devices"));
    let Some(program) = compile(folder.path(), &ports, &devices) else { return };
    fs::create_dir(&devices).unwrap();
    let mut guest = Command::new(program).spawn().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    step(&mut guest, || fs::create_dir_all(ports.join("vport0p1")).unwrap());
    // The console's port has no name, and others come first.
    step(&mut guest, || write("ports/vport0p1/name", "homing.stdin\n"));
    step(&mut guest, || fs::create_dir(ports.join("vport0p2")).unwrap());
    step(&mut guest, || write("ports/vport0p2/name", "homing.control\n"));
    step(&mut guest, || write("devices/vport0p2", ""));
    let begin = Instant::now();
    let status = loop {
        match guest.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() < Duration::from_secs(60) => sleep(Duration::from_millis(10)),
            None => {
                guest.kill().unwrap();
                panic!("the port was not found");
            }
        }
    };
    assert!(status.success());
    assert_eq!(fs::read(devices.join("vport0p2")).unwrap(), b"here");
}
