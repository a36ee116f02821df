//! `homing doctor`: what works on this machine for the live engine, and what is missing.

use crate::exit::{Code, Result};
use comfy_table::{presets, Table};
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::proc::{Pid, Proc};
use homing_linux::{hint_faults, tunables};
use homing_live::host::Host;
use homing_live::jobs::journal;
use homing_live::source::{best, Places, SOURCES};
use serde::Serialize;
use std::path::Path;

/// Arguments of `homing doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Put back what a killed engine or a killed `homing sched run` left changed
    #[arg(long)]
    restore: bool,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// One finding.
#[derive(Serialize)]
struct Check {
    what: &'static str,
    works: bool,
    detail: String,
}

/// Probes.
pub fn run(args: Args) -> Result {
    let places = Places::default();
    if args.restore {
        let restored = tunables::restore(&places.state)?;
        errln!("homing: {restored} kernel tunables put back");
        let schedulers = journal::restore()?;
        errln!("homing: jobs of {schedulers} killed schedulers go on, on all CPUs");
    }
    let mut checks = vec![nodes(), moving()];
    for source in SOURCES.iter().filter(|source| source.name != "none") {
        let missing = (source.missing)(&places);
        let works = missing.is_none();
        let detail = missing.unwrap_or_else(|| format!("confidence {}", source.confidence));
        checks.push(Check { what: source.name, works, detail });
    }
    checks.extend([numa_maps(), left_over(&places), kernel_balancing()]);
    let moves = checks[1].works;
    let sources: Vec<&Check> =
        checks.iter().filter(|check| SOURCES.iter().any(|s| s.name == check.what)).collect();
    let sees = sources.iter().any(|check| check.works);
    let best = best(&places).name;
    let verdict = match (moves, sees) {
        (true, true) if !checks[0].works => {
            format!("`homing run` works here, with source {best}, but there is nowhere to move pages to")
        }
        (true, true) => format!("`homing run` works here, with source {best}"),
        (true, false) => "pages can be moved, but nothing tells who uses them: observation only".into(),
        (false, true) => "accesses can be seen, but pages cannot be moved: dry runs only".into(),
        (false, false) => "nothing of the live engine works here".into(),
    };
    if args.json {
        let json = serde_json::json!({ "schema": 1, "checks": checks, "source": best, "verdict": verdict });
        outln!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["", "works", "detail"]);
        for check in &checks {
            table.add_row([check.what, if check.works { "yes" } else { "no" }, &check.detail]);
        }
        outln!("{table}\n\n{verdict}");
    }
    Ok(if moves || sees { Code::OK } else { Code::UNSUPPORTED })
}

fn nodes() -> Check {
    let what = "nodes";
    match Host::read(Path::new("/sys")) {
        Ok(host) if host.nodes() > 1 => {
            Check { what, works: true, detail: format!("{} nodes", host.nodes()) }
        }
        Ok(_) => Check { what, works: false, detail: "one node: there is nowhere to move pages to".into() },
        Err(error) => Check { what, works: false, detail: error.to_string() },
    }
}

/// Asks for a page of our own and moves it to where it is: needs the system call, changes nothing.
fn moving() -> Check {
    let what = "move_pages";
    let (byte, me) = (Box::new(1u8), Pid(std::process::id() as i32));
    let address = [&raw const *byte as u64 & !4095];
    let mut statuses = Vec::new();
    let result = move_pages::query(me, &address, &mut statuses).and_then(|()| {
        let node = statuses[0];
        move_pages::move_to(me, &address, &[node], &mut statuses)
    });
    match (result, statuses.first().copied().map(PageStatus::from)) {
        (Ok(_), Some(PageStatus::On(node))) => {
            Check { what, works: true, detail: format!("asks and moves (a page of ours is on node {node})") }
        }
        (Ok(_), status) => Check { what, works: false, detail: format!("{status:?}") },
        (Err(error), _) => {
            Check { what, works: false, detail: format!("{error}; needs CONFIG_NUMA and CONFIG_MIGRATION") }
        }
    }
}

fn numa_maps() -> Check {
    let me = Pid(std::process::id() as i32);
    let (works, detail) = match Proc::default().numa_maps(me) {
        Ok(ranges) => (true, format!("readable: {} mappings of ours", ranges.len())),
        Err(error) => (false, format!("{error}; `homing top` shows less")),
    };
    Check { what: "numa_maps", works, detail }
}

fn left_over(places: &Places) -> Check {
    let left = places.state.exists();
    let detail = match left {
        true => format!("{} was left by a killed engine: homing doctor --restore", places.state.display()),
        false => "no changed kernel tunables are left over".into(),
    };
    Check { what: "remainders", works: !left, detail }
}

fn kernel_balancing() -> Check {
    let path = hint_faults::Paths::default().switch;
    let (works, detail) = match std::fs::read_to_string(path).map(|text| text.trim().to_owned()) {
        Ok(off) if off == "0" => (true, "off: the kernel moves nothing by itself".into()),
        Ok(mode) => {
            (true, format!("on ({mode}): the kernel moves pages of programs that homing does not sample"))
        }
        Err(_) => (false, "not built in: no hint faults".into()),
    };
    Check { what: "kernel balancing", works, detail }
}
