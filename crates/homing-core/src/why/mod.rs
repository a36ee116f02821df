//! Why a program pays for memory that is not uniform, which data cause it, what to change, and how much that brings
//! (Brock et al. 2001, sections 2 and 6: from counts by region and node to a better placement of data).
//!
//! * The **facts** of a page ([`facts`]): who refers to it, where it is, what it costs there, elsewhere and at best.
//! * Where several nodes write a page, its **lines** ([`lines`]) tell whether they share data or only the page.
//! * An **area** ([`area`]) is the pages of one name. What it costs beyond the bound is **avoidable**.
//! * A **remedy** ([`remedy`]) is tried on the model, one area after the other, the most avoidable first: exactly the
//!   pages that it would place are placed so, and the program's time is modelled anew ([`traffic`]).
//! * Where pages are huge, small ones are such a remedy, too ([`small`]).
//! * The **cause** ([`verdict`]) is why the remedy helps. That of the areas that save most is the program's.
//!
//! For a process that runs, the facts come from samples ([`samples`]), and some causes show only there ([`process`]).
//!
//! Times are modelled ([`crate::time`]), with contention over the whole program. Where the machine has no times, gains
//! are shares of what references cost.

pub mod active;
pub mod area;
pub mod doubt;
pub mod facts;
pub mod lines;
pub mod parts;
pub mod process;
mod range;
pub mod remedy;
pub mod samples;
pub mod small;
#[cfg(test)]
mod tests;
pub mod traffic;
pub mod verdict;

use crate::areas::Areas;
use crate::cache;
use crate::history::SpillError;
use crate::ids::Node;
use crate::machine::Costs;
use crate::optimal::OptimalError;
use crate::time::{CpuWork, Elapsed, Mover, Times, Work};
use area::Area;
use facts::{PageFacts, INTERVALS};
use remedy::{Prediction, Remedy};
use serde::{Deserialize, Serialize};
use small::{Placing, Small};
use traffic::{Flow, Traffic};
use verdict::Cause;

/// What is diagnosed.
pub struct Setup<'a> {
    /// What is known of each page ([`facts::facts`]).
    pub facts: &'a [PageFacts],
    /// The machine at the page size of these.
    pub costs: &'a Costs,
    /// The name of each page.
    pub areas: &'a Areas,
    /// The CPUs that threads run on.
    pub cpus: &'a [CpuCounts],
    /// The same if all pages were small, where the facts know that ([`small`]): the TLBs miss more often then.
    pub small_pages: Option<&'a [CpuCounts]>,
    /// The machine's times, if they are known.
    pub times: Option<&'a Times>,
    /// Whether what reaches memory has gone through caches.
    pub behind_caches: bool,
}

/// A CPU that threads run on.
#[derive(Clone, Copy, Debug)]
pub struct CpuCounts {
    /// Its node.
    pub node: Node,
    /// What its caches counted.
    pub caches: cache::Counts,
    /// References of its threads in each interval.
    pub references: [u64; INTERVALS],
    /// What it asks memories for in each interval: what gets past its caches.
    pub demand: [f64; INTERVALS],
}

impl CpuCounts {
    /// The share of its references that are in an interval.
    fn share_in(&self, interval: usize) -> f64 {
        let all: u64 = self.references.iter().sum();
        self.references[interval] as f64 / (all as f64).max(1.0)
    }
}

/// There is no diagnosis.
#[derive(Debug, thiserror::Error)]
pub enum WhyError {
    /// The history cannot be read back.
    #[error(transparent)]
    Spill(#[from] SpillError),
    /// There is no bound.
    #[error(transparent)]
    Optimal(#[from] OptimalError),
}

/// Less gain than this share is none: runs differ by more.
pub const NOTHING: f64 = 0.03;
/// A memory that serves this many times the mean is congested, if waiting for it takes [`WAITING`] of the time.
const BUSY: f64 = 1.5;
/// See [`BUSY`].
const WAITING: f64 = 0.1;
/// Areas that remedies are tried for.
const TRIED: usize = 64;

/// What remedies are tried on.
pub(crate) struct Model<'a> {
    costs: &'a Costs,
    cpus: &'a [CpuCounts],
    small_pages: Option<&'a [CpuCounts]>,
    times: Option<&'a Times>,
    behind_caches: bool,
    /// What all references cost as pages are.
    memory_cost: f64,
}

impl<'a> Model<'a> {
    fn new(setup: &Setup<'a>) -> Model<'a> {
        let Setup { facts, costs, cpus, small_pages, times, behind_caches, .. } = *setup;
        let memory_cost = facts.iter().map(|page| page.costs.here).sum();
        Model { costs, cpus, small_pages, times, behind_caches, memory_cost }
    }

    /// Nodes that threads run on.
    fn nodes(&self) -> usize {
        usize::from(self.costs.memories() - u16::from(self.costs.global_node().is_some()))
    }

    /// How long the program takes. As soon as some pages are small, it is charged with all TLB misses that it would
    /// have if all were: no less than that takes.
    fn elapsed(&self, traffic: &Traffic) -> Option<Elapsed> {
        let cpus = self.small_pages.filter(|_| traffic.has_small_pages()).unwrap_or(self.cpus);
        self.times.map(|times| traffic.elapsed(times, cpus))
    }
}

/// A gain as shares of what there is now: 0.25 takes a quarter off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Gain {
    /// The least that was simulated: with or without contention, threads in turn over nodes or in blocks.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// An area with what is wrong with it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The area.
    pub area: Area,
    /// What helps, if something does.
    pub remedy: Option<Prediction>,
    /// Why that helps.
    pub cause: Option<Cause>,
    /// 100 * its avoidable cost / that of all areas.
    pub avoidable_percent: f64,
}

/// The diagnosis.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// What is wrong.
    pub cause: Cause,
    /// What the remedies of all findings bring together: shares of the program's modelled time, or of its memory cost
    /// where times are not known.
    pub gain: Gain,
    /// The most that any placement could bring, as such a share.
    pub at_most: f64,
    /// Whether the gains are of the program's time.
    pub timed: bool,
    /// The areas, by falling avoidable cost.
    pub findings: Vec<Finding>,
    /// Areas of the program, the last of them, that no remedy was tried for.
    pub untried: usize,
    /// Areas of libraries that come together in one, for which none was tried either.
    pub folded: usize,
    /// Who refers to whose memory, as it is.
    pub before: Traffic,
    /// ... with all remedies.
    pub after: Traffic,
    /// Modelled times, if they are known: as it is, and with all remedies.
    pub elapsed: Option<(Elapsed, Elapsed)>,
    /// What all references cost as it is, with all remedies, and at the bound, in local references.
    pub costs: [f64; 3],
    /// One remedy for all pages alike, which takes one word on the command line: spread, or let them follow. Only those
    /// that were modelled.
    pub for_all: Vec<Prediction>,
}

/// Diagnoses.
pub fn diagnose(setup: &Setup<'_>) -> Diagnosis {
    let (facts, model) = (setup.facts, Model::new(setup));
    let memory_cost = model.memory_cost;
    let areas = area::areas(facts, setup.areas, setup.costs, model.nodes());
    let before = Traffic::new(model.nodes(), facts);
    let findings = findings(&model, areas, facts, &before);
    let with = |given: &dyn Fn(Remedy) -> bool| {
        findings.iter().fold(before.clone(), |traffic, finding| match finding.remedy {
            Some(Prediction { remedy, .. }) if given(remedy) => {
                traffic.with(facts, &finding.area.pages, remedy)
            }
            _ => traffic,
        })
    };
    let after = with(&|_| true);
    let elapsed = model.elapsed(&before).zip(model.elapsed(&after));
    let surely = model.elapsed(&with(&Remedy::is_sure));
    let ideal = model.elapsed(&at_bound(&before, facts));
    let limits = surely.zip(ideal).map(|(surely, ideal)| [surely, ideal]);
    let bound: f64 = findings.iter().map(|finding| finding.area.least()).sum();
    let cost = |finding: &Finding| finding.remedy.map_or(finding.area.costs.here, |remedy| remedy.cost);
    let remedied: f64 = findings.iter().map(cost).sum();
    let (gain, at_most) = gains(elapsed.as_ref().zip(limits.as_ref()), [memory_cost, remedied, bound]);
    // A copy for each node can cost less than the bound, which is of one copy.
    let copies = |finding: &Finding| finding.remedy.is_some_and(|given| given.remedy == Remedy::Replicate);
    let at_most = if findings.iter().any(copies) { at_most.max(gain.high) } else { at_most };
    let cause = cause(&findings, &before, elapsed.as_ref().map(|(now, _)| now), at_most, gain);
    let costs = [memory_cost, remedied, bound];
    let for_all = for_all(&model, facts, &before);
    let timed = elapsed.is_some();
    let untried = findings.iter().skip(TRIED).filter(|finding| finding.area.folded == 0).count();
    let folded = findings.iter().map(|finding| finding.area.folded).sum();
    Diagnosis {
        cause,
        gain,
        at_most,
        timed,
        findings,
        untried,
        folded,
        before,
        after,
        elapsed,
        costs,
        for_all,
    }
}

impl Diagnosis {
    /// Adds what it brings to run all threads on one node, with its memory: `cpus` is what their caches counted there.
    pub fn on_one_node(&mut self, setup: &Setup<'_>, cpus: &[CpuCounts]) {
        let traffic = Traffic::all_local(self.before.rows().len(), cpus);
        let cost =
            cpus.iter().map(|cpu| cpu.caches.demand() as f64 * setup.costs.access(cpu.node, cpu.node)).sum();
        let now = self.elapsed.as_ref().map(|(now, _)| now.total_ns);
        let time =
            setup.times.zip(now).map(|(times, now)| traffic.elapsed(times, cpus).total_ns / now.max(1e-9));
        self.for_all.push(Prediction { remedy: Remedy::OneNode, cost, time });
    }
}

/// By what share of the run time the best and the worst node for each of some pages differ: how much it matters where
/// they are. Of the cost of memory references where times are not known.
pub fn sensitivity(setup: &Setup<'_>, pages: &[usize]) -> f64 {
    let (facts, model) = (setup.facts, Model::new(setup));
    let nodes = || (0..model.nodes() as u16).map(Node);
    let worst = |page: &PageFacts| {
        let cost = |node: &Node| page.cost_at(setup.costs, *node);
        nodes().max_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or(page.home)
    };
    let before = Traffic::new(model.nodes(), facts);
    let at = |node: &dyn Fn(&PageFacts) -> Node| {
        model.elapsed(&before.flowing(facts, pages, |page, _| Flow::to(node(page))))
    };
    match (model.elapsed(&before), at(&|page| page.best), at(&worst)) {
        (Some(now), Some(best), Some(worst)) => {
            (worst.total_ns - best.total_ns).max(0.0) / now.total_ns.max(1e-9)
        }
        _ => {
            let costs = pages.iter().map(|&page| &facts[page]);
            let differ = |page: &PageFacts| page.cost_at(setup.costs, worst(page)) - page.costs.at_best;
            costs.map(differ).sum::<f64>() / model.memory_cost.max(1.0)
        }
    }
}

/// Travels of lines that the order of a recording may hide, beside those that it shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hidden {
    /// Those that it shows.
    pub seen: u64,
    /// Those that it may hide.
    pub hidden: u64,
    /// The share of the run time that the hidden ones would take.
    pub share: f64,
}

/// What the order of a recording may hide; nothing where times are not known, or on one node.
pub fn hidden(setup: &Setup<'_>) -> Option<Hidden> {
    let lines = || setup.facts.iter().filter_map(|page| page.lines.as_ref());
    let hidden: u64 = lines().map(|lines| lines.hidden).sum();
    let model = Model::new(setup);
    let (nodes, times) = (model.nodes(), setup.times?);
    let before = model.elapsed(&Traffic::new(nodes, setup.facts))?.total_ns;
    let far = |cpu: &CpuCounts| {
        let mut demand = vec![0; nodes];
        demand[(cpu.node.index() + 1) % nodes] = hidden / setup.cpus.len().max(1) as u64;
        CpuWork { demand, ..CpuWork::of(cpu.node, &cache::Counts::default()) }
    };
    let work =
        Work { cpus: setup.cpus.iter().map(far).collect(), write_backs: Vec::new(), moves: Vec::new() };
    let more = times.elapsed(&work, Mover::Own).total_ns;
    let seen = lines().map(|lines| lines.falsely.iter().chain(&lines.truly).sum::<u64>()).sum();
    (nodes > 1).then(|| Hidden { seen, hidden, share: more / (before + more).max(1e-9) })
}

/// Traffic that costs what the bound does: of each page, as much becomes local as the bound avoids.
fn at_bound(before: &Traffic, facts: &[PageFacts]) -> Traffic {
    let pages: Vec<usize> = (0..facts.len()).collect();
    before.flowing(facts, &pages, |page, _| page.costing(page.least()))
}

/// What one remedy for all pages brings.
fn for_all(model: &Model<'_>, facts: &[PageFacts], before: &Traffic) -> Vec<Prediction> {
    let pages: Vec<usize> = (0..facts.len()).collect();
    let predict = |(remedy, cost): (Remedy, f64)| {
        let time = model.elapsed(before).zip(model.elapsed(&before.with(facts, &pages, remedy)));
        Prediction { remedy, cost, time: time.map(|(now, then)| then.total_ns / now.total_ns.max(1e-9)) }
    };
    let spread = (Remedy::Spread, facts.iter().map(|page| page.costs.at_spread).sum());
    let follow: Option<f64> = facts.iter().map(|page| page.migrated).sum();
    let follow = follow.map(|cost| (Remedy::Migrate, cost));
    let in_small =
        Small::of(facts.iter()).map(|small| (Remedy::SmallPages(Placing::AsNow), small.costs.here));
    std::iter::once(spread).chain(follow).chain(in_small).map(predict).collect()
}

/// Tries remedies, the most avoidable cost first. Each is judged with the remedies before it in place.
fn findings(model: &Model<'_>, areas: Vec<Area>, facts: &[PageFacts], before: &Traffic) -> Vec<Finding> {
    let all: f64 = areas.iter().map(Area::avoidable).sum();
    let mut traffic = before.clone();
    let find = |(rank, area): (usize, Area)| {
        // What libraries have is not for the program's authors to place.
        let tried = rank < TRIED && area.folded == 0;
        let remedy = tried.then(|| remedy::best(model, &area, facts, &traffic)).flatten();
        if let Some(Prediction { remedy, .. }) = remedy {
            traffic = traffic.with(facts, &area.pages, remedy);
        }
        let cause = remedy.and_then(|prediction| Cause::of(&area, prediction.remedy));
        Finding { remedy, cause, avoidable_percent: 100.0 * area.avoidable() / all.max(1e-9), area }
    };
    areas.into_iter().enumerate().map(find).collect()
}

/// What the remedies bring, and the most that anything could.
fn gains(
    elapsed: Option<(&(Elapsed, Elapsed), &[Elapsed; 2])>,
    [now, remedied, bound]: [f64; 3],
) -> (Gain, f64) {
    let Some(((before, after), [surely, ideal])) = elapsed else {
        let share = |cost: f64| range::share(now, cost);
        return (Gain { low: share(remedied), high: share(remedied) }, share(bound));
    };
    let gain = range::timed(before, after, surely);
    let most = (before.total_ns - (ideal.total_ns - ideal.contention_ns)) / before.total_ns.max(1e-9);
    (gain, most.clamp(0.0, 1.0).max(gain.high))
}

/// What is wrong with the program: why its remedies help, by what each saves.
fn cause(
    findings: &[Finding],
    before: &Traffic,
    elapsed: Option<&Elapsed>,
    at_most: f64,
    gain: Gain,
) -> Cause {
    if at_most < NOTHING || gain.high < NOTHING {
        return Cause::NotNuma;
    }
    let mut saved: Vec<(Cause, f64)> = Vec::new();
    for finding in findings {
        let (Some(cause), Some(prediction)) = (finding.cause, finding.remedy) else { continue };
        let by = match prediction.time {
            Some(time) => 1.0 - time,
            None => finding.area.costs.here - prediction.cost,
        };
        match saved.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum)) => *sum += by,
            None => saved.push((cause, by)),
        }
    }
    let most = saved.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(cause, _)| cause);
    let waiting = elapsed.is_some_and(|now| now.contention_ns > WAITING * now.total_ns);
    match most {
        Some(Cause::SharedByAll) if waiting && before.imbalance() > BUSY => Cause::OneNodeCongested,
        Some(cause) => cause,
        None => Cause::NotNuma,
    }
}
