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

/// Time between two ticks of the kernel's scheduler, in which the coarse clocks count.
pub fn tick() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec. With a valid clock and pointer it does not fail.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Thousands of steps a second of the processor's time stamp counter, measured over a fiftieth of a second.
#[cfg(target_arch = "x86_64")]
pub fn time_stamps_khz() -> u64 {
    let (from, first) = time_stamp();
    while monotonic() < from + Duration::from_millis(20) {}
    let (to, last) = time_stamp();
    (u128::from(last - first) * 1_000_000 / (to - from).as_nanos().max(1)) as u64
}

/// The counter, and when it stood there: of some readings the one between whose begin and end least time went by.
#[cfg(target_arch = "x86_64")]
fn time_stamp() -> (Duration, u64) {
    let read = |_| {
        let before = monotonic();
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        let count = unsafe { std::arch::x86_64::_rdtsc() };
        (monotonic() - before, before, count)
    };
    let (_, at, count) = (0..16).map(read).min().expect("sixteen readings");
    (at, count)
}

/// A number of clock ticks, as `/proc` counts CPU time.
pub fn ticks(count: u64) -> Duration {
    Duration::from_secs_f64(count as f64 / rustix::param::clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_one_of_100_to_1000_a_second() {
        let tick = tick();
        assert!(tick >= Duration::from_micros(990) && tick <= Duration::from_micros(10_010), "{tick:?}");
    }

    /// Two measurements agree, and no processor counts slower than 100 MHz or faster than 20 GHz.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn time_stamps_have_one_rate() {
        let (one, other) = (time_stamps_khz(), time_stamps_khz());
        assert!((100_000..20_000_000).contains(&one), "{one}");
        assert!(one.abs_diff(other) < one / 100, "{one}, {other}");
    }

    #[test]
    fn it_grows_with_work() {
        let before = cpu_time();
        let of_thread = thread_cpu_time();
        while cpu_time() < before + Duration::from_millis(2) {}
        let used = thread_cpu_time() - of_thread;
        assert!(used > Duration::ZERO && used <= cpu_time() - before);
    }
}
