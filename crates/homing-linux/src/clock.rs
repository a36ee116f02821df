//! CPU time of this process, and the unit in which `/proc` gives it.

use std::time::Duration;

/// CPU time that all threads of this process have used.
pub fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec. With a valid clock and pointer it does not fail.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A number of clock ticks, as `/proc` counts CPU time.
pub fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_work() {
        let before = cpu_time();
        while cpu_time() < before + Duration::from_millis(2) {}
    }
}
