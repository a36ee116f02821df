//! The region of interest of a recording. References before it and after it are left out, but for the first to each
//! page before it: it says who made the page, and so where the page begins.

use super::event::Event;
use super::format::FRAME_SHIFT;
use super::frames::{Change, FrameTable};

/// Where a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Before its region of interest.
    Before,
    /// In it; a recording that was not asked for a region is all within one.
    #[default]
    Inside,
    /// Behind it.
    After,
}

/// Where a recording is, and which pages were referred to before its region.
#[derive(Debug, Default)]
pub(super) struct Region {
    place: Place,
    touched: FrameTable,
}

impl Region {
    pub(super) fn starting(place: Place) -> Region {
        Region { place, touched: FrameTable::default() }
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.place == Place::Inside
    }

    /// The recorder says that the region begins, or that it ends. There is one: it does not begin again.
    pub(super) fn change(&mut self, begins: bool) {
        match (self.place, begins) {
            (Place::Before, true) => *self = Region::default(),
            (Place::Inside, false) => self.place = Place::After,
            _ => {}
        }
    }

    /// Pages whose mapping goes away are new when they come back.
    pub(super) fn event(&mut self, event: &Event) {
        if let (Place::Before, Some(change)) = (self.place, Change::of(event)) {
            self.touched.change(change);
        }
    }

    /// Whether a reference outside of the region is the first to its page, before the region.
    #[inline]
    pub(super) fn is_first_touch(&mut self, address: u64) -> bool {
        if self.place == Place::After {
            return false;
        }
        let known = self.touched.len();
        self.touched.frame(address >> FRAME_SHIFT) == known
    }
}
