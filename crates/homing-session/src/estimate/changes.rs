//! What is new: how much of what is seen was not known, and when what was known is void. Scans are paced by it.

/// Memory that has grown by a quarter may have users that nobody knows.
const GROWTH: u64 = 4;

/// A time in which what was seen stays true. What was seen in another era says nothing about this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Era {
    /// The work was divided anew: nothing says who uses a page.
    pub division: u32,
    /// Half of the threads have changed nodes: threads still use their pages, from elsewhere.
    pub nodes: u32,
}

/// Counts since they were last taken, and what they are measured by.
#[derive(Debug, Default)]
pub struct Changes {
    era: Era,
    /// Threads when the era began.
    threads: u32,
    /// Threads that went to other nodes since.
    moved: u32,
    /// Resident pages when their number last mattered.
    pages: u64,
    samples: u64,
    new: u64,
}

impl Changes {
    /// The present era.
    pub fn era(&self) -> Era {
        self.era
    }

    /// Takes the number of threads. True if another era begins: they have doubled or halved, so that the work is
    /// divided anew.
    pub fn threads(&mut self, now: u32) -> bool {
        let anew = now >= 2 * self.threads.max(1) || 2 * now <= self.threads;
        if anew {
            self.era.division += 1;
            (self.threads, self.moved) = (now, 0);
        }
        anew
    }

    /// Takes the number of resident pages. True if it has grown much.
    pub fn pages(&mut self, now: u64) -> bool {
        let more = now > self.pages.saturating_add(self.pages / GROWTH);
        if more || now < self.pages / 2 {
            self.pages = now;
        }
        more
    }

    /// A thread stays on another node now. When half of them have moved in this era, another begins.
    pub fn thread_moved(&mut self) {
        self.moved += 1;
        if 2 * self.moved >= self.threads {
            self.threads_go_elsewhere();
        }
    }

    /// Threads have gone to other nodes: another era begins.
    pub fn threads_go_elsewhere(&mut self) {
        self.era.nodes += 1;
        self.moved = 0;
    }

    /// Counts a sample, and whether it was new.
    pub fn sample(&mut self, new: bool) {
        self.samples += 1;
        self.new += u64::from(new);
    }

    /// A page is to move: that is new as well.
    pub fn page_moves(&mut self) {
        self.new += 1;
    }

    /// Samples since the last time, and how much was new.
    pub fn take(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.samples), std::mem::take(&mut self.new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_begin_when_threads_double_or_halve_and_growth_is_reported_once() {
        let mut changes = Changes::default();
        let eras = [1, 1, 2, 3, 8, 9, 4].map(|threads| {
            changes.threads(threads);
            changes.era().division
        });
        assert_eq!(eras, [0, 0, 1, 1, 2, 2, 3]);
        let eras = [(); 3].map(|()| {
            changes.thread_moved();
            changes.era()
        });
        assert_eq!(eras, [0, 1, 1].map(|nodes| Era { division: 3, nodes }));
        assert!(changes.pages(100) && !changes.pages(125) && changes.pages(126) && !changes.pages(126));
        assert!(!changes.pages(10) && changes.pages(100));
        changes.sample(true);
        changes.sample(false);
        changes.page_moves();
        assert_eq!((changes.take(), changes.take()), ((2, 2), (0, 0)));
    }
}
