//! Pages of jobs that leave a node which goes to another partition.

use super::hardware::Hardware;
use homing_core::ids::Node;
use homing_linux::proc::{Pid, Proc};
use homing_live::evacuate::evacuate;
use homing_live::host::Host;
use homing_live::jobs::process::pages_of;
use homing_sched::manager::Vacate;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::thread::{self, JoinHandle};

/// Pages that leave a node, in a thread of its own: many take seconds.
pub struct Leaving {
    host: Host,
    node: Node,
    to: Vec<Node>,
    pids: BTreeSet<Pid>,
    /// Pages on the node, before anybody has moved one.
    before: u64,
    worker: Option<JoinHandle<()>>,
}

impl Leaving {
    /// Counts the pages of processes that are on the node. That is done before jobs lose it: the kernel moves the pages
    /// of cpusets by itself.
    pub fn announced(hardware: &Hardware, vacate: &Vacate, pids: Vec<Pid>) -> Leaving {
        let (host, node) = (hardware.host().clone(), vacate.node);
        let before = on(&host, node, &pids);
        Leaving { host, node, to: vacate.to.clone(), pids: pids.into_iter().collect(), before, worker: None }
    }

    /// Moves what the kernel has not moved.
    pub fn begin(&mut self) {
        let (host, node, to, pids) = (self.host.clone(), self.node, self.to.clone(), self.pids.clone());
        self.worker = Some(thread::spawn(move || {
            // Threads have CPUs elsewhere already; what they have is the scheduler's to know.
            let nothing = &mut |_| -> Result<(), Infallible> { Ok(()) };
            let Ok(_) = evacuate(&host, &Proc::default(), &pids, node, &to, nothing);
        }));
    }

    /// True once nothing more will leave.
    pub fn is_over(&self) -> bool {
        self.worker.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Pages that left, and those that are there still.
    pub fn counts(&self) -> (u64, u64) {
        let pids: Vec<Pid> = self.pids.iter().copied().collect();
        let left = on(&self.host, self.node, &pids);
        (self.before.saturating_sub(left), left)
    }
}

fn on(host: &Host, node: Node, pids: &[Pid]) -> u64 {
    pages_of(pids).get(&host.kernel_id(node)).copied().unwrap_or(0)
}
