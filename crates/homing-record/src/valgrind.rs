//! The Valgrind recorder: where the tool is, how it is started, what its messages mean.

use crate::error::{RecordError, While};
use crate::go;
use crate::limits;
use crate::recorders::{Recorder, Request, Started};
use crate::tsan;
use crate::watch::Watch;
use homing_linux::channel::{Capacity, Channel};
use homing_linux::follow::Door;
use homing_linux::{libraries, program};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{mpsc, Arc, Mutex, PoisonError};
use std::time::Duration;

const TOOL: &str = "valgrind/homing-amd64-linux";
/// Blocks that a thread runs before the next one's turn. As cheap as Valgrind's own 100,000, and nearer to a parallel
/// machine (docs/recording.md has the measurement).
pub const DEFAULT_SLICE: u32 = 5000;

pub(crate) const ENTRY: Recorder = Recorder {
    name: "valgrind",
    summary: "any program, under Valgrind",
    follows: true,
    has_windows: false,
    nothing: "Valgrind did not get as far as running the program (its message is above)",
    suits: None,
    lacks,
    start,
};

/// What keeps this recorder from recording the program on this machine.
fn lacks(program: &Path) -> Result<(), RecordError> {
    if tsan::is_linked_with(program) {
        return Err(RecordError::CarriesRuntime(program.to_owned()));
    }
    find_tool().map(drop)
}

fn start(
    request: &Request,
    program: &Path,
    door: Option<&Door>,
    watch: &Arc<dyn Watch>,
) -> Result<Started, RecordError> {
    let tool = find_tool()?;
    let channel = Channel::new(Capacity { segments: 64, segment_words: 1 << 14 })?;
    let wire = door.map_or_else(|| channel.address(), Door::address);
    let (command, messages) = command(&tool, &wire, request, program, watch)?;
    Ok(Started { command, channel, messages: Some(messages) })
}

/// The directory with the tool and what Valgrind's core wants beside it.
fn find_tool() -> Result<PathBuf, RecordError> {
    let unsupported = |why: &str| Err(RecordError::Unsupported(why.to_owned()));
    if !cfg!(target_arch = "x86_64") {
        return unsupported("the Valgrind recorder runs on x86-64 only; use --recorder tsan");
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if program::find("valgrind".as_ref(), &path).is_err() {
        return unsupported(
            "recording needs Valgrind, which is not in PATH: install it (Debian, Ubuntu: apt install valgrind; \
             Fedora: dnf install valgrind), or use --recorder tsan",
        );
    }
    let tool = libraries::find(TOOL)?;
    Ok(tool.parent().unwrap_or(Path::new("/")).to_owned())
}

/// The command that runs `program` under the recorder, which finds the wire again by its address `wire` (of a channel,
/// or of the door where every process asks), and the reader of the recorder's own messages.
fn command(
    tool: &Path,
    wire: &str,
    request: &Request,
    program: &Path,
    watch: &Arc<dyn Watch>,
) -> Result<(Command, Messages), RecordError> {
    let mut command = Command::new("valgrind");
    let (reader, _) = homing_linux::inherit::pipe_from_child(&mut command)
        .doing(|| "cannot make a pipe for the recorder's messages".to_owned())?;
    command.env("VALGRIND_LIB", tool.canonicalize().doing(|| format!("cannot find {}", tool.display()))?);
    // `-q` would leave out which instruction was not known.
    command.arg("--sigill-diagnostics=yes");
    // Looking for debug information on the network would stall the program.
    command.env_remove("DEBUGINFOD_URLS");
    command.args(["--tool=homing", "-q", "--fair-sched=yes", "--vgdb=no", "--read-inline-info=no"]);
    // The tool switches this off in forked children: they, and what they execute, are not recorded.
    command.args(["--trace-children=yes".to_owned(), format!("--homing-wire={wire}")]);
    command.args(["--run-libc-freeres=no", "--run-cxx-freeres=no"]);
    command.arg(format!("--max-threads={}", limits::THREADS));
    // By its path, not by a number: a program may close all descriptors that it does not know before it executes
    // another.
    let log = format!("--log-file=/proc/{}/fd/{}", std::process::id(), reader.as_raw_fd());
    command.args([log, format!("--homing-slice={}", request.slice)]);
    for (option, function) in [("--homing-from=", &request.region.from), ("--homing-to=", &request.region.to)]
    {
        command.args(function.as_ref().map(|function| format!("{option}{function}")));
    }
    command.args(request.only_program.then_some("--homing-only-program=yes"));
    let go = go::is_started(program, &request.command);
    command.args(go.then_some("--homing-go=yes"));
    if go || !request.region.is_everything() {
        // A block that goes on in a function which it calls would hide that function's entry.
        command.arg("--vex-guest-chase=no");
    }
    command.arg("--").arg(program).args(&request.command[1..]);
    Ok((command, Messages::read(reader, Arc::clone(watch))))
}

/// The recorder's messages, passed on to the user as they come, and what they told.
#[derive(Debug)]
pub struct Messages {
    told: Arc<Mutex<limits::Messages>>,
    ended: mpsc::Receiver<()>,
}

impl Messages {
    fn read(reader: File, watch: Arc<dyn Watch>) -> Messages {
        let (end, ended) = mpsc::channel();
        let told = Arc::new(Mutex::new(limits::Messages::default()));
        let takes = Arc::clone(&told);
        std::thread::spawn(move || {
            for line in BufReader::new(reader).lines().map_while(Result::ok) {
                if takes.lock().unwrap_or_else(PoisonError::into_inner).take(&line) {
                    watch.say(&line);
                }
            }
            // Nobody listens if the recording has already ended.
            let _ = end.send(());
        });
        Messages { told, ended }
    }

    /// What the program, which ended with this status, met under the recorder that it would not meet without.
    pub fn words(&self, status: u8) -> Vec<String> {
        // A child of the program may hold the pipe open for longer than we want to wait.
        let _ = self.ended.recv_timeout(Duration::from_millis(200));
        self.told.lock().unwrap_or_else(PoisonError::into_inner).words(status)
    }
}
