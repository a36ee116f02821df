//! Accesses from perf events. Where it is permitted there is one ring a CPU, which sees every thread of every process
//! from its first instruction; else one a thread, opened when the thread is first seen.

use super::{Losses, Source};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_core::process::{ProcessId, ThreadId};
use homing_core::session::input::{Access, AccessKind};
use homing_linux::perf::data_src::DataSource;
use homing_linux::perf::record::{Record, Sample};
use homing_linux::perf::ring::Ring;
use homing_linux::perf::{self, Event, Sampling, Watch};
use homing_linux::proc::{Pid, Tid};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Rings of one event.
#[derive(Debug)]
pub struct Rings {
    event: Event,
    sampling: Sampling,
    cpus: Vec<Ring>,
    threads: BTreeMap<Tid, Ring>,
    losses: Losses,
}

/// A sample as a load; `None` if it comes from a CPU that is not known.
pub(super) fn access(sample: &Sample, host: &Host, kind: AccessKind) -> Option<Access> {
    let node = host.node_of_cpu(sample.cpu)?;
    let (process, thread) = (ProcessId(sample.pid), ThreadId(sample.tid));
    Some(Access { process, thread, node, address: sample.address, store: false, kind })
}

/// Addresses from here on are the kernel's.
const KERNEL: u64 = 1 << 63;

impl Rings {
    /// Watches all CPUs if that is permitted; else nothing yet.
    pub fn new(event: Event, sampling: Sampling, host: &Host) -> Rings {
        let open = |cpu: u32| perf::open_with_room(event, Watch::Cpu(cpu), sampling).ok();
        let cpus: Option<Vec<Ring>> = host.cpus().into_iter().map(open).collect();
        Rings {
            event,
            sampling,
            cpus: cpus.unwrap_or_default(),
            threads: BTreeMap::new(),
            losses: Losses::default(),
        }
    }

    /// Hands the samples of the targets to `take`.
    pub fn drain(&mut self, targets: &Targets, mut take: impl FnMut(&Sample)) {
        let losses = &mut self.losses;
        for ring in self.cpus.iter_mut().chain(self.threads.values_mut()) {
            let drained = ring.drain(|record| match record {
                Record::Sample(sample) if sample.address < KERNEL && targets.contains(Pid(sample.pid)) => {
                    take(&sample);
                }
                Record::Lost(count) => losses.lost += count,
                Record::Throttle => losses.throttled += 1,
                _ => {}
            });
            losses.malformed += drained.malformed;
        }
    }
}

impl Source for Rings {
    fn follow(&mut self, targets: &Targets, changes: &Changes) -> io::Result<()> {
        if !self.cpus.is_empty() {
            return Ok(());
        }
        let lives = |tid: &Tid| targets.processes().values().any(|process| process.tasks.contains_key(tid));
        self.threads.retain(|tid, _| lives(tid));
        for &(_, tid) in &changes.new_tasks {
            match perf::open_with_room(self.event, Watch::Thread(tid), self.sampling) {
                Ok(ring) => {
                    self.threads.insert(tid, ring);
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {} // it has ended
                Err(_) => self.losses.unwatched += 1,
            }
        }
        Ok(())
    }

    /// Rings of CPUs only: that of a thread which has ended would wake for ever.
    fn wakers(&self) -> Vec<BorrowedFd<'_>> {
        self.cpus.iter().map(|ring| ring.event().as_fd()).collect()
    }

    fn poll(&mut self, targets: &Targets, host: &Host, accesses: &mut Vec<Access>) {
        let (memory, period) = (self.sampling.memory, self.sampling.period);
        self.drain(targets, |sample| {
            if !memory {
                return accesses.extend(access(sample, host, AccessKind::HintFault { after_scan: None }));
            }
            let source = DataSource::decode(sample.data_src);
            // Placement of pages decides nothing about what a near cache served.
            if source.left_the_node_or_missed() {
                let kind = AccessKind::References(sample.period.max(period) as f64);
                accesses.extend(
                    access(sample, host, kind).map(|access| Access { store: source.store, ..access }),
                );
            }
        });
    }

    fn losses(&self) -> Losses {
        self.losses
    }

    fn kernel_may_move(&self) -> bool {
        let switch = std::fs::read_to_string("/proc/sys/kernel/numa_balancing").unwrap_or_default();
        !matches!(switch.trim(), "" | "0")
    }
}
