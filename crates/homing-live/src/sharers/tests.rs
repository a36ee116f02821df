use super::*;
use crate::host::tests::snapshot;
use crate::targets::Choice;
use std::process::{Child, Command, Stdio};

/// A process that maps a file in memory as shared until its input ends.
fn mapper(path: &std::path::Path) -> Child {
    mapper_named(path, "mapper", 0)
}

/// The same with a name, and the number of the engine that started it.
fn mapper_named(path: &std::path::Path, name: &str, engine: u32) -> Child {
    let script = "import mmap, sys\nopen('/proc/self/comm', 'w').write(sys.argv[2])\n\
                  f = open(sys.argv[1], 'r+b')\nm = mmap.mmap(f.fileno(), 0)\nm[0] = 1\n\
                  print('r', flush=True)\nsys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", script, path.to_str().unwrap(), name])
        .env("HOMING_SCAN", engine.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 2];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    child
}

fn pid(child: &Child) -> Pid {
    Pid(child.id() as i32)
}

fn targets(children: &[&Child]) -> Targets {
    let pids = children.iter().map(|child| pid(child)).collect();
    let mut targets = Targets::new(Proc::default(), Choice::Processes { pids, children: false });
    targets.look(&snapshot(2).1).unwrap();
    targets
}

#[test]
fn memory_stays_while_a_process_outside_of_the_session_maps_it() {
    let file = tempfile::Builder::new().prefix("homing-shared").tempfile_in("/dev/shm").unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let (mut a, mut b) = (mapper(file.path()), mapper(file.path()));
    let path = file.path().to_str().unwrap();
    let mut sharers = Sharers::new();
    sharers.may_move_all = true;
    let one = targets(&[&a]);
    let held = |held: Option<Vec<(Object, Held)>>| {
        held.map(|all| all.into_iter().map(|(_, why)| why).collect::<Vec<_>>())
    };
    assert_eq!(held(sharers.follow(&one, true)), Some(vec![Held::Outside]));
    let staying = sharers.staying();
    let told = staying.iter().find(|staying| staying.memory == path).unwrap();
    assert_eq!((told.bytes, told.outside), (1 << 20, 1));
    assert!(told.process.as_deref().unwrap().contains(&format!("({})", b.id())), "{told:?}");
    assert!(sharers.to_mark(&one).is_empty(), "nothing is marked that may not move");

    let both = targets(&[&a, &b]);
    // Whose mappings this user may not see might map it.
    let unseen = |sharers: &Sharers| if sharers.unseen > 0 { vec![Held::NoRight] } else { Vec::new() };
    assert_eq!(
        held(sharers.follow(&both, true)),
        Some(unseen(&sharers)),
        "all who are seen belong to the session"
    );
    if sharers.may_move_all() {
        let marked = sharers.to_mark(&both);
        let users = marked.iter().map(|range| range.iter().map(|(pid, _)| *pid).collect::<Vec<_>>());
        let mut both = vec![pid(&a), pid(&b)];
        both.sort();
        assert_eq!(users.collect::<Vec<_>>(), [both], "once, with all that map it");
        assert!(sharers.staying().iter().all(|staying| staying.memory != path));
    }
    sharers.may_move_all = false;
    sharers.held.clear();
    assert_eq!(held(sharers.follow(&both, true)), Some(vec![Held::NoRight]));
    for child in [&mut a, &mut b] {
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn a_helper_whose_program_has_ended_is_none_of_those_outside() {
    let file = tempfile::Builder::new().prefix("homing-shared").tempfile_in("/dev/shm").unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let mut program = mapper(file.path());
    let me = std::process::id();
    let outside = |name: &str, engine: u32| {
        let mut helper = mapper_named(file.path(), name, engine);
        let mut sharers = Sharers::new();
        sharers.may_move_all = true;
        let held = sharers.follow(&targets(&[&program]), true).unwrap_or_default();
        drop(helper.stdin.take());
        helper.wait().unwrap();
        held.iter().any(|(_, why)| *why == Held::Outside)
    };
    assert!(!outside("homing-scan", me));
    assert!(outside("homing-scan", me + 1), "its name alone hides nobody");
    assert!(outside("another", me), "a program that left the session");
    drop(program.stdin.take());
    program.wait().unwrap();
}

#[test]
fn a_process_that_ends_while_it_is_looked_at_is_not_outside() {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    let root = tempfile::tempdir().unwrap();
    // No process has that number: the kernel compares no memory with it, as with one that has ended.
    let gone = root.path().join(i32::MAX.to_string());
    std::fs::create_dir(&gone).unwrap();
    let line = "1000-2000 rw-s 00000000 00:01 77 /dev/shm/x\n";
    let mut sharers = Sharers::new();
    let object = regions::backing(&Mapping::parse(line.trim()).unwrap(), 0).unwrap().object;
    sharers.ours.insert(object, Mapped { shared: true, ..Mapped::default() });
    let targets =
        Targets::new(Proc::at(root.path()), Choice::Processes { pids: Vec::new(), children: false });
    let maps = gone.join("maps");
    std::fs::write(&maps, line).unwrap();
    sharers.look_outside(&targets);
    assert_eq!(sharers.outside.len(), 1);
    std::fs::remove_file(&maps).unwrap();
    assert!(Command::new("mkfifo").arg(&maps).status().unwrap().success());
    let over = std::sync::Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let writer = std::thread::spawn(move || {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).open(&maps).unwrap().write_all(line.as_bytes()).unwrap();
        // Whoever reads after that finds nothing.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        while !is_over.load(Ordering::Relaxed) {
            drop(options.open(&maps));
            std::thread::yield_now();
        }
    });
    sharers.look_outside(&targets);
    assert!(sharers.outside.is_empty());
    over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}
