//! Threads that move pages while the engine goes on: a call of `move_pages(2)` waits for every CPU (to give up the
//! pages that it keeps for itself, and to forget translations), which on a busy machine takes many times as long as
//! copying.

use crate::masks::Known;
use crate::mover::{batches, Landed, Mover, Order};
use homing_linux::clock;
use homing_linux::policy::Preferred;
use homing_linux::proc::Pid;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it is asked, while waiting, whether the time is up.
const NAP: Duration = Duration::from_millis(5);

/// What the threads and the engine share.
#[derive(Debug, Default)]
struct State {
    /// Sorted orders of one process each, not begun.
    queue: VecDeque<Vec<Order>>,
    /// None is begun after that.
    until: Option<Instant>,
    finished: Vec<(Order, Landed)>,
    /// Threads at work, since when there is one, and how long there was before.
    working: usize,
    since: Option<Instant>,
    busy: Duration,
    /// CPU time of finished batches.
    used: Duration,
    over: bool,
}

impl State {
    /// Somebody begins with the next batch.
    fn begin(&mut self) -> Option<Vec<Order>> {
        let orders = self.queue.pop_front()?;
        self.working += 1;
        self.since.get_or_insert_with(Instant::now);
        Some(orders)
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do, or the end has come.
    work: Condvar,
    /// A batch is finished.
    done: Condvar,
    /// Where pages may be.
    masks: Mutex<Known>,
}

impl Shared {
    /// A thread that panicked leaves nothing half-done here.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// ... nor here.
    fn masks(&self) -> MutexGuard<'_, Known> {
        self.masks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; `None` at the end.
    fn next(&self) -> Option<Vec<Order>> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            let in_time = state.until.is_none_or(|until| Instant::now() < until);
            if let Some(orders) = in_time.then(|| state.begin()).flatten() {
                return Some(orders);
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(&self, orders: Vec<Order>, landed: Vec<Landed>, used: Duration) {
        let mut state = self.lock();
        state.finished.extend(orders.into_iter().zip(landed));
        state.used += used;
    }
}

/// Somebody who has begun with a batch: at work until this is dropped, whatever happens.
struct AtWork<'a>(&'a Shared);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.working -= 1;
        if state.working == 0 {
            let worked = state.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            state.busy += worked;
        }
        self.0.done.notify_all();
    }
}

/// Moves what `next` gives until that is nothing.
fn work(shared: &Shared, mover: Mover, next: impl Fn() -> Option<Vec<Order>>) {
    #[cfg(target_arch = "x86_64")]
    let _of_engine = homing_linux::protect::OfEngine::new();
    let _preferred = mover.preferred.then(Preferred::begin);
    let mut used = clock::thread_cpu_time();
    while let Some(orders) = next() {
        let _at_work = AtWork(shared);
        let refused = shared.masks().refused(&orders);
        let landed = mover.batch(&orders, refused);
        let now = clock::thread_cpu_time();
        shared.finish(orders, landed, now.saturating_sub(used));
        used = now;
    }
}

/// Moves pages, and waits for it. The results are in no order.
pub fn carry_out(mover: Mover, orders: Vec<Order>) -> Vec<(Order, Landed)> {
    let mut movers = Movers::new(mover);
    movers.send(orders, None);
    movers.rest();
    movers.finished()
}

/// The threads. They begin with the first order, and end when this is dropped, after the calls that they are in.
#[derive(Debug)]
pub struct Movers {
    mover: Mover,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Movers {
    /// None at work yet.
    pub fn new(mover: Mover) -> Movers {
        Movers { mover, shared: Arc::default(), threads: Vec::new() }
    }

    /// The processes that may map pages which are moved for all.
    pub fn share(&self, sharers: Vec<Pid>) {
        self.shared.masks().share(sharers);
    }

    /// Takes orders; those that have not begun `until` then wait for the next time that this is called.
    pub fn send(&mut self, mut orders: Vec<Order>, until: Option<Instant>) {
        orders.sort_unstable();
        let mut state = self.shared.lock();
        state.until = until;
        state.queue.extend(batches(&orders).map(<[Order]>::to_vec));
        let wanted = (state.queue.len() + state.working).min(self.mover.threads);
        drop(state);
        while self.threads.len() < wanted {
            let (shared, mover) = (Arc::clone(&self.shared), self.mover);
            let name = std::thread::Builder::new().name("homing-move".into());
            match name.spawn(move || work(&shared, mover, || shared.next())) {
                Ok(thread) => self.threads.push(thread),
                // Out of threads: with those that there are, or at worst here.
                Err(_) if self.threads.is_empty() => {
                    return work(&self.shared, mover, || self.shared.lock().begin());
                }
                Err(_) => break,
            }
        }
        self.shared.work.notify_all();
    }

    /// True if all that was sent has begun.
    pub fn queue_empty(&self) -> bool {
        self.shared.lock().queue.is_empty()
    }

    /// What has come of orders since the last time.
    pub fn finished(&self) -> Vec<(Order, Landed)> {
        std::mem::take(&mut self.shared.lock().finished)
    }

    /// Leaves what has not begun ([`Landed::Later`], among the finished).
    pub fn leave(&self) {
        let mut state = self.shared.lock();
        let left = std::mem::take(&mut state.queue);
        state.finished.extend(left.into_iter().flatten().map(|order| (order, Landed::Later)));
    }

    /// Waits until nothing is being moved, and leaves what has not begun in its time.
    pub fn rest(&self) {
        let mut state = self.shared.lock();
        while state.working > 0 || !state.queue.is_empty() {
            if state.until.is_some_and(|until| Instant::now() >= until) {
                drop(state);
                self.leave();
                state = self.shared.lock();
            }
            state = self.shared.done.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Time in which something was being moved.
    pub fn busy(&self) -> Duration {
        let state = self.shared.lock();
        state.busy + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// CPU time of the threads, but for the batches that they are at.
    pub fn used(&self) -> Duration {
        self.shared.lock().used
    }
}

impl Drop for Movers {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_linux::move_pages::{self, PageStatus};
    use rustix::io::Errno;

    fn order(pid: i32, to: u32, address: u64) -> Order {
        Order { pid: Pid(pid), to, address, tag: 0, all: false }
    }

    #[test]
    fn pages_of_this_process_land_where_they_are_and_absent_ones_say_why() {
        let memory = vec![1u8; 3000 * 4096];
        let me = std::process::id() as i32;
        let base = (memory.as_ptr() as u64 + 4095) & !4095;
        let mut statuses = Vec::new();
        move_pages::query(Pid(me), &[base], &mut statuses).unwrap();
        let PageStatus::On(node) = statuses[0].into() else { panic!("{statuses:?}") };
        for threads in [1, 3] {
            let mut movers = Movers::new(Mover { threads, tries: 1, preferred: false });
            let mut orders: Vec<Order> = (0..2990).map(|page| order(me, node, base + page * 4096)).collect();
            orders.extend([order(me, node, 0x1000), order(i32::MAX, node, 0x1000)]);
            movers.send(orders, None);
            movers.rest();
            let finished = movers.finished();
            assert_eq!((finished.len(), movers.threads.len(), movers.queue_empty()), (2992, threads, true));
            let there = finished.iter().filter(|(_, landed)| *landed == Landed::There).count();
            assert_eq!(there, 2990);
            for (order, landed) in finished.iter().filter(|(order, _)| order.address == 0x1000) {
                let no_process = order.pid.0 == i32::MAX;
                let why = |errno| (Errno::from_raw_os_error(errno) == Errno::SRCH) == no_process;
                assert!(matches!(landed, Landed::Not(errno) if why(*errno)), "{landed:?}");
            }
            assert!(movers.busy() > Duration::ZERO && movers.used() > Duration::ZERO);
            assert!(movers.finished().is_empty());
        }
    }

    #[test]
    fn no_page_leaves_the_nodes_that_its_process_may_use() {
        let memory = vec![1u8; 8 * 4096];
        let (me, base) = (std::process::id() as i32, (memory.as_ptr() as u64 + 4095) & !4095);
        // The kernel would say ENODEV of a node that is not there, and of one that is it would say nothing.
        let orders = (0..7).map(|page| order(me, 1023, base + page * 4096)).collect();
        let finished = carry_out(Mover::default(), orders);
        assert!(finished.len() == 7 && finished.iter().all(|(_, landed)| *landed == Landed::NotAllowed));
    }

    #[test]
    fn what_has_not_begun_in_its_time_waits_for_the_next() {
        let mut movers = Movers::new(Mover::default());
        movers.send(vec![order(i32::MAX, 0, 0x1000)], Some(Instant::now()));
        std::thread::sleep(NAP);
        assert!(!movers.queue_empty() && movers.finished().is_empty(), "its time was up at once");
        movers.send(vec![order(i32::MAX, 0, 0x2000)], None);
        movers.rest();
        assert!(movers
            .finished()
            .iter()
            .all(|(_, landed)| *landed == Landed::Not(Errno::SRCH.raw_os_error())));
        movers.send(vec![order(i32::MAX, 0, 0x3000)], Some(Instant::now()));
        movers.rest();
        assert_eq!(movers.finished(), [(order(i32::MAX, 0, 0x3000), Landed::Later)]);
    }
}
