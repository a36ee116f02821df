//! Runs a program with the runtime and reads what it put on the wire.

use homing_linux::channel::{Capacity, Channel, Flavour, Received};
use homing_wire::{bit, op, sync};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The bits of a name's payload that are its length.
const NAME_LENGTH: usize = (1 << bit::NAME_ID) - 1;

/// A word or control word of a stream, as far as the tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Reference { address: u64, bytes: u64, write: bool },
    Start { thread: u32 },
    End,
    Join { thread: u32 },
    Sync { acquire: bool, object: u64, stamp: u64 },
    Mmap { address: u64, length: u64 },
    Munmap { address: u64, length: u64 },
    Mremap { old: u64, old_length: u64, new: u64, new_length: u64 },
    Alloc { function: u64, address: u64, size: u64, site: u64 },
    Free { address: u64 },
    Fork { process: u64 },
    Advance { units: u64 },
    Lost { count: u64 },
    Other,
}

/// What came over the wire.
pub struct Recording {
    pub flavour: Option<Flavour>,
    pub streams: BTreeMap<u32, Vec<Item>>,
    pub names: BTreeMap<u64, String>,
    pub output: String,
    pub errors: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Processes that were seen and not recorded.
    pub children: u32,
}

impl Recording {
    /// All items of all threads.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.streams.values().flatten()
    }

    /// References of a kind for which `wanted(address)` holds.
    pub fn count(&self, write: bool, wanted: impl Fn(u64) -> bool) -> usize {
        self.items()
            .filter(|item| matches!(item, Item::Reference { address, write: w, .. } if *w == write && wanted(*address)))
            .count()
    }
}

/// Runs `command` with a wire of the given capacity until it closes.
pub fn record(command: &mut Command, capacity: Capacity) -> Recording {
    let mut channel = Channel::new(capacity).unwrap();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut child = channel.spawn(command).unwrap();
    let mut raw: BTreeMap<u32, Vec<Vec<u64>>> = BTreeMap::new();
    let started = Instant::now();
    loop {
        match channel.receive(Duration::from_secs(5)).unwrap() {
            Received::Segment(filled) => {
                let segments = raw.entry(filled.stream).or_default();
                assert_eq!(
                    segments.len(),
                    filled.index as usize,
                    "a segment of thread {} is missing",
                    filled.stream
                );
                segments.push(channel.words(&filled).to_vec());
                channel.release(filled).unwrap();
            }
            Received::Idle => assert!(
                started.elapsed() < Duration::from_secs(60) || child.kill().is_err(),
                "{command:?} has not finished within 60 s"
            ),
            Received::Closed => break,
        }
    }
    let flavour = channel.flavour();
    let output = child.wait_with_output().unwrap();
    for open in channel.open_segments(false) {
        raw.entry(open.thread).or_default().push(channel.open_words(&open).to_vec());
    }
    let (mut names, mut blocks) = (BTreeMap::new(), BTreeMap::new());
    let mut decode = |segments: Vec<Vec<u64>>| -> Vec<Item> {
        segments.iter().flat_map(|segment| decode(segment, &mut names, &mut blocks)).collect()
    };
    // Those of others may be of code blocks that the first thread has defined.
    let streams = raw.into_iter().map(|(thread, segments)| (thread, decode(segments))).collect();
    Recording {
        children: channel.children(),
        flavour,
        streams,
        names,
        output: String::from_utf8_lossy(&output.stdout).trim().to_string(),
        errors: String::from_utf8_lossy(&output.stderr).to_string(),
        code: output.status.code(),
        signal: output.status.signal(),
    }
}

/// An access of a code block.
#[derive(Clone, Copy, Debug)]
struct Access {
    bytes: u64,
    write: bool,
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// The next word, with a step in loops.
    Word { steps: bool },
    /// Another word plus this.
    Derived { word: usize, distance: i64 },
}

type Blocks = BTreeMap<u64, Vec<Access>>;

fn define(words: &[u64]) -> Vec<Access> {
    let access = |&word: &u64| {
        let has = |bit: u32| word >> bit & 1 == 1;
        let place = if has(bit::ACCESS_DERIVED) {
            let distance = i64::from((word >> bit::ACCESS_OFFSET) as i16);
            Place::Derived { word: (word >> bit::ACCESS_WORD) as usize & 0xfff, distance }
        } else {
            Place::Word { steps: has(bit::ACCESS_STEPS) }
        };
        Access { bytes: word >> bit::ACCESS_SIZE & 0xffff, write: has(bit::ACCESS_WRITE), place }
    };
    words[2..].iter().map(access).collect()
}

/// The references of an execution whose words these are.
fn execute(block: &[Access], words: &[u64], items: &mut Vec<Item>) {
    let mut taken = 0;
    for access in block {
        let address = match access.place {
            Place::Word { .. } => {
                taken += 1;
                words[taken - 1]
            }
            Place::Derived { word, distance } => words[word].wrapping_add_signed(distance),
        };
        // A guarded access that did not happen has the word 0.
        if address != 0 {
            items.push(Item::Reference { address, bytes: access.bytes, write: access.write });
        }
    }
}

/// The executions of a loop record; returns its words.
fn execute_loop(block: &[Access], words: &[u64], items: &mut Vec<Item>) -> usize {
    let steps = |access: &Access| match access.place {
        Place::Word { steps } => Some(steps),
        Place::Derived { .. } => None,
    };
    let steps: Vec<bool> = block.iter().filter_map(steps).collect();
    let regular = steps.iter().filter(|&&steps| steps).count();
    let (own, first) = (steps.len() - regular, 2 + 2 * regular);
    let (end, count) = match (own, words[1]) {
        (0, count) => (first, count as usize),
        (_, 0) => {
            // Not at its end when the program was.
            let end = words[first..].iter().position(|&word| word == 0).map_or(words.len(), |at| first + at);
            (end, (end - first) / own)
        }
        (_, bytes) => (bytes as usize / 8, (bytes as usize / 8 - first) / own),
    };
    for i in 0..count {
        let (mut pairs, mut words_left) = (words[2..first].chunks(2), &words[first + i * own..]);
        let each = steps.iter().map(|&steps| {
            if steps {
                let pair = pairs.next().unwrap();
                return pair[0].wrapping_add(pair[1].wrapping_mul(i as u64));
            }
            let (&word, rest) = words_left.split_first().unwrap();
            words_left = rest;
            word
        });
        execute(block, &each.collect::<Vec<u64>>(), items);
    }
    end
}

/// Decodes one segment; a message never crosses its end.
fn decode(words: &[u64], names: &mut BTreeMap<u64, String>, blocks: &mut Blocks) -> Vec<Item> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = words[at];
        at += 1;
        if word == 0 {
            continue; // room that was taken and never written
        }
        if word & homing_wire::CONTROL == 0 {
            let (bytes, write) =
                (1 << (word >> bit::REFERENCE_SIZE & 7), word >> bit::REFERENCE_WRITE & 1 == 1);
            assert!(bytes <= 64);
            items.push(Item::Reference { address: word & ((1 << bit::REFERENCE_CODE) - 1), bytes, write });
            continue;
        }
        let (operation, payload) = (homing_wire::operation(word), word & homing_wire::PAYLOAD);
        assert!(operation != op::THREAD, "no parallel recorder writes {operation}");
        if operation == op::BLOCK {
            let block = &blocks[&payload];
            let count = block.iter().filter(|access| matches!(access.place, Place::Word { .. })).count();
            execute(block, &words[at..at + count], &mut items);
            at += count;
            continue;
        }
        if operation == op::LOOP {
            at += execute_loop(&blocks[&payload], &words[at - 1..], &mut items) - 1;
            continue;
        }
        let operands = match operation {
            op::DEFINE => 2 + (words[at] >> 32) as usize,
            op::NAME | op::SITE => (payload as usize & NAME_LENGTH).div_ceil(8),
            _ => op::operands(operation).unwrap_or_else(|| panic!("there is no operation {operation}")),
        };
        let fields = &words[at..at + operands];
        at += operands;
        if operation == op::DEFINE {
            assert!(blocks.insert(payload, define(fields)).is_none(), "a block is defined twice");
            continue;
        }
        items.push(item(operation, payload, fields, names));
    }
    items
}

fn item(operation: u8, payload: u64, fields: &[u64], names: &mut BTreeMap<u64, String>) -> Item {
    match operation {
        op::THREAD_START => Item::Start { thread: payload as u32 },
        op::THREAD_END => Item::End,
        op::THREAD_JOIN => Item::Join { thread: payload as u32 },
        op::SYNC => {
            assert!(payload < sync::BOTH);
            Item::Sync { acquire: payload == sync::ACQUIRE, object: fields[0], stamp: fields[1] }
        }
        op::MMAP => Item::Mmap { address: fields[0], length: fields[1] },
        op::MUNMAP => Item::Munmap { address: fields[0], length: fields[1] },
        op::MREMAP => {
            Item::Mremap { old: fields[0], old_length: fields[1], new: fields[2], new_length: fields[3] }
        }
        op::ALLOC => Item::Alloc { function: payload, address: fields[0], size: fields[1], site: fields[2] },
        op::FREE => Item::Free { address: fields[0] },
        op::NAME | op::SITE => {
            let bytes: Vec<u8> = fields.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let text = String::from_utf8_lossy(&bytes[..payload as usize & NAME_LENGTH]).into_owned();
            names.insert(payload >> bit::NAME_ID, text);
            Item::Other
        }
        op::ADVANCE => Item::Advance { units: payload },
        op::LOST => Item::Lost { count: payload },
        op::FORK => Item::Fork { process: payload },
        _ => Item::Other,
    }
}
