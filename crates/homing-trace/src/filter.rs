//! The line filter: drops references that any cache would serve.

/// Lines of the filter; with 64-byte lines it covers 32 KiB.
const LINES: usize = 512;
const LINE_SHIFT: u32 = 6;
const DIRTY: u64 = 1 << 63;

/// A direct-mapped cache of one thread with a dirty flag for each line.
#[derive(Debug)]
pub(super) struct LineFilter {
    lines: Box<[u64; LINES]>,
}

impl Default for LineFilter {
    fn default() -> Self {
        LineFilter { lines: Box::new([DIRTY - 1; LINES]) }
    }
}

impl LineFilter {
    /// Whether the reference stays: a read of a line that is not there, a write to one that is not there or clean.
    #[inline]
    pub(super) fn passes(&mut self, address: u64, write: bool) -> bool {
        let line = address >> LINE_SHIFT;
        let held = &mut self.lines[line as usize % LINES];
        let dirty = if write { DIRTY } else { 0 };
        let hit = (*held & !DIRTY == line) & (*held & dirty == dirty);
        // No branch: whether it hits is hard to foretell.
        *held = if hit { *held } else { line | dirty };
        !hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_dropped_until_the_line_is_replaced() {
        let mut filter = LineFilter::default();
        assert!(filter.passes(0x1000, false));
        assert!(!filter.passes(0x103f, false));
        assert!(filter.passes(0x1008, true), "the first write to a clean line stays");
        assert!(!filter.passes(0x1010, true));
        assert!(!filter.passes(0x1010, false));
        assert!(filter.passes(0x1000 + 512 * 64, true), "another line in its place");
        assert!(filter.passes(0x1000, false));
        assert!(filter.passes(u64::MAX, false));
    }
}
