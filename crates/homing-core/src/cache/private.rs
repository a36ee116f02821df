//! What a CPU has for itself: two levels of cache, TLBs, and the short cuts that make the usual reference cheap.

use super::array::Array;
use super::counts::Counts;
use super::shape::HierarchyShape;

/// Flag of a first-level line: the CPU has written it, so the second level holds it changed and alone.
pub(super) const WRITTEN: u32 = 1;
/// Flag of a second-level line: no other CPU has it (MESI: E or M).
pub(super) const EXCLUSIVE: u32 = 2;
/// Flag of a second-level line: it differs from memory (M).
pub(super) const CHANGED: u32 = 1;
/// No line, no page.
pub(super) const NONE: u64 = u64::MAX;

/// The private part of a hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Private {
    pub l1: Array,
    pub l2: Array,
    tlbs: Vec<Array>,
    /// The dense line of the last reference; it is the most recently used of its set, and of its page's TLB set.
    pub last_line: u64,
    /// That line may be written without asking anybody.
    pub last_written: bool,
    /// The granule of the last reference, and where it is in physical memory.
    pub granule: u64,
    pub base: u64,
    pub page: u32,
    pub counts: Counts,
    /// Translations by each page since it came into the TLBs (Tikir & Hollingsworth's address translation counters),
    /// if they are wanted.
    translations: Option<Vec<u64>>,
    /// `counts.references` when the present page began.
    page_since: u64,
}

impl Private {
    pub fn new(shape: &HierarchyShape) -> Private {
        Private {
            l1: shape.l1.array(),
            l2: shape.l2.array(),
            tlbs: shape.tlbs.iter().map(|shape| shape.array()).collect(),
            last_line: NONE,
            last_written: false,
            granule: NONE,
            base: 0,
            page: u32::MAX,
            counts: Counts::default(),
            translations: None,
            page_since: 0,
        }
    }

    /// Looks a page up in the TLBs and loads it where it is missing. True if no level held it.
    pub fn translate(&mut self, page: u32) -> bool {
        // The reference that asks is already counted, and belongs to the new page.
        self.close_page(self.counts.references - 1);
        self.page = page;
        let Some((first, second)) = self.tlbs.split_first_mut() else { return false };
        if first.touch(page).is_some() {
            return false;
        }
        self.counts.tlb1_misses += 1;
        let mut gone = first.insert(page, 0);
        let mut missed = true;
        if let Some(second) = second.first_mut() {
            missed = second.touch(page).is_none();
            let lost = if missed { second.insert(page, 0) } else { None };
            // The second level holds all that the first one does.
            if let Some(lost) = lost {
                first.remove(lost >> 2);
            }
            gone = lost;
        }
        self.counts.tlb_misses += u64::from(missed);
        if let (Some(translations), Some(gone)) = (&mut self.translations, gone) {
            translations[(gone >> 2) as usize] = 0;
        }
        missed
    }

    /// Drops a page's translation. True if there was one.
    pub fn shoot_down(&mut self, page: u32) -> bool {
        if self.page == page {
            self.close_page(self.counts.references);
            (self.page, self.granule, self.last_line) = (u32::MAX, NONE, NONE);
        }
        let mut held = false;
        for tlb in &mut self.tlbs {
            held |= tlb.remove(page).is_some();
        }
        if let Some(translations) = &mut self.translations {
            translations[page as usize] = 0;
        }
        self.counts.shootdowns += u64::from(held);
        held
    }

    /// Counts the present page's translations up to this many references.
    fn close_page(&mut self, references: u64) {
        if let (Some(translations), true) = (&mut self.translations, self.page != u32::MAX) {
            translations[self.page as usize] += references - self.page_since;
        }
        self.page_since = references;
    }

    /// Counts translations by page from now on.
    pub fn count_translations(&mut self, pages: u32) {
        self.translations = Some(vec![0; pages as usize]);
        self.page_since = self.counts.references;
    }

    /// The pages in the TLBs, with the translations by each since it came, which begin anew.
    pub fn read_translations(&mut self, mut each: impl FnMut(u32, u64)) {
        self.close_page(self.counts.references);
        let Some(tlb) = self.tlbs.last() else { return };
        for page in tlb.lines() {
            let count =
                self.translations.as_mut().map_or(0, |counts| std::mem::take(&mut counts[page as usize]));
            each(page, count);
        }
    }

    /// Takes a second-level line and its parts in the first level away. `parts_log2`: first-level lines in one of the
    /// second. Returns the second level's entry.
    pub fn invalidate(&mut self, line: u32, parts_log2: u32) -> Option<u32> {
        let entry = self.l2.remove(line)?;
        self.drop_parts(line, parts_log2);
        Some(entry)
    }

    /// Takes the parts of a second-level line out of the first level.
    pub fn drop_parts(&mut self, line: u32, parts_log2: u32) {
        for part in 0..1 << parts_log2 {
            self.l1.remove(line << parts_log2 | part);
        }
        self.last_line = NONE;
    }

    /// Another CPU reads a line that this one holds alone: both hold it now. True if it was changed.
    pub fn share(&mut self, line: u32, parts_log2: u32) -> bool {
        let Some(entry) = self.l2.peek(line) else { return false };
        let changed = *entry & CHANGED != 0;
        *entry &= !(CHANGED | EXCLUSIVE);
        if changed {
            for part in 0..1 << parts_log2 {
                if let Some(entry) = self.l1.peek(line << parts_log2 | part) {
                    *entry &= !WRITTEN;
                }
            }
            self.last_written = false;
        }
        changed
    }
}
