//! Threads that the scheduler brought to other nodes, and threads that began, between two looks: told by a software event,
//! which costs nothing while nothing happens. A thread counts as moved when it stays (Nikolopoulos 2000, section 4: two parallel
//! constructs in a row; here a while, which is longer for a thread that moved a short while ago).
//!
//! Without the right to watch the kernel there is no such event, and the looks alone tell, later.

use crate::host::Host;
use crate::targets::Targets;
use homing_core::ids::Node;
use homing_linux::perf::record::{Record, Sample};
use homing_linux::perf::ring::Ring;
use homing_linux::perf::{self, Event, Sampling, Watch};
use homing_linux::proc::{Pid, Tid};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How long a thread must stay, at first and at most.
const STAYS: Duration = Duration::from_millis(150);
const STAYS_AT_MOST: Duration = Duration::from_secs(5);

/// Twice as long for a thread that moved so many times that long ago.
const RESTLESS: u32 = 16;

/// Some 400 records between two steps.
const RING_PAGES: usize = 4;

/// A thread on a node that is not known to be its own.
#[derive(Clone, Copy, Debug)]
struct Away {
    pid: Pid,
    node: Node,
    since: Duration,
}

/// How long a thread that has moved must stay when it moves again.
#[derive(Clone, Copy, Debug)]
struct Patience {
    moved: Duration,
    stays: Duration,
}

/// What happened since the last time.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Happened {
    /// Threads that stay on another node now.
    pub(super) moved: Vec<(Pid, Tid, Node)>,
    /// Threads began, or nobody knows: a look is worth it.
    pub(super) unknown: bool,
}

/// The event of each CPU, and the threads that are on the way.
#[derive(Debug, Default)]
pub(super) struct Migrations {
    rings: Vec<Ring>,
    away: BTreeMap<Tid, Away>,
    patience: BTreeMap<Tid, Patience>,
    refused: Option<io::Error>,
}

impl Migrations {
    /// Watches all CPUs, if that is permitted.
    pub(super) fn begin(host: &Host) -> Migrations {
        let sampling = Sampling { period: 1, memory: false, ring_pages: RING_PAGES };
        let open = |cpu: u32| perf::open_with_room(Event::MIGRATIONS, Watch::Cpu(cpu), sampling);
        match host.cpus().into_iter().map(open).collect() {
            Ok(rings) => Migrations { rings, ..Migrations::default() },
            Err(e) => Migrations { refused: Some(e), ..Migrations::default() },
        }
    }

    /// Why there is no event, if there is none.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.as_ref().map(ToString::to_string)
    }

    /// What happened until `now` of the monotonic clock.
    pub(super) fn poll(&mut self, targets: &Targets, host: &Host, now: Duration) -> Happened {
        let (mut samples, mut unknown) = (Vec::new(), false);
        for ring in &mut self.rings {
            ring.drain(|record| match record {
                Record::Sample(sample) if targets.contains(Pid(sample.pid)) => samples.push(sample),
                Record::Began { pid, parent } => {
                    unknown |= targets.contains(Pid(pid)) || targets.contains(Pid(parent));
                }
                Record::Lost(_) => unknown = true,
                _ => {}
            });
        }
        // Each CPU tells in order, all together do not.
        samples.sort_by_key(|sample: &Sample| sample.time);
        for sample in samples {
            let (pid, tid) = (Pid(sample.pid), Tid(sample.tid));
            if let Some(node) = host.node_of_cpu(sample.cpu) {
                let at_home = targets.task(pid, tid).is_some_and(|task| task.node == Some(node));
                self.came(Away { pid, node, since: Duration::from_nanos(sample.time) }, tid, at_home);
            }
        }
        Happened { moved: self.stay(now), unknown }
    }

    /// A thread came to a CPU of this node.
    fn came(&mut self, away: Away, tid: Tid, at_home: bool) {
        if at_home {
            self.away.remove(&tid);
        } else if self.away.get(&tid).is_none_or(|before| before.node != away.node) {
            self.away.insert(tid, away);
        }
    }

    /// Threads that have been away for so long that they stay.
    fn stay(&mut self, now: Duration) -> Vec<(Pid, Tid, Node)> {
        if self.away.is_empty() {
            return Vec::new();
        }
        // Those of long ago are as good as none, and their threads may have ended.
        self.patience.retain(|_, patience| now.saturating_sub(patience.moved) < patience.stays * RESTLESS);
        let mut moved = Vec::new();
        self.away.retain(|&tid, away| {
            let patience = self.patience.get(&tid).map_or(STAYS, |patience| patience.stays);
            let stays = now.saturating_sub(away.since) >= patience;
            if stays {
                let longer = (patience * 2).min(STAYS_AT_MOST);
                self.patience.insert(tid, Patience { moved: now, stays: longer });
                moved.push((away.pid, tid, away.node));
            }
            !stays
        });
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moved_when_it_stays_and_a_restless_one_must_stay_longer() {
        let mut migrations = Migrations::default();
        let (pid, tid, ms) = (Pid(7), Tid(8), Duration::from_millis);
        let away = |node, since| Away { pid, node: Node(node), since: ms(since) };
        migrations.came(away(1, 1000), tid, false);
        assert_eq!(migrations.stay(ms(1100)), []);
        migrations.came(away(0, 1120), tid, true);
        assert_eq!(migrations.stay(ms(2000)), [], "it went home");
        migrations.came(away(1, 2000), tid, false);
        migrations.came(away(1, 2140), tid, false);
        assert_eq!(
            migrations.stay(ms(2150)),
            [(pid, tid, Node(1))],
            "another CPU of the node is the same place"
        );
        assert_eq!(migrations.stay(ms(2160)), [], "told once");
        migrations.came(away(2, 2200), tid, false);
        assert_eq!(migrations.stay(ms(2400)), []);
        assert_eq!(migrations.stay(ms(2500)), [(pid, tid, Node(2))]);
        migrations.came(away(3, 60_000), tid, false);
        assert_eq!(migrations.stay(ms(60_150)), [(pid, tid, Node(3))], "long ago is forgotten");
    }
}
