//! A recorder's side of the channel, made by hand.

use super::*;

const SMALL: Capacity = Capacity { segments: 2, segment_words: 4096 };
const SECOND: Duration = Duration::from_secs(5);

/// Plays a recorder in this process: takes a credit, writes words, posts.
fn record(channel: &Channel, words: &[u64], index: u32) -> u32 {
    let ends = channel.recorder.as_ref().unwrap();
    let mut credit = [0; 4];
    assert_eq!(rustix::io::read(&ends.credit, &mut credit).unwrap(), 4);
    let segment = u32::from_ne_bytes(credit);
    let at = channel.segment_at(segment);
    for (i, &word) in words.iter().enumerate() {
        channel.memory.u64_at(at + 8 * i).store(word, Ordering::Relaxed);
    }
    let message: Vec<u8> =
        [segment, words.len() as u32, 0, index].iter().flat_map(|n| n.to_ne_bytes()).collect();
    rustix::io::write(&ends.full, &message).unwrap();
    segment
}

#[test]
fn segments_go_round() {
    let mut channel = Channel::new(SMALL).unwrap();
    for index in 0..10u32 {
        record(&channel, &[u64::from(index), 7], index);
        let Received::Segment(filled) = channel.receive(SECOND).unwrap() else { panic!("no segment") };
        assert_eq!((filled.words, filled.index), (2, index));
        assert_eq!(channel.words(&filled), [u64::from(index), 7]);
        channel.release(filled).unwrap();
    }
    assert_eq!(channel.receive(Duration::ZERO).unwrap(), Received::Idle);
    channel.recorder = None;
    assert_eq!(channel.receive(SECOND).unwrap(), Received::Closed);
}

#[test]
fn segments_come_back_empty_to_a_parallel_recorder() {
    for (flavour, left) in [(flavour::SERIAL, 7), (flavour::PARALLEL, 0)] {
        let mut channel = Channel::new(SMALL).unwrap();
        channel.memory.u32_at(at::FLAVOUR).store(flavour, Ordering::Relaxed);
        record(&channel, &[7, 7], 0);
        let Received::Segment(filled) = channel.receive(SECOND).unwrap() else { panic!("no segment") };
        let segment = filled.segment;
        channel.release(filled).unwrap();
        assert_eq!(channel.words_so_far(segment, 0, 3), [left, left, 0]);
        assert_eq!(channel.words_so_far(segment, 1, 2), [left]);
        assert!(channel.words_so_far(2, 0, 1).is_empty() && channel.words_so_far(0, 0, 4097).is_empty());
    }
}

#[test]
fn open_segments_survive_the_recorder() {
    let channel = Channel::new(SMALL).unwrap();
    let open = at::OPEN + at::OPEN_BYTES;
    for (field, value) in [(at::OPEN_SEGMENT, 2), (at::OPEN_THREAD, 9), (at::OPEN_INDEX, 5)] {
        channel.memory.u32_at(open + field).store(value, Ordering::Relaxed);
    }
    channel.memory.u64_at(open + at::OPEN_WORDS).store(1 << 40, Ordering::Relaxed);
    assert!(channel.open_segments(false).is_empty(), "beyond the entries in use");
    channel.memory.u32_at(at::OPEN_END).store(2, Ordering::Relaxed);
    let found = |words| [OpenSegment { segment: 1, thread: 9, index: 5, words }];
    assert_eq!(channel.open_segments(false), found(4096));
    channel.memory.u64_at(at::CURSOR_BASE).store(1 << 32, Ordering::Relaxed);
    channel.memory.u64_at(open + at::OPEN_WORDS).store((1 << 32) + 4096 * 8 + 24, Ordering::Relaxed);
    assert_eq!(channel.open_segments(false), found(3));
}

#[test]
fn nonsense_from_the_recorder_is_refused() {
    let mut channel = Channel::new(SMALL).unwrap();
    let post = |channel: &Channel, bytes: &[u8]| {
        rustix::io::write(&channel.recorder.as_ref().unwrap().full, bytes).unwrap();
    };
    post(&channel, &[0xff; 16]);
    assert!(matches!(channel.receive(SECOND), Err(ChannelError::Contract(_))));
    post(&channel, &[0; 3]);
    assert!(matches!(channel.receive(SECOND), Err(ChannelError::Contract(_))));
}

#[test]
fn capacities_are_bounded() {
    for (segments, segment_words) in [(1, 4096), (5000, 4096), (2, 100), (2, 4097)] {
        assert!(matches!(Channel::new(Capacity { segments, segment_words }), Err(ChannelError::Capacity(_))));
    }
}

#[test]
fn a_child_inherits_the_wire_and_its_end_closes_it() {
    let mut channel = Channel::new(SMALL).unwrap();
    let script =
        "IFS=, read m c f <<X\n$HOMING_WIRE\nX\ntest -e /proc/self/fd/$m -a -e /proc/self/fd/$c -a -e \
    /proc/self/fd/$f";
    let mut child = channel.spawn(Command::new("sh").args(["-c", script])).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(channel.receive(SECOND).unwrap(), Received::Closed);
    assert!(channel.spawn(&mut Command::new("true")).is_err());
}

#[test]
fn few_segments_go_round_until_more_are_needed() {
    let (segments, words) = (64, 4096);
    let mut channel = Channel::new(Capacity { segments, segment_words: words }).unwrap();
    let ends = channel.recorder.take().unwrap();
    let take = || {
        let mut credit = [0; 4];
        assert_eq!(rustix::io::read(&ends.credit, &mut credit).unwrap(), 4);
        u32::from_ne_bytes(credit)
    };
    let post = |segment: u32, index: u32| {
        let message: Vec<u8> = [segment, 1, 0, index].iter().flat_map(|field| field.to_ne_bytes()).collect();
        rustix::io::write(&ends.full, &message).unwrap();
    };
    // One writer that is never ahead: the same few again and again.
    let mut used = std::collections::BTreeSet::new();
    for index in 0..1000 {
        let segment = take();
        used.insert(segment);
        post(segment, index);
        let Received::Segment(filled) = channel.receive(Duration::ZERO).unwrap() else { panic!() };
        assert_eq!(filled.segment, segment);
        channel.release(filled).unwrap();
    }
    assert!(used.len() <= ENOUGH + TOGETHER, "{used:?}");
    // Whoever holds them all gets others as soon as nothing is left to take, down to the last one.
    let mut held = std::collections::BTreeSet::new();
    while held.len() < segments as usize {
        assert_eq!(channel.receive(Duration::from_millis(1)).unwrap(), Received::Idle);
        let free = channel.free().unwrap();
        assert!(free > 0, "after {}", held.len());
        held.extend((0..free).map(|_| take()));
    }
    assert_eq!(channel.receive(Duration::from_millis(1)).unwrap(), Received::Idle);
    assert_eq!(channel.free().unwrap(), 0);
}
