//! Targets of `homing-core`: machine files.

use homing_core::machine::Machine;

/// A machine file.
pub fn machine(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(machine) = Machine::from_toml(text, "fuzz") {
        let _ = machine.costs(machine.page_size());
    }
}
