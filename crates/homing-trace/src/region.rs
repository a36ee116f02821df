//! The region of interest of a recording. References before it and after it are left out, but for the first to each
//! page before it: it says who made the page, and so where the page begins. So it is for references that are skipped.

use super::by_thread::ByThread;
use super::event::Event;
use super::format::FRAME_SHIFT;
use super::frames::{Change, FrameTable};
use super::wire::Flavour;
use crate::ids::Thread;

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

/// Where a recording is, and which pages were referred to in what it leaves out at its start.
#[derive(Debug)]
pub(super) struct Region {
    place: Place,
    /// Whether the threads' references come in no common order: then the first of each thread to a page counts, since
    /// only the merged order tells which of them made it.
    by_thread: bool,
    /// By thread, or one for all.
    touched: ByThread<FrameTable>,
}

impl Region {
    pub(super) fn starting(place: Place, flavour: Flavour) -> Region {
        Region { place, by_thread: flavour == Flavour::Parallel, touched: ByThread::default() }
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
            (Place::Before, true) => self.place = Place::Inside,
            (Place::Inside, false) => self.place = Place::After,
            _ => {}
        }
    }

    /// Nothing more is left out at the start: which pages were touched is of no use any more.
    pub(super) fn forget_touched(&mut self) {
        self.touched = ByThread::default();
    }

    /// Pages whose mapping goes away are new when they come back.
    pub(super) fn event(&mut self, event: &Event) {
        if let Some(change) = Change::of(event).filter(|_| !self.touched.is_empty()) {
            self.touched.iter_mut().for_each(|(_, touched)| _ = touched.change(change));
        }
    }

    /// Whether a reference that is left out at the start is the first to its page.
    #[inline]
    pub(super) fn is_first_touch(&mut self, thread: Thread, address: u64) -> bool {
        let thread = if self.by_thread { thread } else { Thread(0) };
        let touched = self.touched.get_or_insert_with(thread, FrameTable::default);
        let known = touched.len();
        // The trace is full, too, which its writer says.
        touched.is_full() || touched.frame(address >> FRAME_SHIFT) == known
    }
}
