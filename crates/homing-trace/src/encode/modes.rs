//! How a slot is encoded in the next references block, from what it did in this one.

use super::super::columns::Mode;
use super::slots::Slot;

/// A slot's way through a references block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub mode: Mode,
    /// Every access takes an explicit value.
    pub always: bool,
}

impl Choice {
    /// What is taken for an access of which nothing is known.
    pub(super) const FIRST: Choice = Choice { mode: Mode::Delta, always: false };
}

/// Explicit values from which a mode is judged.
const ENOUGH: usize = 32;

/// The choices for all slots of a code block that was executed `executions` times.
pub(super) fn choose(slots: &[Slot], executions: u32) -> Box<[Choice]> {
    let mut chosen: Vec<Choice> = Vec::with_capacity(slots.len());
    for (j, slot) in slots.iter().enumerate() {
        let mode = mode(slots, j, &chosen, executions);
        let explicit = slot.column.len();
        let unpredicted = if slot.always { slot.unpredictable() } else { explicit };
        let always = !matches!(mode, Mode::Linked(_))
            && match slot.mode {
                Mode::Linked(_) => false,
                _ if explicit < ENOUGH => slot.always,
                _ => unpredicted * 4 >= executions as usize,
            };
        chosen.push(Choice { mode, always });
    }
    chosen.into()
}

/// The mode of slot `j`, given the choices for the slots before it.
fn mode(slots: &[Slot], j: usize, before: &[Choice], executions: u32) -> Mode {
    let slot = &slots[j];
    let explicit = slot.column.len();
    if slot.derived {
        return slot.mode;
    }
    if let Mode::Linked(to) = slot.mode {
        let base = usize::from(to);
        let regular = slots[base].column.len() * 8 < executions as usize;
        let linked =
            !regular && explicit * 2 <= executions as usize && !matches!(before[base].mode, Mode::Linked(_));
        return if linked { slot.mode } else { Mode::Delta };
    }
    if explicit < ENOUGH {
        return slot.mode;
    }
    if slot.link_rows > 0 && slot.link_hits * 4 >= slot.link_rows * 3 && !slot.anchor {
        return match before[usize::from(slot.link_to)].mode {
            Mode::Linked(root) => Mode::Linked(root),
            _ => Mode::Linked(slot.link_to),
        };
    }
    let shift = if slot.any_delta == 0 { 0 } else { slot.any_delta.trailing_zeros() };
    let bytes = |value: u64| (64 - (value >> shift).leading_zeros()).div_ceil(8);
    if bytes(slot.largest - slot.smallest) < bytes(slot.any_zigzag) {
        Mode::Absolute
    } else {
        Mode::Delta
    }
}
