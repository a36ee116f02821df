//! Carries moves out with `move_pages(2)`: sorted so that each call has long runs of consecutive pages to one node,
//! batched, by several threads, tried again where pages were busy, and verified by asking where each page is.

use homing_linux::move_pages::{self, PageStatus, BATCH};
use homing_linux::proc::Pid;
use std::time::{Duration, Instant};

/// A page to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// The process.
    pub pid: Pid,
    /// The target node, the kernel's number.
    pub to: u32,
    /// Address of the page.
    pub address: u64,
    /// The caller's own number for it.
    pub tag: u32,
}

/// What came of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// The kernel says that the page is there.
    There,
    /// It is not, and why (`errno`).
    Not(i32),
    /// The time was up before its turn.
    Later,
}

/// How to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mover {
    /// Threads that move at the same time.
    pub threads: usize,
    /// Tries for pages that are busy.
    pub tries: u32,
}

impl Default for Mover {
    fn default() -> Self {
        Mover { threads: 4, tries: 3 }
    }
}

/// The first wait before busy pages are tried again; each further one is four times as long.
const BACK_OFF: Duration = Duration::from_micros(500);

impl Mover {
    /// Moves. Orders are sorted in place; the results are in their new order. What has not begun at `until` is left.
    pub fn carry_out(&self, orders: &mut [Order], until: Option<Instant>) -> Vec<Landed> {
        orders.sort_unstable();
        let mut landed = vec![Landed::Later; orders.len()];
        let batches: Vec<(&[Order], &mut [Landed])> = batches(orders, &mut landed);
        let threads = self.threads.clamp(1, batches.len().max(1));
        if threads == 1 {
            batches.into_iter().for_each(|(orders, landed)| self.batch(orders, landed, until));
            return landed;
        }
        let queue = std::sync::Mutex::new(batches);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| loop {
                    let next = queue.lock().map(|mut queue| queue.pop()).ok().flatten();
                    let Some((orders, landed)) = next else { break };
                    self.batch(orders, landed, until);
                });
            }
        });
        landed
    }

    /// One process, at most [`BATCH`] pages.
    fn batch(&self, orders: &[Order], landed: &mut [Landed], until: Option<Instant>) {
        if until.is_some_and(|until| Instant::now() >= until) {
            return;
        }
        let mut open: Vec<usize> = (0..orders.len()).collect();
        let mut wait = BACK_OFF;
        for attempt in 0..self.tries.max(1) {
            if attempt > 0 {
                std::thread::sleep(wait);
                wait *= 4;
            }
            open = attempt_once(orders, landed, &open);
            if open.is_empty() {
                break;
            }
        }
    }
}

/// Cuts sorted orders, and the places for their results, where the process changes and every [`BATCH`] pages.
fn batches<'a>(orders: &'a [Order], landed: &'a mut [Landed]) -> Vec<(&'a [Order], &'a mut [Landed])> {
    let mut out = Vec::new();
    let mut rest = landed;
    for of_process in orders.chunk_by(|a, b| a.pid == b.pid) {
        for batch in of_process.chunks(BATCH) {
            let (these, after) = std::mem::take(&mut rest).split_at_mut(batch.len());
            rest = after;
            out.push((batch, these));
        }
    }
    out
}

/// Moves the orders numbered in `open`, asks where the pages are, and returns those worth another try.
fn attempt_once(orders: &[Order], landed: &mut [Landed], open: &[usize]) -> Vec<usize> {
    let pid = orders[0].pid;
    let addresses: Vec<u64> = open.iter().map(|&index| orders[index].address).collect();
    let nodes: Vec<i32> = open.iter().map(|&index| orders[index].to as i32).collect();
    let (mut said, mut is) = (Vec::new(), Vec::new());
    let failed = move_pages::move_to(pid, &addresses, &nodes, &mut said).err().and_then(|e| e.raw_os_error());
    if let Err(error) = move_pages::query(pid, &addresses, &mut is) {
        let errno = match error.raw_os_error().unwrap_or(libc_eio()) {
            EINVAL => ESRCH, // it has given its memory up already
            errno => errno,
        };
        open.iter().for_each(|&index| landed[index] = Landed::Not(errno));
        return Vec::new();
    }
    let mut again = Vec::new();
    for (place, &index) in open.iter().enumerate() {
        let errno = match (PageStatus::from(is[place]), PageStatus::from(said[place])) {
            (PageStatus::On(node), _) if node == orders[index].to => {
                landed[index] = Landed::There;
                continue;
            }
            (PageStatus::Error(errno), _) => errno,
            (_, PageStatus::Error(errno)) => errno,
            // In a run that stopped half-way, or behind one; or sent and not there.
            _ => failed.unwrap_or(EAGAIN),
        };
        landed[index] = Landed::Not(errno);
        if matches!(errno, EAGAIN | EBUSY) || errno == ENOMEM && failed.is_none() {
            again.push(index);
        }
    }
    again
}

const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const ESRCH: i32 = 3;

fn libc_eio() -> i32 {
    5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(pid: i32, to: u32, address: u64) -> Order {
        Order { pid: Pid(pid), to, address, tag: 0 }
    }

    #[test]
    fn batches_have_one_process_and_end_in_time() {
        let orders: Vec<Order> = (0..2500).map(|i| order(if i < 1100 { 1 } else { 2 }, 0, i)).collect();
        let mut landed = vec![Landed::Later; orders.len()];
        let lengths: Vec<usize> =
            batches(&orders, &mut landed).iter().map(|(batch, _)| batch.len()).collect();
        assert_eq!(lengths, [1024, 76, 1024, 376]);
        let mut orders = vec![order(std::process::id() as i32, 0, 4096)];
        let landed = Mover::default().carry_out(&mut orders, Some(Instant::now()));
        assert_eq!(landed, [Landed::Later]);
    }

    #[test]
    fn pages_of_this_process_land_where_they_are_and_absent_ones_say_why() {
        let memory = vec![1u8; 64 * 4096];
        let me = Pid(std::process::id() as i32);
        let base = (memory.as_ptr() as u64 + 4095) & !4095;
        let mut statuses = Vec::new();
        move_pages::query(me, &[base], &mut statuses).unwrap();
        let PageStatus::On(node) = statuses[0].into() else { panic!("{statuses:?}") };
        for threads in [1, 3] {
            let mut orders: Vec<Order> = (0..60)
                .map(|page| Order { pid: me, to: node, address: base + page * 4096, tag: 0 })
                .collect();
            orders.push(order(me.0, node, 0x1000));
            orders.push(order(i32::MAX, node, 0x1000));
            let landed = Mover { threads, tries: 1 }.carry_out(&mut orders, None);
            let there = landed.iter().filter(|landed| **landed == Landed::There).count();
            assert_eq!(there, 60);
            assert!(matches!(landed.last(), Some(Landed::Not(3))), "no such process: {landed:?}");
            assert!(matches!(landed[0], Landed::Not(2 | 14)), "not mapped: {landed:?}");
        }
        drop(memory);
    }
}
