//! Clocks: CPU time of this process, monotonic time, and the unit in which `/proc` gives it.

use std::time::Duration;

/// Time since some point in the past, as CLOCK_MONOTONIC counts it.
pub fn monotonic() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time that all threads of this process have used.
pub fn cpu_time() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that the calling thread has used.
pub fn thread_cpu_time() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec. With a valid clock and pointer it does not fail.
    unsafe { libc::clock_gettime(clock, &mut time) };
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
        let of_thread = thread_cpu_time();
        while cpu_time() < before + Duration::from_millis(2) {}
        let used = thread_cpu_time() - of_thread;
        assert!(used > Duration::ZERO && used <= cpu_time() - before);
    }
}
