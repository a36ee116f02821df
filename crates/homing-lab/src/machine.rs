//! A running lab: QEMU's command line, the command's streams, the control port, and the end, however it comes.
//!
//! Nothing that the lab uses has a name on the host: the guest's files and its ports are descriptors. So two
//! labs do not meet, and one that was killed leaves nothing behind; the kernel kills QEMU when this program dies.

use crate::job::Prepared;
use crate::observer::{Observer, Options};
use crate::parts::Parts;
use crate::topology::Topology;
use crate::LabError;
use homing_linux::{child, inherit};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

mod command_line;
mod control;

pub use control::{Control, Message};

/// Quiet, and without what only costs time in an emulated machine.
const KERNEL_LINE: &str =
    "console=ttyS0 quiet loglevel=4 rdinit=/lab/init panic=-1 mitigations=off nokaslr no_timer_check \
                           tsc=reliable cryptomgr.notests random.trust_cpu=on init_on_alloc=0 audit=0";
/// What is kept of the console for an error message.
const CONSOLE_KEPT: usize = 2000;
/// QEMU writes what its plugin counted when it is asked to end; then it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// QEMU's exit status when it cannot do what its options say.
const REFUSED: i32 = 1;

/// What to start QEMU with.
#[derive(Debug)]
pub struct Settings<'a> {
    /// What is installed.
    pub parts: &'a Parts,
    /// The machine.
    pub topology: &'a Topology,
    /// QEMU's CPU model.
    pub cpu_model: &'a str,
    /// What to observe, and where the trace goes.
    pub observe: Option<(&'a Options, Option<OwnedFd>)>,
    /// Whether the terminal is the guest's console.
    pub shell: bool,
}

/// The streams of the command, as the host holds them.
#[derive(Debug)]
pub struct Streams {
    /// What is written here the command reads; shut it down for the end of the input.
    pub stdin: UnixStream,
    /// The command's output.
    pub stdout: UnixStream,
    /// The command's errors.
    pub stderr: UnixStream,
}

/// A machine that was started, and all that the host holds of it.
#[derive(Debug)]
pub struct Started {
    /// The machine.
    pub machine: Machine,
    /// The command's streams.
    pub streams: Streams,
    /// The control port.
    pub control: Control,
    /// The observer, if there is one.
    pub observer: Option<Observer>,
}

/// A running machine. Dropping it kills it.
#[derive(Debug)]
pub struct Machine {
    qemu: Child,
    console: Arc<Mutex<Vec<u8>>>,
}

impl Machine {
    /// Starts QEMU from the calling thread, which must live as long as the machine.
    pub fn start(mut settings: Settings<'_>, prepared: Prepared) -> Result<Started, LabError> {
        let pair = || UnixStream::pair().map_err(LabError::io("making a port of the machine"));
        let (stdin, stdout, stderr) = (pair()?, pair()?, pair()?);
        let (control, console) = (pair()?, pair()?);
        let mut command = Command::new(&settings.parts.qemu);
        let port = |command: &mut Command, stream: UnixStream| inherit::pass(command, stream.into());
        let ports = command_line::Ports {
            stdin: port(&mut command, stdin.1),
            stdout: port(&mut command, stdout.1),
            stderr: port(&mut command, stderr.1),
            control: port(&mut command, control.1),
            console: port(&mut command, console.1),
            initramfs: inherit::pass(&mut command, prepared.initramfs),
        };
        let observer = match settings.observe.take() {
            Some((options, trace)) => {
                let (topology, built) = (settings.topology, &settings.parts.built);
                Some(Observer::prepare(options, topology, built, &prepared.programs, trace, &mut command)?)
            }
            None => None,
        };
        command.args(command_line::arguments(&settings, &ports, observer.as_ref()));
        if settings.shell {
            // It reads the terminal, which only the foreground group may; Ctrl-C is a byte for the guest then.
            child::dying_with_us(&mut command);
        } else {
            child::own_group_dying_with_us(&mut command);
            command.stdin(Stdio::null());
        }
        command.stderr(Stdio::piped());
        command.stdout(if settings.shell { Stdio::inherit() } else { Stdio::null() });
        let mut qemu =
            command.spawn().map_err(LabError::io(format!("starting {}", settings.parts.qemu.display())))?;
        drop(command);
        let kept = Arc::new(Mutex::new(Vec::new()));
        if let Some(errors) = qemu.stderr.take() {
            keep(errors, Arc::clone(&kept));
        }
        keep(console.0, Arc::clone(&kept));
        let streams = Streams { stdin: stdin.0, stdout: stdout.0, stderr: stderr.0 };
        let machine = Machine { qemu, console: kept };
        Ok(Started { machine, streams, control: Control::new(control.0), observer })
    }

    /// QEMU's process id.
    pub fn id(&self) -> u32 {
        self.qemu.id()
    }

    /// Waits for QEMU, which has been told to end or ends by itself, so long, and then kills it.
    pub fn end(&mut self, patience: Duration) -> Result<ExitStatus, LabError> {
        let begin = Instant::now();
        while begin.elapsed() < patience {
            if let Some(status) = self.qemu.try_wait().map_err(LabError::io("waiting for QEMU"))? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // It may have ended in this moment; waiting tells.
        let _ = self.qemu.kill();
        self.qemu.wait().map_err(LabError::io("waiting for QEMU"))
    }

    /// Asks QEMU to end, so that its plugin can write what it has, and sees to it that it does.
    pub fn terminate(&mut self) -> Result<ExitStatus, LabError> {
        // It may have ended already.
        let _ = homing_linux::interrupts::signal_child(&self.qemu, 15);
        self.end(GRACE)
    }

    /// The error for a machine that ended by itself, with the last lines of its console.
    pub fn died(&mut self) -> LabError {
        let (how, refused) = match self.end(GRACE) {
            Ok(status) => (format!("QEMU: {status}"), status.code() == Some(REFUSED)),
            Err(error) => (error.to_string(), false),
        };
        let text = self.console.lock().map(|bytes| String::from_utf8_lossy(&bytes).replace('\r', ""));
        LabError::Died { how, refused, console: text.unwrap_or_default().trim().to_owned() }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Keeps the end of what comes from `source`.
fn keep(mut source: impl Read + Send + 'static, kept: Arc<Mutex<Vec<u8>>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = source.read(&mut buffer) {
            let Ok(mut kept) = kept.lock() else { return };
            kept.extend_from_slice(&buffer[..length]);
            let excess = kept.len().saturating_sub(CONSOLE_KEPT);
            kept.drain(..excess);
        }
    });
}
