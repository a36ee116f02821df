//! Looking into the TLBs: which pages they hold, and with address translation counters how many translations each entry
//! has given since it came (Tikir & Hollingsworth 2008, sections 4.2 and 4.3; the counters are hypothetical hardware).

use super::{Monitor, Poll, Reports};

/// Polls the TLB of every CPU.
#[derive(Debug)]
pub struct TlbContent {
    every: u64,
    /// Use the counters; otherwise a page that is held counts once.
    counters: bool,
    counting: bool,
}

impl TlbContent {
    /// Polls every time this many references of all CPUs have gone by.
    pub fn new(every: u64, counters: bool) -> TlbContent {
        TlbContent { every: every.max(1), counters, counting: false }
    }
}

impl Monitor for TlbContent {
    fn poll_every(&self) -> Option<u64> {
        Some(self.every)
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        if self.counters && !self.counting {
            poll.hierarchy.count_translations();
            self.counting = true;
            return;
        }
        for (cpu, &node) in poll.nodes.iter().enumerate() {
            let cpu = cpu as u16;
            poll.hierarchy.read_tlb(cpu, |page, count| {
                let reads = if self.counters { count } else { 1 };
                if reads > 0 {
                    let weight = 1.0;
                    reports.samples.push(super::Observed {
                        cpu: Some(cpu),
                        node,
                        page,
                        reads,
                        writes: 0,
                        weight,
                    });
                }
            });
        }
    }
}
