//! The recorder that is compiled and linked into the program (`docs/recording-tsan.md`).

use crate::error::RecordError;
use crate::recorders::{Recorder, Request, Started};
use crate::watch::Watch;
use crate::windows::Windows;
use homing_linux::channel::{Capacity, Channel};
use homing_linux::follow::Door;
use object::{Object, ObjectSymbol, ReadCache};
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

pub(crate) const ENTRY: Recorder = Recorder {
    name: "tsan",
    summary: "programs compiled with `homing cflags` and linked with `homing ldflags`",
    follows: false,
    has_windows: true,
    nothing: "the program holds no recording runtime: compile it \
              with `homing cflags` and link it with `homing ldflags`",
    suits: Some(|program| is_linked_with(program) && !has_records(program)),
    lacks: |_| Ok(()),
    start,
};

pub(crate) fn start(
    request: &Request,
    program: &Path,
    _door: Option<&Door>,
    _watch: &Arc<dyn Watch>,
) -> Result<Started, RecordError> {
    let mut command = Command::new(program);
    command.args(&request.command[1..]);
    for (name, function) in REGION_ENV.iter().zip([&request.region.from, &request.region.to]) {
        match function {
            Some(function) => command.env(name, function),
            None => command.env_remove(name),
        };
    }
    match request.windows.as_ref().and_then(Windows::mark) {
        Some(name) => command.env(WINDOW_MARK_ENV, format!("mark:{name}")),
        None => command.env_remove(WINDOW_MARK_ENV),
    };
    match request.only_program {
        true => command.env(ONLY_PROGRAM_ENV, "1"),
        false => command.env_remove(ONLY_PROGRAM_ENV),
    };
    let channel = Channel::new(CAPACITY)?;
    request.windows.iter().for_each(|_| Windows::close(&channel));
    Ok(Started { command, channel, messages: None })
}

/// Of the channel to a program that records itself.
pub(crate) const CAPACITY: Capacity = Capacity { segments: 256, segment_words: 1 << 15 };

/// The environment variable that says that what the C library does for the program is left out.
const ONLY_PROGRAM_ENV: &str = "HOMING_ONLY_PROGRAM";

/// The environment variable that says which mark windows go by.
const WINDOW_MARK_ENV: &str = "HOMING_WINDOW_MARK";

/// The environment variables that name the functions that begin and end the region of interest.
const REGION_ENV: [&str; 2] = ["HOMING_FROM", "HOMING_TO"];

/// Whether clang's pass has put records into the program: each file that it compiles has a function that defines them.
pub(crate) fn has_records(program: &Path) -> bool {
    let defines = |file: File| {
        let cache = ReadCache::new(file);
        object::File::parse(&cache)
            .is_ok_and(|object| object.symbols().any(|symbol| symbol.name() == Ok(DEFINES_RECORDS)))
    };
    File::open(program).is_ok_and(defines)
}

/// The name of that function (`recorders/clang/pass.cpp`).
const DEFINES_RECORDS: &str = "homing_blocks";

/// Whether the program is linked with this recorder's runtime, which says so in a message of its own.
pub(crate) fn is_linked_with(program: &Path) -> bool {
    let marker = b"homing: this program is linked with the homing runtime";
    std::fs::read(program).is_ok_and(|bytes| memchr::memmem::find(&bytes, marker).is_some())
}
