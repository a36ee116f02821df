//! `homing run --runtime`: the engine runs inside of the program, in libhoming, to which an OpenMP runtime or a
//! preloaded library reports the program's parallel regions. Homing starts the program, waits, and prints what was
//! counted.

use super::hot::Hot;
use super::launch::{end_with, start, wait_for};
use super::{interrupts, Settings};
use crate::exit::{self, cannot_preload, Code, Result};
use crate::files::Over;
use crate::tables::things;
use anyhow::Context;
use homing_linux::files::temporary::TemporaryFolder;
use homing_linux::{ld_preload, libraries, policy, program, visible};
use homing_live::config::Config;
use homing_live::host::Host;
use homing_live::inside::{AT_LOAD_ENV, LIBRARY, SETTINGS_ENV, STATISTICS_ENV};
use serde::Deserialize;
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that stands before GNU's OpenMP runtime.
pub const GOMP: &str = "preload/libhoming-gomp.so";
/// Where OpenMP runtimes look for tools, and whether they do.
const TOOLS_ENV: &str = "OMP_TOOL_LIBRARIES";
const TOOL_ENV: &str = "OMP_TOOL";
/// Smaller mappings and static data are left alone, unless the user says so.
const HOT_AREAS: &str = "256K";

/// Runs the program with the engine inside. It starts with the first parallel region, or when the program does.
pub fn run(settings: &Settings, words: &[OsString], at_load: bool) -> Result {
    let config = settings.inside()?;
    if let Ok(host) = Host::read(Path::new("/sys")) {
        config.fits(&host).map_err(|error| exit::error(Code::USAGE, error.to_string()))?;
    }
    let engine = libraries::find(LIBRARY).context("--runtime needs libhoming (`make runtime`)")?;
    let gomp = libraries::find(GOMP)?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = program::find(&words[0], &path)?;
    let name = visible::name(&words[0].to_string_lossy()).to_string();
    if program::is_static(&program) {
        let message = format!(
            "{name} is linked statically: no engine gets into such a program; leave --runtime or --source protect out"
        );
        return Err(exit::error(Code::UNSUPPORTED, message));
    }
    let folder = TemporaryFolder::new("homing-run-").context("no directory for what is counted")?;
    let caught = interrupts()?;
    let mut command = Command::new(program);
    command
        .args(&words[1..])
        .env(STATISTICS_ENV, folder.path())
        .env(SETTINGS_ENV, inside(settings, &config)?);
    if at_load {
        command.env(AT_LOAD_ENV, "1");
    }
    give_libraries(&mut command, &engine, &gomp)?;
    // The program inherits that, and makes no thread for the CPU.
    if let Some(cpu) = config.engine_cpu.filter(|&cpu| !policy::give_up_cpu(cpu)) {
        errln!("homing: the program and the engine share CPU {cpu}: there is no other one for the program");
    }
    let status = wait_for(start(&mut command, &name)?, &caught)?;
    let told = read(folder.path()).and_then(|processes| tell(settings, &processes, &name));
    Ok(end_with(status, told))
}

/// What the engine inside is to do: without a word of the user's it looks after large areas alone.
fn inside(settings: &Settings, config: &Config) -> anyhow::Result<String> {
    let areas = format!("hot-areas = \"{HOT_AREAS}\"\n");
    Ok(settings.to_toml()? + if config.hot_areas.is_none() { &areas } else { "" })
}

/// Loads libhoming into the program, and what reports the parallel regions of GNU's OpenMP.
pub fn give_libraries(command: &mut Command, engine: &Path, gomp: &Path) -> anyhow::Result<()> {
    let inherited = |name: &str| std::env::var_os(name);
    let with_gomp = ld_preload::variables(gomp, inherited).ok_or_else(|| cannot_preload(gomp))?;
    let before = |name: &str| with_gomp.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
    command.envs(ld_preload::variables(engine, before).ok_or_else(|| cannot_preload(engine))?);
    // Ours is found first; a tool of the user's would be left out, so it stays the only one.
    if inherited(TOOLS_ENV).is_none() {
        command.env(TOOLS_ENV, engine).env(TOOL_ENV, "enabled");
    }
    Ok(())
}

/// What processes left, by their numbers.
fn read(folder: &Path) -> anyhow::Result<Vec<Value>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let parse =
        |path: &PathBuf| -> anyhow::Result<Value> { Ok(serde_json::from_slice(&std::fs::read(path)?)?) };
    files.iter().map(|path| parse(path).with_context(|| path.display().to_string())).collect()
}

fn tell(settings: &Settings, processes: &[Value], name: &str) -> anyhow::Result<()> {
    let all = Value::from(processes);
    if let Some(path) = &settings.summary {
        crate::files::write(path, Over::Json, serde_json::to_string_pretty(&all)?)?;
    }
    if settings.json {
        outln!("{}", serde_json::to_string_pretty(&all)?);
    }
    if settings.quiet || settings.json {
        return Ok(());
    }
    if processes.is_empty() {
        errln!(
            "homing: {name} began no parallel region of OpenMP (GCC's or LLVM's runtime), or ended without `exit`: \
             nothing was moved; `homing run` without --runtime works for any program"
        );
    }
    processes.iter().for_each(|process| errln!("homing: {}", sentence(process)));
    Ok(())
}

/// One process in a few lines.
fn sentence(process: &Value) -> String {
    let number = |field: &str| process[field].as_u64().unwrap_or_default();
    let command = process["command"][0].as_str().unwrap_or_default();
    let file = Path::new(command).file_name().map_or(command.into(), |file| file.to_string_lossy());
    let mut text = format!("{} ({}): ", visible::name(&file), number("pid"));
    if process["status"] != 0 {
        let reason = process["reason"].as_str().unwrap_or_default();
        text += &format!("nothing was moved: {}\n  ", visible::name(reason));
    }
    let period = match process["period"].as_u64() {
        Some(period) => format!(", {} an iteration", things(period, "region")),
        None => String::new(),
    };
    text += &format!(
        "{}, {}{period}",
        things(number("regions"), "parallel region"),
        things(number("iterations"), "iteration"),
    );
    if process["status"] != 0 {
        return text;
    }
    let (local, remote) = (number("samples_local"), number("samples_remote"));
    let share = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    text += &format!(
        "\n  {} ({} refused) among {}",
        things(number("pages_moved"), "page move"),
        number("moves_failed"),
        things(number("pages"), "page"),
    );
    text += &format!(
        "\n  {}, {:.1} % of them of a page that was on another node then; {} scans, {} missed; the manager took \
         {:.2} s of CPU",
        things(local + remote, "page sample"),
        share(remote, local + remote),
        number("scans"),
        number("scans_missed"),
        number("manager_ns") as f64 / 1e9,
    );
    if number("threads_moved") > 0 {
        text += &format!(
            "\n  {} moved to another node, {} sent after them",
            things(number("threads_moved"), "thread"),
            things(number("forwarded"), "page"),
        );
    }
    text += &windows(&process["windows"]);
    // What another version of the library leaves is told as far as it is understood.
    let hot = Hot::deserialize(process).unwrap_or_default();
    hot.lines().iter().for_each(|line| text += &format!("\n  {line}"));
    text
}

/// What source `protect` did to the program, if it was used.
fn windows(windows: &Value) -> String {
    let Some(opened) = windows["windows"].as_u64() else { return String::new() };
    let number = |field: &str| windows[field].as_u64().unwrap_or_default();
    let refused = windows["refused"].as_object();
    let refused = refused.into_iter().flatten().filter_map(|(why, count)| Some((count.as_u64()?, why)));
    let mut refused: Vec<(u64, &String)> = refused.collect();
    refused.sort_unstable_by(|a, b| b.cmp(a));
    let count = refused.iter().map(|(count, _)| count).sum::<u64>();
    let most = refused.first().map_or(String::new(), |(_, why)| format!(", most since {why}"));
    format!(
        "\n  pages were protected in {} ({count} refused{most}), {} caught; threads waited {} times for {:.3} s in all",
        things(opened, "window"),
        things(number("caught"), "fault"),
        number("waits"),
        number("waited_ns") as f64 / 1e9,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_in_a_few_lines() {
        let mut process = serde_json::json!({
            "pid": 7, "command": ["/x/app", "1"], "status": 0, "reason": "", "regions": 30, "period": 3,
            "iterations": 8, "samples_local": 30, "samples_remote": 10, "pages": 20, "pages_moved": 8,
            "moves_failed": 1, "scans": 4, "threads_moved": 2, "forwarded": 7,
            "scans_missed": 2, "manager_ns": 1_500_000_000_u64,
            "resident_pages": 50, "areas": [{"name": "u", "start": 4096, "bytes": 8192, "stays": false, "local": 30,
                "remote": 10, "pages": 2, "eligible": 2, "migrated": 1, "frozen": 1, "moves": 8}],
            "by_iteration": [{"iteration": 1, "moves": 2, "local": 0, "remote": 1, "remote_by_area": []},
                {"iteration": 2, "moves": 6, "local": 1, "remote": 5, "remote_by_area": [5]}],
        });
        let text = sentence(&process);
        for part in [
            "app (7): 30 parallel regions, 8 iterations, 3 regions an iteration",
            "8 page moves (1 refused) among 20 pages\n",
            "50 pages in memory, 2 in hot areas; 1 of 2 eligible pages moved (50 %), 1 frozen; 75 % of all moves",
            "40 page samples, 25.0 % of them of a page that was on another node then; 4 scans, 2 missed; the manager \
             took 1.50 s",
        ] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("2 threads moved to another node, 7 pages sent after them"), "{text}");
        process["windows"] = serde_json::json!({
            "windows": 5, "caught": 40, "waits": 3, "waited_ns": 2_000_000, "refused": {"a": 1, "b": 4},
        });
        let text = sentence(&process);
        let part =
            "in 5 windows (5 refused, most since b), 40 faults caught; threads waited 3 times for 0.002 s";
        assert!(text.contains(part), "{text}");
        process["status"] = 1.into();
        process["reason"] = "the machine has one memory node".into();
        let text = sentence(&process);
        assert!(text.contains("nothing was moved: the machine has one memory node"), "{text}");
        assert!(!text.contains("scans"), "{text}");
    }
}
