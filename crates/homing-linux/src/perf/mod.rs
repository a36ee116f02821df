//! `perf_event_open(2)`: events that sample, and their rings.

pub mod data_src;
pub mod pmu;
pub mod record;
pub mod ring;

use crate::fail::{self, Call};
use crate::proc::Tid;
use record::fields;
use ring::Ring;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// What an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The PMU's `type`.
    pub kind: u32,
    /// `config`.
    pub config: u64,
    /// `config1`; the latency threshold of load sampling.
    pub config1: u64,
    /// `precise_ip`.
    pub precise: u8,
}

impl Event {
    /// Page faults, hint faults of NUMA balancing among them. A software event: there on every machine.
    pub const PAGE_FAULTS: Event = Event { kind: 1, config: 2, config1: 0, precise: 0 };

    /// Threads that come to another CPU, sampled there, and threads that begin ([`record::Record::Began`]). A software
    /// event, of the kernel's own doing: needs the right to watch the kernel.
    pub const MIGRATIONS: Event = Event { kind: 1, config: 4, config1: 0, precise: 0 };
}

/// Whom an event watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// One thread, wherever it runs.
    Thread(Tid),
    /// Everything that runs on a CPU. Needs CAP_PERFMON or `perf_event_paranoid` <= 0.
    Cpu(u32),
}

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Take every Nth event.
    pub period: u64,
    /// Ask for latency and data source too (memory events of a PMU).
    pub memory: bool,
    /// Data pages of the ring, a power of two.
    pub ring_pages: usize,
}

/// `struct perf_event_attr` up to its fifth version, which every kernel of today knows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const TASKS: u64 = 1 << 13;
const WATERMARK: u64 = 1 << 14;
const PRECISE_SHIFT: u32 = 15;
const USE_CLOCK: u64 = 1 << 25;

/// As [`open`], with half as many pages for the ring, and half of that, down to one, until the kernel grants them
/// (`perf_event_mlock_kb`, RLIMIT_MEMLOCK).
///
/// # Errors
/// Those of [`open`] with a ring of one page.
pub fn open_with_room(event: Event, watch: Watch, mut sampling: Sampling) -> io::Result<Ring> {
    loop {
        match open(event, watch, sampling) {
            Err(error) if sampling.ring_pages > 1 && refuses_room(&error) => sampling.ring_pages /= 2,
            result => return result,
        }
    }
}

fn refuses_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
}

/// Opens an event that samples user-mode accesses with address, CPU, thread and monotonic time, and maps its ring. It
/// counts from now on.
///
/// # Errors
/// EACCES and EPERM without the right (`perf_event_paranoid`, ptrace access to the thread), ENOENT and EOPNOTSUPP where
/// the machine has no such event, ESRCH if the thread has ended, EMFILE.
pub fn open(event: Event, watch: Watch, sampling: Sampling) -> io::Result<Ring> {
    let more = if sampling.memory { fields::PERIOD | fields::WEIGHT | fields::DATA_SRC } else { 0 };
    let sample_type = fields::TID | fields::TIME | fields::ADDR | fields::CPU | more;
    // IBS cannot leave the kernel out on older kernels; the addresses tell it apart.
    let of_kernel = event == Event::MIGRATIONS;
    let exclude_kernel = if of_kernel || sampling.memory && event.precise == 0 {
        0
    } else {
        EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR
    };
    let tasks = if of_kernel { TASKS } else { 0 };
    let attributes = Attributes {
        kind: event.kind,
        size: std::mem::size_of::<Attributes>() as u32,
        config: event.config,
        config1: event.config1,
        sample_period: sampling.period,
        sample_type,
        flags: exclude_kernel | tasks | WATERMARK | u64::from(event.precise) << PRECISE_SHIFT | USE_CLOCK,
        clock: libc::CLOCK_MONOTONIC,
        // Rings are drained at intervals; one that fills up before says so. With a watermark this counts bytes.
        wakeup_events: (sampling.ring_pages * ring::PAGE / 2) as u32,
        ..Attributes::default()
    };
    let (tid, cpu) = match watch {
        Watch::Thread(tid) => (tid.0, -1),
        Watch::Cpu(cpu) => (-1, cpu as i32),
    };
    fail::point(Call::PerfOpen)?;
    const CLOEXEC: libc::c_ulong = 8;
    // SAFETY: the kernel reads `size` bytes of `attributes`.
    let fd = unsafe {
        libc::syscall(libc::SYS_perf_event_open, &attributes, tid, cpu, -1 as libc::c_int, CLOEXEC)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    Ring::new(fd, sampling.ring_pages, sample_type)
}

#[cfg(test)]
mod tests {
    use super::record::Record;
    use super::*;

    /// Touches fresh pages in another thread whose faults are sampled, and checks every sample.
    #[test]
    fn software_page_faults_are_sampled_with_address_and_thread() {
        const PAGES: usize = 300;
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let toucher = std::thread::spawn(move || {
            // SAFETY: gettid has no preconditions.
            send.send(unsafe { libc::gettid() }).unwrap();
            wait.recv().unwrap();
            let mut memory: Vec<u8> = Vec::with_capacity(PAGES * 4096);
            let begin = memory.as_ptr() as u64;
            memory.resize(PAGES * 4096, 1);
            (begin, std::hint::black_box(memory))
        });
        let tid = receive.recv().unwrap();
        let sampling = Sampling { period: 1, memory: false, ring_pages: 16 };
        let mut ring = match open(Event::PAGE_FAULTS, Watch::Thread(Tid(tid)), sampling) {
            Ok(ring) => ring,
            Err(error) => {
                eprintln!("skipped 1 test: perf_event_open: {error}");
                go.send(()).unwrap();
                toucher.join().unwrap();
                return;
            }
        };
        go.send(()).unwrap();
        let (begin, memory) = toucher.join().unwrap();
        let mut pages = std::collections::BTreeSet::new();
        let mut lost = 0;
        let drained = ring.drain(|record| match record {
            Record::Sample(sample) => {
                assert_eq!(sample.tid, tid);
                assert_eq!(sample.pid, std::process::id() as i32);
                assert!(sample.time > 0);
                if (begin..begin + memory.len() as u64).contains(&sample.address) {
                    pages.insert((sample.address - begin) >> 12);
                }
            }
            Record::Lost(count) => lost += count,
            _ => {}
        });
        assert_eq!((drained.malformed, lost), (0, 0));
        assert!(drained.records >= pages.len() as u64);
        // Huge pages, where always on, fault once for 512 of these.
        assert!(!pages.is_empty());
        assert_eq!(ring.drain(|_| ()).records, 0);
    }

    #[test]
    fn what_cannot_be_watched_is_an_error() {
        let sampling = Sampling { period: 1, memory: false, ring_pages: 1 };
        assert!(open(Event::PAGE_FAULTS, Watch::Thread(Tid(i32::MAX)), sampling).is_err());
        let none = Event { kind: u32::MAX, config: 0, config1: 0, precise: 0 };
        assert!(open(none, Watch::Thread(Tid(0)), sampling).is_err());
    }
}
