//! Looking into the TLBs: which pages they hold, and with address translation counters how many translations each entry
//! has given since it came (Tikir & Hollingsworth 2008, sections 4.2 and 4.3; the counters are hypothetical hardware).
//! Table 5 counts the time between two looks in a CPU's own translations.

use super::{Monitor, Observed, Poll, Reports};

/// Polls the TLB of each CPU.
#[derive(Debug)]
pub struct TlbContent {
    /// Translations of a CPU between two polls of it.
    every: u64,
    /// Use the counters; otherwise a page that is held counts once.
    counters: bool,
    counting: bool,
}

impl TlbContent {
    /// Polls each CPU after every `every` translations that it asked for. Each of its references asks for one.
    pub fn new(every: u64, counters: bool) -> TlbContent {
        TlbContent { every: every.max(1), counters, counting: false }
    }
}

impl Monitor for TlbContent {
    fn poll_each(&self) -> Option<u64> {
        Some(self.every)
    }

    fn poll(&mut self, poll: &mut Poll, reports: &mut Reports) {
        if self.counters && !self.counting {
            poll.hierarchy.count_translations();
            self.counting = true;
            return;
        }
        let Some(cpu) = poll.cpu else { return };
        let node = poll.nodes[usize::from(cpu)];
        poll.hierarchy.read_tlb(cpu, |page, count| {
            let reads = if self.counters { count } else { 1 };
            if reads > 0 {
                reports.samples.push(Observed { cpu: Some(cpu), node, page, reads, writes: 0, weight: 1.0 });
            }
        });
    }
}
