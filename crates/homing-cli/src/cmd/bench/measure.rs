//! Measuring memory: latency by a chain of dependent loads in random order, bandwidth by sweeps (Brock 2001, section 6).

use homing_linux::memory::Pages;
use homing_linux::policy;
use homing_linux::proc::Tid;
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Bytes of a cache line.
const LINE: usize = 64;

/// What a sweep does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Reads every word.
    Read,
    /// Writes every word.
    Write,
    /// Copies one half to the other; read and written bytes both count.
    Copy,
}

/// Memory bound to one node. Binding fails on kernels without NUMA; then there is but one memory.
fn bound(bytes: usize, node: u32) -> io::Result<Pages> {
    let mut pages = Pages::new(bytes)?;
    match policy::bind_range(&mut pages, &[node]) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    Ok(pages)
}

/// Nanoseconds for a load by a CPU from a node's memory, at least `time` long measured; the least of three rounds, since
/// whatever disturbs a measurement lengthens it.
pub fn latency(cpu: u32, node: u32, bytes: usize, time: Duration) -> io::Result<f64> {
    policy::set_affinity(Tid(0), &[cpu])?;
    let mut pages = bound(bytes, node)?;
    let lines = pages.len() / LINE;
    chain(&mut pages, lines);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let (begin, mut steps, mut at) = (Instant::now(), 0u64, 0usize);
        // At least once, also where another process had the CPU all the time.
        loop {
            for _ in 0..10_000 {
                at = next(&pages, at);
            }
            steps += 10_000;
            if begin.elapsed() >= time / 3 {
                break;
            }
        }
        black_box(at);
        best = best.min(begin.elapsed().as_nanos() as f64 / steps as f64);
    }
    Ok(best)
}

fn next(pages: &[u8], line: usize) -> usize {
    let word = pages[line * LINE..].first_chunk::<8>().expect("a line has 64 bytes");
    u64::from_ne_bytes(*word) as usize
}

/// Writes one cycle through all lines, in an order that no prefetcher guesses (Sattolo's shuffle, fixed seed).
fn chain(pages: &mut [u8], lines: usize) {
    let mut order: Vec<usize> = (0..lines).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for last in (1..lines).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(last, (state % last as u64) as usize);
    }
    for (place, &line) in order.iter().enumerate() {
        let next = order[(place + 1) % lines] as u64;
        pages[line * LINE..line * LINE + 8].copy_from_slice(&next.to_ne_bytes());
    }
}

/// Megabytes a second that CPUs together sweep over a node's memory.
pub fn bandwidth(cpus: &[u32], node: u32, bytes: usize, sweep: Sweep, time: Duration) -> io::Result<f64> {
    let barrier = Barrier::new(cpus.len());
    let one = |cpu: u32| -> io::Result<f64> {
        let ready = policy::set_affinity(Tid(0), &[cpu]).and_then(|()| bound(bytes, node));
        // Also one that failed must not keep the others waiting.
        barrier.wait();
        let mut pages = ready?;
        let (begin, mut swept) = (Instant::now(), 0usize);
        loop {
            run(&mut pages, sweep);
            swept += pages.len();
            if begin.elapsed() >= time {
                break;
            }
        }
        Ok(swept as f64 / 1e6 / begin.elapsed().as_secs_f64())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || one(cpu))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a measuring thread does not panic")).sum()
    })
}

fn run(pages: &mut [u8], sweep: Sweep) {
    let half = pages.len() / 2;
    match sweep {
        Sweep::Read => {
            let words =
                pages.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")));
            black_box(words.fold(0, u64::wrapping_add));
        }
        Sweep::Write => black_box(&mut *pages).fill(3),
        Sweep::Copy => {
            let (from, to) = pages.split_at_mut(half);
            to[..half].copy_from_slice(from);
            black_box(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_one_cycle() {
        let mut pages = vec![0u8; 100 * LINE];
        chain(&mut pages, 100);
        let (mut at, mut seen) = (0, std::collections::BTreeSet::new());
        for _ in 0..100 {
            at = next(&pages, at);
            assert!(seen.insert(at));
        }
        assert_eq!((at, seen.len()), (0, 100));
    }

    #[test]
    fn measurements_are_positive() {
        let cpu = policy::affinity(Tid(0)).unwrap()[0];
        let short = Duration::from_millis(3);
        std::thread::spawn(move || {
            assert!(latency(cpu, 0, 1 << 16, short).unwrap() > 0.0);
            for sweep in [Sweep::Read, Sweep::Write, Sweep::Copy] {
                assert!(bandwidth(&[cpu], 0, 1 << 16, sweep, short).unwrap() > 0.0);
            }
        })
        .join()
        .unwrap();
    }
}
