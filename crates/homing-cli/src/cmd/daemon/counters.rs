//! Counts of a scope over all its sessions. They only grow, as Prometheus wants it.

use homing_live::account::by_name;
use homing_live::session::Session;
use homing_live::source::Losses;
use std::collections::BTreeMap;

/// Counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    /// Sessions begun.
    pub sessions: u64,
    /// Accesses to pages on the accessing CPU's node.
    pub local: u64,
    /// Accesses to pages elsewhere.
    pub remote: u64,
    /// Pages moved.
    pub moved: u64,
    /// Bytes moved.
    pub moved_bytes: u64,
    /// Failed moves by error.
    pub failed: BTreeMap<String, u64>,
    /// Refused actions by rule.
    pub refused: BTreeMap<String, u64>,
    /// Pages that somebody else moved.
    pub moved_by_others: u64,
    /// Threads that moved and stayed.
    pub threads_moved: u64,
    /// Samples that the source lost.
    pub lost: u64,
    /// Microseconds spent moving.
    pub moving_us: u64,
    /// Microseconds in which threads were stopped for moves.
    pub stopped_us: u64,
}

impl Counters {
    /// These and those of a session that runs.
    pub fn plus(&self, session: &Session<'_>) -> Counters {
        let account = session.account();
        let Losses { lost, .. } = session.losses();
        let mut sum = self.clone();
        sum.sessions += 1;
        sum.local += account.total.local;
        sum.remote += account.total.remote;
        sum.moved += account.total.moved;
        sum.moved_bytes += account.bytes_moved;
        add(&mut sum.failed, by_name(&account.failures));
        add(&mut sum.refused, account.refused.iter().map(|(why, &count)| ((*why).to_owned(), count)));
        sum.moved_by_others += account.moved_by_others;
        sum.threads_moved += account.threads_moved;
        sum.lost += lost;
        sum.moving_us += account.moving.0;
        sum.stopped_us += account.stopped.0;
        sum
    }
}

fn add(to: &mut BTreeMap<String, u64>, from: impl IntoIterator<Item = (String, u64)>) {
    for (name, count) in from {
        *to.entry(name).or_default() += count;
    }
}
