//! Pages that move back and forth. What several nodes use in turn has no home: each move is undone by the next, and
//! costs more than it saves. So a page that has come back to nodes where it was before, without having been used there
//! for long, rests: it stays for some seconds, and each time twice as long.
//!
//! A stay has *paid* if the page was used by the node that had it at least [`USED`] times as the source saw it, and
//! [`MOSTLY`] times as often as by all others. Pages that follow long phases pay for each move, and never rest.

use homing_core::ids::{Micros, Node};

/// Accesses that a stay must show at least. Hint faults show one for each scan.
const USED: u32 = 4;

/// ... and for each by another node.
const MOSTLY: u32 = 3;

/// Returns without having paid after which a page rests: two rounds.
const ROUNDS: u8 = 2;

/// How long it rests at first.
const REST: Micros = Micros::from_millis(4000);

/// Rests grow to that many times the first.
const LONGEST: u32 = 256;

/// Why a page that rests is not moved.
pub(super) const RESTS: &str = "the page moves back and forth: it stays for a while";

/// What is known of the moves of one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// Nodes where it was: bit n, modulo 64.
    been: u64,
    /// Returns that were not paid for.
    returns: u8,
    /// Accesses by the node that has it, and by others, since it came there.
    own: u32,
    others: u32,
    /// Until when it rests.
    until: Micros,
}

fn bit(node: Node) -> u64 {
    1 << (node.0 % 64)
}

impl Rounds {
    /// An access by the node that has the page, or by another one.
    #[inline]
    pub fn access(&mut self, own: bool) {
        let count = if own { &mut self.own } else { &mut self.others };
        *count = count.saturating_add(1);
    }

    /// The page has moved.
    pub fn moved(&mut self, from: Option<Node>, to: Node, t: Micros) {
        let paid = self.own >= USED && self.own >= MOSTLY.saturating_mul(self.others);
        if paid {
            self.returns = self.returns.saturating_sub(1);
        } else if self.been & bit(to) != 0 {
            self.returns = self.returns.saturating_add(1);
        }
        self.been |= bit(to) | from.map_or(0, bit);
        (self.own, self.others) = (0, 0);
        if self.returns >= ROUNDS {
            let times = 1u32.checked_shl(u32::from(self.returns - ROUNDS)).unwrap_or(LONGEST).min(LONGEST);
            self.until = t.plus(REST.times(times));
        }
    }

    /// Whether the page stays where it is at `t`.
    pub fn rests(&self, t: Micros) -> bool {
        t < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Node = Node(0);
    const B: Node = Node(1);

    #[test]
    fn pages_of_long_phases_never_rest() {
        let mut rounds = Rounds::default();
        for second in 0..100u64 {
            let (from, to) = if second % 2 == 0 { (A, B) } else { (B, A) };
            rounds.moved(Some(from), to, Micros::from_millis(5000 * second));
            assert!(!rounds.rests(Micros::from_millis(5000 * second + 1)), "second {second}");
            (0..5).for_each(|_| rounds.access(true));
            rounds.access(false);
        }
    }

    /// Whoever asks for a page that all use, and however often, gets few moves: their number grows with the logarithm
    /// of time, then by one in 17 minutes.
    #[test]
    fn pages_that_all_use_in_turn_make_few_moves() {
        let (mut rounds, mut at, mut moves) = (Rounds::default(), A, 0);
        for ms in (0..600_000).step_by(100) {
            let (t, by) = (Micros::from_millis(ms), Node((ms / 100 % 4) as u16));
            rounds.access(by == at);
            if by != at && !rounds.rests(t) {
                rounds.moved(Some(at), by, t);
                (at, moves) = (by, moves + 1);
            }
        }
        assert!((5..=14).contains(&moves), "{moves} moves in ten minutes");
    }

    #[test]
    fn the_second_return_begins_a_rest_and_each_more_doubles_it() {
        let mut rounds = Rounds::default();
        let ms = Micros::from_millis;
        rounds.moved(Some(A), B, ms(0));
        rounds.moved(Some(B), A, ms(1));
        assert!(!rounds.rests(ms(2)), "one round may be chance");
        rounds.moved(Some(A), B, ms(2));
        assert!(rounds.rests(ms(4001)) && !rounds.rests(ms(4002)));
        rounds.moved(Some(B), A, ms(5000));
        assert!(rounds.rests(ms(12_999)) && !rounds.rests(ms(13_000)));
        (0..300).for_each(|_| rounds.moved(Some(A), B, ms(20_000)));
        assert!(rounds.rests(ms(20_000 + 4000 * 256 - 1)) && !rounds.rests(ms(20_000 + 4000 * 256)));
    }
}
