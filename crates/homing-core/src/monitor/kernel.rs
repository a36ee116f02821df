//! What a kernel and the engine's helpers take their time for: the delays between what the session asks for and what it
//! is told.

use crate::ids::Micros;
use crate::policy::settings::Param;

/// How often a scan that is due and cannot begin is tried (the live driver's `wait.rs`).
pub const ASK: Micros = Micros::from_millis(12);

/// Accesses that are handed to the session together (the same).
pub const AT_ONCE: usize = 2048;

/// Pages of a call of the movers (`move_pages.rs` of homing-linux).
pub const BATCH: usize = 1024;

/// How much more the four movers move than one does: 1.4 (docs/benchmarks.md, moving pages in the lab: 136 to 148 %).
const MOVERS: f64 = 1.4;

/// The part of a node's memory that the engine leaves free (`host.rs`).
const RESERVE: f64 = 0.02;

/// The delays, and what else a simulated session goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    /// Session time of a modelled nanosecond: above 1 a short trace stands for a longer run.
    pub slow: f64,
    /// Time from the session's wish for a scan until the helpers are ready.
    pub ready: Micros,
    /// Time in which all threads stand still for a scan until the scheduler's ticks have found the helper.
    pub stop: Micros,
    /// CPU time of a process scan; 0 for what threads and mappings take.
    pub look: Micros,
    /// Time of a page move by a single mover in microseconds; 0 for the machine's.
    pub page_move_us: f64,
    /// Bytes of each node; 0 for no limit.
    pub memory: u64,
    /// Until then the program may use node 0's memory alone, as a cpuset may say.
    pub closed: Micros,
}

const fn param(
    name: &'static str,
    default: f64,
    range: (f64, f64),
    unit: &'static str,
    doc: &'static str,
) -> Param {
    Param { name, default, range, unit, doc }
}

/// The parameters of the monitor.
pub const PARAMS: &[Param] = &[
    param(
        "slow",
        1.0,
        (0.001, 1e9),
        "",
        "session time of each modelled time; above 1 a short trace stands for a longer run",
    ),
    param("ready", 20.0, (0.0, 1e6), "ms", "until the scanning helper is ready (docs/live.md: some 20 ms)"),
    param(
        "stop",
        8.0,
        (0.0, 1e6),
        "ms",
        "threads stand still for a scan: two ticks (docs/live.md: 4 to 8 ms), and for what its threads and pages take",
    ),
    param(
        "look",
        0.0,
        (0.0, 1e6),
        "ms",
        "CPU time of a process scan; 0: by threads and mappings (docs/monitors.md)",
    ),
    param("move", 0.0, (0.0, 1e6), "us", "a page move by one of the movers; 0 for the machine's"),
    param(
        "memory",
        0.0,
        (0.0, 1e9),
        "MB",
        "of each node, which refuses moves when it is full; 0 for no limit",
    ),
    param(
        "closed",
        0.0,
        (0.0, 1e12),
        "ms",
        "the program's cpuset has node 0's memory alone until then (`homing lab run --start-on 0`)",
    ),
];

impl Kernel {
    /// From the values of [`PARAMS`].
    pub fn of(values: &[f64]) -> Kernel {
        let micros = |ms: f64| Micros((ms * 1000.0) as u64);
        Kernel {
            slow: values[0],
            ready: micros(values[1]),
            stop: micros(values[2]),
            look: micros(values[3]),
            page_move_us: values[4],
            memory: (values[5] * f64::from(1 << 20)) as u64,
            closed: micros(values[6]),
        }
    }

    /// Session time of a page move, all movers together, where one takes `machine_ns` on the machine. What a trace
    /// stands for changes nothing about that.
    pub fn page_move(&self, machine_ns: f64) -> f64 {
        self.page_copy(machine_ns) / MOVERS
    }

    /// CPU time of a page move by one mover, which the machine has as `machine_ns`.
    pub fn page_copy(&self, machine_ns: f64) -> f64 {
        if self.page_move_us > 0.0 {
            self.page_move_us * 1000.0
        } else {
            machine_ns
        }
    }

    /// Bytes that a node can still take when `used` are in use, and those of them that the engine would use.
    pub fn room(&self, used: u64) -> Option<(u64, u64)> {
        let free = self.memory.saturating_sub(used);
        let reserve = (self.memory as f64 * RESERVE) as u64;
        (self.memory > 0).then_some((free, free.saturating_sub(reserve)))
    }
}
