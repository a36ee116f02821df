//! Carries moves out with `move_pages(2)`: sorted so that each call has long runs of consecutive pages to one node,
//! batched, by several threads (`movers.rs`), refused where policies or cpusets forbid them (`masks.rs`), tried again
//! where pages were busy, and verified by asking where each page is.

use homing_linux::move_pages::{self, PageStatus, Whose, BATCH};
use homing_linux::proc::Pid;
pub use homing_session::input::Landed;
use rustix::io::Errno;
use std::time::Duration;

/// A page to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Order {
    /// The process.
    pub pid: Pid,
    /// It is moved for all who map it, where that is permitted.
    pub all: bool,
    /// The target node, the kernel's number.
    pub to: u32,
    /// Address of the page.
    pub address: u64,
    /// The caller's own number for it.
    pub tag: u32,
}

/// How to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mover {
    /// Threads that move at the same time.
    pub threads: usize,
    /// Tries for pages that are busy.
    pub tries: u32,
    /// The threads run before others where CPUs are busy, if that is permitted.
    pub preferred: bool,
}

impl Default for Mover {
    fn default() -> Self {
        Mover { threads: 4, tries: 3, preferred: false }
    }
}

/// The first wait before busy pages are tried again; each further one is four times as long.
const BACK_OFF: Duration = Duration::from_micros(500);

impl Mover {
    /// Moves the pages of a batch, by the calling thread. `refused` has what came of those that must not move. Whatever
    /// moves a page of another program's passes here.
    pub(crate) fn batch(self, orders: &[Order], refused: Vec<Option<Landed>>) -> Vec<Landed> {
        debug_assert_eq!(orders.len(), refused.len());
        let mut open: Vec<usize> = (0..orders.len()).filter(|&index| refused[index].is_none()).collect();
        let mut landed: Vec<Landed> =
            refused.into_iter().map(|refused| refused.unwrap_or(Landed::Later)).collect();
        let mut wait = BACK_OFF;
        for attempt in 0..self.tries.max(1) {
            if open.is_empty() {
                break;
            }
            if attempt > 0 {
                std::thread::sleep(wait);
                wait *= 4;
            }
            open = attempt_once(orders, &mut landed, &open);
        }
        landed
    }
}

/// Cuts sorted orders where the process or the right that they need changes, and every [`BATCH`] pages.
pub(crate) fn batches(orders: &[Order]) -> impl Iterator<Item = &[Order]> {
    orders.chunk_by(|a, b| (a.pid, a.all) == (b.pid, b.all)).flat_map(|of_process| of_process.chunks(BATCH))
}

/// Moves the orders numbered in `open`, asks where the pages are, and returns those worth another try.
fn attempt_once(orders: &[Order], landed: &mut [Landed], open: &[usize]) -> Vec<usize> {
    let pid = orders[0].pid;
    let addresses: Vec<u64> = open.iter().map(|&index| orders[index].address).collect();
    let nodes: Vec<i32> = open.iter().map(|&index| orders[index].to as i32).collect();
    let (mut said, mut is) = (Vec::new(), Vec::new());
    let whose = if orders[0].all { Whose::All } else { Whose::Own };
    let moved = move_pages::move_as(pid, &addresses, &nodes, &mut said, whose);
    let failed = moved.err().as_ref().and_then(Errno::from_io_error);
    if let Err(error) = move_pages::query(pid, &addresses, &mut is) {
        let errno = match Errno::from_io_error(&error).unwrap_or(Errno::IO) {
            Errno::INVAL => Errno::SRCH, // it has given its memory up already
            errno => errno,
        };
        open.iter().for_each(|&index| landed[index] = Landed::Not(errno.raw_os_error()));
        return Vec::new();
    }
    let mut again = Vec::new();
    for (place, &index) in open.iter().enumerate() {
        let errno = match (PageStatus::from(is[place]), PageStatus::from(said[place])) {
            (PageStatus::On(node), _) if node == orders[index].to => {
                landed[index] = Landed::There;
                continue;
            }
            (PageStatus::Error(errno), _) => Errno::from_raw_os_error(errno),
            (_, PageStatus::Error(errno)) => Errno::from_raw_os_error(errno),
            // In a run that stopped half-way, or behind one; or sent and not there.
            _ => failed.unwrap_or(Errno::AGAIN),
        };
        landed[index] = Landed::Not(errno.raw_os_error());
        if matches!(errno, Errno::AGAIN | Errno::BUSY) || errno == Errno::NOMEM && failed.is_none() {
            again.push(index);
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_one_process_and_not_too_many_pages() {
        let order =
            |i| Order { pid: Pid(if i < 1100 { 1 } else { 2 }), to: 0, address: i, tag: 0, all: false };
        let orders: Vec<Order> = (0..2500).map(order).collect();
        assert_eq!(batches(&orders).map(<[Order]>::len).collect::<Vec<_>>(), [1024, 76, 1024, 376]);
    }
}
