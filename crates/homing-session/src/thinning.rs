//! Who only watches needs a part of the pages, not all. They are chosen by a hash of their addresses, so that a page
//! that is followed keeps all its samples; the part is halved when too many are known, or too many samples come
//! (Waldspurger et al. 2015, "Efficient MRC construction with SHARDS", section 3.2: fixed-size sampling). Counted
//! references ([`AccessKind::References`]) may be many of a few pages: of these one in two, four and so on is kept,
//! whatever its page.

use super::input::{Access, AccessKind};
use super::PAGE;
use homing_core::ids::Micros;

/// Most pages that are followed by hint faults: a share of this number of pages is known to 1.6 % (two standard
/// errors of a half).
pub const PAGES: usize = 4096;
/// Most samples that are looked at within a second; when more come, half of them are left out from then on.
pub const A_SECOND: u64 = 8192;

/// The part that is looked at: one of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of the pages, with all their samples.
    Pages {
        /// 1 if all are.
        one_of: u64,
    },
    /// Of the samples, whatever their pages.
    Samples {
        /// 1 if all are.
        one_of: u64,
    },
}

/// Which samples are looked at.
#[derive(Debug, Default)]
pub(super) struct Thinning {
    /// One in 2^halved is.
    halved: u32,
    /// The second, and the samples that were kept in it since the part was last halved.
    second: u64,
    kept: u64,
    /// Counted references that came.
    counted: u64,
}

impl Thinning {
    /// One page, or counted reference, of this number is looked at.
    pub(super) fn part(&self) -> Part {
        let one_of = 1 << self.halved;
        match self.counted {
            0 => Part::Pages { one_of },
            _ => Part::Samples { one_of },
        }
    }

    /// True if a sample at `t` is to be looked at.
    pub(super) fn keeps(&mut self, t: Micros, access: &Access) -> bool {
        let keeps = match access.kind {
            AccessKind::HintFault { .. } => self.follows(access.address),
            AccessKind::References(_) => {
                self.counted += 1;
                self.counted.is_multiple_of(1 << self.halved)
            }
        };
        let second = t.0 / 1_000_000;
        if std::mem::replace(&mut self.second, second) != second {
            self.kept = 0;
        }
        self.kept += u64::from(keeps);
        keeps
    }

    /// True if the page that holds the address may have samples that are looked at.
    pub(super) fn looks_at(&self, address: u64) -> bool {
        self.counted > 0 || self.follows(address)
    }

    fn follows(&self, address: u64) -> bool {
        // Multiples of the golden ratio: neighbours come to lie far apart.
        let hash = (address / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash >> (32 - self.halved) == 0
    }

    /// Halves the part if there is too much, with that number of pages known. True if it did.
    pub(super) fn halve(&mut self, pages: usize) -> bool {
        let too_much = self.kept > A_SECOND || pages > PAGES && self.counted == 0;
        let too_much = too_much && self.halved < 32;
        if too_much {
            self.halved += 1;
            self.kept = 0;
        }
        too_much
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use homing_core::ids::Node;
    use homing_core::process::{ProcessId, ThreadId};

    fn access(page: u64, kind: AccessKind) -> Access {
        let (process, thread, node) = (ProcessId(1), ThreadId(1), Node(0));
        Access { process, thread, node, address: page * PAGE + 8, store: false, kind }
    }

    const FAULT: AccessKind = AccessKind::HintFault { after_scan: None };

    #[test]
    fn a_page_has_all_its_samples_or_none_and_stays_chosen_by_fewer() {
        let mut thinning = Thinning::default();
        let mut before: Vec<u64> = (0..1 << 16).collect();
        for halved in 1..=6 {
            assert!(thinning.halve(PAGES + 1));
            let kept: Vec<u64> =
                (0..1 << 16).filter(|&page| thinning.keeps(Micros(0), &access(page, FAULT))).collect();
            assert!(
                kept.iter().all(|page| before.contains(page)),
                "those of a smaller part are in the larger"
            );
            let expected = (1 << 16) >> halved;
            assert!(kept.len().abs_diff(expected) <= expected / 20, "{} of {expected}", kept.len());
            before = kept;
        }
        assert_eq!(thinning.part(), Part::Pages { one_of: 64 });
        // Also of every sixteenth page, as an array of structures is used.
        let strided = (0..1u64 << 16).filter(|page| thinning.follows(page * 16 * PAGE)).count();
        assert!(strided.abs_diff(1024) <= 100, "{strided}");
    }

    #[test]
    fn counted_references_are_thinned_whatever_their_page() {
        let mut thinning = Thinning::default();
        (0..3).for_each(|_| assert!(thinning.halve(PAGES + 1)));
        assert!(!thinning.looks_at(8 * PAGE) && thinning.looks_at(0));
        let one_page = || access(7, AccessKind::References(1.0));
        assert_eq!((0..8000).filter(|_| thinning.keeps(Micros(0), &one_page())).count(), 1000);
        assert_eq!(thinning.part(), Part::Samples { one_of: 8 });
        assert!(thinning.looks_at(8 * PAGE) && !thinning.halve(PAGES + 1), "pages are not chosen");
    }

    #[test]
    fn too_many_samples_in_a_second_halve_the_part() {
        let mut thinning = Thinning::default();
        let mut second = |at: u64, samples: u64| {
            let kept = (0..samples).filter(|&page| thinning.keeps(Micros(at), &access(page, FAULT))).count();
            (kept as u64, thinning.halve(0))
        };
        assert_eq!(second(0, A_SECOND), (A_SECOND, false));
        assert_eq!(second(1_000_000, A_SECOND), (A_SECOND, false), "another second");
        assert_eq!(second(1_100_000, 1), (1, true));
        let (kept, halved) = second(1_200_000, A_SECOND);
        assert!(!halved && kept.abs_diff(A_SECOND / 2) < 100, "{kept}");
    }
}
