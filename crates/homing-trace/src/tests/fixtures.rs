//! Traces that version 1 wrote, which stay readable: what they say is known by a digest. They are never written anew.

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
            include_bytes!("../../tests/fixtures/v1-blocks.trace"),
            (12034, 2, 10283141668219473774, 9962749912569995274),
        ),
        // The same, with mappings that move and go away.
        (
            include_bytes!("../../tests/fixtures/v1-mremap.trace"),
            (119391, 9, 7605577323572731102, 2346771604524327541),
        ),
        // References by themselves, as with `--recorder tsan`.
        (
            include_bytes!("../../tests/fixtures/v1-parallel.trace"),
            (14368, 0, 11343094161990805915, 10307213019594436039),
        ),
    ]
}

#[test]
fn version_1_stays_readable() {
    for (bytes, expected) in known() {
        let trace = Trace::open(bytes).unwrap();
        assert!(trace.complete() && trace.damage().is_empty());
        assert_eq!(digest(&trace), expected);
    }
}

/// What a thread does, executions one by one.
fn steps(trace: &Trace<'_>, thread: Thread) -> Vec<Step> {
    let one_by_one = |step| match step {
        Step::Run { executions, references, instructions, atomics } => {
            vec![Step::Run { executions: 1, references, instructions, atomics }; executions as usize]
        }
        other => vec![other],
    };
    trace.thread_steps(thread).flat_map(one_by_one).collect()
}

#[test]
fn an_upgraded_trace_says_the_same() {
    for (bytes, expected) in known() {
        let old = Trace::open(bytes).unwrap();
        let (upgraded, report) = upgrade::upgrade(&old, Vec::new(), |_| ()).unwrap();
        assert_eq!((report.references, report.damaged), (expected.0, 0));
        assert_eq!((bytes[8], upgraded[8]), (1, 2), "versions");
        let new = Trace::open(&upgraded).unwrap();
        assert!(new.whole());
        assert_eq!(digest(&new), expected);
        assert_eq!((new.header(), new.summary()), (old.header(), old.summary()));
        assert_eq!((new.frames(), new.symbols()), (old.frames(), old.symbols()));
        assert!(new.names().iter().eq(old.names().iter()));
        for (thread, _) in old.threads() {
            assert_eq!(steps(&new, thread), steps(&old, thread));
        }
        let again = upgrade::upgrade(&new, Vec::new(), |_| ()).unwrap();
        assert!(again.0 == upgraded && again.1.blocks == 0, "nothing is left to do");
    }
}

#[test]
fn damage_stays_where_it_is_in_an_upgrade() {
    let (bytes, expected) = known()[1];
    let blocks = format::read_index(bytes).unwrap().1;
    let hit = blocks.iter().find(|placed| placed.header.kind.is_references()).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[hit.offset as usize + 100] ^= 8;
    let old = Trace::open(&damaged).unwrap();
    let (upgraded, report) = upgrade::upgrade(&old, Vec::new(), |_| ()).unwrap();
    assert_eq!(report.damaged, 1);
    let stats = Trace::open(&upgraded).unwrap().visit_all(&mut Collector::default()).unwrap();
    let lost = u64::from(hit.header.b);
    assert_eq!((stats.references, stats.lost), (expected.0 - lost, lost));
}
