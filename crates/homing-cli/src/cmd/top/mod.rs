//! `homing top`: where pages and threads are, on a terminal page or once as a table or JSON. Looks, and changes
//! nothing.

mod app;
mod cells;
mod details;
mod draw;
mod page;
mod text;

use crate::cmd::live::duration;
use crate::exit::{self, Code, Result};
use anyhow::Context;
use app::{App, Sort};
use homing_linux::proc::{Pid, Proc};
use homing_linux::terminal;
use homing_live::host::Host;
use homing_live::observe::{Observer, Wanted};
use std::path::Path;
use std::time::Duration;

/// Arguments of `homing top`.
#[derive(clap::Args, Debug)]
#[command(
    after_long_help = "RESID % is residency: the share of a process's resident pages on the nodes where its threads \
    run. It \
says where pages are, not who uses them: `homing attach --dry-run` tells that. Keys: h shows them. Processes of other \
users show their pages only to root (or with CAP_SYS_PTRACE). \
docs/top.md has the columns."
)]
pub struct Args {
    /// Only this process; may be given several times
    #[arg(long, value_name = "N")]
    pid: Vec<i32>,
    /// Time between looks
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2s")]
    interval: Duration,
    /// Print one table to stdout and end: two looks, an interval apart
    #[arg(long)]
    once: bool,
    /// As --once, as JSON
    #[arg(long)]
    json: bool,
    /// Sort by
    #[arg(long, value_enum, default_value = "cpu")]
    sort: Sort,
    /// Only processes whose name, command or number contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Most processes in the table of --once
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Most time that looking at pages may take, in percent of one CPU
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    budget: f64,
}

fn percent(text: &str) -> std::result::Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| *value > 0.0 && *value <= 100.0);
    value.ok_or_else(|| format!("`{text}`: expected percent of one CPU, above 0, at most 100"))
}

/// Looks.
pub fn run(args: Args) -> Result {
    if args.interval < Duration::from_millis(10) {
        let message = format!("--interval {:?}: expected 10ms or more", args.interval);
        return Err(exit::error(Code::USAGE, message));
    }
    let host = Host::read(Path::new("/sys")).map_err(|e| exit::error(Code::UNSUPPORTED, e.to_string()))?;
    let only: Vec<Pid> = args.pid.iter().copied().map(Pid).collect();
    if let Some(pid) = only.iter().find(|&&pid| Proc::default().process_stat(pid).is_err()) {
        return Err(exit::error(Code::FAILURE, format!("process {pid} does not exist")));
    }
    let mut app = App::new(only, args.sort, args.filter.clone());
    if args.once || args.json {
        return once(&args, host, app);
    }
    if !terminal::is_there() {
        let message =
            "standard input and output are no terminal: expected one for the page; `homing top --once` \
        prints a table, \
                       `--json` the same for programs";
        return Err(exit::error(Code::USAGE, message));
    }
    let observer = Observer::new(Proc::default(), host, args.budget / 100.0);
    page::run(observer, &mut app, args.interval)?;
    Ok(Code::OK)
}

/// Two looks and a table. What it costs is spent once, so there is no budget.
fn once(args: &Args, host: Host, mut app: App) -> Result {
    let mut observer = Observer::new(Proc::default(), host, f64::INFINITY);
    let selected = (args.pid.len() == 1).then(|| Pid(args.pid[0]));
    let mut first = observer.look(&app.only).context("cannot look at processes")?;
    // With a few processes also the first look sees their threads, and the second which of them ran.
    observer.inspect(&Wanted { visible: app.only.clone(), ..Wanted::default() }, &mut first);
    std::thread::sleep(args.interval);
    app.set(observer.look(&app.only).context("cannot look at processes")?);
    let visible = app.rows().iter().filter_map(|row| row.pid).take(args.limit).collect();
    observer.inspect(&Wanted { selected, visible, others: false }, &mut app.snapshot);
    if args.json {
        let listed: Vec<_> = app.rows().into_iter().cloned().collect();
        app.snapshot.processes = listed;
        outln!("{}", serde_json::to_string_pretty(&app.snapshot)?);
    } else {
        out!("{}", text::page(&app, args.limit));
    }
    Ok(Code::OK)
}
