//! Accesses from perf events. Where it is permitted there is one ring a CPU, which sees every thread of every process
//! from its first instruction; else one a thread, opened when the thread is first seen.

use super::{Losses, Source};
use crate::host::Host;
use crate::targets::{Changes, Targets};
use homing_core::process::{ProcessId, ThreadId};
use homing_linux::perf::data_src::DataSource;
use homing_linux::perf::record::{Record, Sample};
use homing_linux::perf::ring::Ring;
use homing_linux::perf::{self, Event, Sampling, Watch};
use homing_linux::proc::{Pid, Tid};
use homing_session::input::{Access, AccessKind};
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
    /// Room for the samples of one look, kept for the next.
    samples: Vec<Sample>,
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
            samples: Vec::new(),
        }
    }

    /// Hands the samples of the targets to `take`, in the order of their times: ring by ring one node's uses would come
    /// before all others', and what is judged by the first of them would be judged by that node's alone.
    pub fn drain(&mut self, targets: &Targets, mut take: impl FnMut(&Sample)) {
        let (losses, samples) = (&mut self.losses, &mut self.samples);
        for ring in self.cpus.iter_mut().chain(self.threads.values_mut()) {
            let drained = ring.drain(|record| match record {
                Record::Sample(sample) if sample.address < KERNEL && targets.contains(Pid(sample.pid)) => {
                    samples.push(sample);
                }
                Record::Lost(count) => losses.lost += count,
                Record::Throttle => losses.throttled += 1,
                _ => {}
            });
            losses.malformed += drained.malformed;
        }
        samples.sort_by_key(|sample| sample.time);
        samples.drain(..).for_each(|sample| take(&sample));
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

#[cfg(test)]
mod tests {
    use super::super::page_faults::FAULTS;
    use super::*;
    use crate::targets::Choice;
    use homing_linux::policy;
    use homing_linux::proc::Proc;
    use std::path::Path;
    use std::sync::{Barrier, Mutex};

    #[test]
    fn samples_of_several_rings_come_in_the_order_of_their_times() {
        // Far apart, so that each is a fault of its own with huge pages too, and more in all than an allocator reuses.
        const PAGES: usize = 30;
        const APART: usize = 2 << 20;
        let host = Host::read(Path::new("/sys")).unwrap();
        let cpus: Vec<u32> = host.cpus().into_iter().take(2).collect();
        let mut rings = Rings::new(Event::PAGE_FAULTS, FAULTS, &host);
        if cpus.len() < 2 || rings.cpus.is_empty() {
            eprintln!("SKIPPED: this needs two CPUs, and the right to watch them");
            return;
        }
        let pids = vec![Pid(std::process::id() as i32)];
        let mut targets = Targets::new(Proc::default(), Choice::Processes { pids, children: false });
        targets.look(&host).unwrap();
        let memory = Mutex::new(vec![0u8; (PAGES + 1) * APART]);
        let start = memory.lock().unwrap().as_ptr() as u64 + APART as u64;
        let turn = Barrier::new(cpus.len());
        std::thread::scope(|scope| {
            for (index, &cpu) in cpus.iter().enumerate() {
                let (memory, turn) = (&memory, &turn);
                scope.spawn(move || {
                    policy::set_affinity(Tid(0), &[cpu]).unwrap();
                    for page in 0..PAGES {
                        turn.wait();
                        if page % 2 == index {
                            memory.lock().unwrap()[(page + 1) * APART] = 1;
                        }
                        turn.wait();
                    }
                });
            }
        });
        let mut pages = Vec::new();
        rings.drain(&targets, |sample| {
            let page = sample.address.wrapping_sub(start) / APART as u64;
            pages.extend((page < PAGES as u64).then_some(page as usize));
        });
        assert_eq!(pages, (0..PAGES).collect::<Vec<_>>());
    }
}
