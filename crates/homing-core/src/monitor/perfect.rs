//! Perfect profiles: every transaction of an interval, known at its end, or, as only a simulator can, at its begin
//! (Tikir & Hollingsworth 2008, section 5.3).

use super::{Monitor, Observed, Poll, Reports, Seen};
use crate::ids::Node;
use std::collections::BTreeMap;

/// Transactions by page and requester.
type Profile = BTreeMap<(u32, u16), (Node, u64, u64)>;

fn add(profile: &mut Profile, seen: &Seen) {
    let entry = profile.entry((seen.page, seen.cpu)).or_insert((seen.node, 0, 0));
    if seen.kind.is_write() {
        entry.2 += 1;
    } else {
        entry.1 += 1;
    }
}

fn report(profile: Profile, reports: &mut Reports) {
    let all = profile.into_iter().map(|((page, cpu), (node, reads, writes))| Observed {
        cpu: Some(cpu),
        node,
        page,
        reads,
        writes,
        weight: 1.0,
    });
    reports.samples.extend(all);
}

/// All of the interval that ends.
#[derive(Debug, Default)]
pub struct Last(Profile);

impl Monitor for Last {
    fn transaction(&mut self, seen: &Seen, _: &mut Reports) {
        if seen.kind.is_demand() {
            add(&mut self.0, seen);
        }
    }

    fn interval_end(&mut self, _: &mut Poll, reports: &mut Reports) {
        report(std::mem::take(&mut self.0), reports);
    }
}

/// All of each interval, as a run without page moves sees them.
#[derive(Debug, Default)]
pub struct Future {
    intervals: Vec<Profile>,
}

/// Writes a [`Future`] down.
#[derive(Debug, Default)]
pub struct Recorder {
    now: Profile,
    future: Future,
}

impl Recorder {
    /// What was seen, by interval.
    pub fn finish(mut self) -> Future {
        self.future.intervals.push(self.now);
        self.future
    }
}

impl Monitor for Recorder {
    fn transaction(&mut self, seen: &Seen, _: &mut Reports) {
        if seen.kind.is_demand() {
            add(&mut self.now, seen);
        }
    }

    fn interval_end(&mut self, _: &mut Poll, _: &mut Reports) {
        self.future.intervals.push(std::mem::take(&mut self.now));
    }
}

/// All of the interval that begins.
#[derive(Debug)]
pub struct Next {
    intervals: std::vec::IntoIter<Profile>,
}

impl Next {
    /// From what a run without moves has seen.
    pub fn new(future: Future) -> Next {
        let mut intervals = future.intervals.into_iter();
        intervals.next();
        Next { intervals }
    }
}

impl Monitor for Next {
    fn interval_end(&mut self, _: &mut Poll, reports: &mut Reports) {
        report(self.intervals.next().unwrap_or_default(), reports);
    }
}
