//! The movers of a simulation: batches of orders, one after the other, that land when their time is over.

use crate::input::Landed;
use crate::output::Order;
use homing_core::ids::Micros;
use homing_core::monitor::kernel::BATCH;
use std::collections::VecDeque;

/// Orders that were handed out, and what came of them.
#[derive(Debug)]
pub(super) struct Movers {
    /// Nanoseconds of a page.
    each_ns: f64,
    /// Batches that were not begun, and until when they may be.
    queue: VecDeque<Vec<Order>>,
    until: Micros,
    /// The batch under way, and when it lands.
    now: Option<(Vec<Order>, Micros)>,
    pub(super) finished: Vec<(u32, Landed)>,
    /// Time in which pages were moved.
    pub(super) busy: Micros,
}

impl Movers {
    pub(super) fn new(each_ns: f64) -> Movers {
        Movers {
            each_ns,
            queue: VecDeque::new(),
            until: Micros(0),
            now: None,
            finished: Vec::new(),
            busy: Micros(0),
        }
    }

    /// Takes orders, sorted as the live movers sort them; none begins after `until`.
    pub(super) fn send(&mut self, t: Micros, mut orders: Vec<Order>, until: Micros) {
        orders.sort_unstable_by_key(|order| (order.to, order.address));
        self.queue.extend(orders.chunks(BATCH).map(<[Order]>::to_vec));
        self.until = self.until.max(until);
        self.begin(t);
    }

    /// When the batch under way lands.
    pub(super) fn due(&self) -> Option<Micros> {
        self.now.as_ref().map(|(_, lands)| *lands)
    }

    /// Takes the batch that has landed by `t`, and begins with the next one.
    pub(super) fn landed(&mut self, t: Micros) -> Option<Vec<Order>> {
        let (orders, lands) = self.now.take_if(|(_, lands)| *lands <= t)?;
        self.begin(lands);
        Some(orders)
    }

    /// True if every batch was begun.
    pub(super) fn queue_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// No further batch begins.
    pub(super) fn leave(&mut self) {
        self.until = Micros(0);
        self.give_back();
    }

    /// What the batch takes, if it were alone.
    pub(super) fn time(&self, orders: usize) -> Micros {
        Micros((orders as f64 * self.each_ns / 1000.0).ceil() as u64)
    }

    fn begin(&mut self, t: Micros) {
        if self.now.is_some() {
            return;
        }
        if t > self.until {
            return self.give_back();
        }
        if let Some(orders) = self.queue.pop_front() {
            let time = self.time(orders.len());
            self.busy = self.busy.plus(time);
            self.now = Some((orders, t.plus(time)));
        }
    }

    fn give_back(&mut self) {
        let late = self.queue.drain(..).flatten();
        self.finished.extend(late.map(|order| (order.tag, Landed::Later)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::ids::Node;
    use homing_core::process::ProcessId;

    #[test]
    fn batches_land_one_after_the_other_and_what_is_late_comes_back() {
        let mut movers = Movers::new(1000.0);
        let order = |tag: u32| {
            let (process, address) = (ProcessId(1), u64::from(9000 - tag) << 12);
            Order { tag, process, address, to: Node((tag % 2) as u16), shared: false }
        };
        movers.send(Micros(10), (0..2500).map(order).collect(), Micros(1500));
        assert_eq!(movers.due(), Some(Micros(10 + 1024)));
        assert_eq!((movers.landed(Micros(1033)), movers.queue_empty()), (None, false));
        let first = movers.landed(Micros(1034)).unwrap();
        assert!(first.len() == 1024 && first.iter().all(|order| order.to == Node(0)), "by node");
        assert_eq!(movers.due(), Some(Micros(10 + 2048)), "begun in time");
        assert_eq!(movers.landed(Micros(9999)).unwrap().len(), 1024);
        assert_eq!((movers.due(), movers.finished.len()), (None, 2500 - 2048));
        assert!(movers.finished.iter().all(|(_, landed)| *landed == Landed::Later));
        assert_eq!(movers.busy, Micros(2048));
    }
}
