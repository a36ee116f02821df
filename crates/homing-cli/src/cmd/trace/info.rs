//! `homing trace info`: what a trace holds and whether it is whole.

use super::show_some;
use crate::exit::{Code, Result};
use crate::progress;
use comfy_table::{presets, CellAlignment, Table};
use homing_core::areas::name_sites;
use homing_core::trace::info::Info;
use homing_core::trace::{Grain, Header, Summary, Trace};
use homing_linux::visible;
use homing_pipeline::TraceFile;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `homing trace info`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Letters of a call site that the table shows.
const SITE_LETTERS: usize = 90;
/// Files of code that are shown.
const FILES: usize = 4;
/// Call sites that are shown.
const SITES: usize = 10;

/// Shows the facts; exit code 5 if a part of the recording is not there.
pub fn run(args: Args) -> Result {
    let file = TraceFile::open(&args.trace)?;
    let trace = file.trace()?;
    let progress = progress::references(trace.references(), "reading");
    let info = Info::of(&trace, |references| progress.inc(references));
    progress.finish_and_clear();
    if args.json {
        crate::stdout::json(json(&trace, &info))?;
    } else {
        outln!("{}", tables(&trace, &info));
    }
    if info.damage.is_empty() {
        return Ok(if trace.is_partial() { Code::PARTIAL } else { Code::OK });
    }
    show_some("damage", info.damage.len() as u64, info.damage.iter().map(ToString::to_string));
    let lost = match (info.lost(), info.unordered) {
        (0, 0) => "no reference is lost to damage".to_owned(),
        (0, unordered) => {
            format!("no reference is lost to damage, but the places of {unordered} in the order")
        }
        (lost, 0) => format!("{lost} references are lost to damage"),
        (lost, unordered) => {
            format!("{lost} references are lost to damage, and the places of {unordered} in the order")
        }
    };
    errln!(
        "homing: {}: {lost}; `homing trace recover` makes a whole trace of what is there",
        args.trace.display()
    );
    Ok(Code::PARTIAL)
}

/// The allocations with the most bytes: what they are called, how many, bytes.
fn top_sites(trace: &Trace<'_>, info: &Info) -> Vec<(String, u64, u64)> {
    let bytes = info.counts.sites.iter().map(|(&site, &(_, bytes))| (site, bytes)).collect();
    let mut called: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (site, name) in name_sites(trace.names(), &bytes) {
        let (count, bytes) = info.counts.sites[&site];
        let all = called.entry(name).or_default();
        *all = (all.0 + count, all.1.saturating_add(bytes));
    }
    let mut sites: Vec<_> = called.into_iter().map(|(name, (count, bytes))| (name, count, bytes)).collect();
    sites.sort_by(|a, b| (b.2, b.1, &a.0).cmp(&(a.2, a.1, &b.0)));
    sites.truncate(SITES);
    sites
}

/// How many allocations, and of how many bytes.
fn allocations(info: &Info) -> (u64, u64) {
    info.counts
        .sites
        .values()
        .fold((0, 0), |all, &(count, bytes)| (all.0 + count, all.1.saturating_add(bytes)))
}

fn bytes_per_reference(trace: &Trace<'_>, info: &Info) -> f64 {
    trace.file_bytes() as f64 / info.summary.references.max(1) as f64
}

fn json(trace: &Trace<'_>, info: &Info) -> Value {
    let (header, summary) = (trace.header(), &info.summary);
    let (count, bytes) = allocations(info);
    let sites = top_sites(trace, info)
        .into_iter()
        .map(|(site, count, bytes)| json!({ "site": site, "count": count, "bytes": bytes }));
    let threads = info
        .threads
        .iter()
        .map(|t| json!({ "thread": t.thread, "references": t.references, "lost": t.lost }));
    let damage = info.damage.iter().map(
        |d| json!({ "offset": d.offset, "reason": d.reason, "thread": d.thread, "references": d.references }),
    );
    json!({
        "references": summary.references,
        "reads": summary.reads,
        "writes": summary.writes,
        "atomics": summary.atomics,
        "bytes_accessed": summary.bytes_accessed,
        "threads": info.threads.len(),
        "pages": summary.frames,
        "bytes": trace.file_bytes(),
        "bytes_per_reference": bytes_per_reference(trace, info),
        "recorder": header.recorder,
        "recorder_version": header.recorder_version,
        "command": header.command,
        "host": header.host,
        "header": header.more,
        "complete": !trace.is_partial() && info.damage.is_empty(),
        "ordered": trace.ordered(),
        "grain": header.grain.bytes(),
        "by_file": summary.by_file,
        "ending": summary.ending,
        "filter": header.filter,
        "filtered": summary.filtered,
        "skipped": summary.skipped,
        "beyond_limit": summary.beyond_limit,
        "outside": summary.outside,
        "first_touches": summary.first_touches,
        "windows": summary.windows,
        "window_words": summary.window_words,
        "unseen_words": summary.unseen_words,
        "dropped": summary.lost,
        "lost_segments": summary.lost_segments,
        "malformed": summary.malformed,
        "per_thread": threads.collect::<Vec<_>>(),
        "events": info.counts.events.iter().map(|(&k, &n)| (k.to_owned(), n.into())).collect::<serde_json::Map<_, _>>(),
        "allocations": {
            "count": count, "bytes": bytes, "sites": info.counts.sites.len(), "top": sites.collect::<Vec<_>>()
        },
        "names": trace.names().len(),
        "symbols": trace.symbols().len(),
        "damage": damage.collect::<Vec<_>>(),
        "damaged_references": info.lost(),
        "unordered_references": info.unordered,
    })
}

/// The region of interest that was recorded, as the user named it.
fn region(header: &Header) -> Option<String> {
    let function = |key: &str| header.more.get(key)?.as_str().map(|name| format!("{key} {name}"));
    let ends: Vec<String> = ["from", "to"].into_iter().filter_map(function).collect();
    (!ends.is_empty()).then(|| ends.join(" "))
}

/// The files whose code makes most of the references, with their shares.
fn files(summary: &Summary) -> String {
    let mut files: Vec<(&str, u64)> =
        summary.by_file.iter().map(|(file, &count)| (&file[..], count)).collect();
    files.sort_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
    let further: u64 = files.iter().skip(FILES).map(|(_, count)| count).sum();
    let share = |(file, count): &(&str, u64)| {
        let file = if file.is_empty() { "no file" } else { file };
        format!("{file} {:.1} %", 100.0 * *count as f64 / summary.references.max(1) as f64)
    };
    let mut shares: Vec<String> = files.iter().take(FILES).map(share).collect();
    if further > 0 {
        shares.push(share(&("others", further)));
    }
    shares.join(", ")
}

/// How fine addresses are.
fn grain(header: &Header) -> &'static str {
    match header.grain {
        Grain::Byte => "byte: each reference has its address",
        Grain::Page => "page: each reference has the address of its page (4096 bytes) alone",
    }
}

/// What `--skip` and `--limit` left out.
fn not_recorded(header: &Header, summary: &Summary) -> String {
    let first = match region(header) {
        None if summary.first_touches > 0 => {
            format!(" ({} first touches kept)", grouped(summary.first_touches))
        }
        _ => String::new(),
    };
    // Recording stops soon after the limit.
    let least = if summary.beyond_limit > 0 { "at least " } else { "" };
    let (before, after) = (grouped(summary.skipped), grouped(summary.beyond_limit));
    format!("{before} references before{first}, {least}{after} after")
}

fn tables(trace: &Trace<'_>, info: &Info) -> String {
    let (header, summary) = (trace.header(), &info.summary);
    let mut table = plain();
    let mut row = |name: &str, value: String| {
        table.add_row([name, &visible::name(&value)]);
    };
    row("command", header.command.join(" "));
    row("recorder", format!("{} {}", header.recorder, header.recorder_version));
    if header.more.contains_key("attached") {
        row("begun", "while the program ran (--pid)".to_owned());
    }
    row("references", grouped(summary.references));
    row("reads", grouped(summary.reads));
    row("writes", format!("{} ({} atomic)", grouped(summary.writes), grouped(summary.atomics)));
    row("threads", grouped(info.threads.len() as u64));
    row("pages", format!("{} of 4 KiB", grouped(summary.frames.into())));
    let each = bytes_per_reference(trace, info);
    let each = if summary.references > 0 { format!(", {each:.3} per reference") } else { String::new() };
    row("file", format!("{} bytes{each}", grouped(trace.file_bytes())));
    let order = if trace.ordered() { "part of the order is missing" } else { "no order" };
    let unfinished = format!("no ({order}): complete it with `homing trace recover`");
    let complete = match (trace.complete(), info.damage.is_empty()) {
        (true, true) if header.recovered_lost().is_some() => {
            let missing = grouped(header.recovered_lost().unwrap_or_default());
            format!("no (recovered: {missing} references are known to be missing)")
        }
        (true, true) if trace.awaits_order() => {
            "yes (the first command that needs an order makes it)".to_owned()
        }
        (true, true) => "yes".to_owned(),
        (true, false) => "no (damaged): see below".to_owned(),
        (false, _) => unfinished,
    };
    row("complete", complete);
    row("grain", grain(header).to_owned());
    row("filter", format!("{}, {} references filtered out", header.filter, grouped(summary.filtered)));
    if header.more.get("only_program").is_some_and(|only| *only == true) {
        row("code", "the program's own; that of system libraries is left out".to_owned());
    }
    if !summary.by_file.is_empty() {
        row("code of", files(summary));
    }
    if summary.skipped + summary.beyond_limit > 0 {
        row("not recorded", not_recorded(header, summary));
    }
    if let Some(region) = region(header) {
        let (outside, first) = (grouped(summary.outside), grouped(summary.first_touches));
        row("region", format!("{region}: {outside} references outside left out, {first} first touches kept"));
    }
    if let Some(windows) = header.windows() {
        let share = summary.share_in_windows().map_or(String::new(), |share| {
            format!(", with {:.2} % of what the program did up to the last", 100.0 * share)
        });
        row("windows", format!("{} ({windows}){share}", grouped(summary.windows.into())));
    }
    row(
        "dropped",
        format!("{} references, {} segments", grouped(summary.lost), grouped(summary.lost_segments)),
    );
    let (count, bytes) = allocations(info);
    let sites = grouped(info.counts.sites.len() as u64);
    row("allocations", format!("{}, {} bytes, {sites} call sites", grouped(count), grouped(bytes)));
    row("symbols", format!("{} data symbols, {} names", trace.symbols().len(), trace.names().len()));
    let mut events: Vec<_> =
        info.counts.events.iter().map(|(kind, n)| format!("{kind} {}", grouped(*n))).collect();
    events.sort();
    row("events", events.join(", "));
    let mut text = table.to_string();

    let mut table = plain();
    table.set_header(["thread", "references", "lost"]);
    for thread in &info.threads {
        table.add_row([thread.thread.to_string(), grouped(thread.references), grouped(thread.lost)]);
    }
    right_align(&mut table, 0..3);
    text += &format!("\n\n{table}");

    let top = top_sites(trace, info);
    if !top.is_empty() {
        let mut table = plain();
        table.set_header(["bytes", "allocations", "call site"]);
        top.iter().for_each(|(site, count, bytes)| {
            table.add_row([grouped(*bytes), grouped(*count), shortened(site)]);
        });
        right_align(&mut table, 0..2);
        text += &format!("\n\n{}", table.trim_fmt());
    }
    text
}

/// A call site that fits on a line: C++ names may have thousands of letters. `--json` has them whole.
fn shortened(site: &str) -> String {
    let site = visible::name(site);
    match site.char_indices().nth(SITE_LETTERS) {
        Some((end, _)) => format!("{}...", &site[..end]),
        None => site.into_owned(),
    }
}

fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table
}

fn right_align(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// A number with its thousands set apart by a space: `1 234 567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1 000"), (1_234_567, "1 234 567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
