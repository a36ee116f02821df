//! Bolosky & Scott 1991: the optimum by the cost of a page move (Figures 4, 5, 6, 12) and by page size (Figures 7, 8),
//! the policies against it (Figures 9 to 11), and how much the order of references matters (Table II). Every reference
//! counts: the model has no caches.

use super::exhibit::Exhibit;
use super::programs::{Program, Traces, BOLOSKY};
use super::Chosen;
use crate::cmd::compare::{disturb, Filter};
use crate::exit::{self, Code};
use crate::input::{self, TraceFile};
use crate::study;
use homing_core::history::{History, ThreadsOn};
use homing_core::ids::{Cpu, Node, PageSize};
use homing_core::information::Information;
use homing_core::machine::Machine;
use homing_core::optimal::{solve, Options};
use homing_core::policy::settings::Settings;
use homing_core::simulate::{simulate, Setup};
use homing_core::timeline::NO_MARKS;
use homing_core::trace::Trace;

const THREADS: u32 = 7;
const POLICIES: [&str; 3] = ["ace", "delay", "platinum"];
/// G of the columns of Figures 4, 6 and 12; R is 2G.
const ACE_MOVES: [u32; 6] = [200, 512, 1024, 2248, 4096, 8392];
/// R of the columns of Figure 5.
const BUTTERFLY_MOVES: [u32; 6] = [200, 512, 1024, 3272, 8192, 16384];

/// All exhibits of the paper that were chosen.
pub fn exhibits(chosen: &Chosen, traces: &Traces) -> anyhow::Result<Vec<Exhibit>> {
    let ids = [
        "move-cost-ace",
        "moves-per-page",
        "move-cost-butterfly",
        "page-size-butterfly",
        "page-size-high-latency",
        "policies-ace",
        "policies-butterfly",
        "sorbyr",
        "perturbation",
    ];
    let chosen: Vec<&str> = ids.into_iter().filter(|id| chosen.any(&[id])).collect();
    let mut exhibits: Vec<Exhibit> =
        chosen.iter().map(|id| Exhibit::new(id)).collect::<anyhow::Result<_>>()?;
    if exhibits.is_empty() {
        return Ok(exhibits);
    }
    for program in BOLOSKY {
        let path = traces.get(program, THREADS)?;
        let file = TraceFile::open(&path)?;
        let source = Source { trace: &file.trace()? };
        for exhibit in &mut exhibits {
            line(exhibit, program, &source)?;
        }
    }
    exhibits.iter_mut().for_each(claims);
    Ok(exhibits)
}

struct Source<'a> {
    trace: &'a Trace<'a>,
}

impl Source<'_> {
    /// The page histories for a machine, exact for moves that cost as little as `least`.
    fn history(
        &self,
        machine: &Machine,
        page_size: PageSize,
        least: Option<&Machine>,
    ) -> anyhow::Result<History> {
        let nodes: Vec<Node> =
            (0..machine.cpus()).map(|cpu| machine.node_of(Cpu(cpu as u16)).unwrap_or(Node(0))).collect();
        let binding = ThreadsOn::Fill.bind(&nodes).map_err(|e| exit::error(Code::FAILURE, e))?;
        let gap = machine.costs(page_size)?.read_gap();
        let least = least.map(|machine| machine.costs(page_size)).transpose()?;
        let gap = least.map_or(gap, |costs| costs.read_gap().min(gap));
        Ok(input::lay(self.trace, &binding, page_size, gap, 1 << 30, None)?.history)
    }
}

fn line(exhibit: &mut Exhibit, program: &Program, source: &Source) -> anyhow::Result<()> {
    let label = format!("{} ({})", program.name, program.stands_for);
    let values = match exhibit.id.as_str() {
        "move-cost-ace" => by_move(source, "ace", &ACE_MOVES, mcpr)?,
        "moves-per-page" => by_move(source, "ace", &ACE_MOVES, moves_per_page)?,
        "move-cost-butterfly" => by_move(source, "butterfly", &BUTTERFLY_MOVES, mcpr)?,
        "page-size-butterfly" => by_page_size(source, "butterfly")?,
        "page-size-high-latency" => by_page_size(source, "high-latency")?,
        "policies-ace" => policies(source, "ace")?,
        "policies-butterfly" => policies(source, "butterfly")?,
        "perturbation" => perturbation(source)?,
        _ if program.name == "sorbyr" => return sorbyr(exhibit, source),
        _ => return Ok(()),
    };
    exhibit.line(&label, program.stands_for, values);
    Ok(())
}

fn mcpr(optimum: &homing_core::optimal::Optimum, history: &History) -> f64 {
    optimum.cost / (history.references() as f64).max(1.0)
}

/// A move between processors, at R = 2G, counts as two at G: their number is the slope of the cost, which is what falls
/// with G.
fn moves_per_page(optimum: &homing_core::optimal::Optimum, history: &History) -> f64 {
    (optimum.counts.global_copies + 2 * optimum.counts.copies) as f64 / f64::from(history.pages()).max(1.0)
}

/// The machine with another cost of page moves.
fn with_move(name: &str, cost: u32) -> anyhow::Result<Machine> {
    let mut machine = input::load_machine(name)?;
    if name == "ace" {
        machine.set(&format!("reference.global_page_move={cost}"))?;
        machine.set(&format!("reference.page_move={}", 2 * cost))?;
    } else {
        machine.set(&format!("reference.page_move={cost}"))?;
    }
    Ok(machine)
}

fn by_move(
    source: &Source,
    name: &str,
    moves: &[u32],
    value: impl Fn(&homing_core::optimal::Optimum, &History) -> f64,
) -> anyhow::Result<Vec<f64>> {
    let machines: Vec<Machine> =
        moves.iter().map(|&cost| with_move(name, cost)).collect::<anyhow::Result<_>>()?;
    let history = source.history(&machines[0], PageSize::KIB4, Some(&machines[0]))?;
    let optimum = |machine: &Machine| -> anyhow::Result<f64> {
        let optimum = solve(&history, &machine.costs(PageSize::KIB4)?, Options::default())?;
        Ok(value(&optimum, &history))
    };
    machines.iter().map(optimum).collect()
}

fn by_page_size(source: &Source, name: &str) -> anyhow::Result<Vec<f64>> {
    let machine = input::load_machine(name)?;
    let size = |bytes: u64| PageSize::new(bytes).expect("a power of two");
    let optimum = |bytes: u64| -> anyhow::Result<f64> {
        let history = source.history(&machine, size(bytes), None)?;
        Ok(mcpr(&solve(&history, &machine.costs(size(bytes))?, Options::default())?, &history))
    };
    [512, 1024, 2048, 4096].into_iter().map(optimum).collect()
}

/// MCPR of the optimum and of the policies.
fn policies(source: &Source, name: &str) -> anyhow::Result<Vec<f64>> {
    let machine = input::load_machine(name)?;
    let history = source.history(&machine, PageSize::KIB4, None)?;
    let costs = machine.costs(PageSize::KIB4)?;
    let mut values = vec![mcpr(&solve(&history, &costs, Options::default())?, &history)];
    for policy in POLICIES {
        values.push(policy_mcpr(policy, &history, &costs)?);
    }
    Ok(values)
}

fn policy_mcpr(name: &str, history: &History, costs: &homing_core::machine::Costs) -> anyhow::Result<f64> {
    let entry = study::policy(name)?;
    let settings = Settings::default();
    let placement = entry.placement(None, costs, &settings);
    let setup = Setup {
        history,
        costs,
        placement: &placement,
        replication: true,
        information: Information::PERFECT,
        timeline: &NO_MARKS,
        log: false,
    };
    let result = simulate(&setup, &*entry.make(costs, true, &settings))?;
    Ok(result.account.cost(costs) / (history.references() as f64).max(1.0))
}

/// How much the cost of the optimum changes when a filter disturbs the order.
fn perturbation(source: &Source) -> anyhow::Result<Vec<f64>> {
    let cost = |source: &Source, name: &str| -> anyhow::Result<f64> {
        let machine = input::load_machine(name)?;
        let history = source.history(&machine, PageSize::KIB4, None)?;
        Ok(solve(&history, &machine.costs(PageSize::KIB4)?, Options::default())?.cost)
    };
    let machines = ["ace", "butterfly"];
    let undisturbed: Vec<f64> =
        machines.iter().map(|name| cost(source, name)).collect::<anyhow::Result<_>>()?;
    let mut changes = Vec::new();
    for filter in [Filter::Local, Filter::Gaps] {
        let disturbed = disturb(source.trace, filter, 0)?;
        let disturbed = Source { trace: &Trace::open(&disturbed)? };
        for (name, undisturbed) in machines.iter().zip(&undisturbed) {
            changes.push(100.0 * (cost(&disturbed, name)? / undisturbed - 1.0).abs());
        }
    }
    Ok(changes)
}

/// Figure 12: the optimum and the policies over the cost of a move.
fn sorbyr(exhibit: &mut Exhibit, source: &Source) -> anyhow::Result<()> {
    exhibit.line("optimal", "", by_move(source, "ace", &ACE_MOVES, mcpr)?);
    for policy in POLICIES {
        let value = |&cost: &u32| -> anyhow::Result<f64> {
            let machine = with_move("ace", cost)?;
            let history = source.history(&machine, PageSize::KIB4, None)?;
            policy_mcpr(policy, &history, &machine.costs(PageSize::KIB4)?)
        };
        exhibit.line(policy, "", ACE_MOVES.iter().map(value).collect::<anyhow::Result<_>>()?);
    }
    Ok(())
}

fn claims(exhibit: &mut Exhibit) {
    let rises = |values: &[f64]| values.windows(2).all(|pair| pair[1] >= pair[0] * (1.0 - 1e-9));
    let all = |holds: &dyn Fn(&[f64]) -> bool| exhibit.lines.iter().all(|line| holds(&line.ours));
    match exhibit.id.as_str() {
        "move-cost-ace" | "move-cost-butterfly" => {
            let holds = all(&rises);
            exhibit.claim(holds, "the optimum never falls as moves cost more");
        }
        "moves-per-page" => {
            let holds = all(&|values| values.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-9)));
            exhibit.claim(holds, "the number of moves falls as they cost more");
        }
        "page-size-butterfly" | "page-size-high-latency" => {
            let gain = exhibit.mean(3) / exhibit.mean(0);
            let text = format!("smaller pages help (MCPR at 4K is {gain:.2} times that at 512)");
            exhibit.claim(gain > 1.0, &text);
        }
        "policies-ace" => {
            let holds = all(&|values| values[1..].iter().all(|&policy| policy >= values[0] * (1.0 - 1e-9)));
            exhibit.claim(holds, "no policy is below the optimum");
            let near = exhibit.lines.iter().filter(|line| line.ours[2] < 1.15 * line.ours[0]).count();
            let text = format!("Delay is within 15 % of the optimum (on {near} of {})", exhibit.lines.len());
            exhibit.claim(2 * near > exhibit.lines.len(), &text);
            exhibit.claim(
                exhibit.mean(3) > exhibit.mean(2),
                "being aggressive (PLATINUM) does not pay on the ACE",
            );
        }
        "policies-butterfly" => {
            let holds = all(&|values| values[1..].iter().all(|&policy| policy >= values[0] * (1.0 - 1e-9)));
            exhibit.claim(holds, "no policy is below the optimum");
            let better = exhibit.mean(3) < exhibit.mean(1);
            exhibit.claim(better, "PLATINUM, aggressive, is better than ACE on the Butterfly");
        }
        "perturbation" => {
            let holds = all(&|values| values.iter().all(|&change| change < 1.0));
            exhibit.claim(holds, "neither filter changes the optimum by as much as 1 %");
            let (local, gaps) = (exhibit.mean(0) + exhibit.mean(1), exhibit.mean(2) + exhibit.mean(3));
            exhibit.claim(gaps > local, "gaps change it more than local disorder");
            let (ace, butterfly) = (exhibit.mean(0) + exhibit.mean(2), exhibit.mean(1) + exhibit.mean(3));
            exhibit.claim(butterfly > ace, "it changes more on the Butterfly than on the ACE");
        }
        _ => {
            let line =
                |label: &str| exhibit.lines.iter().find(|line| line.label == label).map(|line| &line.ours);
            if let (Some(ace), Some(platinum)) = (line("ace"), line("platinum")) {
                let slopes = (ace[5] - ace[0], platinum[5] - platinum[0]);
                exhibit.claim(
                    slopes.1 > slopes.0,
                    "PLATINUM's line is steeper than ACE's: good for small G, bad for large",
                );
            }
        }
    }
}
