//! Where the threads of the program are. A window begins when each is known to be outside of all calls, from which it
//! cannot get into one any more, or asleep in one whose memory is known; it is over when no signal of a fault can be on
//! its way.

use super::action::{bit, OURS};
use super::calls::Sleeper;
use super::parts::Range;
use super::shared::{self, Slot, END, ROUND};
use super::urge::{self, Timers};
use super::{asynchronous, Refusal};
use crate::proc::task::Stat;
use std::ffi::CStr;
use std::io::Write;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// Threads of the engine, which no window watches: they must sleep in it. 0 for a free place.
static ENGINE: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// The calling thread belongs to the engine while this lives.
#[derive(Debug)]
pub struct OfEngine {
    place: Option<usize>,
    /// It is that thread's.
    _stays: std::marker::PhantomData<*const ()>,
}

impl OfEngine {
    /// Says so. Where there is no place the thread is taken for one of the program's, which prevents windows.
    pub fn new() -> OfEngine {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        let free =
            |place: &AtomicI32| place.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        OfEngine { place: ENGINE.iter().position(free), _stays: std::marker::PhantomData }
    }
}

impl Default for OfEngine {
    fn default() -> Self {
        OfEngine::new()
    }
}

impl Drop for OfEngine {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            ENGINE[place].store(0, Ordering::Release);
        }
    }
}

fn is_of_engine(tid: i32) -> bool {
    ENGINE.iter().any(|place| place.load(Ordering::Acquire) == tid)
}

/// Bytes below and above a stack pointer, and a thread pointer, that the kernel may reach for a signal or by itself.
const BELOW: u64 = 256 << 10;
const ABOVE: u64 = 64 << 10;

/// A thread that runs is asked again after this.
const AGAIN: Duration = Duration::from_millis(3);

/// Longest time from the last question whether a thread sleeps until its calls are stopped.
const MOMENT: Duration = Duration::from_micros(200);

/// What is read of `/proc/PID/task/TID/stat`.
struct State {
    letter: u8,
    began: u64,
}

/// What is read of `/proc/PID/task/TID/status`.
struct Status {
    blocked: u64,
    /// The mode of seccomp, and how many filters there are: another one may end the program for an unknown call.
    filters: [u32; 2],
}

/// Reads files of `/proc/self/task` into buffers that are there: nothing may be allocated while threads may be stopped
/// in the midst of an allocation.
pub struct Threads {
    me: i32,
    tasks: Vec<i32>,
    timers: Timers,
    text: Vec<u8>,
    /// Where the threads' stacks were in the last round, and one that slept then.
    pub stacks: Vec<u64>,
    /// See above.
    pub sleeps: Option<i32>,
    /// Those of this thread, which made all the calls that others are to make.
    filters: [u32; 2],
}

/// What threads are looked at for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// A window is to begin.
    Begin,
    /// A window is over.
    End,
}

impl Threads {
    pub fn new() -> Threads {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        let (tasks, text) = (Vec::with_capacity(2 * shared::SLOTS), vec![0; 16 << 10]);
        let stacks = Vec::with_capacity(2 * shared::SLOTS);
        let timers = Timers::new(2 * shared::SLOTS);
        let mut threads = Threads { me, tasks, timers, text, stacks, sleeps: None, filters: [0; 2] };
        let status = threads.status(me);
        asynchronous::prepare(status.as_ref().is_none_or(|status| status.filters != [0; 2]));
        threads.filters = status.map_or([0; 2], |status| status.filters);
        threads
    }

    /// Lists the threads.
    fn list(&mut self) -> Result<(), Refusal> {
        self.tasks.clear();
        let Threads { tasks, text, .. } = self;
        entries(c"/proc/self/task", text, |_, name| {
            if let Some(tid) = number(name) {
                if tasks.len() == tasks.capacity() {
                    return Err(Refusal::Threads);
                }
                tasks.push(tid);
            }
            Ok(())
        })
        .ok_or(Refusal::Proc)?
    }

    /// Reads a file of a thread; nothing if it has ended.
    fn read(&mut self, tid: i32, file: &str) -> &[u8] {
        let mut path = [0u8; 64];
        let mut room = &mut path[..63];
        // A name that does not fit is not found.
        let _ = write!(room, "/proc/self/task/{tid}/{file}");
        let bytes = read_into(&path, &mut self.text).unwrap_or(0);
        &self.text[..bytes]
    }

    fn state(&mut self, tid: i32) -> Option<State> {
        let text = self.read(tid, "stat");
        let after = text.iter().rposition(|byte| *byte == b')')? + 2;
        let mut fields = std::str::from_utf8(text.get(after..)?).ok()?.split_ascii_whitespace();
        let letter = fields.next()?.bytes().next()?;
        // Field 22; the state is the third.
        Some(State { letter, began: fields.nth(18)?.parse().ok()? })
    }

    fn status(&mut self, tid: i32) -> Option<Status> {
        let text = std::str::from_utf8(self.read(tid, "status")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let number = |name: &str| field(name).and_then(|text| text.parse().ok()).unwrap_or(0);
        let blocked = u64::from_str_radix(field("SigBlk:")?, 16).ok()?;
        Some(Status { blocked, filters: [number("Seccomp:"), number("Seccomp_filters:")] })
    }

    /// Forgets threads that have ended.
    pub fn forget_ended(&mut self) -> Result<(), Refusal> {
        self.list()?;
        self.timers.retain(&self.tasks);
        for slot in shared::slots() {
            let tid = slot.tid.load(Ordering::Acquire);
            if tid != 0 && !self.tasks.contains(&tid) {
                slot.began.store(0, Ordering::Relaxed);
                slot.selector.store(0, Ordering::Relaxed);
                slot.calm.store(0, Ordering::Relaxed);
                slot.outside.store(0, Ordering::Relaxed);
                slot.tid.store(0, Ordering::Release);
            }
        }
        Ok(())
    }

    /// Waits until all threads are where they must be. With [`Round::Begin`] the memory that the kernel may reach
    /// meanwhile is added to `holes`.
    pub fn settle(
        &mut self,
        round: Round,
        patience: Duration,
        holes: &mut Vec<Range>,
    ) -> Result<(), Refusal> {
        let number = ROUND.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        let begin = Instant::now();
        let mut urged: Option<Instant> = None;
        let mut clean = false;
        loop {
            holes.clear();
            self.stacks.clear();
            self.sleeps = None;
            self.list()?;
            let urges = urged.is_none_or(|at| at.elapsed() > AGAIN);
            if urges {
                urged = Some(Instant::now());
            }
            let mut waits = None;
            for place in 0..self.tasks.len() {
                let tid = self.tasks[place];
                if tid == self.me {
                    continue;
                }
                match self.check(tid, round, number, urges, holes) {
                    Ok(()) => {}
                    Err(why @ (Refusal::Running | Refusal::Engine)) => waits = Some(why),
                    Err(why) => return Err(why),
                }
            }
            if round == Round::Begin && END.load(Ordering::Acquire) != 0 {
                return Err(Refusal::Call);
            }
            match waits {
                // Once more: whoever sleeps could be woken by one that was not stopped yet.
                None if clean || round == Round::End => return Ok(()),
                None => clean = true,
                Some(why) if begin.elapsed() > patience => return Err(why),
                Some(_) => {
                    clean = false;
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }

    fn check(
        &mut self,
        tid: i32,
        round: Round,
        number: u32,
        urges: bool,
        holes: &mut Vec<Range>,
    ) -> Result<(), Refusal> {
        let engine = is_of_engine(tid);
        if engine && round == Round::End {
            return Ok(());
        }
        let slot = shared::slot(tid).map(|(_, slot)| slot);
        if let Some(slot) = slot.filter(|slot| slot.seen.load(Ordering::Acquire) == number) {
            return match round {
                Round::Begin => self.may_run(tid, slot, holes),
                Round::End => Ok(()),
            };
        }
        let Some(State { letter, began }) = self.state(tid) else { return Ok(()) };
        match letter {
            b'Z' | b'X' => return Ok(()),
            b'R' if engine => return Err(Refusal::Engine),
            b'R' => return Err(self.ask(tid, began, urges)),
            _ => {}
        }
        let Some(sleeper) = Sleeper::parse(self.read(tid, "syscall")) else {
            return Err(if engine { Refusal::Engine } else { Refusal::Running });
        };
        if engine {
            let sleeps = sleeper.number == libc::SYS_futex;
            return if sleeps { Ok(()) } else { Err(Refusal::Engine) };
        }
        if round == Round::End {
            return Ok(());
        }
        let known = slot.filter(|slot| {
            // Another thread may have got the number; it says so when it is next seen.
            let same = slot.began.swap(began, Ordering::Relaxed) == began;
            if !same {
                slot.began.store(0, Ordering::Relaxed);
            }
            same && slot.error.load(Ordering::Relaxed) == 0
        });
        match known {
            Some(slot) => self.may_sleep(tid, slot, &sleeper, holes),
            // It answers once it has woken up by itself.
            None => match self.ask(tid, began, urges) {
                Refusal::Running => Err(Refusal::Unknown(sleeper.number)),
                why => Err(why),
            },
        }
    }

    /// Asks a thread where it is, unless it would not take that. What it is waited for, or why it is not asked.
    fn ask(&mut self, tid: i32, began: u64, urges: bool) -> Refusal {
        if !urges {
            return Refusal::Running;
        }
        let restless = |slot: &Slot| {
            slot.selector.load(Ordering::Acquire) == 0
                && slot.calm.load(Ordering::Relaxed) > super::handlers::monotonic()
        };
        if shared::slot(tid).is_some_and(|(_, slot)| restless(slot)) {
            return Refusal::Calls;
        }
        let known = self.filters;
        match self.status(tid) {
            Some(status) if status.filters != known => Refusal::Filter,
            Some(status) if status.blocked & bit(libc::SIGURG) != 0 => Refusal::Running,
            Some(_) if shared::slot(tid).is_some_and(|(_, slot)| slot.is_outside(began)) => {
                urge::at_once(tid);
                Refusal::Running
            }
            Some(_) => self.timers.arm(tid).err().unwrap_or(Refusal::Running),
            None => Refusal::Running,
        }
    }

    /// A thread that has just been seen outside of all calls.
    fn may_run(&mut self, tid: i32, slot: &Slot, holes: &mut Vec<Range>) -> Result<(), Refusal> {
        if slot.error.load(Ordering::Relaxed) != 0 {
            return Err(Refusal::Dispatch(slot.error.load(Ordering::Relaxed)));
        }
        may_take(slot.blocked.load(Ordering::Relaxed))?;
        if slot.began.load(Ordering::Relaxed) == 0 {
            let Some(state) = self.state(tid) else { return Ok(()) };
            slot.began.store(state.began, Ordering::Relaxed);
        }
        self.add(holes, slot, slot.stack.load(Ordering::Relaxed))
    }

    /// A thread that sleeps in a call: it may wake up meanwhile, and its next call is stopped. It must not block the
    /// signal for that by then, so it must be asleep still, and be so a moment ago: shorter than waking up takes.
    fn may_sleep(
        &mut self,
        tid: i32,
        slot: &Slot,
        sleeper: &Sleeper,
        holes: &mut Vec<Range>,
    ) -> Result<(), Refusal> {
        let Some(status) = self.status(tid) else { return Ok(()) };
        may_take(status.blocked)?;
        let reached = sleeper.reaches().ok_or(Refusal::Sleeps(sleeper.number))?;
        for (address, bytes) in reached.into_iter().filter(|(_, bytes)| *bytes > 0) {
            push(holes, (address, address.saturating_add(bytes)))?;
        }
        let asked = Instant::now();
        if Sleeper::parse(self.read(tid, "syscall")).as_ref() != Some(sleeper) || asked.elapsed() > MOMENT {
            return Err(Refusal::Running);
        }
        // It is in a call, and may be after it has woken up.
        slot.stopped.store(false, Ordering::SeqCst);
        shared::stop_calls(slot);
        if Sleeper::parse(self.read(tid, "syscall")).as_ref() != Some(sleeper) {
            slot.selector.store(0, Ordering::SeqCst);
            return Err(Refusal::Running);
        }
        self.sleeps = Some(tid);
        self.add(holes, slot, sleeper.stack)
    }

    /// The threads, as they were in the last round.
    pub fn tasks(&self) -> &[i32] {
        &self.tasks
    }

    /// True if a thread may have an io_uring that it was not asked for: one that sleeps, or all of them. Descriptors
    /// are those of one thread: hardly any program has several tables of them.
    pub fn may_have_ring(&mut self) -> Result<bool, Refusal> {
        let anyone = self.tasks.iter().find(|tid| **tid != self.me && !is_of_engine(**tid));
        let Some(tid) = self.sleeps.or(anyone.copied().filter(|_| !asynchronous::asks_for_rings())) else {
            return Ok(false);
        };
        asynchronous::has_ring_among(tid, &mut self.text)
    }

    fn add(&mut self, holes: &mut Vec<Range>, slot: &Slot, stack: u64) -> Result<(), Refusal> {
        match slot.outside.load(Ordering::Relaxed) {
            0 => {}
            kinds if kinds & asynchronous::RING != 0 => return Err(Refusal::Asynchronous),
            _ => return Err(Refusal::Restartable),
        }
        let pointer = slot.pointer.load(Ordering::Relaxed);
        let signals = slot.signals.load(Ordering::Relaxed);
        push(holes, (stack.saturating_sub(BELOW), stack.saturating_add(ABOVE)))?;
        push(holes, (pointer.saturating_sub(ABOVE), pointer.saturating_add(ABOVE)))?;
        push(holes, (signals, signals.saturating_add(slot.signals_bytes.load(Ordering::Relaxed))))?;
        if let Some(area) = asynchronous::area(pointer) {
            push(holes, (area.saturating_sub(ABOVE), area.saturating_add(ABOVE)))?;
        }
        // There is room for each of the tasks.
        self.stacks.push(stack);
        Ok(())
    }
}

/// Hands out the entries of a folder, with its descriptor, until there is an error. `None` if it cannot be read.
pub fn entries(
    folder: &CStr,
    room: &mut [u8],
    mut take: impl FnMut(i32, &CStr) -> Result<(), Refusal>,
) -> Option<Result<(), Refusal>> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: a text.
    let folder = unsafe { libc::open(folder.as_ptr(), flags) };
    if folder < 0 {
        return None;
    }
    let result = read_entries(folder, room, |name| take(folder, name));
    // SAFETY: opened above.
    unsafe { libc::close(folder) };
    result
}

fn read_entries(
    folder: i32,
    room: &mut [u8],
    mut take: impl FnMut(&CStr) -> Result<(), Refusal>,
) -> Option<Result<(), Refusal>> {
    loop {
        // SAFETY: the kernel writes at most as much as there is room.
        let bytes = unsafe { libc::syscall(libc::SYS_getdents64, folder, room.as_mut_ptr(), room.len()) };
        let bytes = usize::try_from(bytes).ok()?;
        if bytes == 0 {
            return Some(Ok(()));
        }
        let mut entries = &room[..bytes];
        // d_ino, d_off, d_reclen, d_type, d_name.
        while let Some(&[low, high]) = entries.get(16..18) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let name = entries.get(19..length).and_then(|name| CStr::from_bytes_until_nul(name).ok());
            if let Some(Err(why)) = name.map(&mut take) {
                return Some(Err(why));
            }
            entries = entries.get(length.max(1)..).unwrap_or_default();
        }
    }
}

/// The number that an entry's name is.
pub fn number(name: &CStr) -> Option<i32> {
    name.to_str().ok()?.parse().ok()
}

/// Reads a file whose path ends with a zero; `None` if that fails or it has no room.
pub fn read_into(path: &[u8], room: &mut [u8]) -> Option<usize> {
    // SAFETY: the path ends with a zero.
    let file = unsafe { libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let mut length = 0;
    let whole = loop {
        let left = &mut room[length..];
        // SAFETY: the kernel writes at most what is left.
        let bytes = unsafe { libc::read(file, left.as_mut_ptr().cast(), left.len()) };
        match usize::try_from(bytes) {
            Ok(0) => break !left.is_empty(),
            Ok(bytes) => length += bytes,
            Err(_) => break false,
        }
    };
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    whole.then_some(length)
}

/// Faults and calls must reach the handlers.
fn may_take(blocked: u64) -> Result<(), Refusal> {
    match blocked & OURS {
        0 => Ok(()),
        _ => Err(Refusal::Blocked),
    }
}

fn push(holes: &mut Vec<Range>, hole: Range) -> Result<(), Refusal> {
    if holes.len() == holes.capacity() {
        return Err(Refusal::Threads);
    }
    holes.push(hole);
    Ok(())
}

/// Makes the calling thread known: it may sleep when a window begins. Nothing happens where there are no windows.
pub fn introduce() {
    if !super::is_hidden(libc::SIGURG) {
        return;
    }
    // SAFETY: asks for a number.
    let me = unsafe { libc::gettid() };
    // It comes before the call returns.
    urge::at_once(me);
    let stat = std::fs::read_to_string(format!("/proc/self/task/{me}/stat"));
    let began = stat.ok().and_then(|text| Stat::parse(&text)).map(|stat| stat.start_ticks);
    if let (Some((_, slot)), Some(began)) = (shared::slot(me), began) {
        slot.began.store(began, Ordering::Relaxed);
    }
}
