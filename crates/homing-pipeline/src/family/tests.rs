//! Against a model: every reference of every process, with its page looked up by hand.

use super::*;
use homing_trace::{Access, AllocFunction, BlockDef, Kind, Step, SyncOp};
use std::path::Path;

const PAGE: u64 = 4096;
const SHARED: u16 = 0x01;
const PRIVATE: u16 = 0x02;
const FIXED: u16 = 0x10;
const ANONYMOUS: u16 = 0x20;
/// A page of the first process that its children have, too; one that each has of its own.
const COMMON: u64 = 0x7000;
const OWN: u64 = 0x100;

type Writer = TraceWriter<Vec<u8>>;

fn writer(process: u32) -> Writer {
    let mut header = Header::new("test", "1");
    header.set_process(process);
    header.command = vec![format!("program-{process}")];
    header.set_child(process > 1);
    TraceWriter::new(Vec::new(), &header).unwrap()
}

fn map(flags: u16, page: u64, pages: u64, name: NameId) -> Event {
    let (address, length) = (page * PAGE, pages * PAGE);
    Event::Mmap { protection: 3, flags, address, length, offset: 0, name }
}

fn writes(writer: &mut Writer, thread: u32, page: u64, count: u64) {
    for i in 0..count {
        writer.reference(Thread(thread), 0, page * PAGE + i % 512 * 8, Kind::write(8)).unwrap();
    }
    writer.turn(Thread(thread), count).unwrap();
}

fn save(writer: Writer, folder: &Path, name: &str) -> TraceFile {
    let path = folder.join(name);
    std::fs::write(&path, writer.finish(Summary::default()).unwrap().0).unwrap();
    TraceFile::open(&path).unwrap()
}

/// What a trace holds, thread by thread: addresses by thread, and all events.
#[derive(Default)]
struct Held {
    frames: Vec<u64>,
    references: Vec<(u32, u64)>,
    events: Vec<(u32, Event)>,
}

impl Visitor for Held {
    fn turn(&mut self, turn: Turn<'_>) {
        for &dense in turn.addresses {
            let address = self.frames[(dense >> 12) as usize] * PAGE + dense % PAGE;
            self.references.push((turn.thread.0, address));
        }
    }

    fn event(&mut self, thread: Thread, _time: Time, event: &Event) {
        self.events.push((thread.0, event.clone()));
    }
}

fn joined(files: &[TraceFile], folder: &Path) -> (Held, Joined, Header) {
    let (bytes, joined) = join(files, Vec::new(), &Progress::default()).unwrap();
    let path = folder.join("joined.trace");
    std::fs::write(&path, bytes).unwrap();
    let file = TraceFile::ordered(&path, &Progress::default()).unwrap();
    let trace = file.trace().unwrap();
    assert!(trace.whole() && trace.ordered());
    let mut held = Held { frames: trace.frames().to_vec(), ..Held::default() };
    trace.visit_all(&mut held).unwrap();
    let header = trace.header().clone();
    (held, joined, header)
}

/// The process that forks: it maps shared memory, fills it, forks two.
fn parent() -> Writer {
    let mut parent = writer(1);
    parent.event(Thread(0), &map(SHARED | ANONYMOUS, COMMON, 4, NameId::NONE)).unwrap();
    writes(&mut parent, 0, COMMON, 10);
    writes(&mut parent, 0, OWN, 5);
    parent.event(Thread(0), &Event::Fork { process: 2 }).unwrap();
    parent.event(Thread(0), &Event::Fork { process: 3 }).unwrap();
    parent
}

fn child(process: u32, page: u64) -> Writer {
    let mut child = writer(process);
    child.event(Thread(0), &map(SHARED | ANONYMOUS, COMMON, 4, NameId::NONE)).unwrap();
    child.event(Thread(0), &map(PRIVATE | ANONYMOUS, OWN, 4, NameId::NONE)).unwrap();
    writes(&mut child, 0, page, 7);
    writes(&mut child, 0, OWN, 3);
    child
}

fn own(process: u64, page: u64) -> u64 {
    (process << 48) + page * PAGE
}

#[test]
fn forked_processes_share_what_they_inherit_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        save(parent(), folder.path(), "1"),
        // Given before the one that comes first in time: the order of files does not matter.
        save(child(3, COMMON + 1), folder.path(), "3"),
        save(child(2, COMMON), folder.path(), "2"),
    ];
    let (held, joined, header) = joined(&files, folder.path());
    assert_eq!((joined.forked, joined.shared, joined.summary.references), (2, 1, 35));
    assert_eq!(related(&files, 1).unwrap(), [0, 1, 2]);
    assert_eq!((header.processes(), header.is_child(), header.process()), (3, false, None));
    let of =
        |thread: u32| held.references.iter().filter(move |r| r.0 == thread).map(|r| r.1).collect::<Vec<_>>();
    let pages = |thread: u32| of(thread).into_iter().map(|address| address / PAGE * PAGE).collect::<Vec<_>>();
    let common = pages(0)[0];
    assert_ne!(common, COMMON * PAGE, "in a part of its own");
    assert_eq!(pages(0), [[common; 10].to_vec(), [own(0, OWN); 5].to_vec()].concat());
    assert_eq!(pages(1), [[common + PAGE; 7].to_vec(), [own(1, OWN); 3].to_vec()].concat());
    assert_eq!(pages(2), [[common; 7].to_vec(), [own(2, OWN); 3].to_vec()].concat());
    assert_eq!(of(2)[..3], [common, common + 8, common + 16], "offsets in pages stay");
    // A fork begins the first thread of the child, and so comes before all of its references.
    for thread in [1, 2] {
        let start = Event::ThreadStart { thread: Thread(thread), creator: Thread(0) };
        assert_eq!(held.events.iter().filter(|event| **event == (0, start.clone())).count(), 1);
    }
    assert!(held.references[..15].iter().all(|r| r.0 == 0), "{:?}", held.references);
}

#[test]
fn a_page_is_that_of_the_parent_until_the_child_writes() {
    let folder = tempfile::tempdir().unwrap();
    let reads = |writer: &mut Writer, page: u64| {
        writer.reference(Thread(0), 0, page * PAGE, Kind::read(8)).unwrap();
        writer.turn(Thread(0), 1).unwrap();
    };
    let child = |replaced: bool| {
        let mut header = Header::new("test", "1");
        header.set_process(2);
        header.set_child(true);
        if replaced {
            header.more.insert("replaced".into(), serde_json::json!([]));
        }
        let mut child = TraceWriter::new(Vec::new(), &header).unwrap();
        child.event(Thread(0), &map(PRIVATE | ANONYMOUS, OWN, 4, NameId::NONE)).unwrap();
        reads(&mut child, OWN);
        writes(&mut child, 0, OWN, 1);
        reads(&mut child, OWN);
        child.event(Thread(0), &map(PRIVATE | ANONYMOUS, OWN + 8, 1, NameId::NONE)).unwrap();
        reads(&mut child, OWN + 8);
        child
    };
    let pages = |replaced: bool| {
        let files = [save(parent(), folder.path(), "1"), save(child(replaced), folder.path(), "2")];
        let (held, ..) = joined(&files, folder.path());
        let of_child = held.references.iter().filter(|r| r.0 == 1).map(|r| r.1).collect::<Vec<_>>();
        (of_child, related(&files, 0).unwrap())
    };
    let own = |process: u64| own(process, OWN);
    assert_eq!(pages(false), (vec![own(0), own(1), own(1), own(1) + 8 * PAGE], vec![0, 1]));
    // Another program has another memory.
    assert_eq!(pages(true), (vec![own(1), own(1), own(1), own(1) + 8 * PAGE], vec![0]));
}

#[test]
fn files_are_one_memory_but_for_copies_that_a_process_may_write() {
    let folder = tempfile::tempdir().unwrap();
    let process = |id: u32, flags: u16, protection: u32| {
        let mut writer = writer(id);
        let name = writer.name("/dev/shm/queue");
        let address = (0x5000 + u64::from(id)) * PAGE;
        let event = Event::Mmap { protection, flags, address, length: 2 * PAGE, offset: PAGE, name };
        writer.event(Thread(0), &event).unwrap();
        writes(&mut writer, 0, address / PAGE, 1);
        writer
    };
    let all = [(1, SHARED, 3), (2, SHARED, 1), (3, PRIVATE, 1), (4, PRIVATE, 3)];
    let files = all
        .map(|(id, flags, protection)| save(process(id, flags, protection), folder.path(), &id.to_string()));
    let (held, joined, header) = joined(&files, folder.path());
    let page = |thread: u32| held.references.iter().find(|r| r.0 == thread).unwrap().1;
    assert_eq!((page(1), page(2)), (page(0), page(0)));
    assert_eq!(page(3), own(3, 0x5004), "a private copy");
    assert_eq!((joined.forked, joined.shared), (0, 1));
    // Nobody sees what a private copy is changed to: the last one shares nothing.
    assert_eq!([0, 2, 3].map(|of| related(&files, of).unwrap()), [vec![0, 1, 2], vec![0, 1, 2], vec![3]]);
    assert!(header.is_child(), "nobody here made them: who did may share their memory");
}

#[test]
fn what_one_unmaps_the_others_keep_and_new_memory_there_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = parent();
    first.event(Thread(0), &Event::Munmap { address: COMMON * PAGE, length: 4 * PAGE }).unwrap();
    first.event(Thread(0), &map(PRIVATE | ANONYMOUS, COMMON, 4, NameId::NONE)).unwrap();
    writes(&mut first, 0, COMMON, 2);
    first.event(Thread(0), &map(SHARED | ANONYMOUS | FIXED, COMMON, 4, NameId::NONE)).unwrap();
    writes(&mut first, 0, COMMON, 2);
    let mut second = child(2, COMMON);
    second
        .event(
            Thread(0),
            &Event::Mremap {
                old: COMMON * PAGE,
                old_length: 4 * PAGE,
                new: 0x9000 * PAGE,
                new_length: 4 * PAGE,
            },
        )
        .unwrap();
    writes(&mut second, 0, 0x9001, 1);
    let files = [save(first, folder.path(), "1"), save(second, folder.path(), "2")];
    let (held, ..) = joined(&files, folder.path());
    let of = |thread: u32| held.references.iter().filter(move |r| r.0 == thread).map(|r| r.1 / PAGE * PAGE);
    let (zero, one): (Vec<u64>, Vec<u64>) = (of(0).collect(), of(1).collect());
    assert_eq!(zero[15..17], [own(0, COMMON); 2]);
    assert!(zero[17] == zero[18] && zero[17] != zero[0] && zero[17] != own(0, COMMON), "{zero:x?}");
    assert_eq!(one[10], one[0] + PAGE, "it has moved: it is the same memory");
}

#[test]
fn names_threads_and_addresses_of_events_are_those_of_the_joined_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut second = child(2, COMMON);
    second.name("not in the first");
    let (site, mark) = (second.name("make (a.c:3)"), second.name("step"));
    let address = OWN * PAGE;
    for event in [
        Event::ThreadStart { thread: Thread(1), creator: Thread(0) },
        Event::Alloc { function: AllocFunction::Malloc, address, size: 9, site },
        Event::Free { address },
        Event::Mark { number: 4, name: mark },
        Event::Sync { op: SyncOp::Release, object: 0x50, stamp: 8 },
        Event::KernelAccess { address: COMMON * PAGE, bytes: 8, write: true },
        Event::Fork { process: 99 },
    ] {
        second.event(Thread(0), &event).unwrap();
    }
    writes(&mut second, 1, OWN, 1);
    let files = [save(parent(), folder.path(), "1"), save(second, folder.path(), "2")];
    let (held, joined, _) = joined(&files, folder.path());
    let path = folder.path().join("joined.trace");
    let file = TraceFile::open(&path).unwrap();
    let trace = file.trace().unwrap();
    let named = |id: NameId| trace.names().get(id).to_owned();
    let has =
        |what: &dyn Fn(&Event) -> bool| held.events.iter().any(|(thread, event)| *thread == 1 && what(event));
    let there = own(1, OWN);
    assert!(has(&|e| *e == Event::ThreadStart { thread: Thread(2), creator: Thread(1) }));
    assert!(has(&|e| matches!(e, Event::Alloc { address, site, size: 9, .. }
        if *address == there && named(*site) == "make (a.c:3)")));
    assert!(has(&|e| *e == Event::Free { address: there }));
    assert!(has(&|e| matches!(e, Event::Mark { number: 4, name } if named(*name) == "step")));
    assert!(has(&|e| *e == Event::Sync { op: SyncOp::Release, object: own(1, 0) + 0x50, stamp: 8 }));
    let common = held.references[0].1 / PAGE * PAGE;
    assert!(has(&|e| *e == Event::KernelAccess { address: common, bytes: 8, write: true }));
    assert!(has(&|e| *e == Event::Fork { process: 99 }), "not one of those that are joined");
    assert_eq!(joined.summary.threads, 3);
}

#[test]
fn code_blocks_and_virtual_time_stay() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(1);
    let accesses = vec![Access::new(0, 8, false), Access::new(5, 4, true)];
    let block = writer.define(&BlockDef { accesses, instructions: 9 });
    for i in 0..1000 {
        writer.execute(Thread(0), block, &[OWN * PAGE + i * 8, COMMON * PAGE + i * 4]).unwrap();
        writer.turn(Thread(0), 2).unwrap();
    }
    writer.advance(Thread(0), 50).unwrap();
    writes(&mut writer, 0, OWN, 1);
    let files = [save(writer, folder.path(), "1"), save(child(2, COMMON), folder.path(), "2")];
    let steps = |trace: &Trace<'_>| {
        let mut steps = trace.thread_steps(Thread(0));
        let executions: u64 = steps
            .by_ref()
            .map(|step| match step {
                Step::Run { executions, .. } => executions,
                _ => 0,
            })
            .sum();
        (executions, steps.time(), steps.references())
    };
    let (held, ..) = joined(&files, folder.path());
    let file = TraceFile::open(&folder.path().join("joined.trace")).unwrap();
    assert_eq!(steps(&file.trace().unwrap()), steps(&files[0].trace().unwrap()));
    assert_eq!(steps(&file.trace().unwrap()), (1001, 9051, 2001));
    assert_eq!(held.references.iter().filter(|r| r.0 == 0).nth(3).unwrap().1, own(0, COMMON) + 4);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = |files: &[TraceFile]| match join(files, Vec::new(), &Progress::default()) {
        Ok(_) => panic!("joined"),
        Err(error) => error.to_string(),
    };
    let one = || save(parent(), folder.path(), "1");
    assert!(error(&[one()]).contains("expected 2 to 16384 traces to join, found 1"));
    let again = save(parent(), folder.path(), "again");
    assert!(error(&[one(), again]).contains("again is of process 1, as another of the traces"));
    let with = |change: fn(&mut Header), name: &str| {
        let mut header = Header::new("test", "1");
        change(&mut header);
        save(TraceWriter::new(Vec::new(), &header).unwrap(), folder.path(), name)
    };
    let windows = with(|header| drop(header.more.insert("windows".into(), "5ms/1s".into())), "w");
    assert!(error(&[one(), windows]).contains("w was recorded in windows"));
    let line = with(|header| header.filter = "line".into(), "l");
    assert!(error(&[one(), line]).contains("l was recorded with another --filter than"));
    let (bytes, _) =
        join(&[one(), save(child(2, COMMON), folder.path(), "2")], Vec::new(), &Progress::default()).unwrap();
    std::fs::write(folder.path().join("j"), bytes).unwrap();
    let joined = TraceFile::ordered(&folder.path().join("j"), &Progress::default()).unwrap();
    assert!(error(&[one(), joined]).contains("j is joined already"));
    let cut = std::fs::read(folder.path().join("1")).unwrap();
    std::fs::write(folder.path().join("cut"), &cut[..cut.len() - 40]).unwrap();
    let cut = TraceFile::open(&folder.path().join("cut")).unwrap();
    assert!(error(&[one(), cut]).contains("cut is damaged or was not finished"));
}
