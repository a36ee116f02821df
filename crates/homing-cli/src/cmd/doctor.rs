//! `homing doctor`: what works on this machine for the live engine, and what is missing; what is wrong with how the
//! machine or a process is set up.

use crate::exit::{self, Code, Result};
use crate::files::Target;
use anyhow::Context;
use comfy_table::{presets, Table};
use homing_linux::move_pages::{self, PageStatus};
use homing_linux::proc::{Pid, Proc, ProcError};
use homing_linux::{hint_faults, tunables, visible};
use homing_live::contribute::{secrets, Bundle};
use homing_live::host::Host;
use homing_live::jobs::journal;
use homing_live::keep;
use homing_live::lint::{self, Finding, Roots, Sure};
use homing_live::source::{best, Places, SOURCES};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `homing doctor`.
#[derive(clap::Args)]
pub struct Args {
    /// Put back what a killed engine or a killed `homing sched run` left changed
    #[arg(long)]
    restore: bool,
    /// Look at how this process is set up, not at what works
    #[arg(long, value_name = "PID", conflicts_with = "restore", value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
    /// Write what this machine is to a new file that you can send: no names, no paths, up to 1000 samples of a PMU
    ///
    /// What is in it is printed. An existing file is not replaced.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["restore", "pid", "json"])]
    contribute: Option<PathBuf>,
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
    if let Some(pid) = args.pid {
        return of_process(Pid(pid), args.json);
    }
    if let Some(path) = &args.contribute {
        return contribute(path);
    }
    let places = Places::default();
    let mut whole = true;
    if args.restore {
        whole = restore(&places)?;
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
    let best = best(&places);
    let (best, sees) = (best.name, best.sees());
    let verdict = match (moves, sees) {
        (true, true) if !checks[0].works => {
            format!("`homing run` works here, with source {best}, but there is nowhere to move pages to")
        }
        (true, true) => format!("`homing run` works here, with source {best}"),
        (true, false) => {
            "pages can be moved, but nothing tells `homing run` who uses them: it starts programs without \
                          the engine; `homing run --source protect` needs no right"
                .into()
        }
        (false, true) => "accesses can be seen, but pages cannot be moved: dry runs only".into(),
        (false, false) => "nothing of the live engine works here".into(),
    };
    // Where nodes cannot be read the first check says why.
    let findings = lint::machine(&Roots::default()).unwrap_or_default();
    if args.json {
        let json = serde_json::json!({
            "schema": 1, "checks": checks, "source": best, "verdict": verdict, "findings": findings
        });
        outln!("{}", serde_json::to_string_pretty(&json)?);
    } else {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_header(["", "works", "detail"]);
        for check in &checks {
            table.add_row([check.what, if check.works { "yes" } else { "no" }, &check.detail]);
        }
        outln!("{table}\n\n{verdict}");
        print_findings(&findings)?;
    }
    Ok(match (whole, moves || sees) {
        (false, _) => Code::PARTIAL,
        (true, true) => Code::OK,
        (true, false) => Code::UNSUPPORTED,
    })
}

/// Puts back what killed engines and schedulers left. Returns whether all of it could be.
fn restore(places: &Places) -> anyhow::Result<bool> {
    let tunables = tunables::restore(&places.state)?;
    errln!("homing: {} kernel tunables put back", tunables.count);
    let kept = keep::restore()?;
    errln!("homing: {} threads that killed engines had pinned were unpinned", kept.count);
    let jobs = journal::restore()?;
    errln!("homing: jobs of {} killed schedulers go on, on all CPUs", jobs.count);
    let troubles = [tunables.troubles, kept.troubles, jobs.troubles].concat();
    troubles.iter().for_each(|trouble| errln!("homing: not put back: {trouble}"));
    Ok(troubles.is_empty())
}

/// Writes the bundle, and says what is in it.
fn contribute(path: &Path) -> Result {
    let target = Target::of(path)?;
    // Before anything is sampled.
    if target.facts().is_some() {
        let message =
            format!("--contribute {}: the file is there already: expected a new name", path.display());
        return Err(exit::error(Code::USAGE, message));
    }
    let roots = Roots::default();
    let bundle = Bundle::gather(&roots, &Places::default(), env!("CARGO_PKG_VERSION"));
    let (text, removed) = bundle.text(&secrets(&roots.proc))?;
    let written = target.create_new().and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    outln!("{} has {} bytes of JSON:", path.display(), text.len());
    for line in bundle.contents() {
        outln!("  {}", visible::name(&line));
    }
    outln!(
        "No name of the machine or of a user, no path, no address of a program is in it ({removed} texts had one, \
         which was taken out).\nRead it before you send it: it is text."
    );
    Ok(Code::OK)
}

/// What is wrong with how a process is set up.
fn of_process(pid: Pid, json: bool) -> Result {
    let findings = lint::process(&Roots::default(), pid).map_err(|error| {
        let code = match &error {
            ProcError::Denied { .. } => Code::PERMISSION,
            _ => Code::FAILURE,
        };
        exit::error(code, format!("process {pid}: {error}"))
    })?;
    if json {
        let json = serde_json::json!({ "schema": 1, "pid": pid.0, "findings": findings });
        outln!("{}", serde_json::to_string_pretty(&json)?);
    } else if findings.is_empty() {
        outln!("nothing is wrong with how process {pid} is set up, as far as the kernel's files say it");
    } else {
        print_findings(&findings)?;
    }
    Ok(Code::OK)
}

/// What is found, what to do, and how sure it is.
fn print_findings(findings: &[Finding]) -> anyhow::Result<()> {
    for finding in findings {
        let sure = match finding.sure {
            Sure::Certain => "certain",
            Sure::Likely => "likely",
            Sure::Possible => "possible",
        };
        let Finding { name, what, evidence, advice, .. } = finding;
        outln!("\n{name} ({sure}): {what}\n  found: {evidence}\n  to do: {advice}");
    }
    Ok(())
}

fn nodes() -> Check {
    let what = "nodes";
    match Host::read(Path::new("/sys")) {
        Ok(host) if host.has_remote_memory() => {
            Check { what, works: true, detail: format!("{} nodes", host.nodes()) }
        }
        Ok(host) if host.nodes() > 1 => {
            let detail = format!("{} nodes at the same distance: no memory is remote", host.nodes());
            Check { what, works: false, detail }
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
