//! What Linux's NUMA balancing decides, whatever the unit of time is ([`super::linux`] has the source and the model's
//! limits): the order of its scans, their period, and which hint fault moves a page.

use super::pages::Pages;
use crate::ids::{Node, Page};
use crate::monitor::mapping::Walk;
use serde::{Deserialize, Serialize};

const PERIOD_SLOTS: f64 = 10.0;
const PERIOD_THRESHOLD: f64 = 7.0;
/// Passes in which a first fault is enough.
const EARLY_PASSES: u64 = 4;
/// The scan rate never exceeds this (`MAX_SCAN_WINDOW`).
const MOST_MB_PER_SECOND: f64 = 2560.0;

/// The settings in /sys/kernel/debug/sched/numa_balancing; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tunables {
    /// Time before the first scan.
    pub scan_delay: f64,
    /// Shortest time for a pass over the address space.
    pub scan_period_min: f64,
    /// Longest time for a pass over the address space.
    pub scan_period_max: f64,
    /// MB that one scan makes inaccessible.
    pub scan_size_mb: f64,
}

impl Tunables {
    /// The kernel's defaults.
    pub const DEFAULT: Tunables = Tunables {
        scan_delay: 1000.0,
        scan_period_min: 1000.0,
        scan_period_max: 60_000.0,
        scan_size_mb: 256.0,
    };
}

/// Hint faults of the present pass.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Faults {
    local: f64,
    remote: f64,
    private: f64,
    shared: f64,
}

/// The balancing of one program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Balancing {
    tunables: Tunables,
    page_mb: f64,
    /// The scan period in milliseconds.
    period: f64,
    /// The pages of the address space, by order of first reference.
    order: Vec<Page>,
    walk: Walk,
    faults: Faults,
    /// The node of each page's last hint fault.
    last: Pages<Option<Node>>,
}

impl Balancing {
    /// Of a program without pages, which have `page_bytes` bytes.
    pub fn new(tunables: Tunables, page_bytes: u64) -> Balancing {
        Balancing {
            tunables,
            page_mb: page_bytes as f64 / f64::from(1 << 20),
            period: tunables.scan_period_min,
            order: Vec::new(),
            walk: Walk::default(),
            faults: Faults::default(),
            last: Pages::default(),
        }
    }

    /// The bytes of a page, before there are any.
    pub(super) fn set_page_bytes(&mut self, bytes: u64) {
        self.page_mb = bytes as f64 / f64::from(1 << 20);
    }

    /// The settings.
    pub fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    /// Time between two scans, in milliseconds.
    pub fn period(&self) -> f64 {
        self.period
    }

    /// A page was referred to for the first time.
    pub fn begins(&mut self, page: Page) {
        self.order.push(page);
    }

    /// A page is gone.
    pub fn gone(&mut self, page: Page) {
        self.last.remove(page);
    }

    /// A scan: calls `take` for each page that becomes inaccessible.
    pub fn scan(&mut self, mut take: impl FnMut(Page)) {
        let window = (self.tunables.scan_size_mb / self.page_mb).max(1.0) as u64;
        let order = &self.order;
        let over = self.walk.to_the_end(order.len(), window, |place| {
            take(order[place]);
            true
        });
        if over {
            self.adapt();
        }
    }

    /// `update_task_scan_period`.
    fn adapt(&mut self) {
        let Tunables { scan_period_min, scan_period_max, scan_size_mb, .. } = self.tunables;
        let windows = (self.order.len() as f64 * self.page_mb / scan_size_mb).ceil().max(1.0);
        let floor = 1000.0 / (MOST_MB_PER_SECOND / scan_size_mb).max(1.0);
        let least = (scan_period_min / windows).max(floor.min(scan_period_min));
        let most = (scan_period_max / windows).max(least);
        let Faults { local, remote, private, shared } = std::mem::take(&mut self.faults);
        if local + shared == 0.0 {
            self.period = (self.period * 2.0).min(most);
            return;
        }
        let slots = |part: f64, rest: f64| (part * PERIOD_SLOTS / (part + rest)).floor();
        let locality = if local + remote > 0.0 { slots(local, remote) } else { 0.0 };
        let privacy = if private + shared > 0.0 { slots(private, shared) } else { 0.0 };
        let slot = (self.period / PERIOD_SLOTS).ceil();
        let change = match (privacy, locality) {
            (share, _) if share >= PERIOD_THRESHOLD => (share - PERIOD_THRESHOLD).max(1.0),
            (_, share) if share >= PERIOD_THRESHOLD => (share - PERIOD_THRESHOLD).max(1.0),
            _ => locality.max(privacy) - PERIOD_THRESHOLD,
        };
        self.period = (self.period + change * slot).clamp(least, most);
    }

    /// A hint fault from a node, which has the page if it is `local`. True if the page moves there.
    pub fn fault(&mut self, page: Page, node: Node, local: bool) -> bool {
        let early = self.walk.passes() <= EARLY_PASSES;
        let last = self.last.entry(page, || None).replace(node);
        let private = last == Some(node) || (last.is_none() && early);
        *(if private { &mut self.faults.private } else { &mut self.faults.shared }) += 1.0;
        *(if local { &mut self.faults.local } else { &mut self.faults.remote }) += 1.0;
        private && !local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_adapts_as_the_kernel_does() {
        let mut balancing = Balancing::new(Tunables::DEFAULT, 4096);
        balancing.begins(Page(0));
        let mut after = |period: f64, local: f64, remote: f64, private: f64, shared: f64| {
            balancing.period = period;
            balancing.faults = Faults { local, remote, private, shared };
            balancing.adapt();
            balancing.period()
        };
        assert_eq!(after(2000.0, 0.0, 9.0, 9.0, 0.0), 4000.0, "nothing local, nothing shared: twice");
        assert_eq!(after(2000.0, 5.0, 5.0, 9.0, 1.0), 2400.0, "nine tenths private: two slots more");
        assert_eq!(after(2000.0, 7.0, 3.0, 0.0, 9.0), 2200.0, "seven tenths local: one slot more");
        assert_eq!(after(2000.0, 4.0, 6.0, 1.0, 9.0), 1400.0, "four tenths: three slots less");
        assert_eq!(after(1000.0, 1.0, 9.0, 0.0, 10.0), 1000.0, "never below the least");
        assert_eq!(after(60_000.0, 9.0, 1.0, 9.0, 1.0), 60_000.0, "never above the most");
    }
}
