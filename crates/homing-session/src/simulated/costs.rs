//! What the engine and the kernel take of CPUs: one table, in nanoseconds of the session.
//!
//! Figures of this project are from docs/benchmarks.md and docs/live.md. "Typical" means: of the usual order on present
//! x86 servers, not measured by this project. The copy of a page and a shoot-down are the machine's (`page_move`,
//! `shootdown_ns`), and how long a scan waits for the scheduler's tick is the monitor's parameter `stop`.

/// Prices of single events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// A hint fault, on the CPU of the thread that faults: entry, `do_numa_page`, return. Typical.
    pub(super) hint_fault: f64,
    /// The sample of a fault that perf writes in the same CPU's time. Typical.
    pub(super) perf_sample: f64,
    /// To hold and release a thread at a scan; the engine does one after the other. Typical.
    pub(super) hold_thread: f64,
    /// To mark a page `PROT_NONE` in a scan (`change_pte_range`). Typical.
    pub(super) mark_page: f64,
    /// CPU time of the scanning helper before each scan: two processes of 10 ms each (docs/live.md, "Hint faults
    /// without kernel migration").
    pub(super) helper: f64,
    /// A process scan: the part that neither threads nor mappings change. So that eight threads take 0.6 ms: a log of
    /// `homing run --tee` has 0.2 to 1 ms (docs/monitors.md).
    pub(super) look: f64,
    /// ... and for each thread: to read its `stat`, 9 us (docs/benchmarks.md, "`homing why`").
    pub(super) look_thread: f64,
    /// ... and for each mapping: a line of `maps`. Typical; `maps` with few mappings takes 22 us (the same).
    pub(super) look_mapping: f64,
    /// The session's work on a sample: 224 ns (docs/benchmarks.md, "What the observer took of the engine").
    pub(super) sample: f64,
    /// To ask where a page is: 64 ns (docs/benchmarks.md, "`homing why`").
    pub(super) question: f64,
    /// The driver's work in an interval in which nothing happens: 0.01 s in 60 s (docs/benchmarks.md, the idle daemon),
    /// of 600 intervals.
    pub(super) interval: f64,
}

/// The table.
pub(super) const COSTS: Costs = Costs {
    hint_fault: 1000.0,
    perf_sample: 500.0,
    hold_thread: 10_000.0,
    mark_page: 30.0,
    helper: 20e6,
    look: 500_000.0,
    look_thread: 9000.0,
    look_mapping: 1000.0,
    sample: 224.0,
    question: 64.0,
    interval: 17_000.0,
};

impl Costs {
    /// A process scan.
    pub(super) fn process_scan(&self, threads: usize, mappings: usize) -> f64 {
        self.look + threads as f64 * self.look_thread + mappings as f64 * self.look_mapping
    }

    /// What a scan holds all threads for beyond its wait for ticks; `flush` is the shoot-down at each mapping's end.
    pub(super) fn hold(&self, threads: usize, pages: usize, mappings: usize, flush: f64) -> f64 {
        threads as f64 * self.hold_thread + pages as f64 * self.mark_page + mappings as f64 * flush
    }
}
