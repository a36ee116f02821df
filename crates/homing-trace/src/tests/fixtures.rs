//! Traces that were written by version 2 of the format, which stays readable: their content is known by a digest. They
//! are never written anew.

use super::*;

/// What a visit delivers, in order: references with their addresses, kinds and threads, and events.
struct Digest {
    sum: u64,
}

impl Digest {
    fn add(&mut self, value: u64) {
        self.sum = (self.sum.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Visitor for Digest {
    fn turn(&mut self, turn: Turn<'_>) {
        for (&address, kind) in turn.addresses.iter().zip(turn.kinds) {
            self.add(address ^ u64::from(kind.0) << 56 ^ u64::from(turn.thread.0) << 48);
        }
    }

    fn event(&mut self, thread: Thread, time: Time, event: &Event) {
        self.add(time.0 ^ u64::from(thread.0) << 48);
        format!("{event:?}").bytes().for_each(|byte| self.add(byte.into()));
    }
}

/// References, events and their digest, and one of the frames' pages.
pub(super) fn digest(trace: &Trace<'_>) -> (u64, u64, u64, u64) {
    let mut digest = Digest { sum: 0 };
    let stats = trace.visit_all(&mut digest).unwrap();
    let mut frames = Digest { sum: 0 };
    trace.frames().iter().for_each(|&page| frames.add(page));
    (stats.references, stats.events, digest.sum, frames.sum)
}

type Known = (&'static [u8], (u64, u64, u64, u64));

fn known() -> [Known; 3] {
    [
        // Code blocks with side exits, guarded and derived accesses.
        (
            include_bytes!("../../tests/fixtures/blocks.trace"),
            (12034, 2, 10283141668219473774, 9962749912569995274),
        ),
        // The same, with mappings that move and go away.
        (
            include_bytes!("../../tests/fixtures/mremap.trace"),
            (119391, 9, 7605577323572731102, 2346771604524327541),
        ),
        // References by themselves, as with `--recorder tsan`.
        (
            include_bytes!("../../tests/fixtures/parallel.trace"),
            (14368, 0, 11343094161990805915, 10307213019594436039),
        ),
    ]
}

#[test]
fn version_2_stays_readable() {
    for (bytes, expected) in known() {
        let trace = Trace::open(bytes).unwrap();
        assert!(trace.complete() && trace.damage().is_empty());
        assert_eq!(digest(&trace), expected);
    }
}
