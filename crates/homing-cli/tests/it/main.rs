//! Tests of the program as its users run it. One binary: each more would be linked with the whole program.

#[path = "../../../../fuzz/smoke.rs"]
mod smoke;
mod support;
mod tsan;

mod compare;
mod daemon_cli;
mod diff;
mod doctor_cli;
mod escapes;
mod external;
mod first_hour;
mod fuzz_machines;
mod fuzz_smoke;
mod live_cli;
mod manual;
mod memory_system;
mod model_defaults;
mod names;
mod odd_machines;
mod optimal;
mod order_memory;
mod output;
mod page_golden;
mod parts;
mod perf_data;
mod place;
mod record_attach;
mod record_both;
mod record_clang;
mod record_clang_rolled;
#[cfg(target_arch = "x86_64")]
mod record_cli;
#[cfg(target_arch = "x86_64")]
mod record_debug;
mod record_futex;
mod record_grain;
mod record_odd;
mod record_only_program;
mod record_parallel;
#[cfg(target_arch = "x86_64")]
mod record_processes;
#[cfg(target_arch = "x86_64")]
mod record_region;
#[cfg(target_arch = "x86_64")]
mod record_region_tsan;
mod record_tsan;
#[cfg(target_arch = "x86_64")]
mod record_wild;
mod record_windows;
mod rset;
mod sched;
mod sched_run;
mod study;
mod tables;
mod top_cli;
mod trace_cli;
mod try_cli;
#[cfg(target_arch = "x86_64")]
mod tutorial;
mod why;
#[cfg(target_arch = "x86_64")]
mod why_alternatives;
#[cfg(target_arch = "x86_64")]
mod why_believe;
#[cfg(target_arch = "x86_64")]
mod why_live;
#[cfg(target_arch = "x86_64")]
mod why_phases;
#[cfg(target_arch = "x86_64")]
mod why_wrappers;
mod windows;
