//! Measuring memory: latency by a chain of dependent loads in random order, bandwidth by sweeps (Brock 2001, section
//! 6), and what moving a page takes.

use homing_linux::move_pages::{self, BATCH};
use homing_linux::policy;
use homing_linux::proc::{Pid, Tid};
use homing_live::mover::{Landed, Mover, Order};
use homing_live::movers;
use memmap2::MmapMut;
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
fn bound(bytes: usize, node: u32) -> io::Result<MmapMut> {
    let mut pages = MmapMut::map_anon(bytes)?;
    match policy::bind_range(&mut pages, &[node]) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    pages.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    Ok(pages)
}

/// Nanoseconds for a load by a CPU from a node's memory, at least `time` long measured; the least of three rounds,
/// since whatever disturbs a measurement lengthens it.
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

/// What moving a page takes, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// By nothing but `move_pages(2)`, [`BATCH`] pages a call, by one thread.
    pub bare: f64,
    /// By the engine's mover, which sorts, asks where each page came to be, and tries again; with one thread.
    pub mover: f64,
    /// ... and with as many as it has by default.
    pub threads: f64,
}

/// Moves memory from one node to another and back until `time` has gone, each of the three ways in turn; the least of
/// each.
pub fn moves(cpus: &[u32], from: u32, to: u32, bytes: usize, time: Duration) -> io::Result<Moves> {
    if !cpus.is_empty() {
        policy::set_affinity(Tid(0), cpus)?;
    }
    let mut pages = bound(bytes, from)?;
    // No page leaves the nodes that its policy allows, this program's own neither.
    match policy::unbind_range(&mut pages) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
        _ => {}
    }
    let pid = Pid(std::process::id() as i32);
    let addresses: Vec<u64> =
        (0..pages.len()).step_by(4096).map(|at| pages.as_ptr() as u64 + at as u64).collect();
    let bare = |to: u32| {
        let nodes = vec![to as i32; BATCH];
        let mut said = Vec::new();
        addresses
            .chunks(BATCH)
            .try_for_each(|part| move_pages::move_to(pid, part, &nodes[..part.len()], &mut said).map(drop))
    };
    let mut best = [f64::INFINITY; 3];
    let begin = Instant::now();
    loop {
        for (way, best) in best.iter_mut().enumerate() {
            let orders: Vec<Order> =
                addresses.iter().map(|&address| Order { pid, to, address, tag: 0, all: false }).collect();
            let started = Instant::now();
            let done = match way {
                0 => bare(to).map(|()| true)?,
                1 => landed(Mover { threads: 1, ..Mover::default() }, orders),
                _ => landed(Mover::default(), orders),
            };
            *best = best.min(started.elapsed().as_secs_f64() * 1e6 / addresses.len() as f64);
            let mut are = Vec::new();
            move_pages::query(pid, &addresses, &mut are)?;
            let there = are.iter().filter(|&&node| node == to as i32).count();
            if !done || there < addresses.len() {
                let message = format!("{there} of {} pages came to node {to}", addresses.len());
                return Err(io::Error::other(message));
            }
            bare(from)?;
        }
        if begin.elapsed() >= time {
            return Ok(Moves { bare: best[0], mover: best[1], threads: best[2] });
        }
    }
}

fn landed(mover: Mover, orders: Vec<Order>) -> bool {
    movers::carry_out(mover, orders).iter().all(|(_, landed)| *landed == Landed::There)
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
