//! Processes whose threads all stand still for a moment.

use super::held::{look, Found, Held};
use super::way_out;
use crate::perf::kick::Kick;
use crate::policy;
use crate::proc::{Pid, Proc, Tid};
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long threads are waited for once all are asked, while the others stand still already.
const PATIENCE: Duration = Duration::from_millis(100);
/// A request to trace that takes longer waits for an exec. Stopping a thousand threads takes part of a second at most.
const HANGS: Duration = Duration::from_secs(2);

/// What came of stopping processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Threads that stand still.
    pub held: usize,
    /// Threads that were left alone, since they sleep: they touch no memory meanwhile.
    pub waiting: usize,
    /// Threads that run and did not stop in time, or block the signals that could stop them.
    pub late: usize,
    /// Processes that may not be traced.
    pub refused: usize,
}

/// Processes whose threads stand still until this is dropped.
///
/// A thread of its own traces them. The kernel lets go what a thread traces when that ends, so that nothing stays
/// stopped: neither threads that stop late, nor those that change their number in an exec, nor any at all when this
/// program is killed.
#[derive(Debug)]
pub struct Standstill {
    count: Count,
    since: Instant,
    /// Dropped to let them run on.
    release: Option<mpsc::Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

impl Standstill {
    /// Stops all threads of these processes that run; those that begin meanwhile too. Processes that have ended, or may
    /// not be traced, are left out.
    ///
    /// While a process executes another program its threads cannot be traced: the kernel lets the request wait. It may
    /// wait for ever, if the exec waits for the end of threads that are held already. So when it takes
    /// long, all are let go.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn of(proc: &Proc, pids: &[Pid]) -> io::Result<Standstill> {
        way_out::prepare();
        let begin = Instant::now();
        let (release, released) = mpsc::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let (proc, pids) = (proc.clone(), pids.to_vec());
        let tracer = std::thread::Builder::new().name("homing-hold".into()).spawn(move || {
            // Where CPUs are busy some threads would stand for long before the last one is asked.
            let _ = policy::prefer(Tid(0));
            let mut tracer = Tracer::new(&proc, &pids);
            tracer.stop();
            // Nobody asks any more if the caller is gone.
            let _ = ready.send((tracer.count(), tracer.since));
            // Ends with an error: nothing is ever sent.
            let _ = released.recv();
        })?;
        match is_ready.recv_timeout(HANGS) {
            Ok((count, since)) => {
                let since = since.unwrap_or_else(Instant::now);
                Ok(Standstill { count, since, release: Some(release), tracer: Some(tracer) })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                way_out::take(&tracer);
                Ok(Standstill {
                    count: Count { late: 1, ..Count::default() },
                    since: begin,
                    release: None,
                    tracer: None,
                })
            }
            // A tracer that panicked holds nothing.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Ok(Standstill { count: Count::default(), since: begin, release: None, tracer: Some(tracer) })
            }
        }
    }

    /// When the first thread was asked to stop.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// What came of it.
    pub fn count(&self) -> Count {
        self.count
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        drop(self.release.take());
        if let Some(tracer) = self.tracer.take() {
            // Waited for: the caller may count on it that they run. Its panic would have been printed.
            let _ = tracer.join();
        }
    }
}

/// What the tracing thread holds.
struct Tracer<'a> {
    proc: &'a Proc,
    pids: &'a [Pid],
    /// Threads that were looked at.
    seen: BTreeSet<Tid>,
    /// All that were ever asked to stop.
    traced: Vec<Tid>,
    held: Vec<Held>,
    /// Asked to stop, and not seen to: they stop as soon as they run outside of the kernel.
    late: Vec<Held>,
    /// Run, and take no signal that could stop them.
    deaf: usize,
    /// Slept when last looked at.
    waiting: usize,
    refused: BTreeSet<Pid>,
    /// When the first was asked.
    since: Option<Instant>,
}

impl<'a> Tracer<'a> {
    fn new(proc: &'a Proc, pids: &'a [Pid]) -> Tracer<'a> {
        let (seen, refused) = (BTreeSet::new(), BTreeSet::new());
        let (traced, held, late) = (Vec::new(), Vec::new(), Vec::new());
        Tracer { proc, pids, seen, traced, held, late, deaf: 0, waiting: 0, refused, since: None }
    }

    fn count(&self) -> Count {
        let late = self.late.len() + self.deaf;
        Count { held: self.held.len(), waiting: self.waiting, late, refused: self.refused.len() }
    }

    /// Stops threads until none is left that runs. One that begins others faster than they are found would keep this at
    /// work: the deadline ends it.
    fn stop(&mut self) {
        let mut deadline = None;
        loop {
            self.waiting = 0;
            // All that can be done before the first is asked is done, so that it does not stand for long before the
            // last, and all are asked before the first is waited for: they stop at the same time.
            let found: Vec<(Pid, Tid, Kick)> = self.pids.iter().flat_map(|&pid| self.find(pid)).collect();
            self.since.get_or_insert_with(Instant::now);
            let asked: Vec<(Pid, Held)> = found
                .into_iter()
                .filter_map(|(pid, tid, kick)| Some((pid, self.ask(pid, tid, kick)?)))
                .collect();
            // Asking is no waiting: with many threads it takes longer.
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
            let none = asked.is_empty();
            asked.into_iter().for_each(|(pid, thread)| self.settle(pid, thread, deadline));
            if none || Instant::now() >= deadline {
                return;
            }
        }
    }

    /// The threads of a process that run and were not asked yet, each with what stops it.
    fn find(&mut self, pid: Pid) -> Vec<(Pid, Tid, Kick)> {
        if self.refused.contains(&pid) {
            return Vec::new();
        }
        // A process that has ended has no threads.
        let tasks = self.proc.tasks(pid).unwrap_or_default();
        let mut found = Vec::new();
        for tid in tasks {
            if self.seen.contains(&tid) {
                continue;
            }
            let signal = match look(self.proc, pid, tid) {
                Ok(Found::Runs(signal)) => signal,
                Ok(Found::Sleeps) => {
                    self.waiting += 1;
                    continue;
                }
                other => {
                    self.deaf += usize::from(!matches!(other, Ok(Found::Ended)));
                    self.seen.insert(tid);
                    continue;
                }
            };
            self.seen.insert(tid);
            // This waits for an exec, too.
            match way_out::beside(&self.traced, || Kick::of(tid, signal)) {
                Ok(kick) => found.push((pid, tid, kick)),
                Err(error) => self.fails(pid, tid, &error),
            }
        }
        found
    }

    /// Asks a thread to stop.
    fn ask(&mut self, pid: Pid, tid: Tid, kick: Kick) -> Option<Held> {
        if self.refused.contains(&pid) {
            return None;
        }
        match way_out::beside(&self.traced, || Held::ask(tid, kick)) {
            Ok(thread) => {
                self.traced.push(tid);
                Some(thread)
            }
            Err(error) => {
                self.fails(pid, tid, &error);
                None
            }
        }
    }

    /// A thread cannot be asked: it has ended, or its process may not be traced.
    fn fails(&mut self, pid: Pid, tid: Tid, error: &io::Error) {
        // A zombie thread, or the first one after pthread_exit, cannot be seized.
        if error.raw_os_error() != Some(libc::ESRCH) && !super::ended(self.proc, pid, tid) {
            self.refused.insert(pid);
        }
    }

    fn settle(&mut self, pid: Pid, mut thread: Held, deadline: Instant) {
        match thread.settle(deadline) {
            Ok(()) => self.held.push(thread),
            Err(_) if super::ended(self.proc, pid, thread.tid()) => {}
            Err(_) => self.late.push(thread),
        }
    }
}
