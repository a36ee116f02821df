//! The monitor card's memory: the guest's PCI device and the plugin map the same bytes (`docs/monitor-card.md`).

use crate::LabError;
use homing_linux::inherit;
use std::fs::File;
use std::process::Command;

/// Bytes of the card's memory (`lab/plugin/card.h`).
pub use homing_linux::monitor_card::BYTES as CARD_BYTES;

/// Makes it, without a name; gives the number that QEMU knows it by.
pub(super) fn memory(qemu: &mut Command) -> Result<i32, LabError> {
    let doing = "making the card's memory";
    let memory = rustix::fs::memfd_create("homing-lab-card", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(LabError::io(doing))?;
    let file = File::from(memory);
    file.set_len(CARD_BYTES).map_err(LabError::io(doing))?;
    Ok(inherit::pass(qemu, file.into()))
}
