//! `homing machines`: what machine models there are, and the whole of one.

use crate::exit::{self, Code, Result};
use comfy_table::{presets, CellAlignment, Table};
use homing_core::ids::PageSize;
use homing_core::machine::{Costs, Field, Machine, TimePrices, FIELDS};
use homing_core::time::Mover;
use homing_pipeline::model::load_machine;
use serde_json::{json, Value};

/// Arguments of `homing machines`.
#[derive(clap::Args)]
pub struct Args {
    /// Show the whole of one machine: a name, a TOML file, or `host`
    #[arg(value_parser = crate::names::MACHINE, hide_possible_values = true)]
    name: Option<String>,
    /// Override a field, such as remote=15
    #[arg(long, value_name = "FIELD=VALUE", requires = "name")]
    set: Vec<String>,
    /// Fit latencies and bandwidths to measurements: CSV with columns from,to,latency_ns,bandwidth_gbs
    #[arg(long, value_name = "FILE", requires = "name")]
    calibrate: Option<std::path::PathBuf>,
    /// Show costs at this page size [default: the machine's]
    #[arg(long, value_name = "SIZE")]
    page_size: Option<PageSize>,
    /// List the fields of a machine with their units, as a file and --set take them
    #[arg(long, conflicts_with_all = ["name", "calibrate", "page_size"])]
    fields: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Lists the machines, or shows one.
pub fn run(args: Args) -> Result {
    match &args.name {
        _ if args.fields => fields(args.json)?,
        Some(name) => show(&args, name)?,
        None => list(&args)?,
    }
    Ok(Code::OK)
}

fn show(args: &Args, name: &str) -> anyhow::Result<()> {
    let mut machine = load_machine(name)?;
    for setting in &args.set {
        machine.set(setting).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
    }
    if let Some(path) = &args.calibrate {
        let text = crate::files::read_text(path, "file of measurements")?;
        machine = machine.calibrated(&text).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
    }
    let (page_size, costs) = price(args, &machine)?;
    if args.json {
        return crate::stdout::json(describe(&machine, page_size, &costs)?);
    }
    out!("{}", machine.to_toml());
    outln!("\n# Costs at a page size of {page_size}, in local word references");
    print_costs(&costs)?;
    let Some(TimePrices { costs, extras, unit_ns }) = time_prices(&machine, page_size)? else {
        return Ok(());
    };
    outln!(
        "\n# Prices in time, behind caches: in local misses as a thread waits for them ({} ns). R is the mover's time \
         and one shoot-down.",
        number(unit_ns)
    );
    print_costs(&costs)?;
    outln!(
        "# a move beyond R: {} for each further CPU that has the page mapped, and about {} for each that uses it, \
         whose lines and translation are missed again",
        number(extras.shootdown),
        number(extras.refetch)
    );
    Ok(())
}

fn time_prices(machine: &Machine, page_size: PageSize) -> anyhow::Result<Option<TimePrices>> {
    let prices = machine.time_prices(page_size, Mover::default(), 1);
    prices.map_err(|e| exit::error(Code::USAGE, e.to_string()))
}

fn print_costs(costs: &Costs) -> anyhow::Result<()> {
    match costs {
        Costs::Uniform(u) => {
            outln!("# r = {}, R = {}", number(u.remote), number(u.page_move));
            if let Some(g) = u.global {
                outln!(
                    "# g = {}, G = {} (global memory is node {})",
                    number(g.access),
                    number(g.page_move),
                    u.nodes
                );
            }
        }
        Costs::General(g) => {
            for (what, matrix) in
                [("access by (row) to (column)", &g.access), ("copy from (row) to (column)", &g.copy)]
            {
                outln!("# {what}:");
                for row in matrix.chunks(usize::from(g.nodes)) {
                    outln!(
                        "#   {}",
                        row.iter().map(|&c| format!("{:>7}", number(c))).collect::<Vec<_>>().join(" ")
                    );
                }
            }
        }
    }
    Ok(())
}

fn list(args: &Args) -> anyhow::Result<()> {
    let machines: Vec<Machine> = Machine::builtin_names().filter_map(Machine::builtin).collect();
    if args.json {
        let mut all = Vec::new();
        for machine in &machines {
            let (page_size, costs) = price(args, machine)?;
            all.push(describe(machine, page_size, &costs)?);
        }
        return crate::stdout::json(json!({ "machines": all }));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["name", "nodes", "CPUs", "page", "r", "R", "g", "G", "what it is"]);
    for machine in &machines {
        let (page_size, costs) = price(args, machine)?;
        let [r, big_r, g, big_g] = parameters(&costs);
        let (nodes, cpus) = (machine.nodes().to_string(), machine.cpus().to_string());
        let (name, page, summary) = (machine.name().into(), page_size.to_string(), machine.summary().into());
        table.add_row([name, nodes, cpus, page, r, big_r, g, big_g, summary]);
    }
    for column in 1..8 {
        table.column_mut(column).expect("the header has it").set_cell_alignment(CellAlignment::Right);
    }
    outln!("{table}");
    outln!(
        "r: cost of a remote reference, R: cost of moving a page, g and G: the same for global memory; all in local \
         word references."
    );
    outln!("`homing machines NAME` shows one, `homing machines --fields` all fields; a TOML file works as a name too.");
    Ok(())
}

fn fields(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let all =
            FIELDS.iter().map(|Field { path, unit, doc }| json!({ "path": path, "unit": unit, "doc": doc }));
        return crate::stdout::json(json!({ "fields": all.collect::<Vec<_>>() }));
    }
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["field", "unit", "what it is"]);
    FIELDS.iter().for_each(|Field { path, unit, doc }| {
        table.add_row([path, unit, doc]);
    });
    outln!("{table}");
    outln!(
        "`--set FIELD=VALUE` overrides one; `reference.` and `latency.` may be left out. A page move of several parts \
         is set part by part, as in --set page_move.overhead=500."
    );
    Ok(())
}

fn price(args: &Args, machine: &Machine) -> anyhow::Result<(PageSize, Costs)> {
    let page_size = args.page_size.unwrap_or(machine.page_size());
    let costs = machine.costs(page_size).map_err(|e| exit::error(Code::USAGE, e.to_string()))?;
    Ok((page_size, costs))
}

/// r, R, g, G as text; ranges on machines with unequal distances.
fn parameters(costs: &Costs) -> [String; 4] {
    match costs {
        Costs::Uniform(u) => [
            number(u.remote),
            number(u.page_move),
            u.global.map_or("-".into(), |g| number(g.access)),
            u.global.map_or("-".into(), |g| number(g.page_move)),
        ],
        Costs::General(g) => {
            let nodes = usize::from(g.nodes);
            let range = |matrix: &[f64]| {
                let far = (0..matrix.len()).filter(|i| i / nodes != i % nodes).map(|i| matrix[i]);
                let (low, high) = far.fold((f64::INFINITY, 0.0f64), |(l, h), c| (l.min(c), h.max(c)));
                if nodes > 1 {
                    format!("{}..{}", number(low), number(high))
                } else {
                    "-".into()
                }
            };
            [range(&g.access), range(&g.copy), "-".into(), "-".into()]
        }
    }
}

/// At most two digits after the point.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn describe(machine: &Machine, page_size: PageSize, costs: &Costs) -> anyhow::Result<Value> {
    let mut value = machine.to_json();
    value["cpus"] = json!(machine.cpus());
    value["costs"] = costs_json(page_size, costs);
    if let Some(TimePrices { costs, extras, unit_ns }) = time_prices(machine, page_size)? {
        value["time_prices"] = costs_json(page_size, &costs);
        value["time_prices"]["unit_ns"] = json!(unit_ns);
        value["time_prices"]["shootdown"] = json!(extras.shootdown);
        value["time_prices"]["refetch"] = json!(extras.refetch);
    }
    Ok(value)
}

fn costs_json(page_size: PageSize, costs: &Costs) -> Value {
    match costs {
        Costs::Uniform(u) => json!({
            "page_size": page_size.bytes(),
            "remote": u.remote,
            "page_move": u.page_move,
            "global": u.global.map(|g| g.access),
            "global_page_move": u.global.map(|g| g.page_move),
        }),
        Costs::General(g) => {
            let rows = |matrix: &[f64]| -> Vec<Vec<f64>> {
                matrix.chunks(usize::from(g.nodes)).map(<[f64]>::to_vec).collect()
            };
            json!({ "page_size": page_size.bytes(), "access": rows(&g.access), "copy": rows(&g.copy) })
        }
    }
}
