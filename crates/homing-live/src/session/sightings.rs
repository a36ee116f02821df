//! Accesses: the pages that they are to, where those are, and the policy that hears of them.

use super::{Session, SessionError, HUGE, PAGE, STALE_US, STALE_WITH_BALANCING_US};
use crate::journal::Line;
use crate::regions::{self, Region};
use crate::source::{Access, Weight, VISITS};
use ahash::AHashSet;
use homing_core::action::Locations;
use homing_core::engine::Observation;
use homing_core::ids::{Node, Page, Time};
use homing_core::policy::Sample;
use homing_linux::proc::maps::{self, Class};
use homing_linux::proc::Pid;

impl Session<'_> {
    /// The page of each access; `None` where no mapping of ours holds the address.
    pub(super) fn pages_of(&mut self, accesses: &[Access]) -> Result<Vec<Option<Page>>, SessionError> {
        let mut pages = Vec::with_capacity(accesses.len());
        // Where huge pages could be and none are: others there need not be asked.
        let mut small = AHashSet::new();
        for access in accesses {
            let page = match self.known_page(access) {
                None => self.new_page(access, &mut small)?,
                known => known,
            };
            pages.push(page);
        }
        Ok(pages)
    }

    fn known_page(&self, access: &Access) -> Option<Page> {
        let pages = self.kernel().pages();
        pages.find(access.pid, access.address & !(PAGE - 1)).or_else(|| {
            let page = pages.find(access.pid, access.address & !(HUGE - 1))?;
            (pages.entry(page).bytes == HUGE).then_some(page)
        })
    }

    fn new_page(
        &mut self,
        access: &Access,
        small: &mut AHashSet<(Pid, u64)>,
    ) -> Result<Option<Page>, SessionError> {
        let Some(process) = self.targets.processes().get(&access.pid) else { return Ok(None) };
        let Some(mapping) = maps::find(&process.maps, access.address) else {
            self.pace.hurry();
            return Ok(None);
        };
        let class = mapping.class();
        let huge = access.address & !(HUGE - 1);
        let whole = huge >= mapping.start && huge + HUGE <= mapping.end;
        let page_map = self.views.get(&access.pid).and_then(|view| view.page_map.as_ref());
        let is_huge = whole
            && matches!(class, Class::Anonymous | Class::Heap | Class::SharedMemory)
            && !small.contains(&(access.pid, huge))
            && page_map.is_some_and(|map| map.is_huge(access.address).unwrap_or(false));
        if whole && !is_huge {
            small.insert((access.pid, huge));
        }
        let (address, bytes) = if is_huge { (huge, HUGE) } else { (access.address & !(PAGE - 1), PAGE) };
        let page = self.engine.executor_mut().pages_mut().number(access.pid, address, bytes, class);
        self.put(&Line::New { page: page.0, address })?;
        self.engine.observe(Observation::PageNew(page, address));
        Ok(Some(page))
    }

    /// Asks where pages are that nobody has asked for lately.
    pub(super) fn locate(&mut self, pages: impl Iterator<Item = Page>) -> Result<(), SessionError> {
        let now = self.now();
        let stale = if self.source.kernel_may_move() { STALE_WITH_BALANCING_US } else { STALE_US };
        let kernel = self.engine.executor_mut();
        let mut wanted: Vec<Page> = pages
            .filter(|&page| {
                let entry = kernel.pages().entry(page);
                // One that is being moved is asked for by the mover.
                entry.at.is_none() || entry.under_way.is_none() && now.saturating_sub(entry.asked) >= stale
            })
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let before: Vec<Option<Node>> = wanted.iter().map(|&page| kernel.pages().entry(page).at).collect();
        let nowhere = kernel.locate(&wanted, now);
        let moved = |(page, before): (&Page, &Option<Node>)| {
            let at = kernel.pages().entry(*page).at;
            before.is_some() && at.is_some() && at != *before
        };
        self.account.moved_by_others += wanted.iter().zip(&before).filter(|pair| moved(*pair)).count() as u64;
        nowhere.into_iter().try_for_each(|page| self.page_gone(page))
    }

    /// Tells the policy of an access, at `t`.
    pub(super) fn tell(&mut self, access: &Access, page: Page, t: u64) -> Result<(), SessionError> {
        let task = self.targets.task(access.pid, access.tid);
        let thread = task.map(|task| task.number);
        if task.is_none_or(|task| task.node != Some(access.node)) {
            self.pace.hurry();
        }
        let entry = self.engine.executor_mut().pages_mut().entry_mut(page);
        let Some(at) = entry.seen_at() else { return Ok(()) };
        let first = entry.seen.is_empty();
        entry.sighted(access.node);
        let mut shares = std::mem::take(&mut self.shares);
        shares.clear();
        match access.weight {
            Weight::References(_) => {}
            // Who makes a page, or is first met where it is, need not be its user.
            Weight::Visits(_) if first && access.node == at => shares.push((access.node, 1.0)),
            Weight::Visits(_) => {
                let new = entry.users.sighted(access.node, thread, self.news.era());
                self.news.sighted(new && access.node != at);
                entry.users.shares(access.node, &mut shares);
            }
        }
        let (class, address, pid) = (entry.class, entry.address, entry.pid);
        let alone = self.neighbours.sighted(pid, address, access.node, self.news.era());
        self.account.access(access.node, at, class);
        if class.movable() && self.chosen(pid, address) {
            self.consider_split(page, &shares);
            self.tell_shares(access, page, at, t, &shares, alone)?;
        }
        self.shares = shares;
        Ok(())
    }

    /// Tells the policy of an access to a page at `at` whose users have these shares; `alone`: it is surely one node's own.
    fn tell_shares(
        &mut self,
        access: &Access,
        page: Page,
        at: Node,
        t: u64,
        shares: &[(Node, f64)],
        alone: bool,
    ) -> Result<(), SessionError> {
        let visits = match access.weight {
            Weight::References(count) => return self.observe(*access, page, count, at, t),
            // One tells all that there is to tell of a page that nobody else uses.
            Weight::Visits(_) if access.node == at && shares.len() == 1 => 1.0,
            // As good as one that comes at once after the scan.
            Weight::Visits(_) if alone && shares.len() == 1 => VISITS,
            Weight::Visits(count) => count,
        };
        for &(node, share) in shares {
            self.observe(Access { node, ..*access }, page, share * visits * self.weight, at, t)?;
        }
        if access.node != at {
            // A policy decides at a reference, by what came before it.
            self.observe(*access, page, 1.0, at, t)?;
        }
        Ok(())
    }

    /// Tells the policy of references to a page at `at`.
    fn observe(
        &mut self,
        access: Access,
        page: Page,
        weight: f64,
        at: Node,
        t: u64,
    ) -> Result<(), SessionError> {
        self.put(&Line::Sample {
            t,
            page: page.0,
            node: access.node.0,
            store: access.store,
            weight,
            at: at.0,
        })?;
        self.engine.observe(Observation::Sample(Sample {
            page,
            node: access.node,
            reads: u64::from(!access.store),
            writes: u64::from(access.store),
            weight,
            time: Time(t),
            at: Locations::single(at),
        }));
        self.note_asked(t)
    }

    /// True if the regions that may move hold the address.
    pub(super) fn chosen(&self, pid: Pid, address: u64) -> bool {
        self.config.regions.is_empty()
            || self
                .region(pid, address)
                .is_some_and(|(_, region)| regions::chosen(&region.name, &self.config.regions))
    }

    pub(super) fn region(&self, pid: Pid, address: u64) -> Option<(u32, &Region)> {
        let view = self.views.get(&pid)?;
        Some((view.number, regions::find(&view.regions, address)?))
    }
}
