use super::*;
use crate::host::tests::snapshot;
use crate::targets::Choice;
use std::process::{Child, Command, Stdio};

/// A process that maps a file in memory as shared until its input ends.
fn mapper(path: &std::path::Path) -> Child {
    let script = "import mmap, sys\nf = open(sys.argv[1], 'r+b')\nm = mmap.mmap(f.fileno(), 0)\nm[0] = 1\n\
                  print('r', flush=True)\nsys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", script, path.to_str().unwrap()])
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
        assert_eq!(marked.values().map(Vec::len).sum::<usize>(), 1, "once, whoever maps it: {marked:?}");
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
