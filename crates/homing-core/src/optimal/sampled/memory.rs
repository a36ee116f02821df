//! What a rule remembers of the samples of a page: its state, but for the page's home.

use crate::ids::Node;

/// What is remembered. A *run* is a stretch of samples by one node; its length counts samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    /// 0: nothing. 1: the node of the last sample. 2: also how long its run is. 3: also the node before. 4: also how
    /// long that one's run was, and the node before that.
    order: u8,
    /// Parts of the page's life that are told apart, by the number of samples so far; at most 16.
    ages: u64,
}

/// Every memory, the least first.
pub(super) const MEMORIES: [Memory; 15] = {
    let mut all = [Memory { order: 0, ages: 1 }; 15];
    let mut i = 0;
    while i < all.len() {
        all[i] = Memory { order: i as u8 % 5, ages: [1, 4, 16][i / 5] };
        i += 1;
    }
    all
};

impl Memory {
    /// Whether it tells apart all that the other does.
    pub(super) fn contains(self, other: Memory) -> bool {
        self.order >= other.order && self.ages >= other.ages
    }
}

/// A number for all that a memory tells apart.
pub(super) type Key = u64;

/// The samples of one pass so far, as far as any memory needs them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    samples: u64,
    /// How many are expected in a pass.
    expected: u64,
    /// The last three runs, the present one first: node + 1 (0 if there is none) and length.
    runs: [(u64, u64); 3],
}

impl Past {
    pub(super) fn new(expected: u64) -> Past {
        Past { samples: 0, expected: expected.max(1), runs: [(0, 0); 3] }
    }

    pub(super) fn sample(&mut self, node: Node) {
        self.samples += 1;
        let node = u64::from(node.0) + 1;
        if self.runs[0].0 == node {
            self.runs[0].1 += 1;
        } else {
            self.runs = [(node, 1), self.runs[0], self.runs[1]];
        }
    }

    /// What `memory` knows of it.
    pub(super) fn key(&self, memory: Memory) -> Key {
        let age = (self.samples * memory.ages / self.expected).min(memory.ages - 1);
        let [(last, length), (before, its_length), (third, _)] = self.runs;
        let mut key = age;
        let mut add = |value: u64, bits: u32, order: u8| {
            key = key << bits | if memory.order >= order { value } else { 0 };
        };
        add(last, 16, 1);
        add(bucket(length), 6, 2);
        add(before, 16, 3);
        add(bucket(its_length), 6, 4);
        add(third, 16, 4);
        key
    }
}

/// Lengths that are told apart, in 6 bits: 0 to 3, and from there two in each power of two.
fn bucket(length: u64) -> u64 {
    match length.min((1 << 32) - 1) {
        length @ 0..=3 => length,
        length => u64::from(2 * length.ilog2()) + (length >> (length.ilog2() - 1) & 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(nodes: &[u16]) -> Past {
        let mut past = Past::new(nodes.len() as u64);
        nodes.iter().for_each(|&node| past.sample(Node(node)));
        past
    }

    #[test]
    fn each_memory_tells_apart_what_it_says_and_no_more() {
        // The least order that tells the two apart; the samples are as many, so ages never do.
        let cases: [(&[u16], &[u16], u8); 5] = [
            (&[1, 1, 2, 2], &[1, 1, 1, 3], 1),
            (&[1, 1, 2, 2], &[1, 1, 1, 2], 2),
            (&[0, 1, 1, 2], &[0, 3, 3, 2], 3),
            (&[0, 1, 1, 2], &[0, 0, 1, 2], 4),
            (&[0, 1, 1, 2], &[3, 1, 1, 2], 4),
        ];
        for (a, b, least) in cases {
            for memory in MEMORIES {
                let differ = past(a).key(memory) != past(b).key(memory);
                assert_eq!(differ, memory.order >= least, "{a:?} {b:?} {memory:?}");
            }
        }
    }

    #[test]
    fn ages_divide_the_expected_samples_evenly() {
        let memory = Memory { order: 0, ages: 4 };
        let mut past = Past::new(8);
        let ages: Vec<Key> = (0..10).map(|_| (past.sample(Node(0)), past.key(memory) >> 60).1).collect();
        assert_eq!(ages, [0, 1, 1, 2, 2, 3, 3, 3, 3, 3]);
    }

    #[test]
    fn buckets_rise_with_the_length() {
        let buckets: Vec<u64> = [0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 15, 16].map(bucket).to_vec();
        assert_eq!(buckets, [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]);
        assert!(bucket(u64::MAX) < 1 << 6);
    }
}
