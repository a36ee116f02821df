//! Which references of a recording are kept: region of interest, skip, line filter and limit, in this order.

use super::by_thread::ByThread;
use super::code::Access;
use super::event::Event;
use super::filter::LineFilter;
use super::region::{Place, Region};
use super::summary::Summary;
use super::wire::Flavour;
use crate::ids::Thread;

/// What part of a recording is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestOptions {
    /// Drops references that hit in a per-thread filter of 512 lines of 64 bytes.
    pub line_filter: bool,
    /// Leaves out this many references at the start, but for the first reference to each page.
    pub skip: u64,
    /// Drops all references after this many were kept.
    pub limit: Option<u64>,
    /// Where the recording is at its start: before its region of interest, which the recorder says the start of, or in
    /// it. What lies outside is dropped, but for the first reference to each page before the region; the other options
    /// are of the region alone.
    pub place: Place,
}

/// What is kept, and the counts of what is not.
#[derive(Debug)]
pub(super) struct Selection {
    options: IngestOptions,
    region: Region,
    /// By thread.
    filters: ByThread<LineFilter>,
    kept: u64,
    filtered: u64,
    /// How many references `--skip` still passes over.
    to_skip: u64,
    skipped: u64,
    beyond_limit: u64,
    outside: u64,
    first_touches: u64,
}

impl Selection {
    pub(super) fn new(options: IngestOptions, flavour: Flavour) -> Selection {
        Selection {
            options,
            region: Region::starting(options.place, flavour),
            filters: ByThread::default(),
            kept: 0,
            filtered: 0,
            to_skip: options.skip,
            skipped: 0,
            beyond_limit: 0,
            outside: 0,
            first_touches: 0,
        }
    }

    /// Whether nothing more will be kept.
    pub(super) fn is_complete(&self) -> bool {
        self.reached_limit() || self.place() == Place::After
    }

    fn reached_limit(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.kept >= limit)
    }

    /// Where the recording is.
    pub(super) fn place(&self) -> Place {
        self.region.place()
    }

    /// Whether all references are kept now.
    pub(super) fn is_everything(&self) -> bool {
        let IngestOptions { line_filter, limit, .. } = self.options;
        self.region.is_inside() && !line_filter && self.to_skip == 0 && limit.is_none()
    }

    /// The region of interest begins, or ends.
    pub(super) fn change_region(&mut self, begins: bool) {
        self.region.change(begins);
        self.forget_touched();
    }

    /// An event of the recording.
    pub(super) fn event(&mut self, event: &Event) {
        self.region.event(event);
    }

    /// The filter of a thread, if that is all that drops references; the caller counts what it drops.
    #[inline]
    pub(super) fn only_filter(&mut self, thread: Thread) -> Option<&mut LineFilter> {
        let IngestOptions { line_filter, limit, .. } = self.options;
        let only = self.region.is_inside() && line_filter && self.to_skip == 0 && limit.is_none();
        only.then(|| self.filters.get_or_insert_with(thread, LineFilter::default))
    }

    /// Counts references that [`Selection::only_filter`] dropped.
    pub(super) fn count_filtered(&mut self, references: u64) {
        self.filtered += references;
    }

    /// Sets the addresses of an execution's references that are not kept to 0, as those of accesses that did not
    /// happen.
    pub(super) fn apply(&mut self, thread: Thread, addresses: &mut [u64], accesses: &[Access]) {
        let pairs = addresses.iter_mut().zip(accesses).filter(|(address, _)| **address != 0);
        for (address, access) in pairs {
            if !self.keeps(thread, *address, access.write) {
                *address = 0;
            }
        }
    }

    /// Whether a reference is kept.
    #[inline]
    pub(super) fn keeps(&mut self, thread: Thread, address: u64, write: bool) -> bool {
        let count = if self.place() == Place::Before {
            if self.region.is_first_touch(thread, address) {
                self.first_touches += 1;
                return true;
            }
            &mut self.outside
        } else if self.place() == Place::After {
            &mut self.outside
        } else if self.to_skip > 0 {
            return self.skip(thread, address);
        } else if self.reached_limit() {
            &mut self.beyond_limit
        } else if self.options.line_filter
            && !self.filters.get_or_insert_with(thread, LineFilter::default).passes(address, write)
        {
            &mut self.filtered
        } else {
            self.kept += 1;
            return true;
        };
        *count += 1;
        false
    }

    /// Passes over a reference at the start; whether it is kept all the same.
    fn skip(&mut self, thread: Thread, address: u64) -> bool {
        let first = self.region.is_first_touch(thread, address);
        *if first { &mut self.first_touches } else { &mut self.skipped } += 1;
        self.to_skip -= 1;
        self.forget_touched();
        first
    }

    /// Drops what is known of touched pages where nothing more is left out before what is recorded.
    fn forget_touched(&mut self) {
        if self.place() != Place::Before && self.to_skip == 0 {
            self.region.forget_touched();
        }
    }

    /// Enters the counts.
    pub(super) fn count(&self, summary: Summary) -> Summary {
        let Selection { filtered, skipped, beyond_limit, outside, first_touches, .. } = *self;
        Summary { filtered, skipped, beyond_limit, outside, first_touches, ..summary }
    }
}
