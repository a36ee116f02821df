//! What `homing run --runtime` and the engine that it puts inside of a program agree on.

/// The library with the engine, below the directory of the recorders.
pub const LIBRARY: &str = "runtime/libhoming.so";

/// Settings as those of `homing_start`. Without this variable the engine follows no parallel regions.
pub const SETTINGS_ENV: &str = "HOMING_RUNTIME";

/// The folder for what was counted: a file for each process, `PID.json`.
pub const STATISTICS_ENV: &str = "HOMING_RUNTIME_STATISTICS";
