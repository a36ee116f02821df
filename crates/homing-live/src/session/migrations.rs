//! Threads that the scheduler brought to other nodes, and threads that began, between two looks: reported by a
//! software event, which costs nothing while nothing happens.
//!
//! Without the right to watch the kernel there is no such event, and the looks alone tell, later.

use crate::host::Host;
use crate::targets::Targets;
use homing_core::ids::Micros;
use homing_core::process::{ProcessId, ThreadId};
use homing_linux::perf::record::{Record, Sample};
use homing_linux::perf::ring::Ring;
use homing_linux::perf::{self, Event, Sampling, Watch};
use homing_linux::policy::affinity;
use homing_linux::proc::{Pid, Tid};
use homing_session::input::Arrival;
use std::io;
use std::time::Duration;

/// Some 400 records between two steps.
const RING_PAGES: usize = 4;

/// What happened since the last time.
#[derive(Debug, Default)]
pub(super) struct Happened {
    /// Threads came to CPUs, oldest first.
    pub(super) arrivals: Vec<Arrival>,
    /// Threads began, or nobody knows.
    pub(super) threads_began: bool,
}

/// The event of each CPU.
#[derive(Debug, Default)]
pub(super) struct Migrations {
    rings: Vec<Ring>,
    refused: Option<io::Error>,
}

impl Migrations {
    /// Watches all CPUs, if that is permitted.
    pub(super) fn begin(host: &Host) -> Migrations {
        let sampling = Sampling { period: 1, memory: false, ring_pages: RING_PAGES };
        let open = |cpu: u32| perf::open_with_room(Event::MIGRATIONS, Watch::Cpu(cpu), sampling);
        match host.cpus().into_iter().map(open).collect() {
            Ok(rings) => Migrations { rings, refused: None },
            Err(e) => Migrations { rings: Vec::new(), refused: Some(e) },
        }
    }

    /// Why there is no event, if there is none.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(ToString::to_string)
    }

    /// What happened since the last time, in a session that began then.
    pub(super) fn poll(&mut self, targets: &Targets, host: &Host, began: Duration) -> Happened {
        let (mut samples, mut threads_began) = (Vec::new(), false);
        for ring in &mut self.rings {
            ring.drain(|record| match record {
                Record::Sample(sample) if targets.contains(Pid(sample.pid)) => samples.push(sample),
                Record::Began { pid, parent } => {
                    threads_began |= targets.contains(Pid(pid)) || targets.contains(Pid(parent));
                }
                Record::Lost(_) => threads_began = true,
                _ => {}
            });
        }
        // Each CPU tells in order, all together do not.
        samples.sort_by_key(|sample: &Sample| sample.time);
        let arrival = |sample: Sample| {
            let at = Duration::from_nanos(sample.time).saturating_sub(began);
            let (process, thread) = (ProcessId(sample.pid), ThreadId(sample.tid));
            let node = host.node_of_cpu(sample.cpu)?;
            let own = || affinity(Tid(sample.tid)).ok();
            let bound = own().is_some_and(|cpus| cpus.iter().all(|&cpu| host.node_of_cpu(cpu) == Some(node)));
            Some(Arrival { process, thread, node, at: Micros(at.as_micros() as u64), bound })
        };
        Happened { arrivals: samples.into_iter().filter_map(arrival).collect(), threads_began }
    }
}
