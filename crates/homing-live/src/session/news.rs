//! What is new: how much of what the source sees was not known, and when what was known is void. The source scans by it.

/// Memory that has grown by one part in so many may have users that nobody knows.
const GROWTH: u64 = 4;

/// What was seen in another says nothing about this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Era {
    /// The work was divided anew: nothing says who uses a page.
    pub(crate) division: u32,
    /// Half of the threads have changed nodes: threads still use their pages, from elsewhere.
    pub(crate) nodes: u32,
}

/// Counts since the source was last told, and what they are measured by.
#[derive(Debug, Default)]
pub(super) struct News {
    era: Era,
    /// Threads when the era began.
    threads: u32,
    /// Threads that went to other nodes since.
    moved: u32,
    /// Pages when there were last so many that it mattered.
    pages: u64,
    sightings: u64,
    news: u64,
}

impl News {
    /// The present era.
    pub(super) fn era(&self) -> Era {
        self.era
    }

    /// There are so many threads. True if another era begins, since they have become twice as many, or half: the work is
    /// divided anew.
    pub(super) fn threads(&mut self, now: u32) -> bool {
        let anew = now >= 2 * self.threads.max(1) || 2 * now <= self.threads;
        if anew {
            self.era.division += 1;
            (self.threads, self.moved) = (now, 0);
        }
        anew
    }

    /// So many pages are resident. True if they have become many more.
    pub(super) fn pages(&mut self, now: u64) -> bool {
        let more = now > self.pages + self.pages / GROWTH;
        if more || now < self.pages / 2 {
            self.pages = now;
        }
        more
    }

    /// A thread stays on another node now. When half of them have moved in this era, another begins.
    pub(super) fn moved(&mut self) {
        self.moved += 1;
        if 2 * self.moved >= self.threads {
            self.era.nodes += 1;
            self.moved = 0;
        }
    }

    /// A page was seen, and whether that was new.
    pub(super) fn sighted(&mut self, new: bool) {
        self.sightings += 1;
        self.news += u64::from(new);
    }

    /// A page is to move.
    pub(super) fn moves(&mut self) {
        self.news += 1;
    }

    /// Sightings and news since the last time.
    pub(super) fn take(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.sightings), std::mem::take(&mut self.news))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_begin_when_threads_double_or_halve_and_growth_is_told_once() {
        let mut news = News::default();
        let eras = [1, 1, 2, 3, 8, 9, 4].map(|threads| {
            news.threads(threads);
            news.era().division
        });
        assert_eq!(eras, [0, 0, 1, 1, 2, 2, 3]);
        let eras = [(); 3].map(|()| {
            news.moved();
            news.era()
        });
        assert_eq!(eras, [0, 1, 1].map(|nodes| Era { division: 3, nodes }));
        assert!(news.pages(100) && !news.pages(125) && news.pages(126) && !news.pages(126));
        assert!(!news.pages(10) && news.pages(100));
        news.sighted(true);
        news.sighted(false);
        news.moves();
        assert_eq!((news.take(), news.take()), ((2, 2), (0, 0)));
    }
}
