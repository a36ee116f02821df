//! What is known of a trace before it is judged: the facts of its pages, their names, and what its CPUs did.

use super::reading::{self, Reading};
use super::small::{self, SmallPages};
use super::{cpus_in_use, FOLLOWS};
use crate::case::Case;
use crate::error::Result;
use crate::policies::policy;
use homing_core::areas::{name_pages, Areas};
use homing_core::compare::Subject;
use homing_core::history::History;
use homing_core::ids::Page;
use homing_core::policy::placement::Placement;
use homing_core::time::Times;
use homing_core::why::facts::{facts, PageFacts, INTERVALS};
use homing_core::why::remedy::Remedy;
use homing_core::why::small::Placing;
use homing_core::why::{CpuCounts, Diagnosis, Setup};

/// What some remedies cannot be judged without.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// What pages cost that follow their users.
    pub follows: bool,
    /// What the lines of shared pages do.
    pub lines: bool,
    /// What huge pages would cost in small ones.
    pub small_pages: bool,
}

impl Need {
    /// To judge every remedy.
    pub const ALL: Need = Need { follows: true, lines: true, small_pages: true };

    /// To judge the remedies of a diagnosis.
    pub fn of(found: &Diagnosis) -> Need {
        let remedies =
            || found.findings.iter().filter_map(|finding| finding.remedy).map(|found| found.remedy);
        let of_lines = [Remedy::SeparatePages, Remedy::PadLines, Remedy::SplitLines];
        let of_moves = [Remedy::Migrate, Remedy::SmallPages(Placing::Follow)];
        Need {
            follows: remedies().any(|remedy| of_moves.contains(&remedy)),
            lines: remedies().any(|remedy| of_lines.contains(&remedy)),
            small_pages: remedies().any(|remedy| matches!(remedy, Remedy::SmallPages(_))),
        }
    }
}

/// What is known of a trace.
pub struct Known {
    /// Of each page.
    pub facts: Vec<PageFacts>,
    /// The name of each page.
    pub areas: Areas,
    /// References of each CPU in use in each interval.
    pub by_cpu: Vec<[u64; INTERVALS]>,
    /// The CPUs that threads run on.
    pub cpus: Vec<CpuCounts>,
    /// The same if all pages were small, where they are huge.
    pub small_pages: Option<SmallPages>,
    /// Pages that several nodes use and whose lines were not watched for want of memory.
    pub unwatched: usize,
}

impl Known {
    /// As far as it is needed.
    ///
    /// # Errors
    /// If a history cannot be read back.
    pub fn of(case: &Case<'_>, need: Need) -> Result<Known> {
        let layout = &case.layout;
        let areas = areas(case, &layout.history);
        let placement = layout.placement.clone().unwrap_or(Placement::FirstTouch);
        let mut facts = facts(&layout.history, &layout.costs, &placement)?;
        if need.follows {
            follow(&mut facts, case.subject())?;
        }
        let nodes = usize::from(layout.costs.memories() - u16::from(layout.costs.global_node().is_some()));
        let Reading { by_cpu, unwatched } = reading::read(case, nodes, &mut facts, need.lines)?;
        let cpus = cpus_in_use(case, layout, &by_cpu)?;
        let small_pages = match need.small_pages {
            true => small::simulate(case, &by_cpu, need.follows, &mut facts)?,
            false => None,
        };
        Ok(Known { facts, areas, by_cpu, cpus, small_pages, unwatched })
    }

    /// What a reader must know of it.
    pub fn notes(&self, found: &Diagnosis) -> Vec<String> {
        let mut notes = Vec::new();
        if self.unwatched > 0 {
            notes.push(format!(
                "the lines of {} pages that several nodes use were not looked at for want of memory",
                self.unwatched
            ));
        }
        let left_out = self.small_pages.as_ref().map_or(0, |small| small.left_out);
        if left_out > 0 {
            notes.push(format!(
                "small pages were not tried for {left_out} huge pages whose addresses were mapped more than once"
            ));
        }
        if !found.timed && Need::of(found).small_pages {
            notes.push("small pages miss the TLBs more often, which is no part of the cost here".into());
        }
        notes
    }

    /// What is diagnosed.
    pub fn setup<'a>(&'a self, case: &'a Case<'_>, times: Option<&'a Times>) -> Setup<'a> {
        let caches = case.layout.caches.is_some();
        Setup {
            facts: &self.facts,
            costs: &case.layout.costs,
            areas: &self.areas,
            cpus: &self.cpus,
            small_pages: self.small_pages.as_ref().map(|small| &small.cpus[..]),
            // Times need what caches let through.
            times: times.filter(|_| caches),
            behind_caches: caches,
        }
    }
}

/// Adds what pages cost that follow their users.
pub fn follow(facts: &mut [PageFacts], subject: Subject<'_>) -> Result<()> {
    let one_copy = Subject { replication: false, ..subject };
    let follows = one_copy.simulate(policy(FOLLOWS)?, false)?;
    facts.iter_mut().zip(&follows.page_costs).for_each(|(page, &cost)| page.migrated = Some(cost));
    Ok(())
}

/// The name of each page.
fn areas(case: &Case<'_>, history: &History) -> Areas {
    let address = |page: &u32| history.address(Page(*page));
    let mut pages: Vec<u32> = (0..history.pages()).collect();
    pages.sort_by_key(|page| (address(page), *page));
    let addresses: Vec<u64> = pages.iter().map(address).collect();
    let sorted = name_pages(&case.trace, &addresses, history.page_size().bytes());
    let mut of_page = vec![-1; pages.len()];
    pages.iter().zip(&sorted.of_page).for_each(|(&page, &area)| of_page[page as usize] = area);
    Areas { of_page, ..sorted }
}
