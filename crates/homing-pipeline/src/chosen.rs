//! Which references of a trace are looked at: all, or those of a phase, of some threads, or from some Time on. Pages
//! still begin where they are first touched in the whole trace, so the first reference to each page stays, whoever
//! makes it and when.

use crate::error::{PipelineError, Result};
use homing_core::ids::{Thread, Time};
use homing_trace::{NameId, Trace, Turn, FRAME_SHIFT};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The phase, as the program names it; all if `None`.
    pub phase: Option<String>,
    /// The threads; all if `None`.
    pub threads: Option<ThreadList>,
    /// The first Time; from the start if `None`.
    pub since: Option<Time>,
}

/// Threads by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadList {
    text: String,
    ranges: Vec<RangeInclusive<u32>>,
}

impl FromStr for ThreadList {
    type Err = String;

    /// Parses numbers and ranges, separated by commas: `1-4,7`.
    fn from_str(text: &str) -> std::result::Result<ThreadList, String> {
        let range = |part: &str| {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            (low <= high).then_some(low..=high)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.ok_or_else(|| format!("`{text}`: expected threads such as 1-4,7"))?;
        Ok(ThreadList { text: text.to_owned(), ranges })
    }
}

impl fmt::Display for ThreadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl ThreadList {
    fn holds(&self, thread: Thread) -> bool {
        self.ranges.iter().any(|range| range.contains(&thread.0))
    }
}

impl Choice {
    /// Whether everything is looked at.
    pub fn is_everything(&self) -> bool {
        self.is_whole_program() && self.since.is_none()
    }

    /// Whether all phases and threads are looked at.
    pub fn is_whole_program(&self) -> bool {
        self.phase.is_none() && self.threads.is_none()
    }

    /// Fails if the trace has no such threads.
    pub(crate) fn check_threads(&self, trace: &Trace<'_>) -> Result<()> {
        let Some(list) = &self.threads else { return Ok(()) };
        if trace.threads().any(|(thread, _)| list.holds(thread)) {
            return Ok(());
        }
        let last = trace.threads().map(|(thread, _)| thread.0).max().unwrap_or(0);
        let message = format!("--threads {list}: the trace has none of them, but threads up to {last}");
        Err(PipelineError::Usage(message))
    }

    /// Fails if no mark of the trace, of which `marks` are the names, begins the phase.
    pub(crate) fn check_phase(&self, trace: &Trace<'_>, marks: impl Iterator<Item = NameId>) -> Result<()> {
        let Some(phase) = &self.phase else { return Ok(()) };
        let mut names: Vec<&str> = marks.map(|name| trace.names().get(name)).collect();
        names.retain(|name| *name != ITERATION);
        names.sort_unstable();
        names.dedup();
        if names.contains(&phase.as_str()) {
            return Ok(());
        }
        let there = match names.is_empty() {
            true => "the program marked none (homing_phase of include/homing.h does)".to_owned(),
            false => format!("the trace has {}", names.join(", ")),
        };
        Err(PipelineError::Usage(format!("--phase {phase}: no such phase; {there}")))
    }
}

/// The mark that ends an iteration and begins no phase.
pub(crate) const ITERATION: &str = "iteration";

/// Chooses references, in order of Time.
pub(crate) struct Chooser<'a> {
    choice: &'a Choice,
    in_phase: bool,
    /// By frame.
    touched: Vec<bool>,
    /// References that are left out.
    pub(crate) left_out: u64,
    /// References outside of the choice that are the first to their pages.
    pub(crate) first_touches: u64,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(choice: &'a Choice, frames: usize) -> Chooser<'a> {
        let in_phase = choice.phase.is_none();
        Chooser { choice, in_phase, touched: vec![false; frames], left_out: 0, first_touches: 0 }
    }

    /// The program sets a mark.
    pub(crate) fn mark(&mut self, name: &str) {
        if let (Some(phase), true) = (&self.choice.phase, name != ITERATION) {
            self.in_phase = name == phase;
        }
    }

    /// Gives on what is chosen of a turn.
    pub(crate) fn choose<'t>(&mut self, turn: Turn<'t>, mut to: impl FnMut(Turn<'t>)) {
        let chosen = self.in_phase && self.choice.threads.as_ref().is_none_or(|list| list.holds(turn.thread));
        let early = match (chosen, self.choice.since) {
            (false, _) => turn.addresses.len(),
            (true, None) => 0,
            (true, Some(Time(since))) => {
                since.saturating_sub(turn.first.0).min(turn.addresses.len() as u64) as usize
            }
        };
        let part = |from: usize, until: usize| {
            let first = Time(turn.first.0 + from as u64);
            Turn { first, addresses: &turn.addresses[from..until], kinds: &turn.kinds[from..until], ..turn }
        };
        for at in 0..early {
            if self.touch(turn.addresses[at]) {
                self.first_touches += 1;
                to(part(at, at + 1));
            } else {
                self.left_out += 1;
            }
        }
        turn.addresses[early..].iter().for_each(|&address| {
            self.touch(address);
        });
        if early < turn.addresses.len() {
            to(part(early, turn.addresses.len()));
        }
    }

    /// Whether this is the first reference to its page.
    fn touch(&mut self, address: u64) -> bool {
        let touched = self.touched.get_mut((address >> FRAME_SHIFT) as usize);
        touched.is_some_and(|touched| !std::mem::replace(touched, true))
    }

    /// What a reader of the results must know.
    pub(crate) fn note(&self) -> String {
        let Chooser { choice: Choice { phase, threads, since }, left_out, first_touches, .. } = self;
        let phase = phase.as_ref().map(|phase| format!("phase {phase}"));
        let threads = threads.as_ref().map(|list| format!("threads {list}"));
        let since = since.map(|since| format!("what comes after the first {} references", since.0));
        let what: Vec<String> = phase.into_iter().chain(threads).chain(since).collect();
        format!(
            "only {}: {left_out} other references are left out; {first_touches} stay that are the first to their \
             pages, since pages begin where they are first touched in the whole trace",
            what.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_trace::Kind;

    #[test]
    fn first_touches_stay_whoever_makes_them() {
        let choice = Choice { phase: Some("b".into()), threads: Some("1-2,7".parse().unwrap()), since: None };
        let mut chooser = Chooser::new(&choice, 3);
        let mut kept = Vec::new();
        let mut refer = |chooser: &mut Chooser<'_>, thread: u32, frames: &[u64]| {
            let addresses: Vec<u64> = frames.iter().map(|frame| frame << 12).collect();
            let kinds = vec![Kind::new(8, false, false); addresses.len()];
            let turn = Turn { thread: Thread(thread), first: Time(0), addresses: &addresses, kinds: &kinds };
            chooser.choose(turn, |turn| {
                kept.extend(
                    turn.addresses.iter().map(|address| (turn.thread.0, turn.first.0, address >> 12)),
                );
            });
        };
        refer(&mut chooser, 0, &[0, 0, 1]);
        chooser.mark("b");
        refer(&mut chooser, 1, &[0, 0]);
        refer(&mut chooser, 3, &[0, 2]);
        chooser.mark("iteration");
        refer(&mut chooser, 7, &[2]);
        chooser.mark("c");
        refer(&mut chooser, 1, &[2, 1]);
        assert_eq!(kept, [(0, 0, 0), (0, 2, 1), (1, 0, 0), (1, 0, 0), (3, 1, 2), (7, 0, 2)]);
        assert_eq!((chooser.left_out, chooser.first_touches), (4, 3));
        for wrong in ["", "a", "4-1", "1,,2", "-3"] {
            assert!(wrong.parse::<ThreadList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_turn_is_cut_where_the_first_time_is_in_it() {
        let choice = Choice { since: Some(Time(13)), ..Choice::default() };
        let mut chooser = Chooser::new(&choice, 2);
        let mut kept = Vec::new();
        for first in [4, 8, 12, 16] {
            let addresses = [0, 0, 1 << 12, 0];
            let kinds = [Kind::new(8, false, false); 4];
            let turn = Turn { thread: Thread(0), first: Time(first), addresses: &addresses, kinds: &kinds };
            chooser.choose(turn, |turn| kept.push((turn.first.0, turn.addresses.len(), turn.kinds.len())));
        }
        // First touches at 4 and 6, then all from 13 on.
        assert_eq!(kept, [(4, 1, 1), (6, 1, 1), (13, 3, 3), (16, 4, 4)]);
        assert_eq!((chooser.left_out, chooser.first_touches), (7, 2));
    }
}
