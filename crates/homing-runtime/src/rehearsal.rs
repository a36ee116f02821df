//! Sampling by protection in any program that this library is loaded into, without an engine: for tests that a program
//! does not notice, on machines where nothing can move. It begins when the library is loaded.

use crate::regions;
use homing_linux::environment::variable;
use homing_linux::protect::{introduce, OfEngine};
use homing_linux::signals::Blocked;
use homing_live::inside;
use homing_live::source::protect::{tally, Protect};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{mpsc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The folder for what was counted: a file for each process, `PID.json`. Without this variable nothing happens.
const FOLDER_ENV: &str = "HOMING_REHEARSE_PROTECT";

/// Longest wait for the source to open.
const OPENS: Duration = Duration::from_secs(2);

static OVER: AtomicBool = AtomicBool::new(false);
/// The process that began; its children have no such thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static THREAD: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);

/// Called when the library is loaded.
pub fn begin() {
    if variable(FOLDER_ENV).is_none() {
        return;
    }
    let Ok(blocked) = Blocked::all() else { return };
    let (opened, opens) = mpsc::channel();
    let begin = std::thread::Builder::new().name("homing".into()).spawn(move || work(&opened));
    drop(blocked);
    let Ok(thread) = begin else { return };
    // As at `homing_start`: this thread may sleep in a call before it is asked.
    if opens.recv_timeout(OPENS).is_ok() {
        introduce();
    }
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    if let Ok(mut place) = THREAD.lock() {
        *place = Some(thread);
    }
}

/// Called when the process ends by `exit`.
pub fn end() {
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return;
    }
    OVER.store(true, Ordering::Relaxed);
    let thread = THREAD.lock().ok().and_then(|mut place| place.take());
    // A panic does not leave the thread.
    let _ = thread.map(JoinHandle::join);
    let (Some(folder), Some(tally)) = (variable(FOLDER_ENV), tally()) else { return };
    regions::leave(&folder, &serde_json::json!(tally).to_string());
}

/// Round after round, without a pause that could be left out.
fn work(opened: &mpsc::Sender<()>) {
    let _of_engine = OfEngine::new();
    inside::enter();
    let Ok(mut protect) = Protect::open() else { return };
    let _ = opened.send(());
    while !OVER.load(Ordering::Relaxed) {
        protect.begin_round();
        loop {
            let Ok(over) = protect.one_window() else { return };
            protect.waiting().clear();
            if over || OVER.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(pause(protect.next()));
        }
        std::thread::sleep(pause(protect.next()));
    }
}

fn pause(next: Instant) -> Duration {
    next.saturating_duration_since(Instant::now()).min(Duration::from_millis(3))
}
