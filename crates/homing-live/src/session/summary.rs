//! The exit summary of a session.

use super::Session;
use crate::account::{by_name, Summary};
use crate::config::Bind;
use crate::counters::Counts;
use crate::source::Losses;
use homing_core::ids::Node;
use homing_core::process::Class;
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::proc::Pid;
use homing_session::account::{Account, Placed};
use std::collections::BTreeMap;

/// Scans without which there is no verdict on moves (`payoff.rs` of homing-core).
const SCANS: u64 = 3;

/// Accesses by the name of what their mapping holds, where there were any.
fn by_class(account: &Account) -> BTreeMap<String, u64> {
    let counts = Class::ALL.iter().map(|&class| (class.name().to_owned(), account.by_class[class as usize]));
    counts.filter(|(_, count)| *count > 0).collect()
}

impl Session<'_> {
    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let id = |node: Node| u64::from(self.host.kernel_id(node));
        let account = self.account();
        let losses = self.source.losses();
        Counts {
            samples_local: account.total.local,
            samples_remote: account.total.remote,
            pages_moved: account.total.moved,
            bytes_moved: account.bytes_moved,
            would_move: account.would_move,
            moves: account.moves.iter().map(|(&(from, to), &pages)| [id(from), id(to), pages]).collect(),
            failures: by_name(&account.failures),
            refused: account.refused.iter().map(|(why, &count)| ((*why).to_owned(), count)).collect(),
            moved_by_others: account.moved_by_others,
            left_waiting: self.pure.orders().waiting() as u64,
            unheard: (self.accesses.len() - self.processed) as u64,
            threads_moved: account.threads_moved,
            sent_back: account.sent_back,
            wanderers: account.wanderers,
            kept: account.kept,
            let_go: account.let_go,
            forwarded: account.forwarded,
            spread: account.spread,
            undone: account.undone,
            pauses: account.pauses,
            huge_pages_split: account.split,
            huge_pages_not_split: account.not_split,
            by_class: by_class(account),
            staying: account.staying.iter().map(|(why, &count)| ((*why).to_owned(), count)).collect(),
            unmapped: account.unmapped,
            outside_areas: account.outside_areas,
            losses: Losses { malformed: losses.malformed + account.malformed, ..losses },
            scans: self.source.scans(),
            denied: self.targets.denied().len() as u64,
            engine_cpu_seconds: self.phases.total().as_secs_f64(),
            engine_cpu_by_phase: self.phases.seconds(),
            moving_seconds: account.moving.seconds(),
            stopped_seconds: account.stopped.seconds(),
        }
    }

    /// How much can be trusted of what was seen.
    fn confidence(&self) -> String {
        let (sight, entry) = (self.account().sight, self.entry);
        let lost = self.source.losses().lost;
        let (level, why) = entry.confidence.split_once(": ").unwrap_or((entry.confidence, ""));
        if !entry.sees() {
            return entry.confidence.to_owned();
        }
        let level = if sight.samples == 0 {
            "none"
        } else if sight.missing(entry.scans).is_some()
            || lost > sight.samples
            || entry.scans && sight.answered < SCANS
        {
            "low"
        } else {
            level
        };
        let scans = match entry.scans {
            true => format!(" after {} of {} scans", sight.answered, sight.asked),
            false => String::new(),
        };
        let lost = if lost > 0 { format!(", {lost} lost") } else { String::new() };
        format!(
            "{level}: {} page samples{scans}{lost}, {} pages in memory; {why}",
            sight.samples, sight.resident
        )
    }

    /// Where pages are that were seen in use: the kernel is asked now for those of processes that go on.
    fn placed(&self) -> Placed {
        let mut placed = self.account().placed;
        let mut by_process: BTreeMap<Pid, Vec<(u64, Node)>> = BTreeMap::new();
        for entry in self.known() {
            if let Some(user) = entry.user() {
                by_process.entry(Pid(entry.process.0)).or_default().push((entry.address, user));
            }
        }
        let mut statuses = Vec::new();
        for (pid, pages) in by_process {
            let addresses: Vec<u64> = pages.iter().map(|(address, _)| *address).collect();
            // A process that has ended meanwhile has none.
            if move_pages::query(pid, &addresses, &mut statuses).is_ok() {
                for ((_, user), &status) in pages.iter().zip(&statuses) {
                    let PageStatus::On(id) = PageStatus::from(status) else { continue };
                    placed.add(self.host.node(id), Some(*user));
                }
            }
        }
        placed
    }

    /// Sums up.
    pub(super) fn summary(&self) -> Summary {
        let account = self.account();
        Summary {
            schema: 2,
            policy: self.config.policy.clone(),
            source: self.entry.name,
            confidence: self.confidence(),
            missing: account.sight.missing(self.entry.scans).filter(|_| self.entry.sees()),
            sight: account.sight,
            dry_run: self.config.dry_run,
            seconds: self.now().seconds(),
            samples: account.total.local + account.total.remote,
            placed: self.placed(),
            after_moves: account.after_moves,
            staying_memory: self.sharers.staying(),
            pages: self.pure.orders().pages().len() as u64,
            thread_events_refused: self.migrations.refused(),
            keeps: self.config.bind == Some(Bind::Auto),
            counts: self.counts(),
            resident_pages: self.resident_pages(),
            areas: self.hot().counts().to_vec(),
            iterations: self.hot().iterations(),
            by_iteration: self.hot().by_iteration().to_vec(),
            intervals: account.intervals.clone(),
        }
    }
}
