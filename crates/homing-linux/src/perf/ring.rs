//! The ring buffer of a perf event: shared memory that the kernel writes and we read, oldest record first.

use super::record::{self, Record};
use crate::fail::{self, Call};
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page;
use std::io;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) const PAGE: usize = 4096;
const HEAD_AT: usize = offset_of!(perf_event_mmap_page, data_head);
const TAIL_AT: usize = offset_of!(perf_event_mmap_page, data_tail);

/// What [`Ring::drain`] found besides the records it handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Records handed out.
    pub records: u64,
    /// Records that made no sense.
    pub malformed: u64,
}

/// A mapped ring with its event. Dropping it unmaps the ring and ends the event.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    map: MmapRaw,
    /// A power of two.
    data_bytes: usize,
    sample_type: u64,
    scratch: Vec<u8>,
}

impl Ring {
    /// Maps the ring of an event with `pages` (a power of two) data pages.
    ///
    /// # Errors
    /// EPERM if more locked memory would be used than `perf_event_mlock_kb` and RLIMIT_MEMLOCK allow.
    pub(super) fn new(fd: OwnedFd, pages: usize, sample_type: u64) -> io::Result<Ring> {
        assert!(pages.is_power_of_two());
        fail::point(Call::PerfMap)?;
        let data_bytes = pages * PAGE;
        let map = MmapOptions::new().len(PAGE + data_bytes).map_raw(&fd)?;
        Ok(Ring { fd, map, data_bytes, sample_type, scratch: Vec::new() })
    }

    /// The event.
    pub fn event(&self) -> &OwnedFd {
        &self.fd
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: in the control page, aligned, and lives as long as `self`.
        unsafe { &*self.map.as_mut_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Hands all records that are there to `take`, oldest first, and gives their room back.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) -> Drained {
        let head = self.word(HEAD_AT).load(Ordering::Acquire);
        let tail = self.word(TAIL_AT).load(Ordering::Relaxed);
        let length = (head.wrapping_sub(tail) as usize).min(self.data_bytes);
        self.copy_out(tail, length);
        self.word(TAIL_AT).store(head, Ordering::Release);
        let mut drained = Drained::default();
        let mut bytes = &self.scratch[..];
        while !bytes.is_empty() {
            let Ok(size) = record::size(bytes) else {
                drained.malformed += 1;
                break;
            };
            match record::decode(bytes, self.sample_type) {
                Ok(record) => {
                    drained.records += 1;
                    take(record);
                }
                Err(_) => drained.malformed += 1,
            }
            bytes = bytes.get(size..).unwrap_or_default();
        }
        drained
    }

    /// Copies `length` bytes from stream position `from` into `scratch`, in one piece where the ring wraps.
    fn copy_out(&mut self, from: u64, length: usize) {
        let begin = from as usize & (self.data_bytes - 1);
        let first = length.min(self.data_bytes - begin);
        self.scratch.clear();
        // SAFETY: both pieces lie in the data area; the kernel does not write between tail and head.
        unsafe {
            let data = self.map.as_ptr().add(PAGE);
            self.scratch.extend_from_slice(std::slice::from_raw_parts(data.add(begin), first));
            self.scratch.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
    }
}
