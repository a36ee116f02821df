//! Which references of a recording are kept: skip, line filter and limit, in this order.

use super::code::Access;
use super::filter::LineFilter;
use super::ingest::IngestOptions;
use super::summary::Summary;
use crate::ids::Thread;

/// What is kept, and the counts of what is not.
#[derive(Debug, Default)]
pub(super) struct Selection {
    options: IngestOptions,
    /// By thread.
    filters: Vec<Option<LineFilter>>,
    kept: u64,
    filtered: u64,
    skipped: u64,
    beyond_limit: u64,
}

impl Selection {
    pub(super) fn new(options: IngestOptions) -> Selection {
        Selection { options, ..Selection::default() }
    }

    /// Whether nothing more will be kept.
    pub(super) fn reached_limit(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.kept >= limit)
    }

    /// Whether a reference is kept.
    #[inline]
    pub(super) fn passes(&mut self, thread: Thread, address: u64, write: bool) -> bool {
        let before = self.kept;
        self.apply_one(thread, &mut { address }, write);
        self.kept != before
    }

    /// Sets the addresses of an execution's references that are not kept to 0, as those of accesses that did not happen.
    /// Returns how many are left.
    pub(super) fn apply(&mut self, thread: Thread, addresses: &mut [u64], accesses: &[Access]) -> usize {
        let pairs = addresses.iter_mut().zip(accesses).filter(|(address, _)| **address != 0);
        let mut left = 0;
        if self.options.skip == 0 && self.options.limit.is_none() {
            let mut filtered = 0;
            let filter = filter_of(&mut self.filters, thread);
            for (address, access) in pairs {
                let passes = filter.passes(*address, access.write);
                *address *= u64::from(passes);
                left += usize::from(passes);
                filtered += u64::from(!passes);
            }
            self.filtered += filtered;
            return left;
        }
        for (address, access) in pairs {
            self.apply_one(thread, address, access.write);
            left += usize::from(*address != 0);
        }
        left
    }

    fn apply_one(&mut self, thread: Thread, address: &mut u64, write: bool) {
        let count = if self.skipped < self.options.skip {
            &mut self.skipped
        } else if self.reached_limit() {
            &mut self.beyond_limit
        } else if self.options.line_filter && !filter_of(&mut self.filters, thread).passes(*address, write) {
            &mut self.filtered
        } else {
            self.kept += 1;
            return;
        };
        *count += 1;
        *address = 0;
    }

    /// Enters the counts.
    pub(super) fn count(&self, summary: Summary) -> Summary {
        let Selection { filtered, skipped, beyond_limit, .. } = *self;
        Summary { filtered, skipped, beyond_limit, ..summary }
    }
}

#[inline]
fn filter_of(filters: &mut Vec<Option<LineFilter>>, thread: Thread) -> &mut LineFilter {
    let thread = thread.index();
    if filters.len() <= thread {
        filters.resize_with(thread + 1, || None);
    }
    filters[thread].get_or_insert_default()
}
