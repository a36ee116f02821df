//! The data TLBs of a CPU: one or two levels, the second holding all that the first one does.

use super::array::{self, Array};
use super::counts::Counts;
use super::shape::{HierarchyShape, Shape};
use super::stamped::{Entered, Stamped};

/// Where a translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// In the first level, or nobody counts.
    First,
    /// In the second.
    Second,
    /// In none.
    Nowhere,
}

/// The translations that a CPU holds.
#[derive(Clone, Debug)]
pub(super) struct Tlbs {
    /// On machines without modelled TLBs, one that nobody counts.
    first: Stamped,
    second: Option<Array>,
    modelled: bool,
    /// Translations by each page since it came into the TLBs (Tikir & Hollingsworth's address translation counters),
    /// if they are wanted.
    translations: Option<Vec<u64>>,
}

impl Tlbs {
    pub fn new(shape: &HierarchyShape) -> Tlbs {
        let unseen = Shape { sets: 64, ways: 4, line_log2: 0 };
        Tlbs {
            modelled: !shape.tlbs.is_empty(),
            first: Stamped::new(shape.tlbs.first().unwrap_or(&unseen)),
            second: shape.tlbs.get(1).map(|shape| shape.array(1)),
            translations: None,
        }
    }

    /// The first level, if no more than that is to be looked at: none if each translation is counted.
    #[inline]
    pub fn first(&mut self) -> Option<&mut Stamped> {
        self.translations.is_none().then_some(&mut self.first)
    }

    /// Looks a page up and loads it where it is missing. Its slot in the first level, and where it was found.
    #[inline(always)]
    pub fn translate(&mut self, page: u32, counts: &mut Counts) -> (usize, Found) {
        let (slot, entered) = self.first.enter(page, true);
        let found = match entered {
            Entered::For(gone) if self.modelled => self.load(page, gone, counts),
            _ => Found::First,
        };
        if let Some(translations) = &mut self.translations {
            translations[page as usize] += 1;
        }
        (slot, found)
    }

    /// A page comes into the first level for another one.
    #[inline(always)]
    fn load(&mut self, page: u32, mut gone: Option<u32>, counts: &mut Counts) -> Found {
        counts.tlb1_misses += 1;
        let mut found = Found::Nowhere;
        if let Some(second) = &mut self.second {
            match second.enter(0, page, 0) {
                array::Entered::Held(_) => (found, gone) = (Found::Second, None),
                array::Entered::For(lost) => {
                    gone = lost.map(|entry| entry >> 2);
                    if let Some(lost) = gone {
                        self.first.remove(lost);
                    }
                }
            }
        }
        counts.tlb_misses += u64::from(found == Found::Nowhere);
        if let (Some(translations), Some(gone)) = (&mut self.translations, gone) {
            translations[gone as usize] = 0;
        }
        found
    }

    /// Drops a page's translation. True if there was one.
    pub fn shoot_down(&mut self, page: u32) -> bool {
        let mut held = self.first.remove(page);
        if let Some(second) = &mut self.second {
            held |= second.remove(0, page).is_some();
        }
        if let Some(translations) = &mut self.translations {
            translations[page as usize] = 0;
        }
        held && self.modelled
    }

    /// Counts translations by page from now on.
    pub fn count_translations(&mut self, pages: u32) {
        self.translations = Some(vec![0; pages as usize]);
    }

    /// The pages that are held, with the translations by each since it came, which begin anew.
    pub fn read_translations(&mut self, mut each: impl FnMut(u32, u64)) {
        if !self.modelled {
            return;
        }
        let translations = &mut self.translations;
        let mut read = |page: u32| {
            let counts = translations.as_mut();
            each(page, counts.map_or(0, |counts| std::mem::take(&mut counts[page as usize])));
        };
        match &self.second {
            Some(second) => second.lines(0).for_each(&mut read),
            None => self.first.numbers().for_each(&mut read),
        }
    }
}
