//! Bolosky & Scott 1991: the optimum by the cost of a page move (Figures 4, 5, 6, 12) and by page size (Figures 7, 8),
//! the policies against it (Figures 9 to 11), and how much the order of references matters (Table II). Every reference
//! counts: the model has no caches.

use super::exhibit::Exhibit;
use super::programs::{Program, Traces, BOLOSKY};
use super::Chosen;
use homing_core::ids::PageSize;
use homing_core::optimal::{solve, Optimum, Options};
use homing_core::policy::table::Entry;
use homing_core::trace::Trace;
use homing_pipeline::compare::{disturb, Filter};
use homing_pipeline::policies::policies;
use homing_pipeline::{Experiment, Layout, Model, Ready, TraceFile};

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
        let trace = file.trace()?;
        for exhibit in &mut exhibits {
            line(exhibit, program, &trace)?;
        }
    }
    exhibits.iter_mut().for_each(claims);
    Ok(exhibits)
}

/// The papers' policies on a machine with overrides.
fn on(machine: &str, set: Vec<String>, page_size: PageSize) -> anyhow::Result<Ready> {
    let model = Model { set, page_size: vec![page_size], ..Model::of(machine) };
    Ok(Experiment::new(model).ready(|placement| policies(&POLICIES.map(String::from), placement))?)
}

/// A trace on a machine.
fn lay(ready: &Ready, trace: &Trace) -> anyhow::Result<Layout> {
    Ok(ready.lay_out(trace, ready.page_size, None)?)
}

/// The optimum on a machine, whose page moves may cost more than on that which the trace is laid over.
fn optimum(ready: &Ready, layout: &Layout) -> anyhow::Result<Optimum> {
    Ok(solve(&layout.history, &ready.costs, Options::default())?)
}

fn line(exhibit: &mut Exhibit, program: &Program, trace: &Trace) -> anyhow::Result<()> {
    let label = format!("{} ({})", program.name, program.stands_for);
    let values = match exhibit.id.as_str() {
        "move-cost-ace" => by_move(trace, "ace", &ACE_MOVES, Optimum::mcpr)?,
        "moves-per-page" => by_move(trace, "ace", &ACE_MOVES, moves_per_page)?,
        "move-cost-butterfly" => by_move(trace, "butterfly", &BUTTERFLY_MOVES, Optimum::mcpr)?,
        "page-size-butterfly" => by_page_size(trace, "butterfly")?,
        "page-size-high-latency" => by_page_size(trace, "high-latency")?,
        "policies-ace" => all_policies(trace, "ace")?,
        "policies-butterfly" => all_policies(trace, "butterfly")?,
        "perturbation" => perturbation(trace)?,
        _ if program.name == "sorbyr" => return sorbyr(exhibit, trace),
        _ => return Ok(()),
    };
    exhibit.line(&label, program.stands_for, values);
    Ok(())
}

/// A move between processors, at R = 2G, counts as two at G: their number is the slope of the cost, which is what falls
/// with G.
fn moves_per_page(optimum: &Optimum) -> f64 {
    (optimum.counts.global_copies + 2 * optimum.counts.copies) as f64 / (optimum.pages as f64).max(1.0)
}

/// The machine with another cost of page moves.
fn with_move(machine: &str, cost: u32) -> anyhow::Result<Ready> {
    let set = match machine {
        "ace" => {
            vec![format!("reference.global_page_move={cost}"), format!("reference.page_move={}", 2 * cost)]
        }
        _ => vec![format!("reference.page_move={cost}")],
    };
    on(machine, set, PageSize::KIB4)
}

/// `moves` rise: page histories for the first are exact for all.
fn by_move(
    trace: &Trace,
    machine: &str,
    moves: &[u32],
    value: impl Fn(&Optimum) -> f64,
) -> anyhow::Result<Vec<f64>> {
    let layout = lay(&with_move(machine, moves[0])?, trace)?;
    moves.iter().map(|&cost| Ok(value(&optimum(&with_move(machine, cost)?, &layout)?))).collect()
}

fn by_page_size(trace: &Trace, machine: &str) -> anyhow::Result<Vec<f64>> {
    let value = |bytes: u64| -> anyhow::Result<f64> {
        let ready = on(machine, Vec::new(), PageSize::new(bytes).expect("a power of two"))?;
        Ok(optimum(&ready, &lay(&ready, trace)?)?.mcpr())
    };
    [512, 1024, 2048, 4096].into_iter().map(value).collect()
}

/// MCPR of the optimum and of the policies.
fn all_policies(trace: &Trace, machine: &str) -> anyhow::Result<Vec<f64>> {
    let ready = on(machine, Vec::new(), PageSize::KIB4)?;
    let layout = lay(&ready, trace)?;
    let mut values = vec![optimum(&ready, &layout)?.mcpr()];
    values.extend(policies_mcpr(&ready, &layout)?);
    Ok(values)
}

/// MCPR of the policies.
fn policies_mcpr(ready: &Ready, layout: &Layout) -> anyhow::Result<Vec<f64>> {
    let references = (layout.history.references() as f64).max(1.0);
    let value = |entry: &&'static Entry| -> anyhow::Result<f64> {
        Ok(ready.subject(layout).simulate(entry, false)?.account.cost(&ready.costs) / references)
    };
    ready.policies.iter().map(value).collect()
}

/// How much the cost of the optimum changes when a filter disturbs the order.
fn perturbation(trace: &Trace) -> anyhow::Result<Vec<f64>> {
    let cost = |trace: &Trace, machine: &str| -> anyhow::Result<f64> {
        let ready = on(machine, Vec::new(), PageSize::KIB4)?;
        Ok(optimum(&ready, &lay(&ready, trace)?)?.cost)
    };
    let machines = ["ace", "butterfly"];
    let undisturbed: Vec<f64> =
        machines.iter().map(|machine| cost(trace, machine)).collect::<anyhow::Result<_>>()?;
    let mut changes = Vec::new();
    for filter in [Filter::Local, Filter::Gaps] {
        let disturbed = disturb(trace, filter, 0)?;
        let disturbed = Trace::open(&disturbed)?;
        for (machine, undisturbed) in machines.iter().zip(&undisturbed) {
            changes.push(100.0 * (cost(&disturbed, machine)? / undisturbed - 1.0).abs());
        }
    }
    Ok(changes)
}

/// Figure 12: the optimum and the policies over the cost of a move.
fn sorbyr(exhibit: &mut Exhibit, trace: &Trace) -> anyhow::Result<()> {
    exhibit.line("optimal", "", by_move(trace, "ace", &ACE_MOVES, Optimum::mcpr)?);
    let values = |&cost: &u32| -> anyhow::Result<Vec<f64>> {
        let ready = with_move("ace", cost)?;
        policies_mcpr(&ready, &lay(&ready, trace)?)
    };
    let by_cost: Vec<Vec<f64>> = ACE_MOVES.iter().map(values).collect::<anyhow::Result<_>>()?;
    for (number, policy) in POLICIES.into_iter().enumerate() {
        exhibit.line(policy, "", by_cost.iter().map(|values| values[number]).collect());
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
