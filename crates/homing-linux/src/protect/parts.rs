//! Which memory may be protected: private anonymous memory that can be read and written, without what the kernel
//! reaches by itself. Pure, and without an allocation: the threads of the program stand still for some of it.

/// First address and the one behind the last.
pub type Range = (u64, u64);

/// Bytes of a page, and of a huge one.
pub const PAGE: u64 = 4096;
pub const HUGE: u64 = 2 << 20;

/// Mappings below this are left alone: too little to gain.
const LEAST: u64 = 256 << 10;
/// What cannot be accessed and lies directly below is the guard of a stack, unless it is larger.
const GUARD: u64 = 1 << 20;

/// A line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    pub range: Range,
    permissions: &'t [u8],
    inode: &'t [u8],
    name: &'t [u8],
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

impl<'t> Line<'t> {
    fn parse(line: &'t [u8]) -> Option<Line<'t>> {
        let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let addresses = fields.next()?;
        let dash = addresses.iter().position(|byte| *byte == b'-')?;
        let range = (hex(&addresses[..dash])?, hex(&addresses[dash + 1..])?);
        let (permissions, _offset, _device, inode) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        Some(Line { range, permissions, inode, name: fields.next().unwrap_or_default() })
    }

    fn guards(&self) -> bool {
        self.permissions == b"---p" && self.range.1 - self.range.0 <= GUARD
    }

    /// True for memory that may be protected; `before` is the line before.
    fn may(&self, before: Option<&Line>) -> bool {
        let name = self.name;
        let anonymous =
            self.inode == b"0" && (name.is_empty() || name == b"[heap]" || name.starts_with(b"[anon:"));
        let is_stack = before.is_some_and(|before| before.guards() && before.range.1 == self.range.0);
        let large = self.range.1 - self.range.0 >= LEAST;
        self.permissions == b"rw-p" && anonymous && large && !is_stack
    }

    /// True if the kernel writes to memory of the process later than in a call.
    fn is_asynchronous(&self) -> bool {
        self.name.starts_with(b"anon_inode:[io_uring]") || self.name.starts_with(b"/[aio]")
    }
}

/// Reports the mappings that may be protected, by address. `None` if there may be none at all: the kernel writes to
/// memory by itself, or the text makes no sense.
pub fn eligible(maps: &[u8], mut take: impl FnMut(Range)) -> Option<()> {
    let mut before: Option<Line> = None;
    for line in maps.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line = Line::parse(line)?;
        if line.is_asynchronous() {
            return None;
        }
        if line.may(before.as_ref()) {
            take(line.range);
        }
        before = Some(line);
    }
    Some(())
}

/// Pages that are protected together, in units of a page or a huge one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// Address behind the last.
    pub end: u64,
    /// Bytes that one fault gives back.
    pub unit: u64,
}

impl Segment {
    /// How many units it has.
    pub fn units(&self) -> u64 {
        (self.end - self.start) / self.unit
    }
}

/// Adds to `kept` what of `segment` is in one of `allowed` (by address) and in none of `holes`, whole units only, as
/// long as there is room. Returns units that found none.
pub fn clip(segment: Segment, allowed: &[Range], holes: &[Range], kept: &mut Vec<Segment>) -> u64 {
    let mut lost = 0;
    let mut open: Option<Segment> = None;
    let mut close = |open: &mut Option<Segment>| {
        if let Some(segment) = open.take() {
            if kept.len() < kept.capacity() {
                kept.push(segment);
            } else {
                lost += segment.units();
            }
        }
    };
    let mut start = segment.start;
    while start < segment.end {
        let end = start + segment.unit;
        let inside = allowed.iter().any(|range| range.0 <= start && end <= range.1);
        if inside && !holes.iter().any(|hole| hole.0 < end && start < hole.1) {
            open.get_or_insert(Segment { start, end, unit: segment.unit }).end = end;
        } else {
            close(&mut open);
        }
        start = end;
    }
    close(&mut open);
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
00400000-00500000 r-xp 00000000 fd:01 262      /usr/bin/a b
00600000-00700000 rw-p 00100000 fd:01 262      /usr/bin/a b
00700000-00900000 rw-p 00000000 00:00 0
55d0c8000000-55d0c8100000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000800000 rw-p 00000000 00:00 0
7f0000800000-7f0004000000 ---p 00000000 00:00 0
7f0004000000-7f0004800000 rw-p 00000000 00:00 0
7f0005000000-7f0005001000 ---p 00000000 00:00 0
7f0005001000-7f0005801000 rw-p 00000000 00:00 0
7f0005901000-7f0005a01000 rwxp 00000000 00:00 0
7f0006000000-7f0006100000 rw-s 00000000 00:01 9 /dev/zero (deleted)
7f0006200000-7f0006300000 rw-p 00000000 00:01 9 /dev/zero (deleted)
7f0006400000-7f0006500000 r--p 00000000 00:00 0
7f0006600000-7f0006601000 rw-p 00000000 00:00 0
7f0006700000-7f0006800000 rw-p 00000000 00:00 0                          [anon:big]
7ffc00000000-7ffc00100000 rw-p 00000000 00:00 0                          [stack]
";

    fn ranges(maps: &str) -> Option<Vec<Range>> {
        let mut found = Vec::new();
        eligible(maps.as_bytes(), |range| found.push(range)).map(|()| found)
    }

    #[test]
    fn only_private_anonymous_memory_that_is_no_stack_may_be_protected() {
        let starts: Vec<u64> = ranges(MAPS).unwrap().into_iter().map(|range| range.0).collect();
        let (bss, heap) = (0x0070_0000, 0x55d0_c800_0000);
        assert_eq!(starts, [bss, heap, 0x7f00_0000_0000, 0x7f00_0400_0000, 0x7f00_0670_0000]);
    }

    #[test]
    fn where_the_kernel_writes_by_itself_nothing_may_be_protected() {
        let ring = format!("{MAPS}7ffd00000000-7ffd00100000 rw-s 00000000 00:0e 1 anon_inode:[io_uring]\n");
        assert_eq!(ranges(&ring), None);
        assert_eq!(ranges("7f00-rubbish"), None);
    }

    #[test]
    fn segments_lose_what_is_not_allowed_and_holes() {
        let mut kept = Vec::with_capacity(3);
        let segment = |start, end| Segment { start: start * PAGE, end: end * PAGE, unit: PAGE };
        let range = |start: u64, end: u64| (start * PAGE, end * PAGE);
        let allowed = [range(2, 20), range(30, 40)];
        // A hole of one byte takes its page; one of none takes nothing.
        let holes = [(5 * PAGE + 17, 5 * PAGE + 18), (9 * PAGE, 9 * PAGE), (36 * PAGE - 1, 37 * PAGE + 1)];
        assert_eq!(clip(segment(0, 10), &allowed, &holes, &mut kept), 0);
        assert_eq!(kept, [segment(2, 5), segment(6, 10)]);
        assert_eq!(clip(segment(30, 50), &allowed, &holes, &mut kept), 2, "no room for the last two");
        assert_eq!(kept[2], segment(30, 35));
        let mut huge = Vec::with_capacity(8);
        let block = Segment { start: 0, end: 3 * HUGE, unit: HUGE };
        assert_eq!(clip(block, &[(0, 4 * HUGE)], &[(HUGE, HUGE + 1)], &mut huge), 0);
        assert_eq!(huge.iter().map(|segment| segment.start).collect::<Vec<_>>(), [0, 2 * HUGE]);
    }
}
