//! The data TLBs of a CPU: one or two levels, the second holding all that the first one does.

use super::array::{Array, Sets};
use super::counts::Counts;
use super::shape::HierarchyShape;

/// The translations that a CPU holds.
#[derive(Clone, Debug)]
pub(super) struct Tlbs {
    /// On machines without modelled TLBs, a single entry that nobody counts.
    first: Array,
    second: Option<Array>,
    modelled: bool,
    /// Translations by each page since it came into the TLBs (Tikir & Hollingsworth's address translation counters),
    /// if they are wanted.
    translations: Option<Vec<u64>>,
}

impl Tlbs {
    pub fn new(shape: &HierarchyShape) -> Tlbs {
        let mut levels = shape.tlbs.iter().map(|shape| shape.array(1));
        let first = levels.next();
        Tlbs {
            modelled: first.is_some(),
            first: first.unwrap_or_else(|| Array::new(1, 1, 1)),
            second: levels.next(),
            translations: None,
        }
    }

    /// The width of the first level's sets.
    pub fn first_width(&self) -> usize {
        self.first.width()
    }

    /// The first level, whose width must be right, if no more than that is to be looked at: none if each translation is
    /// counted.
    #[inline(always)]
    pub fn first<const WIDTH: usize>(&mut self) -> Option<Sets<'_, WIDTH>> {
        self.translations.is_none().then(|| self.first.of(0).alone())
    }

    /// Looks a page up and loads it where it is missing. True if no level held it.
    #[inline]
    pub fn translate(&mut self, page: u32, counts: &mut Counts) -> bool {
        let missed = self.first.touch(0, page).is_none() && self.load(page, counts);
        if let Some(translations) = &mut self.translations {
            translations[page as usize] += 1;
        }
        missed
    }

    /// Loads a page that the first level misses. True if no level held it.
    fn load(&mut self, page: u32, counts: &mut Counts) -> bool {
        let mut gone = self.first.insert(0, page, 0);
        if !self.modelled {
            return false;
        }
        let mut missed = true;
        if let Some(second) = &mut self.second {
            missed = second.touch(0, page).is_none();
            let lost = if missed { second.insert(0, page, 0) } else { None };
            if let Some(lost) = lost {
                self.first.remove(0, lost >> 2);
            }
            gone = lost;
        }
        counts.tlb1_misses += 1;
        counts.tlb_misses += u64::from(missed);
        if let (Some(translations), Some(gone)) = (&mut self.translations, gone) {
            translations[(gone >> 2) as usize] = 0;
        }
        missed
    }

    /// Drops a page's translation. True if there was one.
    pub fn shoot_down(&mut self, page: u32) -> bool {
        let mut held = self.first.remove(0, page).is_some();
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
        for page in self.second.as_ref().unwrap_or(&self.first).lines(0) {
            let counts = self.translations.as_mut();
            each(page, counts.map_or(0, |counts| std::mem::take(&mut counts[page as usize])));
        }
    }
}
