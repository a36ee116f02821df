//! What `homing run --runtime` and the engine that it puts inside of a program agree on.

/// The library with the engine, below the directory of the recorders.
pub const LIBRARY: &str = "runtime/libhoming.so";

/// Settings as those of `homing_start`. Without this variable the engine follows no parallel regions.
pub const SETTINGS_ENV: &str = "HOMING_RUNTIME";

/// With this variable the engine starts when the library is loaded, in every program.
pub const AT_LOAD_ENV: &str = "HOMING_RUNTIME_AT_LOAD";

/// The folder for what was counted: a file for each process, `PID.json`.
pub const STATISTICS_ENV: &str = "HOMING_RUNTIME_STATISTICS";

static INSIDE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// This process is the program itself: sources that work inside of it may be tried.
pub fn enter() {
    INSIDE.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// True inside of a program.
pub fn is_inside() -> bool {
    INSIDE.load(std::sync::atomic::Ordering::Relaxed)
}
