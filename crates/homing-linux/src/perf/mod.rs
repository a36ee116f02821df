//! `perf_event_open(2)`: events that sample, and their rings.

pub mod data_src;
pub mod kick;
pub mod pmu;
pub mod record;
pub mod ring;

use crate::fail::{self, Call};
use crate::proc::Tid;
use perf_event_open_sys::{self as sys, bindings};
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
    pub const PAGE_FAULTS: Event = Event::software(bindings::PERF_COUNT_SW_PAGE_FAULTS);

    /// Threads that come to another CPU, sampled there, and threads that begin ([`record::Record::Began`]). A software
    /// event, of the kernel's own doing: needs the right to watch the kernel.
    pub const MIGRATIONS: Event = Event::software(bindings::PERF_COUNT_SW_CPU_MIGRATIONS);

    /// Time on a CPU, in nanoseconds. A software event.
    pub const CPU_CLOCK: Event = Event::software(bindings::PERF_COUNT_SW_CPU_CLOCK);

    const fn software(event: bindings::perf_sw_ids) -> Event {
        Event { kind: bindings::PERF_TYPE_SOFTWARE, config: event as u64, config1: 0, precise: 0 }
    }
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
    let mut attributes = attributes(event, sampling, sample_type);
    Ring::new(descriptor(&mut attributes, watch)?, sampling.ring_pages, sample_type)
}

/// The descriptor of an event.
fn descriptor(attributes: &mut bindings::perf_event_attr, watch: Watch) -> io::Result<OwnedFd> {
    let (tid, cpu) = match watch {
        Watch::Thread(tid) => (tid.0, -1),
        Watch::Cpu(cpu) => (-1, cpu as i32),
    };
    fail::point(Call::PerfOpen)?;
    let cloexec = bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the kernel reads `size` bytes of `attributes`, which are its own.
    let fd = unsafe { sys::perf_event_open(attributes, tid, cpu, -1, cloexec) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What the kernel is asked for. Fields that it does not know yet are zero, which every kernel accepts.
fn attributes(event: Event, sampling: Sampling, sample_type: u64) -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr {
        type_: event.kind,
        size: size_of::<bindings::perf_event_attr>() as u32,
        config: event.config,
        sample_type,
        clockid: libc::CLOCK_MONOTONIC,
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = sampling.period;
    // Rings are drained at intervals; one that fills up before says so. A watermark counts bytes.
    attributes.set_watermark(1);
    attributes.__bindgen_anon_2.wakeup_watermark = (sampling.ring_pages * ring::PAGE / 2) as u32;
    attributes.__bindgen_anon_3.config1 = event.config1;
    attributes.set_precise_ip(event.precise.into());
    attributes.set_use_clockid(1);
    let of_kernel = event == Event::MIGRATIONS;
    attributes.set_task(of_kernel.into());
    // IBS cannot leave the kernel out on older kernels; the addresses tell it apart.
    let with_kernel = of_kernel || sampling.memory && event.precise == 0;
    attributes.set_exclude_kernel((!with_kernel).into());
    attributes.set_exclude_hv((!with_kernel).into());
    attributes
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

    /// The bytes that kernels have read from the start.
    #[test]
    fn attributes_lie_where_the_kernel_reads_them() {
        let event = Event { kind: 4, config: 0x1cd, config1: 30, precise: 2 };
        let made = attributes(event, Sampling { period: 1000, memory: true, ring_pages: 4 }, fields::KNOWN);
        // SAFETY: plain old data, all of it initialised.
        let words = unsafe { std::slice::from_raw_parts((&raw const made).cast::<u64>(), 14) };
        let size = size_of_val(&made) as u64;
        // exclude_kernel, exclude_hv, watermark, precise_ip and use_clockid.
        let flags = 1 << 5 | 1 << 6 | 1 << 14 | 2 << 15 | 1 << 25;
        let expected =
            [4 | size << 32, 0x1cd, 1000, fields::KNOWN, 0, flags, 8192, 30, 0, 0, 0, 1 << 32, 0, 0];
        assert_eq!(words, expected);
        let flags = |event, memory| {
            let made = attributes(event, Sampling { period: 1, memory, ring_pages: 1 }, 0);
            (made.task(), made.exclude_kernel(), made.exclude_hv())
        };
        assert_eq!(flags(Event::MIGRATIONS, false), (1, 0, 0));
        assert_eq!(flags(Event::PAGE_FAULTS, false), (0, 1, 1));
        assert_eq!(flags(Event { precise: 0, ..event }, true), (0, 0, 0));
    }

    #[test]
    fn what_cannot_be_watched_is_an_error() {
        let sampling = Sampling { period: 1, memory: false, ring_pages: 1 };
        assert!(open(Event::PAGE_FAULTS, Watch::Thread(Tid(i32::MAX)), sampling).is_err());
        let none = Event { kind: u32::MAX, config: 0, config1: 0, precise: 0 };
        assert!(open(none, Watch::Thread(Tid(0)), sampling).is_err());
    }
}
