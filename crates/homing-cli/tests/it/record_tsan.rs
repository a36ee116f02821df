//! The runtime that compiler-instrumented programs record with, seen from the wire: what each compiler's code sends is
//! exact, ordered by the edges that were sent, and survives every way of ending.

use crate::tsan::build;
use crate::tsan::build::Compiler;
use crate::tsan::races;
use crate::tsan::wire;
use crate::tsan::wire::{Item, Recording};
use homing_linux::channel::{Capacity, Flavour};
use std::collections::BTreeMap;
use std::process::Command;

const CAPACITY: Capacity = Capacity { segments: 16, segment_words: 8192 };

/// Names and results of `constructs.c`, where there is one result.
const CONSTRUCTS: &[(&str, Option<&str>)] = &[
    ("parallel_for", Some("130816")),
    ("dynamic_for", Some("130816")),
    ("barrier", Some("19")),
    ("reduction", Some("130816")),
    ("critical", Some("130816")),
    ("ordered", None),
    ("single", Some("7")),
    ("sections", Some("3")),
    ("tasks", Some("499")),
    ("depend", None),
    ("taskloop", Some("130816")),
    ("task_barrier", Some("496")),
    ("locks", Some("130816")),
    ("nested", Some("4032")),
    ("mutexes", Some("300")),
    ("conditions", None),
    ("rwlocks", Some("150")),
    ("barriers", Some("190")),
    ("semaphores", Some("150")),
    ("spins", Some("150")),
    ("onces", Some("42")),
    ("flags", None),
    ("memory", Some("1")),
];

fn run(program: &std::path::Path, name: &str, capacity: Capacity) -> Recording {
    let mut command = Command::new(program);
    command
        .arg(name)
        .env("OMP_NUM_THREADS", "3")
        .env("OMP_WAIT_POLICY", "passive")
        .env("OMP_SCHEDULE", "dynamic,4");
    wire::record(&mut command, capacity)
}

/// Every construct computes what it computes plainly, and its recorded edges order all conflicting references.
fn constructs_are_ordered(compiler: Compiler) {
    if !compiler.there() {
        return;
    }
    let program = build::program(compiler, "constructs.c", true);
    let plain = build::program(compiler, "constructs.c", false);
    for &(name, expected) in CONSTRUCTS {
        let recording = run(&program, name, CAPACITY);
        assert_eq!(recording.flavour, Some(Flavour::Parallel));
        assert_eq!(recording.code, Some(0), "{compiler:?} {name}: {}", recording.errors);
        let result = match expected {
            Some(result) => result.to_string(),
            None => {
                let output = Command::new(&plain).arg(name).env("OMP_NUM_THREADS", "3").output().unwrap();
                String::from_utf8_lossy(&output.stdout).trim().to_string()
            }
        };
        assert_eq!(recording.output, result, "{compiler:?} {name}");
        assert!(recording.streams.len() >= 2, "{compiler:?} {name}: only one thread was recorded");
        // An atomic's own references are not ordered: a relaxed one has no edges, others have them beside the
        // reference.
        let allowed = usize::from(["reduction", "flags"].contains(&name));
        // libomp gives a finished task's memory to another thread's next task and tells its tools nothing of that. It
        // does so in some runs only; a missing edge of the program's own shows in all.
        let again = || (0..2).map(|_| races::races(&run(&program, name, CAPACITY)));
        let first = races::races(&recording);
        let fewest = std::iter::once(first).chain(again()).find(|races| races.len() <= allowed);
        let races = fewest.unwrap_or_else(|| races::races(&recording));
        assert!(races.len() <= allowed, "{compiler:?} {name}: not ordered: {races:?}");
    }
    let racy = run(&program, "racy", CAPACITY);
    assert!(!races::races(&racy).is_empty(), "{compiler:?}: the race of `racy` is not seen");
}

#[test]
fn constructs_of_gcc_are_ordered() {
    constructs_are_ordered(Compiler::Gcc);
}

#[test]
fn constructs_of_clang_are_ordered() {
    constructs_are_ordered(Compiler::Clang);
}

#[test]
fn constructs_of_the_clang_pass_are_ordered() {
    constructs_are_ordered(Compiler::ClangPass);
}

/// How often each element of the array `counted` of behaviours.c was written: the longest row of neighbouring longs.
fn fills(recording: &Recording) -> usize {
    let mut writes = BTreeMap::<u64, usize>::new();
    for item in recording.items() {
        if let Item::Reference { address, bytes: 8, write: true } = item {
            *writes.entry(*address).or_default() += 1;
        }
    }
    let mut longest = Vec::new();
    let (mut row, mut last) = (Vec::new(), 0);
    for (&address, &count) in &writes {
        if address != last + 8 {
            row.clear();
        }
        row.push(count);
        last = address;
        if row.len() > longest.len() {
            longest.clone_from(&row);
        }
    }
    let (length, row) = (longest.len(), longest);
    assert!(length >= 10_000, "the array has {length} elements");
    // Neighbours of the array at either end may belong to the row.
    let middle = row[length / 2];
    assert!(
        row.iter().filter(|&&count| count == middle).count() >= 10_000,
        "a write of {middle} each is missing"
    );
    middle
}

#[test]
fn nothing_written_before_the_end_is_lost() {
    for compiler in [Compiler::Gcc, Compiler::Clang, Compiler::ClangPass].into_iter().filter(|c| c.there()) {
        let program = build::program(compiler, "behaviours.c", true);
        for (name, code, signal) in [
            ("ends", Some(0), None),
            ("exits", Some(0), None),
            ("crashes", None, Some(11)),
            ("killed", None, Some(9)),
            ("forks", Some(0), None),
        ] {
            let recording = run(&program, name, CAPACITY);
            assert_eq!((recording.code, recording.signal), (code, signal), "{name}: {}", recording.errors);
            assert_eq!(fills(&recording), 1, "{compiler:?} {name}");
            let forks =
                recording.items().filter(|i| matches!(i, Item::Fork { process } if *process > 1)).count();
            assert_eq!(forks, usize::from(name == "forks"));
            // The child's child is counted, too.
            assert_eq!(recording.children, if name == "forks" { 2 } else { 0 });
        }
    }
}

#[test]
fn more_threads_than_segments_do_not_stop() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "crowd", Capacity { segments: 4, segment_words: 4096 });
    assert_eq!(recording.code, Some(0), "{}", recording.errors);
    assert_eq!(recording.streams.len(), 41);
    assert_eq!(fills(&recording), 80);
    let ends = recording.items().filter(|i| **i == Item::End).count();
    let joins = recording.items().filter(|i| matches!(i, Item::Join { .. })).count();
    assert_eq!((ends, joins), (40, 40));
}

#[test]
fn mappings_are_seen() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "maps", CAPACITY);
    let items: Vec<&Item> = recording.items().collect();
    let (old, new) = items
        .iter()
        .find_map(|item| match item {
            Item::Mremap { old, old_length: 0x10000, new, new_length: 0x40000 } => Some((*old, *new)),
            _ => None,
        })
        .expect("mremap");
    assert!(items.iter().any(|i| matches!(i, Item::Mmap { address, length: 0x10000 } if *address == old)));
    assert!(items.iter().any(|i| matches!(i, Item::Munmap { address, length: 0x40000 } if *address == new)));
    // memset in pieces of 32 bytes.
    let pieces = items.iter().take_while(|i| !matches!(i, Item::Mremap { .. })).filter(|item| {
        let Item::Reference { address, bytes: 32, write: true } = item else { return false };
        (old..old + 0x10000).contains(address)
    });
    assert_eq!(pieces.count(), 0x10000 / 32);
    // The block of 1 MiB is a mapping of its own, which malloc makes and free removes.
    let block = items.iter().find_map(|i| match i {
        Item::Alloc { address, size: 0x100000, .. } => Some(*address),
        _ => None,
    });
    let block = block.expect("malloc");
    let holds = |address: u64, length: u64| (address..address + length).contains(&block);
    assert!(items.iter().any(|i| matches!(i, Item::Mmap { address, length } if holds(*address, *length))));
    assert!(items.iter().any(|i| matches!(i, Item::Munmap { address, length } if holds(*address, *length))));
    assert!(recording.names.values().any(|name| name == "[stack]"), "the mappings at the start");
}

#[test]
fn allocations_have_call_sites() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "allocations", CAPACITY);
    for (function, size) in [(0, 1234), (1, 100), (2, 300), (3, 128)] {
        let (address, site) = recording
            .items()
            .find_map(|i| match i {
                Item::Alloc { function: f, address, size: s, site } if (*f, *s) == (function, size) => {
                    Some((*address, *site))
                }
                _ => None,
            })
            .unwrap_or_else(|| panic!("no allocation of {size} by function {function}"));
        let name = &recording.names[&site];
        let own = |frame: &&str| frame.contains("/gcc-behaviours.c-tsan") && frame.contains("+0x");
        // The function that allocates, its caller, and main.
        assert!(name.split(" < ").take_while(own).count() >= 2, "{name}");
        assert!(recording.items().any(|i| *i == Item::Free { address }));
    }
}

#[test]
fn signal_handlers_do_not_break_the_stream() {
    for compiler in [Compiler::Gcc, Compiler::Clang, Compiler::ClangPass].into_iter().filter(|c| c.there()) {
        let program = build::program(compiler, "behaviours.c", true);
        let recording = run(&program, "handlers", Capacity { segments: 16, segment_words: 4096 });
        assert_eq!(recording.code, Some(0), "{}", recording.errors);
        // Decoding found whole messages, the interrupted code lost no write, and the handlers' are there or counted.
        assert!(fills(&recording) >= 1);
        let handled: usize = recording.output.parse().unwrap();
        let by_handlers =
            recording.items().filter(|i| matches!(i, Item::Reference { bytes: 4, write: true, .. })).count();
        let lost: u64 =
            recording.items().map(|i| if let Item::Lost { count } = i { *count } else { 0 }).sum();
        assert!(handled >= 10 && by_handlers <= 17 * handled, "{by_handlers} of {handled} calls");
        assert!(by_handlers + lost as usize >= 17 * handled, "{by_handlers} of {handled} calls, {lost} lost");
    }
}

#[test]
fn handlers_that_jump_out_of_themselves_do_not_end_the_recording() {
    for compiler in [Compiler::Gcc, Compiler::Clang, Compiler::ClangPass].into_iter().filter(|c| c.there()) {
        let program = build::program(compiler, "behaviours.c", true);
        let recording = run(&program, "jumps", CAPACITY);
        assert_eq!((recording.code, recording.output.as_str()), (Some(0), "400"), "{}", recording.errors);
        assert_eq!(fills(&recording), 1, "{compiler:?}: the loop after the jumps");
    }
}

#[test]
fn a_signal_that_comes_before_a_thread_has_begun_does_not_break_its_stream() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "early", CAPACITY);
    assert_eq!(recording.code, Some(0), "{}", recording.errors);
    assert_eq!(fills(&recording), 31);
    // Each announced thread made its reference, whoever ran on it before.
    let joined =
        recording.items().filter_map(|i| if let Item::Join { thread } = i { Some(*thread) } else { None });
    let joined: Vec<u32> = joined.collect();
    assert_eq!(joined.len(), 30);
    let own = |thread: &u32| {
        let write = |i: &Item| matches!(i, Item::Reference { bytes: 8, write: true, .. });
        recording.streams.get(thread).is_some_and(|items| items.iter().any(write))
    };
    assert!(joined.iter().all(own));
}

#[test]
fn what_libc_frees_of_ended_threads_is_no_loss() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "detached", CAPACITY);
    assert_eq!(recording.code, Some(0), "{}", recording.errors);
    assert_eq!((fills(&recording), recording.streams.len()), (1, 201));
    assert!(!recording.items().any(|i| matches!(i, Item::Lost { .. })));
}

#[test]
fn programs_that_close_all_descriptors_are_recorded_on() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let recording = run(&program, "closes", CAPACITY);
    assert_eq!((recording.code, recording.output.as_str()), (Some(0), "0"), "{}", recording.errors);
    assert_eq!(fills(&recording), 21);
    assert_eq!(recording.errors, "");
    // Past libc they can be lost; then nothing is written into what is there instead.
    let recording = run(&program, "takes", CAPACITY);
    assert_eq!((recording.code, recording.output.as_str()), (Some(0), "0"), "{}", recording.errors);
    let messages = recording.errors.matches("has closed the recorder's descriptors").count();
    assert_eq!(messages, 1, "{}", recording.errors);
}

#[test]
fn cxx_threads_atomics_and_new() {
    for compiler in
        [Compiler::Gxx, Compiler::ClangXx, Compiler::ClangXxPass].into_iter().filter(|c| c.there())
    {
        let program = build::program(compiler, "threads.cpp", true);
        let recording = run(&program, "", CAPACITY);
        assert_eq!((recording.code, recording.output.as_str()), (Some(0), "1015253"), "{}", recording.errors);
        assert_eq!(recording.streams.len(), 4);
        let news =
            recording.items().filter(|i| matches!(i, Item::Alloc { function: 4, size: 72, .. })).count();
        assert_eq!(news, 300, "{compiler:?}: one `new Square` each");
        assert!(recording.items().any(|i| matches!(i, Item::Alloc { function: 5, size: 800, .. })));
        // The atomic itself: its reference comes before the edges of the operation.
        let races = races::races(&recording);
        assert!(races.len() <= 1, "{compiler:?}: not ordered: {races:?}");
    }
}

#[test]
fn fortran_openmp() {
    if !Compiler::Gfortran.there() {
        return;
    }
    let program = build::program(Compiler::Gfortran, "openmp.f90", true);
    let recording = run(&program, "", CAPACITY);
    assert_eq!(
        (recording.code, recording.output.as_str()),
        (Some(0), "2670668000. 100"),
        "{}",
        recording.errors
    );
    let arrays: Vec<u64> = recording
        .items()
        .filter_map(|i| match i {
            Item::Alloc { address, size: 16000, .. } => Some(*address),
            _ => None,
        })
        .collect();
    assert_eq!(arrays.len(), 2);
    for array in arrays {
        let inside = |a: u64| (array..array + 16000).contains(&a);
        assert_eq!((recording.count(true, inside), recording.count(false, inside)), (2000, 2000));
    }
    assert!(races::races(&recording).is_empty());
}

#[test]
fn without_a_wire_the_program_runs_as_ever() {
    let program = build::program(Compiler::Gcc, "constructs.c", true);
    let output = Command::new(&program).arg("tasks").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"499\n".as_slice()));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_shared_runtime_serves_instrumented_libraries() {
    let flags = build::homing().args(["ldflags", "--shared", "--json"]).output().unwrap();
    let flags: Vec<String> = serde_json::from_slice(&flags.stdout).unwrap();
    let (object, program) =
        (build::directory().join("shared.o"), build::directory().join("shared-constructs"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tsan/constructs.c");
    let compile = Command::new("gcc")
        .args(["-O2", "-fopenmp", "-fsanitize=thread", "-fPIC", "-c", source, "-o"])
        .arg(&object)
        .status();
    let link = Command::new("gcc").arg(&object).args(&flags).arg("-fopenmp").arg("-o").arg(&program).status();
    assert!(compile.unwrap().success() && link.unwrap().success());
    let recording = run(&program, "parallel_for", CAPACITY);
    assert_eq!((recording.code, recording.output.as_str()), (Some(0), "130816"), "{}", recording.errors);
    assert!(races::races(&recording).is_empty());
}

#[test]
fn only_the_first_process_records() {
    let program = build::program(Compiler::Gcc, "behaviours.c", true);
    let script = format!("{0} ends; {0} ends", program.display());
    let recording = wire::record(Command::new("sh").args(["-c", &script]), CAPACITY);
    assert_eq!(fills(&recording), 1);
    assert!(recording.errors.contains("another process is being recorded"), "{}", recording.errors);
}

#[test]
fn linking_with_libtsan_is_refused() {
    let object = build::directory().join("twice.o");
    let program = build::directory().join("twice");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tsan/behaviours.c");
    let flags = build::homing().args(["ldflags", "--json"]).output().unwrap();
    let flags: Vec<String> = serde_json::from_slice(&flags.stdout).unwrap();
    let gcc = |arguments: &[&str]| Command::new("gcc").args(arguments).args(&flags).output().unwrap();
    let compile = ["-O2", "-fsanitize=thread", "-c", source, "-o", object.to_str().unwrap()];
    assert!(Command::new("gcc").args(compile).status().unwrap().success());
    let linked = gcc(&["-fsanitize=thread", object.to_str().unwrap(), "-o", program.to_str().unwrap()]);
    if linked.status.success() {
        let recording = run(&program, "ends", CAPACITY);
        assert!(recording.errors.contains("linked with -fsanitize=thread"), "{}", recording.errors);
        assert_eq!(recording.code, Some(3));
    }
}

/// Without `--recorder` a program is recorded by the one that it was built for.
#[test]
fn the_recorder_is_the_one_that_the_program_was_built_for() {
    let directory = tempfile::tempdir().unwrap();
    for (compiler, recorder) in [(Compiler::Gcc, "tsan"), (Compiler::ClangPass, "clang")] {
        if !compiler.there() {
            continue;
        }
        let trace = directory.path().join(recorder);
        let mut record = build::homing();
        record.args(["record", "--quiet", "-o"]).arg(&trace).arg("--");
        record.arg(build::program(compiler, "windows.c", true)).arg("1");
        let output = record.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(trace).unwrap();
        assert_eq!(homing_core::trace::Trace::open(&bytes).unwrap().header().recorder, recorder);
    }
}
