//! From the dense addresses of a trace to pages, and from pages to the frames of memory they are in.

use super::array::MAX_LINE;
use crate::ids::{Page, PageSize};
use std::collections::{HashMap, VecDeque};

/// Base-2 logarithm of the bytes of a frame of a trace, the granule of its dense addresses.
const GRANULE_LOG2: u32 = 12;
/// A page that has no frame yet.
const NONE: u32 = u32::MAX;

/// Which page each dense address of a trace belongs to.
#[derive(Clone, Debug)]
pub struct Addresses {
    page_size: PageSize,
    granule_log2: u32,
    /// Virtual address of each page's first byte.
    addresses: Vec<u64>,
    /// None where each granule is a page.
    larger: Option<Larger>,
}

/// Which pages granules belong to where pages are larger.
#[derive(Clone, Debug)]
struct Larger {
    /// Page of each granule.
    page_of: Vec<u32>,
    /// Where in its page each granule begins.
    offset_of: Vec<u32>,
    /// All granules page by page, and where each page's begin.
    granules: Vec<u32>,
    granules_from: Vec<u32>,
}

impl Addresses {
    /// `frames`: the virtual address of each frame of the trace, in frame order. A page whose mapping went away and
    /// came back is a new page.
    pub fn new(page_size: PageSize, frames: &[u64]) -> Addresses {
        let granule_log2 = page_size.log2().min(GRANULE_LOG2);
        let parts = 1u64 << (GRANULE_LOG2 - granule_log2);
        let mut births: HashMap<u64, u32> = HashMap::new();
        let mut numbers: HashMap<(u64, u32), u32> = HashMap::new();
        let (mut page_of, mut offset_of, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        for &frame in frames {
            let birth = births.entry(frame).or_insert(0);
            for part in 0..parts {
                let address = frame.wrapping_add(part << granule_log2);
                let base = address & !(page_size.bytes() - 1);
                let next = addresses.len() as u32;
                let page = *numbers.entry((base, *birth)).or_insert(next);
                if page == next {
                    addresses.push(base);
                }
                page_of.push(page);
                offset_of.push((address - base) as u32);
            }
            *birth += 1;
        }
        let larger = (page_size.log2() > GRANULE_LOG2).then(|| {
            let (granules, granules_from) = by_page(&page_of, addresses.len());
            Larger { page_of, offset_of, granules, granules_from }
        });
        Addresses { page_size, granule_log2, addresses, larger }
    }

    /// The page size.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Number of pages.
    pub fn pages(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// Virtual address of the first byte of `page`.
    pub fn address(&self, page: Page) -> u64 {
        self.addresses[page.index()]
    }

    /// Base-2 logarithm of the bytes of a granule: the largest stretch of a dense address that is within one page.
    #[inline]
    pub fn granule_log2(&self) -> u32 {
        self.granule_log2
    }

    /// The number of granules.
    fn all(&self) -> usize {
        self.larger.as_ref().map_or(self.addresses.len(), |larger| larger.page_of.len())
    }

    /// The page of a granule.
    #[inline]
    pub fn page(&self, granule: u64) -> u32 {
        self.larger.as_ref().map_or(granule as u32, |larger| larger.page_of[granule as usize])
    }

    /// Where in its page a granule begins.
    #[inline]
    pub fn offset(&self, granule: u64) -> u32 {
        self.larger.as_ref().map_or(0, |larger| larger.offset_of[granule as usize])
    }

    /// The granules of a page, and where in it each begins.
    pub(super) fn granules(&self, page: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let range = match &self.larger {
            Some(larger) => {
                larger.granules_from[page as usize] as usize..larger.granules_from[page as usize + 1] as usize
            }
            None => page as usize..page as usize + 1,
        };
        range.map(|at| {
            let granule = self.larger.as_ref().map_or(at as u32, |larger| larger.granules[at]);
            (granule, self.offset(granule.into()))
        })
    }
}

/// All granules page by page, and where each page's begin and the last page's end.
fn by_page(page_of: &[u32], pages: usize) -> (Vec<u32>, Vec<u32>) {
    let mut from = vec![0u32; pages + 1];
    page_of.iter().for_each(|&page| from[page as usize + 1] += 1);
    (0..pages).for_each(|page| from[page + 1] += from[page]);
    let mut next = from.clone();
    let mut granules = vec![0; page_of.len()];
    for (granule, &page) in page_of.iter().enumerate() {
        granules[next[page as usize] as usize] = granule as u32;
        next[page as usize] += 1;
    }
    (granules, from)
}

/// Where a granule of dense addresses is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its page; [`NOWHERE`] until the page has a frame.
    pub page: u32,
    /// The first-level line that it begins with in physical memory.
    pub line: u32,
}

/// The page of a granule whose page has no frame yet.
pub(super) const NOWHERE: u32 = u32::MAX;

/// How frames are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// In order of first use; a frame that a page left is used again after all others.
    #[default]
    InOrder,
    /// A frame whose low bits are those of the page's virtual address, this many of them: page colouring, and with
    /// enough bits a cache indexed by virtual addresses.
    Virtual(u32),
}

impl Colours {
    fn bits(self) -> u32 {
        match self {
            Colours::InOrder => 0,
            Colours::Virtual(bits) => bits,
        }
    }

    fn of(self, addresses: &Addresses, page: u32) -> u32 {
        if self.bits() == 0 {
            return 0;
        }
        let number = addresses.address(Page(page)) >> addresses.page_size().log2();
        (number & ((1 << self.bits()) - 1)) as u32
    }
}

/// The frames of physical memory.
#[derive(Clone, Debug)]
pub(super) struct Frames {
    colours: Colours,
    page_log2: u32,
    line_log2: u32,
    /// Place of each granule.
    places: Vec<Place>,
    /// Page in each frame.
    page_in: Vec<u32>,
    /// Of each colour, how many frames were ever in use, and those that pages left.
    used: Vec<(u32, VecDeque<u32>)>,
}

impl Frames {
    /// No page has a frame. `None` if numbering the cache lines of physical memory, `lines_log2` a page, could take
    /// more than the arrays hold.
    pub fn new(colours: Colours, addresses: &Addresses, lines_log2: u32) -> Option<Frames> {
        let mut of_colour: HashMap<u32, u64> = HashMap::new();
        for page in 0..addresses.pages() {
            *of_colour.entry(colours.of(addresses, page)).or_default() += 1;
        }
        // Half as many frames as are in use may wait to be used again, see assign().
        let most = of_colour.values().max().map_or(0, |pages| (2 * pages + 2) << colours.bits());
        (most << lines_log2 <= u64::from(MAX_LINE)).then(|| Frames {
            colours,
            page_log2: addresses.page_size().log2(),
            line_log2: addresses.page_size().log2() - lines_log2,
            places: vec![Place { page: NOWHERE, line: 0 }; addresses.all()],
            page_in: Vec::new(),
            used: vec![(0, VecDeque::new()); 1 << colours.bits()],
        })
    }

    /// The frame of a page, if it has one.
    pub fn of(&self, page: u32, addresses: &Addresses) -> Option<u32> {
        let (granule, _) = addresses.granules(page).next()?;
        let place = self.places[granule as usize];
        (place.page != NOWHERE).then(|| place.line >> (self.page_log2 - self.line_log2))
    }

    /// Where each granule is.
    #[inline(always)]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Gets the places of granules into this machine's own caches, all at once: one after the other each would be
    /// waited for.
    #[inline]
    pub fn fetch(&self, granules: impl Iterator<Item = u64>) {
        let pages = granules.map(|granule| self.places[granule as usize].page);
        std::hint::black_box(pages.fold(0, |all, page| all | page));
    }

    /// The page at a physical address.
    #[inline]
    pub fn page_at(&self, physical: u64) -> u32 {
        self.page_in[(physical >> self.page_log2) as usize]
    }

    /// Where in its page a physical address is.
    #[inline]
    pub fn offset(&self, physical: u64) -> u32 {
        (physical & ((1 << self.page_log2) - 1)) as u32
    }

    /// The page of a granule, which has no frame, gets one. Returns where the granule is then.
    #[inline(never)]
    pub fn enter(&mut self, granule: u64, addresses: &Addresses) -> Place {
        self.assign(addresses.page(granule), addresses);
        self.places[granule as usize]
    }

    /// Gives a page another frame.
    pub fn assign(&mut self, page: u32, addresses: &Addresses) {
        let colour = self.colours.of(addresses, page);
        let old = self.of(page, addresses);
        let (next, free) = &mut self.used[colour as usize];
        // A frame just left is not taken again at once, as the free list of a real machine is longer than that.
        let frame = match free.front() {
            Some(_) if free.len() as u32 > *next / 3 => free.pop_front().expect("there is a first"),
            _ => {
                *next += 1;
                (*next - 1) << self.colours.bits() | colour
            }
        };
        if let Some(old) = old {
            free.push_back(old);
            self.page_in[old as usize] = NONE;
        }
        if frame as usize >= self.page_in.len() {
            self.page_in.resize(frame as usize + 1, NONE);
        }
        self.page_in[frame as usize] = page;
        for (granule, offset) in addresses.granules(page) {
            let physical = (u64::from(frame) << self.page_log2) + u64::from(offset);
            self.places[granule as usize] = Place { page, line: (physical >> self.line_log2) as u32 };
        }
    }
}
